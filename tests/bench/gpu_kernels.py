"""Kernels as a GPU runs them beside ours: dots, attention, memory-bound kernels, convolutions, a Transformer layer.

    python3 tests/bench/gpu_kernels.py --gshard build/ci/cmd/gshard-cost [--base h100] [--only CLASS] [--chip-out FILE] [--json FILE]

Needs jax with CUDA or ROCm, and a GPU; without one it says so and ends. About 110 kernels in less than ten minutes (--seconds).
A kernel is compiled on up to four sets of operands in one program, which is called until 60 ms are over, three times: the median of
a call over the sets is what the kernel takes. What ends before four calls could be dispatched is listed but not fitted.

gshard-cost prices the same programs. Printed are, for each class: kernels, and the median and quartiles of ours over what was
measured, with the constants of --base and with fitted ones. The fitted ones are written as a chip file, for --chip-file: the limit
and half of the efficiency of dots (bf16, without batch dims), of attention (cuDNN's kernels) and of memory (one fusion), and
the least time of a kernel. --platform cpu --shrink 64 tries the script itself where there is no GPU; its figures mean nothing.
"""
import argparse
import json
import math
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time

CHIPS = pathlib.Path(__file__).resolve().parents[2] / "core/cost/chips"
# What device_kind says, and the name of the chip here; the first that is part of it.
KINDS = [("GB200", "gb200"), ("B200", "b200"), ("H200", "h200"), ("H100", "h100"), ("A100-SXM4-40", "a100-40"),
         ("A100-PCIE-40", "a100-40"), ("A100", "a100-80"), ("V100", "v100"), ("P100", "p100"), ("MI300X", "mi300x"),
         ("MI350X", "mi350x"), ("MI355X", "mi355x")]
MOST_SETS, MOST_BYTES = 4, 8 << 30
A_MEASUREMENT_S = 0.06
# Kernels alone are as fast as the chip's rates say; whole steps sustain a share of them (docs/chips.md).
AT_RATES = {"sustained": 1}
FITTED = {"dot_efficiency": ("dot bf16",), "attention_efficiency": ("attention cudnn",),
          "memory_efficiency": ("elementwise", "reduction")}


class Kernel:
    """A function of arrays, and what gshard-cost prices in its place: the same, but where a library is called (`spelled`)."""

    def __init__(self, kind, label, function, arguments, spelled=None, attention="materialized"):
        self.kind, self.label, self.function, self.arguments = kind, label, function, arguments
        self.spelled, self.attention = spelled or function, attention


class List:
    """Kernels, with all sizes but those of windows and of a head's width divided by `shrink`."""

    def __init__(self, jax, shrink, library):
        self.jax, self.jnp, self.shrink, self.library = jax, jax.numpy, shrink, library
        self.kernels = []

    def dim(self, size):
        return max(8, size // self.shrink)

    def few(self, count):
        return max(1, count // self.shrink)

    def add(self, kind, label, function, *arguments, **more):
        self.kernels.append(Kernel(kind, label, function, arguments, **more))

    def dots(self):
        jnp = self.jnp
        for dtype, name, sizes in ((jnp.bfloat16, "bf16", (1024, 4096, 8192)), (jnp.float32, "f32", (2048, 8192))):
            for m in map(self.dim, sizes):
                for k in map(self.dim, sizes):
                    for n in map(self.dim, sizes):
                        self.add(f"dot {name}", f"{m}x{k}x{n}", jnp.matmul, ((m, k), dtype), ((k, n), dtype))
        for batch, m, k in ((64, 2048, 128), (64, 1024, 64), (16, 1024, 4096)):
            batch, m, k = self.few(batch), self.dim(m), self.dim(k)
            self.add("batched dot", f"{batch}x{m}x{k}x{m}", lambda a, b: jnp.einsum("bmk,bnk->bmn", a, b),
                     ((batch, m, k), jnp.bfloat16), ((batch, m, k), jnp.bfloat16))

    def attention_of(self, library, causal):
        implementation = "cudnn" if library else "xla"
        return lambda q, k, v: self.jax.nn.dot_product_attention(q, k, v, is_causal=causal, implementation=implementation)

    def with_backward(self, function):
        """The gradients of what `function` makes, by all of its arguments."""
        def loss(*arguments):
            return function(*arguments).astype(self.jnp.float32).sum()
        return lambda *arguments: self.jax.grad(loss, argnums=tuple(range(len(arguments))))(*arguments)

    def attention(self):
        """Spelled out, as XLA fuses it, at sizes whose scores fit; and cuDNN's kernels, priced as one kernel."""
        bf16 = self.jnp.bfloat16
        for library in (False, True) if self.library else (False,):
            for batch, length, heads, width in ((8, 2048, 16, 128), (8, 2048, 32, 64), (2, 8192, 16, 128)):
                if length > 2048 and not library:
                    continue
                for causal in (False, True):
                    shape = ((self.few(batch), self.dim(length), self.few(heads), width), bf16)
                    label = "x".join(map(str, shape[0])) + (" causal" if causal else "")
                    function, spelled = self.attention_of(library, causal), self.attention_of(False, causal)
                    way = "flash" if library else "materialized"
                    kind = "attention cudnn" if library else "attention xla"
                    self.add(kind, f"forward {label}", function, shape, shape, shape, spelled=spelled, attention=way)
                    self.add(kind, f"both {label}", self.with_backward(function), shape, shape, shape,
                             spelled=self.with_backward(spelled), attention=way)

    def memory_bound(self):
        jax, jnp = self.jax, self.jnp
        bf16, f32 = jnp.bfloat16, jnp.float32
        classes = {
            "elementwise": {"scale": lambda x: x * 3, "gelu": jax.nn.gelu, "cast": lambda x: x.astype(f32 if x.dtype == bf16 else bf16)},
            "reduction": {"sum rows": lambda x: x.sum(1), "sum columns": lambda x: x.sum(0), "sum": lambda x: x.sum(),
                          "softmax": lambda x: jax.nn.softmax(x, axis=1),
                          "norm": lambda x: x * jax.lax.rsqrt((x * x).mean(1, keepdims=True) + 1e-6)},
            "movement": {"transpose": lambda x: x.T.copy()}}
        shapes = [(self.dim(rows), self.dim(width)) for rows, width in ((8192, 8192), (32768, 1024), (4096, 4096))]
        for kind, functions in classes.items():
            for label, function in functions.items():
                for shape in shapes:
                    for dtype, name in ((bf16, "bf16"), (f32, "f32")):
                        self.add(kind, f"{label} {name} {shape[0]}x{shape[1]}", function, (shape, dtype))
        for shape in shapes:
            self.add("elementwise", f"adam {shape[0]}x{shape[1]}",
                     lambda p, m, v, g: (p - 1e-3 * (0.9 * m + 0.1 * g) / (jnp.sqrt(0.99 * v + 0.01 * g * g) + 1e-8),
                                         0.9 * m + 0.1 * g, 0.99 * v + 0.01 * g * g), *[(shape, f32)] * 4)
        rows, width = self.dim(131072), self.dim(1024)
        self.add("movement", f"gather {rows}x{width}", lambda t, i: t[i], ((rows, width), bf16), ((self.dim(65536),), jnp.int32))

    def convolutions(self):
        for size, channels, features, window, stride in ((224, 3, 64, 7, 2), (56, 64, 64, 3, 1), (56, 64, 256, 1, 1),
                                                         (28, 128, 128, 3, 1), (14, 256, 256, 3, 1), (14, 1024, 256, 1, 1), (7, 512, 512, 3, 1)):
            def convolve(x, w, stride=stride):
                return self.jax.lax.conv_general_dilated(x, w, (stride, stride), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC"))
            size = max(4, size // self.shrink)
            arguments = (((self.few(128), size, size, channels), self.jnp.bfloat16), ((window, window, channels, features), self.jnp.bfloat16))
            label = f"{arguments[0][0][0]}x{size}x{size}x{channels} {window}x{window}/{stride} {features}"
            self.add("convolution", f"forward {label}", convolve, *arguments)
            self.add("convolution", f"backward {label}", self.with_backward(convolve), *arguments)

    def layers(self):
        for batch, length, heads, wide in ((4, 2048, 16, 8192), (4, 2048, 32, 16384)):
            batch, length, heads, wide = self.few(batch), self.dim(length), self.few(heads), self.dim(wide)
            model, bf16 = heads * 128, self.jnp.bfloat16
            arguments = [((batch, length, model), bf16), ((model, 3 * model), bf16), ((model, model), bf16),
                         ((model, 2 * wide), bf16), ((wide, model), bf16)]
            function, spelled = self.layer(heads, self.library), self.layer(heads, False)
            label = f"{batch}x{length}x{model}, {wide} hidden"
            way = "flash" if self.library else "materialized"
            self.add("layer", f"forward {label}", function, *arguments, spelled=spelled, attention=way)
            self.add("layer", f"both {label}", self.with_backward(function), *arguments,
                     spelled=self.with_backward(spelled), attention=way)

    def layer(self, heads, library):
        jax, jnp = self.jax, self.jnp

        def norm(x):
            wide = x.astype(jnp.float32)
            return (wide * jax.lax.rsqrt((wide * wide).mean(-1, keepdims=True) + 1e-6)).astype(x.dtype)

        def apply(x, into_qkv, out_of_heads, up, down):
            qkv = (norm(x) @ into_qkv).reshape(*x.shape[:2], 3, heads, 128)
            attended = self.attention_of(library, True)(qkv[:, :, 0], qkv[:, :, 1], qkv[:, :, 2])
            x = x + attended.reshape(x.shape) @ out_of_heads
            gate, value = jnp.split(norm(x) @ up, 2, axis=-1)
            return x + (jax.nn.silu(gate) * value) @ down
        return apply

    def all(self):
        """All of them, the classes in turn, so that a run that is cut off has some of each."""
        for more in (self.layers, self.dots, self.attention, self.memory_bound, self.convolutions):
            more()
        places, ordered = {}, []
        for kernel in self.kernels:
            places[kernel.kind] = places.get(kernel.kind, 0) + 1
            ordered.append((places[kernel.kind], kernel))
        return [kernel for _, kernel in sorted(ordered, key=lambda pair: pair[0])]


class Clock:
    """Times of kernels on one device."""

    def __init__(self, jax, device, platform):
        import numpy as np
        self.jax, self.np, self.device = jax, np, device
        self.block = np.random.default_rng(0).standard_normal(1 << 20).astype(np.float32)
        self.least_s = A_MEASUREMENT_S if platform != "cpu" else 0
        self.dispatch_s = self.call_s(*self.chain(1))
        few, many = (self.call_s(*self.chain(length)) for length in (8, 72))
        self.launch_s = max(1e-7, (many - few) / 64)  # of kernels that have next to nothing to do, one after another

    def array(self, shape, dtype):
        if self.np.dtype(dtype).kind == "i":  # random rows
            values = self.np.abs(self.np.resize(self.block, shape) * shape[0] / 4).astype(dtype) % shape[0]
        else:
            values = self.np.resize(self.block, shape).astype(dtype)
        return self.jax.device_put(values, self.device)

    def chain(self, length):
        def products(x, w):
            for _ in range(length):
                x = x @ w
            return x
        return self.jax.jit(products), [self.array((64, 64), self.np.float32)] * 2

    def call_s(self, compiled, arguments):
        """Seconds from one call to the next, with the device never idle: the median of three rounds."""
        def calls(count):
            start = time.perf_counter()
            for _ in range(count):
                results = compiled(*arguments)
            self.jax.block_until_ready(results)
            return time.perf_counter() - start
        calls(2)
        once = calls(2) / 2
        count = max(2, min(2000, math.ceil(self.least_s / once)))
        return statistics.median(calls(count) / count for _ in range(3))

    def measure(self, kernel):
        """(seconds, were the calls long enough to hide their dispatch?)"""
        size = sum(math.prod(shape) * self.np.dtype(dtype).itemsize for shape, dtype in kernel.arguments)
        sets = max(1, min(MOST_SETS, MOST_BYTES // size))
        operands = [[self.array(shape, dtype) for shape, dtype in kernel.arguments] for _ in range(sets)]
        program = self.jax.jit(lambda *operands: [kernel.function(*each) for each in operands])
        seconds = self.call_s(program, operands)
        return seconds / sets, seconds > 4 * self.dispatch_s


def priced(gshard, kernel, jax, chip_file):
    """(seconds, kernels) of gshard-cost."""
    shapes = [jax.ShapeDtypeStruct(shape, dtype) for shape, dtype in kernel.arguments]
    with tempfile.NamedTemporaryFile("w", suffix=".mlir") as file:
        file.write(jax.jit(kernel.spelled).lower(*shapes).as_text(debug_info=True))
        file.flush()
        done = subprocess.run([gshard, file.name, "--chip-file", chip_file, "--attention", kernel.attention, "--json"],
                              capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(f"gshard-cost failed on {kernel.label}: {done.stderr}")
    document = json.loads(done.stdout)
    return document["step_time_s"], sum(row["count"] for row in document["kernels"])


def line_through(points):
    """(a, b), both not negative, of seconds = a * ideal + b, least squares of what is off in proportion."""
    x, y = [ideal / seconds for ideal, seconds in points], [1 / seconds for _, seconds in points]
    xx, xy, yy = sum(a * a for a in x), sum(a * b for a, b in zip(x, y)), sum(b * b for b in y)
    determinant = xx * yy - xy * xy
    if len(points) > 2 and determinant > 1e-9 * xx * yy:
        a, b = (sum(x) * yy - sum(y) * xy) / determinant, (sum(y) * xx - sum(x) * xy) / determinant
        if a > 0 and b > 0:
            return a, b
    return statistics.median(seconds / ideal for ideal, seconds in points), 0.0


def fitted(rows, base, launch_s):
    """Fields of a chip file, and words on what was not fitted."""
    fields, words = {"launch_s": launch_s}, []
    for field, kinds in FITTED.items():
        points = [(row["ideal_s"], max(row["measured_s"] - row["kernels"] * launch_s, row["measured_s"] / 4)) for row in rows
                  if row["class"] in kinds and row["is_long"] and (row["kernels"] == 1 or "attention" in row["class"])]
        if not points:
            words.append(f"{field}: as {base['name']}'s, nothing was measured")
            continue
        a, b = line_through(points)
        peak = base["hbm_bytes_per_s"] if field == "memory_efficiency" else base["peak_flops"].get("bf16") or base["peak_flops"]["f16"]
        fields[field] = {"limit": min(1, float(f"{1 / a:.3g}")), "half": float(f"{b / a * peak:.3g}")}
        if a < 1:
            words.append(f"{field}: {1 / a:.3g} of the peak was measured, 1 is written")
    return fields, words


def write_chip(path, name, base, fields, device_kind, version):
    source = f"tests/bench/gpu_kernels.py on {device_kind}, jax {version}: " + ", ".join(sorted(fields))
    chip = {"base": base["name"], "name": name, **fields, "sources": [source]}
    pathlib.Path(path).write_text(json.dumps(chip, indent=1) + "\n")


def print_tables(rows, base, fields, words):
    print(f"{'class':17}{'kernel':44}{'measured us':>12}{base['name']:>10}{'fitted':>10}")
    for row in sorted(rows, key=lambda row: row["class"]):
        ratios = "".join(f"{row[key] / row['measured_s']:10.2f}" for key in ("base_s", "fitted_s"))
        print(f"{row['class']:17}{row['kernel']:44}{row['measured_s'] * 1e6:12.1f}{ratios}{'' if row['is_long'] else '  short'}")
    print(f"\nours over what was measured, {base['name']} and fitted\n{'class':17} kernels  quarter   median  three quarters")
    for kind in dict.fromkeys(row["class"] for row in rows):
        for key in ("base_s", "fitted_s"):
            ratios = sorted(row[key] / row["measured_s"] for row in rows if row["class"] == kind)
            quarters = statistics.quantiles(ratios, n=4) if len(ratios) > 1 else ratios * 3
            print(f"{kind if key == 'base_s' else '':17} {len(ratios):7}" + "".join(f" {quarter:8.2f}" for quarter in quarters))
    print(f"\n{'constant':24}{base['name']:>32}{'fitted':>32}")
    for field, value in fields.items():
        print(f"{field:24}{str(base.get(field)):>32}{str(value):>32}")
    print("\n".join(words))


def chip_files(folder, base):
    """Of --base, and with efficiencies of 1 and kernels that start at once: what the fit is over."""
    paths = {name: os.path.join(folder, f"{name}.json") for name in ("base", "ideal", "fitted")}
    pathlib.Path(paths["base"]).write_text(json.dumps({"base": base["name"], "name": "base", **AT_RATES}))
    ideal = {"base": base["name"], "name": "ideal", "launch_s": 0, **AT_RATES, **{field: {"limit": 1, "half": 0} for field in FITTED}}
    pathlib.Path(paths["ideal"]).write_text(json.dumps(ideal))
    return paths


def has_library(jax, device):
    """Does cuDNN's attention run here?"""
    shape = jax.ShapeDtypeStruct((1, 128, 1, 128), jax.numpy.bfloat16, sharding=jax.sharding.SingleDeviceSharding(device))
    try:
        jax.jit(lambda q: jax.nn.dot_product_attention(q, q, q, implementation="cudnn")).lower(shape).compile()
        return True
    except Exception as error:  # of many types, by version and platform
        print(f"without cuDNN's attention: {str(error).splitlines()[0][:150]}", file=sys.stderr)
        return False


def measured_rows(chosen, clock, arguments, paths, jax):
    rows, begin = [], time.monotonic()
    for kernel in chosen:
        if time.monotonic() - begin > arguments.seconds:
            print(f"cut off after {arguments.seconds:.0f} s", file=sys.stderr)
            break
        try:
            seconds, is_long = clock.measure(kernel)
        except Exception as error:  # a kernel that the library refuses, or no memory: the others count
            print(f"left out {kernel.kind} {kernel.label}: {str(error).splitlines()[0][:150]}", file=sys.stderr)
            continue
        ideal, count = priced(arguments.gshard, kernel, jax, paths["ideal"])
        base, _ = priced(arguments.gshard, kernel, jax, paths["base"])
        if ideal > 0:
            rows.append({"class": kernel.kind, "kernel": kernel.label, "measured_s": seconds, "is_long": is_long, "kernels": count,
                         "ideal_s": ideal, "base_s": base, "of": kernel})
        print(f"{len(rows)} of {len(chosen)} kernels", file=sys.stderr)
    return rows


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--gshard", required=True, help="the program gshard-cost")
    parser.add_argument("--platform", default="gpu", choices=["gpu", "cpu"])
    parser.add_argument("--base", help="the chip that the fitted one starts from (default: by the name of the device)")
    parser.add_argument("--only", default="", help="kernels whose class begins so")
    parser.add_argument("--most", type=int, default=1000, help="kernels at most")
    parser.add_argument("--shrink", type=int, default=1, help="divides sizes")
    parser.add_argument("--seconds", type=float, default=540, help="starts no kernel after so long")
    parser.add_argument("--chip-out", default="measured_chip.json", help="the chip file")
    parser.add_argument("--json", help="all rows, to this file")
    arguments = parser.parse_args()
    import jax
    try:
        device = jax.devices(arguments.platform)[0]
    except RuntimeError:
        print(f"SKIPPED: JAX sees no GPU here, only {jax.devices()[0].device_kind}; nothing was measured")
        return
    name = arguments.base or next((chip for part, chip in KINDS if part in device.device_kind.replace(" ", "-").upper()), None)
    if name is None:
        sys.exit(f"{device.device_kind} is none of the chips; --base names one")
    base = json.loads((CHIPS / f"{name}.json").read_text())
    with tempfile.TemporaryDirectory() as folder, jax.default_device(device):
        clock = Clock(jax, device, arguments.platform)
        kernels = List(jax, arguments.shrink, arguments.platform == "gpu" and has_library(jax, device)).all()
        chosen = [kernel for kernel in kernels if kernel.kind.startswith(arguments.only)][:arguments.most]
        paths = chip_files(folder, base)
        rows = measured_rows(chosen, clock, arguments, paths, jax)
        fields, words = fitted(rows, base, float(f"{clock.launch_s:.3g}"))
        write_chip(arguments.chip_out, f"{name}-measured", base, fields, device.device_kind, jax.__version__)
        write_chip(paths["fitted"], f"{name}-measured", base, {**fields, **AT_RATES}, device.device_kind, jax.__version__)
        for row in rows:
            row["fitted_s"], _ = priced(arguments.gshard, row.pop("of"), jax, paths["fitted"])
    print(f"{device.device_kind}: a call takes {clock.dispatch_s * 1e6:.1f} us, a kernel at least {clock.launch_s * 1e6:.1f}")
    print_tables(rows, base, fields, words)
    if arguments.json:
        pathlib.Path(arguments.json).write_text(json.dumps(rows, indent=1))


if __name__ == "__main__":
    main()
