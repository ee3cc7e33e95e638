package main

import (
	"context"
	"fmt"
	"maps"
	"strings"
	"sync"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apimachinery/pkg/util/sets"

	"example.com/podset-operator/internal/manager"
)

// observer reads every revision of the store from a watch of etcd itself. It asks the API server for nothing, so that
// all requests counted there are the arms' own.
type observer struct {
	store *clientv3.Client

	mutex sync.Mutex
	// news is closed and replaced when something has changed.
	news chan struct{}
	last int64
	// lastWrite is when an object of a resource that the arms write last changed.
	lastWrite  time.Time
	written    volumes
	namespaces map[string]*tally
	err        error
}

// volume is what was written of one resource: how many values, and how many bytes they have.
type volume struct{ values, bytes int }

// volumes are the volumes of all resources, by name.
type volumes map[string]volume

func (v volumes) minus(before volumes) volumes {
	difference := volumes{}
	for resource, now := range v {
		was := before[resource]
		if now != was {
			difference[resource] = volume{now.values - was.values, now.bytes - was.bytes}
		}
	}
	return difference
}

func (v volumes) total() volume {
	var sum volume
	for _, one := range v {
		sum.values += one.values
		sum.bytes += one.bytes
	}
	return sum
}

// tally is what happened to the pods of one namespace.
type tally struct {
	// replicas is how many pods each set may have, excess by how many one of them had more at any revision. Pods whose
	// deletion has begun do not count there.
	replicas, excess int
	// pods is how many there are, leaving those whose deletion has begun, staying how many others each set has.
	pods    int
	leaving sets.Set[string]
	staying map[string]int
	// created, marked and gone are when a pod came, when its deletion began, and when it had gone, in order.
	created, marked, gone []time.Time
}

// observed are the resources that the arms write, by their place in the store.
var observed = map[string]string{
	"/registry/pods/":                    "pods",
	"/registry/app.example.com/podsets/": "podsets",
	"/registry/replicasets/":             "replicasets",
	"/registry/events/":                  "events",
}

// observe watches the etcd at the address until ctx ends.
func observe(ctx context.Context, address string) (*observer, error) {
	store, err := clientv3.New(clientv3.Config{Endpoints: []string{address}, Context: ctx})
	if err != nil {
		return nil, err
	}
	o := &observer{store: store, news: make(chan struct{}), written: volumes{}, namespaces: map[string]*tally{}}
	present, err := store.Get(ctx, "/registry/nothing")
	if err != nil {
		return nil, fmt.Errorf("reading etcd's revision: %w", err)
	}
	events := store.Watch(ctx, "/registry/", clientv3.WithPrefix(), clientv3.WithRev(present.Header.Revision+1), clientv3.WithFragment())
	go func() {
		defer func() { _ = store.Close() }()
		for response := range events {
			o.add(response, time.Now())
		}
	}()
	return o, nil
}

func (o *observer) add(response clientv3.WatchResponse, now time.Time) {
	o.mutex.Lock()
	defer o.mutex.Unlock()
	if err := response.Err(); err != nil && o.err == nil {
		o.err = fmt.Errorf("revisions after %d are missing: %w", o.last, err)
	}
	for _, event := range response.Events {
		o.last = event.Kv.ModRevision
		prefix, resource := resourceOf(string(event.Kv.Key))
		if resource == "" {
			continue
		}
		o.lastWrite = now
		if event.Type == clientv3.EventTypePut {
			was := o.written[resource]
			o.written[resource] = volume{was.values + 1, was.bytes + len(event.Kv.Value)}
		}
		if resource == "pods" {
			namespace, name, _ := strings.Cut(strings.TrimPrefix(string(event.Kv.Key), prefix), "/")
			if err := o.namespaces[namespace].add(event, name, now); err != nil && o.err == nil {
				o.err = err
			}
		}
	}
	close(o.news)
	o.news = make(chan struct{})
}

func resourceOf(key string) (prefix, resource string) {
	for prefix, resource := range observed {
		if strings.HasPrefix(key, prefix) {
			return prefix, resource
		}
	}
	return "", ""
}

// add counts a pod that came or went. The API server deletes a pod without a node at once, but in two revisions. The name
// of a pod is that of its set, a hyphen, and what tells it from the others.
func (t *tally) add(event *clientv3.Event, name string, now time.Time) error {
	if t == nil {
		return nil // nobody asked for this namespace
	}
	set := name[:max(0, strings.LastIndex(name, "-"))]
	leaves := event.Type == clientv3.EventTypeDelete
	switch {
	case event.IsCreate():
		t.pods++
		t.staying[set]++
		t.created = append(t.created, now)
		t.excess = max(t.excess, t.staying[set]-t.replicas)
	case event.IsModify():
		pod, _, err := decoder.Decode(event.Kv.Value, nil, &corev1.Pod{})
		if err != nil {
			return fmt.Errorf("reading pod %s at revision %d: %w", name, event.Kv.ModRevision, err)
		}
		leaves = pod.(*corev1.Pod).DeletionTimestamp != nil
	}
	if leaves && !t.leaving.Has(name) {
		t.leaving.Insert(name)
		t.staying[set]--
		t.marked = append(t.marked, now)
	}
	if event.Type == clientv3.EventTypeDelete {
		t.leaving.Delete(name)
		t.pods--
		t.gone = append(t.gone, now)
	}
	return nil
}

var decoder = serializer.NewCodecFactory(manager.Scheme).UniversalDeserializer()

// begin starts the tally of a namespace anew: from now on each set may have so many pods.
func (o *observer) begin(namespace string, replicas int) {
	o.mutex.Lock()
	defer o.mutex.Unlock()
	next := &tally{replicas: replicas, leaving: sets.New[string](), staying: map[string]int{}}
	if before := o.namespaces[namespace]; before != nil {
		next.pods, next.leaving, next.staying = before.pods, before.leaving, before.staying
	}
	o.namespaces[namespace] = next
}

// mark forgets when pods came and went in a namespace until now.
func (o *observer) mark(namespace string) {
	o.mutex.Lock()
	defer o.mutex.Unlock()
	t := o.namespaces[namespace]
	t.created, t.marked, t.gone = nil, nil, nil
}

// end returns the tally of a namespace.
func (o *observer) end(namespace string) tally {
	o.mutex.Lock()
	defer o.mutex.Unlock()
	return *o.namespaces[namespace]
}

// volumes returns what was written until now.
func (o *observer) volumes() volumes {
	o.mutex.Lock()
	defer o.mutex.Unlock()
	return maps.Clone(o.written)
}

// until returns when the tally of a namespace is as wanted.
func (o *observer) until(ctx context.Context, namespace string, isWanted func(*tally) bool) error {
	for {
		o.mutex.Lock()
		news, err, done := o.news, o.err, isWanted(o.namespaces[namespace])
		pods := o.namespaces[namespace].pods
		o.mutex.Unlock()
		switch {
		case err != nil:
			return err
		case done:
			return nil
		}
		select {
		case <-news:
		case <-ctx.Done():
			return fmt.Errorf("waiting for pods, of which there are %d: %w", pods, context.Cause(ctx))
		}
	}
}

// quiet returns when every revision has been seen and nothing was written for a while.
func (o *observer) quiet(ctx context.Context, calm time.Duration) error {
	start := time.Now()
	for {
		present, err := o.store.Get(ctx, "/registry/nothing")
		if err != nil {
			return fmt.Errorf("reading etcd's revision: %w", err)
		}
		o.mutex.Lock()
		calmSince, complete, failure := o.lastWrite, o.last >= present.Header.Revision, o.err
		o.mutex.Unlock()
		if calmSince.Before(start) {
			calmSince = start
		}
		switch rest := calm - time.Since(calmSince); {
		case failure != nil:
			return failure
		case rest > 0:
			pause(rest)
		case complete:
			return nil
		default:
			pause(10 * time.Millisecond)
		}
		if ctx.Err() != nil {
			return fmt.Errorf("waiting for quiet: %w", context.Cause(ctx))
		}
	}
}

func pause(duration time.Duration) {
	time.Sleep(duration) //nolint:forbidigo // what is waited for is that nothing happens, or the pace of a user
}
