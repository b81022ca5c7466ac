#!/bin/bash
# Makes the wheel: wheel.sh [OUT]. docs: packaging/README.md. GSHARD_WHEEL_FLAGS: more for pip, such as -Cbuild-dir=build/x.
set -eu
cd "$(dirname "$0")/.."
out=$(realpath -m "${1:-dist}")
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
export SOURCE_DATE_EPOCH="${SOURCE_DATE_EPOCH:-$(git log -1 --format=%ct 2>/dev/null || echo 315532800)}"
python3 -m venv "$work/venv"  # Debian's python3 has no pip
# shellcheck disable=SC2086  # one word a flag
"$work/venv/bin/pip" wheel . --no-deps -w "$work" ${GSHARD_WHEEL_FLAGS:-}
python3 packaging/portable_wheel.py "$work"/gshard-*.whl "$out"
