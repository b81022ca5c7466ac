#!/bin/bash
# What fuzzing found once, and the golden programs, through every pass, printed, read back and run; kept inputs of the readers,
# and 20,000 mutants of each. Ends with "N passed, N failed".
set -u
cd "$(dirname "$0")/../.."
golden=tests/golden bin=build/ci/tests passed=0 failed=0
faults=$(mktemp -d)
trap 'rm -rf "$faults"' EXIT

# replay COMMAND...
replay() {
  local said
  said=$("$@")
  printf '%s\n' "$said"
  read -r ok _ bad _ <<<"$(tail -1 <<<"$said")"
  passed=$((passed + ${ok:-0})) failed=$((failed + ${bad:-1}))
}

replay $bin/gshard_pipeline_fuzz --faults "$faults" tests/fuzz/pipeline_corpus tests/fuzz/parse_corpus \
  $golden/partition $golden/optimize $golden/propagate $golden/run $golden/pipeline
for input in parse stablehlo proto; do
  corpora=tests/fuzz/${input}_corpus
  [ $input = parse ] && corpora="$corpora $golden/parse $golden/errors"
  replay $bin/gshard_${input}_fuzz --faults "$faults" $corpora
  replay $bin/gshard_${input}_fuzz --mutate 20000 --bytes --most-bytes 1500 --faults "$faults" $corpora
done
echo "$passed passed, $failed failed"
[ "$failed" = 0 ]
