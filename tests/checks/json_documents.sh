#!/bin/bash
# docs/json.md tells every key of every JSON document, and no others.
set -eu
cd "$(dirname "$0")/../.."
exec python3 tests/checks/json_documents.py build/ci/cmd
