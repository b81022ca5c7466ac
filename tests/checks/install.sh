#!/bin/bash
# The release build of the README compiles (a unity build: names of one file meet those of its neighbours), and what
# it installs serves find_package(gshard): a small program parses, propagates and partitions.
set -eu
cd "$(dirname "$0")/../.."
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cmake --preset release >/dev/null
cmake --build --preset release >"$work/build.log" 2>&1 || { grep -E 'error|FAILED' "$work/build.log"; exit 1; }
cmake --install build/release --prefix "$work/prefix" >/dev/null
cmake -S tests/install -B "$work/build" -G Ninja -DCMAKE_PREFIX_PATH="$work/prefix" >/dev/null
cmake --build "$work/build" >/dev/null
"$work/build/partition_file" samples/mlp.hlo | grep -q 'all-reduce'
"$work/prefix/bin/gshard-opt" --version
echo "1 passed, 0 failed"
