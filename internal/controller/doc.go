// Package controller carries out what package podset decides. One reconcile observes a PodSet and its pods, decides on
// one step, takes it and reports what was observed; then it waits to be called again.
//
// The questions and the files that answer them:
//
//	what happens in a reconcile, and what starts one?     podset_controller.go
//	how current is what it sees of the pods?              pod_view.go, freshness.go
//	what does it remember between reconciles?             memory.go
//	how is a step taken, and what guards it?              act.go
//	how is the status written?                            report.go
//	what does an error of the API server mean?            errors.go
//	which events does the user see?                       events.go
package controller
