#!/bin/sh
# baseimages.sh: makes with buildah, where no registry can be reached, the two images that the Dockerfile starts from out
# of what this machine has: its Go installation with busybox as the shell, and an empty root with CA certificates.
# Then: make docker-build CONTAINER_TOOL=buildah BUILDER=localhost/builder BASE=localhost/base
set -eu

root=$(mktemp -d)
trap 'rm -rf "$root"' EXIT
trap 'exit 1' INT TERM

mkdir -p "$root/etc/ssl/certs" "$root/tmp"
chmod 1777 "$root/tmp"
echo 'nonroot:x:65532:65532:nonroot:/:/sbin/nologin' > "$root/etc/passwd"
echo 'nonroot:x:65532:' > "$root/etc/group"
cp /etc/ssl/certs/ca-certificates.crt "$root/etc/ssl/certs/"

# commit NAME [SETTING...] makes an image out of the root, with the settings that `buildah config` takes.
commit() {
	name=$1
	shift
	container=$(buildah from scratch)
	buildah copy --quiet "$container" "$root" / > /dev/null
	[ $# -eq 0 ] || buildah config "$@" "$container"
	buildah commit --quiet --rm "$container" "$name" > /dev/null
	echo "$name"
}
commit localhost/base

mkdir -p "$root/bin" "$root/root" "$root/usr/local"
echo 'root:x:0:0:root:/root:/bin/sh' >> "$root/etc/passwd"
cp "$(command -v busybox)" "$root/bin/"
for name in sh cat cp ls mkdir rm; do
	ln -s busybox "$root/bin/$name"
done
cp -a "$(go env GOROOT)" "$root/usr/local/go"
commit localhost/builder --env PATH=/usr/local/go/bin:/bin --env GOPATH=/go --env GOCACHE=/go/cache --env GOTOOLCHAIN=local --env HOME=/root
