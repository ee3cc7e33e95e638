package integration

import (
	"bufio"
	"encoding/json"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	. "github.com/onsi/gomega"
	"sigs.k8s.io/controller-runtime/pkg/controller"
)

// auditLog is what the API server wrote down about the requests it served.
type auditLog struct{ policy, path string }

const auditPolicy = `
apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [RequestReceived]
rules:
- level: None
  verbs: [get, list, watch]
- level: Metadata
  resources:
  - group: ""
    resources: [pods]
  - group: app.example.com
`

func newAuditLog(dir string) *auditLog {
	log := &auditLog{policy: filepath.Join(dir, "audit-policy.yaml"), path: filepath.Join(dir, "audit.log")}
	Expect(os.WriteFile(log.policy, []byte(auditPolicy), 0o600)).To(Succeed())
	return log
}

// write is a request that could change something.
type write struct {
	UserAgent string `json:"userAgent"`
	Verb      string `json:"verb"`
	ObjectRef struct {
		Resource, Subresource, Namespace, Name string
	} `json:"objectRef"`
	ResponseStatus struct{ Code int } `json:"responseStatus"`
	RequestURI     string             `json:"requestURI"`
	Stage          string             `json:"stage"`
	Time           time.Time          `json:"requestReceivedTimestamp"`
}

// byManager returns the manager's requests to change something in the namespace, in order.
func (l *auditLog) byManager(namespace string) []write {
	file, err := os.Open(l.path)
	Expect(err).NotTo(HaveOccurred())
	defer func() { _ = file.Close() }()
	var writes []write
	lines := bufio.NewScanner(file)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		var w write
		if json.Unmarshal(lines.Bytes(), &w) != nil {
			continue // the line that is being written
		}
		if w.ObjectRef.Namespace == namespace && strings.HasPrefix(w.UserAgent, reconcileAgent) && w.Stage == "ResponseComplete" {
			writes = append(writes, w)
		}
	}
	return writes
}

// podCreates counts the manager's tries to create a pod in the namespace since a time.
func (l *auditLog) podCreates(namespace string, since time.Time) int {
	count := 0
	for _, w := range l.byManager(namespace) {
		if w.Verb == "create" && w.ObjectRef.Resource == "pods" && w.Time.After(since) {
			count++
		}
	}
	return count
}

const reconcileAgent = "reconcile/"

// signReconcile makes each request name the reconcile it belongs to as its user agent, which the audit log shows.
func signReconcile(next http.RoundTripper) http.RoundTripper {
	return roundTripper(func(request *http.Request) (*http.Response, error) {
		if id := controller.ReconcileIDFromContext(request.Context()); id != "" {
			request = request.Clone(request.Context())
			request.Header.Set("User-Agent", reconcileAgent+string(id))
		}
		return wire.send(request, next)
	})
}

type roundTripper func(*http.Request) (*http.Response, error)

func (r roundTripper) RoundTrip(request *http.Request) (*http.Response, error) { return r(request) }

// lines keeps what is written to it, line by line.
type lines struct {
	mu   sync.Mutex
	text []string
}

func (l *lines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.text = append(l.text, strings.TrimSpace(string(p)))
	return len(p), nil
}

// with returns the lines that contain all of the parts.
func (l *lines) with(parts ...string) []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	var found []string
next:
	for _, line := range l.text {
		for _, part := range parts {
			if !strings.Contains(line, part) {
				continue next
			}
		}
		found = append(found, line)
	}
	return found
}

func (l *lines) tail(n int) string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return strings.Join(l.text[max(0, len(l.text)-n):], "\n")
}
