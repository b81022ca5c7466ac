#!/bin/bash
# import gshard: examples of its docstrings, unit tests; types and the plug-in of pytest where PyPI can be reached.
set -eu
cd "$(dirname "$0")/../.."
export GSHARD_BIN=$PWD/build/ci/cmd PYTHONPATH=$PWD/packaging/python PYTHONDONTWRITEBYTECODE=1
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
python=python3
if [ -n "${GSHARD_PYTHON_VENV:-}" ]; then
  python=$GSHARD_PYTHON_VENV/bin/python
elif python3 -m venv "$work/venv" && "$work/venv/bin/pip" install -q mypy pytest 2>"$work/pip.log"; then
  python=$work/venv/bin/python
else
  echo "SKIPPED: mypy and pytest (they could not be installed from PyPI)"
fi
"$python" tests/python/package_test.py
if "$python" -c 'import mypy' 2>/dev/null; then
  "$python" -m mypy --config-file pyproject.toml --cache-dir "$work/mypy"
fi
