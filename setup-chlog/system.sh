#!/bin/bash
# Prints the name of this machine's system in archives, such as linux-x86_64.
set -euo pipefail
kernel=$(uname -s | tr '[:upper:]' '[:lower:]')
case $(uname -m) in
    arm64 | aarch64) machine=arm64 ;;
    x86_64 | amd64) machine=x86_64 ;;
    *) machine=$(uname -m) ;;
esac
echo "$kernel-$machine"
