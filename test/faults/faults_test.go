package faults

import (
	"cmp"
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"github.com/onsi/gomega/gbytes"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"example.com/podset-operator/internal/manager"
	"example.com/podset-operator/test/localcluster"
	"example.com/podset-operator/test/operator"
)

var (
	cluster *localcluster.Cluster
	c       client.Client
	account *rest.Config // that of the manager's ServiceAccount
	binary  string
	past    *history
	seed    = uint64(number("FAULT_SEED", 1))
	faults  = number("FAULTS", 200)
	kills   = number("KILLS", 60)
)

// number is the value of an environment variable.
func number(name string, otherwise int) int {
	n, err := strconv.Atoi(cmp.Or(os.Getenv(name), strconv.Itoa(otherwise)))
	if err != nil {
		panic(err)
	}
	return n
}

func TestFaults(t *testing.T) {
	RegisterFailHandler(Fail)
	SetDefaultEventuallyTimeout(60 * time.Second)
	SetDefaultEventuallyPollingInterval(100 * time.Millisecond)
	RunSpecs(t, "PodSets while everything fails")
}

var _ = BeforeSuite(func(ctx SpecContext) {
	var err error
	cluster, err = localcluster.Start(ctx, localcluster.Options{})
	Expect(err).NotTo(HaveOccurred())
	DeferCleanup(func() { Expect(cluster.Stop()).To(Succeed()) })
	reading, stop := context.WithCancel(context.Background())
	DeferCleanup(stop)
	past, err = readHistory(reading, cluster.EtcdURL)
	Expect(err).NotTo(HaveOccurred())
	c, err = client.New(cluster.Config, client.Options{Scheme: manager.Scheme})
	Expect(err).NotTo(HaveOccurred())
	Expect(operator.Install(ctx, cluster.Config)).To(Succeed())
	account, err = operator.ManagerConfig(ctx, cluster.Config)
	Expect(err).NotTo(HaveOccurred())
	binary, err = operator.Build(ctx, GinkgoT().TempDir())
	Expect(err).NotTo(HaveOccurred())
})

// runner is a manager process behind a proxy of its own, started anew whenever it was killed.
type runner struct {
	*operator.Process
	proxy      *proxy
	kubeconfig string
	flags      []string
	log        *gbytes.Buffer
}

func newManager(flags ...string) *runner {
	GinkgoHelper()
	proxy, access, err := startProxy(account, seed)
	Expect(err).NotTo(HaveOccurred())
	DeferCleanup(proxy.stop)
	m := &runner{proxy: proxy, kubeconfig: filepath.Join(GinkgoT().TempDir(), "kubeconfig"), flags: flags, log: gbytes.NewBuffer()}
	Expect(localcluster.WriteKubeconfig(m.kubeconfig, access)).To(Succeed())
	m.start()
	DeferCleanup(func() { m.Stop() })
	DeferCleanup(func() {
		if CurrentSpecReport().Failed() {
			AddReportEntry("manager log", string(m.log.Contents()))
		}
	})
	return m
}

func (m *runner) start() {
	GinkgoHelper()
	var err error
	m.Process, err = operator.StartProcess(binary, m.kubeconfig, m.log,
		append([]string{"--metrics-bind-address=0", "--health-probe-bind-address=0"}, m.flags...)...)
	Expect(err).NotTo(HaveOccurred())
}

// keepUp starts the manager again if it has ended.
func (m *runner) keepUp() {
	GinkgoHelper()
	select {
	case <-m.Done():
		m.start()
	default:
	}
}

func newUsers(ctx SpecContext) *users {
	GinkgoHelper()
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "faults-"}}
	Expect(c.Create(ctx, namespace)).To(Succeed())
	Eventually(func() error {
		return c.Get(ctx, client.ObjectKey{Namespace: namespace.Name, Name: "default"}, &corev1.ServiceAccount{})
	}).Should(Succeed(), "the namespace should have its ServiceAccount")
	u := &users{client: c, namespace: namespace.Name, random: rand.New(rand.NewPCG(seed, 1))}
	for n := range podSets {
		Expect(c.Create(ctx, u.newPodSet(n))).To(Succeed())
	}
	return u
}

// state is what there is of nodes, and in the namespace.
func state(namespace string) string {
	out, err := exec.Command(cluster.Binaries["kubectl"], "--kubeconfig", cluster.KubeconfigPath, "--namespace", namespace,
		"get", "nodes,podsets,pods", "--output=wide").CombinedOutput()
	return fmt.Sprintf("%s%v", out, err)
}

// end lets the faults stop, waits for the wanted state and for quiet, and judges all that has happened.
func end(ctx SpecContext, u *users, leaderless bool, managers ...*runner) {
	GinkgoHelper()
	for _, m := range managers {
		m.proxy.setRate(0)
		m.proxy.onPodWrite(nil)
		m.keepUp()
	}
	stopped := time.Now()
	Eventually(u.settled, 60*time.Second+podSets*6*500*time.Millisecond).WithContext(ctx).
		Should(Succeed(), func() string { return "all should be as wanted (L1)\n" + state(u.namespace) })
	took := time.Since(stopped)
	written := func() int {
		n := 0
		for _, m := range managers {
			n += m.proxy.written()
		}
		return n
	}
	// Pods that failed may still have to go, and status with them.
	Eventually(func() bool { before := written(); pause(3 * time.Second); return written() == before }).
		Should(BeTrue(), "writes should stop (L2)")
	var changes []change
	Eventually(func() (complete bool, err error) {
		changes, complete, err = past.until(ctx, u.namespace)
		return complete, err
	}).Should(BeTrue(), "every revision should have been read")
	var writes [][]*write
	sum := 0
	for _, m := range managers {
		m.proxy.late.Wait()
		writes = append(writes, m.proxy.writes)
		sum += m.proxy.faults()
		for kind, n := range m.proxy.counts {
			GinkgoWriter.Printf("%s: %d\n", kind, n)
		}
	}
	v := judge(changes, writes, leaderless)
	AddReportEntry("judged", fmt.Sprintf("seed %d: %d proxy faults, %d changes by users, %d revisions, %d creates, %d deletes, "+
		"%d changes of a status; once more than asked for: %d times; settled after %s",
		seed, sum, u.changes, v.revisions, v.creates, v.deletes, v.statuses, v.extra, took.Round(100*time.Millisecond)))
	Expect(v.broken).To(BeEmpty())
	Expect(v.creates).To(BeNumerically(">", 10), "much should have happened")
	Expect(v.deletes).To(BeNumerically(">", 3), "much should have happened")
	Expect(c.DeleteAllOf(ctx, u.newPodSet(0), client.InNamespace(u.namespace))).To(Succeed())
}

var _ = Describe("The promises hold", func() {
	for _, watchList := range []string{"true", "false"} {
		It("when requests and watches fail, with watch-list "+watchList, func(ctx SpecContext) {
			GinkgoT().Setenv("KUBE_FEATURE_WatchListClient", watchList)
			m := newManager()
			u := newUsers(ctx)
			m.proxy.setRate(15)
			for m.proxy.faults() < faults/2 {
				u.act(ctx)
				pause(time.Duration(u.random.IntN(300)) * time.Millisecond)
				m.keepUp()
			}
			end(ctx, u, false, m)
		})
	}

	It("when the manager is killed at any moment", func(ctx SpecContext) {
		m := newManager()
		u := newUsers(ctx)
		m.proxy.setRate(2)
		moments := []string{"arrival", "carried out", "answered"}
		for kill := range kills * 2 / 3 {
			left, killed := atomic.Int64{}, make(chan struct{})
			left.Store(int64(kill%5 + 1))
			m.proxy.onPodWrite(func(moment string) {
				if moment == moments[kill%len(moments)] && left.Add(-1) == 0 {
					m.Signal(syscall.SIGKILL)
					close(killed)
				}
			})
			Eventually(func() bool {
				u.act(ctx)
				select {
				case <-killed:
					return true
				default:
					return false
				}
			}).Should(BeTrue(), "the manager should have something to write")
			<-m.Done()
			m.start()
		}
		end(ctx, u, false, m)
	})

	It("when the API server and etcd are killed", func(ctx SpecContext) {
		m := newManager()
		u := newUsers(ctx)
		m.proxy.setRate(2)
		for kill := range kills / 3 {
			name := []string{"kube-apiserver", "etcd"}[kill%2]
			from := m.proxy.written()
			Eventually(func() int { u.act(ctx); return m.proxy.written() - from }).Should(BeNumerically(">=", kill%4+1))
			Expect(cluster.Crash(name)).To(Succeed())
			m.keepUp()
			Eventually(func() error { return c.List(ctx, &corev1.NodeList{}) }).Should(Succeed(), "the API server should be back")
		}
		// Their watches do not always outlive a crash of the store: a scheduler was seen that scheduled no pod any more.
		for _, name := range []string{"kube-controller-manager", "kube-scheduler", "kwok"} {
			Expect(cluster.Crash(name)).To(Succeed())
		}
		end(ctx, u, false, m)
	})

	It("when the leader is stopped past its lease, and then goes on", func(ctx SpecContext) {
		election := []string{
			"--leader-elect", "--leader-election-namespace=" + operator.Namespace,
			"--leader-election-lease-duration=4s", "--leader-election-renew-deadline=3s", "--leader-election-retry-period=500ms",
		}
		m, other := newManager(election...), newManager(election...)
		u := newUsers(ctx)
		for range 3 {
			for range 10 {
				u.act(ctx)
			}
			leader := m
			if other.proxy.written() > 0 && m.proxy.written() == 0 {
				leader = other
			}
			leader.Signal(syscall.SIGSTOP)
			stopped := time.Now()
			for time.Since(stopped) < 8*time.Second {
				u.act(ctx)
				pause(50 * time.Millisecond)
			}
			leader.Signal(syscall.SIGCONT)
			for range 20 {
				u.act(ctx)
				pause(50 * time.Millisecond)
			}
			m.keepUp()
			other.keepUp()
		}
		lease := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: operator.Namespace, Name: "podset-operator.app.example.com"}}
		for range 3 {
			Expect(client.IgnoreNotFound(c.Delete(ctx, lease.DeepCopy()))).To(Succeed())
			for range 20 {
				u.act(ctx)
				pause(50 * time.Millisecond)
			}
			m.keepUp()
			other.keepUp()
		}
		Eventually(func(g Gomega) {
			m.keepUp()
			other.keepUp()
			g.Expect(c.Get(ctx, client.ObjectKeyFromObject(lease), lease)).To(Succeed())
			g.Expect(ptr.Deref(lease.Spec.HolderIdentity, "")).NotTo(BeEmpty())
		}).Should(Succeed(), "one should lead")
		end(ctx, u, true, m, other)
	})

	It("but for one pod, when two managers act without an election", func(ctx SpecContext) {
		m, other := newManager(), newManager()
		u := newUsers(ctx)
		m.proxy.setRate(3)
		for range 150 {
			u.act(ctx)
			pause(time.Duration(u.random.IntN(100)) * time.Millisecond)
			m.keepUp()
			other.keepUp()
		}
		end(ctx, u, true, m, other)
	})
})
