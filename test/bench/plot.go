package main

import (
	"fmt"
	"html"
	"math"
	"slices"
	"strings"
)

// chart shows one metric, a row for each label, with a dot for each block and a line at the median.
type chart struct {
	title string
	rows  []chartRow
}

type chartRow struct {
	label  string
	values []float64
}

// Sizes in the units of the picture.
const (
	chartWidth  = 720
	labelWidth  = 190
	valueWidth  = 90
	rowHeight   = 26
	titleHeight = 40
	axisHeight  = 28
)

// svg draws the chart. The scale is logarithmic if the greatest value is more than twenty times the least.
func (c chart) svg() string {
	var values []float64
	for _, row := range c.rows {
		values = append(values, row.values...)
	}
	s := newScale(slices.Min(values), slices.Max(values))
	height := titleHeight + rowHeight*len(c.rows) + axisHeight
	var out strings.Builder
	put := func(format string, arguments ...any) { fmt.Fprintf(&out, format+"\n", arguments...) }
	put(`<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" font-family="sans-serif" font-size="13">`, chartWidth, height)
	put(`<rect width="100%%" height="100%%" fill="white"/>`)
	put(`<text x="10" y="22" font-size="15">%s</text>`, html.EscapeString(c.title))
	bottom := titleHeight + rowHeight*len(c.rows)
	for _, tick := range s.ticks() {
		x := s.position(tick)
		put(`<line x1="%.1f" y1="%d" x2="%.1f" y2="%d" stroke="#ddd"/>`, x, titleHeight, x, bottom)
		put(`<text x="%.1f" y="%d" text-anchor="middle" fill="#555">%s</text>`, x, bottom+18, short(tick))
	}
	for i, row := range c.rows {
		y := titleHeight + rowHeight*i + rowHeight/2
		middle := spreadOf(row.values).median
		put(`<text x="10" y="%d">%s</text>`, y+4, html.EscapeString(row.label))
		put(`<line x1="%.1f" y1="%d" x2="%.1f" y2="%d" stroke="#4878a8" stroke-width="8" stroke-opacity="0.35"/>`,
			s.position(s.least), y, s.position(middle), y)
		for _, value := range row.values {
			put(`<circle cx="%.1f" cy="%d" r="4" fill="#4878a8"/>`, s.position(value), y)
		}
		put(`<text x="%d" y="%d" text-anchor="end">%s</text>`, chartWidth-10, y+4, short(middle))
	}
	put(`</svg>`)
	return out.String()
}

// scale places values between the labels and the medians.
type scale struct {
	least, greatest float64
	logarithmic     bool
}

func newScale(least, greatest float64) scale {
	if least > 0 && greatest > 20*least {
		return scale{math.Pow(10, math.Floor(math.Log10(least))), greatest, true}
	}
	return scale{0, max(greatest, 1e-9), false}
}

func (s scale) position(value float64) float64 {
	share := (value - s.least) / (s.greatest - s.least)
	if s.logarithmic {
		share = math.Log(value/s.least) / math.Log(s.greatest/s.least)
	}
	return labelWidth + share*(chartWidth-labelWidth-valueWidth)
}

// ticks are the values that the axis tells.
func (s scale) ticks() []float64 {
	var ticks []float64
	if s.logarithmic {
		for tick := s.least; tick <= s.greatest; tick *= 10 {
			ticks = append(ticks, tick)
		}
		return ticks
	}
	step := math.Pow(10, math.Floor(math.Log10(s.greatest)))
	if s.greatest/step < 3 {
		step /= 2
	}
	for tick := 0.0; tick <= s.greatest; tick += step {
		ticks = append(ticks, tick)
	}
	return ticks
}
