#!/bin/bash
# Kept texts of released versions of JAX are read, printed, partitioned, verified and judged.
set -eu
cd "$(dirname "$0")/../.."
exec python3 tests/checks/jax_versions.py build/ci/cmd
