# For the scripts beside it that compare with JAX, sourced at the top of the checkout: GSHARD_BIN (default
# build/release/cmd) and venv, which holds what tests/differential/requirements.txt names (GSHARD_XLA_VENV, or one made
# in build/xla-venv). Ends the script with exit code 2 where a program is missing.
unset OPENBLAS_CORETYPE OPENBLAS_L2_SIZE # some environments force an old kernel
GSHARD_BIN=${GSHARD_BIN:-build/release/cmd}
venv=${GSHARD_XLA_VENV:-build/xla-venv}
if [ ! -x "$venv/bin/python" ]; then
  python3 -m venv "$venv"
  "$venv/bin/pip" install --quiet -r tests/differential/requirements.txt
fi
for program in gshard-run gshard-opt; do
  if [ ! -x "$GSHARD_BIN/$program" ]; then
    echo "${0##*/}: no $GSHARD_BIN/$program; build it or set GSHARD_BIN" >&2
    exit 2
  fi
done
