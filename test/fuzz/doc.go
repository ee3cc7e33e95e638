// Package fuzz feeds the pure part of the operator, and the CustomResourceDefinition, with inputs made from arbitrary
// bytes, and judges what comes out by rules that share no code with it.
//
//	observation.go         from bytes to a PodSet and its pods
//	crd.go                 what the API server does with a PodSet by the CustomResourceDefinition
//	decide_fuzz_test.go    every step is justified, and steps lead to the spec
//	status_fuzz_test.go    the status is true, stable, and one that the API server takes
//	spec_fuzz_test.go      whatever the API server takes can be worked with
//
// Every run of the tests tries some hundred inputs; `go test -fuzz` looks for more, and keeps one that fails in testdata.
package fuzz
