#!/bin/bash
# Builds an archive of each program for this machine's system, with manual pages and completions,
# and their checksums:
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
for program in chlog changelog-server; do
    # The same files make the same archive.
    tar --create --gzip --file "$out/$program-$system.tar.gz" --directory "$root" \
        --sort=name --owner=0 --group=0 --numeric-owner --mtime=@0 "$program-$system"
done
cd "$out"
sha256sum -- *.tar.gz >SHA256SUMS
cat SHA256SUMS
