#!/bin/bash
# Which room includes which: as docs/architecture.md's table says, without a cycle.
set -eu
cd "$(dirname "$0")/../.."
exec python3 tests/checks/rooms.py
