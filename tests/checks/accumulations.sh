#!/bin/bash
# Random loops that add up all-reduces compute the same after these have left the loops.
cd "$(dirname "$0")/../.." && PATH="$PWD/build/ci/cmd:$PATH" exec python3 tests/checks/accumulations.py "$@"
