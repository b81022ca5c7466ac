#!/bin/bash
# The sample on its 2048 cores: blocks stay where most are alike, as copies of unlike weights cost more than begins elsewhere would
# save; and what goes to all stages, before and after the micro-batches, is what few of them have. Rows of the stacked layers do
# not: a device then held all layers for a moment, 75 KiB instead of 47.
set -eu
cd "$(dirname "$0")/../.."
PATH="$PWD/build/ci/cmd:$PATH"
work=$(mktemp -d)
trap 'rm -r "$work"' EXIT
passed=0 failed=0
check() {
  if "${@:2}"; then passed=$((passed + 1)); else failed=$((failed + 1)) && echo "FAIL $1" && cat "$work/report" "$work/cost"; fi
}
gshard-opt annotate samples/gpipe/step.hlo --mesh data=32,model=8 --rules samples/gpipe/step.rules |
  gshard-opt pipeline - --stages 8 --microbatches 32 --report "$work/report" -o "$work/pipelined"
gshard-opt partition "$work/pipelined" -o "$work/device"
gshard-cost "$work/device" --tiling none >"$work/cost"
check "18 layers" grep -q "schedule 1f1b, 18 layers" "$work/report"
check "all ticks" grep -q "1f1b: 78 ticks in" "$work/cost"
check "rows sent to all stages" awk '/^ *all-reduce +stage /{n = $3} END{exit !(n > 0 && n < 50)}' "$work/cost"
check "memory" awk '/peak memory/{exit !($4 == "KiB" && $3 < 56)}' "$work/cost"
echo "$passed passed, $failed failed"
[ "$failed" = 0 ]
