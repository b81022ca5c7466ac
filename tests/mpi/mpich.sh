#!/bin/sh
# The runs over MPI with MPICH: gshard-run-mpi is built for it beside the other build, then mpi.sh runs 20 programs.
# gshard-run, the other side, is the one on the PATH, or is built as well: of tests' libraries nothing is needed.
#
#   [PATH=build/ci/cmd:$PATH] tests/mpi/mpich.sh [MOST_PROGRAMS]      (apt-get install mpich libmpich-dev)
set -eu
cd "$(dirname "$0")/../.."
for program in mpicc.mpich mpirun.mpich; do
  if ! command -v "$program" >/dev/null; then
    echo "mpich.sh: skipped: no $program (Debian: mpich, libmpich-dev)"
    echo "0 passed, 0 failed"
    exit 0
  fi
done
build=${GSHARD_MPICH_BUILD:-build/mpich}
case $build in /*) ;; *) build=$PWD/$build ;; esac
[ -f "$build/build.ninja" ] ||
  cmake --preset ci -B "$build" -DGSHARD_TESTS=OFF -DGSHARD_BENCH=OFF -DGSHARD_MPI=ON -DMPI_C_COMPILER=mpicc.mpich \
    -DMPIEXEC_EXECUTABLE=mpirun.mpich >/dev/null
targets=gshard-run-mpi
command -v gshard-run >/dev/null || targets="gshard-run gshard-run-mpi"
# shellcheck disable=SC2086  # one word a target
cmake --build "$build" --target $targets >"$build/log" || { cat "$build/log" >&2; exit 1; }
if ! ldd "$build/cmd/gshard-run-mpi" | grep -q libmpich; then
  echo "mpich.sh: gshard-run-mpi is not linked with MPICH" >&2
  exit 1
fi
mkdir -p "$build/only"
for target in $targets; do ln -sf "../cmd/$target" "$build/only/$target"; done
MPIRUN=mpirun.mpich PATH="$build/only:$PATH" tests/mpi/mpi.sh "${1:-20}"
