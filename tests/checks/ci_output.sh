#!/bin/bash
# What CI systems are told: annotations, summaries, JUnit, SARIF, conditions on a change; samples/ci's commands run.
set -eu
cd "$(dirname "$0")/../.."
exec python3 tests/checks/ci_output.py build/ci/cmd
