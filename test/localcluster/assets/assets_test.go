package assets

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

func TestKubernetesVersion(t *testing.T) {
	for name, test := range map[string]struct {
		given, want string
	}{
		"a release":              {given: "1.36.1", want: "1.36.1"},
		"with a v":               {given: "v1.36.1", want: "1.36.1"},
		"a candidate":            {given: "1.38.0-rc.1", want: "1.38.0-rc.1"},
		"a minor only":           {given: "1.36"},
		"another major":          {given: "2.0.0"},
		"not a version at all":   {given: "latest"},
		"a version with a build": {given: "1.36.1+mine"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Setenv("K8S_VERSION", test.given)
			got, err := KubernetesVersion()
			if got != test.want || (err == nil) != (test.want != "") {
				t.Errorf("KubernetesVersion() = %q, %v, want %q", got, err, test.want)
			}
			if err != nil && !strings.Contains(err.Error(), "K8S_VERSION="+test.given) {
				t.Errorf("error %q does not show what was given", err)
			}
		})
	}
}

func TestGoModTakesOverWhatADependencyCannotSay(t *testing.T) {
	b := &builder{kubernetes: "1.36.1"}
	got, err := b.source("kubectl").goMod([]byte(`module k8s.io/kubernetes

go 1.26.0

godebug default=go1.25

require (
	example.com/other v1.0.0
	k8s.io/api v0.0.0
)

replace (
	example.com/other => example.com/fork v1.2.3
	k8s.io/api => ./staging/src/k8s.io/api
	k8s.io/apimachinery => ./staging/src/k8s.io/apimachinery
)
`))
	if err != nil {
		t.Fatal(err)
	}
	want := `module localcluster/kubernetes

go 1.26.0

godebug default=go1.25

require k8s.io/kubernetes v1.36.1

replace example.com/other => example.com/fork v1.2.3

replace k8s.io/api => k8s.io/api v0.36.1

replace k8s.io/apimachinery => k8s.io/apimachinery v0.36.1
`
	if string(got) != want {
		t.Errorf("go.mod is\n%s\nwant\n%s", got, want)
	}
}

// fake is a cache in a temporary folder whose binaries are made by build.
func fake(t *testing.T, build func(ctx context.Context, work, name, file string) error) *cache {
	t.Helper()
	return &cache{
		dir:      t.TempDir(),
		folder:   (&builder{kubernetes: "1.36.1", etcd: "v3.7.0", kwok: "v0.8.0"}).folder,
		describe: func(name string) string { return name },
		build:    build,
	}
}

func writeBinary(_ context.Context, _, _, file string) error {
	return os.WriteFile(file, []byte("binary"), 0o755)
}

func put(t *testing.T, dir string, names ...string) {
	t.Helper()
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	for _, name := range names {
		if err := writeBinary(t.Context(), "", name, filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
	}
}

func TestWhereABinaryComesFrom(t *testing.T) {
	const provided, cached, built = "provided", "cached", "built"
	for name, test := range map[string]struct {
		provided, cached []string
		want             map[string]string
	}{
		"an empty machine builds": {
			want: map[string]string{"etcd": built, "kube-apiserver": built, "kubectl": built, "kwok": built},
		},
		"the cache saves building": {
			cached: []string{"etcd", "kubectl", "kwok"},
			want:   map[string]string{"etcd": cached, "kube-apiserver": built, "kubectl": cached, "kwok": cached},
		},
		"the provided folder comes before the cache": {
			provided: []string{"etcd", "kube-apiserver", "kubectl", "kwok"},
			cached:   []string{"etcd", "kube-apiserver", "kubectl", "kwok"},
			want:     map[string]string{"etcd": provided, "kube-apiserver": provided, "kubectl": provided, "kwok": provided},
		},
		"a provided folder for envtest leaves the rest to the cache": {
			provided: []string{"etcd", "kube-apiserver", "kubectl"},
			want:     map[string]string{"etcd": provided, "kube-apiserver": provided, "kubectl": provided, "kwok": built},
		},
		"the envtest binaries stay together": {
			provided: []string{"etcd", "kubectl"},
			cached:   []string{"etcd", "kube-apiserver", "kubectl", "kwok"},
			want:     map[string]string{"etcd": cached, "kube-apiserver": cached, "kubectl": cached, "kwok": cached},
		},
	} {
		t.Run(name, func(t *testing.T) {
			var made []string
			c := fake(t, func(ctx context.Context, work, name, file string) error {
				made = append(made, name)
				return writeBinary(ctx, work, name, file)
			})
			c.provided = t.TempDir()
			put(t, c.provided, test.provided...)
			for _, name := range test.cached {
				put(t, filepath.Join(c.dir, c.folder(name)), name)
			}
			binaries, err := c.ensure(t.Context(), newSteps(&bytes.Buffer{}), []string{"etcd", "kube-apiserver", "kubectl", "kwok"})
			if err != nil {
				t.Fatal(err)
			}
			for name, want := range test.want {
				got := cached
				if filepath.Dir(binaries[name]) == c.provided {
					got = provided
				} else if slices.Contains(made, name) {
					got = built
				}
				if got != want {
					t.Errorf("%s is %s, want %s", name, got, want)
				}
				if !isExecutable(binaries[name]) {
					t.Errorf("%s is not executable", binaries[name])
				}
			}
		})
	}
}

func TestAVersionHasItsOwnFolder(t *testing.T) {
	before := &builder{kubernetes: "1.36.1", etcd: "v3.7.0", kwok: "v0.8.0"}
	for name, after := range map[string]*builder{
		"kubectl": {kubernetes: "1.36.2", etcd: "v3.7.0", kwok: "v0.8.0"},
		"etcd":    {kubernetes: "1.36.1", etcd: "v3.7.1", kwok: "v0.8.0"},
		"kwok":    {kubernetes: "1.36.1", etcd: "v3.7.0", kwok: "v0.8.1"},
	} {
		if before.folder(name) == after.folder(name) {
			t.Errorf("a new version of %s would be taken for the old one", name)
		}
	}
}

func TestTwoFillsAtOnceBuildOnce(t *testing.T) {
	var builds atomic.Int32
	c := fake(t, func(ctx context.Context, work, name, file string) error {
		builds.Add(1)
		time.Sleep(50 * time.Millisecond) //nolint:forbidigo // long enough for the other to come by
		return writeBinary(ctx, work, name, file)
	})
	var both sync.WaitGroup
	for range 2 {
		both.Go(func() {
			if _, err := c.ensure(t.Context(), newSteps(&bytes.Buffer{}), []string{"etcd", "kwok"}); err != nil {
				t.Error(err)
			}
		})
	}
	both.Wait()
	if got := builds.Load(); got != 2 {
		t.Errorf("%d builds of two binaries", got)
	}
}

func TestAnInterruptedBuildLeavesNoFile(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	c := fake(t, func(ctx context.Context, work, name, file string) error {
		_ = writeBinary(ctx, work, name, file)
		cancel()
		return ctx.Err()
	})
	if _, err := c.ensure(ctx, newSteps(&bytes.Buffer{}), []string{"kwok"}); !errors.Is(err, context.Canceled) {
		t.Errorf("error = %v, want that of the context", err)
	}
	var left []string
	_ = filepath.WalkDir(c.dir, func(path string, entry os.DirEntry, _ error) error {
		if !entry.IsDir() && entry.Name() != "lock" {
			left = append(left, path)
		}
		return nil
	})
	if len(left) > 0 {
		t.Errorf("left behind: %v", left)
	}
}

// fakeDownloads writes the envtest binaries, unless probeErr is set.
type fakeDownloads struct {
	probeErr error
}

func (f fakeDownloads) probe(context.Context) error { return f.probeErr }

func (f fakeDownloads) download(ctx context.Context, work, into string) error {
	for _, name := range Envtest {
		if err := writeBinary(ctx, work, name, filepath.Join(into, name)); err != nil {
			return err
		}
	}
	return nil
}

func TestDownload(t *testing.T) {
	for name, test := range map[string]struct {
		downloads fakeDownloads
		cached    []string
		want      []string // what is built nevertheless
		says      string
	}{
		"brings the envtest binaries": {
			want: []string{"kwok"},
			says: "[1/1] building kwok",
		},
		"is told and made up for when there is no network": {
			downloads: fakeDownloads{probeErr: errors.New("no such host")},
			want:      []string{"etcd", "kube-apiserver", "kubectl", "kwok"},
			says:      "building from source instead: no such host\n[1/4] building etcd",
		},
		"does not mix with binaries built before": {
			cached: []string{"etcd"},
			want:   []string{"kube-apiserver", "kubectl", "kwok"},
			says:   "[1/3] building kube-apiserver",
		},
	} {
		t.Run(name, func(t *testing.T) {
			var built []string
			c := fake(t, func(ctx context.Context, work, name, file string) error {
				built = append(built, name)
				return writeBinary(ctx, work, name, file)
			})
			c.downloads = test.downloads
			put(t, filepath.Join(c.dir, c.folder("etcd")), test.cached...)
			var screen bytes.Buffer
			if _, err := c.ensure(t.Context(), newSteps(&screen), []string{"etcd", "kube-apiserver", "kubectl", "kwok"}); err != nil {
				t.Fatal(err)
			}
			if !slices.Equal(built, test.want) {
				t.Errorf("built %v, want %v", built, test.want)
			}
			if !strings.Contains(screen.String(), test.says) {
				t.Errorf("the screen shows\n%s\nwithout %q", &screen, test.says)
			}
		})
	}
}
