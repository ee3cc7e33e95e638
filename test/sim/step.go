package sim

import (
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"example.com/podset-operator/api/v1alpha1"
)

// action is a kind of step.
type action uint8

// Steps of managers, requests under way, users, nodes, the garbage collector and time.
const (
	seePodSet action = iota
	seePod
	relistPodSets
	relistPods
	reconcile
	restart
	restartNow
	land
	scale
	deletePod
	deletePodSet
	deletePodSetForeground
	deletePodSetOrphan
	createPodSet
	takeName
	leaveName
	addOrphan
	release
	steal
	unlabel
	mark
	markNow
	limitPods
	unlimitPods
	badSpec
	goodSpec
	newSpec
	closeNamespace
	pullPod
	startPod
	bindPod
	runPod
	readyPod
	unreadyPod
	failPod
	endPod
	removeFinalizer
	collect
	minute
	quarter
	actionCount
)

var actionTexts = [actionCount]string{
	seePodSet:              "m%d sees %d events of podsets",
	seePod:                 "m%d sees %d events of pods",
	relistPodSets:          "m%d lists podsets anew",
	relistPods:             "m%d lists pods anew",
	reconcile:              "m%d reconciles %s",
	restart:                "m%d restarts on an old view",
	restartNow:             "m%d restarts",
	land:                   "late request %d lands",
	scale:                  "user scales %s to %d",
	deletePod:              "user deletes pod %s",
	deletePodSet:           "user deletes podset %s",
	deletePodSetForeground: "user deletes podset %s in the foreground",
	deletePodSetOrphan:     "user deletes podset %s and leaves its pods",
	createPodSet:           "user creates podset %s with %d replicas",
	takeName:               "a stranger takes the next name of %s",
	leaveName:              "a stranger deletes pod %s",
	addOrphan:              "user creates an orphan for %s",
	release:                "user releases pod %s",
	steal:                  "another controller takes pod %s",
	unlabel:                "user removes the label of pod %s",
	mark:                   "user marks pod %s",
	markNow:                "user wants pod %s replaced",
	limitPods:              "quota allows no more pods",
	unlimitPods:            "quota allows all pods",
	badSpec:                "user gives %s a bad template",
	goodSpec:               "user gives %s a good template",
	newSpec:                "user gives %s another template",
	closeNamespace:         "user deletes the namespace",
	pullPod:                "the namespace controller deletes %s",
	startPod:               "pod %s starts",
	bindPod:                "pod %s is bound",
	runPod:                 "pod %s runs",
	readyPod:               "pod %s is ready",
	unreadyPod:             "pod %s is not ready",
	failPod:                "pod %s fails",
	endPod:                 "pod %s is gone",
	removeFinalizer:        "somebody removes the finalizer of pod %s",
	collect:                "the garbage collector treats %s",
	minute:                 "a minute passes",
	quarter:                "a quarter of an hour passes",
}

// step is one thing that happens.
type step struct {
	action  action
	manager int8
	podSet  int8
	n       int16
	name    string
}

func (s step) String() string {
	text := actionTexts[s.action]
	switch s.action {
	case seePodSet, seePod:
		return fmt.Sprintf(text, s.manager, s.n)
	case relistPodSets, relistPods, restart, restartNow:
		return fmt.Sprintf(text, s.manager)
	case reconcile:
		return fmt.Sprintf(text, s.manager, podSetNames[s.podSet])
	case land:
		return fmt.Sprintf(text, s.n)
	case scale, createPodSet:
		return fmt.Sprintf(text, podSetNames[s.podSet], s.n)
	case deletePodSet, deletePodSetForeground, deletePodSetOrphan, takeName, addOrphan, badSpec, goodSpec, newSpec:
		return fmt.Sprintf(text, podSetNames[s.podSet])
	case limitPods, unlimitPods, closeNamespace, minute, quarter:
		return text
	default:
		return fmt.Sprintf(text, s.name)
	}
}

// steps returns all that may happen next.
func (w *world) steps() []step {
	steps := make([]step, 0, 24)
	if w.setup.MaxLag > 0 {
		if steps = w.overdue(steps); len(steps) > 0 {
			return steps
		}
	}
	for _, m := range w.managers {
		steps = w.managerSteps(steps, m)
	}
	for i := range w.late {
		steps = append(steps, step{action: land, n: int16(i)})
	}
	return w.worldSteps(steps)
}

// overdue are the steps of views that are too far behind.
func (w *world) overdue(steps []step) []step {
	for _, m := range w.managers {
		if w.server.pending(m.podSets, ofPodSet) > w.setup.MaxLag {
			steps = append(steps, step{action: seePodSet, manager: int8(m.number), n: 1})
		}
		if w.server.pending(m.pods, ofPod) > w.setup.MaxLag {
			steps = append(steps, step{action: seePod, manager: int8(m.number), n: 1})
		}
	}
	return steps
}

// stepsOfOthers returns what may happen in the middle of a reconcile of one manager. What its views see then makes no
// difference to this reconcile.
func (w *world) stepsOfOthers(m *manager) []step {
	var steps []step
	for _, other := range w.managers {
		if other != m && w.level < 3 {
			steps = w.reconcileSteps(steps, other)
		}
	}
	for i := range w.late {
		steps = append(steps, step{action: land, n: int16(i)})
	}
	return w.worldSteps(steps)
}

func (w *world) reconcileSteps(steps []step, m *manager) []step {
	if !w.mayAct(m) {
		return steps
	}
	for i := range w.setup.PodSets {
		steps = append(steps, step{action: reconcile, manager: int8(m.number), podSet: int8(i)})
	}
	return steps
}

func (w *world) managerSteps(steps []step, m *manager) []step {
	at := int8(m.number)
	podSets, pods := w.server.pending(m.podSets, ofPodSet), w.server.pending(m.pods, ofPod)
	if podSets > 0 {
		steps = append(steps, step{action: seePodSet, manager: at, n: 1})
	}
	if pods > 0 {
		steps = append(steps, step{action: seePod, manager: at, n: 1})
	}
	steps = w.reconcileSteps(steps, m)
	if w.left.Relists > 0 {
		if podSets > 0 {
			steps = append(steps, step{action: relistPodSets, manager: at})
		}
		// Even without a gap a list brings the version of the view forward.
		if m.pods.index < w.server.lastIndex() {
			steps = append(steps, step{action: relistPods, manager: at})
		}
	}
	if w.left.Restarts > 0 {
		steps = append(steps, step{action: restart, manager: at})
		if pods > 0 || podSets > 0 {
			steps = append(steps, step{action: restartNow, manager: at})
		}
	}
	return steps
}

func (w *world) worldSteps(steps []step) []step {
	for i := range w.setup.PodSets {
		steps = w.userSteps(steps, i)
	}
	for _, pod := range w.server.last().pods {
		steps = w.podSteps(steps, pod)
	}
	steps = w.collectorSteps(steps)
	if w.left.Quotas > 0 {
		if w.server.quota < 0 {
			steps = append(steps, step{action: limitPods})
		} else {
			steps = append(steps, step{action: unlimitPods})
		}
	}
	if w.left.Closing > 0 && !w.server.closing {
		steps = append(steps, step{action: closeNamespace})
	}
	if w.left.Minutes > 0 {
		steps = append(steps, step{action: minute}, step{action: quarter})
	}
	return steps
}

func (w *world) userSteps(steps []step, i int) []step {
	on := func(a action, n int) { steps = append(steps, step{action: a, podSet: int8(i), n: int16(n)}) }
	podSet := w.server.podSet(namespace, podSetNames[i])
	if podSet == nil {
		if w.left.PodSetCreates > 0 && !w.server.closing {
			on(createPodSet, w.setup.Replicas)
		}
		return steps
	}
	if w.left.Scales > 0 {
		for n := range w.setup.MaxReplicas + 1 {
			if n != int(*podSet.Spec.Replicas) {
				on(scale, n)
			}
		}
	}
	if podSet.DeletionTimestamp != nil {
		return steps
	}
	if w.left.PodSetDeletes > 0 {
		on(deletePodSet, 0)
	}
	if w.left.Foregrounds > 0 {
		on(deletePodSetForeground, 0)
	}
	if w.left.Orphanings > 0 {
		on(deletePodSetOrphan, 0)
	}
	if w.left.Strangers > 0 {
		on(takeName, 0)
	}
	if w.left.Orphans > 0 {
		on(addOrphan, 0)
	}
	if w.left.BadSpecs > 0 {
		if isBad(podSet) {
			on(goodSpec, 0)
		} else {
			on(badSpec, 0)
		}
	}
	if w.left.NewSpecs > 0 && !isBad(podSet) {
		on(newSpec, 0)
	}
	return steps
}

func isBad(podSet *v1alpha1.PodSet) bool {
	return podSet.Spec.Template != nil && podSet.Spec.Template.Spec.Containers[0].Image == ""
}

func isReady(pod *corev1.Pod) bool {
	return len(pod.Status.Conditions) > 0 && pod.Status.Conditions[0].Status == corev1.ConditionTrue
}

// podSteps are what users and the kubelet do with a pod.
func (w *world) podSteps(steps []step, pod *corev1.Pod) []step {
	can := func(a action, is bool) {
		if is {
			steps = append(steps, step{action: a, name: pod.Name})
		}
	}
	owner := metav1.GetControllerOfNoCopy(pod)
	stranger := owner != nil && owner.Kind != v1alpha1.PodSetKind.Kind || owner == nil && !isMember(pod)
	if pod.DeletionTimestamp != nil {
		can(endPod, *pod.DeletionGracePeriodSeconds > 0)
		can(removeFinalizer, *pod.DeletionGracePeriodSeconds == 0)
		return steps
	}
	can(leaveName, stranger && w.left.Strangers > 0)
	can(steal, !stranger && w.left.Steals > 0)
	if stranger {
		return steps
	}
	can(deletePod, w.left.PodDeletes > 0)
	can(release, owner != nil && w.left.Releases > 0)
	can(unlabel, isMember(pod) && w.left.Unlabels > 0)
	can(mark, w.left.Marks > 0 && pod.Annotations[v1alpha1.DeleteMeAnnotation] == "")
	can(markNow, w.left.Marks > 0 && pod.Annotations[v1alpha1.DeleteMeAnnotation] == "")
	can(pullPod, w.server.closing)
	if hasEnded(pod) {
		return steps
	}
	can(failPod, w.left.Failures > 0)
	bound, running := pod.Spec.NodeName != "", pod.Status.Phase == corev1.PodRunning
	switch {
	case w.setup.FineSteps:
		can(bindPod, !bound)
		can(runPod, bound && !running)
		can(readyPod, running && !isReady(pod))
	case !w.setup.Asleep || w.settling:
		can(startPod, !isReady(pod))
	}
	can(unreadyPod, running && isReady(pod) && w.left.Unreadies > 0)
	return steps
}

// do lets the step happen.
func (w *world) do(s step) {
	w.note(trail{step: s, isStep: true})
	w.level++
	switch s.action {
	case reconcile:
		w.actAs(w.managers[s.manager], int(s.podSet))
	case seePodSet:
		w.follow(w.managers[s.manager], ofPodSet, int(s.n))
	case seePod:
		w.follow(w.managers[s.manager], ofPod, int(s.n))
	case relistPodSets:
		w.left.Relists--
		w.relist(w.managers[s.manager], ofPodSet)
	case relistPods:
		w.left.Relists--
		w.relist(w.managers[s.manager], ofPod)
	case restart, restartNow:
		m := w.managers[s.manager]
		w.left.Restarts--
		w.faults++
		if s.action == restartNow {
			w.restart(m, w.server.lastIndex(), w.server.lastIndex())
		} else {
			w.restart(m, m.podSets.index, m.pods.index)
		}
	case land:
		w.land(int(s.n))
	case minute:
		w.left.Minutes--
		w.pass(time.Minute)
	case quarter:
		w.left.Minutes--
		w.pass(15 * time.Minute)
	default:
		w.act(s)
	}
	w.level--
	if w.level == 0 {
		w.forget()
	}
}

// land carries out a request that its sender has given up.
func (w *world) land(i int) {
	q := w.late[i]
	w.late = append(w.late[:i:i], w.late[i+1:]...)
	if q.verb == verbCreate {
		promised := w.oracle.of(q.owner)
		promised.marks.Landed = promised.marks.Landed || slices.Contains(promised.freed, q.pod.Name)
	}
	_, _, _ = w.carryOut(q)
}

// pass lets time pass: whole minutes only, so that no random part of a delay decides what happens. The API server gives
// up requests after a minute, so none lands later.
func (w *world) pass(d time.Duration) {
	w.now = w.now.Add(d)
	w.server.now = w.now
	w.late = nil
}
