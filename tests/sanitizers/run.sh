#!/bin/bash
# Builds a preset and runs what there is under it; by hand, some minutes. Ends with "N passed, N failed".
#   tests/sanitizers/run.sh asan      addresses and undefined behaviour: unit and golden tests, random and damaged programs
#   tests/sanitizers/run.sh tsan      threads: unit tests, samples on meshes with several numbers of threads, Ctrl-C
#   tests/sanitizers/run.sh valgrind  reads of what was never written (the ci preset): small samples, random programs
set -u
cd "$(dirname "$0")/../.." || exit 1
mode=${1:?asan, tsan or valgrind}
preset=$mode
[ "$mode" = valgrind ] && preset=ci
cmake --preset "$preset" && cmake --build "build/$preset" || exit 1
bin=$PWD/build/$preset
run=$bin/cmd/gshard-run
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
export ASAN_OPTIONS=detect_stack_use_after_return=1:strict_string_checks=1
export UBSAN_OPTIONS=print_stacktrace=1:halt_on_error=1
export TSAN_OPTIONS=suppressions=$PWD/tests/sanitizers/tsan.supp:halt_on_error=1:exitcode=66
passed=0 failed=0

# check NAME COMMAND...
check() {
  local name=$1
  shift
  if "$@" >"$work/log" 2>&1; then
    passed=$((passed + 1))
  else
    failed=$((failed + 1))
    echo "FAILED: $name"
    grep -E -A25 "Sanitizer|runtime error|==ERROR|uninitialised|Invalid (read|write)" "$work/log" | head -60
    tail -5 "$work/log"
  fi
}
# interrupted SECONDS COMMAND...: ends with 130 soon after Ctrl-C.
interrupted() {
  local seconds=$1 status
  shift
  timeout --foreground --signal=INT --kill-after=60 --preserve-status "$seconds" "$@"
  status=$?
  [ $status = 130 ] || [ $status = 0 ]
}

small="samples/mlp.hlo samples/moe_layer.hlo samples/pipeline.hlo samples/spatial_conv.hlo"
case $mode in
  asan)
    for room in ir core backends; do check "unit tests: $room" "$bin/tests/gshard_unit_$room"; done
    check "golden tests" "$bin/tests/gshard_golden" "$bin/cmd" tests/golden
    check "random programs" "$bin/tests/gshard_property" --seeds 0:3000 --budget-s 300 --out "$work/failures"
    mkdir "$work/programs"
    "$bin/tests/gshard_property" --write "$work/programs" --devices 8 --seeds 0:300 >/dev/null
    check "damaged programs" python3 tests/fuzz/mutated_programs.py "$run" --seconds 120 --memory-mib 4096 --out "$work/damaged" \
      $(find tests/golden -name '*.hlo') "$work"/programs/*.hlo
    for file in $small; do check "$file" "$run" "$file" --verify; done
    ;;
  tsan)
    check "unit tests: backends" "$bin/tests/gshard_unit_backends"
    for mesh in data=8,model=8 data=16,model=16 data=32,model=64; do
      "$bin/cmd/gshard-opt" annotate samples/mlp.hlo --rules samples/mlp.rules --mesh $mesh >"$work/mlp_$mesh.hlo"
    done
    "$bin/cmd/gshard-opt" annotate samples/transformer_train.hlo --rules samples/transformer_train.rules \
      --mesh data=16,model=16 >"$work/transformer.hlo"
    for threads in 2 4 8; do
      for file in $small; do
        check "$file, $threads threads" "$run" "$file" --threads $threads --verify
        check "$file, trace, $threads threads" "$run" "$file" --threads $threads --trace "$work/trace.json"
        check "$file, NaN, $threads threads" "$run" "$file" --threads $threads --check-nan
        check "$file, Ctrl-C, $threads threads" interrupted 2 "$run" "$file" --threads $threads --verify --repeat 1000
      done
      for file in "$work"/mlp_*.hlo; do
        check "$(basename "$file" .hlo), $threads threads" "$run" "$file" --threads $threads --verify
      done
      check "transformer on 256, Ctrl-C, $threads threads" interrupted 60 "$run" "$work/transformer.hlo" --threads $threads --verify
    done
    ;;
  valgrind)
    memcheck="valgrind -q --error-exitcode=99 --track-origins=yes --suppressions=tests/sanitizers/memcheck.supp"
    check "unit tests: shapes" $memcheck "$bin/tests/gshard_unit_ir" -# '[#shape_inference_test]'
    check "unit tests: kernels" $memcheck "$bin/tests/gshard_unit_backends" -# '[#kernel_choice_test],[#collectives_test]'
    for file in $small; do check "$file" $memcheck "$run" "$file" --verify; done
    mkdir "$work/programs"
    "$bin/tests/gshard_property" --write "$work/programs" --devices 8 --seeds 0:100 >/dev/null
    for file in "$work"/programs/*.hlo; do check "$(basename "$file")" $memcheck "$run" "$file" --verify; done
    ;;
esac
echo "$passed passed, $failed failed"
[ "$failed" = 0 ]
