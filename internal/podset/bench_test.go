package podset

import (
	"fmt"
	"testing"
)

// sizes are how many pods the observed PodSets have.
var sizes = []int{10, 1_000, 10_000}

// observationOf is that of a PodSet with so many pods, all ready.
func observationOf(size int) Observation {
	o := Observation{PodSet: podSet(int32(size)), Revision: present, Now: now}
	for slot := range size {
		o.Owned = append(o.Owned, pod(podName("web", o.PodSet.UID, slot), ofRevision(present), ready))
	}
	return o
}

func BenchmarkDecide(b *testing.B) {
	for _, bench := range []struct {
		name   string
		excess int32
		want   Action
	}{{"create", -1, Create}, {"nothing", 0, Nothing}, {"delete", 1, Delete}} {
		for _, size := range sizes {
			b.Run(fmt.Sprintf("%s/pods=%d", bench.name, size), func(b *testing.B) {
				o := observationOf(size)
				o.PodSet.Spec.Replicas = new(int32(size) - bench.excess)
				for b.Loop() {
					if got := Decide(o).Action; got != bench.want {
						b.Fatalf("step = %q, want %q", got, bench.want)
					}
				}
			})
		}
	}
}

func BenchmarkStatus(b *testing.B) {
	for _, size := range sizes {
		b.Run(fmt.Sprintf("pods=%d", size), func(b *testing.B) {
			o := observationOf(size)
			for b.Loop() {
				if got := len(Status(o).PodNames); got != size {
					b.Fatalf("%d names, want %d", got, size)
				}
			}
		})
	}
}
