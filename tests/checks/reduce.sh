#!/bin/bash
# gshard-opt reduce: seeded faults in sample programs come down to few instructions that still show them.
set -eu
cd "$(dirname "$0")/../.."
exec python3 tests/checks/reduce.py build/ci/cmd
