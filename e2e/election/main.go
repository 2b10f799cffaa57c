// A candidate in an election with client-go: it prints what happens to it, and does nothing else.
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	coordination "k8s.io/client-go/kubernetes/typed/coordination/v1"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/tools/leaderelection"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
)

// The arguments: the namespace, the name, the identity, and the times as "15s".
func main() {
	config, err := clientcmd.BuildConfigFromFlags("", os.Getenv("KUBECONFIG"))
	if err != nil {
		panic(err)
	}
	ctx, cancel := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer cancel()
	leaderelection.RunOrDie(ctx, leaderelection.LeaderElectionConfig{
		Lock: &resourcelock.LeaseLock{
			LeaseMeta:  metav1.ObjectMeta{Namespace: os.Args[1], Name: os.Args[2]},
			Client:     coordination.NewForConfigOrDie(config),
			LockConfig: resourcelock.ResourceLockConfig{Identity: os.Args[3]},
		},
		LeaseDuration:   parse(os.Args[4]),
		RenewDeadline:   parse(os.Args[5]),
		RetryPeriod:     parse(os.Args[6]),
		ReleaseOnCancel: true,
		Callbacks: leaderelection.LeaderCallbacks{
			OnStartedLeading: func(context.Context) { fmt.Println("leading") },
			OnStoppedLeading: func() { fmt.Println("stopped") },
			OnNewLeader:      func(identity string) { fmt.Println("leader", identity) },
		},
	})
}

func parse(text string) time.Duration {
	duration, err := time.ParseDuration(text)
	if err != nil {
		panic(err)
	}
	return duration
}
