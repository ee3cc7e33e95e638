package podset

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
)

// The rules in order. The pod that has first is deleted rather than one that has last.
var deletionRules = []struct {
	name        string
	first, last podOption
}{
	{"marked before unmarked", deleteMe("true"), asIs},
	{"of an older template before of the present", ofRevision("older"), ofRevision(present)},
	{"not bound before bound", onNode(""), onNode("quiet")},
	{"Pending before Unknown", pending, unknown},
	{"Unknown before Running", unknown, running},
	{"not ready before ready", notReady, ready},
	{"cheap before dear", deletionCostOf("-5"), deletionCostOf("5")},
	{"many siblings on the node before few", onNode("crowded"), onNode("quiet")},
	{"ready for a short time before long", readyFor(time.Minute), readyFor(time.Hour)},
	{"many restarts before few", restarts(0, 3), restarts(2, 2)},
	{"young before old", created(time.Minute), created(time.Hour)},
	{"by name", named("a"), named("b")},
}

// leastUsefulOf chooses among all active pods of a PodSet that wants none.
func leastUsefulOf(active pods, refused ...types.UID) *corev1.Pod {
	o := Observation{PodSet: podSet(0), Owned: active, RefusedPods: sets.New(refused...), Now: now, Revision: present}
	return o.census().leastUseful(active)
}

// Of two pods that are the same by all rules before, a rule chooses one although all rules after it choose the other.
func TestEachRuleOfTheDeletionOrderPrecedesTheNext(t *testing.T) {
	for i, rule := range deletionRules {
		t.Run(rule.name, func(t *testing.T) {
			victim, survivor := pod("pod", ready, onNode("quiet")), pod("pod", ready, onNode("quiet"))
			for j := len(deletionRules) - 1; j > i; j-- {
				deletionRules[j].last(victim)
				deletionRules[j].first(survivor)
			}
			rule.first(victim)
			rule.last(survivor)
			neighbour := pod("neighbour", readyFor(2*time.Hour), onNode("crowded"), deletionCostOf("5"), created(2*time.Hour))

			for _, active := range []pods{{victim, survivor, neighbour}, {neighbour, survivor, victim}} {
				if leastUsefulOf(active) != victim {
					t.Errorf("chose the wrong one of\n  right: %+v\n  wrong: %+v", victim, survivor)
				}
			}
		})
	}
}

func TestMarksAndCosts(t *testing.T) {
	tests := map[string]struct {
		a, b podOption
		want string
	}{
		"a mark of any value counts":                 {deleteMe("yes"), deleteMe("false"), "a"},
		"an empty mark counts":                       {asIs, deleteMe(""), "b"},
		"a mark of false is none":                    {asIs, deleteMe("false"), "a"},
		"no cost is 0, more than a negative one":     {asIs, deletionCostOf("-1"), "b"},
		"no cost is 0, less than a positive one":     {deletionCostOf("1"), asIs, "b"},
		"costs compare as numbers":                   {deletionCostOf("10"), deletionCostOf("9"), "b"},
		"the least cost there is":                    {deletionCostOf("-2147483647"), deletionCostOf("-2147483648"), "b"},
		"the greatest cost there is":                 {deletionCostOf("2147483647"), deletionCostOf("2147483646"), "b"},
		"an empty cost is 0":                         {deletionCostOf("1"), deletionCostOf(""), "b"},
		"a cost with a plus sign is invalid, so 0":   {deletionCostOf("1"), deletionCostOf("+5"), "b"},
		"a cost with leading zeros is invalid, so 0": {deletionCostOf("1"), deletionCostOf("008"), "b"},
		"a cost with an exponent is invalid, so 0":   {deletionCostOf("1"), deletionCostOf("1e3"), "b"},
		"a cost with a fraction is invalid, so 0":    {deletionCostOf("1"), deletionCostOf("2.5"), "b"},
		"a cost with a space is invalid, so 0":       {deletionCostOf("1"), deletionCostOf(" 5"), "b"},
		"a cost beyond 32 bits is invalid, so 0":     {deletionCostOf("1"), deletionCostOf("99999999999"), "b"},
		"a cost below 32 bits is invalid, so 0":      {deletionCostOf("-1"), deletionCostOf("-99999999999"), "a"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			got := leastUsefulOf(pods{pod("a", test.a), pod("b", test.b)})
			mustEqual(t, got.Name, test.want)
		})
	}
}

func TestLeastUsefulOfNoPods(t *testing.T) {
	if got := leastUsefulOf(nil); got != nil {
		t.Errorf("chose %s of no pods", got.Name)
	}
}

// Whichever way the pods are listed, they are deleted in the same order, and each of them is some time.
func TestTheDeletionOrderIsTotal(t *testing.T) {
	for seed := range uint64(100) {
		random := rand.New(rand.NewPCG(seed, 0))
		all := pods{}
		for i := range 8 {
			// Few values each, so that there are ties in all rules but the last.
			pod := pod("", ready)
			for _, rule := range deletionRules {
				[]podOption{rule.first, rule.last, asIs}[random.IntN(3)](pod)
			}
			pod.Name = fmt.Sprint("pod-", i)
			all = append(all, pod)
		}
		want := deletionOrder(all)
		if len(want) != len(all) {
			t.Fatalf("seed %d: %d pods of %d were deleted", seed, len(want), len(all))
		}
		for range 5 {
			shuffle(all)
			mustEqual(t, deletionOrder(all), want)
		}
	}
}

// deletionOrder returns the names of the pods in the order in which they are deleted.
func deletionOrder(active pods) []string {
	var order []string
	for len(active) > 0 {
		victim := leastUsefulOf(active)
		order = append(order, victim.Name)
		active = filter(active, func(pod *corev1.Pod) bool { return pod != victim })
	}
	return order
}

func TestAPodWhoseDeletionIsRefusedDoesNotBlockTheOthers(t *testing.T) {
	marked, other := pod("a", ready, annotated("app.example.com/delete-me", "true")), pod("b", ready)
	mustEqual(t, leastUsefulOf(pods{marked, other}).Name, "a")
	mustEqual(t, leastUsefulOf(pods{marked, other}, marked.UID).Name, "b")
	mustEqual(t, leastUsefulOf(pods{marked, other}, marked.UID, other.UID).Name, "a")

	// But it is not a reason to remove a pod that is needed, or one that was just made.
	serving, broken := pod("a", ready, ofRevision("older")), pod("b", notReady, ofRevision(present))
	o := Observation{PodSet: podSet(1), Owned: pods{serving, broken}, RefusedPods: sets.New(broken.UID), Revision: present, Now: now}
	mustEqual(t, o.census().leastUseful(o.Owned).Name, "b")
	mustEqual(t, leastUsefulOf(pods{serving, pod("c", ready, ofRevision(present))}, serving.UID).Name, "a")

	first, second := pod("a", failed), pod("b", failed)
	mustEqual(t, beyondHistory(pods{first, second}, 1, nil).Name, "a")
	mustEqual(t, beyondHistory(pods{first, second}, 1, sets.New(first.UID)).Name, "b")
}

func TestNewPodsGoFirstWhenEveryAvailablePodIsNeeded(t *testing.T) {
	old, updated := pod("a", ready, ofRevision("older")), pod("b", notReady, ofRevision(present))
	tests := map[string]struct {
		replicas int32
		updated  podOption
		want     *corev1.Pod
	}{
		"the old pod is the only available one":   {1, asIs, updated},
		"no pod needs to be available":            {0, asIs, old},
		"the new pod is available too":            {1, ready, old},
		"both are available, and both are needed": {2, ready, old},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			test.updated(updated)
			defer notReady(updated)
			o := Observation{PodSet: podSet(test.replicas), Owned: pods{old, updated}, Revision: present, Now: now}
			mustEqual(t, o.census().leastUseful(o.Owned).Name, test.want.Name)
		})
	}
}
