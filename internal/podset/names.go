package podset

import (
	"hash/fnv"
	"iter"
	"slices"
	"strings"

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

// naming gives names to the pods of one PodSet: "<name>-pod" and five characters. Within one PodSet different slots have
// different names. The same slot always has the same name, so that creating it again, after a lost reply or by another
// manager, meets AlreadyExists instead of making a second pod.
type naming struct {
	prefix         string
	offset, stride uint64
}

func namingOf(podSetName string, uid types.UID) naming {
	hash := fnv.New64a()
	_, _ = hash.Write([]byte(uid))
	sum := hash.Sum64()

	// slot -> offset + slot*stride is one-to-one modulo slots, a power of 3, because stride is no multiple of 3.
	stride := (sum / slots) % slots
	stride -= stride % 3
	stride++
	return naming{prefix: podSetName + "-pod", offset: sum % slots, stride: stride}
}

func (n naming) name(slot int) string {
	number := (n.offset + uint64(slot)%slots*n.stride) % slots //nolint:gosec // slots are counted from 0
	return n.prefix + safeText(number, suffixLength)
}

// lowestFree returns the name of the lowest slot whose name is none of the taken ones. The taken names are told only once.
func (n naming) lowestFree(taken iter.Seq[string], most int) string {
	isTaken := make([]bool, most+1) // one of the first slots is free
	inverse := n.inverseStride()
	for name := range taken {
		if slot, ok := n.slot(name, inverse); ok && slot <= most {
			isTaken[slot] = true
		}
	}
	return n.name(slices.Index(isTaken, false))
}

// slot returns the slot that a name is of. Any other name than one of this PodSet's has none.
func (n naming) slot(name string, inverseStride uint64) (int, bool) {
	text, ok := strings.CutPrefix(name, n.prefix)
	if !ok || len(text) != suffixLength {
		return 0, false
	}
	number := uint64(0)
	for i := suffixLength - 1; i >= 0; i-- {
		digit := digitOf[text[i]]
		if digit == noDigit {
			return 0, false
		}
		number = number*safeLetters + uint64(digit)
	}
	return int((number + slots - n.offset) % slots * inverseStride % slots), true
}

// inverseStride is the number whose product with the stride is 1 modulo slots. By Euler's theorem it is a power of the stride.
func (n naming) inverseStride() uint64 {
	inverse, power := uint64(1), n.stride
	for exponent := slots/3*2 - 1; exponent > 0; exponent /= 2 {
		if exponent%2 == 1 {
			inverse = inverse * power % slots
		}
		power = power * power % slots
	}
	return inverse
}

const noDigit = safeLetters

// digitOf says which digit a letter of Kubernetes' safe alphabet stands for.
var digitOf = func() (digits [256]byte) {
	for i := range digits {
		digits[i] = noDigit
	}
	for digit := range byte(safeLetters) {
		digits[rand.SafeEncodeString(string([]byte{digit}))[0]] = digit
	}
	return digits
}()

// safeText returns the last digits of a number, least first, in the letters of Kubernetes' safe alphabet.
func safeText(number uint64, length int) string {
	digits := make([]byte, length)
	for i := range digits {
		digits[i] = byte(number % safeLetters)
		number /= safeLetters
	}
	return rand.SafeEncodeString(string(digits))
}
