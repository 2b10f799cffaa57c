// Command kube-controller-manager is the upstream controller manager, started from its own
// published package. The test clusters run only its namespace and garbage-collector controllers.
package main

import (
	"os"
	_ "time/tzdata" // time zones of CronJobs are validated also where the system has none

	"k8s.io/component-base/cli"
	_ "k8s.io/component-base/logs/json/register"
	"k8s.io/kubernetes/cmd/kube-controller-manager/app"
)

func main() {
	os.Exit(cli.Run(app.NewControllerManagerCommand()))
}
