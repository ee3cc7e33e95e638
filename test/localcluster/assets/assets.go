// Package assets finds or makes the binaries that a local cluster runs.
//
// For each binary, the first that applies:
//
//  1. it is in the folder named by KUBEBUILDER_ASSETS;
//  2. it is in the cache, outside the checkout, under its version;
//  3. setup-envtest downloads it (etcd, kube-apiserver and kubectl only);
//  4. it is built from Go modules, which needs nothing but Go and a module proxy.
//
// etcd, kube-apiserver and kubectl always come from one folder, so that this
// folder can serve as KUBEBUILDER_ASSETS.
package assets

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"slices"

	"golang.org/x/mod/semver"

	"example.com/podset-operator/hack"
)

// Environment variables that this package reads, besides those that override a
// pinned version.
const (
	// EnvFolder names a folder with ready binaries, as for envtest.
	EnvFolder = "KUBEBUILDER_ASSETS"
	// EnvCache names the cache folder; unset, it is podset-operator in the
	// user's cache folder.
	EnvCache = "LOCALCLUSTER_CACHE"
	// EnvSkipDownload, if not empty, builds everything from Go modules.
	EnvSkipDownload = "LOCALCLUSTER_SKIP_DOWNLOAD"
)

var (
	// Envtest are the binaries that envtest needs.
	Envtest = []string{"etcd", "kube-apiserver", "kubectl"}
	// All are the binaries that a local cluster needs. They are built in this order,
	// in which a Kubernetes version that does not exist is soon found out.
	All = []string{"kubectl", "kube-apiserver", "kube-controller-manager", "kube-scheduler", "etcd", "kwok"}
)

// Binaries maps the name of a binary to its path.
type Binaries map[string]string

// Dir returns the folder that holds etcd, kube-apiserver and kubectl.
func (b Binaries) Dir() string {
	return filepath.Dir(b["kube-apiserver"])
}

// CacheDir returns the folder, outside the checkout, for whatever the local
// cluster keeps between runs.
func CacheDir() (string, error) {
	if dir := os.Getenv(EnvCache); dir != "" {
		return filepath.Abs(dir)
	}
	dir, err := os.UserCacheDir()
	if err != nil {
		return "", fmt.Errorf("find a cache folder (or set %s): %w", EnvCache, err)
	}
	return filepath.Join(dir, "podset-operator"), nil
}

// KubernetesVersion returns the version of Kubernetes to run, without a leading
// "v", or an error that says what K8S_VERSION should look like.
func KubernetesVersion() (string, error) {
	given := hack.Version("K8S_VERSION")
	version := given
	if version[0] != 'v' {
		version = "v" + version
	}
	if semver.Canonical(version) != version || semver.Major(version) != "v1" {
		return "", fmt.Errorf("K8S_VERSION=%s is not a Kubernetes version such as 1.37.2", given)
	}
	return version[1:], nil
}

// Ensure returns the named binaries and makes those that are missing, which can
// take twenty minutes the first time. It writes what it does to progress. When
// ctx ends it stops whatever it started and leaves no half-made file.
func Ensure(ctx context.Context, progress io.Writer, names ...string) (Binaries, error) {
	kubernetes, err := KubernetesVersion()
	if err != nil {
		return nil, err
	}
	root, err := CacheDir()
	if err != nil {
		return nil, err
	}
	b := &builder{kubernetes: kubernetes, etcd: hack.Version("ETCD_VERSION"), kwok: hack.Version("KWOK_VERSION")}
	c := &cache{
		provided: os.Getenv(EnvFolder),
		dir:      filepath.Join(root, runtime.GOOS+"-"+runtime.GOARCH),
		folder:   b.folder,
		describe: b.describe,
		build:    b.build,
	}
	if os.Getenv(EnvSkipDownload) == "" {
		c.downloads = downloader{kubernetes: kubernetes, setupEnvtest: hack.Version("SETUP_ENVTEST_VERSION")}
	}
	return c.ensure(ctx, newSteps(progress), names)
}

// together returns the binaries that must come from the same folder as name.
func together(name string) []string {
	if slices.Contains(Envtest, name) {
		return Envtest
	}
	return []string{name}
}
