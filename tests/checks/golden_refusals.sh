#!/bin/bash
# The golden runner refuses tests that can not fail, and fails those whose output is wrong.
set -eu
cd "$(dirname "$0")/../.."
exec python3 tests/checks/golden_refusals.py build/ci/tests/gshard_golden build/ci/cmd
