#!/bin/bash
# Builds an archive of each program for this machine's system, with manual pages, completions and,
# if cargo-cyclonedx is installed, the list of its components (CycloneDX), and their checksums:
#   packaging/build-archives.sh DIRECTORY            # compiled with the profile dist
#   packaging/build-archives.sh DIRECTORY PROFILE    # of programs that are there, such as debug
# Put the files of all systems in one folder of a web server, with their SHA256SUMS as one file:
# setup-chlog/download.sh installs chlog from there.
set -euo pipefail
cd "$(dirname "$0")/.."
root=$(mktemp -d)
trap 'rm -rf "$root"' EXIT
made=$root/made
. packaging/programs.sh
system=$(bash setup-chlog/system.sh)
for program in chlog changelog-server; do
    folder=$root/$program-$system
    install -D -m 755 "$programs/$program" "$folder/$program"
    install -d "$folder/man"
    install -m 644 "$made/man/$program"*.1 "$folder/man/"
    install -m 644 README.md CHANGELOG.md LICENSE "$folder/"
done
cp -r "$made/completions" "$root/chlog-$system/"
if command -v cargo-cyclonedx >/dev/null; then
    # With this variable the lists have no time and no random number.
    SOURCE_DATE_EPOCH=0 cargo cyclonedx --quiet --format json --spec-version 1.5 \
        --describe binaries --no-build-deps
    mv changelog-cli/chlog_bin.cdx.json "$root/chlog-$system/sbom.cdx.json"
    mv changelog-server/changelog-server_bin.cdx.json "$root/changelog-server-$system/sbom.cdx.json"
else
    echo "no sbom.cdx.json in the archives; for these: cargo install cargo-cyclonedx" >&2
fi
for program in chlog changelog-server; do
    # The same files make the same archive.
    tar --create --gzip --file "$out/$program-$system.tar.gz" --directory "$root" \
        --sort=name --owner=0 --group=0 --numeric-owner --mtime=@0 "$program-$system"
done
cd "$out"
sha256sum -- *.tar.gz >SHA256SUMS
cat SHA256SUMS
