package sim

import (
	"reflect"
	"strings"
	"sync"
	"time"
	"unsafe"

	"k8s.io/client-go/util/flowcontrol"

	"example.com/podset-operator/internal/controller"
)

// The reconciler's memory is its own business, in unexported fields. It is copied and compared by reflection, so that the
// production code has no hooks for it and may remember what it likes.

var (
	mutexType   = reflect.TypeFor[sync.Mutex]()
	timeType    = reflect.TypeFor[time.Time]()
	limiterType = reflect.TypeFor[flowcontrol.PassiveRateLimiter]()
)

// copyMemory copies the unexported fields of one reconciler into another.
func copyMemory(to, from *controller.Reconciler) {
	target, source := reflect.ValueOf(to).Elem(), reflect.ValueOf(from).Elem()
	for i := range source.NumField() {
		if !source.Type().Field(i).IsExported() {
			copyInto(open(target.Field(i)), open(source.Field(i)))
		}
	}
}

// open makes an unexported field writable.
func open(field reflect.Value) reflect.Value {
	return reflect.NewAt(field.Type(), unsafe.Pointer(field.UnsafeAddr())).Elem()
}

// isShared tells types whose values nobody changes, so that copies may share them: those of the Kubernetes API, the rate
// limiter of events.
func isShared(t reflect.Type) bool {
	if t == limiterType || t == timeType {
		return true
	}
	if t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	return strings.HasPrefix(t.PkgPath(), "k8s.io/api/")
}

// copyInto copies deeply. Both values must be addressable.
func copyInto(to, from reflect.Value) {
	switch t := from.Type(); {
	case t == mutexType:
	case isShared(t):
		to.Set(from)
	case t.Kind() == reflect.Struct:
		for i := range t.NumField() {
			copyInto(open(to.Field(i)), open(from.Field(i)))
		}
	case t.Kind() == reflect.Pointer && !from.IsNil():
		to.Set(reflect.New(t.Elem()))
		copyInto(to.Elem(), from.Elem())
	case t.Kind() == reflect.Map && !from.IsNil():
		to.Set(reflect.MakeMapWithSize(t, from.Len()))
		for entries := from.MapRange(); entries.Next(); {
			key, value := reflect.New(t.Key()).Elem(), reflect.New(t.Elem()).Elem()
			key.Set(entries.Key())
			held := reflect.New(t.Elem()).Elem()
			held.Set(entries.Value())
			copyInto(value, held)
			to.SetMapIndex(key, value)
		}
	case t.Kind() == reflect.Slice && !from.IsNil():
		to.Set(reflect.MakeSlice(t, from.Len(), from.Len()))
		for i := range from.Len() {
			copyInto(to.Index(i), from.Index(i))
		}
	default:
		to.Set(from)
	}
}
