package sim

import (
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"example.com/podset-operator/api/v1alpha1"
)

const (
	// convergence is how long it may take after the last fault, plus perPod for each missing pod.
	convergence = time.Minute
	// soon is the same for a setup in which nothing fails often.
	soon   = 5 * time.Second
	perPod = 500 * time.Millisecond
	// failing is how much longer it may take where pods kept failing.
	failing = 5*time.Minute + 30*time.Second
)

// end settles, and checks that what is left does not depend on what has happened before.
func (w *world) end() error {
	if err := w.settle(); err != nil {
		return err
	}
	fresh := w.fresh()
	if err := fresh.settle(); err != nil {
		return fmt.Errorf("from the start: %w", err)
	}
	if got, want := w.outcome(), fresh.outcome(); got != want {
		return fmt.Errorf("the end is\n%s\nbut from the start it is\n%s", got, want)
	}
	return nil
}

// settle lets the faults end and checks that the operator brings about what is wanted, and then is quiet.
func (w *world) settle() error {
	w.settling, w.chooser = true, smooth{}
	w.endFaults()
	began, lastWrite := w.now, w.now
	idle := 0
	for rounds := 0; ; rounds++ {
		version := w.server.last().version
		w.everybodyElse()
		ran, due := w.runReady()
		if w.oracle.broken != nil {
			return w.oracle.broken
		}
		if w.server.last().version != version {
			lastWrite, idle = w.now, 0
		}
		switch {
		case rounds > 3000:
			return fmt.Errorf("L2: the managers never come to rest; the last write: %s", w.server.last().describe())
		case ran || w.unsettled():
			continue
		case due.IsZero() || idle > 8:
			return w.judgeRest(began, lastWrite)
		}
		idle++
		w.now = due
		w.server.now = due
		if err := w.wake(lastWrite); err != nil {
			return err
		}
	}
}

// wake makes ready what is due. When there is nothing to do, that is nothing more than twice a minute.
func (w *world) wake(lastWrite time.Time) error {
	for _, m := range w.managers {
		for i := range m.queue {
			entry := &m.queue[i]
			if entry.due.IsZero() || entry.due.After(w.now) {
				continue
			}
			entry.ready = true
			entry.wakes = slices.DeleteFunc(slices.Clone(entry.wakes), func(t time.Time) bool {
				return !t.After(lastWrite) || w.now.Sub(t) > time.Minute
			})
			if entry.wakes = append(entry.wakes, w.now); len(entry.wakes) > 2 && w.unwanted() == nil {
				return fmt.Errorf("L2: reconciles at %v although all is as wanted", entry.wakes)
			}
		}
	}
	return nil
}

// endFaults lands what is under way and takes away what keeps the operator from its work.
func (w *world) endFaults() {
	for len(w.late) > 0 {
		w.land(0)
	}
	w.managers = w.managers[:1] // the second one learns that it does not lead
	w.server.quota = -1
	for _, podSet := range w.server.last().podSets {
		if isBad(podSet) {
			w.server.changePodSet(podSet, func(p *v1alpha1.PodSet) { p.Spec.Template = w.template(goodImage) })
		}
	}
}

// everybodyElse lets nodes, the garbage collector and the namespace controller do what they have to do, and the views see
// everything.
func (w *world) everybodyElse() {
	w.left = budget{}
	if w.server.closing {
		for _, podSet := range w.server.last().podSets {
			if podSet.DeletionTimestamp == nil {
				w.server.deletePodSet(podSet, metav1.DeletePropagationBackground)
			}
		}
	}
	for steps := w.worldSteps(nil); len(steps) > 0; steps = w.worldSteps(nil) {
		w.act(steps[0])
	}
	for _, m := range w.managers {
		w.follow(m, ofPodSet, w.server.lastIndex())
		w.follow(m, ofPod, w.server.lastIndex())
	}
	w.forget()
}

// runReady reconciles what is ready and returns when the next reconcile is due.
func (w *world) runReady() (ran bool, due time.Time) {
	for _, m := range w.managers {
		for i := range w.setup.PodSets {
			if m.queue[i].ready {
				w.reconcile(m, i)
				ran = true
			}
			if next := m.queue[i].due; !next.IsZero() && (due.IsZero() || next.Before(due)) {
				due = next
			}
		}
	}
	return ran, due
}

// unsettled reports whether anything but time moves the world on.
func (w *world) unsettled() bool {
	for _, m := range w.managers {
		if w.server.pending(m.pods, ofPod)+w.server.pending(m.podSets, ofPodSet) > 0 {
			return true
		}
	}
	return len(w.worldSteps(nil)) > 0
}

// judgeRest checks what is left at the end.
func (w *world) judgeRest(began, lastWrite time.Time) error {
	if err := w.unwanted(); err != nil {
		return fmt.Errorf("L1: %w", err)
	}
	allowed := convergence + time.Duration(w.setup.PodSets*w.setup.MaxReplicas)*perPod +
		time.Duration(w.setup.MinReadyMinutes)*time.Minute
	if w.setup.Soon {
		allowed = soon
	}
	if w.setup.Budget.NewSpecs+w.setup.Budget.BadSpecs > 0 { // pods may be replaced one after the other
		allowed += time.Duration(w.setup.MinReadyMinutes*(w.setup.MaxReplicas+1)) * time.Minute
	}
	if w.setup.Budget.Failures > 0 {
		allowed += failing
	}
	if took := lastWrite.Sub(began); took > allowed {
		return fmt.Errorf("L1: it took %s, longer than %s", took, allowed)
	}
	version := w.server.last().version
	for _, m := range w.managers {
		for i := range w.setup.PodSets {
			w.reconcile(m, i)
		}
	}
	if w.oracle.broken != nil {
		return w.oracle.broken
	}
	if last := w.server.last(); last.version != version {
		return fmt.Errorf("L2: one more reconcile wrote something: %s", last.describe())
	}
	return nil
}

func (r *revision) describe() string {
	if r.kind == ofPodSet {
		return fmt.Sprintf("PodSet from %+v to %+v", r.oldPodSet, r.newPodSet)
	}
	return fmt.Sprintf("pod from %+v to %+v", r.oldPod, r.newPod)
}

// unwanted returns what is not as the users want it.
func (w *world) unwanted() error {
	for _, podSet := range w.server.last().podSets {
		var names []string
		finished := 0
		for _, pod := range w.server.last().pods {
			if isMember(pod) && controllerOf(pod) == podSet.UID {
				if isActive(pod) {
					names = append(names, pod.Name)
				} else {
					finished++
				}
			}
		}
		status := podSet.Status
		ready := slices.IndexFunc(status.Conditions, func(c metav1.Condition) bool { return c.Type == v1alpha1.ConditionReady })
		switch {
		case len(names) != int(*podSet.Spec.Replicas):
			return fmt.Errorf("%d pods of PodSet %s, wanted are %d", len(names), podSet.Name, *podSet.Spec.Replicas)
		case int(status.UpdatedReplicas) != len(names) || status.CurrentRevision != revisionIn(podSet):
			return fmt.Errorf("%d pods of PodSet %s are up to date, the current revision is %s",
				status.UpdatedReplicas, podSet.Name, status.CurrentRevision)
		case finished > w.setup.HistoryLimit:
			return fmt.Errorf("%d finished pods of PodSet %s are left", finished, podSet.Name)
		case !slices.Equal(names, status.PodNames) || status.ObservedGeneration != podSet.Generation:
			return fmt.Errorf("status %+v of PodSet %s is not about pods %v", status, podSet.Name, names)
		case ready < 0 || status.Conditions[ready].Status != "True" || len(status.Conditions) > 1:
			return fmt.Errorf("PodSet %s has the conditions %+v", podSet.Name, status.Conditions)
		}
	}
	for _, pod := range w.server.last().pods {
		if w.isLeftOver(pod) {
			return fmt.Errorf("pod %s is left over", pod.Name)
		}
	}
	return nil
}

// outcome tells what is there at the end, without what depends on how it came about: names, times, finished pods.
func (w *world) outcome() string {
	var text strings.Builder
	for _, podSet := range w.server.last().podSets {
		status := podSet.Status.DeepCopy()
		fmt.Fprintf(&text, "%s wants %d: %d replicas, %d ready, %d available, %d terminating, selector %s",
			podSet.Name, *podSet.Spec.Replicas, status.Replicas, status.ReadyReplicas, status.AvailableReplicas,
			status.TerminatingReplicas, status.Selector)
		for _, condition := range status.Conditions {
			fmt.Fprintf(&text, ", %s %s %s %q", condition.Type, condition.Status, condition.Reason, condition.Message)
		}
		var pods []string
		for _, pod := range w.server.last().pods {
			if isMember(pod) && controllerOf(pod) == podSet.UID && isActive(pod) {
				pods = append(pods, describePod(pod))
			}
		}
		slices.Sort(pods)
		fmt.Fprintf(&text, "\n\t%s\n", strings.Join(pods, "\n\t"))
	}
	return text.String()
}

func describePod(pod *corev1.Pod) string {
	return fmt.Sprintf("pod with labels %v, %d owners, spec %s", pod.Labels, len(pod.OwnerReferences), pod.Spec.String())
}

// fresh returns a world in which the same PodSets have just been created.
func (w *world) fresh() *world {
	s := w.setup
	s.Existing = 0
	s.PodSets = 0
	f := newWorld(s, smooth{})
	f.setup.PodSets = w.setup.PodSets
	for _, podSet := range w.server.last().podSets {
		again := f.newPodSet(podSet.Name, int(*podSet.Spec.Replicas))
		again.Spec.Template = podSet.Spec.Template.DeepCopy()
		_, _ = f.server.createPodSet(again)
	}
	return f
}
