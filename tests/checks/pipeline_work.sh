#!/bin/bash
# What each core of a pipelined step computes and holds, counted by gshard-run.
set -eu
cd "$(dirname "$0")/../.."
PATH="$PWD/build/ci/cmd:$PATH" exec python3 tests/differential/pipeline_work.py --all
