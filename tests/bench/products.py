#!/usr/bin/env python3
"""Square products in f32, bf16 and 8-bit integers: gshard-run against XLA's CPU backend, side by side.

  GSHARD_BIN=build/release/cmd products.py [SIZE...]      with a python that has jax; default 1024 2048 4096

Both sides run in turn, round by round; figures are medians of all steps after the first of each round. Exit code 0: bf16
and 8-bit integers are nowhere slower than f32.
"""
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time

os.environ["JAX_PLATFORMS"] = "cpu"

import jax
import jax.numpy as jnp
import numpy as np

from vs_xla import processor

ROUNDS, STEPS = 5, 6
RESULTS = {"f32": "f32", "bf16": "bf16", "s8": "s32"}  # by type of the factors
IN_JAX = {"f32": "float32", "bf16": "bfloat16", "s8": "int8", "s32": "int32"}
GRAPH = """HloModule product
ENTRY main {{
  a = {type}[{size},{size}] parameter(0)
  b = {type}[{size},{size}] parameter(1)
  ROOT c = {result}[{size},{size}] dot(a, b), lhs_contracting_dims={{1}}, rhs_contracting_dims={{0}}
}}
"""


def of_gshard(path):
    run = [os.path.join(os.environ.get("GSHARD_BIN", "build/release/cmd"), "gshard-run"), path, "--json"]
    report = json.loads(subprocess.run(run + ["--repeat", str(STEPS + 1)], capture_output=True, text=True, check=True).stdout)
    return report["step_times_s"][1:], report["machine"]


def of_xla(size, dtype, result):
    a, b = (jnp.asarray(np.random.default_rng(seed).integers(-9, 9, (size, size)), dtype) for seed in (0, 1))
    product = jax.jit(lambda a, b: jax.lax.dot(a, b, preferred_element_type=result))
    product(a, b).block_until_ready()
    times = []
    for _ in range(STEPS):
        begin = time.perf_counter()
        product(a, b).block_until_ready()
        times.append(time.perf_counter() - begin)
    return times


def main():
    sizes = [int(size) for size in sys.argv[1:]] or [1024, 2048, 4096]
    slower, machine = False, {}
    rows = []
    with tempfile.TemporaryDirectory() as work:
        for size in sizes:
            path = {}
            for name, result in RESULTS.items():
                path[name] = os.path.join(work, f"{name}.hlo")
                with open(path[name], "w") as text:
                    text.write(GRAPH.format(type=name, result=result, size=size))
            times = {}
            for _ in range(ROUNDS):
                for name, result in RESULTS.items():
                    ours, machine = of_gshard(path[name])
                    times.setdefault(("gshard", name), []).extend(ours)
                    times.setdefault(("xla", name), []).extend(of_xla(size, IN_JAX[name], IN_JAX[result]))
            rate = {key: 2 * size**3 / statistics.median(values) / 1e9 for key, values in times.items()}
            for name in RESULTS:
                ours, theirs = rate["gshard", name], rate["xla", name]
                of_f32 = ours / rate["gshard", "f32"]
                slower = slower or of_f32 < 1
                rows.append(f"| {size} | {name} | {theirs:.0f} | {ours:.0f} | {ours / theirs:.2f} | {of_f32:.1f} |")
    print(f"{processor()}; {machine['instruction_set']}, {machine['blas']}, kernel {machine['blas_kernel']}")
    print(f"{os.cpu_count()} cores, medians of {ROUNDS} rounds of {STEPS} steps; GFLOP/s (of integers: operations)")
    print("\n| size | type | XLA | gshard | of XLA's rate | of f32's |\n|---|---|---|---|---|---|")
    print("\n".join(rows))
    return 1 if slower else 0


if __name__ == "__main__":
    sys.exit(main())
