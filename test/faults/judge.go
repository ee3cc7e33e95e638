package faults

import (
	"cmp"
	"fmt"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"

	"example.com/podset-operator/api/v1alpha1"
	"example.com/podset-operator/internal/podset"
)

// verdict is what a judgement found.
type verdict struct {
	broken []error
	// revisions, creates, deletes and statuses are how many of each were judged.
	revisions, creates, deletes, statuses int
	// extra is how often there was one pod more than asked for where that is allowed.
	extra int
}

func (v *verdict) breaks(promise string, revision int64, format string, arguments ...any) {
	v.broken = append(v.broken, fmt.Errorf("%s at revision %d: %s", promise, revision, fmt.Sprintf(format, arguments...)))
}

// situation is what there was of one PodSet at one revision.
type situation struct {
	revision int64
	pods     map[string]*corev1.Pod // by name: all whose controller is the PodSet
	podSet   *v1alpha1.PodSet       // nil before it is there and after it is gone
}

// story is all situations of one PodSet, and the writes that were made for it.
type story struct {
	uid        types.UID
	situations []situation
	// most is the highest number of replicas ever asked for, surge the largest of a roll-out, 0 before the first.
	most, surge int
}

// judge checks the safety promises on the changes of one namespace and on what each manager, by its proxy's record, wrote
// there. With TerminationStarted there may be one pod more than asked for, extra; with two managers that both act without
// a lease also otherwise.
func judge(changes []change, managers [][]*write, leaderless bool) *verdict {
	v := &verdict{}
	stories := v.tell(changes, leaderless)
	for _, writes := range managers {
		for _, write := range writes {
			v.judgeWrite(write, writes, changes, stories)
		}
	}
	return v
}

// tell sorts the changes by PodSet and judges each revision.
func (v *verdict) tell(changes []change, leaderless bool) map[types.UID]*story {
	stories := map[types.UID]*story{}
	of := func(uid types.UID) *story {
		if stories[uid] == nil {
			stories[uid] = &story{uid: uid, situations: []situation{{}}}
		}
		return stories[uid]
	}
	for i := range changes {
		c := &changes[i]
		v.revisions++
		if c.pod == nil && c.oldPod == nil {
			s := of(cmp.Or(c.podSet, c.oldPodSet).UID)
			s.add(c.revision, func(now *situation) { now.podSet = c.podSet })
			v.judgePodSet(c, s)
			continue
		}
		was, is := types.UID(""), types.UID("")
		if c.oldPod != nil {
			was = ownerOf(c.oldPod)
		}
		if c.pod != nil {
			is = ownerOf(c.pod)
		}
		if was != "" && was != is {
			of(was).add(c.revision, func(now *situation) { delete(now.pods, c.oldPod.Name) })
		}
		if is != "" {
			before := of(is).now().pods[c.pod.Name]
			of(is).add(c.revision, func(now *situation) { now.pods[c.pod.Name] = c.pod })
			if before == nil {
				v.judgeNumber(of(is), leaderless)
			}
		}
	}
	return stories
}

func (s *story) now() *situation { return &s.situations[len(s.situations)-1] }

func (s *story) add(revision int64, change func(now *situation)) {
	next := situation{revision: revision, pods: maps.Clone(s.now().pods), podSet: s.now().podSet}
	if next.pods == nil {
		next.pods = map[string]*corev1.Pod{}
	}
	change(&next)
	s.situations = append(s.situations, next)
}

// judgePodSet checks S6 where the status has changed.
func (v *verdict) judgePodSet(c *change, s *story) {
	if c.podSet == nil {
		return
	}
	s.most = max(s.most, int(*c.podSet.Spec.Replicas))
	if c.oldPodSet == nil {
		return
	}
	if revisionIn(c.podSet) != revisionIn(c.oldPodSet) {
		surge, _ := budgets(c.podSet)
		s.surge = max(s.surge, surge)
	}
	was, is := c.oldPodSet.Status, c.podSet.Status
	// Before the first report it is 0 in the store, or -1 once the default is stored.
	if max(0, is.ObservedGeneration) < was.ObservedGeneration || is.ObservedGeneration > c.podSet.Generation {
		v.breaks("S6", c.revision, "the observed generation goes from %d to %d at generation %d",
			was.ObservedGeneration, is.ObservedGeneration, c.podSet.Generation)
	}
	if c.podSet.Generation != c.oldPodSet.Generation || c.podSet.DeletionTimestamp != nil {
		return
	}
	v.statuses++
	if !slices.IsSorted(is.PodNames) || len(is.PodNames) != int(is.Replicas) {
		v.breaks("S6", c.revision, "the names %q are not those of %d pods in order", is.PodNames, is.Replicas)
	}
	if !slices.ContainsFunc(s.situations, func(once situation) bool { return slices.Equal(once.active(), is.PodNames) }) {
		v.breaks("S6", c.revision, "never were exactly the pods %q active", is.PodNames)
	}
}

// judgeNumber checks S1 now that there is one pod more.
func (v *verdict) judgeNumber(s *story, leaderless bool) {
	now := s.now()
	if now.podSet == nil {
		return // its pods are about to be collected
	}
	allowance, active := 1, len(now.active())
	if now.podSet.Spec.PodReplacementPolicy == v1alpha1.TerminationComplete {
		active += now.count(isTerminating)
		if !leaderless {
			allowance = 0
		}
	}
	switch {
	case active > s.most+s.surge+allowance:
		v.breaks("S1", now.revision, "PodSet %s has %d pods, at most %d were asked for", now.podSet.Name, active, s.most+s.surge)
	case active > s.most+s.surge:
		v.extra++
	}
}

// judgeWrite checks S2, S3 and S4 for a write that was carried out.
func (v *verdict) judgeWrite(w *write, all []*write, changes []change, stories map[types.UID]*story) {
	if w.podSet != "" || w.namespace == "" || len(changes) == 0 || w.namespace != changes[0].namespace() {
		return
	}
	switch {
	case w.method == "DELETE" && (w.preconditions == nil || w.preconditions.UID == nil || w.preconditions.ResourceVersion == nil):
		v.breaks("S4", w.revision, "pod %s is deleted without preconditions", w.pod)
	case w.method == "POST" && w.owner == "":
		v.breaks("S4", w.revision, "pod %s is created for no PodSet", w.pod)
	case w.method == "POST" && w.ok:
		v.creates++
		s := stories[w.owner]
		if s == nil {
			v.breaks("S4", w.revision, "pod %s is created for a PodSet that never was", w.pod)
			return
		}
		podSince, podSetSince := viewsOf(w, all, s)
		s.judgeCreate(v, w, podSince, podSetSince)
	case w.method == "DELETE" && w.ok:
		v.deletes++
		i := slices.IndexFunc(changes, func(c change) bool {
			return c.oldPod != nil && c.oldPod.UID == *w.preconditions.UID && c.oldPod.ResourceVersion == *w.preconditions.ResourceVersion
		})
		if i < 0 {
			v.breaks("S4", w.revision, "a deletion of pod %s was carried out on another than meant", w.pod)
			return
		}
		owner := ownerOf(changes[i].oldPod)
		if owner == "" {
			v.breaks("S4", changes[i].revision, "pod %s is deleted, which no PodSet controls", w.pod)
			return
		}
		podSince, _ := viewsOf(w, all, stories[owner])
		stories[owner].judgeDelete(v, changes[i].oldPod, podSince, changes[i].revision)
	}
}

// viewsOf returns how old the views of pods and of the PodSet may be by which a write was decided: both hold the last
// write for the PodSet whose reply the manager had got when it sent this one.
func viewsOf(w *write, all []*write, s *story) (podSince, podSetSince int64) {
	names := map[string]bool{}
	name := ""
	for i := range s.situations {
		for pod := range s.situations[i].pods {
			names[pod] = true
		}
		if podSet := s.situations[i].podSet; podSet != nil {
			name = podSet.Name
		}
	}
	for _, earlier := range all {
		if earlier.namespace != w.namespace || earlier.delivered == 0 || earlier.delivered >= w.sent {
			continue
		}
		switch {
		case earlier.podSet != "" && earlier.podSet == name:
			podSetSince = max(podSetSince, earlier.revision)
		case earlier.podSet == "" && names[earlier.pod]:
			podSince = max(podSince, earlier.revision)
		}
	}
	return podSince, podSetSince
}

// judgeCreate checks that there were views by which a pod was missing, or to be replaced.
func (s *story) judgeCreate(v *verdict, w *write, podSince, podSetSince int64) {
	if s.last(w.revision).podSet == nil {
		return // PodSet and pod are gone
	}
	for podSet := range s.between(podSetSince, w.revision) {
		if podSet.podSet == nil || podSet.podSet.DeletionTimestamp != nil {
			continue
		}
		wanted := int(*podSet.podSet.Spec.Replicas)
		surge, _ := budgets(podSet.podSet)
		for view := range s.between(podSince, w.revision-1) {
			active := len(view.active())
			if podSet.podSet.Spec.PodReplacementPolicy == v1alpha1.TerminationComplete {
				active += view.count(isTerminating)
			}
			if active < wanted || active < wanted+surge && view.count(isOldFor(podSet.podSet)) > 0 {
				return
			}
		}
	}
	v.breaks("S2", w.revision, "pod %s is created although none was missing since revision %d", w.pod, podSince)
}

// judgeDelete checks that there were views by which the pod was one too many, or to be replaced.
func (s *story) judgeDelete(v *verdict, victim *corev1.Pod, since, revision int64) {
	for podSet := range s.between(since, revision) {
		if podSet.podSet == nil || podSet.podSet.DeletionTimestamp != nil {
			continue
		}
		wanted := int(*podSet.podSet.Spec.Replicas)
		_, tolerated := budgets(podSet.podSet)
		isOld := isOldFor(podSet.podSet)
		for view := range s.between(since, revision-1) {
			now := view.pods[victim.Name]
			if now == nil || now.UID != victim.UID {
				continue
			}
			finished := view.count(isFinished) > int(*podSet.podSet.Spec.FailedPodsHistoryLimit)
			replaced := isOld(now) && (!isReady(now) || view.count(isReady) > wanted-tolerated)
			marked := now.Annotations[v1alpha1.DeleteMeAnnotation] == v1alpha1.DeleteMeNow
			if isActive(now) && (len(view.active()) > wanted || replaced || marked) || isFinished(now) && finished {
				return
			}
		}
	}
	v.breaks("S3", revision, "pod %s is deleted although there was no reason since revision %d", victim.Name, since)
}

// between yields the situations that could be seen by a view that holds revision from and is asked at revision to.
func (s *story) between(from, to int64) func(yield func(*situation) bool) {
	return func(yield func(*situation) bool) {
		for i := range s.situations {
			isOver := i+1 < len(s.situations) && s.situations[i+1].revision <= from
			if isOver || s.situations[i].revision > to {
				continue
			}
			if !yield(&s.situations[i]) {
				return
			}
		}
	}
}

// last is the situation at a revision.
func (s *story) last(revision int64) *situation {
	found := &s.situations[0]
	for at := range s.between(revision, revision) {
		found = at
	}
	return found
}

func (s *situation) count(is func(*corev1.Pod) bool) int {
	n := 0
	for _, pod := range s.pods {
		if is(pod) {
			n++
		}
	}
	return n
}

// active returns the names of the active pods with the PodSet's label, in order, nil if there are none.
func (s *situation) active() []string {
	var names []string
	for name, pod := range s.pods {
		if isActive(pod) {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

func hasEnded(pod *corev1.Pod) bool {
	return pod.Status.Phase == corev1.PodFailed || pod.Status.Phase == corev1.PodSucceeded
}

func isActive(pod *corev1.Pod) bool { return pod.DeletionTimestamp == nil && !hasEnded(pod) }

func isTerminating(pod *corev1.Pod) bool { return pod.DeletionTimestamp != nil && !hasEnded(pod) }

func isFinished(pod *corev1.Pod) bool { return pod.DeletionTimestamp == nil && hasEnded(pod) }

func isReady(pod *corev1.Pod) bool {
	return isActive(pod) && slices.ContainsFunc(pod.Status.Conditions, func(c corev1.PodCondition) bool {
		return c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue
	})
}

func isOldFor(podSet *v1alpha1.PodSet) func(*corev1.Pod) bool {
	revision := revisionIn(podSet)
	return func(pod *corev1.Pod) bool { return isActive(pod) && pod.Labels[v1alpha1.TemplateHashLabel] != revision }
}

// revisionIn is the revision of the PodSet's template. That it is right is for other tests to show.
func revisionIn(podSet *v1alpha1.PodSet) string { return podset.Revision(podSet.Spec.Template) }

// budgets are those of roll-outs here, which are set as numbers or not at all.
func budgets(podSet *v1alpha1.PodSet) (surge, unavailable int) {
	rolling := podSet.Spec.UpdateStrategy.RollingUpdate
	if rolling == nil {
		return 1, 0
	}
	number := func(value *intstr.IntOrString, otherwise int) int {
		if value == nil {
			return otherwise
		}
		return value.IntValue()
	}
	return number(rolling.MaxSurge, 1), number(rolling.MaxUnavailable, 0)
}
