#!/bin/bash
# What CI systems are told: annotations, summaries, JUnit, SARIF, conditions on a change; samples/ci's commands run.
# Against schemas of SARIF and JUnit where their readers can be had from PyPI.
set -eu
cd "$(dirname "$0")/../.."
export PYTHONDONTWRITEBYTECODE=1
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
python=python3
if [ -n "${GSHARD_PYTHON_VENV:-}" ]; then
  python=$GSHARD_PYTHON_VENV/bin/python
elif python3 -m venv "$work/venv" && "$work/venv/bin/pip" install -q jsonschema xmlschema 2>"$work/pip.log"; then
  python=$work/venv/bin/python
fi
"$python" tests/checks/ci_output.py build/ci/cmd
