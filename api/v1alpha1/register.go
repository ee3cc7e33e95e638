package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

var (
	// GroupVersion names the API group and version of this package.
	GroupVersion = schema.GroupVersion{Group: "app.example.com", Version: "v1alpha1"}

	// PodSetKind is the group, version and kind of a PodSet, as owner references need it.
	PodSetKind = GroupVersion.WithKind("PodSet")

	schemeBuilder = runtime.NewSchemeBuilder(addKnownTypes)

	// AddToScheme registers the types of this package with a scheme.
	AddToScheme = schemeBuilder.AddToScheme
)

func addKnownTypes(scheme *runtime.Scheme) error {
	scheme.AddKnownTypes(GroupVersion, &PodSet{}, &PodSetList{})
	metav1.AddToGroupVersion(scheme, GroupVersion)
	return nil
}
