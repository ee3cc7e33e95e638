package sim

import "math/rand/v2"

// chooser makes the choices within a step.
type chooser interface {
	// fault says what becomes of a request: one of the options, of which the first is that all is well.
	fault(verb string, options []fault) fault
	// meanwhile says what else happens before a request arrives, if anything does. When that has happened, done is called.
	meanwhile(verb string, options func() []step) (step, bool)
	done()
}

// smooth lets nothing go wrong.
type smooth struct{}

func (smooth) fault(string, []fault) fault                  { return fine }
func (smooth) meanwhile(string, func() []step) (step, bool) { return step{}, false }
func (smooth) done()                                        {}

// dice choose at random.
type dice struct {
	*rand.Rand
	// faulty and busy are the chances of a fault and of something happening in between.
	faulty, busy float64
}

func (d dice) fault(_ string, options []fault) fault {
	if len(options) == 1 || d.Float64() >= d.faulty {
		return fine
	}
	return options[1+d.IntN(len(options)-1)]
}

func (d dice) meanwhile(_ string, options func() []step) (step, bool) {
	if d.Float64() >= d.busy {
		return step{}, false
	}
	if steps := options(); len(steps) > 0 {
		return d.pick(steps), true
	}
	return step{}, false
}

func (dice) done() {}

// weights say how likely a step is compared with others; 1 if it is not here.
var weights = [actionCount]int{
	seePodSet: 12, seePod: 16, reconcile: 20, land: 4, startPod: 4, bindPod: 4, runPod: 4, readyPod: 4, endPod: 5, collect: 4,
	pullPod: 4, createPodSet: 3, unlimitPods: 2,
}

func (s step) weight() int { return max(weights[s.action], 1) }

func (d dice) pick(steps []step) step {
	total := 0
	for _, s := range steps {
		total += s.weight()
	}
	n := d.IntN(total)
	for _, s := range steps {
		if n -= s.weight(); n < 0 {
			return d.size(s)
		}
	}
	panic("no step has any weight")
}

// size says how many events a view sees at once.
func (d dice) size(s step) step {
	if (s.action == seePod || s.action == seePodSet) && d.IntN(2) == 0 {
		s.n = int16(1 + d.IntN(4))
	}
	return s
}

// odometer makes the choices it is told, then the first option of each, and counts up to the next choices.
type odometer struct {
	choices, options []int
	used             int
}

func (o *odometer) choose(options int) int {
	if o.used == len(o.choices) {
		o.choices = append(o.choices, 0)
		o.options = append(o.options, options)
	}
	o.used++
	return o.choices[o.used-1]
}

// next turns to the next choices; it reports false if there are none.
func (o *odometer) next() bool {
	o.used = 0
	for i := len(o.choices) - 1; i >= 0; i-- {
		if o.choices[i]+1 < o.options[i] {
			o.choices[i]++
			o.choices, o.options = o.choices[:i+1], o.options[:i+1]
			return true
		}
	}
	return false
}

func (o *odometer) fault(_ string, options []fault) fault {
	if len(options) == 1 {
		return fine
	}
	return options[o.choose(len(options))]
}

func (o *odometer) meanwhile(_ string, options func() []step) (step, bool) {
	steps := options()
	if i := o.choose(len(steps) + 1); i > 0 {
		return steps[i-1], true
	}
	return step{}, false
}

func (*odometer) done() {}
