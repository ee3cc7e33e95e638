package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"example.com/podset-operator/test/localcluster/assets"
)

func testState(t *testing.T) state {
	t.Helper()
	t.Setenv(assets.EnvCache, t.TempDir())
	s, err := newState("a")
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestANameIsClaimedOnce(t *testing.T) {
	s := testState(t)
	release, err := s.claim()
	if err != nil {
		t.Fatal(err)
	}
	if !s.isUp() {
		t.Error("the cluster should be up while it is claimed")
	}
	if _, err := s.claim(); err == nil || !strings.Contains(err.Error(), "already up") {
		t.Errorf("the second claim returned %v, want that the cluster is already up", err)
	}
	release()
	if s.isUp() {
		t.Error("the cluster should not be up after the claim is given up")
	}
}

func TestWhatAKilledProcessLeftIsNeitherUpNorInTheWay(t *testing.T) {
	s := testState(t)
	if err := os.MkdirAll(s.dir, 0o700); err != nil {
		t.Fatal(err)
	}
	for _, file := range []string{s.ownerFile(), s.kubeconfig()} {
		if err := os.WriteFile(file, []byte("1"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if s.isUp() || s.isReady() {
		t.Errorf("isUp = %t, isReady = %t, want neither", s.isUp(), s.isReady())
	}
	release, err := s.claim()
	if err != nil {
		t.Fatal(err)
	}
	defer release()
	if s.isReady() {
		t.Error("the old kubeconfig should be gone")
	}
}

func TestStopRemovesTheFolderAndDoesNotMindItsAbsence(t *testing.T) {
	s := testState(t)
	if wasUp, err := s.stop(t.Context()); wasUp || err != nil {
		t.Errorf("stop of nothing = %t, %v", wasUp, err)
	}
	if err := os.MkdirAll(s.dir, 0o700); err != nil {
		t.Fatal(err)
	}
	if wasUp, err := s.stop(t.Context()); !wasUp || err != nil {
		t.Errorf("stop of leftovers = %t, %v", wasUp, err)
	}
	if left, err := filepath.Glob(s.dir); len(left) > 0 || err != nil {
		t.Errorf("left behind: %v, %v", left, err)
	}
}

func TestMistakesOnTheCommandLine(t *testing.T) {
	for name, args := range map[string][]string{
		"an unknown command":           {"start"},
		"an argument nobody asked for": {"down", "now"},
		"a name that is not a label":   {"kubeconfig", "--name", "../etc"},
		"a cluster that is not up":     {"kubeconfig", "--name", "a"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Setenv(assets.EnvCache, t.TempDir())
			err := run(t.Context(), args)
			if err == nil || strings.Contains(err.Error(), "\n") {
				t.Errorf("error = %v, want one line", err)
			}
		})
	}
}
