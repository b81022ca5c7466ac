#!/bin/bash
# Files, functions and lines of prose have a size that a reader can hold in mind.
set -eu
cd "$(dirname "$0")/../.."
exec python3 tests/checks/sizes.py
