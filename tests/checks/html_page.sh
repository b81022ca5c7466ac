#!/bin/bash
# The pages of gshard-cost --html in a headless browser, where there is one: samples/install_packages.sh --tests.
set -eu
cd "$(dirname "$0")/../.."
exec python3 tests/checks/html_page.py build/ci/cmd
