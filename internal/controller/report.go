package controller

import (
	"context"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"

	"example.com/podset-operator/internal/podset"
)

// report writes the status that the observation amounts to, unless it is what the PodSet says already. It is an update
// of the whole status, not a patch, so that counts of zero are there too; its resource version keeps an older
// observation from replacing a newer one.
func (r *Reconciler) report(ctx context.Context, o podset.Observation, m *memory) (time.Duration, error) {
	status := podset.Status(o)
	if equality.Semantic.DeepEqual(o.PodSet.Status, status) {
		return 0, nil
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
	m.statusWritten = updated.ResourceVersion
	return 0, nil
}
