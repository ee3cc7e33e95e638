package main

import (
	"context"
	"encoding/xml"
	"errors"
	"io"
	"maps"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"example.com/podset-operator/test/localcluster"
)

// podsOfTest is enough for what a set costs only once not to matter much, such as the events of its first pods.
const podsOfTest = 500

// What one set costs up to so many pods and back, in requests and bytes: counts of the API server and of the store, no times.
func TestCostOfOneSet(t *testing.T) {
	if testing.Short() {
		t.Skip("starts a cluster")
	}
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	folder := t.TempDir()
	programs, err := buildPrograms(ctx, folder)
	if err != nil {
		t.Fatal(err)
	}
	b := &bench{programs: programs, commands: map[string]bool{}, say: t.Logf}
	b.settings.size = podsOfTest
	w, err := newWorld(ctx, programs, localcluster.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := w.close(); err != nil {
			t.Error(err)
		}
	})
	arm := armNamed(ours)
	if err := b.with(ctx, w, arm, func(c *controller) error {
		s, err := b.up(ctx, w, c, arm, scaleUp, 1, podsOfTest)
		if err != nil {
			return err
		}
		return b.down(ctx, w, c, arm, 1, s)
	}); err != nil {
		t.Fatal(err)
	}

	figure := func(scenario, metric string) float64 {
		value, _ := results(b.records).in(1, scenario, ours, metric)
		return value
	}
	atMost := func(scenario, metric string, limit float64) {
		t.Helper()
		if got := figure(scenario, metric); got > limit {
			t.Errorf("%s: %s = %.3f, want at most %.3f", scenario, metric, got, limit)
		}
	}
	for _, scenario := range []string{scaleUp, scaleDown} {
		atMost(scenario, tooMany, 0)
	}
	if got := figure(scaleUp, perPod(requestsOf, "POST pods")); got != 1 {
		t.Errorf("%v POSTs for each pod created, want 1", got)
	}
	if got := figure(scaleDown, perPod(requestsOf, "DELETE pods")); got != 1 {
		t.Errorf("%v DELETEs for each pod deleted, want 1", got)
	}
	atMost(scaleUp, perPod(requestsOf), requestsPerCreated)
	atMost(scaleDown, perPod(requestsOf), requestsPerDeleted)
	atMost(scaleUp, perPod(bytesOf), bytesPerCreated*figure(scaleUp, perPod(bytesOf, "pods")))
}

func TestExponent(t *testing.T) {
	x := []float64{250, 500, 1000, 2000, 4000}
	for power := range 3 {
		var y []float64
		for _, value := range x {
			y = append(y, 7*math.Pow(value, float64(power)))
		}
		if got := exponent(x, y); math.Abs(got-float64(power)) > 1e-9 {
			t.Errorf("exponent of x^%d = %v", power, got)
		}
	}
}

func TestQuantile(t *testing.T) {
	hundred := make([]int, 100)
	for i := range hundred {
		hundred[i] = i + 1
	}
	for share, want := range map[float64]int{0: 1, 0.5: 50, 0.99: 99, 1: 100} {
		if got := quantile(hundred, share); got != want {
			t.Errorf("quantile(1 … 100, %v) = %d, want %d", share, got, want)
		}
	}
}

func TestSpread(t *testing.T) {
	for text, values := range map[string][]float64{
		"2":         {2, 2},
		"2 (1–9)":   {9, 1, 2},
		"1.5 (1–2)": {2, 1},
	} {
		if got := spreadOf(values).String(); got != text {
			t.Errorf("spread of %v = %s, want %s", values, got, text)
		}
	}
}

func TestParseKeepsNamedFamilies(t *testing.T) {
	text := `# HELP other of no interest
# TYPE other counter
other 5
# HELP apiserver_request_total counter
# TYPE apiserver_request_total counter
apiserver_request_total{resource="pods",verb="POST"} 7
`
	families, err := parse(strings.NewReader(text), "apiserver_request_total")
	if err != nil {
		t.Fatal(err)
	}
	if names := slices.Collect(maps.Keys(families)); len(names) != 1 {
		t.Fatalf("families = %v, want one", names)
	}
	if got := families["apiserver_request_total"].GetMetric()[0].GetCounter().GetValue(); got != 7 {
		t.Errorf("value = %v, want 7", got)
	}
}

func TestBarsAreJudgedByTheMedianOfTheBlocks(t *testing.T) {
	var r results
	for block, rates := range [][2]float64{{90, 100}, {50, 100}, {95, 100}} {
		r = append(r,
			record{scaleUp, block + 1, ours, 1000, rate, rates[0]},
			record{scaleUp, block + 1, rawSequential, 1000, rate, rates[1]})
	}
	values := r.values(bars[0].quantity)
	if want := []float64{0.9, 0.5, 0.95}; !slices.Equal(values, want) {
		t.Fatalf("ratios = %v, want %v", values, want)
	}
	if !bars[0].isMet(spreadOf(values).median) {
		t.Errorf("%+v is not met by %v", bars[0].wanted(), values)
	}
}

func TestChartsAreWellFormed(t *testing.T) {
	for _, greatest := range []float64{0, 3, 4000} {
		c := chart{title: "pods/s & more", rows: []chartRow{{"A0", []float64{2, 3}}, {"<ours>", []float64{greatest}}}}
		decoder := xml.NewDecoder(strings.NewReader(c.svg()))
		for {
			if _, err := decoder.Token(); errors.Is(err, io.EOF) {
				break
			} else if err != nil {
				t.Fatalf("%v in\n%s", err, c.svg())
			}
		}
	}
}
