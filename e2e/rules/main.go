// Checks the files of alert rules the way `promtool check rules` does: by the parser of Prometheus.
package main

import (
	"fmt"
	"os"

	"github.com/prometheus/prometheus/model/rulefmt"
)

func main() {
	failed := false
	for _, path := range os.Args[1:] {
		_, errs := rulefmt.ParseFile(path, false)
		for _, err := range errs {
			failed = true
			fmt.Printf("%s: %v\n", path, err)
		}
	}
	if failed {
		os.Exit(1)
	}
}
