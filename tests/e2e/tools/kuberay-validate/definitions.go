package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"

	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/cel"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/defaulting"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/listtype"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/pruning"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
	celconfig "k8s.io/apiserver/pkg/apis/cel"
	"sigs.k8s.io/yaml"
)

// Definition is one version of one kind, as the API server knows it.
type Definition struct {
	structural  *schema.Structural
	validator   validation.SchemaValidator
	expressions *cel.Validator
}

// readDefinitions returns the definitions of a folder by `apiVersion/kind`.
func readDefinitions(folder string) (map[string]*Definition, error) {
	files, err := filepath.Glob(filepath.Join(folder, "*.yaml"))
	if err != nil || len(files) == 0 {
		return nil, fmt.Errorf("%s: no definitions in this folder (make tools)", folder)
	}
	found := map[string]*Definition{}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			return nil, err
		}
		var definition apiextensionsv1.CustomResourceDefinition
		if err := yaml.Unmarshal(text, &definition); err != nil {
			return nil, fmt.Errorf("%s: %w", file, err)
		}
		for _, version := range definition.Spec.Versions {
			one, err := compile(version.Schema.OpenAPIV3Schema)
			if err != nil {
				return nil, fmt.Errorf("%s: %w", file, err)
			}
			found[definition.Spec.Group+"/"+version.Name+"/"+definition.Spec.Names.Kind] = one
		}
	}
	return found, nil
}

func compile(props *apiextensionsv1.JSONSchemaProps) (*Definition, error) {
	var internal apiextensions.JSONSchemaProps
	if err := apiextensionsv1.Convert_v1_JSONSchemaProps_To_apiextensions_JSONSchemaProps(props, &internal, nil); err != nil {
		return nil, err
	}
	structural, err := schema.NewStructural(&internal)
	if err != nil {
		return nil, err
	}
	validator, _, err := validation.NewSchemaValidator(&internal)
	if err != nil {
		return nil, err
	}
	return &Definition{structural, validator, cel.NewValidator(structural, true, celconfig.PerCallLimit)}, nil
}

// admit does to an object what the API server does before it stores it; it returns what is dropped and what is wrong.
func (d *Definition) admit(object map[string]any) (dropped []string, wrong field.ErrorList) {
	options := schema.UnknownFieldPathOptions{TrackUnknownFieldPaths: true}
	dropped = pruning.PruneWithOptions(object, d.structural, true, options)
	defaulting.PruneNonNullableNullsWithoutDefaults(object, d.structural)
	defaulting.Default(object, d.structural)
	wrong = validation.ValidateCustomResource(nil, object, d.validator)
	wrong = append(wrong, listtype.ValidateListSetsAndMaps(nil, d.structural, object)...)
	if len(wrong) == 0 && d.expressions != nil {
		wrong, _ = d.expressions.Validate(context.Background(), nil, d.structural, object, nil, celconfig.RuntimeCELCostBudget)
	}
	return dropped, wrong
}
