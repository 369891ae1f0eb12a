#!/bin/bash
# Builds the image of the service from one static binary, with buildah, podman or docker:
#   packaging/build-image.sh TAG
#   packaging/build-image.sh TAG BINARY    # with a binary that is there, such as one for musl
# A binary that is not static is accompanied by the libraries that it needs.
set -euo pipefail
cd "$(dirname "$0")/.."
tag=${1:?"usage: build-image.sh TAG [BINARY]"}
binary=${2:-}
target=${CARGO_TARGET_DIR:-target}

if [ -z "$binary" ]; then
    host=$(rustc -vV | sed -n 's/^host: //p')
    # With the option --target, it applies to the program and not to macros, which cannot be static.
    RUSTFLAGS='-C target-feature=+crt-static' \
        cargo build --profile dist --locked --target "$host" --bin changelog-server
    binary=$target/$host/dist/changelog-server
fi

context=$(mktemp -d)
trap 'rm -rf "$context"' EXIT
root=$context/root
install -D -m 755 "$binary" "$root/usr/bin/changelog-server"
for library in $(ldd "$binary" 2>/dev/null | grep -o '/[^ ]*' || true); do
    install -D -m 755 "$library" "$root$library"
done
certificates=/etc/ssl/certs/ca-certificates.crt
[ -e "$certificates" ] || {
    echo "$certificates is missing: install the package ca-certificates" >&2
    exit 1
}
install -D -m 644 "$certificates" "$root$certificates"
mkdir -p "$root/etc"
echo 'changelog:x:65532:65532::/var/lib/changelog:/nonexistent' >"$root/etc/passwd"
echo 'changelog:x:65532:' >"$root/etc/group"
install -d -m 1777 "$root/tmp"
install -d "$root/var/lib"
mkdir "$context/data"

for builder in buildah podman docker; do
    command -v "$builder" >/dev/null || continue
    format=()
    # HEALTHCHECK is not part of the format OCI.
    [ "$builder" = docker ] || format=(--format docker)
    "$builder" build "${format[@]}" -f packaging/server.Containerfile -t "$tag" "$context"
    exit
done
echo 'none of buildah, podman and docker was found' >&2
exit 1
