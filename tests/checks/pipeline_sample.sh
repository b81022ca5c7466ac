#!/bin/bash
# The sample's blocks stay where most of them are alike, though the longest stage would be a little shorter elsewhere: one that
# begins within a layer costs twice the step and four times the memory by collectives (gshard-cost of its program).
set -eu
cd "$(dirname "$0")/../.."
PATH="$PWD/build/ci/cmd:$PATH"
report=$(gshard-opt annotate samples/gpipe/step.hlo --mesh data=32,model=8 --rules samples/gpipe/step.rules |
  gshard-opt pipeline - --stages 8 --microbatches 32 --report - -o /dev/null 2>&1)
if grep -q "schedule 1f1b, 18 layers" <<<"$report"; then
  echo "1 passed, 0 failed"
else
  echo "$report"
  echo "0 passed, 1 failed"
  exit 1
fi
