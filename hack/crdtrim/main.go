// Command crdtrim trims the pod template that a CustomResourceDefinition embeds at spec.template, and writes the file
// back.
//
// The descriptions go: they repeat what `kubectl explain pod` says, and with them the CustomResourceDefinition is too
// large for the annotation in which `kubectl apply` keeps what it applied. All other descriptions stay.
//
// The values go that the generated schema takes but that no Go client can read: a number for a port beyond 32 bits, a
// quantity such as 1e1.5. One such object would keep a manager from listing, and so from reconciling, any other.
//
//	crdtrim FILE
package main

import (
	"fmt"
	"math"
	"os"

	"sigs.k8s.io/yaml"
)

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: crdtrim FILE")
		os.Exit(2)
	}
	if err := trimFile(os.Args[1]); err != nil {
		fmt.Fprintln(os.Stderr, "crdtrim:", err)
		os.Exit(1)
	}
}

func trimFile(path string) error {
	content, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	trimmed, err := trim(content)
	if err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	return os.WriteFile(path, trimmed, 0o644)
}

// trim returns the CustomResourceDefinition with the schema below spec.template trimmed in all its versions. The same
// input always gives the same output, and trimming that once more changes nothing.
func trim(definition []byte) ([]byte, error) {
	var crd map[string]any
	if err := yaml.Unmarshal(definition, &crd); err != nil {
		return nil, err
	}
	versions, _ := at(crd, "spec", "versions").([]any)
	if len(versions) == 0 {
		return nil, fmt.Errorf("no spec.versions: not a CustomResourceDefinition")
	}
	for _, version := range versions {
		template, ok := at(version, "schema", "openAPIV3Schema",
			"properties", "spec", "properties", "template").(map[string]any)
		if !ok {
			return nil, fmt.Errorf("version %v has no schema of spec.template", at(version, "name"))
		}
		for _, schema := range below(template) {
			trimSchema(schema)
		}
	}
	trimmed, err := yaml.Marshal(crd)
	if err != nil {
		return nil, err
	}
	return append([]byte("---\n"), trimmed...), nil
}

func trimSchema(schema map[string]any) {
	delete(schema, "description")
	if schema["x-kubernetes-int-or-string"] == true {
		boundIntOrString(schema)
	}
	for _, schema := range below(schema) {
		trimSchema(schema)
	}
}

const (
	// generatedQuantity is how the generator describes a resource.Quantity. Its exponent may be a fraction, which
	// resource.ParseQuantity refuses, and of any size; on 1e-2147483647 it does not end.
	generatedQuantity = `^(\+|-)?(([0-9]+(\.[0-9]*)?)|(\.[0-9]+))` +
		`(([KMGTPE]i)|[numkMGTPE]|([eE](\+|-)?(([0-9]+(\.[0-9]*)?)|(\.[0-9]+))))?$`
	// readableQuantity is what resource.ParseQuantity reads. Two digits are enough for the exponent: what is less than
	// 1e-9 is rounded up to it, and no resource comes near 1e99.
	readableQuantity = `^(\+|-)?(([0-9]+(\.[0-9]*)?)|(\.[0-9]+))(([KMGTPE]i)|[numkMGTPE]|([eE](\+|-)?[0-9]{1,2}))?$`
)

// boundIntOrString bounds the schema of a quantity, which has a pattern, or of an intstr.IntOrString, which has none.
func boundIntOrString(schema map[string]any) {
	switch schema["pattern"] {
	case nil:
		schema["minimum"], schema["maximum"] = math.MinInt32, math.MaxInt32
	case generatedQuantity:
		schema["pattern"] = readableQuantity
	}
}

// below returns the schemas directly inside a schema. What is under "properties" are names, not keywords: a property
// may well be called description, or items.
func below(schema map[string]any) []map[string]any {
	var schemas []map[string]any
	add := func(candidate any) {
		if schema, ok := candidate.(map[string]any); ok {
			schemas = append(schemas, schema)
		}
	}
	for _, keyword := range []string{"items", "additionalProperties", "not"} {
		add(schema[keyword])
	}
	for _, keyword := range []string{"allOf", "anyOf", "oneOf"} {
		alternatives, _ := schema[keyword].([]any)
		for _, alternative := range alternatives {
			add(alternative)
		}
	}
	properties, _ := schema["properties"].(map[string]any)
	for _, property := range properties {
		add(property)
	}
	return schemas
}

// at returns the value under the path of keys, nil if there is none.
func at(value any, path ...string) any {
	for _, key := range path {
		object, ok := value.(map[string]any)
		if !ok {
			return nil
		}
		value = object[key]
	}
	return value
}
