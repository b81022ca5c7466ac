#!/bin/sh
# gshard-run against XLA's CPU backend and its emulated devices, both sides in one run: vs_xla.py prints the table.
#
#   GSHARD_BIN=build/release/cmd GSHARD_XLA_VENV=DIR tests/bench/vs_xla.sh [--quick] [WORKLOAD...]
#
# The venv holds jax (tests/differential/requirements.txt); without GSHARD_XLA_VENV one is made in build/xla-venv.
# XLA's 2048 devices take minutes and up to 10 GB. Exit code 0: every line passed.
set -eu
cd "$(dirname "$0")/../.."
unset OPENBLAS_CORETYPE OPENBLAS_L2_SIZE # some environments force an old kernel
GSHARD_BIN=${GSHARD_BIN:-build/release/cmd}
venv=${GSHARD_XLA_VENV:-build/xla-venv}
if [ ! -x "$venv/bin/python" ]; then
  python3 -m venv "$venv"
  "$venv/bin/pip" install --quiet -r tests/differential/requirements.txt
fi
for program in gshard-run gshard-opt; do
  if [ ! -x "$GSHARD_BIN/$program" ]; then
    echo "vs_xla.sh: no $GSHARD_BIN/$program; build it or set GSHARD_BIN" >&2
    exit 2
  fi
done
exec "$venv/bin/python" tests/bench/vs_xla.py --bin "$GSHARD_BIN" "$@"
