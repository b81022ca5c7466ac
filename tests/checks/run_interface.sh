#!/bin/bash
# What gshard-run shows a user: progress on a terminal, Ctrl-C, traces, dumps, refusals.
set -eu
cd "$(dirname "$0")/../.."
unset OPENBLAS_CORETYPE # gshard-run warns of an old kernel, which some environments force
exec python3 tests/checks/run_interface.py build/ci/cmd/gshard-run
