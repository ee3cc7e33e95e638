package sim

import "time"

// exploration visits every state that a setup can come to.
type exploration struct {
	setup setup
	// limit is how many different states are visited at most; until is when to stop.
	limit int
	until time.Time

	states, transitions, settled, depth int
	// complete is set when there were no more states within the limits.
	complete bool
	// failed is the world in which a promise is broken, if there is one, and failure says which.
	failed  *world
	failure error
}

// frame is a state whose successors are being visited.
type frame struct {
	world *world
	steps []step
	inner odometer
}

// settleEvery is how often a new state is checked for what becomes of it when the faults end: one in so many.
const settleEvery = 64

// run visits states depth first. Each state is a copy of its own, so that going back costs nothing; only hashes of those
// that are done with are kept.
func (x *exploration) run() {
	seen := map[uint64]struct{}{}
	var e encoder
	var stack []*frame
	visit := func(w *world) bool {
		hash := e.hash(w)
		if _, known := seen[hash]; known {
			return true
		}
		seen[hash] = struct{}{}
		x.states++
		w.forget()
		stack = append(stack, &frame{world: w, steps: w.steps()})
		x.depth = max(x.depth, len(stack))
		if x.states%settleEvery == 0 {
			return x.settle(w)
		}
		return true
	}
	if !visit(newWorld(x.setup, smooth{})) {
		return
	}
	for len(stack) > 0 {
		if x.states >= x.limit || x.states%256 == 0 && time.Now().After(x.until) {
			return
		}
		f := stack[len(stack)-1]
		if len(f.steps) == 0 {
			stack = stack[:len(stack)-1]
			continue
		}
		next := f.world.clone(&f.inner)
		next.do(f.steps[0])
		x.transitions++
		if next.oracle.broken != nil {
			x.failed, x.failure = next, next.oracle.broken
			return
		}
		if !f.inner.next() {
			f.steps, f.inner = f.steps[1:], odometer{}
		}
		if !visit(next) {
			return
		}
	}
	x.complete = true
}

// settle checks what becomes of a state when the faults end. It reports false if that breaks a promise.
func (x *exploration) settle(w *world) bool {
	x.settled++
	c := w.clone(smooth{})
	if err := c.end(); err != nil {
		x.failed, x.failure = w, err
		return false
	}
	return true
}
