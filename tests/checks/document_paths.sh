#!/bin/bash
# Paths that documents and comments name are there.
set -eu
cd "$(dirname "$0")/../.."
exec python3 tests/checks/document_paths.py
