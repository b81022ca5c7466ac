#!/bin/sh
# The runs over MPI with MPICH: gshard-run-mpi is built for it beside the other build, then mpi.sh runs 20 programs.
#
#   PATH=build/ci/cmd:$PATH tests/mpi/mpich.sh [MOST_PROGRAMS]      (apt-get install mpich libmpich-dev)
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
[ -f "$build/build.ninja" ] ||
  cmake --preset ci -B "$build" -DGSHARD_MPI=ON -DMPI_C_COMPILER=mpicc.mpich -DMPIEXEC_EXECUTABLE=mpirun.mpich >/dev/null
cmake --build "$build" --target gshard-run-mpi >/dev/null
if ! ldd "$build/cmd/gshard-run-mpi" | grep -q libmpich; then
  echo "mpich.sh: gshard-run-mpi is not linked with MPICH" >&2
  exit 1
fi
mkdir -p "$build/only"
ln -sf ../cmd/gshard-run-mpi "$build/only/gshard-run-mpi"
MPIRUN=mpirun.mpich PATH="$PWD/$build/only:$PATH" tests/mpi/mpi.sh "${1:-20}"
