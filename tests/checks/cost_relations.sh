#!/bin/bash
# Prices of programs written two ways, on better machines, with less to do.
set -eu
cd "$(dirname "$0")/../.."
exec python3 tests/checks/cost_relations.py build/ci/cmd
