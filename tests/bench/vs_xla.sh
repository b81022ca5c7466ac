#!/bin/sh
# gshard-run against XLA's CPU backend and its emulated devices, both sides in one run: vs_xla.py prints the table.
#
#   GSHARD_BIN=build/ci/cmd GSHARD_XLA_VENV=DIR tests/bench/vs_xla.sh [--quick] [WORKLOAD...]
#
# The venv holds jax (tests/differential/requirements.txt); without GSHARD_XLA_VENV one is made in build/xla-venv.
# XLA's 2048 devices take minutes and up to 10 GB. Exit code 0: every line passed.
set -eu
cd "$(dirname "$0")/../.."
GSHARD_BIN=${GSHARD_BIN:-build/ci/cmd} # dot_bench is built with the tests
. tests/bench/environment.sh
exec "$venv/bin/python" tests/bench/vs_xla.py --bin "$GSHARD_BIN" "$@"
