#!/bin/bash
# Completions of bash (zsh and fish where they are), manual pages: every flag of --help is in each; mandoc finds nothing.
set -eu
cd "$(dirname "$0")/../.."
exec python3 tests/checks/completions.py build/ci/cmd
