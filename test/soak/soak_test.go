// Package soak looks for leaks: one manager lives through thousands of changes, of PodSets that come and go, and its heap
// and its goroutines are measured in between.
package soak

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/pprof/profile"
	. "github.com/onsi/gomega"
	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/envtest"

	"example.com/podset-operator/api/v1alpha1"
	"example.com/podset-operator/internal/manager"
	"example.com/podset-operator/test/localcluster"
	"example.com/podset-operator/test/localcluster/assets"
	"example.com/podset-operator/test/operator"
)

const (
	// podSets is how many PodSets live between two measurements, users how many of them at a time.
	podSets = 50
	users   = 10

	// What a PodSet may leave behind. The recorder remembers events for some minutes. What is allocated for that is not
	// counted, but its events also hold names and UIDs, which came with the objects.
	bytesPerPodSet      = 2500
	goroutinesPerPodSet = 0.02
)

// TestSoak takes SOAK as the number of changes that users make.
func TestSoak(t *testing.T) {
	g := NewWithT(t)
	changes, err := strconv.Atoi(cmp.Or(os.Getenv("SOAK"), "2400"))
	g.Expect(err).NotTo(HaveOccurred())
	c, pprof := start(t, g)

	var heap, goroutines []float64
	for round := range changes / (podSets * changesPerPodSet) {
		group, ctx := errgroup.WithContext(t.Context())
		group.SetLimit(users)
		for n := range podSets {
			group.Go(func() error { return live(ctx, c, fmt.Sprintf("web-%d-%d", round, n)) })
		}
		g.Expect(group.Wait()).To(Succeed())
		all, events := sum(readProfile(t, g, pprof+"heap?gc=1"), "inuse_space",
			"k8s.io/client-go/tools/events.", "example.com/podset-operator/internal/controller.(*Reconciler).tell")
		heap = append(heap, all-events)
		running, _ := sum(readProfile(t, g, pprof+"goroutine"), "goroutine")
		goroutines = append(goroutines, running)
		t.Logf("%d PodSets, %d changes by users: %.0f KiB of heap and %.0f KiB for events, %.0f goroutines",
			(round+1)*podSets, (round+1)*podSets*changesPerPodSet, heap[round]/1024, events/1024, goroutines[round])
	}
	g.Expect(len(heap)).To(BeNumerically(">=", 6), "a slope takes some points")

	// Pools and buffers fill at first.
	bytes, routines := slope(heap[len(heap)/3:])/podSets, slope(goroutines[len(goroutines)/3:])/podSets
	t.Logf("each PodSet leaves %.0f bytes and %.3f goroutines behind", bytes, routines)
	g.Expect(bytes).To(BeNumerically("<", bytesPerPodSet), "the heap should not grow with the PodSets that have been")
	g.Expect(routines).To(BeNumerically("<", goroutinesPerPodSet), "no goroutine should stay")
}

// start starts an API server, with the operator installed, and a manager. It returns the URL of the manager's profiles.
func start(t *testing.T, g Gomega) (c client.Client, pprof string) {
	t.Helper()
	binaries, err := assets.Ensure(t.Context(), os.Stderr, assets.Envtest...)
	g.Expect(err).NotTo(HaveOccurred())
	environment := &envtest.Environment{BinaryAssetsDirectory: binaries.Dir()}
	t.Cleanup(func() { g.Expect(environment.Stop()).To(Succeed()) })
	admin, err := environment.Start()
	g.Expect(err).NotTo(HaveOccurred())
	admin.QPS = -1
	g.Expect(operator.Install(t.Context(), admin)).To(Succeed())
	c, err = client.New(admin, client.Options{Scheme: manager.Scheme})
	g.Expect(err).NotTo(HaveOccurred())

	account, err := operator.ManagerConfig(t.Context(), admin)
	g.Expect(err).NotTo(HaveOccurred())
	kubeconfig := filepath.Join(t.TempDir(), "kubeconfig")
	g.Expect(localcluster.WriteKubeconfig(kubeconfig, account)).To(Succeed())
	binary, err := operator.Build(t.Context(), t.TempDir())
	g.Expect(err).NotTo(HaveOccurred())
	address := freeAddress(t, g)
	t.Setenv("GODEBUG", "memprofilerate=512") // of the manager
	process, err := operator.StartProcess(binary, kubeconfig, io.Discard,
		"--metrics-bind-address=0", "--health-probe-bind-address=0", "--pprof-bind-address="+address)
	g.Expect(err).NotTo(HaveOccurred())
	t.Cleanup(process.Stop)
	return c, "http://" + address + "/debug/pprof/"
}

func freeAddress(t *testing.T, g Gomega) string {
	t.Helper()
	listener, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp4", "127.0.0.1:0")
	g.Expect(err).NotTo(HaveOccurred())
	defer func() { _ = listener.Close() }()
	return listener.Addr().String()
}

// user makes the changes to one PodSet. There is no kubelet: pods never become available, and are gone at once when they
// are deleted.
type user struct {
	client.Client
	podSet *v1alpha1.PodSet
	pods   []corev1.Pod
}

// changesPerPodSet is how many changes live makes.
const changesPerPodSet = 8

// live has a PodSet come, change and go, and waits after each change until the manager has done its part.
func live(ctx context.Context, c client.Client, name string) error {
	u := user{Client: c, podSet: &v1alpha1.PodSet{
		ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceDefault, Name: name},
		Spec: v1alpha1.PodSetSpec{
			Replicas:       new(int32(3)),
			Template:       &corev1.PodTemplateSpec{Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "web", Image: "web"}}}},
			UpdateStrategy: v1alpha1.UpdateStrategy{RollingUpdate: &v1alpha1.RollingUpdateBudgets{MaxUnavailable: new(intstr.FromString("100%"))}},
		},
	}}
	for _, step := range []func() error{
		func() error { return u.Create(ctx, u.podSet) },
		func() error { return u.settle(ctx, 3, nil) },
		func() error { return u.patch(ctx, u.podSet, `{"spec": {"replicas": 5}}`) },
		func() error { return u.settle(ctx, 5, nil) },
		func() error {
			return u.patch(ctx, u.podSet, `{"spec": {"template": {"metadata": {"labels": {"version": "2"}}}}}`)
		},
		func() error { return u.settle(ctx, 5, nil) },
		func() error { return u.Delete(ctx, &u.pods[0]) },
		func() error { return u.settle(ctx, 5, &u.pods[0]) },
		func() error {
			return u.patch(ctx, &u.pods[1], `{"metadata": {"labels": {"`+v1alpha1.PodSetLabel+`": null}}}`)
		},
		func() error { return u.settle(ctx, 5, &u.pods[1]) },
		func() error {
			return u.patch(ctx, &u.pods[2], `{"metadata": {"annotations": {"`+v1alpha1.DeleteMeAnnotation+`": "now"}}}`)
		},
		func() error { return u.settle(ctx, 5, &u.pods[2]) },
		func() error { return u.patch(ctx, u.podSet, `{"spec": {"replicas": 0}}`) },
		func() error { return u.settle(ctx, 0, nil) },
		func() error { return u.Delete(ctx, u.podSet) },
	} {
		if err := step(); err != nil {
			return fmt.Errorf("PodSet %s: %w", name, err)
		}
	}
	return nil
}

func (u *user) patch(ctx context.Context, object client.Object, patch string) error {
	return u.Patch(ctx, object, client.RawPatch(types.MergePatchType, []byte(patch)))
}

// settle waits until the PodSet has its pods, all of the present template and not the one that is to go, and says so. A pod
// that was taken out of the set is deleted.
func (u *user) settle(ctx context.Context, replicas int, gone *corev1.Pod) error {
	return wait.PollUntilContextTimeout(ctx, 20*time.Millisecond, time.Minute, true, func(ctx context.Context) (bool, error) {
		if err := u.Get(ctx, client.ObjectKeyFromObject(u.podSet), u.podSet); err != nil {
			return false, err
		}
		list := &corev1.PodList{}
		if err := u.List(ctx, list, client.InNamespace(u.podSet.Namespace), client.MatchingLabels{v1alpha1.PodSetLabel: u.podSet.Name}); err != nil {
			return false, err
		}
		status := u.podSet.Status
		if status.ObservedGeneration != u.podSet.Generation || int(status.UpdatedReplicas) != replicas || len(list.Items) != replicas ||
			gone != nil && slices.ContainsFunc(list.Items, func(pod corev1.Pod) bool { return pod.UID == gone.UID }) {
			return false, nil
		}
		if gone != nil {
			if err := u.Delete(ctx, gone, client.Preconditions{UID: &gone.UID}); client.IgnoreNotFound(err) != nil && !apierrors.IsConflict(err) {
				return false, err
			}
		}
		u.pods = list.Items
		return true, nil
	})
}

func readProfile(t *testing.T, g Gomega, url string) *profile.Profile {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
	g.Expect(err).NotTo(HaveOccurred())
	response, err := http.DefaultClient.Do(request)
	g.Expect(err).NotTo(HaveOccurred())
	defer func() { _ = response.Body.Close() }()
	read, err := profile.Parse(response.Body)
	g.Expect(err).NotTo(HaveOccurred())
	return read
}

// sum returns the sum of a profile's values of a type, and that of what functions with one of the prefixes account for.
func sum(p *profile.Profile, valueType string, prefixes ...string) (all, account float64) {
	hasPrefix := func(line profile.Line) bool {
		return slices.ContainsFunc(prefixes, func(prefix string) bool { return strings.HasPrefix(line.Function.Name, prefix) })
	}
	index := slices.IndexFunc(p.SampleType, func(t *profile.ValueType) bool { return t.Type == valueType })
	for _, sample := range p.Sample {
		all += float64(sample.Value[index])
		if slices.ContainsFunc(sample.Location, func(l *profile.Location) bool {
			return slices.ContainsFunc(l.Line, hasPrefix)
		}) {
			account += float64(sample.Value[index])
		}
	}
	return all, account
}

// slope is by how much the values grow from one to the next: the median of what any two of them tell (Theil and Sen).
func slope(values []float64) float64 {
	var slopes []float64
	for i := range values {
		for j := range i {
			slopes = append(slopes, (values[i]-values[j])/float64(i-j))
		}
	}
	slices.Sort(slopes)
	return slopes[len(slopes)/2]
}
