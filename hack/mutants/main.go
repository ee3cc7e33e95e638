// Command mutants shows that the checks of test/sim see a broken rule. It makes wrong versions of the production code,
// one rule at a time, and runs the replays, the random walks and the exploration of all states on each. It prints a
// table of what stopped each, and fails if one gets through.
//
//	mutants [TEXT]    only those whose name contains TEXT
package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"time"
)

// shown is how much of a message the table has room for.
const shown = 120

// limit is how long a mutant may live, without the time to compile it.
const limit = 60 * time.Second

func main() {
	text := strings.Join(os.Args[1:], " ")
	if err := run(context.Background(), text); err != nil {
		fmt.Fprintln(os.Stderr, "mutants:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, text string) error {
	dir, err := os.MkdirTemp("", "mutants-")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	fmt.Println("| wrong | where | stopped by | after |\n|---|---|---|---|")
	lived, tried := 0, 0
	for _, m := range mutants {
		if !strings.Contains(m.name, text) {
			continue
		}
		tried++
		killer, took, err := try(ctx, dir, m)
		if err != nil {
			return fmt.Errorf("%q: %w", m.name, err)
		}
		if killer == "" {
			lived++
			killer = "**nothing**"
		}
		fmt.Printf("| %s | %s | %s | %.0f s |\n", m.name, filepath.Base(m.file), killer, took.Seconds())
	}
	fmt.Printf("\n%d mutants, %d stopped within %s each.\n", tried, tried-lived, limit)
	if lived > 0 || tried == 0 {
		return fmt.Errorf("%d of %d mutants lived", lived, tried)
	}
	return nil
}

// try compiles the checks with the mutant and returns what failed first, empty if nothing did, and after how long.
func try(ctx context.Context, dir string, m mutant) (killer string, took time.Duration, err error) {
	overlay, err := m.write(dir)
	if err != nil {
		return "", 0, err
	}
	binary := filepath.Join(dir, "sim.test")
	compile := exec.CommandContext(ctx, "go", "test", "-c", "-overlay", overlay, "-o", binary, "./test/sim")
	if output, err := compile.CombinedOutput(); err != nil {
		return "", 0, fmt.Errorf("does not compile: %w\n%s", err, output)
	}
	began := time.Now()
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	for _, checks := range []string{"FieldBugs|Gaps|RandomWalks", "EveryState"} {
		test := exec.CommandContext(ctx, binary, "-test.failfast", "-test.run", checks)
		test.Dir = "test/sim"
		output, err := test.CombinedOutput()
		if failed := (*exec.ExitError)(nil); errors.As(err, &failed) && ctx.Err() == nil {
			return reasonOf(string(output)), time.Since(began), nil
		} else if err != nil && ctx.Err() == nil {
			return "", 0, err
		}
	}
	return "", time.Since(began), nil
}

// write writes the mutant and an overlay for the compiler that puts it in the place of the right version.
func (m mutant) write(dir string) (overlay string, err error) {
	source, err := os.ReadFile(m.file)
	if err != nil {
		return "", err
	}
	text := string(source)
	for _, e := range m.edits {
		if n := strings.Count(text, e.old); n != 1 {
			return "", fmt.Errorf("%s has %q %d times: bring the mutant up to date", m.file, e.old, n)
		}
		text = strings.Replace(text, e.old, e.new, 1)
	}
	wrong := filepath.Join(dir, "wrong.go")
	right, err := filepath.Abs(m.file)
	if err != nil {
		return "", err
	}
	replace, err := json.Marshal(map[string]map[string]string{"Replace": {right: wrong}})
	if err != nil {
		return "", err
	}
	overlay = filepath.Join(dir, "overlay.json")
	return overlay, errors.Join(os.WriteFile(wrong, []byte(text), 0o600), os.WriteFile(overlay, replace, 0o600))
}

var (
	failure = regexp.MustCompile(`(?m)_test\.go:\d+: (.*?)((?:S|L)\d|the end is|panic)(.*)$`)
	name    = regexp.MustCompile(`(?m)^\s*--- FAIL: Test([A-Za-z]+)`)
)

// reasonOf says which check failed first, and which promise it saw broken.
func reasonOf(output string) string {
	check := "a panic"
	if found := name.FindStringSubmatch(output); found != nil {
		check = found[1]
	}
	if found := failure.FindStringSubmatch(output); found != nil {
		broken := strings.ReplaceAll(strings.TrimSpace(found[2]+found[3]), "|", "/")
		if len(broken) > shown {
			broken = broken[:shown] + " …"
		}
		return check + ": " + broken
	}
	return check
}
