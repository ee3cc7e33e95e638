// Command crdtrim takes the descriptions out of the pod template that a CustomResourceDefinition embeds at
// spec.template, and writes the file back. They repeat what `kubectl explain pod` says, and with them the
// CustomResourceDefinition is too large for the annotation in which `kubectl apply` keeps what it applied. All other
// descriptions stay, for `kubectl explain`.
//
//	crdtrim FILE
package main

import (
	"fmt"
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

// trim returns the CustomResourceDefinition without the descriptions below spec.template in any of its versions. The
// same input always gives the same output, and trimming that once more changes nothing.
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
			removeDescriptions(schema)
		}
	}
	trimmed, err := yaml.Marshal(crd)
	if err != nil {
		return nil, err
	}
	return append([]byte("---\n"), trimmed...), nil
}

func removeDescriptions(schema map[string]any) {
	delete(schema, "description")
	for _, schema := range below(schema) {
		removeDescriptions(schema)
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
