package assets

import (
	"fmt"
	"io"
	"os"
	"time"

	"golang.org/x/term"
)

// steps shows long work: on a terminal one line per step whose elapsed time
// ticks each second, elsewhere a line every fifteen seconds.
type steps struct {
	out      io.Writer
	terminal bool
}

func newSteps(out io.Writer) *steps {
	file, ok := out.(*os.File)
	return &steps{out: out, terminal: ok && term.IsTerminal(int(file.Fd()))}
}

// say prints one line.
func (s *steps) say(format string, args ...any) {
	_, _ = fmt.Fprintf(s.out, format+"\n", args...)
}

// run shows what until work is done, and returns its error.
func (s *steps) run(what string, work func() error) error {
	begin, end, every := "", "\n", 15*time.Second
	if s.terminal {
		begin, end, every = "\r\x1b[K", "", time.Second
	}
	start := time.Now()
	show := func(state, end string) {
		_, _ = fmt.Fprintf(s.out, "%s%s… %s%s%s", begin, what, state, time.Since(start).Round(time.Second), end)
	}
	done := make(chan error, 1)
	go func() { done <- work() }()
	ticker := time.NewTicker(every)
	defer ticker.Stop()

	show("", end)
	for {
		select {
		case <-ticker.C:
			show("", end)
		case err := <-done:
			if err != nil {
				show("failed after ", "\n")
				return err
			}
			show("done in ", "\n")
			return nil
		}
	}
}
