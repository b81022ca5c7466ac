#!/bin/sh
# Ten steps as users of diffrax, optax, flax, equinox and of JAX alone write them: gshard-run against JAX on one device.
#
#   GSHARD_BIN=build/release/cmd GSHARD_XLA_VENV=DIR tests/bench/library_programs.sh [PROGRAM...]
#
# The venv holds what tests/differential/requirements.txt names. Exit code 0: no program takes more than 1.2 of JAX's time.
set -eu
cd "$(dirname "$0")/../.."
. tests/bench/environment.sh
exec "$venv/bin/python" tests/bench/library_programs.py --bin "$GSHARD_BIN" "$@"
