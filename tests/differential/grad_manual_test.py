"""Gradients of programs with manual regions, against JAX's own: `gshard-opt grad | gshard-run --verify`.

Each loss has a shard_map over some axes of a mesh of 8 devices, or over all of them. The program that JAX prints is
differentiated; its value and gradients, run on an emulated mesh, must be jax.value_and_grad's, and the partitioned
program must verify against the unpartitioned one.

Each is read in both forms that JAX writes: Shardy's, and GSPMD's (which is printed only, not compiled).

    grad_manual_test.py [--only REGEX]
"""
import argparse
import os
import pathlib
import re
import subprocess
import tempfile

os.environ["XLA_FLAGS"] = "--xla_force_host_platform_device_count=8"
os.environ["JAX_ENABLE_X64"] = "1"
os.environ.setdefault("JAX_PLATFORMS", "cpu")

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.sharding import NamedSharding, PartitionSpec as P

from tally import Tally

TOLERANCE = 1e-9
AUTO = jax.sharding.AxisType.Auto
IJ = jax.make_mesh((2, 4), ("i", "j"), axis_types=(AUTO, AUTO))
ABC = jax.make_mesh((2, 2, 2), ("a", "b", "c"), axis_types=(AUTO, AUTO, AUTO))
LOSSES = []  # name, mesh, function, shapes of its arguments, their shardings


def loss(mesh, *arguments):
    def add(function):
        LOSSES.append((function.__name__, mesh, function, arguments))
        return function
    return add


def region(function, mesh, inputs, outputs, axes, check_vma=True):
    return jax.shard_map(function, mesh=mesh, in_specs=inputs, out_specs=outputs, axis_names=set(axes), check_vma=check_vma)


@loss(IJ, ((8, 16), P("i")), ((16, 12), P(None, "j")))
def operand_without_the_axis(x, w):
    y = region(lambda x, w: jnp.tanh(x @ w), IJ, (P("i"), P()), P("i"), "i")(x, w)
    return jnp.sum(y * y)


def two_products(x, w, v):
    return lax.psum(jnp.tanh(x @ w) @ v, "j")


MEGATRON = (((8, 16), P("i")), ((16, 32), P(None, "j")), ((32, 16), P("j")))


@loss(IJ, *MEGATRON)
def megatron(x, w, v):
    return jnp.sum(jnp.sin(region(two_products, IJ, (P(), P(None, "j"), P("j")), P(), "j")(x, w, v)))


@loss(IJ, *MEGATRON)
def megatron_unchecked(x, w, v):
    return jnp.sum(jnp.sin(region(two_products, IJ, (P(), P(None, "j"), P("j")), P(), "j", False)(x, w, v)))


@loss(IJ, ((8, 16), P("i")), ((16, 12), P()))
def constraint_inside(x, w):
    y = region(lambda x, w: lax.with_sharding_constraint(jnp.tanh(x @ w), P("j")), IJ, (P("i"), P()), P("i"), "i")(x, w)
    return jnp.mean(y ** 3)


@loss(IJ, ((8, 16), P("i")), ((16, 12), P(None, "j")), ((12,), P("j")))
def loss_inside(x, w, b):
    def mean(x, w, b):
        return lax.pmean(jnp.mean(jnp.square(jnp.tanh(x @ w + b))), "i")
    return region(mean, IJ, (P("i"), P(), P()), P(), "i")(x, w, b)


@loss(ABC, ((8, 16), P("a", "b")), ((16, 8), P("b", "c")), ((8,), P()))
def two_of_three_axes(x, w, b):
    y = region(lambda x, w, b: jnp.tanh(lax.psum(x @ w, "b") + b), ABC, (P("a", "b"), P("b"), P()), P("a"), "ab")(x, w, b)
    return jnp.sum(y * y)


@loss(ABC, ((16, 8), P(("b", "a"))), ((8, 8), P(None, "c")))
def dim_of_two_axes(x, w):
    return jnp.sum(region(lambda x, w: jnp.exp(jnp.sin(x @ w)), ABC, (P("b"), P()), P("b"), "b")(x, w))


@loss(IJ, ((4, 8, 16), P("j")), ((4, 16, 16), P("j", "i")))
def ring(x, w):
    def stages(x, w):
        stage = lax.axis_index("j")

        def step(c, _):
            c = jnp.tanh(c @ w[0]) + stage
            return lax.ppermute(c, "j", [(p, (p + 1) % 4) for p in range(4)]), jnp.sum(c)
        c, sums = lax.scan(step, x[0], None, length=3)
        return c[None], lax.psum(jnp.sum(sums), "j")[None]
    y, total = region(stages, IJ, (P("j"), P("j")), (P("j"), P()), "j")(x, w)
    return jnp.sum(y) + jnp.sum(total)


@loss(IJ, ((8, 16), P("i")), ((16, 8), P("j")))
def gather_and_scatter(x, w):
    def product(x, w):
        y = jnp.tanh(x @ lax.all_gather(w, "j", axis=0, tiled=True))
        return lax.psum_scatter(y, "j", scatter_dimension=1, tiled=True)
    return jnp.sum(jnp.cos(region(product, IJ, (P(), P("j")), P(None, "j"), "j")(x, w)))


@loss(IJ, ((8, 16), P("i")), ((16, 8), P()))
def exchange(x, w):
    def squares(x, w):
        return jnp.square(lax.all_to_all(jnp.sin(x @ w), "i", split_axis=1, concat_axis=0, tiled=True))
    return jnp.sum(region(squares, IJ, (P("i"), P()), P(None, "i"), "i")(x, w))


@loss(IJ, ((8, 16), P("i")), ((16, 12), P()))
def region_in_region(x, w):
    def outer(x, w):
        mesh = jax.sharding.get_abstract_mesh()
        return 2 * region(lambda x, w: jnp.tanh(x @ w), mesh, (P(), P(None, "j")), P(None, "j"), "j", False)(x, w)
    y = region(outer, IJ, (P("i"), P()), P("i"), "i", False)(x, w)
    return jnp.sum(y * y)


@loss(IJ, ((8, 16), P("i")), ((3, 16, 16), P(None, None, "j")))
def scanned_layers(x, w):
    layer = region(lambda x, w: jnp.tanh(x @ w) + x, IJ, (P("i"), P()), P("i"), "i")
    return jnp.sum(lax.scan(lambda c, w: (layer(c, w), None), x, w)[0] ** 2)


@loss(IJ, ((8, 16), P("i")), ((16, 16), P(None, "j")))
def recomputed(x, w):
    layer = jax.checkpoint(lambda x, w: jnp.tanh(jnp.tanh(x @ w) @ w))
    return jnp.sum(region(layer, IJ, (P("i"), P()), P("i"), "i")(x, w) ** 2)


@loss(IJ, ((8, 16), P("i")), ((16, 16), P(None, "j")))
def branches(x, w):
    def by_device(x, w):
        return lax.cond(lax.axis_index("i") == 0, lambda x: jnp.tanh(x @ w), lambda x: 2 * jnp.sin(x @ w), x)
    return jnp.sum(region(by_device, IJ, (P("i"), P()), P("i"), "i")(x, w) ** 2)


@loss(IJ, ((8, 16), P("i", "j")))
def repeated_result(x):
    return region(lambda x: lax.psum(jnp.sum(x * x), "i"), IJ, (P("i"),), P(), "i")(x) * jnp.sum(x)


@loss(IJ, ((8, 16), P("i")), ((16, 12), P(None, "j")))
def all_axes(x, w):
    y = region(lambda x, w: jnp.tanh(x @ w), IJ, (P("i"), P(None, "j")), P("i", "j"), "ij")(x, w)
    return jnp.sum(y * y)


def tool(*words):
    run = subprocess.run([str(word) for word in words], capture_output=True, text=True, timeout=300)
    return f"{words[0]} {words[1]}: exit {run.returncode}: {run.stderr.strip()[:500]}" if run.returncode != 0 else ""


def difference(actual, expected):
    """What is wrong; empty if nothing."""
    for k, x in enumerate(expected):
        x = np.asarray(x)
        error = np.max(np.abs(actual[f"o{k}"] - x)) / np.max(np.abs(x))
        if not error <= TOLERANCE:
            return f"{'value' if k == 0 else f'gradient {k - 1}'}: relative error {error:.2g}"
    return ""


def check(name, mesh, function, arguments, folder):
    """What is wrong; empty if nothing."""
    random = np.random.default_rng(len(name))
    values = [random.normal(size=shape) / 2 for shape, _ in arguments]
    shardings = [NamedSharding(mesh, spec) for _, spec in arguments]
    with jax.set_mesh(mesh):
        texts = []
        for shardy in (True, False):
            jax.config.update("jax_use_shardy_partitioner", shardy)
            texts.append(jax.jit(function, in_shardings=shardings).lower(*values).as_text())
        jax.config.update("jax_use_shardy_partitioner", True)
        gradient = jax.value_and_grad(function, argnums=tuple(range(len(values))))
        value, expected = jax.jit(gradient, in_shardings=shardings)(*values)
    np.savez(folder / "in.npz", **{f"p{k}": x for k, x in enumerate(values)})
    for form, text in zip(("Shardy", "GSPMD"), texts):
        (folder / "loss.mlir").write_text(text)
        problem = tool("gshard-opt", "grad", folder / "loss.mlir", "-o", folder / "grad.hlo")
        problem = problem or tool("gshard-run", folder / "grad.hlo", "--input", folder / "in.npz", "--verify", "--output", folder / "out.npz")
        problem = problem or difference(np.load(folder / "out.npz"), [value, *expected])
        if problem:
            return f"{form}: {problem}"
    return ""


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--only", default="")
    only = parser.parse_args().only
    tally = Tally()
    for name, mesh, function, arguments in LOSSES:
        if not re.search(only, name):
            continue
        with tempfile.TemporaryDirectory() as folder:
            try:
                problem = check(name, mesh, function, arguments, pathlib.Path(folder))
            except Exception as error:  # of JAX, or a tool that does not end
                problem = f"{type(error).__name__}: {str(error)[:300]}"
        tally.check(name, problem)
    tally.finish()


if __name__ == "__main__":
    main()
