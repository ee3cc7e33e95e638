package sim

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"example.com/podset-operator/api/v1alpha1"
	"example.com/podset-operator/internal/controller"
)

// maxPodSets is how many PodSets there are at most.
const maxPodSets = 2

var podSetNames = []string{"web", "api"}

// start is when every run begins.
var start = time.Date(2030, time.January, 2, 12, 0, 0, 0, time.UTC)

// setup is where a run starts from and what may happen in it. It holds plain values only, so that a replay can be printed
// with it.
type setup struct {
	// Managers run at the same time, the second one as a leader that was replaced and does not know.
	Managers int
	// Leases lets only one of them lead at a time. One that was paused while the other took over does one more reconcile
	// before it notices.
	Leases bool
	// PodSets is how many PodSets there are, Replicas what each asks for at first, MaxReplicas what it may be scaled to.
	PodSets, Replicas, MaxReplicas int
	TerminationComplete            bool
	// GivesUp lets roll-outs remove a pod before its replacement is there, instead of making one beside.
	GivesUp                       bool
	HistoryLimit, MinReadyMinutes int
	// PodFinalizer puts a finalizer on every pod, which somebody removes at some time after the deletion.
	PodFinalizer bool
	// Existing are pods that exist, run and are in every view at the start.
	Existing int
	// FineSteps lets pods be scheduled, run and become ready one after the other, instead of at once.
	FineSteps bool
	// Asleep leaves out that pods start; those that exist at the start run.
	Asleep bool
	// MaxLag is by how many events a view may be behind, if it is not 0: then nothing else happens before it sees one. Two
	// managers of which one sees nothing can change pods for ever, which makes more states than can be visited.
	MaxLag int
	// FaultKinds are the faults that may happen, as bits.
	FaultKinds faultSet
	// Soon lets the end take only seconds after the last fault, as is right if nothing failed often.
	Soon bool

	Budget budget
}

// String returns the setup as Go source, without what is zero.
func (s setup) String() string {
	return "setup" + literal(reflect.ValueOf(s))
}

func literal(v reflect.Value) string {
	var fields []string
	for i := range v.NumField() {
		field, name := v.Field(i), v.Type().Field(i).Name
		switch {
		case field.IsZero():
		case field.Kind() == reflect.Struct:
			fields = append(fields, name+": "+field.Type().Name()+literal(field))
		default:
			fields = append(fields, fmt.Sprintf("%s: %v", name, field.Interface()))
		}
	}
	return "{" + strings.Join(fields, ", ") + "}"
}

// faultSet has a bit for each kind of fault.
type faultSet uint16

func faultsOf(kinds ...fault) faultSet {
	var set faultSet
	for _, kind := range kinds {
		set |= 1 << kind
	}
	return set
}

func (s faultSet) has(f fault) bool { return s&(1<<f) != 0 }

// budget is how often things may still happen that happen of nobody's need.
type budget struct {
	Faults, Meanwhiles, Restarts, Relists                   int8
	Scales, PodDeletes, PodSetDeletes, PodSetCreates        int8
	Orphanings, Foregrounds                                 int8
	Strangers, Releases, Steals, Unlabels, Marks, Orphans   int8
	Failures, Unreadies, Minutes, Quotas, BadSpecs, Closing int8
	NewSpecs                                                int8
}

// world is everything: the API server, the managers, what is under way, what may still happen, and what must hold.
type world struct {
	setup    setup
	left     budget
	now      time.Time
	server   *server
	managers []*manager
	late     []request
	chooser  chooser
	oracle   oracle
	gaps     gaps
	// faults is how many faults there were.
	faults int
	// trail is all that was done, level how deep it is in now: a reconcile may be in the middle of another one.
	trail *trail
	level int
	// leader is the number of the manager that leads, lastAct when it last did something.
	leader  int
	lastAct time.Time
	// settling is set when no more faults are to happen.
	settling bool
}

func newWorld(s setup, chooser chooser) *world {
	w := &world{setup: s, left: s.Budget, now: start, lastAct: start, server: newServer(start), chooser: chooser, gaps: knownGaps}
	// A second manager that believes it leads is a fault by itself.
	w.faults = s.Managers - 1
	w.server.committed = w.judgeRevision
	for _, name := range podSetNames[:s.PodSets] {
		podSet, err := w.server.createPodSet(w.newPodSet(name, s.Replicas))
		if err != nil {
			panic(err)
		}
		for range s.Existing {
			pod, err := w.server.createPod(nextPod(podSet, w.server.last().pods))
			if err != nil {
				panic(err)
			}
			w.server.changePod(pod, func(p *corev1.Pod) { w.makeReady(p) })
		}
	}
	for i := range s.Managers {
		m := &manager{number: i, reconciler: &controller.Reconciler{}}
		w.restart(m, w.server.lastIndex(), w.server.lastIndex())
		w.managers = append(w.managers, m)
	}
	w.forget()
	return w
}

func (w *world) newPodSet(name string, replicas int) *v1alpha1.PodSet {
	podSet := &v1alpha1.PodSet{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name},
		Spec: v1alpha1.PodSetSpec{
			Replicas:               new(int32(replicas)),
			MinReadySeconds:        int32(60 * w.setup.MinReadyMinutes),
			FailedPodsHistoryLimit: new(int32(w.setup.HistoryLimit)),
			Template:               w.template(goodImage),
		},
	}
	if w.setup.GivesUp {
		podSet.Spec.UpdateStrategy.RollingUpdate = &v1alpha1.RollingUpdateBudgets{
			MaxUnavailable: new(intstr.FromInt32(1)), MaxSurge: new(intstr.FromInt32(0)),
		}
	}
	if w.setup.TerminationComplete {
		podSet.Spec.PodReplacementPolicy = v1alpha1.TerminationComplete
	}
	return podSet
}

const (
	goodImage  = "good"
	otherImage = "other"
	finalizer  = "example.com/wait"
)

// template returns a template, or nil where the default one will do. Without an image the server refuses its pods.
func (w *world) template(image string) *corev1.PodTemplateSpec {
	if image == goodImage && !w.setup.PodFinalizer {
		return nil
	}
	template := &corev1.PodTemplateSpec{Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "main", Image: image}}}}
	if w.setup.PodFinalizer {
		template.Finalizers = []string{finalizer}
	}
	return template
}

// clone returns a copy that goes its own way from here.
func (w *world) clone(chooser chooser) *world {
	c := *w
	c.chooser = chooser
	c.server = w.server.clone()
	c.server.committed = c.judgeRevision
	c.oracle = w.oracle.clone()
	c.late = slices.Clip(w.late)
	c.managers = make([]*manager, len(w.managers))
	for i, m := range w.managers {
		c.managers[i] = new(*m)
	}
	return &c
}

// choose lets the chooser say what becomes of a request.
func (w *world) choose(verb string, write bool) fault {
	if w.settling || w.left.Faults == 0 {
		return fine
	}
	options := make([]fault, 1, faultCount)
	options[0] = fine
	for f := fine + 1; f < faultCount; f++ {
		if w.setup.FaultKinds.has(f) && (write || !f.onlyWrites()) {
			options = append(options, f)
		}
	}
	chosen := w.chooser.fault(verb, options)
	if chosen != fine {
		w.left.Faults--
		w.faults++
		w.note(trail{verb: verb, fault: chosen})
	}
	return chosen
}

// meanwhile lets others act between two requests of a reconcile.
func (r *run) meanwhile(verb string) {
	w := r.world
	for !w.settling && w.left.Meanwhiles > 0 {
		step, happens := w.chooser.meanwhile(verb, func() []step { return w.stepsOfOthers(r.manager) })
		if !happens {
			return
		}
		w.left.Meanwhiles--
		w.note(trail{verb: verb})
		w.level++
		w.do(step)
		w.level--
		w.chooser.done()
	}
}

// forget drops what no view will look at any more.
func (w *world) forget() {
	oldest := w.server.lastIndex()
	for _, m := range w.managers {
		oldest = min(oldest, m.pods.index, m.podSets.index)
	}
	w.server.forgetBefore(oldest)
}
