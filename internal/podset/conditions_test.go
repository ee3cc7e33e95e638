package podset

import (
	"fmt"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"example.com/podset-operator/api/v1alpha1"
)

// During a roll-out, of generation 7 here, Ready tells whether enough pods serve, and for which generation that was last
// all that was wanted; the other conditions tell what goes on.
func TestConditionsDuringARollOut(t *testing.T) {
	refused := held(Create, now.Add(time.Hour), Problem{Reason: "Forbidden", Message: "not allowed"})
	invalid := held(Create, now.Add(time.Hour), Problem{Reason: "InvalidTemplate", Message: "no image", Stalled: true})
	surged := pods{pod("a", old, ready), pod("b", old, ready), pod("c", ofRevision(present))}
	tests := map[string]struct {
		podSet *v1alpha1.PodSet
		pods   pods
		holds  map[Action]Hold
		want   []string
	}{
		"it begins": {
			podSet(2),
			pods{pod("a", old, ready), pod("b", old, ready)},
			nil,
			[]string{"Ready=True for 6: PodsAvailable, 2 of 2 pods are available", "Reconciling: RollingOut, 0 of 2 updated, 2 available"},
		},
		"a new pod is on trial": {
			podSet(2), surged, nil,
			[]string{"Ready=True for 6: PodsAvailable, 2 of 2 pods are available", "Reconciling: RollingOut, 1 of 2 updated, 2 available"},
		},
		"an old pod is lost": {
			podSet(2),
			pods{pod("a", old, ready), pod("b", old), pod("c", ofRevision(present))},
			nil,
			[]string{"Ready=False for 6: RollingOut, 1 of 2 updated, 1 available", "Reconciling: RollingOut, 1 of 2 updated, 1 available"},
		},
		"one pod may be unavailable, and is": {
			podSet(2, budget("1", "0")),
			pods{pod("a", old, ready), pod("c", ofRevision(present))},
			nil,
			[]string{"Ready=True for 6: PodsAvailable, 1 of 2 pods are available", "Reconciling: RollingOut, 1 of 2 updated, 1 available"},
		},
		"all old pods are gone, but the last new one is not available yet": {
			podSet(2),
			pods{pod("a", ofRevision(present), ready), pod("c", ofRevision(present))},
			nil,
			[]string{"Ready=False for 6: PodsNotAvailable, 1 of 2 pods are available", "Reconciling: PodsNotAvailable, 1 of 2 pods are available"},
		},
		"it is complete": {
			podSet(2),
			pods{pod("a", ofRevision(present), ready), pod("c", ofRevision(present), ready)},
			nil,
			[]string{"Ready=True for 7: PodsAvailable, 2 of 2 pods are available"},
		},
		"it is paused": {
			podSet(2, paused), surged, nil,
			[]string{"Ready=True for 6: PodsAvailable, 2 of 2 pods are available", "Reconciling: RollOutPaused, 1 of 2 updated, 2 available; spec.paused is true"},
		},
		"it is left to others": {
			podSet(2, onDelete),
			pods{pod("a", old, ready), pod("b", old, ready)},
			nil,
			[]string{"Ready=True for 7: PodsAvailable, 2 of 2 pods are available"},
		},
		"the new pods are refused": {
			podSet(2),
			pods{pod("a", old, ready), pod("b", old, ready)},
			refused,
			[]string{"Ready=True for 6: PodsAvailable, 2 of 2 pods are available", "Reconciling: Forbidden, not allowed"},
		},
		"the new template is invalid": {
			podSet(2),
			pods{pod("a", old, ready), pod("b", old, ready)},
			invalid,
			[]string{"Ready=True for 6: PodsAvailable, 2 of 2 pods are available", "Stalled: InvalidTemplate, no image"},
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			test.podSet.Status.CurrentRevision = outdated
			test.podSet.Status.Conditions = []metav1.Condition{
				{Type: v1alpha1.ConditionReady, Status: metav1.ConditionTrue, Reason: v1alpha1.ReasonPodsAvailable, ObservedGeneration: 6},
			}
			o := Observation{PodSet: test.podSet, Owned: test.pods, Holds: test.holds, Revision: present, Now: now}
			var got []string
			for _, c := range Status(o).Conditions {
				if c.Type == v1alpha1.ConditionReady {
					got = append(got, fmt.Sprintf("%s=%s for %d: %s, %s", c.Type, c.Status, c.ObservedGeneration, c.Reason, c.Message))
				} else {
					got = append(got, fmt.Sprintf("%s: %s, %s", c.Type, c.Reason, c.Message))
				}
			}
			mustEqual(t, got, test.want)
		})
	}
}

// A PodSet that was Ready for its present generation adopts a pod of another template. Whoever waits for Ready of this
// generation waits until that is replaced, too.
func TestARollOutMayBeginWithoutAChangeOfTheSpec(t *testing.T) {
	o := Observation{PodSet: podSet(1), Owned: pods{pod("a", old, ready)}, Revision: present, Now: now}
	o.PodSet.Status.CurrentRevision = present
	o.PodSet.Status.Conditions = []metav1.Condition{{Type: v1alpha1.ConditionReady, Status: metav1.ConditionTrue, ObservedGeneration: 7}}
	ready := Status(o).Conditions[0]
	mustEqual(t, ready.Status, metav1.ConditionTrue)
	mustEqual(t, ready.ObservedGeneration, int64(6))
}

func TestOnlyARefusalThatIsInTheWayIsTold(t *testing.T) {
	refused := Problem{Reason: v1alpha1.ReasonForbidden, Message: "protected"}
	for why, want := range map[Why]string{
		OldRevision: v1alpha1.ReasonForbidden, ScaleDown: v1alpha1.ReasonForbidden,
		History: v1alpha1.ReasonRollingOut, DeleteMeNow: v1alpha1.ReasonRollingOut,
	} {
		o := Observation{
			PodSet: podSet(1), Owned: pods{pod("a", old, ready), pod("b", ofRevision(present)), pod("c", failed)}, Revision: present, Now: now,
			Holds: map[Action]Hold{Delete: {Until: now.Add(time.Second), Problem: refused, Why: why}},
		}
		o.PodSet.Status.CurrentRevision = outdated
		mustEqual(t, Status(o).Conditions[1].Reason, want)
	}
}
