package sim

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"example.com/podset-operator/api/v1alpha1"
	"example.com/podset-operator/internal/podset"
)

// nextPod is the pod that the operator would create next if it saw these pods.
func nextPod(podSet *v1alpha1.PodSet, pods []*corev1.Pod) *corev1.Pod {
	wanting := podSet.DeepCopy()
	wanting.Spec.Replicas = new(int32(10000))
	wanting.DeletionTimestamp = nil
	owned := slices.DeleteFunc(slices.Clone(pods), func(p *corev1.Pod) bool { return p.Namespace != podSet.Namespace })
	return podset.NewPod(podSet, podset.Decide(podset.Observation{PodSet: wanting, Owned: owned, Now: start}).Name)
}

// act is what users, nodes and the garbage collector do.
func (w *world) act(s step) {
	switch s.action {
	case scale, deletePodSet, deletePodSetForeground, deletePodSetOrphan, createPodSet, takeName, addOrphan, badSpec, goodSpec, newSpec:
		w.actOnPodSet(s, w.server.podSet(namespace, podSetNames[s.podSet]))
	case limitPods:
		w.left.Quotas--
		w.server.quota = w.server.podsInQuota()
	case unlimitPods:
		w.left.Quotas--
		w.server.quota = -1
	case closeNamespace:
		w.left.Closing--
		w.server.closing = true
	case collect:
		w.collect(s.name)
	default:
		w.actOnPod(s, w.server.pod(namespace, s.name))
	}
}

func (w *world) actOnPodSet(s step, podSet *v1alpha1.PodSet) {
	switch s.action {
	case scale:
		w.left.Scales--
		w.server.changePodSet(podSet, func(p *v1alpha1.PodSet) { p.Spec.Replicas = new(int32(s.n)) })
	case deletePodSet:
		w.left.PodSetDeletes--
		w.server.deletePodSet(podSet, metav1.DeletePropagationBackground)
	case deletePodSetForeground:
		w.left.Foregrounds--
		w.server.deletePodSet(podSet, metav1.DeletePropagationForeground)
	case deletePodSetOrphan:
		w.left.Orphanings--
		w.server.deletePodSet(podSet, metav1.DeletePropagationOrphan)
	case createPodSet:
		w.left.PodSetCreates--
		_, _ = w.server.createPodSet(w.newPodSet(podSetNames[s.podSet], int(s.n)))
	case takeName:
		w.left.Strangers--
		pod := nextPod(podSet, w.server.last().pods)
		pod.Labels, pod.OwnerReferences, pod.Finalizers = nil, nil, nil
		_, _ = w.server.createPod(pod)
	case addOrphan:
		w.left.Orphans--
		pod := nextPod(podSet, w.server.last().pods)
		pod.Name, pod.OwnerReferences, pod.Finalizers = podSet.Name+"-orphan", nil, nil
		_, _ = w.server.createPod(pod)
	case badSpec, goodSpec:
		w.left.BadSpecs--
		image := goodImage
		if s.action == badSpec {
			image = ""
		}
		w.server.changePodSet(podSet, func(p *v1alpha1.PodSet) { p.Spec.Template = w.template(image) })
	case newSpec:
		w.left.NewSpecs--
		image := goodImage
		if podSet.Spec.Template == nil || podSet.Spec.Template.Spec.Containers[0].Image == goodImage {
			image = otherImage
		}
		w.server.changePodSet(podSet, func(p *v1alpha1.PodSet) { p.Spec.Template = w.template(image) })
	default:
		panic(s.String())
	}
}

func (w *world) actOnPod(s step, pod *corev1.Pod) {
	change := func(change func(*corev1.Pod)) { w.server.changePod(pod, change) }
	byUser := client.DeleteOptions{}
	switch s.action {
	case deletePod, leaveName, pullPod:
		if s.action == deletePod {
			w.left.PodDeletes--
		}
		_ = w.server.deletePod(pod.Namespace, pod.Name, byUser)
	case release:
		w.left.Releases--
		change(func(p *corev1.Pod) { p.OwnerReferences = nil })
	case steal:
		w.left.Steals--
		change(func(p *corev1.Pod) { p.OwnerReferences = strangersReferences })
	case unlabel:
		w.left.Unlabels--
		change(func(p *corev1.Pod) { p.Labels = nil })
	case mark:
		w.left.Marks--
		change(func(p *corev1.Pod) { p.Annotations = map[string]string{v1alpha1.DeleteMeAnnotation: "true"} })
	case markNow:
		w.left.Marks--
		change(func(p *corev1.Pod) {
			p.Annotations = map[string]string{v1alpha1.DeleteMeAnnotation: v1alpha1.DeleteMeNow}
		})
	case bindPod:
		change(func(p *corev1.Pod) { p.Spec.NodeName = "node" })
	case runPod:
		change(func(p *corev1.Pod) { p.Status.Phase = corev1.PodRunning })
	case startPod, readyPod:
		change(w.makeReady)
	case unreadyPod:
		w.left.Unreadies--
		change(func(p *corev1.Pod) { w.setReady(p, corev1.ConditionFalse) })
	case failPod:
		w.left.Failures--
		change(func(p *corev1.Pod) {
			p.Spec.NodeName, p.Status.Phase = "node", corev1.PodFailed
			w.setReady(p, corev1.ConditionFalse)
		})
	case endPod:
		options := client.DeleteOptions{GracePeriodSeconds: new(int64(0)), Preconditions: &metav1.Preconditions{UID: &pod.UID}}
		_ = w.server.deletePod(pod.Namespace, pod.Name, options)
	case removeFinalizer:
		change(func(p *corev1.Pod) { p.Finalizers = nil })
	default:
		panic(s.String())
	}
}

var strangersReferences = []metav1.OwnerReference{{
	APIVersion: "example.com/v1", Kind: "Stranger", Name: "stranger", UID: "uid-stranger", Controller: new(true),
}}

func (w *world) makeReady(p *corev1.Pod) {
	p.Spec.NodeName, p.Status.Phase = "node", corev1.PodRunning
	w.setReady(p, corev1.ConditionTrue)
}

func (w *world) setReady(p *corev1.Pod, status corev1.ConditionStatus) {
	p.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: status, LastTransitionTime: metav1.NewTime(w.now)}}
}

// collectorSteps are what the garbage collector has to do: with pods whose owner is gone, and with PodSets that wait for
// the end of their pods, or for their release.
func (w *world) collectorSteps(steps []step) []step {
	last := w.server.last()
	for _, pod := range last.pods {
		if pod.DeletionTimestamp == nil && w.isLeftOver(pod) {
			steps = append(steps, step{action: collect, name: pod.Name})
		}
	}
	for _, podSet := range last.podSets {
		if podSet.DeletionTimestamp != nil && w.collectorCanAct(podSet) {
			steps = append(steps, step{action: collect, name: podSet.Name})
		}
	}
	return steps
}

func (w *world) isLeftOver(pod *corev1.Pod) bool {
	if len(pod.OwnerReferences) == 0 {
		return false
	}
	for _, reference := range pod.OwnerReferences {
		if reference.Kind != v1alpha1.PodSetKind.Kind || w.exists(reference.UID) {
			return false
		}
	}
	return true
}

func (w *world) exists(podSet types.UID) bool {
	return slices.ContainsFunc(w.server.last().podSets, func(p *v1alpha1.PodSet) bool { return p.UID == podSet })
}

func (w *world) dependents(podSet *v1alpha1.PodSet) (all, undeleted []*corev1.Pod) {
	for _, pod := range w.server.last().pods {
		if slices.ContainsFunc(pod.OwnerReferences, func(r metav1.OwnerReference) bool { return r.UID == podSet.UID }) {
			all = append(all, pod)
			if pod.DeletionTimestamp == nil {
				undeleted = append(undeleted, pod)
			}
		}
	}
	return all, undeleted
}

func (w *world) collectorCanAct(podSet *v1alpha1.PodSet) bool {
	all, undeleted := w.dependents(podSet)
	return len(all) == 0 || len(undeleted) > 0 || slices.Contains(podSet.Finalizers, metav1.FinalizerOrphanDependents)
}

// collect treats one object, one dependent at a time.
func (w *world) collect(name string) {
	podSet := w.server.podSet(namespace, name)
	if podSet == nil {
		_ = w.server.deletePod(namespace, name, client.DeleteOptions{})
		return
	}
	all, undeleted := w.dependents(podSet)
	orphan := slices.Contains(podSet.Finalizers, metav1.FinalizerOrphanDependents)
	switch {
	case len(all) == 0:
		w.server.changePodSet(podSet, func(p *v1alpha1.PodSet) { p.Finalizers = nil })
	case orphan:
		isPodSet := func(r metav1.OwnerReference) bool { return r.UID == podSet.UID }
		w.server.changePod(all[0], func(p *corev1.Pod) {
			p.OwnerReferences = slices.DeleteFunc(slices.Clone(p.OwnerReferences), isPodSet)
		})
	case len(undeleted) > 0:
		_ = w.server.deletePod(namespace, undeleted[0].Name, client.DeleteOptions{})
	}
}
