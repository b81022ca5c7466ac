#!/bin/sh
# Does XLA compute something else than FILE says? is_wrong.sh FILE: exit code 0 if so. For gshard-opt reduce (docs/xla.md).
# Needs gshard-run on PATH, and in PYTHON (default python3) jaxlib.
set -u
compiled=$(mktemp)
trap 'rm -f "$compiled"' EXIT
"${PYTHON:-python3}" "$(dirname "$0")/compile.py" "$1" >"$compiled" 2>/dev/null || exit 1
gshard-run "$compiled" --reference "$1" --verify >/dev/null 2>&1
[ $? = 3 ]
