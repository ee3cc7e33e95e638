package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/signal"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/go-logr/logr"
	ctrl "sigs.k8s.io/controller-runtime"

	"example.com/podset-operator/test/operator"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP)
	err := run(ctx)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context) error {
	ctrl.SetLogger(logr.Discard()) // of the client library, which would complain that it has none
	settings, err := readSettings()
	if err != nil {
		return err
	}
	if settings.scratch, err = os.MkdirTemp("", "bench-"); err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(settings.scratch) }()
	facts, err := gatherFacts(settings)
	if err != nil {
		return err
	}
	programs, err := buildPrograms(ctx, settings.scratch)
	if err != nil {
		return err
	}
	start := time.Now()
	b := &bench{
		settings: settings,
		programs: programs,
		random:   rand.New(rand.NewPCG(settings.seed, 0)),
		commands: map[string]bool{},
		say: func(format string, arguments ...any) {
			fmt.Printf("%6.0f s  %s\n", time.Since(start).Seconds(), fmt.Sprintf(format, arguments...))
		},
	}
	for _, scenario := range scenarios {
		if !settings.scenarios.MatchString(scenario.name) {
			continue
		}
		if err := scenario.run(ctx, b); err != nil {
			// What was measured is not lost.
			return errors.Join(fmt.Errorf("scenario %s: %w", scenario.name, err), b.write(facts))
		}
	}
	return b.write(facts)
}

// settings are what the environment says.
type settings struct {
	scenarios, arms *regexp.Regexp
	blocks, size    int
	seed            uint64
	out, profiles   string
	// scratch is a folder for files that nobody keeps.
	scratch string
}

const smallestSize = 20

func readSettings() (settings, error) {
	root, err := operator.Root()
	if err != nil {
		return settings{}, err
	}
	s := settings{
		out:      cmp.Or(os.Getenv("OUT"), filepath.Join(root, "docs", "benchmarks")),
		profiles: os.Getenv("PROFILES"),
	}
	var errs [5]error
	s.scenarios, errs[0] = regexp.Compile(os.Getenv("BENCH"))
	s.arms, errs[1] = regexp.Compile(os.Getenv("ARMS"))
	s.blocks, errs[2] = number("BLOCKS", 3)
	s.size, errs[3] = number("SIZE", 1000)
	seed, err := number("SEED", int(time.Now().Unix()))
	s.seed, errs[4] = uint64(seed), err
	if err := errors.Join(errs[:]...); err != nil {
		return settings{}, err
	}
	if s.blocks < 1 || s.size < smallestSize {
		return settings{}, fmt.Errorf("BLOCKS is %d and SIZE %d, must be at least 1 and %d", s.blocks, s.size, smallestSize)
	}
	return s, nil
}

// number is the value of an environment variable.
func number(name string, otherwise int) (int, error) {
	n, err := strconv.Atoi(cmp.Or(os.Getenv(name), strconv.Itoa(otherwise)))
	if err != nil {
		return 0, fmt.Errorf("%s: %w", name, err)
	}
	return n, nil
}

// command is the command line that repeats the run.
func (s settings) command() string {
	words := []string{"make bench"}
	for _, name := range []string{"BENCH", "ARMS"} {
		if value := os.Getenv(name); value != "" {
			words = append(words, fmt.Sprintf("%s='%s'", name, value))
		}
	}
	return strings.Join(append(words, fmt.Sprintf("BLOCKS=%d SIZE=%d SEED=%d", s.blocks, s.size, s.seed)), " ")
}
