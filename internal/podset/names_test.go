package podset

import (
	"fmt"
	"regexp"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/api/validation"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
)

const safeAlphabet = "bcdfghjklmnpqrstvwxz2456789"

// The names are a contract with the pods that exist: were they others after an upgrade, a create repeated across it could
// make a second pod.
func TestNamesOfKnownSlotsNeverChange(t *testing.T) {
	tests := map[types.UID][]string{
		"5f0c7f63-3a0c-4c5e-9d0b-1f1f6d2b7a10": {"web-podx4zld", "web-pod5dvm8", "web-pod9nqn4", "web-podfzlpw"},
		"c2d1a6b4-8e4f-4b7a-a6f3-0d9f5e6c7b21": {"web-podpzb8v", "web-podjmwgg", "web-podc9jpx", "web-pod6t6wh"},
	}
	for uid, want := range tests {
		var got []string
		for slot := range want {
			got = append(got, podName("web", uid, slot))
		}
		mustEqual(t, got, want)
	}
}

func TestNamesAreThePodSetsNameAndFiveSafeCharacters(t *testing.T) {
	format := regexp.MustCompile(`^web-pod[` + safeAlphabet + `]{5}$`)
	for slot := range 1000 {
		if name := podName("web", "uid", slot); !format.MatchString(name) {
			t.Fatalf("slot %d has the name %s", slot, name)
		}
	}
}

func TestNamesAreValidPodNames(t *testing.T) {
	for _, podSetName := range []string{"a", "web.v1.2", strings.Repeat("x", 63)} {
		name := podName(podSetName, "uid", 0)
		if problems := validation.NameIsDNSSubdomain(name, false); len(problems) > 0 {
			t.Errorf("%s is no name for a pod: %s", name, problems)
		}
	}
}

func TestSlotsHaveDifferentNames(t *testing.T) {
	for _, uid := range []types.UID{"", "a", "b", "5f0c7f63-3a0c-4c5e-9d0b-1f1f6d2b7a10"} {
		slotOf := map[string]int{}
		for slot := range 20_000 {
			name := podName("web", uid, slot)
			if other, taken := slotOf[name]; taken {
				t.Fatalf("UID %q: slots %d and %d are both %s", uid, other, slot, name)
			}
			slotOf[name] = slot
		}
	}
}

// Read as numbers the names go up in equal strides modulo the number of slots. Since that is a power of 3, no name comes
// twice in a whole round unless the stride is a multiple of 3.
func TestAllSlotsHaveDifferentNames(t *testing.T) {
	for i := range 2000 {
		uid := types.UID(fmt.Sprint("uid-", i))
		number := func(slot int) int { return suffixNumber(t, podName("web", uid, slot)) }
		stride := (number(1) - number(0) + slots) % slots
		if stride%3 == 0 {
			t.Fatalf("UID %s: the stride %d is a multiple of 3", uid, stride)
		}
		for _, slot := range []int{2, 3, 1000, slots / 2, slots - 1} {
			if got, want := number(slot), (number(0)+slot*stride)%slots; got != want {
				t.Fatalf("UID %s: slot %d has number %d, want %d", uid, slot, got, want)
			}
		}
	}
}

// suffixNumber reads the last five characters of a name as a number, the least digit first.
func suffixNumber(t *testing.T, name string) int {
	t.Helper()
	number := 0
	for i := len(name) - 1; i >= len(name)-suffixLength; i-- {
		digit := strings.IndexByte(safeAlphabet, name[i])
		if digit < 0 {
			t.Fatalf("%s ends in a character that is not safe", name)
		}
		number = number*len(safeAlphabet) + digit
	}
	return number
}

// A PodSet made again under the same name does not run into the pods of the one before.
func TestPodSetsOfOneNameUseDifferentNames(t *testing.T) {
	first, second := sets.New[string](), sets.New[string]()
	for slot := range 100 {
		first.Insert(podName("web", "uid-1", slot))
		second.Insert(podName("web", "uid-2", slot))
	}
	mustEqual(t, sets.List(first.Intersection(second)), []string{})
}

func TestFreeNameIsThatOfTheLowestFreeSlot(t *testing.T) {
	taken := sets.New[string]()
	for slot := range 50 {
		name := freeName("web", "uid", taken.Has)
		mustEqual(t, name, podName("web", "uid", slot))
		taken.Insert(name)
	}
	taken.Delete(podName("web", "uid", 17))
	mustEqual(t, freeName("web", "uid", taken.Has), podName("web", "uid", 17))
}
