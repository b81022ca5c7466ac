#!/bin/bash
# Every program's and subcommand's help: complete, with an example, and golden.
set -eu
cd "$(dirname "$0")/../.."
exec python3 tests/checks/help_texts.py build/ci/cmd
