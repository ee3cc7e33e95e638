package main

import (
	"cmp"
	"math"
	"slices"
	"time"
)

// quantile returns the least of the sorted values that a share of them does not exceed.
func quantile[T cmp.Ordered](sorted []T, share float64) T {
	i := int(math.Ceil(share*float64(len(sorted)))) - 1
	return sorted[min(max(i, 0), len(sorted)-1)]
}

// spread is the median of some values, and the least and the greatest.
type spread struct{ median, least, greatest float64 }

func spreadOf(values []float64) spread {
	sorted := slices.Sorted(slices.Values(values))
	n := len(sorted)
	return spread{(sorted[(n-1)/2] + sorted[n/2]) / 2, sorted[0], sorted[n-1]}
}

// exponent returns the b of y = a * x^b that fits best: the slope of the least squares on logarithms.
func exponent(x, y []float64) float64 {
	var sumX, sumY, sumXX, sumXY float64
	for i := range x {
		logX, logY := math.Log(x[i]), math.Log(y[i])
		sumX += logX
		sumY += logY
		sumXX += logX * logX
		sumXY += logX * logY
	}
	n := float64(len(x))
	return (n*sumXY - sumX*sumY) / (n*sumXX - sumX*sumX)
}

func milliseconds(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }
