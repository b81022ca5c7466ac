#!/bin/sh
# From a fresh clone to a verified 2048-core training step: installs, builds, runs the main job.
#
# The step is a GShard Mixture-of-Experts Transformer (samples/moe_train.hlo, printed by JAX without any
# sharding). A handful of annotations by name make it a program for a mesh of 32 x 64 cores.
set -eu
cd "$(dirname "$0")/.."
samples/install_packages.sh
cmake --preset release
cmake --build --preset release
PATH="$PWD/build/release/cmd:$PATH"
out=build/quickstart
mkdir -p "$out"

echo
echo "== the annotations (samples/moe_train.rules)"
grep -v '^#' samples/moe_train.rules
set -x
gshard-opt annotate samples/moe_train.hlo --mesh data=32,model=64 --rules samples/moe_train.rules |
  gshard-opt propagate - -o "$out/sharded.hlo"
gshard-opt partition "$out/sharded.hlo" -o "$out/device.hlo"
gshard-cost "$out/device.hlo" --chip tpu-v3
gshard-run "$out/sharded.hlo" --seed 2 --verify=outputs
