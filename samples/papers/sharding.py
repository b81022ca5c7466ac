"""Annotations of the programs: which mesh axes split which dims (GSPMD paper, section 3.2).

A row of configs.json names a mesh and a sharding; `Sharding.split(x, *names)` annotates an
activation, `Sharding.shape(dims, *names)` a parameter. Names are those of the tables below; None
leaves a dim whole.
"""

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec

# Logical name -> mesh axes. Weights: "rows" is the model width, "columns" the other dim.
# Activations: "batch", "width" (of the model, between the parts), "heads", "hidden", "vocabulary".
SHARDINGS = {
    # Two dims of everything: the paper's "2D finalized".
    "finalized": {"batch": "data", "width": "model", "rows": "data", "columns": "model"},
    # The same with activations whole over `model` between the parts: "attempt 2".
    "attempt2": {"batch": "data", "rows": "data", "columns": "model"},
    # The batch whole, the width of activations over `data`: "attempt 1".
    "attempt1": {"width": "data", "rows": "data", "columns": "model"},
    # Weights and optimizer state over the batch's axis (ZeRO), tensor parallelism over `model`.
    "fsdp": {"batch": "data", "rows": "data", "columns": "model"},
    # Groups and experts over all cores (GShard).
    "experts": {"batch": "core", "group": "core", "expert": "core"},
    # Dense parts as "finalized"; experts over `data`.
    "hybrid": {"batch": "data", "width": "model", "rows": "data", "columns": "model",
               "group": "data", "expert": "data", "expert_width": "model",
               "expert_hidden": "model"},
    # Volumes in slabs.
    "space": {"batch": "data", "x": "space"},
}


class Sharding:
    def __init__(self, row):
        sizes = tuple(row["mesh"].values())
        devices = np.array(jax.devices()[:int(np.prod(sizes))]).reshape(sizes)
        self.mesh = Mesh(devices, tuple(row["mesh"]))
        self.axes = SHARDINGS[row["sharding"]]

    def named(self, *names):
        return NamedSharding(self.mesh, PartitionSpec(*(self.axes.get(n) for n in names)))

    def split(self, x, *names):
        return jax.lax.with_sharding_constraint(x, self.named(*names))

    def shape(self, dims, *names, dtype=jnp.float32):
        return jax.ShapeDtypeStruct(dims, dtype, sharding=self.named(*names))
