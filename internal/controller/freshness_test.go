package controller

import (
	"testing"
	"time"

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
	never, past, future := time.Time{}, now.Add(-time.Second), now.Add(time.Second)
	tests := map[string]struct {
		action       podset.Action
		certainUntil time.Time
		want         bool
	}{
		"nothing to do, whatever happened before":     {podset.Nothing, never, true},
		"a create shortly after a live look":          {podset.Create, future, true},
		"a create long after a live look":             {podset.Create, past, false},
		"a create after a start or a lost reply":      {podset.Create, never, false},
		"a delete shortly after a live look":          {podset.Delete, future, true},
		"a delete long after a live look":             {podset.Delete, past, false},
		"a delete after a start or a lost reply":      {podset.Delete, never, false},
		"an adoption, even shortly after a live look": {podset.Adopt, future, false},
		"an adoption after a start or a lost reply":   {podset.Adopt, never, false},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			m := &memory{certainUntil: test.certainUntil}
			mustEqual(t, m.mayRely(podset.Step{Action: test.action}, now), test.want)
		})
	}
}
