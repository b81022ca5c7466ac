#!/bin/bash
# `gshard-opt auto --devices`: pipelines where the network between nodes is slow, and commands that make every row again.
set -eu
cd "$(dirname "$0")/../.."
PATH="$PWD/build/ci/cmd:$PATH" exec python3 tests/checks/auto_devices.py
