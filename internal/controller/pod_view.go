package controller

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/selection"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/apimachinery/pkg/util/sets"
	toolscache "k8s.io/client-go/tools/cache"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"example.com/podset-operator/api/v1alpha1"
)

// PodView is what the manager sees of pods.
type PodView interface {
	// Of returns the pods that matter to the PodSet. They must not be changed.
	Of(podSet *v1alpha1.PodSet) (SeenPods, error)
}

// SeenPods are the pods that matter to one PodSet, as of one moment.
type SeenPods struct {
	// Owned are the pods whose controller is the PodSet.
	Owned []*corev1.Pod
	// Orphans are the pods that carry the PodSet's label and have no controller.
	Orphans []*corev1.Pod
	// ResourceVersion is that of the last change that went into the view before it was read.
	ResourceVersion string
}

// podCaches is the PodView of a running manager: one informer of pods per watched namespace, or a single one for all.
// It does not use the cache's own way to watch several namespaces because that hides their informers, and with them
// how far each has come.
type podCaches struct {
	caches    map[string]cache.Cache
	informers map[string]toolscache.SharedIndexInformer
}

const (
	byController = "controller-uid"
	byOrphanage  = "orphan-of"
)

// newPodCaches makes the pod caches, hands them to the manager and gives their informers the indexes that Of needs.
func newPodCaches(ctx context.Context, mgr ctrl.Manager, namespaces []string) (*podCaches, error) {
	pods := &podCaches{caches: map[string]cache.Cache{}, informers: map[string]toolscache.SharedIndexInformer{}}
	if len(namespaces) == 0 {
		namespaces = []string{metav1.NamespaceAll}
	}
	for namespace := range sets.New(namespaces...) {
		podCache, err := cache.New(mgr.GetConfig(), podCacheOptions(mgr, namespace))
		if err != nil {
			return nil, fmt.Errorf("making the pod cache: %w", err)
		}
		informer, err := podCache.GetInformer(ctx, &corev1.Pod{}, cache.BlockUntilSynced(false))
		if err != nil {
			return nil, fmt.Errorf("making the pod informer: %w", err)
		}
		shared, ok := informer.(toolscache.SharedIndexInformer)
		if !ok {
			return nil, fmt.Errorf("the pod informer is a %T, which does not tell its resource version", informer)
		}
		if err := shared.AddIndexers(toolscache.Indexers{byController: controllerUID, byOrphanage: orphanOf}); err != nil {
			return nil, fmt.Errorf("indexing pods: %w", err)
		}
		if err := mgr.Add(podCache); err != nil {
			return nil, fmt.Errorf("adding the pod cache to the manager: %w", err)
		}
		pods.caches[namespace], pods.informers[namespace] = podCache, shared
	}
	return pods, nil
}

// podCacheOptions keeps pods that are no PodSet's off the wire, and out of memory all fields that are not read.
func podCacheOptions(mgr ctrl.Manager, namespace string) cache.Options {
	options := cache.Options{
		HTTPClient:           mgr.GetHTTPClient(),
		Scheme:               mgr.GetScheme(),
		Mapper:               mgr.GetRESTMapper(),
		DefaultLabelSelector: hasPodSetLabel,
		DefaultTransform:     trimPod,
	}
	if namespace != metav1.NamespaceAll {
		options.DefaultFieldSelector = fields.OneTermEqualSelector("metadata.namespace", namespace)
	}
	return options
}

var hasPodSetLabel = func() labels.Selector {
	exists, err := labels.NewRequirement(v1alpha1.PodSetLabel, selection.Exists, nil)
	utilruntime.Must(err) // the label is a constant
	return labels.NewSelector().Add(*exists)
}()

// Of implements PodView. The resource version is read before the pods, so that they are at least as current as it says.
func (p *podCaches) Of(podSet *v1alpha1.PodSet) (SeenPods, error) {
	informer, ok := p.informers[podSet.Namespace]
	if !ok {
		informer, ok = p.informers[metav1.NamespaceAll]
	}
	if !ok {
		return SeenPods{}, fmt.Errorf("namespace %q is not watched", podSet.Namespace)
	}
	indexer := informer.GetIndexer()
	seen := SeenPods{ResourceVersion: indexer.LastStoreSyncResourceVersion()}
	var err error
	if seen.Owned, err = indexed(indexer, byController, string(podSet.UID)); err != nil {
		return SeenPods{}, err
	}
	seen.Orphans, err = indexed(indexer, byOrphanage, client.ObjectKeyFromObject(podSet).String())
	return seen, err
}

func (p *podCaches) haveSynced() bool {
	for _, informer := range p.informers {
		if !informer.HasSynced() {
			return false
		}
	}
	return true
}

func indexed(indexer toolscache.Indexer, index, value string) ([]*corev1.Pod, error) {
	objects, err := indexer.ByIndex(index, value)
	if err != nil {
		return nil, err
	}
	pods := make([]*corev1.Pod, 0, len(objects))
	for _, object := range objects {
		pods = append(pods, object.(*corev1.Pod))
	}
	return pods, nil
}

// controllerUID indexes a pod by the UID of its controller.
func controllerUID(object any) ([]string, error) {
	if controller := metav1.GetControllerOfNoCopy(object.(*corev1.Pod)); controller != nil {
		return []string{string(controller.UID)}, nil
	}
	return nil, nil
}

// orphanOf indexes a pod without a controller by the PodSet that its label names.
func orphanOf(object any) ([]string, error) {
	pod := object.(*corev1.Pod)
	if metav1.GetControllerOfNoCopy(pod) != nil {
		return nil, nil
	}
	return []string{client.ObjectKey{Namespace: pod.Namespace, Name: pod.Labels[v1alpha1.PodSetLabel]}.String()}, nil
}

// podSetOf maps a pod to the PodSet that wants to know about it: its controller, or the one that may adopt it.
func podSetOf(_ context.Context, pod *corev1.Pod) []ctrl.Request {
	name := pod.Labels[v1alpha1.PodSetLabel]
	if controller := metav1.GetControllerOfNoCopy(pod); controller != nil {
		if schema.FromAPIVersionAndKind(controller.APIVersion, controller.Kind).GroupKind() != v1alpha1.PodSetKind.GroupKind() {
			return nil
		}
		name = controller.Name
	}
	return []ctrl.Request{{NamespacedName: client.ObjectKey{Namespace: pod.Namespace, Name: name}}}
}

// trimPod keeps of a pod what is read, by this package and by package podset.
func trimPod(object any) (any, error) {
	pod, ok := object.(*corev1.Pod)
	if !ok {
		return object, nil // a tombstone
	}
	trimmed := &corev1.Pod{
		TypeMeta: pod.TypeMeta,
		ObjectMeta: metav1.ObjectMeta{
			Namespace:         pod.Namespace,
			Name:              pod.Name,
			UID:               pod.UID,
			ResourceVersion:   pod.ResourceVersion,
			CreationTimestamp: pod.CreationTimestamp,
			DeletionTimestamp: pod.DeletionTimestamp,
			OwnerReferences:   pod.OwnerReferences,
			Labels:            pick(pod.Labels, v1alpha1.PodSetLabel, v1alpha1.TemplateHashLabel),
			Annotations:       pick(pod.Annotations, v1alpha1.DeleteMeAnnotation, corev1.PodDeletionCost),
		},
		Spec:   corev1.PodSpec{NodeName: pod.Spec.NodeName},
		Status: corev1.PodStatus{Phase: pod.Status.Phase},
	}
	for _, condition := range pod.Status.Conditions {
		kept := corev1.PodCondition{Type: condition.Type, Status: condition.Status}
		switch {
		case condition.Type == corev1.PodReady:
			kept.LastTransitionTime = condition.LastTransitionTime
		case condition.Type == corev1.PodScheduled && condition.Status == corev1.ConditionFalse:
			kept.Reason = condition.Reason
		default:
			continue
		}
		trimmed.Status.Conditions = append(trimmed.Status.Conditions, kept)
	}
	trimmed.Status.InitContainerStatuses = trimContainers(pod.Status.InitContainerStatuses)
	trimmed.Status.ContainerStatuses = trimContainers(pod.Status.ContainerStatuses)
	return trimmed, nil
}

// trimContainers keeps how often containers were restarted, and why those that do not run do not.
func trimContainers(statuses []corev1.ContainerStatus) []corev1.ContainerStatus {
	var trimmed []corev1.ContainerStatus
	for _, status := range statuses {
		kept := corev1.ContainerStatus{RestartCount: status.RestartCount}
		switch state := status.State; {
		case state.Waiting != nil:
			kept.Name = status.Name
			kept.State.Waiting = &corev1.ContainerStateWaiting{Reason: state.Waiting.Reason}
		case state.Terminated != nil:
			kept.Name = status.Name
			kept.State.Terminated = &corev1.ContainerStateTerminated{Reason: state.Terminated.Reason, ExitCode: state.Terminated.ExitCode}
		}
		trimmed = append(trimmed, kept)
	}
	return trimmed
}

// pick returns those of the keys that the map has, with their values.
func pick(from map[string]string, keys ...string) map[string]string {
	var picked map[string]string
	for _, key := range keys {
		if value, ok := from[key]; ok {
			if picked == nil {
				picked = map[string]string{}
			}
			picked[key] = value
		}
	}
	return picked
}
