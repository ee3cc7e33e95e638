package podset

import (
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"example.com/podset-operator/api/v1alpha1"
)

// condition returns a condition that has just changed, for the generation of podSet.
func condition(conditionType string, status metav1.ConditionStatus, reason, message string) metav1.Condition {
	return metav1.Condition{
		Type: conditionType, Status: status, Reason: reason, Message: message,
		ObservedGeneration: 7, LastTransitionTime: metav1.NewTime(now),
	}
}

func readyBecause(reason, message string) []metav1.Condition {
	return []metav1.Condition{condition("Ready", metav1.ConditionTrue, reason, message)}
}

func reconcilingBecause(reason, message string) []metav1.Condition {
	return []metav1.Condition{
		condition("Ready", metav1.ConditionFalse, reason, message),
		condition("Reconciling", metav1.ConditionTrue, reason, message),
	}
}

func stalledBecause(reason, message string) []metav1.Condition {
	return []metav1.Condition{
		condition("Ready", metav1.ConditionFalse, reason, message),
		condition("Stalled", metav1.ConditionTrue, reason, message),
	}
}

func TestStatus(t *testing.T) {
	quota := Problem{Reason: v1alpha1.ReasonQuotaExceeded, Message: "exceeded quota: q, used: pods=1"}
	badTemplate := Problem{Reason: v1alpha1.ReasonInvalidTemplate, Message: "spec.containers[0].image: Required value", Stalled: true}
	refusal := Problem{Reason: v1alpha1.ReasonForbidden, Message: "not allowed"}
	later := now.Add(time.Second)

	tests := map[string]struct {
		seen Observation
		want v1alpha1.PodSetStatus // without what is always the same
	}{
		"no pods, none wanted": {
			Observation{PodSet: podSet(0)},
			v1alpha1.PodSetStatus{Conditions: readyBecause("PodsAvailable", "0 of 0 pods are available")},
		},
		"all pods available, replicas left out": {
			Observation{PodSet: podSet(0, replicasLeftOut), Owned: pods{pod("a", ready)}},
			v1alpha1.PodSetStatus{
				Replicas: 1, ReadyReplicas: 1, AvailableReplicas: 1, PodNames: []string{"a"},
				Conditions: readyBecause("PodsAvailable", "1 of 1 pods are available"),
			},
		},
		"pods in every state: only active ones are counted and named, in order": {
			Observation{PodSet: podSet(3), Owned: pods{
				pod("c", ready), pod("a", ready), pod("b", pending), pod("f", ready, terminating), pod("g", failed, terminating),
				pod("d", ready, failed), pod("e", ready, succeeded),
			}},
			v1alpha1.PodSetStatus{
				Replicas: 3, ReadyReplicas: 2, AvailableReplicas: 2, TerminatingReplicas: 1, PodNames: []string{"a", "b", "c"},
				Conditions: reconcilingBecause("PodsNotAvailable", "2 of 3 pods are available"),
			},
		},
		"orphans are not counted": {
			Observation{PodSet: podSet(0), Orphans: pods{pod("o", ready)}},
			v1alpha1.PodSetStatus{Conditions: readyBecause("PodsAvailable", "0 of 0 pods are available")},
		},
		"too few pods": {
			Observation{PodSet: podSet(3), Owned: pods{pod("a", ready)}},
			v1alpha1.PodSetStatus{
				Replicas: 1, ReadyReplicas: 1, AvailableReplicas: 1, PodNames: []string{"a"},
				Conditions: reconcilingBecause("ScalingUp", "1 of 3 pods exist"),
			},
		},
		"too many pods": {
			Observation{PodSet: podSet(1), Owned: pods{pod("a", ready), pod("b", ready)}},
			v1alpha1.PodSetStatus{
				Replicas: 2, ReadyReplicas: 2, AvailableReplicas: 2, PodNames: []string{"a", "b"},
				Conditions: reconcilingBecause("ScalingDown", "2 pods exist, 1 are wanted"),
			},
		},
		"pods are missing and terminating ones are waited for": {
			Observation{PodSet: podSet(2, terminationComplete), Owned: pods{pod("a", ready), pod("b", terminating)}},
			v1alpha1.PodSetStatus{
				Replicas: 1, ReadyReplicas: 1, AvailableReplicas: 1, TerminatingReplicas: 1, PodNames: []string{"a"},
				Conditions: reconcilingBecause("PodsTerminating",
					"1 of 2 pods exist; the missing ones are created when 1 terminating pods are gone"),
			},
		},
		"pods are ready, but not for long enough": {
			Observation{PodSet: podSet(2, minReadySeconds(10)), Owned: pods{
				pod("a", readyFor(11*time.Second)), pod("b", readyFor(9*time.Second)),
			}},
			v1alpha1.PodSetStatus{
				Replicas: 2, ReadyReplicas: 2, AvailableReplicas: 1, PodNames: []string{"a", "b"},
				Conditions: reconcilingBecause("PodsNotAvailable", "1 of 2 pods are available"),
			},
		},
		"pods keep failing": {
			Observation{PodSet: podSet(2), Owned: pods{pod("a", ready)}, Backoff: podsFailing()},
			v1alpha1.PodSetStatus{
				Replicas: 1, ReadyReplicas: 1, AvailableReplicas: 1, PodNames: []string{"a"},
				Conditions: reconcilingBecause("PodsFailing",
					"1 of 2 pods exist; pods end soon after their creation, so the next is created after a delay of 1s"),
			},
		},
		"creation was refused: the server's words": {
			Observation{PodSet: podSet(2), Owned: pods{pod("a", ready)}, Holds: held(Create, later, quota)},
			v1alpha1.PodSetStatus{
				Replicas: 1, ReadyReplicas: 1, AvailableReplicas: 1, PodNames: []string{"a"},
				Conditions: reconcilingBecause(quota.Reason, quota.Message),
			},
		},
		"creation was refused and pods keep failing: the server's words": {
			Observation{PodSet: podSet(1), Holds: held(Create, later, quota), Backoff: podsFailing()},
			v1alpha1.PodSetStatus{Conditions: reconcilingBecause(quota.Reason, quota.Message)},
		},
		"creation was refused, and it is time to try again": {
			Observation{PodSet: podSet(1), Holds: held(Create, now, quota)},
			v1alpha1.PodSetStatus{Conditions: reconcilingBecause("ScalingUp", "0 of 1 pods exist")},
		},
		"creation was refused, but no pod is missing any more": {
			Observation{PodSet: podSet(0), Holds: held(Create, later, quota)},
			v1alpha1.PodSetStatus{Conditions: readyBecause("PodsAvailable", "0 of 0 pods are available")},
		},
		"the template is invalid: stalled": {
			Observation{PodSet: podSet(1), Holds: held(Create, later, badTemplate)},
			v1alpha1.PodSetStatus{Conditions: stalledBecause(badTemplate.Reason, badTemplate.Message)},
		},
		"a scale-down was refused: the server's words": {
			Observation{PodSet: podSet(0), Owned: pods{pod("a")}, Holds: held(Delete, later, refusal)},
			v1alpha1.PodSetStatus{
				Replicas: 1, PodNames: []string{"a"},
				Conditions: reconcilingBecause(refusal.Reason, refusal.Message),
			},
		},
		"only trimming the history was refused: ready": {
			Observation{
				PodSet: podSet(1, historyLimit(0)), Owned: pods{pod("a", ready), pod("b", failed)},
				Holds: held(Delete, later, refusal),
			},
			v1alpha1.PodSetStatus{
				Replicas: 1, ReadyReplicas: 1, AvailableReplicas: 1, PodNames: []string{"a"},
				Conditions: readyBecause("PodsAvailable", "1 of 1 pods are available"),
			},
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			test.seen.Now = now
			test.want.ObservedGeneration = 7
			test.want.Selector = "app.example.com/podset=web"
			// All pods are of the present template.
			test.seen.Revision = present
			test.want.UpdatedReplicas = test.want.Replicas
			test.want.CurrentRevision, test.want.UpdateRevision = present, present
			mustEqual(t, Status(test.seen), test.want)

			shuffle(test.seen.Owned)
			mustEqual(t, Status(test.seen), test.want)
		})
	}
}

// scalingUp and scaledUp are a PodSet before and after its one pod is there.
func scalingUp(at time.Time) Observation { return Observation{PodSet: podSet(1), Now: at} }

func scaledUp(at time.Time) Observation {
	return Observation{PodSet: podSet(1), Owned: pods{pod("a", ready)}, Now: at}
}

// following is an observation of the PodSet whose status says what was observed before.
func following(before, o Observation) Observation {
	o.PodSet.Status = Status(before)
	return o
}

func TestStatusOfAnEqualObservationIsEqual(t *testing.T) {
	broken := scalingUp(now)
	broken.Holds = held(Create, now.Add(time.Hour), Problem{Reason: "InvalidTemplate", Message: "no", Stalled: true})
	for name, before := range map[string]Observation{"reconciling": scalingUp(now), "ready": scaledUp(now), "stalled": broken} {
		t.Run(name, func(t *testing.T) {
			again := before
			again.PodSet = before.PodSet.DeepCopy()
			again.Now = now.Add(time.Minute)
			again = following(before, again)
			mustEqual(t, Status(again), again.PodSet.Status)
		})
	}
}

func TestConditionsKeepTheirTransitionTimeUntilTheirStatusChanges(t *testing.T) {
	later := now.Add(time.Minute)
	waiting := Observation{PodSet: podSet(1), Owned: pods{pod("a")}, Now: later}

	got := Status(following(scalingUp(now), waiting))
	mustEqual(t, got.Conditions, reconcilingBecause("PodsNotAvailable", "0 of 1 pods are available"))

	got = Status(following(waiting, scaledUp(later)))
	want := readyBecause("PodsAvailable", "1 of 1 pods are available")
	want[0].LastTransitionTime = metav1.NewTime(later)
	mustEqual(t, got.Conditions, want)
}

func TestReconcilingAndStalledTakeTurnsAndGo(t *testing.T) {
	broken := scalingUp(now)
	broken.Holds = held(Create, now.Add(time.Hour), Problem{Reason: "InvalidTemplate", Message: "no", Stalled: true})
	situations := map[string]struct {
		seen Observation
		want []string
	}{
		"reconciling": {scalingUp(now), []string{"Ready=False", "Reconciling=True"}},
		"stalled":     {broken, []string{"Ready=False", "Stalled=True"}},
		"ready":       {scaledUp(now), []string{"Ready=True"}},
	}
	for from, before := range situations {
		for to, after := range situations {
			t.Run(from+" then "+to, func(t *testing.T) {
				o := after.seen
				o.PodSet = o.PodSet.DeepCopy()
				o = following(before.seen, o)
				untouched := o.PodSet.DeepCopy()

				var got []string
				for _, condition := range Status(o).Conditions {
					got = append(got, condition.Type+"="+string(condition.Status))
				}
				mustEqual(t, got, after.want)
				mustEqual(t, o.PodSet, untouched)
			})
		}
	}
}

func TestStatusIsAboutTheGenerationObserved(t *testing.T) {
	next := scaledUp(now)
	next = following(scaledUp(now), next)
	next.PodSet.Generation = 8
	got := Status(next)
	mustEqual(t, got.ObservedGeneration, int64(8))
	mustEqual(t, got.Conditions[0].ObservedGeneration, int64(8))
}

func TestStatusKeepsTheConditionsOfOthers(t *testing.T) {
	o := scaledUp(now)
	others := condition("example.com/Audited", metav1.ConditionTrue, "Fine", "")
	o.PodSet.Status.Conditions = []metav1.Condition{others}

	want := append([]metav1.Condition{others}, readyBecause("PodsAvailable", "1 of 1 pods are available")...)
	mustEqual(t, Status(o).Conditions, want)
}
