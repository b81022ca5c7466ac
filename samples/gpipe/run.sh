#!/bin/sh
# From an un-annotated JAX Transformer step (step.hlo, printed by samples/gen/gpipe_step.py) to a verified run of
# 8 stages x 32 data x 8 model = 2048 cores with 32 micro-batches. Needs the built programs (samples/quickstart.sh).
#
# usage: samples/gpipe/run.sh [BIN_DIR]
set -eu
cd "$(dirname "$0")/../.."
PATH="$(realpath "${1:-build/release/cmd}"):$PATH"
out=build/gpipe
mkdir -p "$out"
set -x
gshard-opt annotate samples/gpipe/step.hlo --mesh data=32,model=8 --rules samples/gpipe/step.rules |
  gshard-opt pipeline - --stages 8 --microbatches 32 --report - -o "$out/pipelined.hlo"
gshard-opt partition "$out/pipelined.hlo" | gshard-opt optimize - -o "$out/device.hlo"
gshard-run "$out/device.hlo" --reference samples/gpipe/step.hlo --seed 1 --verify=outputs
