package integration

import (
	"bytes"
	"io"
	"net/http"
	"strings"
	"sync"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"example.com/podset-operator/api/v1alpha1"
)

// wire is what lies between the manager and the API server. Specs cut it.
var wire = &interceptor{}

// fault handles a request in place of the wire. It reports false for a request that it leaves alone.
type fault func(request *http.Request, next http.RoundTripper) (response *http.Response, err error, handled bool)

type interceptor struct {
	mu     sync.Mutex
	faults map[string]fault
	lists  []string
}

func (i *interceptor) send(request *http.Request, next http.RoundTripper) (*http.Response, error) {
	if request.Method == http.MethodGet && strings.HasSuffix(request.URL.Path, "/pods") {
		i.mu.Lock()
		i.lists = append(i.lists, request.URL.RawQuery)
		i.mu.Unlock()
	}
	i.mu.Lock()
	handle := i.faults[namespaceOf(request)]
	i.mu.Unlock()
	if handle != nil {
		if response, err, handled := handle(request, next); handled {
			return response, err
		}
	}
	return next.RoundTrip(request)
}

func namespaceOf(request *http.Request) string {
	_, rest, _ := strings.Cut(request.URL.Path, "/namespaces/")
	namespace, _, _ := strings.Cut(rest, "/")
	return namespace
}

// podLists are the queries of the manager's requests to list or watch pods.
func (i *interceptor) podLists() []string {
	i.mu.Lock()
	defer i.mu.Unlock()
	return append([]string(nil), i.lists...)
}

// cut lets the fault have the first requests that match, up to a number, of a namespace. It returns how many it had.
func cut(namespace string, times int, matches func(*http.Request) bool, do func(*http.Request, http.RoundTripper) (*http.Response, error)) func() int {
	var mu sync.Mutex
	had := 0
	wire.mu.Lock()
	if wire.faults == nil {
		wire.faults = map[string]fault{}
	}
	wire.faults[namespace] = func(request *http.Request, next http.RoundTripper) (*http.Response, error, bool) {
		mu.Lock()
		hit := had < times && matches(request)
		if hit {
			had++
		}
		mu.Unlock()
		if !hit {
			return nil, nil, false
		}
		response, err := do(request, next)
		return response, err, true
	}
	wire.mu.Unlock()
	DeferCleanup(func() {
		wire.mu.Lock()
		delete(wire.faults, namespace)
		wire.mu.Unlock()
	})
	return func() int {
		mu.Lock()
		defer mu.Unlock()
		return had
	}
}

func isPodCreate(request *http.Request) bool {
	return request.Method == http.MethodPost && strings.HasSuffix(request.URL.Path, "/pods")
}

func isPodDelete(request *http.Request) bool {
	return request.Method == http.MethodDelete && strings.Contains(request.URL.Path, "/pods/")
}

func isLiveRead(request *http.Request) bool {
	return request.Method == http.MethodGet && strings.Contains(request.URL.Path, "/podsets/")
}

// loseReply lets the request happen and breaks the connection before the answer.
func loseReply(request *http.Request, next http.RoundTripper) (*http.Response, error) {
	response, err := next.RoundTrip(request)
	if err != nil {
		return nil, err
	}
	_ = response.Body.Close()
	return nil, io.ErrUnexpectedEOF
}

// answer answers with a code, without asking the API server.
func answer(code int, headers ...string) func(*http.Request, http.RoundTripper) (*http.Response, error) {
	return func(request *http.Request, _ http.RoundTripper) (*http.Response, error) {
		response := &http.Response{
			StatusCode: code, Status: http.StatusText(code), Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
			Header: http.Header{}, Body: io.NopCloser(&bytes.Buffer{}), Request: request,
		}
		for n := 0; n < len(headers); n += 2 {
			response.Header.Set(headers[n], headers[n+1])
		}
		return response, nil
	}
}

var _ = Describe("Between the manager and the API server", func() {
	var namespace string
	BeforeEach(func(ctx SpecContext) { namespace = newNamespace(ctx) })

	noErrors := func() {
		GinkgoHelper()
		Expect(managerLog.with(`"level":"error"`, namespace)).To(BeEmpty())
	}

	It("makes not one pod too many when replies are lost", func(ctx SpecContext) {
		lost := cut(namespace, 5, isPodCreate, loseReply)
		podSet := newPodSet(ctx, namespace, "web", 4)
		settle(ctx, podSet, 4)
		Expect(lost()).To(BeNumerically(">=", 4))
		Expect(podsIn(ctx, namespace)).To(HaveLen(4))
		Expect(audit.podCreates(namespace, podSet.CreationTimestamp.Time)).To(BeNumerically(">=", 4))
	})

	It("deletes not one pod too many when replies are lost", func(ctx SpecContext) {
		podSet := newPodSet(ctx, namespace, "web", 5)
		settle(ctx, podSet, 5)
		lost := cut(namespace, 2, isPodDelete, loseReply)
		scale(ctx, podSet, 3)
		settle(ctx, podSet, 3)
		Expect(lost()).To(Equal(2))
		Consistently(func() int { return len(podsIn(ctx, namespace)) }).Should(Equal(3), "none should have to be made again")
	})

	DescribeTable("goes on when the API server is in trouble",
		func(ctx SpecContext, code int) {
			failed := cut(namespace, 3, isPodCreate, answer(code))
			settle(ctx, newPodSet(ctx, namespace, "web", 2), 2)
			Expect(failed()).To(Equal(3))
			Expect(podsIn(ctx, namespace)).To(HaveLen(2))
		},
		Entry(nil, http.StatusInternalServerError),
		Entry(nil, http.StatusServiceUnavailable),
		Entry(nil, http.StatusGatewayTimeout),
	)

	It("waits as long as it is asked to when it is throttled", func(ctx SpecContext) {
		throttled := cut(namespace, 2, isPodCreate, answer(http.StatusTooManyRequests, "Retry-After", "1"))
		settle(ctx, newPodSet(ctx, namespace, "web", 2), 2)
		Expect(throttled()).To(Equal(2))
		noErrors()
	})

	It("spares a pod that changed after it was chosen to go, and chooses again", func(ctx SpecContext) {
		podSet := newPodSet(ctx, namespace, "web", 3)
		names := settle(ctx, podSet, 3)
		changed := cut(namespace, 1, isPodDelete, func(request *http.Request, next http.RoundTripper) (*http.Response, error) {
			for _, name := range names {
				annotate(ctx, namespace, name, "example.com/changed", "true")
			}
			return next.RoundTrip(request)
		})
		scale(ctx, podSet, 2)
		settle(ctx, podSet, 2)
		Expect(changed()).To(Equal(1))
		noErrors()
	})

	It("deletes nothing for a spec that has just been changed back", func(ctx SpecContext) {
		podSet := newPodSet(ctx, namespace, "web", 3)
		names := settle(ctx, podSet, 3)
		late := cut(namespace, 1, isLiveRead, func(request *http.Request, next http.RoundTripper) (*http.Response, error) {
			change(ctx, podSet, func(spec *v1alpha1.PodSetSpec) { spec.Replicas = new(int32(3)) })
			return next.RoundTrip(request)
		})
		scale(ctx, podSet, 2)
		Eventually(late).Should(Equal(1), "the spec should have been read before the delete")
		Expect(settle(ctx, podSet, 3)).To(Equal(names))
		Expect(podsIn(ctx, namespace)).To(HaveLen(3))
		noErrors()
	})

	It("asks for the pods of PodSets only", func() {
		Expect(wire.podLists()).NotTo(BeEmpty())
		Expect(wire.podLists()).To(HaveEach(ContainSubstring("labelSelector=app.example.com%2Fpodset")))
	})
})
