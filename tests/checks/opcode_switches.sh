#!/bin/bash
# Switches on opcodes are exhaustive or say why they need not be.
set -eu
cd "$(dirname "$0")/../.."
exec python3 tests/checks/opcode_switches.py
