package fuzz

import (
	"encoding/json"
	"math"
	"slices"
	"strings"
	"testing"

	structuralschema "k8s.io/apiextensions-apiserver/pkg/apiserver/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"sigs.k8s.io/randfill"

	"example.com/podset-operator/api/v1alpha1"
	"example.com/podset-operator/internal/manager"
	"example.com/podset-operator/internal/podset"
)

// FuzzSpec makes a spec from the schema of the CustomResourceDefinition. If the API server takes it, then the manager
// must be able to read it: one PodSet that cannot be decoded would keep it from listing all others, too. And then the
// steps must lead to an end, with a status that can be written.
func FuzzSpec(f *testing.F) {
	addSeeds(f)
	crd := loadCRD(f)
	decoder := serializer.NewCodecFactory(manager.Scheme).UniversalDeserializer()
	f.Fuzz(func(t *testing.T, data []byte) {
		spec := someSpec{schema: crd.structural.Properties["spec"]}
		randfill.NewFromGoFuzz(data).Funcs(fillSpec).Fill(&spec)
		object := map[string]any{
			"apiVersion": v1alpha1.GroupVersion.String(), "kind": "PodSet",
			"metadata": map[string]any{"namespace": "test", "name": "web", "uid": "web-uid", "generation": int64(1)},
			"spec":     spec.value,
		}
		if err := crd.admit(t.Context(), object); err != nil {
			t.Skip(err)
		}
		text, err := json.Marshal(object)
		if err != nil {
			t.Fatal(err)
		}
		decoded, _, err := decoder.Decode(text, nil, nil)
		if err != nil {
			t.Fatalf("the API server takes what no client can read: %s\n%s", err, text)
		}
		podSet := decoded.(*v1alpha1.PodSet)
		o := podset.Observation{PodSet: podSet, Revision: podset.Revision(podSet.Spec.Template), Now: now}
		if step := podset.Decide(o); (step.Action == podset.Create) != (*podSet.Spec.Replicas > 0) {
			t.Fatalf("the first step of %d replicas is %q", *podSet.Spec.Replicas, step.Action)
		}
		*podSet.Spec.Replicas %= 10
		podSet.Status = podset.Status(o)
		// The manager writes the status alone; an empty value that the schema requires is not lost from the template.
		withStatus := podSet.DeepCopy()
		withStatus.Spec.Template = nil
		stored(t, crd, withStatus)
		settle(t, o)
	})
}

// someSpec is a value that is more or less as its schema wants it.
type someSpec struct {
	schema structuralschema.Structural
	value  any
}

func fillSpec(s *someSpec, c randfill.Continue) { s.value = someValue(s.schema, c, 0) }

func someValue(schema structuralschema.Structural, c randfill.Continue, depth int) any {
	switch {
	case c.Int()%100 == 0:
		return oneOf[any](c, nil, "", int64(-1), math.MaxFloat64, map[string]any{}, []any{})
	case schema.XIntOrString:
		return oneOf[any](c, int64(0), int64(1), int64(8080), int64(math.MaxInt32)+1, int64(math.MinInt64), 1.5, 1e21,
			"25%", "0", "100m", "1Gi", "1e3", "1E+3", "1e1.5", "1e.5", "+1", ".5", "1.", "1e99", "1e99999999999", "-1e-99",
			"9223372036854775808", strings.Repeat("9", 200), "web", "")
	}
	switch schema.Type {
	case "object":
		return someObject(schema, c, depth)
	case "array":
		list := []any{}
		for range oneOf(c, 1, 1, 1, 2, 0) {
			list = append(list, someValue(*schema.Items, c, depth+1))
		}
		return list
	case "integer":
		if c.Int()%10 > 0 {
			return oneOf[any](c, int64(1), int64(2), int64(3), int64(5), int64(600), 2.0)
		}
		return oneOf[any](c, int64(0), int64(-1), int64(math.MaxInt32), int64(math.MaxInt32)+1, int64(math.MaxInt64), 1.5, 1e21)
	case "number":
		return oneOf[any](c, 0.5, int64(2))
	case "boolean":
		return c.Bool()
	default:
		if schema.ValueValidation != nil && len(schema.ValueValidation.Enum) > 0 {
			return oneOf(c, schema.ValueValidation.Enum...).Object
		}
		return oneOf(c, "web", "Web-1", "10.0.0.1", "2030-01-01T00:00:00Z", "a/b", "", text(c))
	}
}

func someObject(schema structuralschema.Structural, c randfill.Continue, depth int) any {
	object := map[string]any{}
	if schema.AdditionalProperties != nil && schema.AdditionalProperties.Structural != nil {
		for range c.Int() % 3 {
			object[oneOf(c, "cpu", "memory", "a.example/b", text(c))] = someValue(*schema.AdditionalProperties.Structural, c, depth+1)
		}
	}
	var names []string
	for name := range schema.Properties {
		names = append(names, name)
	}
	slices.Sort(names)
	for _, name := range names {
		isRequired := name == "containers" || schema.ValueValidation != nil && slices.Contains(schema.ValueValidation.Required, name)
		// The deeper, the fewer, or there would be no end.
		if isRequired && c.Int()%50 > 0 || c.Int()%(2+2*depth) == 0 && depth < 9 {
			object[name] = someValue(schema.Properties[name], c, depth+1)
		}
	}
	return object
}
