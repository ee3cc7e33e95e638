package podset

import (
	"encoding/json"
	"fmt"
	"hash/fnv"
	"reflect"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"example.com/podset-operator/api/v1alpha1"
)

// revisionLength makes it unlikely that two templates of one PodSet ever share a revision: there are 27^10 of them, more
// than 200 million million.
const revisionLength = 10

// Revision returns the revision of a template, as in the label app.example.com/template-hash: a hash of what pods get
// from it. The same template has the same revision for every version of the operator and of Kubernetes' types, so that
// an upgrade restarts no pod: only what is set counts, under its name in the API, in the order of these names. It does not
// matter which fields there are besides, nor in which order the types have them or how they encode emptiness.
func Revision(template *corev1.PodTemplateSpec) string {
	hash := fnv.New64a()
	if template != nil {
		counts := struct {
			Labels      map[string]string `json:"labels"`
			Annotations map[string]string `json:"annotations"`
			Finalizers  []string          `json:"finalizers"`
			Spec        corev1.PodSpec    `json:"spec"`
		}{template.Labels, template.Annotations, template.Finalizers, template.Spec}
		_, _ = hash.Write([]byte(canonical(reflect.ValueOf(counts))))
	}
	return safeText(hash.Sum64(), revisionLength)
}

// canonical returns the text of a value, empty if nothing is set in it. A pointer to an empty value is set: no selector
// and a selector that matches everything are different things.
func canonical(v reflect.Value) string {
	if v.Kind() == reflect.Pointer {
		if v.IsNil() {
			return ""
		}
		return written(v.Elem())
	}
	if v.IsZero() {
		return ""
	}
	switch v.Kind() {
	case reflect.Map, reflect.Slice:
		if v.Len() == 0 {
			return ""
		}
	case reflect.Struct:
		if text := written(v); text != "{}" {
			return text
		}
		return ""
	default:
	}
	return written(v)
}

// written returns the text of a value, zero or not.
func written(v reflect.Value) string {
	if marshaler, ok := reflect.TypeAssert[json.Marshaler](v); ok {
		return marshalled(marshaler) // quantities, times, numbers that may be text
	}
	if v.CanAddr() {
		if marshaler, ok := reflect.TypeAssert[json.Marshaler](v.Addr()); ok {
			return marshalled(marshaler)
		}
	}
	switch v.Kind() {
	case reflect.Pointer:
		return written(v.Elem())
	case reflect.Struct:
		return "{" + strings.Join(members(v), ",") + "}"
	case reflect.Map:
		var entries []string
		for _, key := range v.MapKeys() {
			entries = append(entries, fmt.Sprintf("%q:%s", key.String(), written(v.MapIndex(key))))
		}
		slices.Sort(entries)
		return "{" + strings.Join(entries, ",") + "}"
	case reflect.Slice:
		var elements []string
		for i := range v.Len() {
			elements = append(elements, written(v.Index(i)))
		}
		return "[" + strings.Join(elements, ",") + "]"
	case reflect.String:
		return fmt.Sprintf("%q", v.String())
	default:
		return fmt.Sprint(v.Interface())
	}
}

// members returns the fields that are set, under the names that users write, in the order of the names.
func members(v reflect.Value) []string {
	var set []string
	for i := range v.NumField() {
		name, _, _ := strings.Cut(v.Type().Field(i).Tag.Get("json"), ",")
		if name == "" { // inlined
			if field := v.Field(i); field.Kind() == reflect.Struct {
				set = append(set, members(field)...)
			}
			continue
		}
		if text := canonical(v.Field(i)); text != "" {
			set = append(set, fmt.Sprintf("%q:%s", name, text))
		}
	}
	slices.Sort(set)
	return set
}

func marshalled(value json.Marshaler) string {
	text, err := value.MarshalJSON()
	if err != nil {
		// Such a value cannot have come from the API server; it is no reason to replace pods.
		return ""
	}
	return string(text)
}

// revisionOf returns the revision of a pod. One without the label, which an operator that knew no revisions has created or
// which was adopted, is taken for one of the template that was last rolled out.
func (o Observation) revisionOf(pod *corev1.Pod) string {
	if revision, labelled := pod.Labels[v1alpha1.TemplateHashLabel]; labelled {
		return revision
	}
	if current := o.PodSet.Status.CurrentRevision; current != "" {
		return current
	}
	return o.Revision
}

func hasNoRevision(pod *corev1.Pod) bool {
	_, labelled := pod.Labels[v1alpha1.TemplateHashLabel]
	return !labelled
}
