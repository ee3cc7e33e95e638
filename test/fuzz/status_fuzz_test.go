package fuzz

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"

	"example.com/podset-operator/api/v1alpha1"
	"example.com/podset-operator/internal/podset"
)

// FuzzStatus judges what is reported about an observation.
func FuzzStatus(f *testing.F) {
	addSeeds(f)
	crd := loadCRD(f)
	f.Fuzz(func(t *testing.T, data []byte) {
		o := observationFrom(data)
		status := podset.Status(o)
		if diff := cmp.Diff(observationFrom(data), o, comparing); diff != "" {
			t.Fatalf("reporting changes the observation:\n%s", diff)
		}
		if diff := cmp.Diff(status, podset.Status(reversed(o)), anyOrder); diff != "" {
			t.Fatalf("the status depends on the order of the pods:\n%s", diff)
		}
		judgeCounts(t, o, status)
		judgeConditions(t, o, status)
		reported := o.PodSet.DeepCopy()
		reported.Status = status
		o.PodSet = stored(t, crd, reported)
		if diff := cmp.Diff(o.PodSet.Status, podset.Status(o), anyOrder); diff != "" {
			t.Fatalf("the status changes by being reported:\n%s", diff)
		}
	})
}

// anyOrder compares conditions without regard to their order.
var anyOrder = cmpopts.SortSlices(func(a, b metav1.Condition) bool { return a.Type < b.Type })

func loadCRD(f *testing.F) *definition {
	f.Helper()
	crd, err := loadDefinition("../../config/crd/bases/app.example.com_podsets.yaml")
	if err != nil {
		f.Fatal(err)
	}
	return crd
}

// stored is the PodSet as it is read after the API server took it; a refusal fails the test.
func stored(t *testing.T, crd *definition, podSet *v1alpha1.PodSet) *v1alpha1.PodSet {
	t.Helper()
	podSet.SetGroupVersionKind(v1alpha1.PodSetKind)
	object, err := runtime.DefaultUnstructuredConverter.ToUnstructured(podSet)
	if err != nil {
		t.Fatal(err)
	}
	if err := crd.admit(t.Context(), object); err != nil {
		t.Fatalf("the API server refuses the PodSet: %s", err)
	}
	read := &v1alpha1.PodSet{}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(object, read); err != nil {
		t.Fatal(err)
	}
	return read
}

func judgeCounts(t *testing.T, o podset.Observation, status v1alpha1.PodSetStatus) {
	t.Helper()
	n := factsOf(o)
	want := v1alpha1.PodSetStatus{
		ObservedGeneration:  o.PodSet.Generation,
		Replicas:            int32(n.active),
		ReadyReplicas:       int32(n.ready),
		AvailableReplicas:   int32(n.available),
		UpdatedReplicas:     int32(n.updated),
		TerminatingReplicas: int32(n.terminating),
		PodNames:            activeNames(o),
		UpdateRevision:      o.Revision,
	}
	ignored := cmpopts.IgnoreFields(v1alpha1.PodSetStatus{}, "Selector", "CurrentRevision", "Conditions")
	if diff := cmp.Diff(want, status, ignored); diff != "" {
		t.Fatalf("the counts are wrong:\n%s", diff)
	}
	selector, err := labels.Parse(status.Selector)
	if err != nil {
		t.Fatal(err)
	}
	for _, pod := range o.Owned {
		if !selector.Matches(labels.Set(pod.Labels)) {
			t.Fatalf("the selector %q does not find pod %s", selector, pod.Name)
		}
	}
	if n.old == 0 && n.active == n.desired && n.available == n.desired && status.CurrentRevision != o.Revision {
		t.Fatalf("the current revision is %q with %+v", status.CurrentRevision, n)
	}
}

func judgeConditions(t *testing.T, o podset.Observation, status v1alpha1.PodSetStatus) {
	t.Helper()
	n := factsOf(o)
	expect := func(holds bool, what string) {
		t.Helper()
		if !holds {
			t.Fatalf("%s: %+v with %+v", what, status.Conditions, n)
		}
	}
	ready := meta.FindStatusCondition(status.Conditions, v1alpha1.ConditionReady)
	reconciling := meta.FindStatusCondition(status.Conditions, v1alpha1.ConditionReconciling)
	stalled := meta.FindStatusCondition(status.Conditions, v1alpha1.ConditionStalled)
	expect(ready != nil, "Ready is always told")
	expect(reconciling == nil || stalled == nil, "it is not both on its way and stalled")
	for _, c := range []*metav1.Condition{reconciling, stalled} {
		expect(c == nil || c.Status == metav1.ConditionTrue && c.ObservedGeneration == o.PodSet.Generation, "it is told only while it is true")
	}
	isReady := ready.Status == metav1.ConditionTrue
	expect(!isReady || n.available >= n.desired-n.tolerated, "too few pods are available to be ready")
	expect(!isReady || n.old > 0 || status.CurrentRevision != o.Revision || n.available >= n.desired, "it is ready with pods not available")
	if reconciling != nil || stalled != nil {
		return
	}
	expect(isReady, "it is neither ready nor on its way nor stalled")
	expect(n.active == n.desired && n.available == n.desired, "not all is as wanted, and nothing tells")
	free := o
	free.Holds, free.AskedNames, free.Backoff, free.Unlabelled = nil, nil, podset.Backoff{}, nil
	free.Owned = slices.Clone(o.Owned)
	for i, pod := range free.Owned {
		free.Owned[i] = pod.DeepCopy()
		delete(free.Owned[i].Annotations, v1alpha1.DeleteMeAnnotation)
	}
	step := podset.Decide(free)
	expect(step.Action == podset.Nothing || step.Why == podset.History, "there is something to do, and nothing tells")
	expect(ready.ObservedGeneration == o.PodSet.Generation || o.PodSet.DeletionTimestamp != nil, "Ready is about another generation")
}
