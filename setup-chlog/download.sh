#!/bin/bash
# Installs chlog in the bin folder of a directory, from the archives that
# packaging/build-archives.sh has made:
#   download.sh URL DIRECTORY    # URL is the folder with the archives and their SHA256SUMS
set -euo pipefail
url=${1:?"usage: download.sh URL DIRECTORY"}
root=${2:?"usage: download.sh URL DIRECTORY"}
name=chlog-$(bash "$(dirname "$0")/system.sh")
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
for file in SHA256SUMS "$name.tar.gz"; do
    curl --fail --silent --show-error --location --retry 3 --max-time 120 \
        --output "$work/$file" "${url%/}/$file" || {
        echo "setup-chlog: ${url%/}/$file cannot be downloaded" >&2
        exit 1
    }
done
cd "$work"
expected=$(awk -v file="$name.tar.gz" '$2 == file { print $1 }' SHA256SUMS)
found=$( (sha256sum "$name.tar.gz" 2>/dev/null || shasum -a 256 "$name.tar.gz") | cut -d ' ' -f 1)
if [ -z "$expected" ] || [ "$found" != "$expected" ]; then
    echo "setup-chlog: $name.tar.gz has the SHA-256 $found, and SHA256SUMS says ${expected:-nothing of it}" >&2
    exit 1
fi
tar -xzf "$name.tar.gz"
mkdir -p "$root/bin"
install -m 755 "$name/chlog" "$root/bin/chlog"
"$root/bin/chlog" --version
