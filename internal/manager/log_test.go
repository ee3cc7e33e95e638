package manager

import (
	"bytes"
	"encoding/json"
	"errors"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestJSONLog(t *testing.T) {
	var out bytes.Buffer
	logger := (&Options{LogFormat: "json", LogLevel: "info"}).Logger(&out)
	logger.WithName("podset").Info("created pod", "pod", "a", "active", 2)

	var line map[string]any
	if err := json.Unmarshal(out.Bytes(), &line); err != nil {
		t.Fatalf("not one JSON object: %s: %s", err, &out)
	}
	if _, err := time.Parse(time.RFC3339Nano, line["ts"].(string)); err != nil {
		t.Error(err)
	}
	delete(line, "ts")
	want := map[string]any{"level": "info", "logger": "podset", "msg": "created pod", "pod": "a", "active": 2.0}
	if diff := cmp.Diff(want, line); diff != "" {
		t.Errorf("got + instead of -:\n%s", diff)
	}
}

func TestTextLog(t *testing.T) {
	var out bytes.Buffer
	logger := (&Options{LogFormat: "text", LogLevel: "info"}).Logger(&out)
	logger.Info("created pod", "pod", "a")

	want := regexp.MustCompile(`^\d{4}-\d\d-\d\dT\S+\s+INFO\s+created pod\s+\{"pod": "a"\}\n$`)
	if !want.MatchString(out.String()) {
		t.Errorf("got %q", &out)
	}
}

func TestLogLevels(t *testing.T) {
	tests := map[string][]string{
		"error": {"an error"},
		"info":  {"an error", "some information"},
		"debug": {"an error", "some information", "a detail"},
	}
	for level, want := range tests {
		t.Run(level, func(t *testing.T) {
			var out bytes.Buffer
			logger := (&Options{LogFormat: "json", LogLevel: level}).Logger(&out)
			logger.Error(errors.New("cause"), "an error")
			logger.Info("some information")
			logger.V(1).Info("a detail")

			var got []string
			for line := range strings.Lines(out.String()) {
				var entry struct{ Msg string }
				if err := json.Unmarshal([]byte(line), &entry); err != nil {
					t.Fatal(err)
				}
				got = append(got, entry.Msg)
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("got + instead of -:\n%s", diff)
			}
		})
	}
}

func TestEveryFormatAndLevelOfTheFlagsIsKnown(t *testing.T) {
	for _, format := range logFormats {
		for _, level := range logLevels {
			if _, err := parse("--log-format="+format, "--log-level="+level); err != nil {
				t.Error(err)
			}
		}
	}
}
