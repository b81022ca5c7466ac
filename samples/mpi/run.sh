#!/bin/sh
# A 2048-device program over processes on this machine: run.sh [RANKS [IN]]
# Over several machines: give mpirun --hostfile FILE (one host a line) and a folder that all of them see.
set -eu
cd "$(dirname "$0")/.."
ranks=${1:-2}
program=${2:-}
if [ -z "$program" ]; then
  program=$(mktemp)
  trap 'rm -f "$program"' EXIT
  gshard-opt annotate moe_2048.hlo --rules moe_2048.rules --mesh core=2048 >"$program"
fi
cores=$(nproc)
threads=$((cores / ranks))
[ "$threads" -ge 1 ] || threads=1
options="--bind-to none"                            # Open MPI binds a rank to one core otherwise
[ "$ranks" -le "$cores" ] || options="$options --oversubscribe"
[ "$(id -u)" != 0 ] || options="$options --allow-run-as-root"
# shellcheck disable=SC2086  # one word an option
mpirun $options -n "$ranks" gshard-run-mpi "$program" --threads "$threads"
