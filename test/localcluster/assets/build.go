package assets

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/mod/modfile"
	"golang.org/x/mod/semver"
)

// builder builds binaries from Go modules.
type builder struct {
	kubernetes string // without a leading "v"
	etcd       string
	kwok       string
}

// source says where the main package of a binary is.
type source struct {
	// module and version are what the module proxy serves.
	module, version string
	// pkg is the main package.
	pkg string
	// local is the version of the modules that module replaces by a local path.
	local string
	// ldflags stamps the version.
	ldflags string
	// minutes is how long a first build can take on two cores.
	minutes int
}

func (b *builder) source(name string) source {
	switch name {
	case "etcd":
		return source{
			module: "go.etcd.io/etcd/server/v3", version: b.etcd, pkg: "go.etcd.io/etcd/server/v3",
			local: b.etcd, minutes: 2,
		}
	case "kwok":
		return source{
			module: "sigs.k8s.io/kwok", version: b.kwok, pkg: "sigs.k8s.io/kwok/cmd/kwok",
			local: b.kwok, minutes: 2,
		}
	}
	minutes := map[string]int{"kubectl": 3, "kube-apiserver": 7, "kube-controller-manager": 5, "kube-scheduler": 2}
	version := "v" + b.kubernetes
	minor := strings.TrimPrefix(semver.MajorMinor(version), "v1.")
	stamp := func(variable, value string) string {
		return " -X k8s.io/component-base/version." + variable + "=" + value
	}
	return source{
		module: "k8s.io/kubernetes", version: version, pkg: "k8s.io/kubernetes/cmd/" + name,
		// Kubernetes 1.x.y comes with its libraries at v0.x.y.
		local:   "v0." + strings.TrimPrefix(b.kubernetes, "1."),
		ldflags: stamp("gitVersion", version) + stamp("gitMajor", "1") + stamp("gitMinor", minor),
		minutes: minutes[name],
	}
}

// folder names the cache folder of a binary. It holds the versions of all that
// is in it, so that a new version is never taken for the old one.
func (b *builder) folder(name string) string {
	if name == "kwok" {
		return "kwok-" + b.kwok
	}
	return "k8s-" + b.kubernetes + "-etcd-" + b.etcd
}

func (b *builder) describe(name string) string {
	s := b.source(name)
	return fmt.Sprintf("%s %s from source (can take %d minutes)", name, s.version, s.minutes)
}

// build makes the binary called name at the path file. It works in a module of
// its own below work, which the binaries of one source share.
func (b *builder) build(ctx context.Context, work, name, file string) error {
	s := b.source(name)
	dir := filepath.Join(work, "src", filepath.Base(strings.TrimSuffix(s.module, "/server/v3")))
	if err := s.prepare(ctx, dir); err != nil {
		return err
	}
	_, err := runGo(ctx, dir, "build", "-trimpath", "-ldflags", "-s -w"+s.ldflags, "-o", file, s.pkg)
	return err
}

// prepare writes into dir the go.mod of a module that can build s.
func (s source) prepare(ctx context.Context, dir string) error {
	path := filepath.Join(dir, "go.mod")
	if _, err := os.Stat(path); err == nil {
		return nil
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	out, runErr := runGo(ctx, dir, "mod", "download", "-json", s.module+"@"+s.version)
	var downloaded struct{ GoMod, Error string }
	if err := json.Unmarshal(out, &downloaded); err != nil {
		if runErr != nil {
			return runErr
		}
		return fmt.Errorf("read what go mod download says of %s: %w", s.module, err)
	}
	if downloaded.Error != "" {
		return fmt.Errorf("download its source: %s", downloaded.Error)
	}
	original, err := os.ReadFile(downloaded.GoMod)
	if err != nil {
		return fmt.Errorf("read the go.mod of %s: %w", s.module, err)
	}
	mod, err := s.goMod(original)
	if err != nil {
		return err
	}
	return os.WriteFile(path, mod, 0o644)
}

// goMod returns a go.mod that requires s, given the go.mod of s.module itself.
// A dependency's replace and godebug lines do not count, so they are taken over;
// where one points into the source tree, the released module takes its place.
func (s source) goMod(original []byte) ([]byte, error) {
	theirs, err := modfile.Parse(s.module+"/go.mod", original, nil)
	if err != nil {
		return nil, fmt.Errorf("read the go.mod of %s: %w", s.module, err)
	}
	ours := &modfile.File{}
	if err := ours.AddModuleStmt("localcluster/" + filepath.Base(strings.TrimSuffix(s.module, "/server/v3"))); err != nil {
		return nil, err
	}
	if theirs.Go != nil {
		if err := ours.AddGoStmt(theirs.Go.Version); err != nil {
			return nil, err
		}
	}
	for _, setting := range theirs.Godebug {
		if err := ours.AddGodebug(setting.Key, setting.Value); err != nil {
			return nil, err
		}
	}
	if err := ours.AddRequire(s.module, s.version); err != nil {
		return nil, err
	}
	for _, replace := range theirs.Replace {
		target := replace.New
		if modfile.IsDirectoryPath(target.Path) {
			target.Path, target.Version = replace.Old.Path, s.local
		}
		if err := ours.AddReplace(replace.Old.Path, replace.Old.Version, target.Path, target.Version); err != nil {
			return nil, err
		}
	}
	ours.Cleanup()
	return ours.Format()
}
