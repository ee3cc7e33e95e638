package assets

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/mod/semver"
)

const (
	// envtestIndex lists the releases that setup-envtest can download.
	envtestIndex = "https://raw.githubusercontent.com/kubernetes-sigs/controller-tools/HEAD/envtest-releases.yaml"
	// Without that site, building should start soon.
	probeTimeout = 5 * time.Second
	// A download that takes longer than this is given up.
	downloadTimeout = 5 * time.Minute
)

// downloader gets the envtest binaries by setup-envtest.
type downloader struct {
	kubernetes   string // without a leading "v"
	setupEnvtest string
}

// download puts etcd, kube-apiserver and kubectl into the folder into. Few patch
// releases are published for envtest, so it takes the latest one of the minor.
func (d downloader) download(ctx context.Context, work, into string) error {
	ctx, cancel := context.WithTimeout(ctx, downloadTimeout)
	defer cancel()
	minor := strings.TrimPrefix(semver.MajorMinor("v"+d.kubernetes), "v")
	out, err := runGo(ctx, work, "run", "sigs.k8s.io/controller-runtime/tools/setup-envtest@"+d.setupEnvtest,
		"use", minor+".x", "--bin-dir", filepath.Join(work, "envtest"), "--print", "path")
	if err != nil {
		return err
	}
	from := strings.TrimSpace(string(out))
	for _, name := range Envtest {
		if err := os.Rename(filepath.Join(from, name), filepath.Join(into, name)); err != nil {
			return fmt.Errorf("keep the downloaded %s: %w", name, err)
		}
	}
	return nil
}

// probe fails soon on a machine that cannot reach what setup-envtest needs.
func (d downloader) probe(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, probeTimeout)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodHead, envtestIndex, nil)
	if err != nil {
		return err
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return err
	}
	_ = response.Body.Close()
	if response.StatusCode != http.StatusOK {
		return fmt.Errorf("%s answers %s", envtestIndex, response.Status)
	}
	return nil
}
