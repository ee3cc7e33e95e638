package main

import (
	"context"
	"fmt"
	"net"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"example.com/podset-operator/api/v1alpha1"
	"example.com/podset-operator/internal/podset"
)

// arm is one of the ways to get and keep pods that are compared.
type arm struct {
	name, what string
	// resource is what its sets are.
	resource string
	// workers is how many requests a bare client has under way; 0 if a controller does the work.
	workers int
	start   func(*world) (*controller, error)
	// set returns what a user creates to have so many pods.
	set func(namespace, name string, replicas int) client.Object
}

// The arms' names.
const (
	rawSequential = "A0"
	rawParallel   = "A1"
	limited       = "B1"
	unlimited     = "B2"
	plain         = "P0"
	ours          = "ours"
)

const (
	podSets     = "podsets"
	replicaSets = "replicasets"
)

var arms = []arm{
	{name: rawSequential, what: "a bare client that creates one pod after the other", workers: 1, resource: podSets, set: newPodSet},
	{name: rawParallel, what: "a bare client with ten requests under way", workers: 10, resource: podSets, set: newPodSet},
	{
		name: limited, what: "ReplicaSet, kube-controller-manager with its default limits (20 requests per second, bursts of 30)",
		start: startReplicaSets(), resource: replicaSets, set: newReplicaSet,
	},
	{
		name: unlimited, what: "ReplicaSet, kube-controller-manager without a limit that it could reach",
		start: startReplicaSets("--kube-api-qps=100000", "--kube-api-burst=100000"), resource: replicaSets, set: newReplicaSet,
	},
	{name: plain, what: "a PodSet operator as a tutorial has it (test/bench/plain)", start: startPlain, resource: podSets, set: newPodSet},
	{name: ours, what: "the PodSet operator's manager with its default flags", start: startOurs(), resource: podSets, set: newPodSet},
}

func armNamed(name string) arm {
	for _, arm := range arms {
		if arm.name == name {
			return arm
		}
	}
	panic("there is no arm " + name)
}

// startOurs starts the manager as it is shipped, under its ServiceAccount, but for the addresses of its endpoints.
func startOurs(flags ...string) func(*world) (*controller, error) {
	return func(w *world) (*controller, error) {
		addresses, err := freeAddresses(3)
		if err != nil {
			return nil, err
		}
		return startController(w.cluster.Dir, w.programs.manager, w.account, append([]string{
			"--metrics-bind-address=" + addresses[0], "--metrics-secure=false",
			"--health-probe-bind-address=" + addresses[1], "--pprof-bind-address=" + addresses[2],
		}, flags...), controller{
			metrics: "http://" + addresses[0] + "/metrics",
			ready:   "http://" + addresses[1] + "/readyz",
			profile: "http://" + addresses[2] + "/debug/pprof/profile",
			queue:   "podset",
		})
	}
}

func startPlain(w *world) (*controller, error) {
	addresses, err := freeAddresses(2)
	if err != nil {
		return nil, err
	}
	return startController(w.cluster.Dir, w.programs.plain, w.cluster.KubeconfigPath, []string{
		"--metrics-bind-address=" + addresses[0], "--health-probe-bind-address=" + addresses[1],
	}, controller{
		metrics: "http://" + addresses[0] + "/metrics",
		ready:   "http://" + addresses[1] + "/readyz",
		queue:   "podset",
	})
}

// startReplicaSets starts kube-controller-manager with no controller but the one of ReplicaSets.
func startReplicaSets(flags ...string) func(*world) (*controller, error) {
	return func(w *world) (*controller, error) {
		address, err := freeAddress()
		if err != nil {
			return nil, err
		}
		host, port, err := net.SplitHostPort(address)
		if err != nil {
			return nil, err
		}
		return startController(w.cluster.Dir, w.cluster.Binaries["kube-controller-manager"], w.cluster.KubeconfigPath, append([]string{
			"--controllers=replicaset-controller", "--leader-elect=false", "--bind-address=" + host, "--secure-port=" + port,
			"--authorization-always-allow-paths=/healthz,/metrics",
		}, flags...), controller{
			metrics: "https://" + address + "/metrics",
			ready:   "https://" + address + "/healthz",
			queue:   "replicaset",
		})
	}
}

func freeAddresses(n int) ([]string, error) {
	var addresses []string
	for range n {
		address, err := freeAddress()
		if err != nil {
			return nil, err
		}
		addresses = append(addresses, address)
	}
	return addresses, nil
}

// template is that of the pods of all arms: what a PodSet without one runs, spelled out since the others have no default.
func template() corev1.PodTemplateSpec {
	return corev1.PodTemplateSpec{Spec: podset.NewPod(&v1alpha1.PodSet{}, "").Spec}
}

func newPodSet(namespace, name string, replicas int) client.Object {
	return &v1alpha1.PodSet{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name},
		Spec:       v1alpha1.PodSetSpec{Replicas: new(int32(replicas)), Template: new(template())},
	}
}

// newReplicaSet returns a ReplicaSet whose pods have the labels that a PodSet's have.
func newReplicaSet(namespace, name string, replicas int) client.Object {
	pods := template()
	pods.Labels = podset.NewPod(newPodSet(namespace, name, 0).(*v1alpha1.PodSet), "").Labels
	return &appsv1.ReplicaSet{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name},
		Spec: appsv1.ReplicaSetSpec{
			Replicas: new(int32(replicas)),
			Selector: &metav1.LabelSelector{MatchLabels: map[string]string{v1alpha1.PodSetLabel: name}},
			Template: pods,
		},
	}
}

// scale does what kubectl scale does, by a patch.
func (w *world) scale(ctx context.Context, set client.Object, replicas int) error {
	patch := client.RawPatch("application/merge-patch+json", fmt.Appendf(nil, `{"spec":{"replicas":%d}}`, replicas))
	return w.client.Patch(ctx, set, patch)
}

// createPods creates pods as the operator would, by a bare client, and returns them.
func (w *world) createPods(ctx context.Context, podSet *v1alpha1.PodSet, n, workers int) ([]*corev1.Pod, error) {
	pods := make([]*corev1.Pod, n)
	return pods, inParallel(workers, n, func(i int) error {
		pods[i] = podset.NewPod(podSet, fmt.Sprintf("%s-pod%05d", podSet.Name, i))
		return w.client.Create(ctx, pods[i])
	})
}

// deletePods deletes pods as the operator would, by a bare client: before each, it reads the PodSet.
func (w *world) deletePods(ctx context.Context, podSet *v1alpha1.PodSet, pods []*corev1.Pod, workers int) error {
	return inParallel(workers, len(pods), func(i int) error {
		if err := w.client.Get(ctx, client.ObjectKeyFromObject(podSet), &v1alpha1.PodSet{}); err != nil {
			return err
		}
		return w.client.Delete(ctx, pods[i], client.Preconditions{UID: &pods[i].UID, ResourceVersion: &pods[i].ResourceVersion})
	})
}
