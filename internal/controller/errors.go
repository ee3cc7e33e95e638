package controller

import (
	"errors"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"

	"example.com/podset-operator/api/v1alpha1"
	"example.com/podset-operator/internal/podset"
)

const (
	// conflictRetry is when a request that lost a race is tried again.
	conflictRetry = 200 * time.Millisecond
	// A refused request is tried again after firstHold, then after twice as long each time, up to maxHold: a refusal may
	// be over in a moment, as when the API server has just learnt of a new kind, or last for days. The jitter keeps
	// PodSets that met the same quota from coming back together.
	firstHold  = 2 * time.Second
	maxHold    = 30 * time.Second
	holdJitter = 0.5
	// throttledJitter spreads the requests that the API server asked to wait.
	throttledJitter = 0.5
)

// verdict is what an error of the API server means for a write.
type verdict int

const (
	// gone: the object, or for a create its namespace, does not exist any more, so there is nothing left to do.
	gone verdict = iota
	// closing: the namespace is being deleted and takes no new objects.
	closing
	// outdated: the write was refused because the view it was based on is old.
	outdated
	// refused: the server does not want the write now; it may later.
	refused
	// invalid: the server will not take the write as long as the PodSet is as it is.
	invalid
	// throttled: the server did not look at the write and said when to try again.
	throttled
	// unknown: the write may have happened, or may yet.
	unknown
)

// classify reads the error of a write. The error must not be nil.
func classify(err error) verdict {
	status := apierrors.APIStatus(nil)
	switch {
	case !errors.As(err, &status):
		return unknown
	case apierrors.IsNotFound(err):
		return gone
	case apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause):
		return closing
	case apierrors.IsConflict(err), apierrors.IsAlreadyExists(err):
		return outdated
	case apierrors.IsTooManyRequests(err):
		return throttled
	case apierrors.IsTimeout(err):
		return unknown
	case apierrors.IsInvalid(err) && blamesField(status.Status()):
		return invalid
	case status.Status().Code >= 400 && status.Status().Code < 500:
		return refused
	default:
		return unknown
	}
}

// blamesField tells an invalid object from an admission policy's denial, which has the same code and reason but names
// no field.
func blamesField(status metav1.Status) bool {
	if status.Details == nil {
		return false
	}
	for _, cause := range status.Details.Causes {
		if cause.Field != "" {
			return true
		}
	}
	return false
}

// problemOf says in the server's words why it refused an action.
func problemOf(action podset.Action, err error) podset.Problem {
	problem := podset.Problem{Reason: v1alpha1.ReasonForbidden, Message: truncate(messageOf(err))}
	switch {
	case classify(err) == closing:
		problem.Reason = v1alpha1.ReasonNamespaceTerminating
	case classify(err) == invalid && action == podset.Create:
		problem.Reason, problem.Stalled = v1alpha1.ReasonInvalidTemplate, true
	case strings.Contains(problem.Message, "exceeded quota"):
		problem.Reason = v1alpha1.ReasonQuotaExceeded
	}
	return problem
}

func messageOf(err error) string {
	status := apierrors.APIStatus(nil)
	if errors.As(err, &status) {
		return status.Status().Message
	}
	return err.Error()
}

// retry turns the error of a request into how long to wait before the next try, zero if there is none. The errors that
// it has no answer to it returns, so that they are logged and the work queue backs off.
func retry(err error) (time.Duration, error) {
	switch classify(err) {
	case gone:
		return 0, nil
	case outdated:
		return conflictRetry, nil
	case throttled:
		seconds, _ := apierrors.SuggestsClientDelay(err)
		return wait.Jitter(time.Duration(max(seconds, 1))*time.Second, throttledJitter), nil
	default:
		return 0, err
	}
}
