#!/bin/bash
# Builds chlog from this checkout, and installs it in the bin folder of a directory.
set -euo pipefail
root=${1:?"usage: install.sh DIRECTORY"}
source=$(cd "$(dirname "$0")/.." && pwd)
# rust-toolchain.toml, which chooses the compiler, applies in the source only.
cd "$source"
cargo install --quiet --locked --no-track --force --path changelog-cli --root "$root"
"$root/bin/chlog" --version
