// Command kube-apiserver is the upstream API server, started from its own published package.
package main

import (
	"os"
	_ "time/tzdata" // time zones of CronJobs are validated also where the system has none

	"k8s.io/component-base/cli"
	_ "k8s.io/component-base/logs/json/register"
	"k8s.io/kubernetes/cmd/kube-apiserver/app"
)

func main() {
	os.Exit(cli.Run(app.NewAPIServerCommand()))
}
