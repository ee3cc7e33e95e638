package controller

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	toolscache "k8s.io/client-go/tools/cache"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/randfill"

	"example.com/podset-operator/api/v1alpha1"
	"example.com/podset-operator/internal/podset"
)

// Which PodSet a pod is indexed under and wakes up.
func TestIndexesAndMapping(t *testing.T) {
	type keys = []string
	tests := map[string]struct {
		pod        *corev1.Pod
		controller keys
		orphanOf   keys
		wakes      []ctrl.Request
	}{
		"controlled by a PodSet":                            {pod("a", owned), keys{"uid-of-web"}, nil, requestFor("web")},
		"controlled by a PodSet, with the label of another": {pod("a", ownedByShop(true)), keys{"uid-of-shop"}, nil, requestFor("shop")},
		"controlled by a ReplicaSet":                        {pod("a", ownedBy("apps/v1", "ReplicaSet")), keys{"uid-of-other"}, nil, nil},
		"controlled by a PodSet of another group":           {pod("a", ownedBy("example.org/v1alpha1", "PodSet")), keys{"uid-of-other"}, nil, nil},
		"no controller":                                     {pod("a"), nil, keys{"default/web"}, requestFor("web")},
		"an owner that is not its controller":               {pod("a", ownedByShop(false)), nil, keys{"default/web"}, requestFor("web")},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			controller, err := controllerUID(test.pod)
			mustEqual(t, err, nil)
			mustEqual(t, controller, test.controller)

			orphan, err := orphanOf(test.pod)
			mustEqual(t, err, nil)
			mustEqual(t, orphan, test.orphanOf)

			mustEqual(t, podSetOf(t.Context(), test.pod), test.wakes)
		})
	}
}

func requestFor(name string) []ctrl.Request {
	return []ctrl.Request{{NamespacedName: client.ObjectKey{Namespace: "default", Name: name}}}
}

// ownedBy makes another kind of object of the same name the controller.
func ownedBy(apiVersion, kind string) podOption {
	return owner(apiVersion, kind, "web", "uid-of-other", true)
}

// ownedByShop makes PodSet "shop" an owner.
func ownedByShop(controller bool) podOption {
	return owner("app.example.com/v1alpha1", "PodSet", "shop", "uid-of-shop", controller)
}

func TestCacheHoldsThePodsOfPodSetsOnly(t *testing.T) {
	mustEqual(t, hasPodSetLabel.Matches(labels.Set{v1alpha1.PodSetLabel: "web", "app": "web"}), true)
	mustEqual(t, hasPodSetLabel.Matches(labels.Set{"app": "web"}), false)
}

func TestTrimPodKeepsJustWhatIsRead(t *testing.T) {
	owners := []metav1.OwnerReference{{Kind: "PodSet", Name: "web", UID: "uid-of-web", Controller: new(true)}, {Name: "other"}}
	at := func(seconds int) metav1.Time { return metav1.NewTime(now.Add(time.Duration(seconds) * time.Second)) }
	full := &corev1.Pod{
		TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Pod"},
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "default", Name: "a", GenerateName: "a-", UID: "uid", ResourceVersion: "7", Generation: 3,
			CreationTimestamp: at(1), DeletionTimestamp: new(at(2)), DeletionGracePeriodSeconds: new(int64(30)),
			OwnerReferences: owners, Finalizers: []string{"example.com/f"},
			Labels:        map[string]string{v1alpha1.PodSetLabel: "web", "app": "web"},
			Annotations:   map[string]string{v1alpha1.DeleteMeAnnotation: "", corev1.PodDeletionCost: "5", "big": "value"},
			ManagedFields: []metav1.ManagedFieldsEntry{{Manager: "kubelet"}},
		},
		Spec: corev1.PodSpec{NodeName: "node", Containers: []corev1.Container{{Name: "c"}}},
		Status: corev1.PodStatus{
			Phase: corev1.PodRunning, PodIP: "10.0.0.1",
			Conditions: []corev1.PodCondition{
				{Type: corev1.PodScheduled, Status: corev1.ConditionTrue},
				{Type: corev1.PodReady, Status: corev1.ConditionTrue, LastTransitionTime: at(3), LastProbeTime: at(4), Reason: "r", Message: "m"},
			},
			ContainerStatuses: []corev1.ContainerStatus{{Name: "c", RestartCount: 2, Image: "i"}, {Name: "d", RestartCount: 3}},
		},
	}
	untouched := full.DeepCopy()

	mustEqual(t, trim(t, full), &corev1.Pod{
		TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Pod"},
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "default", Name: "a", UID: "uid", ResourceVersion: "7",
			CreationTimestamp: at(1), DeletionTimestamp: new(at(2)),
			OwnerReferences: owners,
			Labels:          map[string]string{v1alpha1.PodSetLabel: "web"},
			Annotations:     map[string]string{v1alpha1.DeleteMeAnnotation: "", corev1.PodDeletionCost: "5"},
		},
		Spec: corev1.PodSpec{NodeName: "node"},
		Status: corev1.PodStatus{
			Phase: corev1.PodRunning,
			Conditions: []corev1.PodCondition{
				{Type: corev1.PodReady, Status: corev1.ConditionTrue, LastTransitionTime: at(3)},
			},
			ContainerStatuses: []corev1.ContainerStatus{{RestartCount: 2}, {RestartCount: 3}},
		},
	})
	mustEqual(t, full, untouched)
}

func TestTrimPodOfAnEmptyPodIsEmpty(t *testing.T) {
	mustEqual(t, trim(t, &corev1.Pod{}), &corev1.Pod{})
}

func TestTrimPodPassesTombstonesOn(t *testing.T) {
	tombstone := toolscache.DeletedFinalStateUnknown{Key: "default/a", Obj: pod("a")}
	got, err := trimPod(tombstone)
	mustEqual(t, err, nil)
	mustEqual(t, got, any(tombstone))
}

func trim(t *testing.T, pod *corev1.Pod) *corev1.Pod {
	t.Helper()
	trimmed, err := trimPod(pod)
	if err != nil {
		t.Fatal(err)
	}
	return trimmed.(*corev1.Pod)
}

// Whatever a pod holds, no answer depends on what is trimmed.
func TestTrimmedPodsGiveTheSameAnswers(t *testing.T) {
	for seed := range int64(200) {
		random := rand.New(rand.NewPCG(uint64(seed), 0))
		fill := podFiller(seed)
		var full, trimmed pods
		for i := range 8 {
			pod := &corev1.Pod{}
			fill.Fill(pod)
			pod.Name, pod.UID = fmt.Sprint("pod-", i), types.UID(fmt.Sprint("uid-", i))
			full, trimmed = append(full, pod), append(trimmed, trim(t, pod))
		}
		web := podSet(random.Int32N(6))
		web.Spec.MinReadySeconds = random.Int32N(120)
		web.Spec.FailedPodsHistoryLimit = new(random.Int32N(3))

		if diff := cmp.Diff(answers(t, web, full), answers(t, web, trimmed)); diff != "" {
			t.Fatalf("seed %d: with trimmed pods + instead of -:\n%s", seed, diff)
		}
	}
}

// podFiller fills pods at random, but so that the values that are read are often equal and often matter.
func podFiller(seed int64) *randfill.Filler {
	return randfill.NewWithSeed(seed).NilChance(0.5).NumElements(0, 2).MaxDepth(6).Funcs(
		func(meta *metav1.ObjectMeta, c randfill.Continue) {
			c.FillNoCustom(meta)
			meta.Namespace = "default"
			if c.Int()%3 > 0 {
				meta.DeletionTimestamp = nil
			}
			meta.Labels = oneOf(c, nil, map[string]string{v1alpha1.PodSetLabel: "web", "app": "web"})
			for _, key := range []string{v1alpha1.DeleteMeAnnotation, corev1.PodDeletionCost} {
				if c.Bool() {
					metav1.SetMetaDataAnnotation(meta, key, oneOf(c, "", "false", "1", "-1"))
				}
			}
		},
		func(owners *[]metav1.OwnerReference, c randfill.Continue) {
			stranger := metav1.OwnerReference{APIVersion: "apps/v1", Kind: "ReplicaSet", Name: "web", UID: "uid-of-rs", Controller: new(true)}
			*owners = oneOf(c, nil, pod("", owned).OwnerReferences, pod("", owned).OwnerReferences, []metav1.OwnerReference{stranger})
		},
		func(phase *corev1.PodPhase, c randfill.Continue) {
			*phase = oneOf(c, corev1.PodPending, corev1.PodRunning, corev1.PodUnknown, corev1.PodFailed, corev1.PodSucceeded)
		},
		func(spec *corev1.PodSpec, c randfill.Continue) {
			c.FillNoCustom(spec)
			spec.NodeName = oneOf(c, "", "node-1", "node-2")
		},
		func(conditions *[]corev1.PodCondition, c randfill.Continue) {
			*conditions = nil
			for _, conditionType := range []corev1.PodConditionType{corev1.PodInitialized, corev1.PodReady, corev1.ContainersReady} {
				if c.Int()%4 > 0 {
					condition := corev1.PodCondition{}
					c.Fill(&condition)
					condition.Type, condition.Status = conditionType, oneOf(c, corev1.ConditionTrue, corev1.ConditionFalse)
					*conditions = append(*conditions, condition)
				}
			}
		},
		func(t *metav1.Time, c randfill.Continue) {
			*t = metav1.NewTime(now.Add(-time.Duration(c.Int()%300) * time.Second))
		},
	)
}

func oneOf[T any](c randfill.Continue, values ...T) T { return values[c.Int()%len(values)] }

// answers are the answers to everything that is asked about pods.
func answers(t *testing.T, web *v1alpha1.PodSet, all pods) map[string]any {
	t.Helper()
	o := podset.Observation{PodSet: web, Now: now}
	answers := map[string]any{}
	for _, pod := range all {
		if podset.IsOwnedBy(pod, web) {
			o.Owned = append(o.Owned, pod)
		}
		if podset.IsOrphanOf(pod, web) {
			o.Orphans = append(o.Orphans, pod)
		}
		controller, _ := controllerUID(pod)
		orphan, _ := orphanOf(pod)
		answers["indexes and mapping of "+pod.Name] = []any{controller, orphan, podSetOf(t.Context(), pod)}
	}
	o.Backoff = podset.Backoff{}.Observe(o.Owned, "", now)
	answers["step"] = told(podset.Decide(o))
	answers["status"] = podset.Status(o)
	answers["next look"] = podset.NextLook(o)
	answers["deletions"] = deletions(o)
	return answers
}

// told is a step with the pod's name instead of the pod.
func told(step podset.Step) string {
	name := step.Name
	if step.Pod != nil {
		name = step.Pod.Name
	}
	return fmt.Sprintf("%s %s (%s)", step.Action, name, step.Why)
}

// deletions are the steps that are taken until no pod is left.
func deletions(o podset.Observation) []string {
	o.PodSet = o.PodSet.DeepCopy()
	o.PodSet.Spec.Replicas, o.PodSet.Spec.FailedPodsHistoryLimit = new(int32(0)), new(int32(0))
	var steps []string
	for step := podset.Decide(o); step.Action != podset.Nothing; step = podset.Decide(o) {
		steps = append(steps, told(step))
		o.Owned = slices.DeleteFunc(slices.Clone(o.Owned), func(pod *corev1.Pod) bool { return pod == step.Pod })
	}
	return steps
}
