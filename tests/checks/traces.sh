#!/bin/bash
# Traces of steps and runs as Perfetto and Chakra read them; by their own schemas where PyPI can be reached.
set -eu
cd "$(dirname "$0")/../.."
export PYTHONDONTWRITEBYTECODE=1
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
python=python3
if [ -n "${GSHARD_PYTHON_VENV:-}" ]; then
  python=$GSHARD_PYTHON_VENV/bin/python
elif python3 -m venv "$work/venv" && "$work/venv/bin/pip" install -q perfetto protobuf 2>"$work/pip.log"; then
  python=$work/venv/bin/python
fi
"$python" tests/checks/traces.py build/ci/cmd
