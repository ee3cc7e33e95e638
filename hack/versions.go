// Package hack gives Go code the versions pinned in versions.env.
package hack

import (
	_ "embed"
	"os"
	"strings"
)

//go:embed versions.env
var pinned string

// Version returns the version that versions.env pins under name, such as
// "K8S_VERSION". An environment variable of that name, if not empty, overrides
// it. Version panics if nothing is pinned under name.
func Version(name string) string {
	if override := os.Getenv(name); override != "" {
		return override
	}
	for line := range strings.Lines(pinned) {
		if key, value, ok := strings.Cut(strings.TrimSpace(line), "="); ok && key == name {
			return value
		}
	}
	panic("hack/versions.env does not pin " + name)
}
