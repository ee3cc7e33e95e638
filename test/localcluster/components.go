package localcluster

import (
	"context"
	_ "embed"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
)

var (
	//go:embed audit-policy.yaml
	auditPolicy []byte
	//go:embed kwok.yaml
	kwokConfig []byte
)

// The scheduler reads the rate limit of its client only from such a file.
const schedulerConfig = `apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
leaderElection: {leaderElect: false}
clientConnection: {kubeconfig: %q, qps: 1000, burst: 2000}
`

// start brings the cluster up in the order in which its parts need each other.
func (c *Cluster) start(ctx context.Context) error {
	access, err := newAccess(c.Dir)
	if err != nil {
		return err
	}
	if c.EtcdURL, err = c.startEtcd(ctx); err != nil {
		return err
	}
	if err := c.startAPIServer(ctx, access); err != nil {
		return err
	}
	if c.options.ControlPlaneOnly {
		err = c.waitFor(ctx, "the default ServiceAccount", c.createDefaultServiceAccount)
	} else {
		err = c.startControllersAndNodes(ctx, access)
	}
	if err != nil {
		return err
	}
	// The kubeconfig comes last: where it is, the cluster is ready.
	return WriteKubeconfig(c.KubeconfigPath, c.Config)
}

func (c *Cluster) startControllersAndNodes(ctx context.Context, access *access) error {
	if err := c.startControllerManager(access); err != nil {
		return err
	}
	if err := c.startScheduler(access); err != nil {
		return err
	}
	if err := c.startKWOK(access); err != nil {
		return err
	}
	if err := c.createNodes(ctx); err != nil {
		return err
	}
	if err := c.waitFor(ctx, "the nodes to take pods", c.nodesTakePods); err != nil {
		return err
	}
	return c.waitFor(ctx, "the default ServiceAccount", c.defaultServiceAccountExists)
}

func (c *Cluster) startEtcd(ctx context.Context) (url string, err error) {
	clientAddress, err := freeAddress()
	if err != nil {
		return "", err
	}
	peerAddress, err := freeAddress()
	if err != nil {
		return "", err
	}
	url, peerURL := "http://"+clientAddress, "http://"+peerAddress
	args := []string{
		"--data-dir=" + filepath.Join(c.Dir, "etcd"),
		"--listen-client-urls=" + url,
		"--advertise-client-urls=" + url,
		"--listen-peer-urls=" + peerURL,
		"--initial-advertise-peer-urls=" + peerURL,
		"--initial-cluster=default=" + peerURL,
		// Enough for the revisions of a day of tests.
		"--quota-backend-bytes=8589934592",
	}
	if !c.options.Durable {
		// The data does not outlive the process.
		args = append(args, "--unsafe-no-fsync")
	}
	if err := c.run("etcd", args...); err != nil {
		return "", err
	}
	return url, c.waitFor(ctx, "etcd", func(ctx context.Context) error { return getOK(ctx, url+"/health") })
}

func (c *Cluster) startAPIServer(ctx context.Context, access *access) error {
	address, err := freeAddress()
	if err != nil {
		return err
	}
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		return err
	}
	args := []string{
		"--etcd-servers=" + c.EtcdURL,
		"--bind-address=" + host,
		"--secure-port=" + port,
		"--cert-dir=" + c.Dir,
		"--tls-cert-file=" + access.servingCert,
		"--tls-private-key-file=" + access.servingKey,
		"--token-auth-file=" + access.tokens,
		"--authorization-mode=RBAC",
		"--service-account-issuer=https://kubernetes.default.svc",
		"--service-account-key-file=" + access.serviceAccountKey,
		"--service-account-signing-key-file=" + access.serviceAccountKey,
		"--service-cluster-ip-range=10.0.0.0/24",
		"--allow-privileged",
		// A loopback address cannot be an endpoint of the Service kubernetes.
		"--advertise-address=" + host,
		"--endpoint-reconciler-type=none",
	}
	if c.options.AuditLog != "" {
		policy := filepath.Join(c.Dir, "audit-policy.yaml")
		if err := os.WriteFile(policy, auditPolicy, 0o600); err != nil {
			return fmt.Errorf("write the audit policy: %w", err)
		}
		args = append(args,
			"--audit-policy-file="+policy,
			"--audit-log-path="+c.options.AuditLog,
			// In megabytes: whoever counts requests needs all of them in one file.
			"--audit-log-maxsize=4096",
		)
	}
	if err := c.run("kube-apiserver", args...); err != nil {
		return err
	}
	access.server = "https://" + address
	c.Config = access.config(admin)
	if c.client, err = kubernetes.NewForConfig(c.Config); err != nil {
		return fmt.Errorf("make a client: %w", err)
	}
	return c.waitFor(ctx, "kube-apiserver", func(ctx context.Context) error {
		return c.client.Discovery().RESTClient().Get().AbsPath("/readyz").Do(ctx).Error()
	})
}

func (c *Cluster) startControllerManager(access *access) error {
	kubeconfig, err := access.kubeconfig(controllerManager)
	if err != nil {
		return err
	}
	return c.run("kube-controller-manager",
		"--kubeconfig="+kubeconfig,
		"--use-service-account-credentials",
		"--service-account-private-key-file="+access.serviceAccountKey,
		"--root-ca-file="+access.servingCert,
		"--leader-elect=false",
		"--secure-port=0",
		"--kube-api-qps=1000",
		"--kube-api-burst=2000",
	)
}

func (c *Cluster) startScheduler(access *access) error {
	kubeconfig, err := access.kubeconfig(scheduler)
	if err != nil {
		return err
	}
	config := filepath.Join(c.Dir, "kube-scheduler.yaml")
	if err := os.WriteFile(config, fmt.Appendf(nil, schedulerConfig, kubeconfig), 0o600); err != nil {
		return fmt.Errorf("write the configuration of kube-scheduler: %w", err)
	}
	return c.run("kube-scheduler", "--config="+config, "--secure-port=0")
}

func (c *Cluster) startKWOK(access *access) error {
	kubeconfig, err := access.kubeconfig(kwok)
	if err != nil {
		return err
	}
	config := filepath.Join(c.Dir, "kwok.yaml")
	if err := os.WriteFile(config, kwokConfig, 0o600); err != nil {
		return fmt.Errorf("write the configuration of kwok: %w", err)
	}
	return c.run("kwok", "--kubeconfig="+kubeconfig, "--config="+config)
}

// createNodes registers the nodes as kubelets would; KWOK keeps them Ready.
func (c *Cluster) createNodes(ctx context.Context) error {
	room := corev1.ResourceList{
		corev1.ResourceCPU:              resource.MustParse("1000"),
		corev1.ResourceMemory:           resource.MustParse("1Ti"),
		corev1.ResourceEphemeralStorage: resource.MustParse("1Ti"),
		corev1.ResourcePods:             *resource.NewQuantity(int64(c.options.PodsPerNode), resource.DecimalSI),
	}
	for i := range c.options.Nodes {
		name := "node-" + strconv.Itoa(i)
		node := &corev1.Node{
			ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{
				corev1.LabelHostname:   name,
				corev1.LabelOSStable:   "linux",
				corev1.LabelArchStable: "amd64",
			}},
			Status: corev1.NodeStatus{Capacity: room, Allocatable: room},
		}
		if _, err := c.client.CoreV1().Nodes().Create(ctx, node, metav1.CreateOptions{}); err != nil {
			return fmt.Errorf("create node %s: %w", name, err)
		}
	}
	return nil
}

// nodesTakePods returns an error while a node is tainted. A new node is, until
// the controller manager has seen it Ready.
func (c *Cluster) nodesTakePods(ctx context.Context) error {
	nodes, err := c.client.CoreV1().Nodes().List(ctx, metav1.ListOptions{})
	if err != nil {
		return err
	}
	for _, node := range nodes.Items {
		if len(node.Spec.Taints) > 0 {
			return fmt.Errorf("node %s has the taint %s", node.Name, node.Spec.Taints[0].Key)
		}
	}
	return nil
}

func (c *Cluster) defaultServiceAccountExists(ctx context.Context) error {
	_, err := c.client.CoreV1().ServiceAccounts(metav1.NamespaceDefault).Get(ctx, "default", metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return fmt.Errorf("kube-controller-manager has not made it: %w", err)
	}
	return err
}

// createDefaultServiceAccount does for the namespace default what
// kube-controller-manager does for every namespace.
func (c *Cluster) createDefaultServiceAccount(ctx context.Context) error {
	account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: "default"}}
	_, err := c.client.CoreV1().ServiceAccounts(metav1.NamespaceDefault).Create(ctx, account, metav1.CreateOptions{})
	if apierrors.IsAlreadyExists(err) {
		return nil
	}
	return err
}

// freeAddress returns a loopback address on which nothing listens at the moment.
func freeAddress() (string, error) {
	listener, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		return "", fmt.Errorf("find a free port: %w", err)
	}
	return listener.Addr().String(), listener.Close()
}

func getOK(ctx context.Context, url string) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return err
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return err
	}
	defer func() { _ = response.Body.Close() }()
	if response.StatusCode != http.StatusOK {
		text, _ := io.ReadAll(response.Body)
		return fmt.Errorf("%s answers %s: %s", url, response.Status, text)
	}
	return nil
}
