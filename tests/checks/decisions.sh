#!/bin/bash
# Random programs get the shardings they had, and move the bytes they moved. Where that is meant to change, look at which
# programs move more, then GSHARD_UPDATE=1 tests/checks/decisions.sh.
cd "$(dirname "$0")/../.." && PATH="$PWD/build/ci/tests:$PATH" exec gshard_property --decisions tests/data/random_decisions.txt
