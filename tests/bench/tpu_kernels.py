"""Kernels as XLA's compiler for TPUs estimates them, beside ours: dots, attention, memory-bound kernels, convolutions.

    python3 tests/bench/tpu_kernels.py --gshard build/ci/cmd/gshard-cost [--topology v5e:2x2] [--only CLASS] [--json FILE]

Needs jax, jaxlib and libtpu from PyPI, no TPU: programs are compiled ahead of time for one chip. Each kernel is compiled in a scope of
its own (`kernel_17`), two dozen of them in a program. The compiler's text has `estimated_cycles` for what it fused: those of a
scope, over the chip's clock, are what it expects the kernel to take. gshard-cost prices the program that JAX prints, summed up by the same scope.
Prints, for each class: kernels, and the median and quartiles of ours over theirs. About 520 kernels, 10 to 30 minutes a chip.
"""
import argparse
import contextlib
import json
import os
import re
import statistics
import subprocess
import sys
import tempfile

os.environ.setdefault("TPU_SKIP_MDS_QUERY", "1")
os.environ.setdefault("TPU_WORKER_HOSTNAMES", "localhost")
os.environ["JAX_PLATFORMS"] = "cpu"

# Cycles a second, as cloud.google.com/tpu/docs and the scaling book have them; the name of the chip here.
CHIPS = {"v4": (1.05e9, "tpu-v4"), "v5e": (1.5e9, "tpu-v5e"), "v5p": (1.75e9, "tpu-v5p"), "v6e": (1.75e9, "tpu-v6e")}
A_PROGRAM = 24


def kernels(jax, jnp):
    """[(class, label, function, [shape, dtype] of each argument)]"""
    made = []

    def add(kind, label, function, *arguments):
        made.append((kind, label, function, arguments))

    bf16, f32, s8 = jnp.bfloat16, jnp.float32, jnp.int8
    for dtype, name in ((bf16, "bf16"), (f32, "f32"), (s8, "s8")):
        out = jnp.int32 if dtype == s8 else dtype
        for m in (256, 1024, 4096, 16384):
            for k in (128, 512, 2048, 8192):
                for n in (128, 512, 2048, 8192):
                    if m * k * n > 1 << 39 or (dtype != bf16 and (m == 16384 or n == 512)):
                        continue
                    add(f"dot {name}", f"{m}x{k}x{n}", lambda a, b, out=out: jnp.matmul(a, b, preferred_element_type=out),
                        ((m, k), dtype), ((k, n), dtype))
    for batch in (8, 32, 128):
        for m in (128, 512, 1024):
            for k in (64, 128, 256):
                add("batched dot bf16", f"{batch}x{m}x{k}x{m}", lambda a, b: jnp.einsum("bmk,bnk->bmn", a, b),
                    ((batch, m, k), bf16), ((batch, m, k), bf16))
    add_memory_bound(add, jax, jnp)
    add_convolutions(add, jax, jnp)
    return made


def add_memory_bound(add, jax, jnp):
    bf16, f32 = jnp.bfloat16, jnp.float32
    shapes = ((512, 1024), (2048, 2048), (8192, 2048), (8192, 8192), (32768, 1024), (131072, 128))
    elementwise = {"add": lambda x: x + x[::1] * 2, "gelu": jax.nn.gelu, "exp": jnp.exp, "tanh": jnp.tanh, "scale": lambda x: x * 3}
    reductions = {"sum rows": lambda x: x.sum(1), "sum columns": lambda x: x.sum(0), "max rows": lambda x: x.max(1), "all": lambda x: x.sum(),
                  "softmax": lambda x: jax.nn.softmax(x, axis=1), "square mean": lambda x: (x * x).mean(1),
                  "norm": lambda x: x * jax.lax.rsqrt((x * x).mean(1, keepdims=True) + 1e-6)}
    moves = {"transpose": lambda x: x.T.copy(), "cast": lambda x: x.astype(f32 if x.dtype == bf16 else bf16),
             "slice": lambda x: x[: x.shape[0] // 2] * 1, "pad": lambda x: jnp.pad(x, ((0, 8), (0, 0)))}
    for kind, functions in (("elementwise", elementwise), ("reduction", reductions), ("movement", moves)):
        for label, function in functions.items():
            for shape in shapes:
                for dtype, name in ((bf16, "bf16"), (f32, "f32")):
                    add(kind, f"{label} {name} {shape[0]}x{shape[1]}", function, (shape, dtype))
    for shape in shapes:
        add("elementwise", f"adam {shape[0]}x{shape[1]}",
            lambda p, m, v, g: p - 1e-3 * (0.9 * m + 0.1 * g) / (jnp.sqrt(0.99 * v + 0.01 * g * g) + 1e-8), *[(shape, f32)] * 4)
    for rows, width in ((8192, 128), (32768, 512), (131072, 1024)):
        add("gather", f"{rows}x{width}", lambda t, i: t[i], ((rows, width), bf16), ((4096,), jnp.int32))
        add("cumulative", f"{rows}x{width}", lambda x: jnp.cumsum(x, 0), ((rows // 8, width), f32))


def add_convolutions(add, jax, jnp):
    for window, stride in ((1, 1), (3, 1), (3, 2), (7, 2)):
        for size, channels in ((224, 3), (112, 16), (112, 64), (56, 64), (56, 128), (28, 256), (14, 512)):
            for features in (32, 64, 256):
                for batch in (8, 32):
                    if window == 7 and channels > 16:
                        continue
                    add("convolution", f"{batch}x{size}x{size}x{channels} {window}x{window}/{stride} {features}",
                        lambda x, w, stride=stride: jax.lax.conv_general_dilated(
                            x, w, (stride, stride), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC")),
                        ((batch, size, size, channels), jnp.bfloat16), ((window, window, channels, features), jnp.bfloat16))


def cycles_by_kernel(text):
    sums = {}
    for line in text.splitlines():
        cycles, kernel = re.search(r'"estimated_cycles":"(\d+)"', line), re.search(r'op_name="[^"]*kernel_(\d+)', line)
        if cycles and kernel and int(cycles[1]) < 1 << 62:
            sums[int(kernel[1])] = sums.get(int(kernel[1]), 0) + int(cycles[1])
    return sums


def compile_group(group, device, jax):
    """What JAX prints of the kernels of a group, and the compiler's text."""
    import jax.numpy as jnp
    sharding = jax.sharding.SingleDeviceSharding(device)

    def program(arguments):
        results = []
        for number, (_, _, function, _) in group:
            with jax.named_scope(f"kernel_{number}"):
                results.append(function(*arguments[number]))
        return results

    arguments = {number: [jax.ShapeDtypeStruct(shape, dtype, sharding=sharding) for shape, dtype in kernel[3]] for number, kernel in group}
    lowered = jax.jit(program).lower(arguments)
    return lowered.as_text(debug_info=True), lowered.compile().as_text()


@contextlib.contextmanager
def at_full_rates(chip):
    """The name of a chip file: the compiler's estimates know nothing of what whole steps sustain of the rates."""
    with tempfile.NamedTemporaryFile("w", suffix=".json") as file:
        file.write(json.dumps({"base": chip, "name": chip, "sustained": 1}))
        file.flush()
        yield file.name


def ours_by_kernel(gshard, text, chip):
    with tempfile.NamedTemporaryFile("w", suffix=".mlir") as file, at_full_rates(chip) as chip_file:
        file.write(text)
        file.flush()
        done = subprocess.run([gshard, file.name, "--chip-file", chip_file, "--attention", "materialized", "--group-by", r"kernel_(\d+)", "--json"],
                              capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(f"gshard-cost failed: {done.stderr}")
    return {int(row["key"]): row["time_s"] for row in json.loads(done.stdout)["by_group"] if row["key"].isdigit()}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--gshard", required=True, help="the program gshard-cost")
    parser.add_argument("--topology", default="v5e:2x2")
    parser.add_argument("--only", default="", help="kernels whose class begins so")
    parser.add_argument("--json", help="all rows, to this file")
    arguments = parser.parse_args()
    import jax
    import jax.numpy as jnp
    from jax.experimental import topologies
    clock, chip = CHIPS[arguments.topology.split(":")[0]]
    device = topologies.get_topology_desc(platform="tpu", topology_name=arguments.topology).devices[0]
    chosen = [(i, kernel) for i, kernel in enumerate(kernels(jax, jnp)) if kernel[0].startswith(arguments.only)]
    rows, waiting = [], [chosen[begin:begin + A_PROGRAM] for begin in range(0, len(chosen), A_PROGRAM)]
    while waiting:
        group = waiting.pop(0)
        try:
            written, text = compile_group(group, device, jax)
        except jax.errors.JaxRuntimeError as error:  # an internal error of the compiler's, of one of them
            half = len(group) // 2
            waiting[:0] = [part for part in (group[:half], group[half:]) if half]
            print(f"{' '.join(str(error).split())[:160]}: " + ("in halves" if half else f"without {group[0][1][1]}"), file=sys.stderr)
            continue
        theirs, ours = cycles_by_kernel(text), ours_by_kernel(arguments.gshard, written, chip)
        for number, (kind, label, _, _) in group:
            if number in theirs and ours.get(number, 0) > 0:
                rows.append({"class": kind, "kernel": label, "compiler_s": theirs[number] / clock, "gshard_s": ours[number]})
        print(f"{len(rows)} of {len(chosen)} kernels", file=sys.stderr)
        if arguments.json:
            with open(arguments.json, "w") as file:
                json.dump(rows, file, indent=1)
    print(f"{chip}: ours over the compiler's\n{'class':20} kernels  quarter   median  three quarters")
    for kind in dict.fromkeys(row["class"] for row in rows):
        ratios = sorted(row["gshard_s"] / row["compiler_s"] for row in rows if row["class"] == kind)
        quarters = statistics.quantiles(ratios, n=4) if len(ratios) > 1 else ratios * 3
        print(f"{kind:20} {len(ratios):7}" + "".join(f" {quarter:8.2f}" for quarter in quarters))


if __name__ == "__main__":
    main()
