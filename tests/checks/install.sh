#!/bin/bash
# An installed gshard serves find_package(gshard): a small program parses, propagates and partitions.
set -eu
cd "$(dirname "$0")/../.."
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cmake --install build/ci --prefix "$work/prefix" >/dev/null
cmake -S tests/install -B "$work/build" -G Ninja -DCMAKE_PREFIX_PATH="$work/prefix" >/dev/null
cmake --build "$work/build" >/dev/null
"$work/build/partition_file" samples/mlp.hlo | grep -q 'all-reduce'
"$work/prefix/bin/gshard-opt" --version
echo "1 passed, 0 failed"
