package faults

import (
	"context"
	"fmt"
	"strconv"
	"sync"

	clientv3 "go.etcd.io/etcd/client/v3"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"

	"example.com/podset-operator/api/v1alpha1"
)

// change is one revision of the store: what one pod or PodSet was before and is afterwards, nil if it was or is not there.
type change struct {
	revision          int64
	oldPod, pod       *corev1.Pod
	oldPodSet, podSet *v1alpha1.PodSet
}

func (c *change) namespace() string {
	for _, pod := range []*corev1.Pod{c.oldPod, c.pod} {
		if pod != nil {
			return pod.Namespace
		}
	}
	for _, podSet := range []*v1alpha1.PodSet{c.oldPodSet, c.podSet} {
		if podSet != nil {
			return podSet.Namespace
		}
	}
	return ""
}

// history is every revision of all pods and PodSets from the first one. It is read from etcd: an API server forgets what
// was before its start.
type history struct {
	client *clientv3.Client
	mutex  sync.Mutex
	all    []change
	last   int64
	err    error
}

const podPrefix, podSetPrefix = "/registry/pods/", "/registry/app.example.com/podsets/"

// readHistory reads the history of the etcd at the address until ctx ends.
func readHistory(ctx context.Context, address string) (*history, error) {
	client, err := clientv3.New(clientv3.Config{Endpoints: []string{address}, Context: ctx})
	if err != nil {
		return nil, err
	}
	h := &history{client: client}
	// The range holds the prefixes of both kinds. Revisions come in order, also after etcd was gone for a while.
	events := client.Watch(ctx, "/registry/", clientv3.WithPrefix(), clientv3.WithRev(1), clientv3.WithPrevKV())
	go func() {
		defer func() { _ = client.Close() }()
		for response := range events {
			h.add(response)
		}
	}()
	return h, nil
}

func (h *history) add(response clientv3.WatchResponse) {
	h.mutex.Lock()
	defer h.mutex.Unlock()
	if err := response.Err(); err != nil && h.err == nil {
		h.err = fmt.Errorf("revisions after %d are missing: %w", h.last, err)
	}
	for _, event := range response.Events {
		h.last = event.Kv.ModRevision
		c := change{revision: event.Kv.ModRevision}
		var err error
		switch key := string(event.Kv.Key); {
		case len(key) > len(podPrefix) && key[:len(podPrefix)] == podPrefix:
			c.pod, err = decode[corev1.Pod](event.Kv.Value, event.Kv.ModRevision)
			if event.PrevKv != nil && err == nil {
				c.oldPod, err = decode[corev1.Pod](event.PrevKv.Value, event.PrevKv.ModRevision)
			}
		case len(key) > len(podSetPrefix) && key[:len(podSetPrefix)] == podSetPrefix:
			c.podSet, err = decode[v1alpha1.PodSet](event.Kv.Value, event.Kv.ModRevision)
			if event.PrevKv != nil && err == nil {
				c.oldPodSet, err = decode[v1alpha1.PodSet](event.PrevKv.Value, event.PrevKv.ModRevision)
			}
		default:
			continue
		}
		if err != nil && h.err == nil {
			h.err = fmt.Errorf("revision %d: %w", event.Kv.ModRevision, err)
		}
		h.all = append(h.all, c)
	}
}

// decode returns the stored object, nil if there is none.
func decode[T any](value []byte, revision int64) (*T, error) {
	if len(value) == 0 {
		return nil, nil
	}
	object, _, err := decoder.Decode(value, nil, nil)
	if err != nil {
		return nil, err
	}
	accessor, err := meta.Accessor(object)
	if err != nil {
		return nil, err
	}
	accessor.SetResourceVersion(strconv.FormatInt(revision, 10))
	typed, ok := any(object).(*T)
	if !ok {
		return nil, fmt.Errorf("stored is a %T", object)
	}
	return typed, nil
}

// until returns all changes in a namespace once those up to the present revision are there.
func (h *history) until(ctx context.Context, namespace string) ([]change, bool, error) {
	present, err := h.client.Get(ctx, "/registry/nothing")
	if err != nil {
		return nil, false, err
	}
	h.mutex.Lock()
	defer h.mutex.Unlock()
	var changes []change
	for i := range h.all {
		if h.all[i].namespace() == namespace {
			changes = append(changes, h.all[i])
		}
	}
	return changes, h.last >= present.Header.Revision, h.err
}

func toRevision(resourceVersion string) int64 {
	revision, _ := strconv.ParseInt(resourceVersion, 10, 64)
	return revision
}
