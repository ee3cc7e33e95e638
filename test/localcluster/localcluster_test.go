package localcluster

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes"
)

func pod(name string) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: metav1.NamespaceDefault},
		Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "app", Image: "app:1"}}},
	}
}

func isReady(pod *corev1.Pod) bool {
	for _, condition := range pod.Status.Conditions {
		if condition.Type == corev1.PodReady {
			return condition.Status == corev1.ConditionTrue
		}
	}
	return false
}

// A bare pod on a real control plane: it runs, keeps a status it is given, and
// goes away; and so does the whole cluster.
func TestClusterRunsPodsAndLeavesNothing(t *testing.T) {
	if testing.Short() {
		t.Skip("starts a cluster")
	}
	ctx, cancel := context.WithTimeout(t.Context(), 40*time.Minute) // the binaries may have to be built
	defer cancel()
	audit := filepath.Join(t.TempDir(), "audit.log")
	cluster, err := Start(ctx, Options{AuditLog: audit})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cluster.Stop() })

	pids := map[int]string{}
	for _, p := range cluster.processes {
		pids[p.cmd.Process.Pid] = p.name
	}
	client := kubernetes.NewForConfigOrDie(cluster.Config)
	pods := client.CoreV1().Pods(metav1.NamespaceDefault)
	eventually := func(what string, condition func(ctx context.Context) (bool, error)) {
		t.Helper()
		if err := wait.PollUntilContextTimeout(ctx, 50*time.Millisecond, 30*time.Second, true, condition); err != nil {
			t.Fatalf("%s: %v", what, err)
		}
	}
	isGone := func(ctx context.Context) (bool, error) {
		_, err := pods.Get(ctx, "a", metav1.GetOptions{})
		return apierrors.IsNotFound(err), nil
	}

	if _, err := pods.Create(ctx, pod("a"), metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	eventually("the pod should run and be ready", func(ctx context.Context) (bool, error) {
		got, err := pods.Get(ctx, "a", metav1.GetOptions{})
		return err == nil && got.Status.Phase == corev1.PodRunning && isReady(got) && got.Status.PodIP != "", err
	})

	failed := []byte(`{"status":{"phase":"Failed","reason":"Evicted"},"metadata":{"finalizers":["example.com/hold"]}}`)
	for _, subresource := range []string{"", "status"} {
		if _, err := pods.Patch(ctx, "a", types.MergePatchType, failed, metav1.PatchOptions{}, subresource); err != nil {
			t.Fatal(err)
		}
	}
	if err := pods.Delete(ctx, "a", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	// A second pod that comes and goes shows that KWOK had time for the first.
	if _, err := pods.Create(ctx, pod("b"), metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	eventually("the second pod should run", func(ctx context.Context) (bool, error) {
		got, err := pods.Get(ctx, "b", metav1.GetOptions{})
		return err == nil && isReady(got), err
	})
	held, err := pods.Get(ctx, "a", metav1.GetOptions{})
	if err != nil {
		t.Fatalf("the pod with a finalizer should still be there: %v", err)
	}
	if held.Status.Phase != corev1.PodFailed || held.DeletionTimestamp == nil {
		t.Errorf("phase = %s, deletionTimestamp = %v, want a Failed pod that is being deleted", held.Status.Phase, held.DeletionTimestamp)
	}
	if _, err := pods.Patch(ctx, "a", types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`), metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
	eventually("the pod should go away", isGone)

	out, err := cluster.Kubectl(ctx, "auth", "whoami", "-o", "jsonpath={.status.userInfo.groups}").CombinedOutput()
	if err != nil || !strings.Contains(string(out), "system:masters") {
		t.Errorf("kubectl auth whoami = %s, %v, want the group system:masters", out, err)
	}
	lines, err := os.ReadFile(audit)
	if err != nil || !strings.Contains(string(lines), `"verb":"create","user":{"username":"admin"`) {
		t.Errorf("the audit log does not tell of the created pod: %v", err)
	}

	if err := cluster.Stop(); err != nil {
		t.Fatal(err)
	}
	for pid, name := range pids {
		if commandLine(pid) != "" {
			t.Errorf("%s (process %d) is still there", name, pid)
		}
	}
	if _, err := os.Stat(cluster.Dir); !os.IsNotExist(err) {
		t.Errorf("the folder %s is still there: %v", cluster.Dir, err)
	}
}

func TestStartTellsWhyAProcessEnded(t *testing.T) {
	dir := t.TempDir()
	c := &Cluster{Dir: dir, Binaries: map[string]string{"etcd": "/bin/sh"}, exited: make(chan *process, 1)}
	if err := c.run("etcd", "-c", "echo the disk is full; exit 3", dir); err != nil {
		t.Fatal(err)
	}
	err := c.waitFor(t.Context(), "etcd", func(context.Context) error { return fmt.Errorf("not yet") })
	if err == nil || !strings.Contains(err.Error(), "exit status 3") || !strings.Contains(err.Error(), "the disk is full") {
		t.Errorf("error = %v, want the exit status and the end of the log", err)
	}
}

func TestRemoveLeftoversEndsWhatAClusterLeft(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "cluster")
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	c := &Cluster{Dir: dir, Binaries: map[string]string{"etcd": "/bin/sh"}, exited: make(chan *process, 1)}
	if err := c.run("etcd", "-c", "sleep 60; true", dir); err != nil {
		t.Fatal(err)
	}
	// A recorded id that now belongs to a process of somebody else: this one.
	if err := os.WriteFile(pidFile(dir, "kwok"), fmt.Append(nil, os.Getpid()), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := RemoveLeftovers(dir); err != nil {
		t.Fatal(err)
	}
	select {
	case <-c.processes[0].done:
	case <-time.After(10 * time.Second):
		t.Error("the process is still there")
	}
	if _, err := os.Stat(dir); !os.IsNotExist(err) {
		t.Errorf("the folder is still there: %v", err)
	}
}
