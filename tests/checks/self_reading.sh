#!/bin/bash
# What gshard-opt prints, gshard-opt reads, and prints again as it was; SELF_READING_ALL=1 takes every input and option.
set -eu
cd "$(dirname "$0")/../.."
exec python3 tests/checks/self_reading.py build/ci/cmd ${SELF_READING_ALL:+--all}
