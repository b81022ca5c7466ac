#!/bin/bash
# Schemata do what their mutants do, and what counts as a mutant that the tests kill.
cd "$(dirname "$0")/../.." && exec python3 tests/mutation/mutants_test.py
