#!/bin/bash
# Every file the programs write: whole or not at all, also on a full disk and at Ctrl-C.
set -eu
cd "$(dirname "$0")/../.."
exec python3 tests/checks/output_files.py build/ci/cmd
