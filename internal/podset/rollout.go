package podset

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"example.com/podset-operator/api/v1alpha1"
)

// A roll-out replaces the pods of older templates by the first of three steps that applies. It keeps as many pods available as
// were wanted less maxUnavailable, and makes no more than maxSurge beside them.

// removeUnavailableOld removes an old pod that serves nobody, which costs nothing. But no old pod goes while as many new
// ones as the budgets make are on trial: when these do not come up, the old ones, which may recover, stay.
func (c census) removeUnavailableOld() Step {
	unavailable := filter(c.old, func(pod *corev1.Pod) bool { return !c.isAvailable(pod) })
	onTrial := c.onTrial + max(0, c.desired-len(c.active))
	if !c.replaces() || len(unavailable) == 0 || onTrial >= c.surge+c.tolerated || !c.mayRemoveOld() {
		return Step{}
	}
	return Step{Action: Delete, Why: OldRevision, Pod: c.leastUseful(unavailable), Replacement: c.replacement()}
}

// createNew creates a pod of the present template in the place of an old one that has gone, or beside those that there are.
func (c census) createNew() Step {
	if !c.replaces() || c.updated >= c.desired || c.taken()+c.inDoubt >= c.desired+c.surge || !c.mayCreate() {
		return Step{}
	}
	return Step{Action: Create, Why: RollOut, Name: c.nextName()}
}

// removeAvailableOld removes an old pod if enough others are available.
func (c census) removeAvailableOld() Step {
	available := filter(c.old, c.isAvailable)
	if !c.replaces() || len(available) == 0 || c.available <= c.desired-c.tolerated || !c.mayRemoveOld() {
		return Step{}
	}
	return Step{Action: Delete, Why: OldRevision, Pod: c.leastUseful(available), Replacement: c.replacement()}
}

// mayCreate reports whether nothing is known that keeps a new pod from coming up.
func (c census) mayCreate() bool {
	return !c.isHeld(Create) && c.Backoff.holdsUntil(c.active, c.Now).IsZero()
}

// mayRemoveOld reports whether an old pod may go: its replacement is there, or as far as is known can be created, if only
// in the room in the quota that the old pod leaves.
func (c census) mayRemoveOld() bool {
	return c.updated >= c.desired || c.mayCreate() ||
		c.isHeld(Create) && c.Holds[Create].Problem.Reason == v1alpha1.ReasonQuotaExceeded
}

// replacement is the name of the pod that will be created in the place of one that is removed now; empty if none will be.
func (c census) replacement() string {
	if len(c.active) > c.desired || c.updated >= c.desired {
		return ""
	}
	return c.nextName()
}

// budgets returns how many pods a roll-out may make beside the desired ones, and how many of those it may leave
// unavailable. Percentages round as Deployment's do: surge up, unavailable down, and if that leaves nothing to move with,
// one pod may be unavailable.
func budgets(strategy v1alpha1.UpdateStrategy, desired int) (surge, unavailable int) {
	if strategy.Type == v1alpha1.OnDelete {
		return 0, 0
	}
	surge, unavailable = 1, 0
	if budgets := strategy.RollingUpdate; budgets != nil {
		surge = scaled(budgets.MaxSurge, 1, desired, true)
		unavailable = scaled(budgets.MaxUnavailable, 0, desired, false)
	}
	if surge == 0 && unavailable == 0 {
		unavailable = 1
	}
	return surge, min(unavailable, desired)
}

func scaled(value *intstr.IntOrString, otherwise, total int, roundUp bool) int {
	if value == nil {
		return otherwise
	}
	number, err := intstr.GetScaledValueFromIntOrPercent(value, total, roundUp)
	if err != nil {
		return otherwise // the API server has refused anything that is neither a number nor a percentage
	}
	return max(0, number)
}
