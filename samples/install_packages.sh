#!/bin/sh
# Installs what gshard needs from Debian 12 or 13: install_packages.sh [--tests] [--mpi] [--packaging]
# Root, or sudo. Does nothing where all packages are there already.
set -eu
packages="g++ cmake ninja-build pkg-config libcli11-dev nlohmann-json3-dev libfmt-dev libre2-dev libopenblas-dev
  libtbb-dev robin-map-dev libexpected-dev libzip-dev zlib1g-dev libhwy-dev libdnnl-dev libmimalloc-dev python3
  python3-venv"
for flag in "$@"; do
  case $flag in
    --mpi) packages="$packages libopenmpi-dev openmpi-bin" ;;
    --tests) packages="$packages ccache mold catch2 libbenchmark-dev chromium" ;;
    --packaging) packages="$packages dpkg-dev lintian" ;;
  esac
done
missing=""
for package in $packages; do
  dpkg-query -W -f '${Status}' "$package" 2>/dev/null | grep -q 'install ok installed' || missing="$missing $package"
done
[ -z "$missing" ] && exit 0
as_root=""
if [ "$(id -u)" != 0 ]; then
  command -v sudo >/dev/null || { echo "install these packages as root first:$missing" >&2; exit 1; }
  as_root=sudo
fi
echo "installing:$missing"
$as_root apt-get update -qq
# shellcheck disable=SC2086  # one word a package
$as_root env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends $missing >/dev/null
