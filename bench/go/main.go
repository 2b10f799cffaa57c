// An operator with controller-runtime, of the same function as bench/handlers/owners.py:
// a ConfigMap and a Secret for every KopfExample, from the cache, applied by the server-side apply
// only if they differ, and a condition in the status of their owner.
package main

import (
	"context"
	"encoding/base64"
	"flag"
	"os"
	"reflect"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/log/zap"
	"sigs.k8s.io/controller-runtime/pkg/metrics/server"
)

const manager = "bench-go"

var ownerKind = schema.GroupVersionKind{Group: "kopf.dev", Version: "v1", Kind: "KopfExample"}

type reconciler struct{ client.Client }

func (r *reconciler) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	owner := &unstructured.Unstructured{}
	owner.SetGroupVersionKind(ownerKind)
	if err := r.Get(ctx, req.NamespacedName, owner); err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	value, _, _ := unstructured.NestedString(owner.Object, "spec", "value")
	config := &corev1.ConfigMap{
		TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "ConfigMap"},
		ObjectMeta: meta(owner),
		Data:       map[string]string{"value": value},
	}
	secret := &corev1.Secret{
		TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "Secret"},
		ObjectMeta: meta(owner),
		Data:       map[string][]byte{"value": []byte(base64.StdEncoding.EncodeToString([]byte(value)))},
	}
	var liveConfig corev1.ConfigMap
	err := r.Get(ctx, req.NamespacedName, &liveConfig)
	if client.IgnoreNotFound(err) != nil {
		return ctrl.Result{}, err
	}
	if err != nil || !reflect.DeepEqual(liveConfig.Data, config.Data) || !isAdopted(&liveConfig, config) {
		if err := r.apply(ctx, config); err != nil {
			return ctrl.Result{}, err
		}
	}
	var liveSecret corev1.Secret
	err = r.Get(ctx, req.NamespacedName, &liveSecret)
	if client.IgnoreNotFound(err) != nil {
		return ctrl.Result{}, err
	}
	if err != nil || !reflect.DeepEqual(liveSecret.Data, secret.Data) || !isAdopted(&liveSecret, secret) {
		if err := r.apply(ctx, secret); err != nil {
			return ctrl.Result{}, err
		}
	}
	return ctrl.Result{}, r.setReady(ctx, owner, value)
}

func (r *reconciler) apply(ctx context.Context, obj client.Object) error {
	return r.Patch(ctx, obj, client.Apply, client.FieldOwner(manager), client.ForceOwnership)
}

// The status is written only if it differs.
func (r *reconciler) setReady(ctx context.Context, owner *unstructured.Unstructured, value string) error {
	conditions, _, _ := unstructured.NestedSlice(owner.Object, "status", "conditions")
	for _, item := range conditions {
		known, _ := item.(map[string]any)
		if known["type"] == "Ready" && known["status"] == "True" && known["message"] == value {
			return nil
		}
	}
	base := owner.DeepCopy()
	condition := map[string]any{
		"type": "Ready", "status": "True", "reason": "Ready", "message": value,
		"observedGeneration": owner.GetGeneration(),
		"lastTransitionTime": metav1.Now().UTC().Format("2006-01-02T15:04:05Z"),
	}
	status := map[string]any{
		"observedGeneration": owner.GetGeneration(),
		"conditions":         []any{condition},
	}
	if err := unstructured.SetNestedMap(owner.Object, status, "status"); err != nil {
		return err
	}
	return client.IgnoreNotFound(r.Status().Patch(ctx, owner, client.MergeFrom(base)))
}

func meta(owner *unstructured.Unstructured) metav1.ObjectMeta {
	return metav1.ObjectMeta{
		Name:      owner.GetName(),
		Namespace: owner.GetNamespace(),
		Labels:    map[string]string{"app.kubernetes.io/managed-by": manager},
		OwnerReferences: []metav1.OwnerReference{{
			APIVersion: owner.GetAPIVersion(), Kind: owner.GetKind(), Name: owner.GetName(),
			UID: owner.GetUID(), Controller: ptr.To(true), BlockOwnerDeletion: ptr.To(true),
		}},
	}
}

func isAdopted(live, wanted client.Object) bool {
	return reflect.DeepEqual(live.GetOwnerReferences(), wanted.GetOwnerReferences()) &&
		live.GetLabels()["app.kubernetes.io/managed-by"] == manager
}

func main() {
	kubeconfig := flag.String("config", os.Getenv("KUBECONFIG"), "the path of the kubeconfig")
	flag.Parse()
	ctrl.SetLogger(zap.New(zap.WriteTo(os.Stderr)))
	config, err := clientcmd.BuildConfigFromFlags("", *kubeconfig)
	must(err)
	config.QPS, config.Burst = -1, -1 // not limited by the client, the same as ours
	scheme := runtime.NewScheme()
	must(clientgoscheme.AddToScheme(scheme))
	mgr, err := ctrl.NewManager(config, ctrl.Options{
		Scheme:  scheme,
		Metrics: server.Options{BindAddress: "0"},
		Client:  client.Options{Cache: &client.CacheOptions{Unstructured: true}},
	})
	must(err)
	owner := &unstructured.Unstructured{}
	owner.SetGroupVersionKind(ownerKind)
	must(ctrl.NewControllerManagedBy(mgr).Named("owners").For(owner).
		Owns(&corev1.ConfigMap{}).Owns(&corev1.Secret{}).
		Complete(&reconciler{mgr.GetClient()}))
	must(mgr.Start(ctrl.SetupSignalHandler()))
}

func must(err error) {
	if err != nil {
		log.Log.Error(err, "cannot run")
		os.Exit(1)
	}
}
