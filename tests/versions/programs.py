"""Texts of small programs as one version of JAX prints them, from 0.4.26 on:

  python programs.py FOLDER      NAME.mlir: the default print; NAME.hlo: as_text('hlo'); NAME.compiled.txt: what XLA compiled

of 8 devices, for tests/checks/jax_versions.sh, which reads texts that are kept, and newest_jax_test.py, which makes new ones.
"""
import os
import sys

os.environ["XLA_FLAGS"] = "--xla_force_host_platform_device_count=8"
os.environ["JAX_PLATFORMS"] = "cpu"

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.sharding import Mesh, NamedSharding
from jax.sharding import PartitionSpec as P

if hasattr(jax, "shard_map"):
    shard_map = jax.shard_map
else:
    from jax.experimental.shard_map import shard_map

MESH = Mesh(np.array(jax.devices()).reshape(2, 4), ("data", "model"))


def on(*spec):
    return NamedSharding(MESH, P(*spec))


def f32(*shape):
    return jnp.zeros(shape, jnp.float32)


def loss(weights, x):
    def layer(h, w):
        return lax.with_sharding_constraint(jnp.tanh(4 * (h @ w)), on("data", None)), None

    return (lax.scan(layer, x, weights)[0] ** 2).mean()


def step(weights, x):
    return weights - 2.5 * jax.grad(loss)(weights, x)


def exchange(x, w):
    y = lax.psum(x @ w, "model")
    return lax.ppermute(y, "data", [(0, 1), (1, 0)])


# Rows that are there: what XLA 0.4.26 partitions gives zeros for others, where the whole program takes the nearest.
def lookup(table, i):
    return lax.top_k(table[jnp.clip(i, 0, 31)].sum(-1), 2)


PROGRAMS = {
    "step": (step, (on(None, None, "model"), on("data")), (f32(3, 16, 16), f32(8, 16))),
    "exchange": (shard_map(exchange, mesh=MESH, in_specs=(P("data", "model"), P("model", None)), out_specs=P("data", None)),
                 (on("data", "model"), on("model")), (f32(8, 16), f32(16, 8))),
    "lookup": (lookup, (on("model"), on("data")), (f32(32, 8), jnp.zeros((8, 4), jnp.int32))),
}


def main():
    folder = sys.argv[1]
    os.makedirs(folder, exist_ok=True)
    for name, (function, shardings, arguments) in PROGRAMS.items():
        lowered = jax.jit(function, in_shardings=shardings).lower(*arguments)
        for ending, text in (("mlir", lowered.as_text()), ("hlo", lowered.as_text("hlo")),
                             ("compiled.txt", lowered.compile().as_text())):
            with open(os.path.join(folder, f"{name}.{ending}"), "w") as out:
                out.write(text)
    print(jax.__version__)


if __name__ == "__main__":
    main()
