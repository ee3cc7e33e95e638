package fuzz

import (
	"context"
	"fmt"
	"os"

	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	structuralschema "k8s.io/apiextensions-apiserver/pkg/apiserver/schema"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/cel"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/defaulting"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/listtype"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/objectmeta"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/pruning"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/validation"
	celconfig "k8s.io/apiserver/pkg/apis/cel"
	"sigs.k8s.io/yaml"
)

// definition is the CustomResourceDefinition of this checkout, as an API server uses it: by the same packages, in the
// same order.
type definition struct {
	structural *structuralschema.Structural
	openAPI    validation.SchemaValidator
	rules      *cel.Validator
}

func loadDefinition(file string) (*definition, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	versioned, internal := &apiextensionsv1.CustomResourceDefinition{}, &apiextensions.CustomResourceDefinition{}
	if err := yaml.UnmarshalStrict(text, versioned); err != nil {
		return nil, err
	}
	err = apiextensionsv1.Convert_v1_CustomResourceDefinition_To_apiextensions_CustomResourceDefinition(versioned, internal, nil)
	if err != nil {
		return nil, err
	}
	if internal.Spec.Validation == nil {
		return nil, fmt.Errorf("%s has no schema that all versions share", file)
	}
	schema := internal.Spec.Validation.OpenAPIV3Schema
	d := &definition{}
	if d.structural, err = structuralschema.NewStructural(schema); err != nil {
		return nil, err
	}
	if d.openAPI, _, err = validation.NewSchemaValidator(schema); err != nil {
		return nil, err
	}
	d.rules = cel.NewValidator(d.structural, true, celconfig.PerCallLimit)
	return d, nil
}

// admit does to a new object what the API server does: it drops unknown fields, fills in defaults, and returns why the
// object is refused, nil if it is not.
func (d *definition) admit(ctx context.Context, object map[string]any) error {
	defaulting.Default(object, d.structural)
	pruning.Prune(object, d.structural, true)
	defaulting.PruneNonNullableNullsWithoutDefaults(object, d.structural)
	if err := objectmeta.Coerce(nil, object, d.structural, false, false); err != nil {
		return err
	}
	refusals := validation.ValidateCustomResource(nil, object, d.openAPI)
	refusals = append(refusals, objectmeta.Validate(ctx, nil, object, d.structural, false)...)
	refusals = append(refusals, listtype.ValidateListSetsAndMaps(nil, d.structural, object)...)
	if len(refusals) == 0 {
		refusals, _ = d.rules.Validate(ctx, nil, d.structural, object, nil, celconfig.RuntimeCELCostBudget)
	}
	return refusals.ToAggregate()
}
