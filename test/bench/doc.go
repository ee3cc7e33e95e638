// Command bench measures the operator beside other ways to get and keep pods: a bare client, ReplicaSets, and a PodSet
// operator as a tutorial has it. It runs all of them, the arms, against one API server of a local cluster with etcd on
// disk, one at a time, in blocks and in random order within each, and leaves a report, a table of all figures and charts.
// Nodes there are none: pods stay Pending, and are gone as soon as they are deleted.
//
//	arms.go       what is compared, and how each is started
//	scenarios.go  what the arms are put through
//	measure.go    what is measured of each: which figures there are
//	observer.go   pods at every revision of the store, and the bytes written
//	metrics.go    requests, by the API server's count; work queues, by the controllers'
//	audit.go      requests of the manager alone, where the API server's own must be told from them
//	process.go    processor time and memory
//	bars.go       what the operator is to reach
//	report.go     the report; plot.go its charts, facts.go the machine
//	plain         the tutorial's operator
//
// How the figures come about:
//
//   - A controller is a new process each time. Before it is measured it serves a set of one pod.
//   - pods/s counts from just before the user's request until the last pod has come or gone in the store, seen by a
//     watch of etcd itself.
//   - Requests are the difference of apiserver_request_total over pods, PodSets, ReplicaSets and events, until nothing
//     has been written for two seconds, less the one by which the user makes or scales the set. A watch is counted there
//     when it ends.
//   - Bytes to etcd are the sizes of all values written of these resources, keys left out, as the watch shows them.
//   - CPU is user and system time of the controller's process, in steps of 10 ms; the peak RSS is the kernel's VmHWM.
//   - Pods too many are counted at each revision: by how many one set had more than asked for, those left out whose
//     deletion has begun.
//   - A replacement takes from the revision in which the deletion begins to that with the new pod.
//
// The raw arms create what the operator would create, by the same client library; before a deletion they read the PodSet,
// which the operator does for safety. Requests of ReplicaSets are an administrator's, so that they need no look-up of
// rights; those of the operator are its ServiceAccount's.
//
// In the environment, all optional: BENCH, a regular expression of scenarios; ARMS, one of arms; BLOCKS; SIZE, the number
// of pods that scenarios are scaled by; SEED, of the random order; OUT, the folder of the report; PROFILES, a folder for
// profiles of the manager's processor time.
package main
