"""Programs of optax, equinox, flax and diffrax with shardings: name -> HLO text of 8 devices, before partitioning.

Each is a step as a user writes it, small; inputs are sharded as data, tensor or fully sharded parallel users do.
"""
import os

os.environ.setdefault("XLA_FLAGS", "--xla_force_host_platform_device_count=8")
os.environ.setdefault("JAX_PLATFORMS", "cpu")

import functools

import diffrax
import equinox as eqx
import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np
import optax
from jax.sharding import Mesh, NamedSharding, PartitionSpec as P

MESHES = {"4x2": Mesh(np.array(jax.devices()).reshape(4, 2), ("data", "model")),
          "2x4": Mesh(np.array(jax.devices()).reshape(2, 4), ("data", "model")),
          "8": Mesh(np.array(jax.devices()).reshape(8, 1), ("data", "model"))}
# How leaves of parameters lie: whole, cut along their last or first dim by one axis, or by both.
PLACEMENTS = {"dp": lambda x: P(),
              "tp": lambda x: P(*[None] * (x.ndim - 1), "model") if x.ndim > 1 else P(),
              "fsdp": lambda x: P("data") if x.ndim > 0 and x.shape[0] % 8 == 0 else P(),
              "2d": lambda x: P("data", *[None] * (x.ndim - 2), "model") if x.ndim > 1 else P()}
PROGRAMS = {}
DIALECT = "hlo"  # of as_text; "stablehlo" for text before XLA takes it


def fits(spec, shape, mesh):
    """The spec without axes that do not divide their dim."""
    kept = []
    for size, axis in zip(shape, tuple(spec) + (None,) * len(shape)):
        kept.append(axis if axis is not None and size % mesh.shape[axis] == 0 else None)
    return P(*kept)


def lowered(step, state, batch, mesh, placement):
    """HLO of step(state, batch): state placed leaf by leaf, batches cut along "data"."""
    def place(x):
        return NamedSharding(mesh, fits(PLACEMENTS[placement](x), x.shape, mesh))

    def place_batch(x):
        return NamedSharding(mesh, fits(P("data"), x.shape, mesh))

    shardings = (jax.tree.map(place, state), jax.tree.map(place_batch, batch))
    jitted = jax.jit(step, in_shardings=shardings)
    with jax.sharding.use_mesh(mesh) if hasattr(jax.sharding, "use_mesh") else mesh:
        return jitted.lower(state, batch).as_text(DIALECT)


def program(name, make, meshes, placements):
    for mesh in meshes:
        for placement in placements:
            if placement in ("tp", "2d") and mesh == "8":
                continue
            PROGRAMS[f"{name}.{mesh}.{placement}"] = functools.partial(make, MESHES[mesh], placement)


def f32(*shape):
    return jnp.zeros(shape, jnp.float32)


# --- optax: one update of a two-layer network by each optimizer
OPTIMIZERS = {"sgd": optax.sgd(0.1, momentum=0.9), "adam": optax.adam(1e-3), "adamw": optax.adamw(1e-3),
              "adafactor": optax.adafactor(1e-3, min_dim_size_to_factor=8), "lamb": optax.lamb(1e-3),
              "lion": optax.lion(1e-3), "rmsprop": optax.rmsprop(1e-3), "adagrad": optax.adagrad(1e-2),
              "clipped": optax.chain(optax.clip_by_global_norm(1.0), optax.adam(1e-3)),
              "yogi": optax.yogi(1e-3), "radam": optax.radam(1e-3), "novograd": optax.novograd(1e-3)}


def optimizer_step(optimizer, mesh, placement):
    params = {"w0": f32(32, 64), "b0": f32(64), "w1": f32(64, 16), "b1": f32(16)}
    state = (params, optimizer.init(params))

    def loss(p, batch):
        x, y = batch
        hidden = jax.nn.gelu(x @ p["w0"] + p["b0"])
        return jnp.mean((hidden @ p["w1"] + p["b1"] - y) ** 2)

    def step(state, batch):
        p, s = state
        updates, s = optimizer.update(jax.grad(loss)(p, batch), s, p)
        return optax.apply_updates(p, updates), s

    return lowered(step, state, (f32(64, 32), f32(64, 16)), mesh, placement)


for key, value in OPTIMIZERS.items():
    program(f"optax_{key}", functools.partial(optimizer_step, value), ["4x2"], ["dp", "tp", "fsdp"])


# --- equinox: gradients of its layers
def equinox_step(make, shape, mesh, placement, per_example=True):
    model = make(jax.random.PRNGKey(0))
    params, static = eqx.partition(model, eqx.is_inexact_array)

    def loss(p, x):
        call = eqx.combine(p, static)
        return jnp.mean(jax.vmap(call)(x) ** 2)

    def step(p, x):
        return jax.tree.map(lambda a, g: a - 0.1 * g, p, jax.grad(loss)(p, x))

    return lowered(step, params, f32(16, *shape), mesh, placement)


class Attention(eqx.Module):
    attention: eqx.nn.MultiheadAttention
    rotary: eqx.nn.RotaryPositionalEmbedding

    def __init__(self, key):
        self.attention = eqx.nn.MultiheadAttention(4, 32, key=key)
        self.rotary = eqx.nn.RotaryPositionalEmbedding(8)

    def __call__(self, x):
        def turn(q, k, v):
            heads = jax.vmap(self.rotary, in_axes=1, out_axes=1)
            return heads(q), heads(k), v
        return self.attention(x, x, x, process_heads=turn)


class Block(eqx.Module):
    norm: eqx.nn.LayerNorm
    attention: eqx.nn.MultiheadAttention
    mlp: eqx.nn.MLP

    def __init__(self, key):
        one, two = jax.random.split(key)
        self.norm = eqx.nn.LayerNorm(32)
        self.attention = eqx.nn.MultiheadAttention(4, 32, key=one)
        self.mlp = eqx.nn.MLP(32, 32, 64, 1, key=two)

    def __call__(self, x):
        h = jax.vmap(self.norm)(x)
        x = x + self.attention(h, h, h)
        return x + jax.vmap(self.mlp)(jax.vmap(self.norm)(x))


class Recurrent(eqx.Module):
    cell: eqx.Module

    def __init__(self, kind, key):
        self.cell = kind(16, 32, key=key)

    def __call__(self, x):
        state = f32(32)
        if isinstance(self.cell, eqx.nn.LSTMCell):
            state = (state, state)
        state, _ = jax.lax.scan(lambda s, xt: (self.cell(xt, s), None), state, x)
        return state[0] if isinstance(state, tuple) else state


LAYERS = {"mlp": (lambda k: eqx.nn.MLP(32, 16, 64, 2, key=k), (32,)),
          "conv2d": (lambda k: eqx.nn.Conv2d(4, 8, 3, padding=1, key=k), (4, 16, 16)),
          "conv1d": (lambda k: eqx.nn.Conv1d(4, 8, 5, padding=2, key=k), (4, 32)),
          "layer_norm": (lambda k: eqx.nn.LayerNorm((8, 16)), (8, 16)),
          "group_norm": (lambda k: eqx.nn.GroupNorm(4, 16), (16, 8, 8)),
          "attention": (lambda k: Attention(k), (16, 32)),
          "block": (Block, (16, 32)),
          "gru": (lambda k: Recurrent(eqx.nn.GRUCell, k), (8, 16)),
          "lstm": (lambda k: Recurrent(eqx.nn.LSTMCell, k), (8, 16)),
          "pool": (lambda k: eqx.nn.Sequential([eqx.nn.Conv2d(4, 8, 3, key=k), eqx.nn.MaxPool2d(2, 2),
                                               eqx.nn.AvgPool2d(2, 2)]), (4, 16, 16))}
for key, (make, shape) in LAYERS.items():
    program(f"equinox_{key}", functools.partial(equinox_step, make, shape), ["4x2", "8"], ["dp", "tp", "fsdp"])


# --- flax.linen: training steps with adam
class Transformer(nn.Module):
    @nn.compact
    def __call__(self, tokens):
        x = nn.Embed(64, 32)(tokens)
        for _ in range(2):
            h = nn.LayerNorm()(x)
            x = x + nn.MultiHeadDotProductAttention(4)(h, h)
            h = nn.LayerNorm()(x)
            x = x + nn.Dense(32)(nn.gelu(nn.Dense(128)(h)))
        return nn.Dense(64)(nn.LayerNorm()(x))


class Convolutional(nn.Module):
    @nn.compact
    def __call__(self, x):
        for features in (8, 16):
            x = nn.relu(nn.GroupNorm(4)(nn.Conv(features, (3, 3))(x)))
            x = nn.avg_pool(x, (2, 2), (2, 2))
        return nn.Dense(16)(x.reshape((x.shape[0], -1)))


class AutoEncoder(nn.Module):
    @nn.compact
    def __call__(self, x):
        z = nn.Dense(8)(nn.relu(nn.Dense(64)(x)))
        return nn.Dense(x.shape[-1])(nn.relu(nn.Dense(64)(z)))


class Experts(nn.Module):
    @nn.compact
    def __call__(self, x):
        gates = jax.nn.softmax(nn.Dense(4)(x))
        w = self.param("w", nn.initializers.lecun_normal(), (4, x.shape[-1], 32))
        return jnp.einsum("be,bd,edf->bf", gates, x, w)


def flax_step(model, example, mesh, placement, loss="square"):
    params = model.init(jax.random.PRNGKey(0), example)
    optimizer = optax.adam(1e-3)

    def objective(p, x):
        y = model.apply(p, x)
        if loss == "tokens":
            return optax.softmax_cross_entropy_with_integer_labels(y, x).mean()
        return jnp.mean(y ** 2)

    def step(state, x):
        p, s = state
        updates, s = optimizer.update(jax.grad(objective)(p, x), s, p)
        return optax.apply_updates(p, updates), s

    return lowered(step, (params, optimizer.init(params)), example, mesh, placement)


program("flax_transformer", functools.partial(flax_step, Transformer(), jnp.zeros((8, 16), jnp.int32), loss="tokens"),
        ["4x2", "2x4", "8"], ["dp", "tp", "fsdp", "2d"])
program("flax_conv", functools.partial(flax_step, Convolutional(), f32(16, 16, 16, 4)), ["4x2", "8"], ["dp", "tp", "fsdp"])
program("flax_autoencoder", functools.partial(flax_step, AutoEncoder(), f32(32, 48)), ["4x2", "2x4"],
        ["dp", "tp", "fsdp", "2d"])
program("flax_experts", functools.partial(flax_step, Experts(), f32(32, 16)), ["4x2", "2x4"], ["dp", "tp", "fsdp"])


# --- diffrax: a neural ODE and a batch of solutions
def diffrax_solve(solver, mesh, placement):
    params = {"w0": f32(16, 64), "w1": f32(64, 16)}

    def field(t, y, p):
        return jnp.tanh(y @ p["w0"]) @ p["w1"]

    def step(p, y):
        return diffrax.diffeqsolve(diffrax.ODETerm(field), solver, 0.0, 1.0, 0.1, y, args=p, max_steps=16,
                                   adjoint=diffrax.ForwardMode()).ys

    return lowered(step, params, f32(32, 16), mesh, placement)


for key, value in {"euler": diffrax.Euler(), "heun": diffrax.Heun(), "tsit5": diffrax.Tsit5(),
                   "dopri5": diffrax.Dopri5(), "midpoint": diffrax.Midpoint()}.items():
    program(f"diffrax_{key}", functools.partial(diffrax_solve, value), ["4x2"], ["dp", "tp", "fsdp"])
