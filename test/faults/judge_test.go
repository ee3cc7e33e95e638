package faults

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"

	"example.com/podset-operator/api/v1alpha1"
)

// madeUp is a made-up history of one PodSet, web, and what one manager wrote.
type madeUp struct {
	changes []change
	writes  []*write
	podSet  *v1alpha1.PodSet
	pods    map[string]*corev1.Pod
}

// begin makes a PodSet that asks for so many replicas, and so many ready pods of it: a, b, c and so on.
func begin(replicas int32, pods int) *madeUp {
	m := &madeUp{pods: map[string]*corev1.Pod{}}
	m.set(func(podSet *v1alpha1.PodSet) { podSet.Spec.Replicas = &replicas })
	for i := range pods {
		m.create(string(rune('a' + i)))
	}
	return m
}

func (m *madeUp) revision() int64 { return int64(len(m.changes) + 1) }

// set changes the PodSet as a user would: its generation goes up.
func (m *madeUp) set(change func(*v1alpha1.PodSet)) {
	m.write(func(podSet *v1alpha1.PodSet) {
		podSet.Generation++
		change(podSet)
	})
}

// report changes the status: the names are those given.
func (m *madeUp) report(names ...string) {
	m.write(func(podSet *v1alpha1.PodSet) {
		podSet.Status.PodNames, podSet.Status.Replicas = names, int32(len(names))
		podSet.Status.ObservedGeneration = podSet.Generation
	})
}

func (m *madeUp) write(edit func(*v1alpha1.PodSet)) {
	now := m.podSet.DeepCopy()
	if now == nil {
		now = &v1alpha1.PodSet{
			ObjectMeta: metav1.ObjectMeta{Namespace: "test", Name: "web", UID: "web-uid"},
			Spec:       v1alpha1.PodSetSpec{Template: template("1"), FailedPodsHistoryLimit: new(int32(1))},
		}
	}
	edit(now)
	m.changes = append(m.changes, change{revision: m.revision(), oldPodSet: m.podSet, podSet: now})
	m.podSet = now
}

// create is a pod that the manager makes, and which is ready at once.
func (m *madeUp) create(name string) *write {
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{
		Namespace: "test", Name: name, UID: types.UID(name), Labels: map[string]string{v1alpha1.TemplateHashLabel: revisionIn(m.podSet)},
		OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(m.podSet, v1alpha1.PodSetKind)},
	}}
	pod.Status.Phase = corev1.PodRunning
	pod.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}
	m.store(name, pod)
	return m.sent(&write{method: "POST", pod: name, owner: m.podSet.UID, revision: m.revision() - 1})
}

// change is a change of a pod by anybody.
func (m *madeUp) change(name string, edit func(*corev1.Pod)) {
	pod := m.pods[name].DeepCopy()
	edit(pod)
	m.store(name, pod)
}

func (m *madeUp) store(name string, pod *corev1.Pod) {
	if pod != nil {
		pod.ResourceVersion = string(rune('0' + m.revision()))
	}
	m.changes = append(m.changes, change{revision: m.revision(), oldPod: m.pods[name], pod: pod})
	m.pods[name] = pod
}

// delete is a deletion by the manager, of a pod that is gone at once.
func (m *madeUp) delete(name string) *write {
	pod := m.pods[name]
	m.store(name, nil)
	return m.sent(&write{
		method: "DELETE", pod: name, revision: m.revision() - 1,
		preconditions: &metav1.Preconditions{UID: &pod.UID, ResourceVersion: &pod.ResourceVersion},
	})
}

// sent records a write whose reply the manager got before its next one.
func (m *madeUp) sent(w *write) *write {
	m.writes = append(m.writes, w)
	w.namespace, w.ok, w.sent, w.delivered = "test", true, len(m.writes), len(m.writes)
	return w
}

func terminating(pod *corev1.Pod) { pod.DeletionTimestamp = new(metav1.Now()) }
func failed(pod *corev1.Pod)      { pod.Status.Phase = corev1.PodFailed }
func orphaned(pod *corev1.Pod)    { pod.OwnerReferences = nil }
func unready(pod *corev1.Pod)     { pod.Status.Conditions = nil }
func marked(pod *corev1.Pod) {
	pod.Annotations = map[string]string{v1alpha1.DeleteMeAnnotation: v1alpha1.DeleteMeNow}
}

func replicas(n int32) func(*v1alpha1.PodSet) {
	return func(podSet *v1alpha1.PodSet) { podSet.Spec.Replicas = &n }
}

func newTemplate(podSet *v1alpha1.PodSet) { podSet.Spec.Template = template("2") }

func complete(podSet *v1alpha1.PodSet) {
	podSet.Spec.PodReplacementPolicy = v1alpha1.TerminationComplete
}

func noSurge(podSet *v1alpha1.PodSet) {
	podSet.Spec.UpdateStrategy.RollingUpdate = &v1alpha1.RollingUpdateBudgets{
		MaxSurge: new(intstr.FromInt32(0)), MaxUnavailable: new(intstr.FromInt32(1)),
	}
}

// The judge is no use if it lets anything pass, or condemns what is right: each history says which promise it breaks.
func TestJudge(t *testing.T) {
	for name, test := range map[string]struct {
		promise    string // that is broken, none if empty
		leaderless bool
		history    func() *madeUp
	}{
		"as it should be": {"", false, func() *madeUp {
			m := begin(2, 2)
			m.report("a", "b")
			m.set(replicas(1))
			m.delete("b")
			m.report("a")
			return m
		}},
		"two pods too many": {"S1", false, func() *madeUp { return begin(1, 3) }},
		"one pod too many, with the pods counted that terminate": {"S1", false, func() *madeUp {
			m := begin(2, 0)
			m.set(complete)
			m.create("a")
			m.create("b")
			m.change("a", terminating)
			m.create("c")
			return m
		}},
		"a pod of the surge": {"", false, func() *madeUp {
			m := begin(2, 2)
			m.set(newTemplate)
			m.create("c")
			return m
		}},
		"two pods of a surge of one": {"S2", false, func() *madeUp {
			m := begin(2, 2)
			m.set(newTemplate)
			m.create("c")
			m.create("d")
			return m
		}},
		"a pod created although the manager knows that none is missing": {"S2", false, func() *madeUp { return begin(1, 2) }},
		"a pod created although none was missing, by a reply that never came": {"", false, func() *madeUp {
			m := begin(1, 1)
			m.writes[0].delivered = 0
			m.create("b")
			return m
		}},
		"a pod created for one that fails": {"", false, func() *madeUp {
			m := begin(1, 1)
			m.change("a", failed)
			m.create("b")
			return m
		}},
		"a pod created too soon for one that terminates": {"S2", true, func() *madeUp {
			m := begin(1, 1)
			m.set(complete)
			m.create("b")
			return m
		}},
		"a pod created while the PodSet is being deleted": {"S2", false, func() *madeUp {
			m := begin(2, 1)
			m.write(func(podSet *v1alpha1.PodSet) { podSet.DeletionTimestamp = new(metav1.Now()) })
			m.report("a")
			m.sent(&write{method: "PUT", podSet: "web", revision: m.revision() - 1})
			m.create("b")
			return m
		}},
		"a pod deleted although none is too many": {"S3", false, func() *madeUp {
			m := begin(2, 2)
			m.delete("b")
			return m
		}},
		"a pod deleted after the manager knows that enough are": {"S3", false, func() *madeUp {
			m := begin(3, 3)
			m.set(replicas(2))
			m.delete("c")
			m.delete("b")
			return m
		}},
		"the last ready pod replaced": {"S3", false, func() *madeUp {
			m := begin(1, 1)
			m.set(newTemplate)
			m.delete("a")
			return m
		}},
		"the last ready pod replaced, as the budget has it": {"", false, func() *madeUp {
			m := begin(1, 1)
			m.set(noSurge)
			m.set(newTemplate)
			m.delete("a")
			return m
		}},
		"a pod that is not ready replaced": {"", false, func() *madeUp {
			m := begin(1, 1)
			m.set(newTemplate)
			m.change("a", unready)
			m.delete("a")
			return m
		}},
		"a marked pod deleted": {"", false, func() *madeUp {
			m := begin(1, 1)
			m.change("a", marked)
			m.delete("a")
			return m
		}},
		"a failed pod deleted that is the only one": {"S3", false, func() *madeUp {
			m := begin(1, 1)
			m.change("a", failed)
			m.delete("a")
			return m
		}},
		"a failed pod deleted of two": {"", false, func() *madeUp {
			m := begin(2, 2)
			m.change("a", failed)
			m.change("b", failed)
			m.delete("a")
			return m
		}},
		"a pod deleted without preconditions": {"S4", false, func() *madeUp {
			m := begin(2, 2)
			m.set(replicas(1))
			m.delete("b").preconditions = nil
			return m
		}},
		"a pod deleted without the precondition on its version": {"S4", false, func() *madeUp {
			m := begin(2, 2)
			m.set(replicas(1))
			m.delete("b").preconditions.ResourceVersion = nil
			return m
		}},
		"an orphan deleted": {"S4", false, func() *madeUp {
			m := begin(1, 1)
			m.change("a", orphaned)
			m.delete("a")
			return m
		}},
		"a pod deleted that has changed since": {"S4", false, func() *madeUp {
			m := begin(2, 2)
			m.set(replicas(1))
			m.delete("b").preconditions.ResourceVersion = new("1")
			return m
		}},
		"a pod created for nobody": {"S4", false, func() *madeUp {
			m := begin(1, 1)
			m.writes[0].owner = ""
			return m
		}},
		"names out of order": {"S6", false, func() *madeUp {
			m := begin(2, 2)
			m.report("b", "a")
			return m
		}},
		"names that were never those of all pods": {"S6", false, func() *madeUp {
			m := begin(2, 2)
			m.report("b")
			return m
		}},
		"names that once were those of all pods": {"", false, func() *madeUp {
			m := begin(2, 2)
			m.report("a")
			return m
		}},
		"a count that is not that of the names": {"S6", false, func() *madeUp {
			m := begin(2, 2)
			m.write(func(podSet *v1alpha1.PodSet) {
				podSet.Status.Replicas, podSet.Status.PodNames = 1, []string{"a", "b"}
			})
			return m
		}},
		"an observed generation that goes back": {"S6", false, func() *madeUp {
			m := begin(1, 1)
			m.report("a")
			m.set(replicas(1))
			m.report("a")
			m.write(func(podSet *v1alpha1.PodSet) { podSet.Status.ObservedGeneration = 1 })
			return m
		}},
		"an observed generation that is not yet": {"S6", false, func() *madeUp {
			m := begin(1, 1)
			m.write(func(podSet *v1alpha1.PodSet) { podSet.Status.ObservedGeneration = 2 })
			return m
		}},
	} {
		t.Run(name, func(t *testing.T) {
			m := test.history()
			broken := judge(m.changes, [][]*write{m.writes}, test.leaderless).broken
			if test.promise == "" {
				if len(broken) > 0 {
					t.Errorf("no promise is broken, but: %v", broken)
				}
				return
			}
			for _, err := range broken {
				if strings.HasPrefix(err.Error(), test.promise) {
					return
				}
			}
			t.Errorf("%s is broken, found: %v", test.promise, broken)
		})
	}
}
