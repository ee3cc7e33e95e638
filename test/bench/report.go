package main

import (
	"encoding/csv"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// The files that a run leaves.
const (
	reportFile = "README.md"
	tableFile  = "results.csv"
)

// write leaves the report, the figures and the charts in the folder of the settings.
func (b *bench) write(facts facts) error {
	if err := os.MkdirAll(b.settings.out, 0o755); err != nil {
		return err
	}
	if err := b.writeTable(filepath.Join(b.settings.out, tableFile)); err != nil {
		return err
	}
	var text strings.Builder
	put := func(format string, arguments ...any) { fmt.Fprintf(&text, format+"\n", arguments...) }
	put("# Benchmarks\n")
	put("Written by `make bench`; what is measured and how is told in [test/bench](../../test/bench/doc.go). All arms ran in this one run,")
	put("in blocks, in random order within each; figures of different runs are not comparable. Medians over %d blocks, with the least and",
		b.settings.blocks)
	put("the greatest in brackets. Every single figure is in [%s](%s).\n", tableFile, tableFile)
	b.writeBars(put)
	put("\n## Arms\n\n| arm | what it is |\n|---|---|")
	for _, arm := range arms {
		put("| %s | %s |", arm.name, arm.what)
	}
	if err := b.writeScenarios(put); err != nil {
		return err
	}
	put("\n## Machine\n\n| what | |\n|---|---|")
	for _, fact := range facts {
		put("| %s | %s |", fact.what, fact.value)
	}
	put("\n## Commands\n\n    %s\n\nwhich has started, with free ports and folders of its own:\n", b.settings.command())
	for _, command := range sortedKeys(b.commands) {
		put("    %s", command)
	}
	return os.WriteFile(filepath.Join(b.settings.out, reportFile), []byte(text.String()), 0o644)
}

func (b *bench) writeTable(path string) (err error) {
	file, err := os.Create(path)
	if err != nil {
		return err
	}
	lines := csv.NewWriter(file)
	_ = lines.Write([]string{"scenario", "block", "arm", "pods", "metric", "value"})
	for _, r := range b.records {
		value := strconv.FormatFloat(r.value, 'g', 6, 64)
		_ = lines.Write([]string{r.scenario, strconv.Itoa(r.block), r.arm, strconv.Itoa(r.pods), r.metric, value})
	}
	lines.Flush()
	if err := lines.Error(); err != nil {
		return err
	}
	return file.Close()
}

// writeBars compares the figures with the bars; a bar whose scenario has not run is not met.
func (b *bench) writeBars(put func(string, ...any)) {
	put("| bar | wanted | median (range) | |\n|---|---|---|---|")
	for _, bar := range bars {
		values := results(b.records).values(bar.quantity)
		if len(values) == 0 {
			put("| %s | %s | not measured | |", bar.what, bar.wanted())
			continue
		}
		verdict := "met"
		if spread := spreadOf(values); !bar.isMet(spread.median) {
			verdict = "**not met**"
		}
		put("| %s | %s | %s | %s |", bar.what, bar.wanted(), spreadOf(values), verdict)
	}
}

// charts are the metrics that are drawn, by scenario.
var charts = map[string][]string{
	scaleUp:        {rate, perPod(requestsOf), perPod(bytesOf), cpu},
	scaleDown:      {rate, perPod(requestsOf), cpu},
	"many-sets":    {rate, perPod(requestsOf), cpu},
	"replacement":  {median, slowest},
	"large-set":    {rate, perPod(bytesOf), cpu},
	"growth":       {cpu, perPod(bytesOf)},
	"foreign-pods": {rss},
}

// writeScenarios writes a table for each part of a scenario: a row for each metric, a column for each arm and number of pods.
func (b *bench) writeScenarios(put func(string, ...any)) error {
	for _, part := range unique(b.records, func(r record) string { return r.scenario }) {
		records := slices.DeleteFunc(slices.Clone(b.records), func(r record) bool { return r.scenario != part })
		columns := unique(records, columnOf)
		slices.SortFunc(columns, func(a, b column) int {
			if a.arm != b.arm {
				return armIndex(a.arm) - armIndex(b.arm)
			}
			return a.pods - b.pods
		})
		put("\n## %s\n\n%s", part, describe(part))
		row := func(first string, cell func(column) string) {
			cells := []string{first}
			for _, column := range columns {
				cells = append(cells, cell(column))
			}
			put("| %s |", strings.Join(cells, " | "))
		}
		row("", func(c column) string { return fmt.Sprintf("%s, %d pods", c.arm, c.pods) })
		row("---", func(column) string { return "---" })
		metrics := unique(records, func(r record) string { return r.metric })
		slices.Sort(metrics)
		for _, metric := range metrics {
			row(metric, func(c column) string {
				values := valuesOf(records, c, metric)
				if len(values) == 0 {
					return ""
				}
				return spreadOf(values).String()
			})
		}
		for _, metric := range charts[part] {
			name := strings.NewReplacer(" ", "-", "/", "-per-").Replace(part+" "+metric) + ".svg"
			drawn := chart{title: fmt.Sprintf("%s: %s", part, metric)}
			for _, c := range columns {
				if values := valuesOf(records, c, metric); len(values) > 0 {
					drawn.rows = append(drawn.rows, chartRow{fmt.Sprintf("%s, %d pods", c.arm, c.pods), values})
				}
			}
			if len(drawn.rows) == 0 {
				continue
			}
			if err := os.WriteFile(filepath.Join(b.settings.out, name), []byte(drawn.svg()), 0o644); err != nil {
				return err
			}
			put("\n![%s](%s)", drawn.title, name)
		}
	}
	return nil
}

// column is an arm at a number of pods.
type column struct {
	arm  string
	pods int
}

func columnOf(r record) column { return column{r.arm, r.pods} }

func valuesOf(records []record, c column, metric string) []float64 {
	var values []float64
	for _, r := range records {
		if columnOf(r) == c && r.metric == metric {
			values = append(values, r.value)
		}
	}
	return values
}

func armIndex(name string) int {
	return slices.IndexFunc(arms, func(arm arm) bool { return arm.name == name })
}

// describe returns what the scenario is that a part belongs to.
func describe(part string) string {
	for _, scenario := range scenarios {
		if strings.HasPrefix(part, scenario.name) {
			return strings.ToUpper(scenario.what[:1]) + scenario.what[1:] + ".\n"
		}
	}
	return ""
}

// unique returns the different values of what is asked of records, in order.
func unique[T comparable](records []record, of func(record) T) []T {
	var values []T
	for _, r := range records {
		if value := of(r); !slices.Contains(values, value) {
			values = append(values, value)
		}
	}
	return values
}

// String is the median, and the range if there is one.
func (s spread) String() string {
	if s.least == s.greatest {
		return short(s.median)
	}
	return fmt.Sprintf("%s (%s–%s)", short(s.median), short(s.least), short(s.greatest))
}

// short writes a number with three digits, or all that are before the point.
func short(x float64) string {
	if x == 0 || math.IsInf(x, 0) || math.IsNaN(x) {
		return strconv.FormatFloat(x, 'f', 0, 64)
	}
	digits := max(0, 2-int(math.Floor(math.Log10(math.Abs(x)))))
	text := strconv.FormatFloat(x, 'f', digits, 64)
	if strings.Contains(text, ".") {
		text = strings.TrimRight(strings.TrimRight(text, "0"), ".")
	}
	return text
}

// summary names the figures that tell most.
func summary(values map[string]float64) string {
	var parts []string
	for _, metric := range sortedKeys(values) {
		if !strings.Contains(metric, "/pod,") {
			parts = append(parts, metric+" "+short(values[metric]))
		}
	}
	return strings.Join(parts, "; ")
}
