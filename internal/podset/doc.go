// Package podset decides what to do for a PodSet. It is pure: it sees values (the PodSet, its pods, the time) and
// returns values (one step, one status), and knows no client, context, clock or logger.
//
// A pod of a PodSet is in exactly one of these states:
//
//	state       | is                               | counts towards replicas                     | may be deleted
//	------------|----------------------------------|---------------------------------------------|----------------------
//	active      | neither deleted nor ended        | yes                                         | for a scale-down or a new template
//	terminating | deleted, has not ended           | only while replacements wait for its end    | no
//	finished    | ended, not deleted               | no                                          | by the history limit
//	going       | deleted and ended                | no                                          | no
//
// Deleted means that the pod has a deletion timestamp, ended that its phase is Failed or Succeeded.
//
// Which pods are the PodSet's is told by the UID of their controller, never by name or label alone. An orphan, a pod
// that carries the PodSet's label and has no controller, is adopted when a pod is missing. A pod that loses the label is
// released.
//
// An active pod is of the present template or an old one, and available or not. A roll-out follows from how many there
// are of each.
//
// The questions and the files that answer them:
//
//	what is the next step?                         decide.go
//	which state is a pod in?                       pods.go
//	how many are there of which kind?              census.go
//	which old pod is replaced, and when?           rollout.go
//	are two templates the same?                    revision.go
//	since when is there no progress, and why?      progress.go
//	what is a new pod called?                      names.go
//	what does a new pod look like?                 newpod.go
//	who is deleted first?                          deletion_order.go
//	which finished pods are kept?                  history.go
//	how are pods that keep failing slowed down?    backoff.go
//	what is reported?                              status.go, conditions.go
package podset
