package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"time"

	"example.com/podset-operator/test/operator"
)

// auditLog is what an API server wrote down about the requests it served.
type auditLog struct{ path string }

// byManager returns how many requests the operator's ServiceAccount has made since a time, by verb and resource. A watch
// is in the log once it has ended.
func (l *auditLog) byManager(since time.Time) (requests, error) {
	file, err := os.Open(l.path)
	if err != nil {
		return nil, err
	}
	defer func() { _ = file.Close() }()
	account := fmt.Sprintf("system:serviceaccount:%s:%s", operator.Namespace, operator.ServiceAccount)
	made := requests{}
	lines := bufio.NewScanner(file)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		var request struct {
			User      struct{ Username string }
			Verb      string
			ObjectRef struct{ Resource, Subresource string }
			Time      time.Time `json:"requestReceivedTimestamp"`
		}
		if json.Unmarshal(lines.Bytes(), &request) != nil {
			continue // the line that is being written
		}
		if request.User.Username == account && request.Time.After(since) {
			resource := strings.TrimSuffix(request.ObjectRef.Resource+"/"+request.ObjectRef.Subresource, "/")
			made[request.Verb+" "+resource]++
		}
	}
	return made, lines.Err()
}

func (l *auditLog) remove() error { return os.Remove(l.path) }
