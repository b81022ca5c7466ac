#!/bin/bash
# What fuzzing found once, and the golden programs, through every pass, printed, read back and run.
set -eu
cd "$(dirname "$0")/../.."
golden=tests/golden
exec build/ci/tests/gshard_pipeline_fuzz tests/fuzz/pipeline_corpus tests/fuzz/parse_corpus \
  $golden/partition $golden/optimize $golden/propagate $golden/run $golden/pipeline
