package sim

import (
	"fmt"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"example.com/podset-operator/api/v1alpha1"
	"example.com/podset-operator/internal/podset"
)

// oracle is what must be remembered of a run to judge it, and the first promise that was broken.
type oracle struct {
	podSets []promised
	// write is the operator's write that is being carried out, if one is.
	write *request
	// needless counts deletions of active pods of which there were not too many any more. The view that justified them was
	// old; that is allowed, and rare.
	needless int
	broken   error
}

// promised is what must be remembered of one PodSet.
type promised struct {
	uid types.UID
	// most is the highest number of replicas asked for so far.
	most int
	// observed is the observed generation reported last.
	observed int64
	marks    marks
	// freed are the names of its pods that are gone.
	freed []string
}

// marks are what has happened to a PodSet.
type marks struct {
	// Ended is set once an active pod has been deleted, has ended or was taken away.
	Ended bool
	// Adopted is set once a pod was adopted.
	Adopted bool
	// Landed is set once a create landed late whose name had been another pod's in between.
	Landed bool
	// Freed is set once any pod was gone, so that its name was free again.
	Freed bool
	// RolledOut is set once there was a pod to be replaced: after a change of the template, or by the adoption of a pod
	// that was made from another.
	RolledOut bool
}

// gaps are promises that the production code does not keep yet. Each is shown by replays, in gaps_test.go.
type gaps struct {
	// lateCreate: a create that lands late does when its name has become free again.
	lateCreate bool
	// staleLeader: of two managers that both act, without a lease, one does whose old view lacks that a name has become
	// free or an orphan was adopted.
	staleLeader bool
}

var knownGaps = gaps{staleLeader: true}

func (o *oracle) clone() oracle {
	return oracle{podSets: slices.Clone(o.podSets), needless: o.needless, broken: o.broken}
}

func (o *oracle) of(uid types.UID) *promised {
	for i := range o.podSets {
		if o.podSets[i].uid == uid {
			return &o.podSets[i]
		}
	}
	o.podSets = append(o.podSets, promised{uid: uid, observed: -1})
	return &o.podSets[len(o.podSets)-1]
}

// breaks notes that a promise is broken.
func (w *world) breaks(promise, format string, arguments ...any) {
	if w.oracle.broken == nil {
		w.oracle.broken = fmt.Errorf("%s: %s", promise, fmt.Sprintf(format, arguments...))
	}
}

// judgeRevision checks what must hold on every revision.
func (w *world) judgeRevision(r *revision) {
	if r.kind == ofPodSet {
		w.judgePodSet(r)
		return
	}
	if w.oracle.write != nil && r.oldPod != nil {
		owner := metav1.GetControllerOf(r.oldPod)
		ours := owner != nil && owner.UID == w.oracle.write.owner
		if !ours && (owner != nil || w.oracle.write.verb == verbDelete) {
			w.breaks("S4", "%s of pod %s, whose controller is %v", w.oracle.write.verb, r.oldPod.Name, owner)
		}
	}
	was, is := activeFor(r.oldPod), activeFor(r.newPod)
	if w.oracle.write != nil && w.oracle.write.verb == verbDelete && was != "" {
		w.countNeedless(was, r)
	}
	if was != "" && was != is {
		w.oracle.of(was).marks.Ended = true
	}
	if r.newPod == nil {
		for i := range w.oracle.podSets {
			w.oracle.podSets[i].marks.Freed = true
		}
		if owner := controllerOf(r.oldPod); owner != "" {
			promised := w.oracle.of(owner)
			if !slices.Contains(promised.freed, r.oldPod.Name) {
				promised.freed = append(slices.Clip(promised.freed), r.oldPod.Name)
			}
		}
	}
	if is != "" && was != is {
		if r.oldPod != nil {
			w.oracle.of(is).marks.Adopted = true
		}
		w.judgeNumber(is, r)
	}
}

// activeFor is the UID of the PodSet that counts the pod as active, if there is one. A pod that lost its membership
// label is out of the operator's sight and counts for nobody.
func activeFor(pod *corev1.Pod) types.UID {
	if pod == nil || !isActive(pod) || !isMember(pod) {
		return ""
	}
	return controllerOf(pod)
}

func controllerOf(pod *corev1.Pod) types.UID {
	if owner := metav1.GetControllerOfNoCopy(pod); owner != nil && owner.Kind == v1alpha1.PodSetKind.Kind {
		return owner.UID
	}
	return ""
}

func (w *world) countNeedless(uid types.UID, r *revision) {
	left := 0
	for _, pod := range r.pods {
		if activeFor(pod) == uid {
			left++
		}
	}
	for _, podSet := range r.podSets {
		if podSet.UID == uid && left < int(*podSet.Spec.Replicas) && !isOld(r.oldPod, podSet) && !isMarkedNow(r.oldPod) {
			w.oracle.needless++
		}
	}
}

// judgeNumber checks that there are not too many pods, now that there is one more.
func (w *world) judgeNumber(uid types.UID, r *revision) {
	promised := w.oracle.of(uid)
	for _, podSet := range r.podSets {
		if podSet.UID == uid && isOld(r.newPod, podSet) {
			promised.marks.RolledOut = true
		}
	}
	active, terminating := 0, 0
	for _, pod := range r.pods {
		if controllerOf(pod) != uid || !isMember(pod) || hasEnded(pod) {
			continue
		}
		if pod.DeletionTimestamp == nil {
			active++
		} else {
			terminating++
		}
	}
	if w.setup.TerminationComplete {
		active += terminating
	}
	allowed := promised.most + w.allowance(promised.marks)
	if promised.marks.RolledOut {
		allowed += w.surge()
	}
	if active > allowed {
		w.breaks("S1", "%d pods after %d faults, at most %d were asked for (pod %s was created or adopted)",
			active, w.faults, promised.most, r.newPod.Name)
	}
}

// allowance is how many pods too many there may be.
func (w *world) allowance(happened marks) int {
	switch {
	case !w.setup.TerminationComplete && w.faults >= 2 && happened.Ended,
		w.gaps.lateCreate && !w.setup.TerminationComplete && happened.Landed,
		w.gaps.staleLeader && len(w.managers) > 1 && !w.setup.Leases && (happened.Freed || happened.Adopted):
		return 1
	}
	return 0
}

func (w *world) judgePodSet(r *revision) {
	podSet := r.newPodSet
	if podSet == nil {
		return
	}
	promised := w.oracle.of(podSet.UID)
	promised.most = max(promised.most, int(*podSet.Spec.Replicas))
	if r.oldPodSet != nil && revisionIn(r.oldPodSet) != revisionIn(podSet) {
		promised.marks.RolledOut = true
	}
	observed := podSet.Status.ObservedGeneration
	if observed < promised.observed || observed > podSet.Generation {
		w.breaks("S6", "the observed generation goes from %d to %d at generation %d", promised.observed, observed, podSet.Generation)
	}
	promised.observed = observed
}

// carryOut lets the server carry out a write of the operator.
func (w *world) carryOut(q request) (*corev1.Pod, *v1alpha1.PodSet, error) {
	w.oracle.write = &q
	defer func() { w.oracle.write = nil }()
	return w.server.carryOut(q)
}

// judgeRefusal checks that what was refused is not asked for again at once. Time passes in whole minutes, so any delay
// shows.
func (w *world) judgeRefusal(r *run, q request, err error) {
	if q.verb != verbCreate || !apierrors.IsForbidden(err) && !apierrors.IsInvalid(err) {
		return
	}
	refused := refusal{uid: r.seen.UID, generation: r.seen.Generation, at: w.now}
	if r.manager.refused[r.podSet] == refused {
		w.breaks("L3", "pod %s is asked for again at once after a refusal: %v", q.pod.Name, err)
	}
	r.manager.refused[r.podSet] = refused
}

// judgeAttempt checks that a write is justified, whatever becomes of it.
func (w *world) judgeAttempt(r *run, q request) {
	if q.verb == verbStatus {
		r.statusWrites++
		w.judgeStatus(r, q.podSet)
	} else {
		r.podWrites++
		w.judgePodWrite(r, q)
	}
	if r.podWrites > 1 || r.statusWrites > 1 {
		w.breaks("S5", "%d writes of pods and %d of the status in one reconcile", r.podWrites, r.statusWrites)
	}
	// The status is written with the version that was seen, so that one from before the deletion is refused.
	if r.seen.DeletionTimestamp != nil ||
		q.verb != verbStatus && r.live != nil && r.live.UID == r.seen.UID && r.live.DeletionTimestamp != nil {
		w.breaks("S4", "%s although the PodSet was seen to be deleted", q.verb)
	}
}

func (w *world) judgePodWrite(r *run, q request) {
	promise := "S2"
	if q.verb == verbDelete {
		promise = "S3"
	}
	known := r.manager.known[r.podSet]
	if known.uid == r.seen.UID && !r.listed && (r.manager.pods.index < known.pod || r.manager.podSets.index < known.status) {
		w.breaks(promise, "%s of pod %s by a view that lacks the manager's own writes", q.verb, q.pod.Name)
	}
	pods := r.seenPods
	if r.listed {
		pods = r.livePods
	}
	active, terminating, finished := census(pods)
	wanted := int(*r.seen.Spec.Replicas)
	if q.verb == verbPatch && !isMember(q.pod) {
		w.judgeRelease(r, q)
		return
	}
	switch q.verb {
	case verbCreate, verbPatch:
		if w.setup.TerminationComplete {
			active += terminating
		}
		if q.verb == verbCreate && slices.ContainsFunc(pods, func(p *corev1.Pod) bool { return isActive(p) && isOld(p, r.seen) }) {
			wanted += w.surge()
		}
		if q.verb == verbPatch && !isActive(q.pod) {
			w.breaks("S4", "adoption of pod %s, which has ended or is being deleted", q.pod.Name)
		}
		if q.verb == verbCreate && r.sawFailureNow() {
			w.breaks("L3", "pod %s is created at once after one that failed", q.pod.Name)
		}
		if active >= wanted {
			w.breaks("S2", "%s of pod %s with %d of %d pods seen", q.verb, q.pod.Name, active, wanted)
		}
		if q.pod.Namespace != namespace || controllerOf(q.pod) != r.seen.UID {
			w.breaks("S4", "%s of pod %s/%s with controller %s", q.verb, q.pod.Namespace, q.pod.Name, controllerOf(q.pod))
		}
	case verbDelete:
		if r.live == nil || r.live.UID != r.seen.UID || r.live.Generation != r.seen.Generation {
			w.breaks("S3", "deletion of pod %s without a live PodSet that is as seen", q.pod.Name)
		}
		if p := q.options.Preconditions; p == nil || p.UID == nil || p.ResourceVersion == nil {
			w.breaks("S4", "deletion of pod %s without preconditions", q.pod.Name)
		}
		victim := slices.IndexFunc(pods, func(p *corev1.Pod) bool { return p.UID == q.pod.UID })
		switch {
		case victim < 0:
			w.breaks("S3", "deletion of pod %s, which was not seen as one's own", q.pod.Name)
		case isActive(pods[victim]) && active <= wanted && !r.mayReplace(pods[victim], pods),
			!isActive(pods[victim]) && finished <= w.setup.HistoryLimit:
			w.breaks("S3", "deletion of pod %s with %d of %d pods and %d finished ones seen", q.pod.Name, active, wanted, finished)
		default:
			w.judgeVictim(r, pods[victim], pods)
		}
	}
}

// sawFailureNow reports whether a pod has failed soon after its creation and no time has passed since. Pods of another
// template may be tried at once.
func (r *run) sawFailureNow() bool {
	now := r.world.now
	return !r.world.oracle.of(r.seen.UID).marks.RolledOut && slices.ContainsFunc(r.seenPods, func(pod *corev1.Pod) bool {
		return pod.DeletionTimestamp == nil && pod.Status.Phase == corev1.PodFailed &&
			pod.Status.Conditions[0].LastTransitionTime.Time.Equal(now) && now.Sub(pod.CreationTimestamp.Time) < 10*time.Minute
	})
}

// judgeRelease checks that a pod is let go only if it has lost the label.
func (w *world) judgeRelease(r *run, q request) {
	if controllerOf(q.pod) != "" {
		w.breaks("S4", "patch of pod %s, which has no label, for PodSet %s", q.pod.Name, r.seen.UID)
	}
}

// mayReplace reports whether a pod may be deleted although there are not too many: because the user wants it replaced, or
// because it is of an older template and serves nobody, or not the ones that must stay available.
func (r *run) mayReplace(victim *corev1.Pod, pods []*corev1.Pod) bool {
	if isMarkedNow(victim) {
		return true
	}
	available := 0
	for _, pod := range pods {
		if isActive(pod) && r.sawAvailable(pod) {
			available++
		}
	}
	return isOld(victim, r.seen) && (!r.sawAvailable(victim) || available > int(*r.seen.Spec.Replicas)-r.world.tolerated())
}

// sawAvailable reports whether the pod had been ready for long enough when the reconcile began.
func (r *run) sawAvailable(pod *corev1.Pod) bool {
	if !isReady(pod) {
		return false
	}
	least := time.Duration(r.world.setup.MinReadyMinutes) * time.Minute
	return least == 0 || r.began.Sub(pod.Status.Conditions[0].LastTransitionTime.Time) > least
}

// surge and tolerated are the budgets of roll-outs.
func (w *world) surge() int { return 1 - w.tolerated() }

func (w *world) tolerated() int {
	if w.setup.GivesUp {
		return 1
	}
	return 0
}

var revisions sync.Map

// revisionIn is the revision of the PodSet's template. Templates in a world differ in image and finalizers alone.
func revisionIn(podSet *v1alpha1.PodSet) string {
	template, key := podSet.Spec.Template, "none"
	if template != nil {
		key = fmt.Sprint(template.Finalizers, template.Spec.Containers[0].Image)
	}
	revision, ok := revisions.Load(key)
	if !ok {
		revision, _ = revisions.LoadOrStore(key, podset.Revision(template))
	}
	return revision.(string)
}

// isOld reports whether the pod was made from another template than the PodSet's. All pods here carry their revision.
func isOld(pod *corev1.Pod, podSet *v1alpha1.PodSet) bool {
	return pod.Labels[v1alpha1.TemplateHashLabel] != revisionIn(podSet)
}

func isMarkedNow(pod *corev1.Pod) bool {
	return pod.Annotations[v1alpha1.DeleteMeAnnotation] == v1alpha1.DeleteMeNow
}

// judgeVictim checks that no pod was of less use than the one chosen, by what matters most: a user's mark, a node, being
// ready. Of pods of different templates it depends on the roll-out which go first.
func (w *world) judgeVictim(r *run, victim *corev1.Pod, pods []*corev1.Pod) {
	for _, pod := range pods {
		if isOld(victim, r.seen) && !r.sawAvailable(victim) && r.sawAvailable(pod) {
			continue // a roll-out first removes what serves nobody, whatever else is said of the pods
		}
		sameTemplate := pod.Labels[v1alpha1.TemplateHashLabel] == victim.Labels[v1alpha1.TemplateHashLabel]
		if isActive(victim) && isActive(pod) && sameTemplate && slices.Compare(use(pod), use(victim)) < 0 {
			w.breaks("S3", "deletion of pod %s although pod %s is of less use", victim.Name, pod.Name)
		}
	}
}

func use(pod *corev1.Pod) []int {
	use := []int{0, 0, 0, 0}
	for i, is := range []bool{
		pod.Annotations[v1alpha1.DeleteMeAnnotation] == "", pod.Spec.NodeName != "", pod.Status.Phase == corev1.PodRunning, isReady(pod),
	} {
		if is {
			use[i] = 1
		}
	}
	return use
}

func census(pods []*corev1.Pod) (active, terminating, finished int) {
	for _, pod := range pods {
		switch {
		case isActive(pod):
			active++
		case pod.DeletionTimestamp == nil:
			finished++
		case !hasEnded(pod):
			terminating++
		}
	}
	return active, terminating, finished
}

// judgeStatus checks that a status is that of one observation and says something new.
func (w *world) judgeStatus(r *run, podSet *v1alpha1.PodSet) {
	status := podSet.Status
	if !tells(status, r.seenPods) || status.ObservedGeneration != r.seen.Generation {
		w.breaks("S6", "status %+v at generation %d is not that of the pods seen", status, r.seen.Generation)
	}
	if equality.Semantic.DeepEqual(status, r.seen.Status) {
		w.breaks("S6", "the status is written although it is as it was")
	}
}

// tells reports whether the status is that of the pods.
func tells(status v1alpha1.PodSetStatus, pods []*corev1.Pod) bool {
	var names []string
	ready := 0
	for _, pod := range pods {
		if isActive(pod) {
			names = append(names, pod.Name)
			if isReady(pod) {
				ready++
			}
		}
	}
	slices.Sort(names)
	_, terminating, _ := census(pods)
	return slices.Equal(names, status.PodNames) && int(status.Replicas) == len(names) && int(status.ReadyReplicas) == ready &&
		int(status.TerminatingReplicas) == terminating && status.AvailableReplicas <= status.ReadyReplicas
}
