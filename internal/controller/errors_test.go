package controller

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"syscall"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"example.com/podset-operator/internal/podset"
)

var (
	podResource     = schema.GroupResource{Resource: "pods"}
	podKind         = schema.GroupKind{Kind: "Pod"}
	quotaResource   = schema.GroupResource{Resource: "resourcequotas"}
	missingImage    = field.ErrorList{field.Required(field.NewPath("spec", "containers").Index(0).Child("image"), "")}
	errNoConnection = &net.OpError{Op: "dial", Net: "tcp", Err: syscall.ECONNREFUSED}
)

func forbidden(message string) *apierrors.StatusError {
	return apierrors.NewForbidden(podResource, "web-podb2c4d", errors.New(message))
}

func namespaceTerminating() error {
	err := forbidden("unable to create new content in namespace default because it is being terminated")
	err.ErrStatus.Details.Causes = append(err.ErrStatus.Details.Causes, metav1.StatusCause{
		Type: corev1.NamespaceTerminatingCause, Message: "namespace default is being terminated", Field: "metadata.namespace",
	})
	return err
}

// deniedByPolicy is the denial of a ValidatingAdmissionPolicy: by default an invalid object with a cause but no field.
func deniedByPolicy(reason metav1.StatusReason, code int32) error {
	const message = "ValidatingAdmissionPolicy 'p' with binding 'b' denied request: no"
	err := forbidden(message)
	err.ErrStatus.Reason, err.ErrStatus.Code = reason, code
	err.ErrStatus.Details.Causes = append(err.ErrStatus.Details.Causes, metav1.StatusCause{Message: message})
	return err
}

// deniedByWebhook is the denial of an admission webhook.
func deniedByWebhook(code int32) error {
	return &apierrors.StatusError{ErrStatus: metav1.Status{
		Status: metav1.StatusFailure, Code: code, Message: `admission webhook "w.example.com" denied the request: no`,
	}}
}

func conflict(resource schema.GroupResource) error {
	return apierrors.NewConflict(resource, "name", errors.New("the object has been modified"))
}

func response(code int) error {
	return apierrors.NewGenericServerResponse(code, http.MethodPost, podResource, "", "", 0, true)
}

// after is the range of the delay before the next try. The jitter makes it a range.
type after struct{ least, most time.Duration }

// Delays that more than one error has.
var (
	noRetry  = after{0, 0}
	atOnce   = after{200 * time.Millisecond, 200 * time.Millisecond}
	returned = after{-1, -1} // a refused step is held back; of everything else the work queue backs off
)

func TestVerdictsAndRetries(t *testing.T) {
	tests := map[string]struct {
		err     error
		verdict verdict
		retry   after
	}{
		"the pod does not exist":                    {apierrors.NewNotFound(podResource, "a"), gone, noRetry},
		"the namespace is being deleted":            {namespaceTerminating(), closing, returned},
		"the pod has changed":                       {conflict(podResource), outdated, atOnce},
		"the quota has changed":                     {conflict(quotaResource), outdated, atOnce},
		"the name is taken":                         {apierrors.NewAlreadyExists(podResource, "a"), outdated, atOnce},
		"the quota is exceeded":                     {forbidden("exceeded quota: q, requested: pods=1, used: pods=3, limited: pods=3"), refused, returned},
		"Pod Security refuses":                      {forbidden(`violates PodSecurity "restricted:latest": runAsNonRoot != true`), refused, returned},
		"the role lacks a right":                    {forbidden(`User "u" cannot create resource "pods" in API group "" in the namespace "default"`), refused, returned},
		"a policy denies":                           {deniedByPolicy(metav1.StatusReasonInvalid, 422), refused, returned},
		"a policy denies as forbidden":              {deniedByPolicy(metav1.StatusReasonForbidden, 403), refused, returned},
		"a policy denies as too large":              {deniedByPolicy(metav1.StatusReasonRequestEntityTooLarge, 413), refused, returned},
		"a webhook denies with code 400, no reason": {deniedByWebhook(400), refused, returned},
		"a webhook denies with code 403, no reason": {deniedByWebhook(403), refused, returned},
		"the request is bad":                        {apierrors.NewBadRequest("no"), refused, returned},
		"the object is too large":                   {apierrors.NewRequestEntityTooLargeError("limit is 3145728"), refused, returned},
		"the pod is invalid":                        {apierrors.NewInvalid(podKind, "a", missingImage), invalid, returned},
		"too many requests, wait 10 s":              {apierrors.NewTooManyRequests("slow down", 10), throttled, after{10 * time.Second, 15 * time.Second}},
		"too many requests, wait 0 s":               {apierrors.NewTooManyRequests("slow down", 0), throttled, after{time.Second, 1500 * time.Millisecond}},
		"too many requests, no details":             {apierrors.NewTooManyRequestsError("slow down"), throttled, after{time.Second, 1500 * time.Millisecond}},
		"too many requests, no reason":              {deniedByWebhook(429), throttled, after{time.Second, 1500 * time.Millisecond}},
		"the server took too long":                  {apierrors.NewTimeoutError("request did not complete", 0), unknown, returned},
		"the server gave up":                        {apierrors.NewServerTimeout(podResource, "create", 5), unknown, returned},
		"the server failed":                         {apierrors.NewInternalError(errors.New("etcd: leader changed")), unknown, returned},
		"the server is not available":               {apierrors.NewServiceUnavailable("starting"), unknown, returned},
		"a proxy answers 502":                       {response(502), unknown, returned},
		"a proxy answers 504":                       {response(504), unknown, returned},
		"the credentials are refused":               {apierrors.NewUnauthorized("token expired"), refused, returned},
		"the connection is refused":                 {errNoConnection, unknown, returned},
		"the connection breaks":                     {io.ErrUnexpectedEOF, unknown, returned},
		"the reconcile runs out of time":            {context.DeadlineExceeded, unknown, returned},
		"the manager is stopped":                    {context.Canceled, unknown, returned},
		"a status without a code":                   {&apierrors.StatusError{}, unknown, returned},
	}
	for name, test := range tests {
		for _, wrapped := range []error{test.err, fmt.Errorf("creating pod a: %w", test.err)} {
			t.Run(name, func(t *testing.T) {
				if got := classify(wrapped); got != test.verdict {
					t.Errorf("verdict %d, want %d", got, test.verdict)
				}
				for range 50 { // the jitter is random
					got, err := retry(wrapped)
					if test.retry == returned {
						if got != 0 || !errors.Is(err, test.err) {
							t.Fatalf("retry after %s, %v; want the error", got, err)
						}
						continue
					}
					if err != nil || got < test.retry.least || got > test.retry.most {
						t.Fatalf("retry after %s, %v; want %s to %s and no error", got, err, test.retry.least, test.retry.most)
					}
				}
			})
		}
	}
}

func TestProblemOf(t *testing.T) {
	const quota = "exceeded quota: q, requested: pods=1, used: pods=3, limited: pods=3"
	tests := map[string]struct {
		action podset.Action
		err    error
		want   podset.Problem
	}{
		"quota": {
			podset.Create, forbidden(quota),
			podset.Problem{Reason: "QuotaExceeded", Message: `pods "web-podb2c4d" is forbidden: ` + quota},
		},
		"rights": {
			podset.Delete, forbidden("no"),
			podset.Problem{Reason: "Forbidden", Message: `pods "web-podb2c4d" is forbidden: no`},
		},
		"webhook": {
			podset.Create, deniedByWebhook(400),
			podset.Problem{Reason: "Forbidden", Message: `admission webhook "w.example.com" denied the request: no`},
		},
		"policy": {
			podset.Create, deniedByPolicy(metav1.StatusReasonInvalid, 422),
			podset.Problem{
				Reason:  "Forbidden",
				Message: `pods "web-podb2c4d" is forbidden: ValidatingAdmissionPolicy 'p' with binding 'b' denied request: no`,
			},
		},
		"namespace": {
			podset.Create, namespaceTerminating(),
			podset.Problem{
				Reason:  "NamespaceTerminating",
				Message: `pods "web-podb2c4d" is forbidden: unable to create new content in namespace default because it is being terminated`,
			},
		},
		"a new pod is invalid: nothing helps but another template": {
			podset.Create, apierrors.NewInvalid(podKind, "a", missingImage),
			podset.Problem{
				Reason: "InvalidTemplate", Stalled: true,
				Message: `Pod "a" is invalid: spec.containers[0].image: Required value`,
			},
		},
		"an adopted pod would be invalid: the template is not to blame": {
			podset.Adopt, apierrors.NewInvalid(podKind, "a", missingImage),
			podset.Problem{Reason: "Forbidden", Message: `Pod "a" is invalid: spec.containers[0].image: Required value`},
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			mustEqual(t, problemOf(test.action, test.err), test.want)
			mustEqual(t, problemOf(test.action, fmt.Errorf("creating pod a: %w", test.err)), test.want)
		})
	}
}

// A condition with a longer message would be refused, and with it the whole status.
func TestProblemsFitIntoACondition(t *testing.T) {
	const longest = 32768
	if got := len(problemOf(podset.Create, forbidden(strings.Repeat("é", longest))).Message); got > longest {
		t.Errorf("the message is %d bytes long", got)
	}
}
