#!/bin/bash
# Installs, builds and runs every test on a Debian 12 or 13 machine. Ends with "N passed, N failed".
#
# GSHARD_CORPUS: folder of real HLO files (default ../shared/corpus; its tests are skipped where absent).
# GSHARD_XLA_VENV: an existing virtual environment with jaxlib, instead of a throwaway one.
# GSHARD_PROPERTY_S, GSHARD_PROPERTY_SEEDS: seconds for random programs (default 120), and which (0:100000).
set -u
cd "$(dirname "$0")/.." || exit 1
export GSHARD_CORPUS="${GSHARD_CORPUS:-$PWD/../shared/corpus}"
# Some environments force an old kernel on every program; what is tested is the choice that gshard-run makes.
unset OPENBLAS_CORETYPE OPENBLAS_L2_SIZE
passed=0 failed=0
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# count NAME LOG STATUS SECONDS: adds what a stage has counted; without a count it is one test.
count() {
  local name=$1 log=$2 status=$3 seconds=$4 line ok="" bad=""
  line=$(grep -E '^[0-9]+ passed, [0-9]+ failed' "$log" | tail -1)
  if [ -n "$line" ]; then
    ok=$(sed -E 's/^([0-9]+) passed.*/\1/' <<<"$line") bad=$(sed -E 's/^[0-9]+ passed, ([0-9]+) failed.*/\1/' <<<"$line")
  elif line=$(grep -E '^All tests passed \(' "$log" | tail -1) && [ -n "$line" ]; then
    ok=$(sed -E 's/.* in ([0-9]+) test cases?\).*/\1/' <<<"$line") bad=0
  elif line=$(grep -E '^test cases: ' "$log" | tail -1) && [ -n "$line" ]; then
    ok=$(grep -oE '[0-9]+ passed' <<<"$line" | cut -d' ' -f1) bad=$(grep -oE '[0-9]+ failed' <<<"$line" | cut -d' ' -f1)
  fi
  ok=${ok:-0} bad=${bad:-0}
  if [ "$status" != 0 ] && [ "$bad" = 0 ]; then bad=1; fi
  if [ "$status" = 0 ] && [ "$ok" = 0 ] && [ "$bad" = 0 ]; then ok=1; fi
  passed=$((passed + ok)) failed=$((failed + bad))
  if [ "$status" != 0 ]; then
    echo "== $name FAILED"
    # What a reader of the last page of a long log needs: its failures again, else its last lines.
    { echo "-- $name"; grep -E '^ *(FAIL|FAILED|not ok)|: FAILED:$|error:' "$log" | head -20 | grep . || tail -8 "$log"; } >>"$work/failed"
  fi
  printf '%5d s  %s\n' "$seconds" "$name" >>"$work/times"
}

# stage NAME COMMAND...
stage() {
  local name=$1 start=$SECONDS status
  shift
  echo "== $name"
  "$@" 2>&1 | tee "$work/log"
  status=${PIPESTATUS[0]}
  count "$name" "$work/log" "$status" "$((SECONDS - start))"
}

# two_at_a_time PREFIX PROGRAM FILE...: a stage for each file, told when its turn comes; most of them use one core.
two_at_a_time() {
  local prefix=$1 program=$2 lanes file name log
  shift 2
  printf '%s\n' "$@" | xargs -P 2 -I{} bash -c '
    log=$1/$(basename "$3").log
    "$2" "$3" >"$log.part" 2>&1
    echo "$? $SECONDS" >"$log.status"
    mv "$log.part" "$log"' _ "$work" "$program" {} &
  lanes=$!
  for file in "$@"; do
    name="$prefix: $(basename "${file%_test.*}")"
    log=$work/$(basename "$file").log
    echo "== $name"
    while [ ! -e "$log" ] && kill -0 "$lanes" 2>/dev/null; do sleep 1; done
    [ -e "$log" ] || { echo "was not run" >"$log" && echo "1 0" >"$log.status"; }
    cat "$log"
    # shellcheck disable=SC2046  # two words
    count "$name" "$log" $(cat "$log.status")
  done
  wait
}

finish() {
  echo "== seconds of each stage, longest first, of $SECONDS"
  sort -rn "$work/times"
  [ ! -e "$work/failed" ] || { echo "== what failed" && cat "$work/failed"; }
  echo "$passed passed, $failed failed"
  [ "$failed" = 0 ]
  exit
}

stage packages samples/install_packages.sh --tests --mpi
build() { cmake --preset ci && cmake --build --preset ci; }
stage build build
[ "$failed" = 0 ] || finish
bin=$PWD/build/ci
export PATH="$bin/cmd:$bin/tests:$PATH"

for room in ir core backends; do
  [ -x "$bin/tests/gshard_unit_$room" ] && stage "unit tests: $room" "$bin/tests/gshard_unit_$room"
done
stage "golden tests" "$bin/tests/gshard_golden" "$bin/cmd" tests/golden
stage "random programs" "$bin/tests/gshard_property" --seeds "${GSHARD_PROPERTY_SEEDS:-0:100000}" \
  --budget-s "${GSHARD_PROPERTY_S:-120}" --coverage --propagate-twice --out "$work/failures"
stage "random programs, optimized" "$bin/tests/gshard_property" --seeds "${GSHARD_PROPERTY_SEEDS:-0:20000}" --optimize \
  --budget-s "$((${GSHARD_PROPERTY_S:-120} / 4))" --out "$work/failures"
# 0:20000 by hand.
stage "random programs, as XLA" "$bin/tests/gshard_property" --seeds 0:3000 --as-xla --out "$work/failures"
# By Shardy's rules, which change nothing a second time, and by GSPMD's; 0:20000 by hand.
stage "random programs, Shardy" "$bin/tests/gshard_property" --seeds 0:1500 --shardy --propagate-twice --out "$work/failures"
# What gshard-run runs is what gshard-opt partition prints; 0:10000 by hand.
stage "random programs, gradients" "$bin/tests/gshard_property" --seeds 0:1500 --grad --out "$work/failures"
stage "random programs, one way" "$bin/tests/gshard_property" --seeds 0:1000 --one-way --out "$work/failures"
# On ranks that are threads; 0:10000 by hand.
stage "random programs, ranks" "$bin/tests/gshard_property" --seeds 0:3000 --ranks 3 --out "$work/failures"
# 0:1000 by hand.
stage "elimination against enumeration" "$bin/tests/gshard_least_plans" --elimination --graphs 0:10000 --most-plans 5000
stage "plans against all plans" "$bin/tests/gshard_least_plans" --graphs 0:40 --most-plans 1100
stage "runs over MPI" tests/mpi/mpi.sh
for script in tests/checks/*.sh; do
  [ -e "$script" ] && stage "check: $(basename "$script" .sh)" bash "$script"
done

# Against XLA itself: jaxlib from PyPI.
venv=${GSHARD_XLA_VENV:-$work/venv}
if [ ! -x "$venv/bin/python" ]; then
  python3 -m venv "$venv" && "$venv/bin/pip" install -q -r tests/differential/requirements.txt
fi
if "$venv/bin/python" -c 'import numpy' 2>/dev/null; then
  # 100 of each by hand (docs/verification.md).
  stage "faults that --verify must catch" "$venv/bin/python" tests/verification/inject_faults.py --faults 8
  stage "faults of indices" "$venv/bin/python" tests/verification/inject_index_faults.py --faults 16
fi
if "$venv/bin/python" -c 'import jaxlib' 2>/dev/null; then
  two_at_a_time "against XLA" "$venv/bin/python" tests/differential/*_test.py
else
  echo "SKIPPED: tests against XLA (jaxlib could not be installed from PyPI)"
fi
finish
