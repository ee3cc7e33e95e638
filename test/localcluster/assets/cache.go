package assets

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/gofrs/flock"
)

// cache is a folder of binaries that several processes may fill at once.
type cache struct {
	// provided is a folder to look into first; it is never written. May be empty.
	provided string
	// dir is the cache itself.
	dir string
	// folder returns the folder below dir, named after versions, for a binary.
	folder func(name string) string
	// describe returns what building a binary means, for the screen.
	describe func(name string) string
	// downloads brings the envtest binaries. May be nil.
	downloads interface {
		// probe fails soon if download has no chance.
		probe(ctx context.Context) error
		// download puts the binaries into a folder, using the scratch folder work.
		download(ctx context.Context, work, into string) error
	}
	// build makes one binary at the path file, in the scratch folder work.
	build func(ctx context.Context, work, name, file string) error
}

// ensure returns the named binaries, after making those that are missing.
func (c *cache) ensure(ctx context.Context, steps *steps, names []string) (Binaries, error) {
	if len(c.missing(names)) > 0 {
		if err := c.fill(ctx, steps, names); err != nil {
			return nil, err
		}
	}
	found := Binaries{}
	for _, name := range names {
		found[name] = c.path(name)
	}
	return found, nil
}

// fill makes the missing binaries while holding the cache's lock, under which
// another process may have made them already.
func (c *cache) fill(ctx context.Context, steps *steps, names []string) error {
	if err := os.MkdirAll(c.dir, 0o755); err != nil {
		return fmt.Errorf("make the cache folder: %w", err)
	}
	lock := flock.New(filepath.Join(c.dir, "lock"))
	if locked, err := lock.TryLock(); err == nil && !locked {
		steps.say("waiting for another process that fills %s", c.dir)
	}
	if _, err := lock.TryLockContext(ctx, 200*time.Millisecond); err != nil {
		return fmt.Errorf("lock the cache folder: %w", err)
	}
	defer func() { _ = lock.Unlock() }()

	// Under the lock, a scratch folder can only be what a killed process left.
	work := filepath.Join(c.dir, "work")
	if err := removeAll(work); err != nil {
		return fmt.Errorf("remove an old scratch folder: %w", err)
	}
	defer func() { _ = removeAll(work) }()

	if err := c.tryDownload(ctx, steps, work, names); err != nil {
		return err
	}
	missing := c.missing(names)
	for i, name := range missing {
		what := fmt.Sprintf("[%d/%d] building %s", i+1, len(missing), c.describe(name))
		if err := steps.run(what, func() error { return c.make(ctx, work, name) }); err != nil {
			return fmt.Errorf("build %s: %w", name, err)
		}
	}
	return nil
}

// tryDownload downloads the envtest binaries if some are wanted and none is
// there. A failure is only told, because all of them can be built instead.
func (c *cache) tryDownload(ctx context.Context, steps *steps, work string, names []string) error {
	wanted := slices.ContainsFunc(c.missing(names), func(name string) bool { return slices.Contains(Envtest, name) })
	if c.downloads == nil || !wanted || len(c.missing(Envtest)) < len(Envtest) {
		return nil
	}
	err := c.downloads.probe(ctx)
	if err == nil {
		err = steps.run("downloading etcd, kube-apiserver and kubectl with setup-envtest", func() error {
			into := filepath.Join(c.dir, c.folder("kube-apiserver"))
			if err := errors.Join(os.MkdirAll(work, 0o755), os.MkdirAll(into, 0o755)); err != nil {
				return err
			}
			return c.downloads.download(ctx, work, into)
		})
	}
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if err != nil {
		steps.say("setup-envtest cannot download here, building from source instead: %v", err)
	}
	return nil
}

// make builds one binary in the scratch folder and then moves it to its place,
// so that a file in the cache is always whole.
func (c *cache) make(ctx context.Context, work, name string) error {
	if err := os.MkdirAll(work, 0o755); err != nil {
		return err
	}
	built := filepath.Join(work, name)
	if err := c.build(ctx, work, name, built); err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(c.path(name)), 0o755); err != nil {
		return err
	}
	return os.Rename(built, c.path(name))
}

// path returns where a binary is or is to be.
func (c *cache) path(name string) string {
	if c.provided != "" && !slices.ContainsFunc(together(name), c.notProvided) {
		return filepath.Join(c.provided, name)
	}
	return filepath.Join(c.dir, c.folder(name), name)
}

func (c *cache) notProvided(name string) bool {
	return !isExecutable(filepath.Join(c.provided, name))
}

func (c *cache) missing(names []string) []string {
	return slices.DeleteFunc(slices.Clone(names), func(name string) bool { return isExecutable(c.path(name)) })
}

func isExecutable(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.Mode().IsRegular() && info.Mode()&0o111 != 0
}

// removeAll is os.RemoveAll for folders that may hold a read-only tree, as
// setup-envtest and the module cache write them.
func removeAll(dir string) error {
	_ = filepath.WalkDir(dir, func(path string, entry os.DirEntry, err error) error {
		if err == nil && entry.IsDir() {
			return os.Chmod(path, 0o755)
		}
		return nil
	})
	return os.RemoveAll(dir)
}
