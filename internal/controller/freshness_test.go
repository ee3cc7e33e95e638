package controller

import (
	"testing"

	"example.com/podset-operator/internal/podset"
)

func TestReached(t *testing.T) {
	tests := map[string]struct {
		view, write string
		want        bool
	}{
		"nothing written":                    {"7", "", true},
		"nothing written, nothing seen":      {"", "", true},
		"the view is ahead":                  {"8", "7", true},
		"the view is at the write":           {"7", "7", true},
		"the view is behind":                 {"6", "7", false},
		"nothing seen":                       {"", "7", false},
		"ten is more than nine":              {"10", "9", true},
		"nine is less than ten":              {"9", "10", false},
		"behind, more than 64 bits":          {"99999999999999999998", "99999999999999999999", false},
		"ahead, more than 64 bits":           {"100000000000000000000", "99999999999999999999", true},
		"the view is no number":              {"x", "7", false},
		"the view is zero, which is nowhere": {"0", "7", false},
		"the write is no number":             {"7", "x", false},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			mustEqual(t, reached(test.view, test.write), test.want)
		})
	}
}

func TestIsIn(t *testing.T) {
	// The PodSet is at version 100.
	tests := map[string]struct {
		remembered memory
		seen       SeenPods
		want       bool
	}{
		"nothing written": {
			memory{}, SeenPods{}, true,
		},
		"the pod written is older than the view": {
			memory{podWritten: "99"}, SeenPods{ResourceVersion: "200"}, true,
		},
		"the pod written is newer than the view": {
			memory{podWritten: "201"}, SeenPods{ResourceVersion: "200"}, false,
		},
		"the status written is that of the PodSet": {
			memory{statusWritten: "100"}, SeenPods{}, true,
		},
		"the status written is newer than the PodSet": {
			memory{statusWritten: "101"}, SeenPods{}, false,
		},
		"the pod deleted is still active": {
			memory{podDeleted: "uid-of-a"}, SeenPods{Owned: pods{pod("b"), pod("a")}}, false,
		},
		"the pod deleted is terminating": {
			memory{podDeleted: "uid-of-a"}, SeenPods{Owned: pods{pod("a", terminating), pod("b")}}, true,
		},
		"the pod deleted is gone": {
			memory{podDeleted: "uid-of-a"}, SeenPods{Owned: pods{pod("b")}}, true,
		},
		"one write of three is missing": {
			memory{podWritten: "99", statusWritten: "101", podDeleted: "uid-of-a"}, SeenPods{ResourceVersion: "200"}, false,
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			mustEqual(t, test.remembered.isIn(podSet(1), test.seen), test.want)
		})
	}
}

func TestMayRely(t *testing.T) {
	tests := map[string]struct {
		action  podset.Action
		certain bool
		want    bool
	}{
		"nothing to do, whatever happened before": {podset.Nothing, false, true},
		"a create, all outcomes known":            {podset.Create, true, true},
		"a create after a start or a lost reply":  {podset.Create, false, false},
		"a delete, all outcomes known":            {podset.Delete, true, true},
		"a delete after a start or a lost reply":  {podset.Delete, false, false},
		"an adoption, even if all outcomes known": {podset.Adopt, true, false},
		"an adoption after a start or lost reply": {podset.Adopt, false, false},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			m := &memory{certain: test.certain}
			mustEqual(t, m.mayRely(podset.Step{Action: test.action}), test.want)
		})
	}
}
