#!/bin/bash
# The documents as a site: every page is in it, every link between them holds, nothing is loaded from elsewhere.
# Skipped where mkdocs cannot be installed from PyPI.
set -eu
cd "$(dirname "$0")/../.."
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
export PYTHONDONTWRITEBYTECODE=1
mkdocs=$work/venv/bin/mkdocs
if [ -n "${GSHARD_PYTHON_VENV:-}" ]; then
  mkdocs=$GSHARD_PYTHON_VENV/bin/mkdocs
elif ! { python3 -m venv "$work/venv" && "$work/venv/bin/pip" install -q mkdocs 2>"$work/pip.log"; }; then
  echo "SKIPPED: the site (mkdocs could not be installed from PyPI)"
  exit 0
fi
"$mkdocs" build -q --strict -d "$work/site"
missing=0
for page in docs/*.md; do
  html=$work/site/${page%.md}.html
  [ -e "$html" ] || { echo "FAIL $page is not in the site" && missing=$((missing + 1)); }
  grep -q "$page" mkdocs.yml || { echo "FAIL $page is not in the menu" && missing=$((missing + 1)); }
done
# Links may lead elsewhere; scripts, styles and pictures may not.
if grep -rnoE '<(script|img)[^>]*src="https?:[^"]*"|<link[^>]*href="https?:[^"]*"' "$work/site" --include='*.html'; then
  echo "FAIL something is loaded from elsewhere" && missing=$((missing + 1))
fi
echo "$(find docs -maxdepth 1 -name '*.md' | wc -l) passed, $missing failed"
[ "$missing" = 0 ]
