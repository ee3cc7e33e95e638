package faults

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"

	"example.com/podset-operator/api/v1alpha1"
	"example.com/podset-operator/internal/manager"
)

var decoder = serializer.NewCodecFactory(manager.Scheme).UniversalDeserializer()

// fault is something that goes wrong with one request.
type fault string

const (
	noFault   fault = ""
	drop      fault = "dropped"
	lose      fault = "reply lost"
	lateWrite fault = "carried out late"
	delay     fault = "delayed"
	answer429 fault = "429"
	answer500 fault = "500"
	answer503 fault = "503"
	answer504 fault = "504"
	commit504 fault = "504 although carried out"
	cutWatch  fault = "watch cut"
	stall     fault = "watch stalled"
	expire    fault = "watch expired (410)"
)

var (
	readFaults  = []fault{drop, lose, delay, answer429, answer500, answer503, answer504}
	writeFaults = append([]fault{lateWrite, commit504}, readFaults...)
	watchFaults = []fault{drop, cutWatch, cutWatch, stall, stall, expire}
)

// write is a write of a manager to a pod or to the status of a PodSet.
type write struct {
	method         string
	namespace, pod string
	podSet         string
	// owner is the PodSet that a new pod belongs to.
	owner types.UID
	// preconditions are those of a deletion.
	preconditions *metav1.Preconditions
	// sent is the place of the request among the writes.
	sent int
	// revision is the resource version that the store gave the result, 0 if the write was not carried out or removed the
	// object.
	revision int64
	// ok means that the write was carried out.
	ok bool
	// delivered is after how many writes had been sent the manager got the reply, 0 if it never did.
	delivered int
}

// proxy stands between a manager and the API server.
type proxy struct {
	server *httptest.Server
	target *url.URL
	client http.RoundTripper

	mutex  sync.Mutex
	random *rand.Rand
	// rate is how many of a hundred requests meet a fault.
	rate   int
	counts map[fault]int
	writes []*write
	// hook, if set, is called for each pod write of a manager: at "arrival", once it is "carried out", and when "answered".
	hook func(moment string)
	late sync.WaitGroup
}

// startProxy starts a proxy and returns it with the access to it for whoever has config's.
func startProxy(config *rest.Config, seed uint64) (*proxy, *rest.Config, error) {
	target, err := url.Parse(config.Host)
	if err != nil {
		return nil, nil, err
	}
	trusted := x509.NewCertPool()
	trusted.AppendCertsFromPEM(config.CAData)
	p := &proxy{
		target: target,
		client: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: trusted, MinVersion: tls.VersionTLS13}},
		random: rand.New(rand.NewPCG(seed, seed)),
		counts: map[fault]int{},
	}
	p.server = httptest.NewTLSServer(p)
	access := rest.CopyConfig(config)
	access.Host = p.server.URL
	access.CAData = pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: p.server.Certificate().Raw})
	return p, access, nil
}

// stop waits for writes that are still to be carried out, and stops.
func (p *proxy) stop() {
	p.late.Wait()
	p.server.CloseClientConnections()
	p.server.Close()
}

// setRate sets how many of a hundred requests meet a fault.
func (p *proxy) setRate(rate int) {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	p.rate = rate
}

// faults is how many there were.
func (p *proxy) faults() int {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	sum := 0
	for _, n := range p.counts {
		sum += n
	}
	return sum
}

// written is how many writes were sent.
func (p *proxy) written() int {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	return len(p.writes)
}

func (p *proxy) onPodWrite(hook func(moment string)) {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	p.hook = hook
}

func (p *proxy) choose(among []fault) (fault, time.Duration) {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	if p.random.IntN(100) >= p.rate {
		return noFault, 0
	}
	chosen := among[p.random.IntN(len(among))]
	p.counts[chosen]++
	return chosen, time.Duration(50+p.random.IntN(3000)) * time.Millisecond
}

// ServeHTTP passes a request on, or lets something go wrong with it.
func (p *proxy) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		panic(http.ErrAbortHandler)
	}
	if r.URL.Query().Has("watch") {
		p.serveWatch(w, r)
		return
	}
	among, record := readFaults, (*write)(nil)
	if r.Method != http.MethodGet {
		among = writeFaults
		record = p.record(r, body)
	}
	chosen, wait := p.choose(among)
	switch chosen {
	case drop:
		panic(http.ErrAbortHandler)
	case answer429, answer500, answer503, answer504:
		answer(w, chosen)
		return
	case lateWrite:
		p.late.Go(func() {
			pause(wait)
			_, _ = p.forward(context.WithoutCancel(r.Context()), r, body, record)
		})
		panic(http.ErrAbortHandler)
	case delay:
		pause(wait)
	default:
	}
	p.tell(record, "arrival")
	// What has arrived is carried out, also if the manager dies meanwhile.
	response, err := p.forward(context.WithoutCancel(r.Context()), r, body, record)
	p.tell(record, "carried out")
	switch {
	case err != nil || chosen == lose:
		panic(http.ErrAbortHandler)
	case chosen == commit504:
		answer(w, commit504)
		return
	}
	p.deliver(record)
	copyHeader(w, response.header)
	w.WriteHeader(response.status)
	_, _ = w.Write(response.body)
	p.tell(record, "answered")
}

type response struct {
	status int
	header http.Header
	body   []byte
}

func (p *proxy) forward(ctx context.Context, r *http.Request, body []byte, record *write) (*response, error) {
	got, err := p.client.RoundTrip(p.request(ctx, r, body))
	if err != nil {
		return nil, err
	}
	defer func() { _ = got.Body.Close() }()
	text, err := io.ReadAll(got.Body)
	if err != nil {
		return nil, err
	}
	if record != nil && got.StatusCode < 300 {
		p.mutex.Lock()
		defer p.mutex.Unlock()
		record.ok = true
		if object, _, err := decoder.Decode(text, nil, nil); err == nil {
			record.revision = revisionOf(object)
		}
	}
	return &response{got.StatusCode, got.Header, text}, nil
}

func revisionOf(object runtime.Object) int64 {
	accessor, err := meta.Accessor(object)
	if err != nil {
		return 0
	}
	return toRevision(accessor.GetResourceVersion())
}

func (p *proxy) request(ctx context.Context, r *http.Request, body []byte) *http.Request {
	request := r.Clone(ctx)
	request.URL.Scheme, request.URL.Host, request.Host, request.RequestURI = p.target.Scheme, p.target.Host, p.target.Host, ""
	request.Header.Del("Accept-Encoding") // bodies are read here
	request.Body, request.ContentLength = io.NopCloser(bytes.NewReader(body)), int64(len(body))
	return request
}

// serveWatch passes a watch on until it is cut.
func (p *proxy) serveWatch(w http.ResponseWriter, r *http.Request) {
	chosen, wait := p.choose(watchFaults)
	ctx, cut := context.WithCancel(r.Context())
	defer cut()
	switch chosen {
	case drop:
		panic(http.ErrAbortHandler)
	case expire:
		answer(w, expire)
		return
	case cutWatch:
		defer time.AfterFunc(wait, cut).Stop()
	default:
	}
	got, err := p.client.RoundTrip(p.request(ctx, r, nil))
	if err != nil {
		panic(http.ErrAbortHandler)
	}
	defer func() { _ = got.Body.Close() }()
	copyHeader(w, got.Header)
	w.WriteHeader(got.StatusCode)
	flusher := http.NewResponseController(w)
	_ = flusher.Flush()
	began, buffer := time.Now(), make([]byte, 64<<10)
	for {
		n, err := got.Body.Read(buffer)
		if chosen == stall && time.Since(began) > wait/2 {
			pause(wait)
			chosen = noFault
		}
		if _, failed := w.Write(buffer[:n]); failed != nil || err != nil {
			panic(http.ErrAbortHandler)
		}
		_ = flusher.Flush()
	}
}

// record notes a write to a pod or to the status of a PodSet, and returns nil for any other.
func (p *proxy) record(r *http.Request, body []byte) *write {
	// /api/v1/namespaces/N/pods/NAME and /apis/GROUP/VERSION/namespaces/N/podsets/NAME/status
	_, after, found := strings.Cut(r.URL.Path, "/namespaces/")
	parts := strings.Split(after, "/")
	if !found || len(parts) < 2 || r.URL.Query().Has("dryRun") {
		return nil
	}
	record := &write{method: r.Method, namespace: parts[0]}
	object, _, _ := decoder.Decode(body, nil, nil)
	switch {
	case parts[1] == "podsets" && len(parts) > 2:
		record.podSet = parts[2]
	case parts[1] != "pods":
		return nil
	case len(parts) > 2:
		record.pod = parts[2]
	}
	switch object := object.(type) {
	case *corev1.Pod:
		record.pod = object.Name
		record.owner = ownerOf(object)
	case *metav1.DeleteOptions:
		record.preconditions = object.Preconditions
	}
	p.mutex.Lock()
	defer p.mutex.Unlock()
	p.writes = append(p.writes, record)
	record.sent = len(p.writes)
	return record
}

func (p *proxy) deliver(record *write) {
	if record == nil {
		return
	}
	p.mutex.Lock()
	defer p.mutex.Unlock()
	record.delivered = len(p.writes)
}

func (p *proxy) tell(record *write, moment string) {
	p.mutex.Lock()
	hook := p.hook
	p.mutex.Unlock()
	if hook != nil && record != nil && record.podSet == "" {
		hook(moment)
	}
}

func copyHeader(w http.ResponseWriter, from http.Header) {
	maps.Copy(w.Header(), from)
}

// answer replies as an API server does that is in trouble.
func answer(w http.ResponseWriter, f fault) {
	status := metav1.Status{
		TypeMeta: metav1.TypeMeta{Kind: "Status", APIVersion: "v1"},
		Status:   metav1.StatusFailure,
		Message:  fmt.Sprintf("fault: %s", f),
	}
	switch f {
	case answer429:
		status.Code, status.Reason = http.StatusTooManyRequests, metav1.StatusReasonTooManyRequests
		w.Header().Set("Retry-After", "1")
	case answer503:
		status.Code, status.Reason = http.StatusServiceUnavailable, metav1.StatusReasonServiceUnavailable
	case answer504, commit504:
		status.Code, status.Reason = http.StatusGatewayTimeout, metav1.StatusReasonTimeout
	case expire:
		status.Code, status.Reason = http.StatusGone, metav1.StatusReasonExpired
	default:
		status.Code, status.Reason = http.StatusInternalServerError, metav1.StatusReasonInternalError
	}
	w.Header().Set("Content-Type", runtime.ContentTypeJSON)
	w.WriteHeader(int(status.Code))
	_ = json.NewEncoder(w).Encode(status)
}

// ownerOf is the UID of the PodSet that controls the pod, empty if none does.
func ownerOf(pod *corev1.Pod) types.UID {
	if owner := metav1.GetControllerOf(pod); owner != nil && owner.Kind == v1alpha1.PodSetKind.Kind {
		return owner.UID
	}
	return ""
}

// pause lets time pass. How long requests wait and how fast users act is what is tried here.
func pause(duration time.Duration) {
	time.Sleep(duration) //nolint:forbidigo // the pace of the network and of the users that are played here
}
