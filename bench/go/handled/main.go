// An operator with controller-runtime, of the same function as bench/handlers/handled.py:
// what is specified is kept in an annotation of each KopfExample, by one merge patch an object.
// With -typed, objects are decoded into a structure, as usual; otherwise, into maps, as ours.
package main

import (
	"context"
	"encoding/json"
	"flag"
	"os"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/clientcmd"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/log/zap"
	"sigs.k8s.io/controller-runtime/pkg/metrics/server"
)

const (
	annotation = "bench.kopf.dev/handled"
	workers    = 10
)

var version = schema.GroupVersion{Group: "kopf.dev", Version: "v1"}

type KopfExample struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`
	Spec              map[string]string `json:"spec,omitempty"`
	Status            map[string]string `json:"status,omitempty"`
}

func (in *KopfExample) DeepCopyObject() runtime.Object {
	out := *in
	in.ObjectMeta.DeepCopyInto(&out.ObjectMeta)
	out.Spec, out.Status = copied(in.Spec), copied(in.Status)
	return &out
}

type KopfExampleList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []KopfExample `json:"items"`
}

func (in *KopfExampleList) DeepCopyObject() runtime.Object {
	out := *in
	in.ListMeta.DeepCopyInto(&out.ListMeta)
	out.Items = make([]KopfExample, len(in.Items))
	for i := range in.Items {
		out.Items[i] = *in.Items[i].DeepCopyObject().(*KopfExample)
	}
	return &out
}

func copied(in map[string]string) map[string]string {
	if in == nil {
		return nil
	}
	out := make(map[string]string, len(in))
	for key, value := range in {
		out[key] = value
	}
	return out
}

type reconciler struct {
	client.Client
	isTyped bool
}

func (r *reconciler) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	obj := newObject(r.isTyped)
	if err := r.Get(ctx, req.NamespacedName, obj); err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	spec, err := json.Marshal(specOf(obj))
	if err != nil || obj.GetAnnotations()[annotation] == string(spec) {
		return ctrl.Result{}, err
	}
	body, err := json.Marshal(map[string]any{
		"metadata": map[string]any{"annotations": map[string]string{annotation: string(spec)}},
	})
	if err != nil {
		return ctrl.Result{}, err
	}
	return ctrl.Result{}, client.IgnoreNotFound(r.Patch(ctx, obj, client.RawPatch(types.MergePatchType, body)))
}

func specOf(obj client.Object) any {
	switch one := obj.(type) {
	case *KopfExample:
		return one.Spec
	case *unstructured.Unstructured:
		return one.Object["spec"]
	}
	return nil
}

func newObject(isTyped bool) client.Object {
	if isTyped {
		return &KopfExample{}
	}
	obj := &unstructured.Unstructured{}
	obj.SetGroupVersionKind(version.WithKind("KopfExample"))
	return obj
}

func main() {
	kubeconfig := flag.String("config", os.Getenv("KUBECONFIG"), "the path of the kubeconfig")
	isTyped := flag.Bool("typed", false, "decode the objects into a structure")
	flag.Parse()
	ctrl.SetLogger(zap.New(zap.WriteTo(os.Stderr)))
	config, err := clientcmd.BuildConfigFromFlags("", *kubeconfig)
	must(err)
	config.QPS, config.Burst = -1, -1 // not limited by the client, the same as ours
	scheme := runtime.NewScheme()
	scheme.AddKnownTypes(version, &KopfExample{}, &KopfExampleList{})
	metav1.AddToGroupVersion(scheme, version)
	mgr, err := ctrl.NewManager(config, ctrl.Options{
		Scheme:  scheme,
		Metrics: server.Options{BindAddress: "0"},
		Client:  client.Options{Cache: &client.CacheOptions{Unstructured: true}},
	})
	must(err)
	must(ctrl.NewControllerManagedBy(mgr).Named("handled").For(newObject(*isTyped)).
		WithOptions(controller.Options{MaxConcurrentReconciles: workers}).
		Complete(&reconciler{mgr.GetClient(), *isTyped}))
	must(mgr.Start(ctrl.SetupSignalHandler()))
}

func must(err error) {
	if err != nil {
		log.Log.Error(err, "cannot run")
		os.Exit(1)
	}
}
