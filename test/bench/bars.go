package main

import "slices"

// results finds values among records.
type results []record

// in returns a value of one block, and whether there is one.
func (f results) in(block int, scenario, arm, metric string) (float64, bool) {
	i := slices.IndexFunc(f, func(r record) bool {
		return r.block == block && r.scenario == scenario && r.arm == arm && r.metric == metric
	})
	if i < 0 {
		return 0, false
	}
	return f[i].value, true
}

// of returns the records of a scenario, arm and metric.
func (f results) of(scenario, arm, metric string) results {
	return slices.DeleteFunc(slices.Clone(f), func(r record) bool {
		return r.scenario != scenario || r.arm != arm || r.metric != metric
	})
}

func (f results) blocks() []int {
	var blocks []int
	for _, r := range f {
		blocks = append(blocks, r.block)
	}
	slices.Sort(blocks)
	return slices.Compact(blocks)
}

// values returns a quantity of each block that has it.
func (f results) values(quantity quantity) []float64 {
	var values []float64
	for _, block := range f.blocks() {
		if value, ok := quantity(f, block); ok {
			values = append(values, value)
		}
	}
	return values
}

// quantity is something that follows from the figures of one block.
type quantity func(f results, block int) (value float64, ok bool)

func value(scenario, arm, metric string) quantity {
	return func(f results, block int) (float64, bool) { return f.in(block, scenario, arm, metric) }
}

func ratio(dividend, divisor quantity) quantity {
	return func(f results, block int) (float64, bool) {
		a, okA := dividend(f, block)
		b, okB := divisor(f, block)
		return a / b, okA && okB && b != 0
	}
}

// rates compares the pods per second of ours with those of another arm.
func rates(scenario, arm string) quantity {
	return ratio(value(scenario, ours, rate), value(scenario, arm, rate))
}

// growthOf returns the exponent by which a metric, per pod, grows over the numbers of pods of a scenario, in all.
func growthOf(arm, metric string) quantity {
	return func(f results, block int) (float64, bool) {
		var pods, sums []float64
		for _, r := range f.of("growth", arm, metric) {
			if r.block == block && r.value > 0 {
				pods = append(pods, float64(r.pods))
				sums = append(sums, r.value*float64(r.pods))
			}
		}
		return exponent(pods, sums), len(pods) > 2
	}
}

// memoryPerForeign returns by how many MiB the memory of an arm grows with 10,000 foreign pods.
func memoryPerForeign(arm, metric string) quantity {
	return func(f results, block int) (float64, bool) {
		var of results
		for _, r := range f.of("foreign-pods", arm, metric) {
			if r.block == block {
				of = append(of, r)
			}
		}
		if len(of) < 2 {
			return 0, false
		}
		first, last := of[0], of[len(of)-1]
		return (last.value - first.value) / float64(last.pods-first.pods) * 10_000, true
	}
}

// bar is what the operator is to reach, by the median over the blocks.
type bar struct {
	what     string
	quantity quantity
	atLeast  bool // else at most
	limit    float64
}

func (b bar) isMet(median float64) bool {
	if b.atLeast {
		return median >= b.limit
	}
	return median <= b.limit
}

func (b bar) wanted() string {
	if b.atLeast {
		return "≥ " + short(b.limit)
	}
	return "≤ " + short(b.limit)
}

// The bars that do not depend on the machine: a test holds them up, too. bytesPerCreated counts in pods: 1 is the pod alone.
const (
	requestsPerCreated = 1.10
	requestsPerDeleted = 2.1
	bytesPerCreated    = 1.3
)

var bars = []bar{
	{"one set up: pods/s, against A0", rates(scaleUp, rawSequential), true, 0.9},
	{"one set up: pods/s, against B1", rates(scaleUp, limited), true, 6},
	{"one set up: pods/s, against P0", rates(scaleUp, plain), true, 3},
	{"one set down: pods/s, against A0", rates(scaleDown, rawSequential), true, 0.75},
	{"many sets: pods/s, against B2", rates("many-sets", unlimited), true, 0.9},
	{"one set up: requests per pod", value(scaleUp, ours, perPod(requestsOf)), false, requestsPerCreated},
	{"one set down: requests per pod", value(scaleDown, ours, perPod(requestsOf)), false, requestsPerDeleted},
	{
		"one set up: bytes to etcd, against the pods alone (A0)",
		ratio(value(scaleUp, ours, perPod(bytesOf)), value(scaleUp, rawSequential, perPod(bytesOf))), false, bytesPerCreated,
	},
	{"growth of CPU time with the pods of one set: exponent", growthOf(ours, cpu), false, 1.15},
	{"growth of bytes to etcd with the pods of one set: exponent", growthOf(ours, perPod(bytesOf)), false, 1.15},
	{
		"replacement of a pod: p50, against one POST (A0)",
		ratio(value("replacement", ours, median), value("replacement", rawSequential, median)), false, 3,
	},
	{
		"replacement of a pod: p99, against one POST (A0)",
		ratio(value("replacement", ours, slowest), value("replacement", rawSequential, slowest)), false, 10,
	},
	{"RSS: MiB per 10,000 foreign pods", memoryPerForeign(ours, rss), false, 1},
	{"restart with settled sets: writes", value("restart", ours, writes), false, 0},
	{
		"restart with settled sets: time to ready, against listing them",
		ratio(value("restart", ours, "ready ms"), value("restart", ours, "listing ms")), false, 2,
	},
	{"idle for a minute: requests but watches and the lease", value("idle", ours, unexpected), false, 0},
	{"pods too many, at any revision", mostTooMany, false, 0},
}

func mostTooMany(f results, block int) (float64, bool) {
	most, found := 0.0, false
	for _, r := range f {
		if r.block == block && r.arm == ours && r.metric == tooMany {
			most, found = max(most, r.value), true
		}
	}
	return most, found
}
