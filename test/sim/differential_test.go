package sim

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/envtest"

	"example.com/podset-operator/api/v1alpha1"
	"example.com/podset-operator/internal/podset"
	"example.com/podset-operator/test/localcluster/assets"
	"example.com/podset-operator/test/operator"
)

// api is what both the simulated and the real API server can do.
type api interface {
	createPod(*corev1.Pod) error
	pod(name string) *corev1.Pod
	patchPod(name, patch string) error
	deletePod(name string, options ...client.DeleteOption) error
	bind(name string)
	fail(name string)

	createPodSet(*v1alpha1.PodSet) error
	podSet(name string) *v1alpha1.PodSet
	updatePodSet(*v1alpha1.PodSet) error
	updateStatus(*v1alpha1.PodSet) error
	deletePodSet(name string, propagation metav1.DeletionPropagation)

	limitPods()
	closeNamespace()
}

// simulated is the simulated API server.
type simulated struct{ *world }

func (s simulated) createPod(pod *corev1.Pod) error {
	_, err := s.server.createPod(pod)
	return err
}

func (s simulated) pod(name string) *corev1.Pod { return s.server.pod(namespace, name) }

func (s simulated) patchPod(name, patch string) error {
	_, err := s.server.patchPod(namespace, name, []byte(patch))
	return err
}

func (s simulated) deletePod(name string, options ...client.DeleteOption) error {
	o := client.DeleteOptions{}
	return s.server.deletePod(namespace, name, *o.ApplyOptions(options))
}

func (s simulated) bind(name string) {
	s.server.changePod(s.pod(name), func(p *corev1.Pod) { p.Spec.NodeName = "node" })
}

func (s simulated) fail(name string) {
	s.server.changePod(s.pod(name), func(p *corev1.Pod) { p.Status.Phase = corev1.PodFailed })
}

func (s simulated) createPodSet(podSet *v1alpha1.PodSet) error {
	_, err := s.server.createPodSet(podSet)
	return err
}

func (s simulated) podSet(name string) *v1alpha1.PodSet { return s.server.podSet(namespace, name) }

func (s simulated) updatePodSet(podSet *v1alpha1.PodSet) error {
	_, err := s.server.updatePodSet(podSet)
	return err
}

func (s simulated) updateStatus(podSet *v1alpha1.PodSet) error {
	_, err := s.server.updateStatus(podSet)
	return err
}

func (s simulated) deletePodSet(name string, propagation metav1.DeletionPropagation) {
	s.server.deletePodSet(s.podSet(name), propagation)
}

func (s simulated) limitPods() { s.server.quota = s.server.podsInQuota() }

func (s simulated) closeNamespace() { s.server.closing = true }

// genuine is a kube-apiserver.
type genuine struct {
	*testing.T
	client.Client
}

func (g genuine) must(err error) {
	g.Helper()
	if err != nil {
		g.Fatal(err)
	}
}

func (g genuine) createPod(pod *corev1.Pod) error { return g.Create(g.Context(), pod.DeepCopy()) }

func (g genuine) pod(name string) *corev1.Pod {
	pod := &corev1.Pod{}
	if !g.find(name, pod) {
		return nil
	}
	return pod
}

func (g genuine) find(name string, object client.Object) bool {
	err := g.Get(g.Context(), client.ObjectKey{Namespace: namespace, Name: name}, object)
	if !apierrors.IsNotFound(err) {
		g.must(err)
	}
	return err == nil
}

func (g genuine) patchPod(name, patch string) error {
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}
	return g.Patch(g.Context(), pod, client.RawPatch(types.MergePatchType, []byte(patch)))
}

func (g genuine) deletePod(name string, options ...client.DeleteOption) error {
	return g.Delete(g.Context(), &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}, options...)
}

func (g genuine) bind(name string) {
	binding := &corev1.Binding{Target: corev1.ObjectReference{Kind: "Node", Name: "node"}}
	g.must(g.SubResource("binding").Create(g.Context(), g.pod(name), binding))
}

func (g genuine) fail(name string) {
	pod := g.pod(name)
	pod.Status.Phase = corev1.PodFailed
	g.must(g.Status().Update(g.Context(), pod))
}

func (g genuine) createPodSet(podSet *v1alpha1.PodSet) error {
	return g.Create(g.Context(), podSet.DeepCopy())
}

func (g genuine) podSet(name string) *v1alpha1.PodSet {
	podSet := &v1alpha1.PodSet{}
	if !g.find(name, podSet) {
		return nil
	}
	return podSet
}

func (g genuine) updatePodSet(podSet *v1alpha1.PodSet) error {
	return g.Update(g.Context(), podSet.DeepCopy())
}

func (g genuine) updateStatus(podSet *v1alpha1.PodSet) error {
	return g.Status().Update(g.Context(), podSet.DeepCopy())
}

func (g genuine) deletePodSet(name string, propagation metav1.DeletionPropagation) {
	g.must(g.Delete(g.Context(), g.podSet(name), client.PropagationPolicy(propagation)))
}

// limitPods makes a quota that is used up. Its status is written here because no controller manager runs.
func (g genuine) limitPods() {
	pods := &corev1.PodList{}
	g.must(g.List(g.Context(), pods, client.InNamespace(namespace)))
	used := corev1.ResourceList{corev1.ResourcePods: *resource.NewQuantity(int64(len(pods.Items)), resource.DecimalSI)}
	quota := &corev1.ResourceQuota{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "pods"},
		Spec:       corev1.ResourceQuotaSpec{Hard: used},
	}
	g.must(g.Create(g.Context(), quota))
	quota.Status = corev1.ResourceQuotaStatus{Hard: used, Used: used}
	g.must(g.Status().Update(g.Context(), quota))
	// The admission plugin learns of the quota by a watch.
	refused := func(ctx context.Context) (bool, error) {
		return apierrors.IsForbidden(g.Create(ctx, newTestPod("probe", nil), client.DryRunAll)), nil
	}
	g.must(wait.PollUntilContextTimeout(g.Context(), 20*time.Millisecond, 20*time.Second, true, refused))
}

func (g genuine) closeNamespace() {
	g.must(g.Delete(g.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}}))
}

// answer is what is compared: the error, and what is there after the call.
type answer struct {
	Call       string
	Code       int32
	Reason     metav1.StatusReason
	Causes     []metav1.CauseType
	Quota      bool
	Exists     bool
	Changed    bool
	Deleted    bool
	Grace      int64
	Generation int64
	Finalizers []string
	Phase      corev1.PodPhase
	Labels     map[string]string
	Spec       v1alpha1.PodSetSpec
	Observed   int64
	Replicas   int32
}

// session makes the same calls to an API server and notes its answers.
type session struct {
	api
	versions map[string]string
	answers  []answer
}

func (s *session) note(call string, object metav1.Object, err error) *answer {
	a := answer{Call: call}
	if status := apierrors.APIStatus(nil); errors.As(err, &status) {
		a.Code, a.Reason = status.Status().Code, status.Status().Reason
		if details := status.Status().Details; details != nil {
			for _, cause := range details.Causes {
				a.Causes = append(a.Causes, cause.Type)
			}
		}
		a.Quota = strings.Contains(status.Status().Message, "exceeded quota")
	} else if err != nil {
		a.Reason = metav1.StatusReason(err.Error())
	}
	if object != nil {
		key := string(object.GetUID())
		a.Exists, a.Changed = true, s.versions[key] != object.GetResourceVersion()
		s.versions[key] = object.GetResourceVersion()
		a.Deleted, a.Generation, a.Finalizers = object.GetDeletionTimestamp() != nil, object.GetGeneration(), object.GetFinalizers()
		if grace := object.GetDeletionGracePeriodSeconds(); grace != nil {
			a.Grace = *grace
		}
	}
	s.answers = append(s.answers, a)
	return &s.answers[len(s.answers)-1]
}

func (s *session) onPod(call, name string, err error) {
	pod := s.pod(name)
	if pod == nil {
		s.note(call, nil, err)
		return
	}
	a := s.note(call, pod, err)
	a.Phase, a.Labels = pod.Status.Phase, pod.Labels
}

func (s *session) onPodSet(call, name string, err error) {
	podSet := s.podSet(name)
	if podSet == nil {
		s.note(call, nil, err)
		return
	}
	a := s.note(call, podSet, err)
	a.Spec, a.Observed, a.Replicas = podSet.Spec, podSet.Status.ObservedGeneration, podSet.Status.Replicas
}

// podSetWith returns a changed copy.
func podSetWith(podSet *v1alpha1.PodSet, change func(*v1alpha1.PodSet)) *v1alpha1.PodSet {
	changed := podSet.DeepCopy()
	change(changed)
	return changed
}

func (s *session) podSets() {
	asked := &v1alpha1.PodSet{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "web"}}
	s.onPodSet("create without a spec", "web", s.createPodSet(asked))
	s.onPodSet("create again", "web", s.createPodSet(asked))
	first := s.podSet("web").DeepCopy()
	report := func(p *v1alpha1.PodSet) {
		p.Status.ObservedGeneration, p.Status.Replicas = 1, 1
		p.Spec.Replicas = new(int32(9))
	}
	s.onPodSet("update of the status, with another spec", "web", s.updateStatus(podSetWith(first, report)))
	s.onPodSet("update of the status with an old version", "web", s.updateStatus(podSetWith(first, func(p *v1alpha1.PodSet) { p.Status.Replicas = 2 })))
	second := s.podSet("web").DeepCopy()
	s.onPodSet("update of the status that changes nothing", "web", s.updateStatus(second))
	s.onPodSet("update of the status of another UID", "web", s.updateStatus(podSetWith(second, func(p *v1alpha1.PodSet) { p.UID = "other" })))
	s.onPodSet("update of the status of nothing", "none", s.updateStatus(podSetWith(second, func(p *v1alpha1.PodSet) { p.Name = "none" })))
	s.onPodSet("update of the spec, with another status", "web", s.updatePodSet(podSetWith(second, func(p *v1alpha1.PodSet) {
		p.Spec.Replicas, p.Status.Replicas = new(int32(3)), 7
	})))
	s.onPodSet("update of the spec with an old version", "web", s.updatePodSet(podSetWith(second, func(p *v1alpha1.PodSet) { p.Spec.Replicas = new(int32(4)) })))
	third := s.podSet("web").DeepCopy()
	s.onPodSet("update that changes nothing", "web", s.updatePodSet(third))
	s.onPodSet("update of labels only", "web", s.updatePodSet(podSetWith(third, func(p *v1alpha1.PodSet) { p.Labels = map[string]string{"a": "b"} })))
	s.deletePodSet("web", metav1.DeletePropagationForeground)
	s.onPodSet("delete in the foreground", "web", nil)
	s.deletePodSet("web", metav1.DeletePropagationForeground)
	s.onPodSet("delete in the foreground again", "web", nil)
	deleted := s.podSet("web").DeepCopy()
	s.onPodSet("update of the spec while it is being deleted", "web", s.updatePodSet(podSetWith(deleted, func(p *v1alpha1.PodSet) { p.Spec.Replicas = new(int32(0)) })))
	s.onPodSet("update of the status from before the deletion", "web", s.updateStatus(podSetWith(third, func(p *v1alpha1.PodSet) { p.Status.Replicas = 5 })))
	s.onPodSet("create while it is being deleted", "web", s.createPodSet(asked))
	deleted = s.podSet("web").DeepCopy()
	s.onPodSet("removal of the finalizer", "web", s.updatePodSet(podSetWith(deleted, func(p *v1alpha1.PodSet) { p.Finalizers = nil })))
	s.onPodSet("create after the deletion", "web", s.createPodSet(asked))
	s.onPodSet("update of the status of the one deleted before", "web", s.updateStatus(podSetWith(third, func(p *v1alpha1.PodSet) { p.Status.Replicas = 5 })))
	s.deletePodSet("web", metav1.DeletePropagationOrphan)
	s.onPodSet("delete and leave the pods", "web", nil)
	s.onPodSet("create of another", "api", s.createPodSet(podSetWith(asked, func(p *v1alpha1.PodSet) { p.Name = "api" })))
	s.deletePodSet("api", metav1.DeletePropagationBackground)
	s.onPodSet("delete in the background", "api", nil)
}

func newTestPod(name string, change func(*corev1.Pod)) *corev1.Pod {
	pod := podset.NewPod(&v1alpha1.PodSet{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "web", UID: "owner"}}, name)
	if change != nil {
		change(pod)
	}
	return pod
}

func withFinalizer(p *corev1.Pod) { p.Finalizers = []string{finalizer} }

func (s *session) pods() {
	now := client.GracePeriodSeconds(0)
	s.onPod("create", "a", s.createPod(newTestPod("a", nil)))
	s.onPod("create again", "a", s.createPod(newTestPod("a", nil)))
	s.onPod("create with a version", "v", s.createPod(newTestPod("v", func(p *corev1.Pod) { p.ResourceVersion = "1" })))
	s.onPod("create without an image", "i", s.createPod(newTestPod("i", func(p *corev1.Pod) { p.Spec.Containers[0].Image = "" })))
	s.onPod("create without a container", "c", s.createPod(newTestPod("c", func(p *corev1.Pod) { p.Spec.Containers = nil })))
	a := s.pod("a").DeepCopy()
	s.onPod("patch", "a", s.patchPod("a", `{"metadata":{"labels":{"x":"y","app":null}}}`))
	s.onPod("patch that changes nothing", "a", s.patchPod("a", `{"metadata":{"labels":{"x":"y"}}}`))
	s.onPod("patch of an old version", "a", s.patchPod("a", `{"metadata":{"resourceVersion":"`+a.ResourceVersion+`","labels":{"x":"z"}}}`))
	s.onPod("patch of another UID", "a", s.patchPod("a", `{"metadata":{"uid":"other","labels":{"x":"z"}}}`))
	s.onPod("patch of nothing", "none", s.patchPod("none", `{"metadata":{"labels":{"x":"z"}}}`))
	s.onPod("delete of another UID", "a", s.deletePod("a", client.Preconditions{UID: new(types.UID("other"))}))
	s.onPod("delete of an old version", "a", s.deletePod("a", client.Preconditions{UID: &a.UID, ResourceVersion: &a.ResourceVersion}))
	a = s.pod("a").DeepCopy()
	s.onPod("delete of a pod that no node has", "a", s.deletePod("a", client.Preconditions{UID: &a.UID, ResourceVersion: &a.ResourceVersion}))
	s.onPod("delete again", "a", s.deletePod("a"))

	s.onPod("create", "b", s.createPod(newTestPod("b", func(p *corev1.Pod) { p.Spec.TerminationGracePeriodSeconds = nil })))
	s.bind("b")
	s.onPod("bind", "b", nil)
	s.onPod("delete of a pod on a node", "b", s.deletePod("b"))
	b := s.pod("b").DeepCopy()
	s.onPod("delete again", "b", s.deletePod("b"))
	s.onPod("delete again, of an old version", "b", s.deletePod("b", client.Preconditions{ResourceVersion: new("1")}))
	s.onPod("create while it is being deleted", "b", s.createPod(newTestPod("b", nil)))
	s.onPod("patch while it is being deleted", "b", s.patchPod("b", `{"metadata":{"resourceVersion":"`+b.ResourceVersion+`","labels":{"x":"y"}}}`))
	s.onPod("delete with a shorter grace", "b", s.deletePod("b", client.GracePeriodSeconds(5)))
	s.onPod("the node is done with it", "b", s.deletePod("b", now, client.Preconditions{UID: &b.UID}))
	s.onPod("create after the deletion", "b", s.createPod(newTestPod("b", nil)))
	s.onPod("delete of the UID from before", "b", s.deletePod("b", client.Preconditions{UID: &b.UID}))

	s.onPod("create with a finalizer", "f", s.createPod(newTestPod("f", withFinalizer)))
	s.bind("f")
	s.onPod("delete of a pod on a node with a finalizer", "f", s.deletePod("f"))
	s.onPod("the node is done with it", "f", s.deletePod("f", now))
	s.onPod("and again", "f", s.deletePod("f", now))
	s.onPod("removal of the finalizer", "f", s.patchPod("f", `{"metadata":{"finalizers":null}}`))

	s.onPod("create with a finalizer", "u", s.createPod(newTestPod("u", withFinalizer)))
	s.onPod("delete of a pod that no node has, with a finalizer", "u", s.deletePod("u"))
	s.onPod("removal of the finalizer", "u", s.patchPod("u", `{"metadata":{"finalizers":null}}`))

	s.onPod("create", "e", s.createPod(newTestPod("e", nil)))
	s.bind("e")
	s.fail("e")
	s.onPod("fail", "e", nil)
	s.onPod("delete of a pod that failed", "e", s.deletePod("e"))
}

func (s *session) refusals() {
	s.limitPods()
	s.onPod("create beyond the quota", "q", s.createPod(newTestPod("q", nil)))
	s.onPod("create again, beyond the quota", "b", s.createPod(newTestPod("b", nil)))
	s.closeNamespace()
	s.onPod("create in a namespace that is being deleted", "n", s.createPod(newTestPod("n", nil)))
	s.onPod("create again, in a namespace that is being deleted", "b", s.createPod(newTestPod("b", nil)))
}

func answers(server api) []answer {
	s := &session{api: server, versions: map[string]string{}}
	s.podSets()
	s.pods()
	s.refusals()
	return s.answers
}

// TestSimulatedServerAnswersLikeARealOne makes the same calls to both.
func TestSimulatedServerAnswersLikeARealOne(t *testing.T) {
	if testing.Short() {
		t.Skip("starts a kube-apiserver")
	}
	binaries, err := assets.Ensure(t.Context(), os.Stderr, assets.Envtest...)
	if err != nil {
		t.Fatal(err)
	}
	root, err := operator.Root()
	if err != nil {
		t.Fatal(err)
	}
	environment := &envtest.Environment{
		BinaryAssetsDirectory: binaries.Dir(),
		CRDDirectoryPaths:     []string{filepath.Join(root, "config", "crd", "bases")},
		ErrorIfCRDPathMissing: true,
	}
	t.Cleanup(func() { _ = environment.Stop() })
	config, err := environment.Start()
	if err != nil {
		t.Fatal(err)
	}
	scheme := runtime.NewScheme()
	g := genuine{T: t}
	g.must(clientgoscheme.AddToScheme(scheme))
	g.must(v1alpha1.AddToScheme(scheme))
	g.Client, err = client.New(config, client.Options{Scheme: scheme})
	g.must(err)
	g.must(g.Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}}))
	want := answers(g)
	got := answers(simulated{newWorld(setup{}, smooth{})})
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("the simulated server answers + where a real one answers -:\n%s", diff)
	}
	t.Logf("%d answers compared", len(got))
}
