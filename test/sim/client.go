package sim

import (
	"context"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"example.com/podset-operator/api/v1alpha1"
)

// fault is what becomes of a request.
type fault uint8

const (
	fine        fault = iota
	refused           // it is never sent
	internal          // the server answers 500 and does nothing
	throttled         // the server answers 429 and does nothing
	lost              // it is carried out, and the reply is lost
	late              // the client gives up on it, and it is carried out at some later time
	crashBefore       // the manager dies before it sends it
	crashAfter        // the manager dies after it was carried out
	faultCount
)

var faultNames = [faultCount]string{"fine", "refused", "internal", "throttled", "lost", "late", "crash before", "crash after"}

func (f fault) String() string { return faultNames[f] }

// onlyWrites tells the faults that make sense for a write only.
func (f fault) onlyWrites() bool { return f == lost || f == late || f == crashAfter }

// request is a write on its way to the server.
type request struct {
	verb string
	// owner is the UID of the PodSet that it is about.
	owner   types.UID
	pod     *corev1.Pod
	podSet  *v1alpha1.PodSet
	patch   []byte
	options client.DeleteOptions
}

// Verbs of requests. A reconcile sends at most one of each.
const (
	verbGetPodSet = "get-podset"
	verbGetPod    = "get-pod"
	verbListPods  = "list-pods"
	verbTry       = "try"
	verbCreate    = "create"
	verbPatch     = "patch"
	verbDelete    = "delete"
	verbStatus    = "status"
)

// carryOut is what the server does with a write.
func (s *server) carryOut(q request) (*corev1.Pod, *v1alpha1.PodSet, error) {
	switch q.verb {
	case verbCreate:
		pod, err := s.createPod(q.pod)
		return pod, nil, err
	case verbPatch:
		pod, err := s.patchPod(q.pod.Namespace, q.pod.Name, q.patch)
		return pod, nil, err
	case verbDelete:
		return nil, nil, s.deletePod(q.pod.Namespace, q.pod.Name, q.options)
	case verbStatus:
		podSet, err := s.updateStatus(q.podSet)
		return nil, podSet, err
	default:
		panic("no write: " + q.verb)
	}
}

// write sends a write and returns what the client gets.
func (r *run) write(q request) (*corev1.Pod, *v1alpha1.PodSet, error) {
	w := r.world
	q.owner = r.seen.UID
	r.meanwhile(q.verb)
	w.judgeAttempt(r, q)
	switch w.choose(q.verb, true) {
	case refused:
		return nil, nil, errRefused
	case internal:
		return nil, nil, errInternal()
	case throttled:
		return nil, nil, errThrottled()
	case lost:
		_, _, _ = w.carryOut(q)
		return nil, nil, errTimeout
	case late:
		w.late = append(slices.Clip(w.late), q)
		return nil, nil, errTimeout
	case crashBefore:
		panic(crashed{})
	case crashAfter:
		_, _, _ = w.carryOut(q)
		panic(crashed{})
	default:
	}
	pod, podSet, err := w.carryOut(q)
	w.judgeRefusal(r, q, err)
	if err == nil {
		r.remember(q)
	}
	return pod, podSet, err
}

// remember notes that the manager knows of its write. That of a pod without the label is in no view.
func (r *run) remember(q request) {
	if q.verb == verbPatch && !isMember(q.pod) {
		return
	}
	known := &r.manager.known[r.podSet]
	if known.uid != r.seen.UID {
		*known = knownWrites{uid: r.seen.UID}
	}
	if q.verb == verbStatus {
		known.status = r.world.server.lastIndex()
	} else {
		known.pod = r.world.server.lastIndex()
	}
}

// read asks the server and returns an error if no answer comes.
func (r *run) read(verb string) error {
	r.meanwhile(verb)
	switch r.world.choose(verb, false) {
	case refused:
		return errRefused
	case internal:
		return errInternal()
	case throttled:
		return errThrottled()
	case crashBefore:
		panic(crashed{})
	default:
		return nil
	}
}

// cachedClient is the client of a reconciler: reads PodSets from the view, writes to the server.
type cachedClient struct {
	client.Client
	r *run
}

// Get reads a PodSet from the view.
func (c cachedClient) Get(_ context.Context, key client.ObjectKey, object client.Object, _ ...client.GetOption) error {
	r := c.r
	found := findPodSet(r.world.server.at(r.manager.podSets.index).podSets, key.Namespace, key.Name)
	if found == nil {
		return apierrors.NewNotFound(podSetResource, key.Name)
	}
	r.seen = found
	found.DeepCopyInto(object.(*v1alpha1.PodSet))
	return nil
}

// Create creates a pod, or tries whether it could be created.
func (c cachedClient) Create(_ context.Context, object client.Object, options ...client.CreateOption) error {
	pod := object.(*corev1.Pod)
	asked := client.CreateOptions{}
	asked.ApplyOptions(options)
	if len(asked.DryRun) > 0 {
		if err := c.r.read(verbTry); err != nil {
			return err
		}
		return c.r.world.server.tryPod(pod)
	}
	created, _, err := c.r.write(request{verb: verbCreate, pod: pod.DeepCopy()})
	if err == nil {
		created.DeepCopyInto(pod)
	}
	return err
}

// Patch patches a pod.
func (c cachedClient) Patch(_ context.Context, object client.Object, patch client.Patch, _ ...client.PatchOption) error {
	pod := object.(*corev1.Pod)
	data, err := patch.Data(pod)
	if err != nil {
		return err
	}
	patched, _, err := c.r.write(request{verb: verbPatch, pod: pod.DeepCopy(), patch: data})
	if err == nil {
		patched.DeepCopyInto(pod)
	}
	return err
}

// Delete deletes a pod.
func (c cachedClient) Delete(_ context.Context, object client.Object, options ...client.DeleteOption) error {
	q := request{verb: verbDelete, pod: object.(*corev1.Pod).DeepCopy()}
	q.options.ApplyOptions(options)
	_, _, err := c.r.write(q)
	return err
}

// Status returns the writer of the status.
func (c cachedClient) Status() client.SubResourceWriter { return statusWriter{r: c.r} }

type statusWriter struct {
	client.SubResourceWriter
	r *run
}

// Update replaces the status.
func (s statusWriter) Update(_ context.Context, object client.Object, _ ...client.SubResourceUpdateOption) error {
	podSet := object.(*v1alpha1.PodSet)
	_, updated, err := s.r.write(request{verb: verbStatus, podSet: podSet.DeepCopy()})
	if err == nil {
		updated.DeepCopyInto(podSet)
	}
	return err
}

// liveReader reads from the server.
type liveReader struct{ r *run }

// Get reads a PodSet or a pod.
func (l liveReader) Get(_ context.Context, key client.ObjectKey, object client.Object, _ ...client.GetOption) error {
	server := l.r.world.server
	switch object := object.(type) {
	case *v1alpha1.PodSet:
		if err := l.r.read(verbGetPodSet); err != nil {
			return err
		}
		l.r.live = server.podSet(key.Namespace, key.Name)
		if l.r.live == nil {
			return apierrors.NewNotFound(podSetResource, key.Name)
		}
		l.r.live.DeepCopyInto(object)
	case *corev1.Pod:
		if err := l.r.read(verbGetPod); err != nil {
			return err
		}
		pod := server.pod(key.Namespace, key.Name)
		if pod == nil {
			return apierrors.NewNotFound(podResource, key.Name)
		}
		pod.DeepCopyInto(object)
	default:
		return fmt.Errorf("the simulated API server has no %T", object)
	}
	return nil
}

// List lists pods.
func (l liveReader) List(_ context.Context, list client.ObjectList, options ...client.ListOption) error {
	pods, ok := list.(*corev1.PodList)
	if !ok {
		return fmt.Errorf("the simulated API server has no %T", list)
	}
	if err := l.r.read(verbListPods); err != nil {
		return err
	}
	wanted := client.ListOptions{}
	wanted.ApplyOptions(options)
	last := l.r.world.server.last()
	pods.ResourceVersion, pods.Items = versionText(last.version), nil
	l.r.livePods, l.r.listed = nil, true
	for _, pod := range last.pods {
		if wanted.Namespace != "" && wanted.Namespace != pod.Namespace ||
			wanted.LabelSelector != nil && !wanted.LabelSelector.Matches(labels.Set(pod.Labels)) {
			continue
		}
		pods.Items = append(pods.Items, *pod.DeepCopy())
		if owner := metav1.GetControllerOfNoCopy(pod); owner != nil && l.r.seen != nil && owner.UID == l.r.seen.UID {
			l.r.livePods = append(l.r.livePods, pod)
		}
	}
	return nil
}
