// Package operator puts the operator into a cluster for the suites: its manifests as they are shipped, and its manager
// with the rights of its own ServiceAccount and no more.
package operator

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/kustomize/api/krusty"
	"sigs.k8s.io/kustomize/kyaml/filesys"

	"example.com/podset-operator/api/v1alpha1"
)

const (
	// Namespace is where config/default puts the operator.
	Namespace = "podset-operator-system"
	// ServiceAccount is the account the manager runs under.
	ServiceAccount = "podset-operator-controller-manager"
)

// Root returns the folder of the project's go.mod, looked for upwards from the working directory.
func Root() (string, error) {
	dir, err := os.Getwd()
	if err != nil {
		return "", err
	}
	for {
		if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil {
			return dir, nil
		}
		parent := filepath.Dir(dir)
		if parent == dir {
			return "", errors.New("no go.mod above the working directory")
		}
		dir = parent
	}
}

// Manifests returns the objects that `kubectl apply -k` of a folder of the project, such as config/default, sends.
func Manifests(folder string) ([]*unstructured.Unstructured, error) {
	root, err := Root()
	if err != nil {
		return nil, err
	}
	options := krusty.MakeDefaultOptions()
	options.Reorder = krusty.ReorderOptionLegacy // as kubectl does: namespaces and definitions first
	resources, err := krusty.MakeKustomizer(options).Run(filesys.MakeFsOnDisk(), filepath.Join(root, folder))
	if err != nil {
		return nil, fmt.Errorf("building %s: %w", folder, err)
	}
	objects := make([]*unstructured.Unstructured, 0, resources.Size())
	for _, resource := range resources.Resources() {
		content, err := resource.Map()
		if err != nil {
			return nil, fmt.Errorf("reading %s: %w", resource.CurId(), err)
		}
		objects = append(objects, &unstructured.Unstructured{Object: content})
	}
	return objects, nil
}

// Install creates what config/default ships, its Deployment excepted: the suites run the manager themselves. It returns
// when the API server serves PodSets and admits their pods.
func Install(ctx context.Context, admin *rest.Config) error {
	objects, err := Manifests("config/default")
	if err != nil {
		return err
	}
	c, err := client.New(admin, client.Options{})
	if err != nil {
		return err
	}
	for _, object := range objects {
		if object.GetKind() == "Deployment" {
			continue
		}
		if err := c.Create(ctx, object); err != nil && !apierrors.IsAlreadyExists(err) {
			return fmt.Errorf("creating %s %s: %w", object.GetKind(), object.GetName(), err)
		}
	}
	if err := wait.PollUntilContextTimeout(ctx, 50*time.Millisecond, 30*time.Second, true, func(ctx context.Context) (bool, error) {
		podSets := &unstructured.UnstructuredList{}
		podSets.SetGroupVersionKind(v1alpha1.PodSetKind)
		err := c.List(ctx, podSets)
		if meta.IsNoMatchError(err) || apierrors.IsNotFound(err) {
			return false, nil
		}
		return err == nil, err
	}); err != nil {
		return fmt.Errorf("waiting for the API server to serve PodSets: %w", err)
	}
	if err := waitForAdmission(ctx, admin); err != nil {
		return fmt.Errorf("waiting for the API server to admit pods of PodSets: %w", err)
	}
	return nil
}

// waitForAdmission returns when the manager may create pods that a PodSet owns. The admission plugin
// OwnerReferencesPermissionEnforcement, where it is on, learns of a new kind only half a minute after its definition.
func waitForAdmission(ctx context.Context, admin *rest.Config) error {
	config, err := ManagerConfig(ctx, admin)
	if err != nil {
		return err
	}
	c, err := client.New(config, client.Options{})
	if err != nil {
		return err
	}
	owner := &v1alpha1.PodSet{ObjectMeta: metav1.ObjectMeta{Name: "probe", UID: "probe"}}
	return wait.PollUntilContextTimeout(ctx, 100*time.Millisecond, time.Minute, true, func(ctx context.Context) (bool, error) {
		pod := &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{
				Namespace:       metav1.NamespaceDefault,
				Name:            "probe",
				OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(owner, v1alpha1.PodSetKind)},
			},
			Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "probe", Image: "probe"}}},
		}
		err := c.Create(ctx, pod, client.DryRunAll)
		if apierrors.IsForbidden(err) {
			return false, nil
		}
		return err == nil, err
	})
}

// ManagerConfig returns the access to the cluster that the manager's ServiceAccount has, by a token of its own.
func ManagerConfig(ctx context.Context, admin *rest.Config) (*rest.Config, error) {
	return TokenConfig(ctx, admin, Namespace, ServiceAccount)
}

// TokenConfig returns the access to the cluster that a ServiceAccount has.
func TokenConfig(ctx context.Context, admin *rest.Config, namespace, serviceAccount string) (*rest.Config, error) {
	clients, err := kubernetes.NewForConfig(admin)
	if err != nil {
		return nil, err
	}
	request := &authenticationv1.TokenRequest{Spec: authenticationv1.TokenRequestSpec{ExpirationSeconds: ptr.To[int64](24 * 3600)}}
	token, err := clients.CoreV1().ServiceAccounts(namespace).CreateToken(ctx, serviceAccount, request, metav1.CreateOptions{})
	if err != nil {
		return nil, fmt.Errorf("requesting a token of the ServiceAccount %s: %w", serviceAccount, err)
	}
	config := rest.AnonymousClientConfig(admin)
	config.BearerToken = token.Status.Token
	config.QPS = -1
	return config, nil
}

// Build compiles the manager into the folder and returns the path of the binary.
func Build(ctx context.Context, folder string) (string, error) {
	return BuildProgram(ctx, folder, "manager", "./cmd")
}

// BuildProgram compiles a command of this module into the folder and returns the path of the binary, which has the name.
func BuildProgram(ctx context.Context, folder, name, command string) (string, error) {
	root, err := Root()
	if err != nil {
		return "", err
	}
	binary := filepath.Join(folder, name)
	build := exec.CommandContext(ctx, "go", "build", "-o", binary, command)
	build.Dir = root
	if output, err := build.CombinedOutput(); err != nil {
		return "", fmt.Errorf("building the %s: %w: %s", name, err, output)
	}
	return binary, nil
}

// Process is a running manager.
type Process struct {
	cmd  *exec.Cmd
	done chan struct{}
}

// StartProcess starts a manager binary that reads the kubeconfig and writes its log to out. It is in a process group of
// its own, so that Ctrl-C on the terminal does not reach it and it can outlive the caller.
func StartProcess(binary, kubeconfig string, out io.Writer, flags ...string) (*Process, error) {
	cmd := exec.Command(binary, append([]string{"--kubeconfig=" + kubeconfig}, flags...)...)
	cmd.Stdout, cmd.Stderr = out, out
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("starting the manager: %w", err)
	}
	p := &Process{cmd: cmd, done: make(chan struct{})}
	go func() {
		_ = cmd.Wait()
		close(p.done)
	}()
	return p, nil
}

// PID is the id of the process.
func (p *Process) PID() int { return p.cmd.Process.Pid }

// Done is closed when the process has ended.
func (p *Process) Done() <-chan struct{} { return p.done }

// ExitCode is that of a process that has ended; -1 if a signal ended it.
func (p *Process) ExitCode() int { return p.cmd.ProcessState.ExitCode() }

// Signal sends a signal to the process; it is no error if the process has ended.
func (p *Process) Signal(signal syscall.Signal) { _ = p.cmd.Process.Signal(signal) }

// Stop asks the process to end, insists after a while, and returns when it has ended.
func (p *Process) Stop() {
	p.Signal(syscall.SIGTERM)
	select {
	case <-p.done:
	case <-time.After(15 * time.Second):
		p.Signal(syscall.SIGKILL)
		<-p.done
	}
}
