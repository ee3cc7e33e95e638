// Package v1alpha1 is version v1alpha1 of the app.example.com API group. Its one kind is PodSet.
//
// +kubebuilder:object:generate=true
// +groupName=app.example.com
package v1alpha1
