#!/bin/bash
# Builds the Debian packages changelog-server and chlog with cargo-deb (cargo install cargo-deb):
#   packaging/build-deb.sh DIRECTORY            # compiled with the profile dist
#   packaging/build-deb.sh DIRECTORY PROFILE [FLAG]…    # of programs that are there, such as debug
set -euo pipefail
cd "$(dirname "$0")/.."
made=target/packages
. packaging/programs.sh
[ "$profile" != debug ] || profile=dev
for package in changelog-server changelog-cli; do
    cargo deb --quiet --no-build --profile "$profile" -p "$package" -o "$out" "${@:3}"
done
ls -1 "$out"/*.deb
