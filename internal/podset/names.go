package podset

import (
	"hash/fnv"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/rand"
)

const (
	suffixLength = 5
	// safeLetters is the size of the alphabet of rand.SafeEncodeString, which has no vowels and no look-alikes.
	safeLetters = 27
	// slots is how many different suffixes there are: safeLetters to the power of suffixLength, about 14 million.
	slots = safeLetters * safeLetters * safeLetters * safeLetters * safeLetters
)

// podName names the pod in a slot of the PodSet with the given name and UID: "<name>-pod" and five characters. Within
// one PodSet different slots have different names. The same slot always has the same name, so that creating it again,
// after a lost reply or by another manager, meets AlreadyExists instead of making a second pod.
func podName(podSetName string, uid types.UID, slot int) string {
	hash := fnv.New64a()
	_, _ = hash.Write([]byte(uid))
	sum := hash.Sum64()

	// slot -> offset + slot*stride is one-to-one modulo slots, a power of 3, because stride is no multiple of 3.
	offset, stride := sum%slots, (sum/slots)%slots
	stride -= stride % 3
	stride++
	number := (offset + uint64(slot)%slots*stride) % slots //nolint:gosec // slots are counted from 0

	return podSetName + "-pod" + safeText(number, suffixLength)
}

// safeText returns the last digits of a number, least first, in the letters of Kubernetes' safe alphabet.
func safeText(number uint64, length int) string {
	digits := make([]byte, length)
	for i := range digits {
		digits[i] = byte(number % safeLetters)
		number /= safeLetters
	}
	return rand.SafeEncodeString(string(digits))
}

// freeName returns the name of the lowest slot whose name is not taken.
func freeName(podSetName string, uid types.UID, taken func(name string) bool) string {
	for slot := 0; ; slot++ {
		if name := podName(podSetName, uid, slot); !taken(name) {
			return name
		}
	}
}
