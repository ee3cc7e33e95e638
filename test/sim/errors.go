package sim

import (
	"context"
	"errors"
	"fmt"
	"net/http"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"example.com/podset-operator/api/v1alpha1"
)

var (
	podResource    = corev1.Resource("pods")
	podSetResource = v1alpha1.GroupVersion.WithResource("podsets").GroupResource()
	namespaces     = corev1.Resource("namespaces")
)

var (
	// errTimeout is what a client gets whose request was sent and whose reply never came.
	errTimeout = fmt.Errorf("request to the API server: %w", context.DeadlineExceeded)
	// errRefused is what a client gets whose request was never sent.
	errRefused = errors.New("dial tcp: connect: connection refused")
)

func errInternal() error { return apierrors.NewInternalError(errors.New("etcdserver: leader changed")) }

func errThrottled() error { return apierrors.NewTooManyRequests("the server is busy", 1) }

func errQuota(name string) error {
	return apierrors.NewForbidden(podResource, name, errors.New("exceeded quota: pods, requested: pods=1"))
}

func errInvalid(name string) error {
	return apierrors.NewInvalid(schema.GroupKind{Kind: "Pod"}, name, field.ErrorList{
		field.Required(field.NewPath("spec", "containers").Index(0).Child("image"), ""),
	})
}

func errClosing(namespace, name string) error {
	err := apierrors.NewForbidden(podResource, name,
		fmt.Errorf("unable to create new content in namespace %s because it is being terminated", namespace))
	err.ErrStatus.Details.Causes = append(err.ErrStatus.Details.Causes, metav1.StatusCause{
		Type:    corev1.NamespaceTerminatingCause,
		Message: fmt.Sprintf("namespace %s is being terminated", namespace),
		Field:   "metadata.namespace",
	})
	return err
}

func errModified(resource schema.GroupResource, name string) error {
	return apierrors.NewConflict(resource, name,
		errors.New("the object has been modified; please apply your changes to the latest version and try again"))
}

func errUID(resource schema.GroupResource, name string, asked, is types.UID) error {
	return apierrors.NewConflict(resource, name,
		fmt.Errorf("the precondition failed: UID in precondition: %v, UID in object meta: %v", asked, is))
}

func errVersion(resource schema.GroupResource, name, asked, is string) error {
	return apierrors.NewConflict(resource, name,
		fmt.Errorf("the precondition failed: ResourceVersion in precondition: %v, ResourceVersion in object meta: %v", asked, is))
}

// errVersionOnCreate has no reason: a real server passes on the error of its storage as it is.
func errVersionOnCreate() error {
	return &apierrors.StatusError{ErrStatus: metav1.Status{
		Status:  metav1.StatusFailure,
		Code:    http.StatusInternalServerError,
		Message: "resourceVersion should not be set on objects to be created",
	}}
}

func errUIDChanged(name string) error {
	return apierrors.NewInvalid(schema.GroupKind{Kind: "Pod"}, name, field.ErrorList{
		field.Invalid(field.NewPath("metadata", "uid"), "", "field is immutable"),
	})
}
