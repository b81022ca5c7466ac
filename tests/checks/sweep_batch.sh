#!/bin/bash
# A sweep over batches against programs that were written with these batches.
set -eu
cd "$(dirname "$0")/../.."
exec python3 tests/checks/sweep_batch.py build/ci/cmd
