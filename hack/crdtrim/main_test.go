package main

import (
	"encoding/json"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/api/resource"
	"sigs.k8s.io/yaml"
)

const small = `
kind: CustomResourceDefinition
spec:
  versions:
  - name: v1
    schema:
      openAPIV3Schema:
        description: the kind
        properties:
          spec:
            description: what is wanted
            properties:
              replicas: {description: how many, maximum: 10000, type: integer}
              template:
                description: what to run
                properties:
                  description: {description: goes, type: string}
                  items:
                    description: goes
                    items:
                      description: goes
                      anyOf: [{description: goes, type: integer}, {type: string}]
                    type: array
                  labels:
                    description: goes
                    additionalProperties: {description: goes, type: string}
                    type: object
                type: object
`

func TestTrimTakesOutOnlyTheDescriptionsBelowTheTemplate(t *testing.T) {
	const want = `---
kind: CustomResourceDefinition
spec:
  versions:
  - name: v1
    schema:
      openAPIV3Schema:
        description: the kind
        properties:
          spec:
            description: what is wanted
            properties:
              replicas:
                description: how many
                maximum: 10000
                type: integer
              template:
                description: what to run
                properties:
                  description:
                    type: string
                  items:
                    items:
                      anyOf:
                      - type: integer
                      - type: string
                    type: array
                  labels:
                    additionalProperties:
                      type: string
                    type: object
                type: object
`
	got, err := trim([]byte(small))
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, string(got)); diff != "" {
		t.Errorf("trimmed, -want +got:\n%s", diff)
	}
	again, err := trim(got)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(got), string(again)); diff != "" {
		t.Errorf("trimmed twice, -once +twice:\n%s", diff)
	}
}

func TestTrimSaysWhatIsMissing(t *testing.T) {
	for input, want := range map[string]string{
		"kind: Pod":                         "not a CustomResourceDefinition",
		"spec: {versions: [{name: v1}]}":    "version v1 has no schema of spec.template",
		"spec: {versions: [{name: v1}]}}}}": "yaml",
	} {
		if _, err := trim([]byte(input)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("trim(%q) returned the error %v, want one that contains %q", input, err, want)
		}
	}
}

var generated = filepath.Join("..", "..", "config", "crd", "bases", "app.example.com_podsets.yaml")

func TestTheGeneratedCRDFitsTheAnnotationOfClientSideApply(t *testing.T) {
	// The API server takes so many bytes in all annotations of an object together.
	const limit = 256 * 1024
	crd, err := os.ReadFile(generated)
	if err != nil {
		t.Fatal(err)
	}
	applied, err := yaml.YAMLToJSON(crd)
	if err != nil {
		t.Fatal(err)
	}
	if len(applied) >= limit {
		t.Errorf("the annotation has %d bytes, want fewer than %d", len(applied), limit)
	}
}

func TestTheGeneratedCRDExplainsOurFieldsAndNotThoseOfPods(t *testing.T) {
	type schema struct {
		Description string
		Properties  map[string]json.RawMessage
	}
	parse := func(raw json.RawMessage) schema {
		t.Helper()
		var parsed schema
		if err := json.Unmarshal(raw, &parsed); err != nil {
			t.Fatal(err)
		}
		return parsed
	}
	content, err := os.ReadFile(generated)
	if err != nil {
		t.Fatal(err)
	}
	var crd struct {
		Spec struct {
			Versions []struct {
				Schema struct{ OpenAPIV3Schema json.RawMessage }
			}
		}
	}
	if err := yaml.Unmarshal(content, &crd); err != nil {
		t.Fatal(err)
	}
	for _, version := range crd.Spec.Versions {
		kind := parse(version.Schema.OpenAPIV3Schema)
		for _, half := range []string{"spec", "status"} {
			for name, field := range parse(kind.Properties[half]).Properties {
				if parse(field).Description == "" {
					t.Errorf("%s.%s has no description", half, name)
				}
			}
		}
		template := parse(kind.Properties["spec"]).Properties["template"]
		for name, field := range parse(template).Properties {
			if parse(field).Description != "" {
				t.Errorf("spec.template.%s has a description", name)
			}
		}
	}
}

func TestTrimTakesOutTheValuesThatNoClientCanRead(t *testing.T) {
	port := map[string]any{"x-kubernetes-int-or-string": true}
	trimSchema(port)
	if port["minimum"] != math.MinInt32 || port["maximum"] != math.MaxInt32 {
		t.Errorf("a port has no bounds: %v", port)
	}
	quantity := map[string]any{"x-kubernetes-int-or-string": true, "pattern": generatedQuantity}
	trimSchema(quantity)
	pattern := regexp.MustCompile(quantity["pattern"].(string))
	for _, text := range []string{"1", "+1", "-1.5", ".5", "1.", "100m", "2Gi", "1e3", "1E-3", "1e+99"} {
		if _, err := resource.ParseQuantity(text); err != nil || !pattern.MatchString(text) {
			t.Errorf("%s should be a quantity, and is refused; reading it: %v", text, err)
		}
	}
	// The last one is not even refused by ParseQuantity, which computes without an end.
	for _, text := range []string{"", ".", "1e", "1e1.5", "1e.5", "1KiB", "1e-2147483647"} {
		if pattern.MatchString(text) {
			t.Errorf("%q is taken", text)
		}
	}
}
