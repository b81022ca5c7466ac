#!/bin/sh
# Ten steps as users of diffrax, optax, flax, equinox and of JAX alone write them: gshard-run against JAX on one device.
#
#   GSHARD_BIN=build/release/cmd GSHARD_XLA_VENV=DIR tests/bench/library_programs.sh [PROGRAM...]
#
# The venv holds what tests/differential/requirements.txt names. Exit code 0: no program takes more than 1.2 of JAX's time.
set -eu
cd "$(dirname "$0")/../.."
unset OPENBLAS_CORETYPE OPENBLAS_L2_SIZE # some environments force an old kernel
GSHARD_BIN=${GSHARD_BIN:-build/release/cmd}
venv=${GSHARD_XLA_VENV:-build/xla-venv}
if [ ! -x "$venv/bin/python" ]; then
  python3 -m venv "$venv"
  "$venv/bin/pip" install --quiet -r tests/differential/requirements.txt
fi
if [ ! -x "$GSHARD_BIN/gshard-run" ]; then
  echo "library_programs.sh: no $GSHARD_BIN/gshard-run; build it or set GSHARD_BIN" >&2
  exit 2
fi
exec "$venv/bin/python" tests/bench/library_programs.py --bin "$GSHARD_BIN" "$@"
