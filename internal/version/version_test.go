package version

import (
	"runtime/debug"
	"testing"
)

func TestCommitOfABuildInACheckout(t *testing.T) {
	tests := map[string]struct {
		settings []debug.BuildSetting
		want     string
	}{
		"outside of a checkout": {nil, "unknown"},
		"a clean checkout":      {[]debug.BuildSetting{{Key: "vcs.revision", Value: "abc"}, {Key: "vcs.modified", Value: "false"}}, "abc"},
		"a changed checkout":    {[]debug.BuildSetting{{Key: "vcs.revision", Value: "abc"}, {Key: "vcs.modified", Value: "true"}}, "abc-dirty"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			if got := commitOf(test.settings); got != test.want {
				t.Errorf("got %q, want %q", got, test.want)
			}
		})
	}
}

func TestWhatTheLinkerSetsComesFirst(t *testing.T) {
	t.Cleanup(func() { version, commit = "", "" })
	if Version() != "dev" {
		t.Errorf("got version %q of a binary that is of no release", Version())
	}
	version, commit = "v1.2.3", "abc"
	if Version() != "v1.2.3" || Commit() != "abc" {
		t.Errorf("got %q and %q", Version(), Commit())
	}
}
