package main

import (
	"bufio"
	"bytes"
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"math"
	"net/http"
	"strings"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
	"k8s.io/client-go/rest"
)

// requests are how many requests were answered, by verb and resource, such as "PUT podsets/status".
type requests map[string]float64

func (r requests) minus(before requests) requests {
	difference := requests{}
	for what, now := range r {
		if now != before[what] {
			difference[what] = now - before[what]
		}
	}
	return difference
}

func (r requests) total() float64 {
	sum := 0.0
	for _, n := range r {
		sum += n
	}
	return sum
}

// requestsServed returns what an API server has counted of the resources that the arms work with.
func requestsServed(ctx context.Context, server rest.Interface) (requests, error) {
	text, err := server.Get().AbsPath("/metrics").DoRaw(ctx)
	if err != nil {
		return nil, fmt.Errorf("reading the metrics of the API server: %w", err)
	}
	families, err := parse(bytes.NewReader(text), "apiserver_request_total")
	if err != nil {
		return nil, err
	}
	served := requests{}
	for _, metric := range families["apiserver_request_total"].GetMetric() {
		label := labels(metric)
		switch label["resource"] {
		case "pods", "podsets", "replicasets", "events":
			resource := strings.TrimSuffix(label["resource"]+"/"+label["subresource"], "/")
			served[label["verb"]+" "+resource] += metric.GetCounter().GetValue()
		}
	}
	return served, nil
}

// parse reads the named families. Whole lines are left out before, since an API server has megabytes of others.
func parse(text io.Reader, names ...string) (map[string]*dto.MetricFamily, error) {
	var kept bytes.Buffer
	lines := bufio.NewScanner(text)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		for _, name := range names {
			if strings.HasPrefix(strings.TrimPrefix(lines.Text(), "# TYPE "), name) {
				kept.Write(lines.Bytes())
				kept.WriteByte('\n')
			}
		}
	}
	if err := lines.Err(); err != nil {
		return nil, fmt.Errorf("reading metrics: %w", err)
	}
	parser := expfmt.NewTextParser(model.UTF8Validation)
	families, err := parser.TextToMetricFamilies(&kept)
	if err != nil {
		return nil, fmt.Errorf("reading metrics: %w", err)
	}
	return families, nil
}

func labels(metric *dto.Metric) map[string]string {
	labels := map[string]string{}
	for _, pair := range metric.GetLabel() {
		labels[pair.GetName()] = pair.GetValue()
	}
	return labels
}

// durations is a histogram of seconds.
type durations struct {
	count, sum float64
	buckets    map[float64]float64 // how many took at most so long
}

const (
	queueTime = "workqueue_queue_duration_seconds"
	workTime  = "workqueue_work_duration_seconds"
)

// queueTimes returns, by metric, how long the work of one controller waited and took.
func queueTimes(ctx context.Context, url, queue string) (map[string]durations, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return nil, err
	}
	response, err := insecure.Do(request)
	if err != nil {
		return nil, fmt.Errorf("reading the metrics of a controller: %w", err)
	}
	defer func() { _ = response.Body.Close() }()
	if response.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("reading the metrics of a controller: %s", response.Status)
	}
	families, err := parse(response.Body, queueTime, workTime)
	if err != nil {
		return nil, err
	}
	times := map[string]durations{}
	for name, family := range families {
		for _, metric := range family.GetMetric() {
			if labels(metric)["name"] != queue {
				continue
			}
			h := metric.GetHistogram()
			d := durations{count: float64(h.GetSampleCount()), sum: h.GetSampleSum(), buckets: map[float64]float64{}}
			for _, bucket := range h.GetBucket() {
				d.buckets[bucket.GetUpperBound()] = float64(bucket.GetCumulativeCount())
			}
			times[name] = d
		}
	}
	return times, nil
}

// insecure talks to controllers on loopback, whose certificates nobody has signed.
var insecure = &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}}

func (d durations) minus(before durations) durations {
	difference := durations{d.count - before.count, d.sum - before.sum, map[float64]float64{}}
	for bound, n := range d.buckets {
		difference.buckets[bound] = n - before.buckets[bound]
	}
	return difference
}

func (d durations) mean() float64 { return d.sum / d.count }

// atMost returns the lowest bound of a bucket that a share of the durations keeps.
func (d durations) atMost(share float64) float64 {
	lowest := math.Inf(1)
	for bound, n := range d.buckets {
		if n >= share*d.count {
			lowest = min(lowest, bound)
		}
	}
	return lowest
}
