// Package podset decides what to do for a PodSet. It is pure: it sees values (the PodSet, its pods, the time) and
// returns values (one step, one status), and knows no client, context, clock or logger.
//
// A pod of a PodSet is in exactly one of these states:
//
//	state       | is                               | counts towards replicas                     | may be deleted
//	------------|----------------------------------|---------------------------------------------|----------------------
//	active      | neither deleted nor ended        | yes                                         | for a scale-down
//	terminating | deleted, has not ended           | only while replacements wait for its end    | no
//	finished    | ended, not deleted               | no                                          | by the history limit
//	going       | deleted and ended                | no                                          | no
//
// Deleted means that the pod has a deletion timestamp, ended that its phase is Failed or Succeeded.
//
// Which pods are the PodSet's is told by the UID of their controller, never by name or label alone. An orphan, a pod
// that carries the PodSet's label and has no controller, is adopted when a pod is missing.
//
// The questions and the files that answer them:
//
//	what is the next step?                         decide.go
//	which state is a pod in?                       pods.go
//	what is a new pod called?                      names.go
//	what does a new pod look like?                 newpod.go
//	who is deleted first?                          deletion_order.go
//	which finished pods are kept?                  history.go
//	how are pods that keep failing slowed down?    backoff.go
//	what is reported?                              status.go, conditions.go
package podset
