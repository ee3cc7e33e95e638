// Package version tells what the running binary was built from.
package version

import "runtime/debug"

// The linker sets these when an image is built, whose build has no git checkout to look at.
var (
	version string
	commit  string
)

// Version is the release, "dev" if the binary is of none.
func Version() string {
	if version == "" {
		return "dev"
	}
	return version
}

// Commit is the git commit, with "-dirty" at the end if files were changed since; "unknown" if the build did not know.
func Commit() string {
	if commit != "" {
		return commit
	}
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return "unknown"
	}
	return commitOf(info.Settings)
}

// commitOf reads what the go command notes when it builds in a checkout.
func commitOf(settings []debug.BuildSetting) string {
	noted := map[string]string{}
	for _, setting := range settings {
		noted[setting.Key] = setting.Value
	}
	switch revision := noted["vcs.revision"]; {
	case revision == "":
		return "unknown"
	case noted["vcs.modified"] == "true":
		return revision + "-dirty"
	default:
		return revision
	}
}
