#!/bin/bash
# conda-forge's build of the programs and the Python package.
set -eu
cmake -G Ninja -B build/conda -DCMAKE_BUILD_TYPE=Release -DGSHARD_UNITY=ON -DGSHARD_TESTS=OFF -DGSHARD_MPI=OFF $CMAKE_ARGS
cmake --build build/conda
cmake --install build/conda --component programs
cmake --install build/conda --component manuals
cp -r packaging/python/gshard "$SP_DIR/"
