package main

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"sync"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"example.com/podset-operator/internal/manager"
	"example.com/podset-operator/test/localcluster"
	"example.com/podset-operator/test/operator"
)

// programs are the paths of the controllers that were built for the run.
type programs struct{ manager, plain string }

func buildPrograms(ctx context.Context, folder string) (programs, error) {
	ours, err := operator.Build(ctx, folder)
	if err != nil {
		return programs{}, err
	}
	plain, err := operator.BuildProgram(ctx, folder, "plain", "./test/bench/plain")
	return programs{ours, plain}, err
}

// world is where arms run: an API server, etcd on disk, nothing else, and an observer.
type world struct {
	programs programs
	cluster  *localcluster.Cluster
	// client and server are an administrator's, without a rate limit.
	client client.Client
	server rest.Interface
	seen   *observer
	// account is the path of a kubeconfig of the operator's ServiceAccount.
	account string

	namespaces int
	stop       context.CancelFunc
}

// newWorld starts a cluster without controllers and nodes, in which the operator is installed.
func newWorld(ctx context.Context, programs programs, options localcluster.Options) (*world, error) {
	options.ControlPlaneOnly = true
	cluster, err := localcluster.Start(ctx, options)
	if err != nil {
		return nil, err
	}
	watching, stop := context.WithCancel(ctx)
	w := &world{programs: programs, cluster: cluster, stop: stop, account: filepath.Join(cluster.Dir, "operator.kubeconfig")}
	if err := w.setUp(ctx, watching); err != nil {
		return nil, errors.Join(err, w.close())
	}
	return w, nil
}

func (w *world) setUp(ctx, watching context.Context) error {
	var err error
	if w.seen, err = observe(watching, w.cluster.EtcdURL); err != nil {
		return err
	}
	if w.client, err = client.New(w.cluster.Config, client.Options{Scheme: manager.Scheme}); err != nil {
		return err
	}
	clients, err := kubernetes.NewForConfig(w.cluster.Config)
	if err != nil {
		return err
	}
	w.server = clients.Discovery().RESTClient()
	if err := operator.Install(ctx, w.cluster.Config); err != nil {
		return err
	}
	account, err := operator.ManagerConfig(ctx, w.cluster.Config)
	if err != nil {
		return err
	}
	return localcluster.WriteKubeconfig(w.account, account)
}

func (w *world) close() error {
	w.stop()
	return w.cluster.Stop()
}

// newNamespace makes a namespace whose sets may have so many pods each.
func (w *world) newNamespace(ctx context.Context, replicas int) (string, error) {
	w.namespaces++
	name := fmt.Sprintf("bench-%d", w.namespaces)
	w.seen.begin(name, replicas)
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}
	if err := w.client.Create(ctx, namespace); err != nil {
		return "", fmt.Errorf("creating a namespace: %w", err)
	}
	// Pods need it, and kube-controller-manager does not run.
	account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: name, Name: "default"}}
	if err := w.client.Create(ctx, account); err != nil {
		return "", fmt.Errorf("creating a ServiceAccount: %w", err)
	}
	return name, nil
}

// clear removes the sets of an arm and what pods there are left in a namespace.
func (w *world) clear(ctx context.Context, arm arm, namespace string) error {
	inBackground := client.PropagationPolicy(metav1.DeletePropagationBackground)
	for _, object := range []client.Object{arm.set(namespace, "", 0), &corev1.Pod{}} {
		if err := w.client.DeleteAllOf(ctx, object, client.InNamespace(namespace), inBackground); err != nil {
			return fmt.Errorf("clearing a namespace: %w", err)
		}
	}
	return w.seen.until(ctx, namespace, func(t *tally) bool { return t.pods == 0 })
}

// inParallel calls do for the numbers below n, by so many workers, each of which stops at its first error.
func inParallel(workers, n int, do func(i int) error) error {
	numbers := make(chan int, n)
	for i := range n {
		numbers <- i
	}
	close(numbers)
	errs := make([]error, workers)
	var group sync.WaitGroup
	for worker := range workers {
		group.Go(func() {
			for i := range numbers {
				if errs[worker] = do(i); errs[worker] != nil {
					return
				}
			}
		})
	}
	group.Wait()
	return errors.Join(errs...)
}
