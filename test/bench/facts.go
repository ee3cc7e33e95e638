package main

import (
	"bytes"
	"cmp"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"

	"example.com/podset-operator/hack"
	"example.com/podset-operator/test/operator"
)

// fact is something about the machine or the programs of a run.
type fact struct{ what, value string }

type facts []fact

func gatherFacts(settings settings) (facts, error) {
	root, err := operator.Root()
	if err != nil {
		return nil, err
	}
	commit := exec.Command("git", "describe", "--always", "--dirty", "--abbrev=40", "--exclude=*")
	commit.Dir = root
	text, err := commit.Output()
	if err != nil {
		text = []byte("unknown")
	}
	return facts{
		{"CPUs", fmt.Sprintf("%d × %s", runtime.NumCPU(), field("/proc/cpuinfo", "model name"))},
		{"memory", field("/proc/meminfo", "MemTotal")},
		{"load before the run", firstLine("/proc/loadavg")},
		{"kernel", firstLine("/proc/sys/kernel/osrelease")},
		{"Go", runtime.Version()},
		{"Kubernetes", hack.Version("K8S_VERSION")},
		{"etcd", hack.Version("ETCD_VERSION") + ", syncs to disk"},
		{"commit", strings.TrimSpace(string(text))},
		{"blocks, size, seed", fmt.Sprintf("%d, %d, %d", settings.blocks, settings.size, settings.seed)},
	}, nil
}

// field returns the value of the first line of a file that starts with a name and has a colon.
func field(path, name string) string {
	content, _ := os.ReadFile(path)
	for line := range strings.Lines(string(content)) {
		if key, value, ok := strings.Cut(line, ":"); ok && strings.TrimSpace(key) == name {
			return strings.TrimSpace(value)
		}
	}
	return "unknown"
}

func firstLine(path string) string {
	content, _ := os.ReadFile(path)
	line, _, _ := strings.Cut(string(content), "\n")
	return cmp.Or(line, "unknown")
}

// recordCommands remembers how the programs of a cluster were started.
func (b *bench) recordCommands(w *world) {
	files, _ := filepath.Glob(filepath.Join(w.cluster.Dir, "*.pid"))
	for _, file := range files {
		var pid int
		if _, err := fmt.Sscan(firstLine(file), &pid); err == nil {
			b.recordCommand(pid)
		}
	}
}

// Folders and ports are different in each run.
var (
	clusterFolder = regexp.MustCompile(`/[^ ]*/localcluster-\d+`)
	otherFolders  = regexp.MustCompile(`(^|[ =])/[^ ]*/`)
	ports         = regexp.MustCompile(`(127\.0\.0\.1:|--secure-port=)\d+`)
)

func (b *bench) recordCommand(pid int) {
	content, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
	if err != nil {
		return
	}
	line := string(bytes.TrimSpace(bytes.ReplaceAll(content, []byte{0}, []byte{' '})))
	line = clusterFolder.ReplaceAllString(line, "DIR")
	line = otherFolders.ReplaceAllString(line, "$1")
	line = ports.ReplaceAllString(line, "${1}PORT")
	b.commands[line] = true
}

func sortedKeys[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }
