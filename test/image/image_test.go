// Package image checks the manager's image as it was built, without running it in a cluster. `make test-image` runs it.
package image

import (
	"archive/tar"
	"bufio"
	"bytes"
	"cmp"
	"compress/gzip"
	"crypto/sha256"
	"debug/elf"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
)

// largest is how large the image may be, in bytes, before compression.
const largest = 60_000_000

const labelPrefix = "org.opencontainers.image."

// image is what an image archive holds.
type image struct {
	Architecture string
	OS           string
	Config       struct {
		User       string
		Entrypoint []string
		Labels     map[string]string
	}
	// files are the contents of its files, by their paths without a leading slash.
	files map[string][]byte
}

func TestImage(t *testing.T) {
	image := read(t, named(t, "TEST_IMAGE"))

	if got := image.Config.User; got != "65532:65532" {
		t.Errorf("the user is %q, not a number that is not root's", got)
	}
	if got := image.Config.Entrypoint; !slices.Equal(got, []string{"/manager"}) {
		t.Errorf("the entry point is %q", got)
	}
	for _, name := range []string{"title", "description", "source", "licenses", "version", "revision"} {
		if image.Config.Labels[labelPrefix+name] == "" {
			t.Errorf("the label %s is missing", labelPrefix+name)
		}
	}
	size := 0
	for file, content := range image.files {
		size += len(content)
		if slices.Contains([]string{"sh", "bash", "dash", "ash", "busybox", "toybox"}, path.Base(file)) {
			t.Errorf("there is a shell: %s", file)
		}
	}
	t.Logf("%d bytes in %d files", size, len(image.files))
	if size > largest {
		t.Errorf("it is larger than %d bytes", largest)
	}
}

func TestManager(t *testing.T) {
	image := read(t, named(t, "TEST_IMAGE"))
	manager := image.files["manager"]

	binary, err := elf.NewFile(bytes.NewReader(manager))
	if err != nil {
		t.Fatal(err)
	}
	if libraries, err := binary.ImportedLibraries(); err != nil || len(libraries) > 0 {
		t.Errorf("not static: it wants %q (%v)", libraries, err)
	}
	if image.OS != runtime.GOOS || image.Architecture != runtime.GOARCH {
		t.Skipf("built for %s/%s, not to be run here", image.OS, image.Architecture)
	}
	program := filepath.Join(t.TempDir(), "manager")
	if err := os.WriteFile(program, manager, 0o700); err != nil {
		t.Fatal(err)
	}
	got, err := exec.Command(program, "--version").CombinedOutput()
	want := fmt.Sprintf("podset-operator %s, commit %s\n", image.Config.Labels[labelPrefix+"version"], image.Config.Labels[labelPrefix+"revision"])
	if err != nil || string(got) != want {
		t.Errorf("--version says %q (%v), the labels say %q", got, err, want)
	}
}

func TestASecondBuildGivesTheSameManager(t *testing.T) {
	first := sha256.Sum256(read(t, named(t, "TEST_IMAGE")).files["manager"])
	second := sha256.Sum256(read(t, named(t, "TEST_IMAGE_AGAIN")).files["manager"])
	t.Logf("sha256 %x", first)
	if first != second {
		t.Errorf("the second has sha256 %x", second)
	}
}

// named returns the name of an image from the environment.
func named(t *testing.T, variable string) string {
	t.Helper()
	name := os.Getenv(variable)
	if name == "" {
		t.Skip("make test-image runs it, with " + variable)
	}
	return name
}

// read gets an image from the container tool that built it.
func read(t *testing.T, name string) image {
	t.Helper()
	tool, archive := cmp.Or(os.Getenv("CONTAINER_TOOL"), "docker"), filepath.Join(t.TempDir(), "image.tar")
	save := exec.Command(tool, "save", "-o", archive, name)
	if filepath.Base(tool) == "buildah" {
		save = exec.Command(tool, "push", name, "docker-archive:"+archive)
	}
	if output, err := save.CombinedOutput(); err != nil {
		t.Fatalf("%s: %s: %s", save, err, output)
	}
	blobs := open(t, archive)
	var manifest []struct {
		Config string
		Layers []string
	}
	decode(t, blobs["manifest.json"], &manifest)
	image := image{files: map[string][]byte{}}
	decode(t, blobs[manifest[0].Config], &image)
	for _, layer := range manifest[0].Layers {
		maps.Copy(image.files, untar(t, bytes.NewReader(blobs[layer])))
	}
	return image
}

func open(t *testing.T, archive string) map[string][]byte {
	t.Helper()
	file, err := os.Open(archive)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = file.Close() }()
	return untar(t, file)
}

// untar returns the contents of the regular files of an archive, compressed or not, and of links as if they were empty.
func untar(t *testing.T, from io.Reader) map[string][]byte {
	t.Helper()
	buffered := bufio.NewReader(from)
	from = buffered
	if magic, _ := buffered.Peek(2); bytes.Equal(magic, []byte{0x1f, 0x8b}) {
		uncompressed, err := gzip.NewReader(buffered)
		if err != nil {
			t.Fatal(err)
		}
		from = uncompressed
	}
	files := map[string][]byte{}
	for archive := tar.NewReader(from); ; {
		header, err := archive.Next()
		if errors.Is(err, io.EOF) {
			return files
		}
		if err != nil {
			t.Fatal(err)
		}
		if header.FileInfo().IsDir() {
			continue
		}
		content, err := io.ReadAll(archive)
		if err != nil {
			t.Fatal(err)
		}
		files[strings.TrimPrefix(path.Clean(header.Name), "/")] = content
	}
}

func decode(t *testing.T, text []byte, into any) {
	t.Helper()
	if err := json.Unmarshal(text, into); err != nil {
		t.Fatal(err)
	}
}
