package podset

import (
	"fmt"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
)

// look is one look at the pods some time after now, and how long no pod may be created from then on.
type look struct {
	after time.Duration
	pods  pods
	want  time.Duration
}

func TestBackoff(t *testing.T) {
	// at makes a pod that was created some time after now.
	at := func(after time.Duration) podOption { return created(-after) }
	bad := pod("bad", failed, created(0))
	worse := pod("worse", failed, at(2*time.Second))

	tests := map[string][]look{
		"nothing failed: no delay": {
			{0, pods{pod("a"), pod("b", ready)}, 0},
		},
		"a pod fails soon: a second": {
			{0, pods{bad}, time.Second},
			{400 * time.Millisecond, pods{bad}, 600 * time.Millisecond},
			{time.Second, pods{bad}, 0},
		},
		"a pod succeeds soon: a second too": {
			{0, pods{pod("done", succeeded, created(0))}, time.Second},
		},
		"a failed pod that was seen before does not count again": {
			{0, pods{bad}, time.Second},
			{time.Second, pods{bad}, 0},
			{time.Minute, pods{bad}, 0},
		},
		"many pods that fail together count once": {
			{0, pods{bad, pod("b", failed, created(0)), pod("c", failed, created(0))}, time.Second},
		},
		"a pod that fails during the delay does not lengthen it": {
			{0, pods{bad}, time.Second},
			{900 * time.Millisecond, pods{bad, pod("b", failed, created(0))}, 100 * time.Millisecond},
			{time.Second, pods{bad, pod("b", failed, created(0))}, 0},
		},
		"another one fails after the delay: twice the delay": {
			{0, pods{bad}, time.Second},
			{2 * time.Second, pods{bad, worse}, 2 * time.Second},
			{4 * time.Second, pods{bad, worse}, 0},
		},
		"a pod that lived for ten minutes does not count": {
			{0, pods{pod("a", failed, created(10*time.Minute))}, 0},
		},
		"a pod that lived for almost ten minutes counts": {
			{0, pods{pod("a", failed, created(10*time.Minute-time.Second))}, time.Second},
		},
		"a terminating pod does not count": {
			{0, pods{pod("a", failed, created(0), terminating)}, 0},
		},
		"nothing fails for ten minutes: the delay starts over": {
			{0, pods{bad}, time.Second},
			{2 * time.Second, pods{worse}, 2 * time.Second},
			{12 * time.Minute, pods{pod("c", failed, at(12*time.Minute))}, time.Second},
		},
		"nothing fails for less than ten minutes: the delay grows on": {
			{0, pods{bad}, time.Second},
			{9 * time.Minute, pods{pod("c", failed, at(9*time.Minute))}, 2 * time.Second},
		},
		"after the delay a pod is tried, and the next waits for it": {
			{0, pods{bad}, time.Second},
			{time.Second, pods{bad}, 0},
			{time.Second, pods{bad, pod("try", at(time.Second))}, time.Second},
			{2 * time.Second, pods{bad, pod("try", at(time.Second))}, 0},
		},
		"the pod that is tried becomes ready: the next need not wait": {
			{0, pods{bad}, time.Second},
			{1500 * time.Millisecond, pods{bad, pod("try", at(time.Second), ready)}, 0},
		},
		"the pod that is tried is waited for as long as the delay is": {
			{0, pods{bad}, time.Second},
			{2 * time.Second, pods{bad, worse}, 2 * time.Second},
			{4 * time.Second, pods{bad, worse, pod("try", at(4*time.Second))}, 2 * time.Second},
		},
		"pods from before the failure are not waited for": {
			{0, pods{bad}, time.Second},
			{time.Second, pods{bad, pod("a", created(time.Second)), pod("b", created(time.Hour))}, 0},
		},
	}
	for name, looks := range tests {
		t.Run(name, func(t *testing.T) {
			var backoff Backoff
			for i, look := range looks {
				at := now.Add(look.after)
				backoff = backoff.Observe(look.pods, "", at)
				if got := wait(backoff, look.pods, at); got != look.want {
					t.Errorf("look %d, after %s: wait for %s, want %s", i+1, look.after, got, look.want)
				}
			}
		})
	}
}

// wait is for how long no pod may be created.
func wait(backoff Backoff, owned pods, at time.Time) time.Duration {
	until := backoff.holdsUntil(filter(owned, isActive), at)
	if until.IsZero() {
		return 0
	}
	return until.Sub(at)
}

func TestBackoffDoublesFromOneSecondToFiveMinutes(t *testing.T) {
	var (
		backoff Backoff
		owned   pods
		got     []time.Duration
	)
	for at := now; len(got) < 11; {
		owned = append(owned, pod(fmt.Sprint("pod-", len(owned)), failed, createdAt(at)))
		backoff = backoff.Observe(owned, "", at)
		delay := wait(backoff, owned, at)
		got = append(got, delay)
		at = at.Add(delay)
	}
	mustEqual(t, got, []time.Duration{
		1 * time.Second, 2 * time.Second, 4 * time.Second, 8 * time.Second, 16 * time.Second, 32 * time.Second,
		64 * time.Second, 128 * time.Second, 256 * time.Second, 5 * time.Minute, 5 * time.Minute,
	})
}

func TestBackoffStartsAfreshWithANewTemplate(t *testing.T) {
	image := func(image string) *corev1.PodTemplateSpec {
		return &corev1.PodTemplateSpec{Spec: corev1.PodSpec{Containers: []corev1.Container{{Image: image}}}}
	}
	tests := map[string]struct {
		before, after *corev1.PodTemplateSpec
		want          time.Duration
	}{
		"another template":               {image("bad"), image("good"), 0},
		"the default instead of another": {image("bad"), nil, 0},
		"another instead of the default": {nil, image("good"), 0},
		"the same template":              {image("bad"), image("bad"), time.Second},
		"the default as before":          {nil, nil, time.Second},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			owned := pods{pod("a", failed, created(0))}
			backoff := Backoff{}.Observe(owned, Revision(test.before), now).Observe(owned, Revision(test.after), now)
			mustEqual(t, wait(backoff, owned, now), test.want)
		})
	}
}

func TestBackoffIsNotChangedByObserve(t *testing.T) {
	owned := pods{pod("a", failed, created(0))}
	before := podsFailing()
	before.Observe(owned, "", now.Add(time.Minute))
	mustEqual(t, wait(before, owned, now), time.Second)
}
