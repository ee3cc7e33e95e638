package podset

import (
	"fmt"
	"maps"
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
			got = append(got, namingOf("web", uid).name(slot))
		}
		mustEqual(t, got, want)
	}
}

func TestNamesAreThePodSetsNameAndFiveSafeCharacters(t *testing.T) {
	format := regexp.MustCompile(`^web-pod[` + safeAlphabet + `]{5}$`)
	for slot := range 1000 {
		if name := namingOf("web", "uid").name(slot); !format.MatchString(name) {
			t.Fatalf("slot %d has the name %s", slot, name)
		}
	}
}

func TestNamesAreValidPodNames(t *testing.T) {
	for _, podSetName := range []string{"a", "web.v1.2", strings.Repeat("x", 63)} {
		name := namingOf(podSetName, "uid").name(0)
		if problems := validation.NameIsDNSSubdomain(name, false); len(problems) > 0 {
			t.Errorf("%s is no name for a pod: %s", name, problems)
		}
	}
}

func TestSlotsHaveDifferentNames(t *testing.T) {
	for _, uid := range []types.UID{"", "a", "b", "5f0c7f63-3a0c-4c5e-9d0b-1f1f6d2b7a10"} {
		slotOf := map[string]int{}
		for slot := range 20_000 {
			name := namingOf("web", uid).name(slot)
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
		number := func(slot int) int { return suffixNumber(t, namingOf("web", uid).name(slot)) }
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
		first.Insert(namingOf("web", "uid-1").name(slot))
		second.Insert(namingOf("web", "uid-2").name(slot))
	}
	mustEqual(t, sets.List(first.Intersection(second)), []string{})
}

func TestTheFreeNameIsThatOfTheLowestFreeSlot(t *testing.T) {
	names := namingOf("web", "uid")
	taken := sets.New("web", "other-podbbbbb", "web-podbbbbbb", "web-podaaaaa", "web-podBBBBB", "web-pod-bbbb")
	free := func() string { return names.lowestFree(maps.Keys(taken), taken.Len()) }
	for slot := range 50 {
		mustEqual(t, free(), names.name(slot))
		taken.Insert(names.name(slot))
	}
	taken.Delete(names.name(17))
	mustEqual(t, free(), names.name(17))
	taken.Insert(names.name(17), names.name(slots-1))
	mustEqual(t, free(), names.name(50))
}

func TestTheSlotOfANameIsTheOneItWasMadeFrom(t *testing.T) {
	for i := range 200 {
		names := namingOf("web.v1.2", types.UID(fmt.Sprint("uid-", i)))
		for _, want := range []int{0, 1, 2, 1000, slots / 2, slots - 1} {
			if got, ok := names.slot(names.name(want), names.inverseStride()); !ok || got != want {
				t.Fatalf("UID %d: %s is of slot %d, want %d", i, names.name(want), got, want)
			}
		}
	}
}
