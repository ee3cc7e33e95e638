// Package localcluster runs a Kubernetes cluster of plain processes on this
// machine: etcd, kube-apiserver, kube-controller-manager, kube-scheduler and
// KWOK, which plays the nodes. Pods are scheduled, become Running and Ready and
// go away when deleted, but no container ever starts. Everything else is real:
// admission, RBAC, garbage collection, namespace deletion, service accounts.
//
// It needs no container runtime, no root and no image. Everything listens on
// loopback and on free ports, so clusters can run side by side, and a cluster's
// data is thrown away when it stops.
//
// KWOK touches a pod twice: it makes a scheduled Pending pod Running and Ready,
// and it removes a pod that is being deleted once it has no finalizers. Between
// the two, a pod's status belongs to whoever patches it.
package localcluster
