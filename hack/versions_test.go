package hack

import (
	"regexp"
	"strings"
	"testing"
)

func TestVersionReadsThePinnedLine(t *testing.T) {
	t.Setenv("ETCD_VERSION", "")
	if got := Version("ETCD_VERSION"); !regexp.MustCompile(`^v\d+\.\d+\.\d+$`).MatchString(got) {
		t.Errorf("ETCD_VERSION = %q, want a version such as v3.7.3", got)
	}
}

func TestVersionPrefersTheEnvironment(t *testing.T) {
	t.Setenv("K8S_VERSION", "1.36.0")
	if got := Version("K8S_VERSION"); got != "1.36.0" {
		t.Errorf("K8S_VERSION = %q, want 1.36.0", got)
	}
}

func TestVersionPanicsOnAnUnknownName(t *testing.T) {
	defer func() {
		if recover() == nil {
			t.Error("Version of a name that is not pinned did not panic")
		}
	}()
	Version("NO_SUCH_VERSION")
}

// Both make and a shell read the file, so that no line may need quoting.
func TestEveryLineIsACommentOrAPlainAssignment(t *testing.T) {
	plain := regexp.MustCompile(`^(#.*|[A-Z0-9_]+=[A-Za-z0-9.-]+)?$`)
	for line := range strings.Lines(pinned) {
		if line = strings.TrimSuffix(line, "\n"); !plain.MatchString(line) {
			t.Errorf("line %q is neither a comment nor NAME=value", line)
		}
	}
}
