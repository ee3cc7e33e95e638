package sim

import (
	"fmt"
	"slices"
	"strings"
)

// trail is what was done, the last first.
type trail struct {
	before *trail
	level  int
	isStep bool
	step   step
	// verb is a request: with a fault, or one before which something else happened.
	verb  string
	fault fault
}

func (w *world) note(t trail) {
	t.before, t.level = w.trail, w.level
	w.trail = &t
}

func (t *trail) text() string {
	switch {
	case t.isStep:
		return t.step.String()
	case t.fault != fine:
		return t.verb + ": " + t.fault.String()
	default:
		return "before " + t.verb
	}
}

// script is a run in words: what happened, and what happened within it.
type script []*line

type line struct {
	text   string
	within script
}

// script returns all that was done.
func (t *trail) script() script {
	var all []*trail
	for ; t != nil; t = t.before {
		all = append(all, t)
	}
	slices.Reverse(all)
	parsed, _ := scriptOf(all, 0)
	return parsed
}

func scriptOf(all []*trail, level int) (parsed script, rest []*trail) {
	for len(all) > 0 && all[0].level >= level {
		l := &line{text: all[0].text()}
		l.within, all = scriptOf(all[1:], level+1)
		parsed = append(parsed, l)
	}
	return parsed, all
}

func (s script) String() string {
	var text strings.Builder
	s.write(&text, "")
	return text.String()
}

func (s script) write(text *strings.Builder, indent string) {
	for _, l := range s {
		fmt.Fprintf(text, "%s%s\n", indent, l.text)
		l.within.write(text, indent+"\t")
	}
}

// parse reads a script from its text.
func parse(text string) script {
	levels := []script{nil}
	leave := func(to int) {
		for len(levels) > to {
			inner := levels[len(levels)-1]
			levels = levels[:len(levels)-1]
			outer := levels[len(levels)-1]
			outer[len(outer)-1].within = inner
		}
	}
	for row := range strings.Lines(text) {
		words := strings.TrimLeft(row, "\t")
		level := len(row) - len(words)
		if words = strings.TrimSpace(words); words == "" {
			continue
		}
		leave(level + 1)
		if level == len(levels) {
			levels = append(levels, nil)
		}
		levels[level] = append(levels[level], &line{text: words})
	}
	leave(1)
	return levels[0]
}

// player makes the choices of a script, as far as they are possible.
type player struct {
	// stack holds the lines that are under way, the innermost last.
	stack []script
}

func (p *player) within() script { return p.stack[len(p.stack)-1] }

func (p *player) fault(verb string, options []fault) fault {
	for _, f := range options[1:] {
		text := verb + ": " + f.String()
		if slices.ContainsFunc(p.within(), func(l *line) bool { return l.text == text }) {
			return f
		}
	}
	return fine
}

func (p *player) meanwhile(verb string, options func() []step) (step, bool) {
	lines := p.within()
	for i, l := range lines {
		if l.text != "before "+verb || len(l.within) == 0 {
			continue
		}
		for _, s := range options() {
			if s.String() == l.within[0].text {
				// The line is used up: it is followed by another one like it if more happened.
				p.stack[len(p.stack)-1] = slices.Delete(slices.Clone(lines), i, i+1)
				p.stack = append(p.stack, l.within[0].within)
				return s, true
			}
		}
	}
	return step{}, false
}

func (p *player) done() { p.stack = p.stack[:len(p.stack)-1] }

// play runs a script on a new world. Lines that are not possible are left out.
func play(s setup, lines script) (*world, error) {
	p := &player{}
	w := newWorld(s, p)
	return w, w.play(p, lines)
}

func (w *world) play(p *player, lines script) error {
	for _, l := range lines {
		step, possible := w.find(l.text)
		if !possible {
			continue
		}
		p.stack = []script{l.within}
		w.do(step)
		if w.oracle.broken != nil {
			return w.oracle.broken
		}
	}
	return w.end()
}

// find returns the possible step with the text.
func (w *world) find(text string) (step, bool) {
	for _, s := range w.steps() {
		if s.action == seePod || s.action == seePodSet {
			for s.n = 1; s.n <= 4; s.n++ {
				if s.String() == text {
					return s, true
				}
			}
			continue
		}
		if s.String() == text {
			return s, true
		}
	}
	return step{}, false
}

// shrink returns a shorter script that fails too, and its error.
func shrink(s setup, lines script, failure error) (script, error) {
	for size := max(len(lines)/2, 1); ; size /= 2 {
		for from := 0; from < len(lines); {
			shorter := slices.Concat(lines[:from], lines[min(from+size, len(lines)):])
			if _, err := play(s, shorter); err != nil {
				lines, failure = shorter, err
			} else {
				from += size
			}
		}
		if size <= 1 {
			return withoutDetails(s, lines, failure)
		}
	}
}

// withoutDetails leaves out what is not needed within the lines.
func withoutDetails(s setup, lines script, failure error) (script, error) {
	for i, l := range lines {
		for j := 0; j < len(l.within); {
			simpler := slices.Clone(lines)
			simpler[i] = &line{text: l.text, within: slices.Delete(slices.Clone(l.within), j, j+1)}
			if _, err := play(s, simpler); err != nil {
				lines, failure, l = simpler, err, simpler[i]
			} else {
				j++
			}
		}
	}
	return lines, failure
}
