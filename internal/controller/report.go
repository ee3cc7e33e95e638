package controller

import (
	"context"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"

	"example.com/podset-operator/internal/podset"
)

// reportEvery is how often numbers and names alone are written. A status holds the names of all pods: written for each pod
// that comes, it would make the scale of a large PodSet cost the square of its size.
const reportEvery = time.Second

// report writes the status that the observation amounts to, unless it is what the PodSet says already. If it says another
// thing, and not only other numbers, it is written at once. It is an update of the whole status, not a patch, so that
// counts of zero are there too; its resource version keeps an older observation from replacing a newer one.
func (r *Reconciler) report(ctx context.Context, o podset.Observation, m *memory) (time.Duration, error) {
	wait := m.reported.Add(reportEvery).Sub(r.Clock.Now())
	mayWait := wait > 0 && podset.VerdictStands(o)
	if mayWait && !podset.NumbersStand(o) {
		return wait, nil // without putting all names in order
	}
	status := podset.Status(o)
	switch {
	case equality.Semantic.DeepEqual(o.PodSet.Status, status):
		return 0, nil
	case mayWait:
		return wait, nil
	}
	updated := o.PodSet.DeepCopy()
	updated.Status = status
	if err := r.Client.Status().Update(ctx, updated); err != nil {
		after, err := retry(err)
		if err != nil {
			return 0, fmt.Errorf("writing the status: %w", err)
		}
		return after, nil
	}
	m.statusWritten, m.reported = updated.ResourceVersion, r.Clock.Now()
	return 0, nil
}
