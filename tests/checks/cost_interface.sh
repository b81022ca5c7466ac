#!/bin/bash
# gshard-cost as scripts use it: JSON keys and sums, limits and exit codes, errors.
set -eu
cd "$(dirname "$0")/../.."
exec python3 tests/checks/cost_interface.py build/ci/cmd
