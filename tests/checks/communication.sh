#!/bin/bash
# gshard-opt check finds what gshard-run stops at, and nothing in programs that are right.
set -eu
cd "$(dirname "$0")/../.."
exec python3 tests/checks/communication.py build/ci/cmd
