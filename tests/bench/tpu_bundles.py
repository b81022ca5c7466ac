"""Kernels by the last instructions that XLA's compiler makes of them for a TPU, beside ours: sorts, gathers, scatters, random
numbers, factorisations, of which its `estimated_cycles` tell nothing.

    python3 tests/bench/tpu_bundles.py --gshard build/ci/cmd/gshard-cost [--topology v5e:2x2] [--only REGEX]

Needs jax, jaxlib and libtpu from PyPI, no TPU: each program is compiled ahead of time for one chip. Its final bundles are dumped,
one a cycle. Their sum, each times the trips of the loops around it, over the clock, is the kernels' time but for waits on memory.
A loop's trips are those of its exit test, or of the window that it copies; of others (`?`, told) one trip counts.
"""
import argparse
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile

DUMP = tempfile.mkdtemp(prefix="bundles")
os.environ.setdefault("TPU_SKIP_MDS_QUERY", "1")
os.environ.setdefault("TPU_WORKER_HOSTNAMES", "localhost")
os.environ.update(JAX_PLATFORMS="cpu", LIBTPU_INIT_ARGS=f"--xla_jf_dump_to={DUMP} --xla_jf_dump_llo_text=true")

from tpu_kernels import CHIPS  # noqa: E402  (beside this file; reads the environment)


def programs(jax, jnp):
    """{label: (function, (shape, dtype) of each argument)}"""
    f32, s32, u32, bf16, million = jnp.float32, jnp.int32, jnp.uint32, jnp.bfloat16, 1 << 20
    key = ((2,), u32)
    return {
        "sort f32[4096,4096] by rows": (lambda x: jnp.sort(x, 1), ((4096, 4096), f32)),
        "sort f32[4096,4096] by columns": (lambda x: jnp.sort(x, 0), ((4096, 4096), f32)),
        "sort s32[65536]": (jnp.sort, ((65536,), s32)),
        "sort f32[131072,8] by rows": (lambda x: jnp.sort(x, 1), ((131072, 8), f32)),
        "arg-sort f32[1024,8192] by rows": (lambda x: jnp.argsort(x, 1), ((1024, 8192), f32)),
        "top 8 of f32[16384,128]": (lambda x: jax.lax.top_k(x, 8), ((16384, 128), f32)),
        "top 50 of f32[64,128256]": (lambda x: jax.lax.top_k(x, 50), ((64, 128256), f32)),
        "gather 1M of f32[1M]": (lambda t, i: t[i], ((million,), f32), ((million,), s32)),
        "gather 1M rows of f32[1000000,64]": (lambda t, i: t[i], ((1000000, 64), f32), ((million,), s32)),
        "gather 64k rows of bf16[131072,1024]": (lambda t, i: t[i], ((131072, 1024), bf16), ((65536,), s32)),
        "scatter-add 1M to f32[1M]": (lambda t, i, u: t.at[i].add(u), ((million,), f32), ((million,), s32), ((million,), f32)),
        "bincount of 1M in 256": (lambda x: jnp.bincount(x, length=256), ((million,), s32)),
        "embedding bag": (lambda t, i: t[i].sum(1), ((1000000, 128), f32), ((16384, 32), s32)),
        "random bits of 16M": (lambda k: jax.random.bits(k, (4096, 4096)), key),
        "random normal of 16M": (lambda k: jax.random.normal(k, (4096, 4096)), key),
        "dropout of bf16[8192,8192]": (lambda k, x: jnp.where(jax.random.bernoulli(k, .9, x.shape), x / .9, 0), key, ((8192, 8192), bf16)),
        "256 Cholesky factors of 128": (jnp.linalg.cholesky, ((256, 128, 128), f32)),
        "LU of 1024": (jax.scipy.linalg.lu_factor, ((1024, 1024), f32)),
        "a sweep of 64 eigh of 32": (jnp.linalg.eigh, ((64, 32, 32), f32)),
        "4096 inverses of 8": (jnp.linalg.inv, ((4096, 8, 8), f32)),
    }


def read(path):
    """[(address, bundle)], and (address, iterations) of the windows that are copied."""
    bundles, windows = [], []
    for line in open(path, errors="replace"):
        if found := re.match(r"\s*(0x[0-9a-f]+|0)\s", line):
            bundles.append((int(found[1], 16), line))
        elif (found := re.match(r"iteration_bounds: \(([\d, ]+)\)", line)) and bundles:
            iterations = 1
            for bound in found[1].split(","):
                iterations *= int(bound or 1)
            windows.append((bundles[-1][0], iterations))
    return bundles, windows


def cycles(path):
    """Bundles times trips, and how many loops' trips are not known."""
    bundles, windows = read(path)
    starts, bounds, loops = {}, {}, []
    for address, text in bundles:
        starts.update({region: address for region in re.findall(r"Start region (\d+)", text)})
        bounds.update({test: int(bound) for test, bound in re.findall(r"(%p\w+) = scmp[^;]*?, (\d+) /\* loop exit test", text)})
        for test, region in re.findall(r"sbr\.rel \(!(%p\w+)\) target = \$region(\d+)", text):
            if starts.get(region, address + 1) <= address:
                loops.append((starts[region], address, bounds.get(test, 0)))
    times, unknown = {address: 1 for address, _ in bundles}, 0
    for start, end, bound in loops:
        inner = [(s, e) for s, e, _ in loops if start < s and e < end]
        own = [n for at, n in windows if start <= at <= end and not any(s <= at <= e for s, e in inner)]
        # Pipelined loops have a trip or two more than iterations, in which half of the body does nothing.
        trips = max(1, bound - 1 if bound > 2 else bound) if bound else max(own, default=0)
        unknown += trips == 0
        for address in times:
            if start <= address <= end:
                times[address] *= max(1, trips)
    return sum(times.values()), unknown


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--gshard", required=True)
    parser.add_argument("--topology", default="v5e:2x2")
    parser.add_argument("--only", default="")
    arguments = parser.parse_args()
    import jax
    import jax.numpy as jnp
    from jax.experimental import topologies
    clock, chip = CHIPS[arguments.topology.split(":")[0]]
    device = topologies.get_topology_desc(platform="tpu", topology_name=arguments.topology).devices[0]
    place = jax.sharding.SingleDeviceSharding(device)
    print(f"{'':38} {'ours':>10} {'bundles':>10}  ratio  loops of unknown trips")
    for label, (function, *shapes) in programs(jax, jnp).items():
        if not re.search(arguments.only, label):
            continue
        shutil.rmtree(DUMP, ignore_errors=True)
        os.makedirs(DUMP)
        lowered = jax.jit(function).lower(*(jax.ShapeDtypeStruct(*shape, sharding=place) for shape in shapes))
        lowered.compile()
        kernels = [cycles(os.path.join(DUMP, name)) for name in os.listdir(DUMP)
                   if name.endswith("final_bundles.txt") and "schedule-analysis" not in name and "late-" not in name]
        report = subprocess.run([arguments.gshard, "-", "--chip", chip, "--json"], input=lowered.as_text(), capture_output=True, text=True)
        ours, theirs = json.loads(report.stdout)["step_time_s"], sum(n for n, _ in kernels) / clock
        print(f"{label:38} {1e6 * ours:7.1f} us {1e6 * theirs:7.1f} us {ours / theirs:6.2f}  {sum(n for _, n in kernels) or ''}", flush=True)
    shutil.rmtree(DUMP, ignore_errors=True)


if __name__ == "__main__":
    sys.exit(main())
