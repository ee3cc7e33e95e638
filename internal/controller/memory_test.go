package controller

import (
	"fmt"
	"sync"
	"testing"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"example.com/podset-operator/internal/podset"
)

func TestMemoryLastsUntilThePodSetIsAnother(t *testing.T) {
	var all memories
	first := podSet(1)
	all.of(first).podWritten = "7"
	mustEqual(t, all.of(first).podWritten, "7")

	twin := podSet(1)
	twin.Namespace = "elsewhere"
	mustEqual(t, all.of(twin).podWritten, "")

	again := podSet(1)
	again.UID = "another"
	mustEqual(t, all.of(again).podWritten, "")

	all.of(twin).podWritten = "8"
	all.of(again).podWritten = "9"
	all.forget(client.ObjectKeyFromObject(again))
	mustEqual(t, all.of(again).podWritten, "")
	mustEqual(t, all.of(twin).podWritten, "8")
}

func TestANewMemoryCanBeWrittenTo(t *testing.T) {
	var all memories
	memory := all.of(podSet(1))
	memory.takenNames.Insert("a")
	memory.hold(podset.Create, 7, podset.Hold{})
	mustEqual(t, memory.singleEvents.TryAccept(), true)
}

func TestHoldsLastUntilTheSpecIsAnother(t *testing.T) {
	var all memories
	memory := all.of(podSet(1))
	memory.hold(podset.Create, 7, podset.Hold{Until: now})

	memory.releaseHolds(7)
	mustEqual(t, memory.holds, map[podset.Action]podset.Hold{podset.Create: {Until: now}})
	memory.releaseHolds(8)
	mustEqual(t, memory.holds, map[podset.Action]podset.Hold{})
}

func TestMemoriesOfManyPodSetsAtOnce(t *testing.T) {
	var all memories
	var workers sync.WaitGroup
	start := make(chan struct{})
	for i := range 8 {
		workers.Go(func() {
			<-start
			for j := range 1000 {
				mine := podSet(1)
				mine.Name = fmt.Sprintf("web-%d-%d", i, j%10)
				all.of(mine).podWritten = "7"
				if j%3 == 0 {
					all.forget(client.ObjectKeyFromObject(mine))
				}
			}
		})
	}
	close(start)
	workers.Wait()
	// Of its ten names each worker forgot four when it used them for the last time.
	mustEqual(t, len(all.byKey), 8*6)
}
