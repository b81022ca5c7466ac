#!/bin/bash
# Files that the release build compiles together define no name twice.
cd "$(dirname "$0")/../.." && python3 tests/checks/unity.py
