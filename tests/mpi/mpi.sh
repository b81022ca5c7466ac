#!/bin/sh
# Runs over MPI against runs in one process: the same bits, the same exit codes; ranks that are killed, stopped or
# have other files. Skipped, with a note, where mpirun or gshard-run-mpi is not there.
#
#   PATH=build/ci/cmd:$PATH [MPIRUN=mpirun.mpich] tests/mpi/mpi.sh [MOST_PROGRAMS]
set -u
cd "$(dirname "$0")/../.."
mpirun=${MPIRUN:-mpirun}
if ! command -v "$mpirun" >/dev/null || ! command -v gshard-run-mpi >/dev/null; then
  echo "mpi.sh: skipped: no $mpirun, or no gshard-run-mpi (GSHARD_MPI=ON builds it)"
  echo "0 passed, 0 failed"
  exit 0
fi
if ! command -v gshard-run >/dev/null; then
  echo "mpi.sh: no gshard-run on the PATH to compare with" >&2
  exit 1
fi
most=${1:-20}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
options=""
if "$mpirun" --version 2>/dev/null | grep -q "Open MPI"; then
  options="--bind-to none --oversubscribe"
  [ "$(id -u)" != 0 ] || options="$options --allow-run-as-root"
fi
over() { # RANKS ARGUMENTS
  n=$1
  shift
  # shellcheck disable=SC2086  # one word an option
  timeout 120 "$mpirun" $options -n "$n" "$@" </dev/null
}
passed=0 failed=0
check() { # NAME CONDITION...
  name=$1
  shift
  if "$@"; then passed=$((passed + 1)); else failed=$((failed + 1)); echo "FAIL $name"; fi
}

# GSHARD_UPDATE=1 writes it.
[ -z "${GSHARD_UPDATE:-}" ] || gshard-run-mpi --help >tests/mpi/help.txt
gshard-run-mpi --help >"$work/help" 2>/dev/null
check "help is as in tests/mpi/help.txt" cmp "$work/help" tests/mpi/help.txt

# Bits, of programs that several devices run: random ones, too.
random="$(dirname "$(command -v gshard-run)")/../tests/gshard_property"
[ ! -x "$random" ] || "$random" --write "$work/random" --devices 8 --seeds 0:20 >/dev/null
programs=0
for program in samples/m*.hlo samples/[ps]*.hlo tests/golden/run/*.hlo tests/golden/partition/*.hlo "$work"/random/*.hlo; do
  [ "$programs" -lt "$most" ] || break
  grep -q "num_partitions=[2-9]\|num_partitions=1[0-9]\|devices=\[" "$program" || continue
  rm -f "$work/one.npz" "$work/many.npz"
  gshard-run "$program" --threads 2 --output "$work/one.npz" >/dev/null 2>&1 || continue
  programs=$((programs + 1))
  ranks=$((2 + programs % 3))
  over "$ranks" gshard-run-mpi "$program" --threads 1 --output "$work/many.npz" >"$work/log" 2>&1
  check "$program on $ranks ranks" cmp -s "$work/one.npz" "$work/many.npz"
done
echo "$programs programs"

# One trace of all ranks, each a process in it.
over 3 gshard-run-mpi samples/mlp.hlo --threads 1 --trace "$work/trace.json" >"$work/log" 2>&1
for rank in 0 1 2; do
  check "rank $rank has a name in the trace" grep -q "\"pid\":$rank,\"name\":\"process_name\",\"args\":{\"name\":\"rank $rank\"}" "$work/trace.json"
  check "rank $rank has events in the trace" grep -q "\"ph\":\"X\",\"pid\":$rank," "$work/trace.json"
done
check "the trace is one document" python3 -m json.tool "$work/trace.json" /dev/null
check "programs to compare" [ "$programs" -gt 0 ]

# Each rank takes its devices' part of a file: cut by rows, by columns, not at all.
cat >"$work/input.hlo" <<'END'
HloModule input, num_partitions=8
ENTRY e {
  a = f32[16,6] parameter(0), sharding={devices=[8,1]<=[8]}
  b = f32[16,6] parameter(1), sharding={devices=[1,2,4]<=[8] last_tile_dim_replicate}
  c = f32[16,6] parameter(2), sharding={replicated}
  d = f32[16,6] add(a, c), sharding={devices=[8,1]<=[8]}
  ROOT r = f32[16,6] subtract(d, b), sharding={devices=[8,1]<=[8]}
}
END
python3 - "$work/input.npz" <<'END'
import struct, sys, zipfile
head = "{'descr': '<f4', 'fortran_order': False, 'shape': (16, 6), }"
head = b"\x93NUMPY\1\0" + struct.pack("<H", len(head) + 1) + head.encode() + b"\n"
with zipfile.ZipFile(sys.argv[1], "w") as file:  # stored
    for k in range(3):
        file.writestr(f"p{k}.npy", head + struct.pack("<96f", *(k * 1000 + i for i in range(96))))
END
gshard-run "$work/input.hlo" --input "$work/input.npz" --output "$work/one.npz" >/dev/null 2>&1
rm -f "$work/many.npz"
over 3 gshard-run-mpi "$work/input.hlo" --threads 1 --input "$work/input.npz" --output "$work/many.npz" >"$work/log" 2>&1
check "--input on 3 ranks" cmp -s "$work/one.npz" "$work/many.npz"
right() { # i + (2000 + i) - (1000 + i)
  python3 -c 'import struct, sys, zipfile
with zipfile.ZipFile(sys.argv[1]) as file: data = file.read(file.namelist()[0])
sys.exit(struct.unpack("<96f", data[-384:]) != tuple(1000.0 + i for i in range(96)))' "$1"
}
check "--input on 3 ranks is what the file has" right "$work/many.npz"

over 2 gshard-run-mpi samples/mlp.hlo --verify >"$work/log" 2>&1
check "--verify" grep -q "^verify *ok" "$work/log"

# Without shared memory, or too little of it, or where its mapping is refused: messages, and the same bits.
gshard-run samples/moe_layer.hlo --output "$work/one.npz" >/dev/null
for shared in 1GiB 0B 20KiB 9999TiB; do
  over 2 gshard-run-mpi samples/moe_layer.hlo --threads 1 --shared-memory $shared --output "$work/many.npz" \
    >"$work/log" 2>&1
  check "--shared-memory $shared" cmp -s "$work/one.npz" "$work/many.npz"
  ranks=$(grep -c "through shared memory" "$work/log")
  [ $shared = 1GiB ] || ranks=$((2 - ranks))
  check "--shared-memory $shared: what is shared" [ "$ranks" = 2 ]
done

# The same findings, instruction by instruction; memory is another.
findings() { sed -n '/^verify/,$s/ in [0-9.]* [KMG]*i*B,/,/p' "$1"; }
gshard-run samples/moe_layer.hlo --verify >"$work/alone"
over 3 gshard-run-mpi samples/moe_layer.hlo --threads 1 --verify >"$work/log" 2>&1
findings "$work/alone" >"$work/alone.findings"
findings "$work/log" >"$work/log.findings"
check "--verify compares instructions" grep -q "instructions compared" "$work/log.findings"
check "--verify finds what one process finds" cmp "$work/alone.findings" "$work/log.findings"

# The sample, with Open MPI's flags.
if [ -z "${MPIRUN:-}" ]; then
  samples/mpi/run.sh 2 mlp.hlo >"$work/log" 2>&1
  check "samples/mpi/run.sh" grep -q "^devices *8 " "$work/log"
fi

# Errors are told once.
over 3 gshard-run-mpi samples/nowhere.hlo >"$work/log" 2>&1
code=$?
check "exit code of a missing file" [ "$code" = 1 ]
check "a missing file is told once" [ "$(grep -c 'nowhere.hlo' "$work/log")" = 1 ]
over 3 gshard-run-mpi samples/mlp.hlo --memory-limit 1KiB >"$work/log" 2>&1
code=$?
check "exit code of a refusal" [ "$code" = 3 ]
check "a refusal is told once" [ "$(grep -c E-RUN-MEMORY "$work/log")" = 1 ]

# Too large for one rank, not for four.
over 1 gshard-run-mpi samples/moe_layer.hlo --threads 1 --memory-limit 1MiB >"$work/log" 2>&1
code=$?
check "one rank is too small" [ "$code" = 3 ]
over 4 gshard-run-mpi samples/moe_layer.hlo --threads 1 --memory-limit 1MiB >"$work/log" 2>&1
code=$?
check "four are not" [ "$code" = 0 ]

# Ranks that are killed, stopped, have other files, get no memory: one of each; failures.py alone does 200.
for kind in kill stop truncated "other file" "no memory"; do
  check "a rank fails: $kind" python3 tests/mpi/failures.py --runs 1 --kinds "$kind" --timeout 3 --mpirun "$mpirun"
done
echo "$passed passed, $failed failed"
[ "$failed" = 0 ]
