#!/bin/bash
# Makes all packages that this machine can: build.sh [OUT]. docs: packaging/README.md.
# The wheel always; Debian's packages and an archive where dpkg is; an image where podman or docker is.
set -eu
cd "$(dirname "$0")/.."
out=$(realpath -m "${1:-dist}")
mkdir -p "$out"
samples/install_packages.sh --mpi --packaging
echo "== wheel"
packaging/wheel.sh "$out"
echo "== archive and Debian packages"
cmake --preset release -DGSHARD_TESTS=OFF -DCMAKE_INSTALL_PREFIX=/usr
cmake --build --preset release
generators=TGZ
if command -v dpkg-shlibdeps >/dev/null; then generators="TGZ;DEB"; else echo "SKIPPED: Debian packages (no dpkg-dev)"; fi
cpack --config build/release/CPackConfig.cmake -G "$generators" -B "$out/cpack" >/dev/null
mv "$out"/cpack/*.deb "$out"/cpack/*.tar.gz "$out" 2>/dev/null || true
rm -rf "$out/cpack"
if command -v lintian >/dev/null && ls "$out"/*.deb >/dev/null 2>&1; then
  lintian --fail-on error,warning --suppress-tags "$(grep -v '^#' packaging/debian/lintian_suppressed | paste -sd,)" "$out"/*.deb
fi
if engine=$(command -v podman || command -v docker); then
  echo "== image"
  "$engine" build -f packaging/Containerfile -t gshard . && "$engine" save gshard -o "$out/gshard-image.tar"
else
  echo "SKIPPED: image (neither podman nor docker)"
fi
ls -l "$out"
