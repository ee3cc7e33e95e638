// Package faults runs the manager's binary against a real control plane and lets everything fail: a proxy between the two
// drops, delays, repeats late and refuses requests and breaks watches; the manager, the API server and etcd are killed or
// stopped in the middle of what they do. An observer reads every revision of the pods and PodSets from etcd itself, from
// the first one, and what the manager wrote is in the proxy's record. Both are judged afterwards, by rules that share no
// code with the decision.
//
//	proxy.go    the faults, and the record of what the manager wrote
//	history.go  the revisions of the store
//	judge.go    the safety promises S1 to S4 and S6, on every revision
//	users.go    what users do meanwhile
//
// One reconcile is not told from the next from outside: S5 is for the exploration alone.
package faults
