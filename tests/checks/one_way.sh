#!/bin/bash
# What gshard-run runs is what `gshard-opt partition` prints, and gshard-cost counts the same devices.
set -eu
cd "$(dirname "$0")/../.."
unset OPENBLAS_CORETYPE # gshard-run warns of an old kernel, which some environments force
PATH="$PWD/build/ci/cmd:$PATH" exec python3 tests/checks/one_way.py
