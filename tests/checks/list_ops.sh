#!/bin/bash
# The matrix opcode x layer has no empty cell.
set -eu
cd "$(dirname "$0")/../.."
exec python3 tests/checks/list_ops.py build/ci/cmd/gshard-opt
