#!/bin/sh
# Regenerates, formats and tidies everything. Fails, and shows the difference, if that changes a file, whether the
# work tree was clean before or not.
set -eu
cd "$(dirname "$0")/.."

# dist/install.yaml is for the default image, whatever this run of make is for.
unset IMG VERSION MAKEFLAGS

scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
trap 'exit 1' INT TERM

# Prints the id of a git tree with all files as they are now; the user's index stays as it is.
snapshot() {
	rm -f "$scratch/index"
	GIT_INDEX_FILE=$scratch/index git add --all .
	GIT_INDEX_FILE=$scratch/index git write-tree
}

before=$(snapshot)
make generate manifests fmt build-installer
go mod tidy
go mod verify
after=$(snapshot)

if [ "$before" != "$after" ]; then
	git --no-pager diff "$before" "$after"
	echo >&2
	echo 'verify: these files were not as their sources make them; the difference is above. They are now: commit them.' >&2
	git --no-pager diff --name-only "$before" "$after" | sed 's/^/  /' >&2
	exit 1
fi
echo 'verify: all generated files are up to date'
