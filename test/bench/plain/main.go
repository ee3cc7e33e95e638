// Command plain is a PodSet operator as a tutorial has it. It was written for the comparison in test/bench, is not part of
// the operator and is shipped with nothing: pods are listed by a label from the manager's cache, names are left to the API
// server, each reconcile adds or removes one pod and writes the status, and nothing waits until the cache shows a write.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/healthz"
	"sigs.k8s.io/controller-runtime/pkg/log/zap"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"example.com/podset-operator/api/v1alpha1"
	"example.com/podset-operator/internal/manager"
)

func main() {
	metrics := flag.String("metrics-bind-address", "0", "address of the metrics endpoint")
	probes := flag.String("health-probe-bind-address", "0", "address of /readyz")
	flag.Parse() // controller-runtime has added --kubeconfig
	ctrl.SetLogger(zap.New())
	if err := run(*metrics, *probes); err != nil {
		fmt.Fprintln(os.Stderr, "plain:", err)
		os.Exit(1)
	}
}

func run(metrics, probes string) error {
	config, err := ctrl.GetConfig()
	if err != nil {
		return err
	}
	mgr, err := ctrl.NewManager(config, ctrl.Options{
		Scheme:                 manager.Scheme,
		Metrics:                metricsserver.Options{BindAddress: metrics},
		HealthProbeBindAddress: probes,
	})
	if err != nil {
		return err
	}
	if err := mgr.AddReadyzCheck("ping", healthz.Ping); err != nil {
		return err
	}
	controller := ctrl.NewControllerManagedBy(mgr).For(&v1alpha1.PodSet{}).Owns(&corev1.Pod{})
	if err := controller.Complete(&reconciler{mgr.GetClient()}); err != nil {
		return err
	}
	return mgr.Start(ctrl.SetupSignalHandler())
}

type reconciler struct{ client.Client }

// Reconcile adds or removes one pod and writes the status.
func (r *reconciler) Reconcile(ctx context.Context, request ctrl.Request) (ctrl.Result, error) {
	podSet := &v1alpha1.PodSet{}
	if err := r.Get(ctx, request.NamespacedName, podSet); err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	pods := &corev1.PodList{}
	if err := r.List(ctx, pods, client.InNamespace(podSet.Namespace), client.MatchingLabels{v1alpha1.AppLabel: podSet.Name}); err != nil {
		return ctrl.Result{}, err
	}
	var active []*corev1.Pod
	for i := range pods.Items {
		pod := &pods.Items[i]
		hasEnded := pod.Status.Phase == corev1.PodFailed || pod.Status.Phase == corev1.PodSucceeded
		if pod.DeletionTimestamp == nil && !hasEnded {
			active = append(active, pod)
		}
	}
	switch replicas := int(ptr.Deref(podSet.Spec.Replicas, 1)); {
	case len(active) < replicas:
		if err := r.Create(ctx, newPod(podSet)); err != nil {
			return ctrl.Result{}, err
		}
	case len(active) > replicas:
		if err := r.Delete(ctx, active[0]); client.IgnoreNotFound(err) != nil {
			return ctrl.Result{}, err
		}
	}
	return ctrl.Result{}, r.report(ctx, podSet, active)
}

func (r *reconciler) report(ctx context.Context, podSet *v1alpha1.PodSet, active []*corev1.Pod) error {
	podSet.Status.Replicas = int32(len(active))
	podSet.Status.PodNames = nil
	for _, pod := range active {
		podSet.Status.PodNames = append(podSet.Status.PodNames, pod.Name)
	}
	slices.Sort(podSet.Status.PodNames)
	return r.Status().Update(ctx, podSet)
}

func newPod(podSet *v1alpha1.PodSet) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Namespace:       podSet.Namespace,
			GenerateName:    podSet.Name + "-",
			Labels:          map[string]string{v1alpha1.AppLabel: podSet.Name},
			OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(podSet, v1alpha1.PodSetKind)},
		},
		Spec: podSet.Spec.Template.Spec,
	}
}
