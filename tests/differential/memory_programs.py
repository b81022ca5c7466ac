"""Training steps of small models over 8 devices, for comparisons of peak memory.

Each entry of PROGRAMS returns (step, arguments, donated argument numbers): plain JAX in f32, with the
shardings on the arguments' shapes, nothing allocated.
"""
import functools
import math

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec as P


def mesh_of(**axes):
    devices = np.array(jax.devices()[: math.prod(axes.values())])
    return Mesh(devices.reshape(tuple(axes.values())), tuple(axes))


def shape(mesh, dims, *spec, dtype=jnp.float32):
    return jax.ShapeDtypeStruct(dims, dtype, sharding=NamedSharding(mesh, P(*spec)))


def constrain(x, mesh, *spec):
    return jax.lax.with_sharding_constraint(x, NamedSharding(mesh, P(*spec)))


# ---------------------------------------------------------------- optimizers
def sgd(parameters, gradients, state):
    return jax.tree.map(lambda p, g: p - 0.1 * g, parameters, gradients), state


def adam(parameters, gradients, state):
    m = jax.tree.map(lambda m, g: 0.9 * m + 0.1 * g, state["m"], gradients)
    v = jax.tree.map(lambda v, g: 0.99 * v + 0.01 * g * g, state["v"], gradients)
    new = jax.tree.map(lambda p, m, v: p - 1e-3 * m / (jnp.sqrt(v) + 1e-8), parameters, m, v)
    return new, {"m": m, "v": v}


def step_of(loss, optimizer):
    def step(parameters, state, *batch):
        value, gradients = jax.value_and_grad(loss)(parameters, *batch)
        parameters, state = optimizer(parameters, gradients, state)
        return parameters, state, value
    return step


def training(loss, parameters, batch, optimizer=sgd, donated=True):
    state = {} if optimizer is sgd else {"m": parameters, "v": parameters}
    return step_of(loss, optimizer), (parameters, state, *batch), (0, 1) if donated else ()


# ---------------------------------------------------------------- multi-layer perceptron
def mlp(donated, optimizer=sgd, layers=4, width=1024, hidden=4096, batch=2048):
    mesh = mesh_of(data=4, model=2)
    parameters = [{"in": shape(mesh, (width, hidden), None, "model"),
                   "out": shape(mesh, (hidden, width), "model", None)} for _ in range(layers)]
    x = shape(mesh, (batch, width), "data", None)

    def loss(parameters, x, y):
        for p in parameters:
            x = x + jax.nn.relu(x @ p["in"]) @ p["out"]
        return jnp.mean((x - y) ** 2)
    return training(loss, parameters, (x, x), optimizer, donated)


# ---------------------------------------------------------------- Transformer
def transformer_layer(p, x, mesh):
    """Pre-norm attention and feed-forward; x: [batch, length, width]."""
    def norm(x, scale):
        x = x - jnp.mean(x, axis=-1, keepdims=True)
        return x * jax.lax.rsqrt(jnp.mean(x * x, axis=-1, keepdims=True) + 1e-6) * scale
    h = norm(x, p["norm1"])
    q, k, v = (jnp.einsum("bld,dhk->blhk", h, p[n]) for n in ("q", "k", "v"))
    scores = jnp.einsum("blhk,bmhk->bhlm", q, k) / math.sqrt(q.shape[-1])
    a = jnp.einsum("bhlm,bmhk->blhk", jax.nn.softmax(scores, axis=-1), v)
    x = x + constrain(jnp.einsum("blhk,hkd->bld", a, p["o"]), mesh, "data", None, None)
    h = jax.nn.gelu(jnp.einsum("bld,df->blf", norm(x, p["norm2"]), p["in"]))
    return x + constrain(jnp.einsum("blf,fd->bld", h, p["out"]), mesh, "data", None, None)


def transformer(scanned, remat, optimizer=sgd, layers=6, width=512, hidden=2048, heads=8,
                length=256, batch=16, vocabulary=2048):
    mesh = mesh_of(data=4, model=2)
    head = width // heads
    dims = {"q": ((width, heads, head), (None, "model", None)),
            "k": ((width, heads, head), (None, "model", None)),
            "v": ((width, heads, head), (None, "model", None)),
            "o": ((heads, head, width), ("model", None, None)),
            "in": ((width, hidden), (None, "model")), "out": ((hidden, width), ("model", None)),
            "norm1": ((width,), (None,)), "norm2": ((width,), (None,))}
    if scanned:
        blocks = {n: shape(mesh, (layers, *d), None, *s) for n, (d, s) in dims.items()}
    else:
        blocks = [{n: shape(mesh, d, *s) for n, (d, s) in dims.items()} for _ in range(layers)]
    parameters = {"blocks": blocks, "embed": shape(mesh, (vocabulary, width), "model", None)}
    tokens = shape(mesh, (batch, length), "data", None, dtype=jnp.int32)

    def loss(parameters, tokens, targets):
        layer = lambda p, x: transformer_layer(p, x, mesh)
        if remat:
            layer = jax.checkpoint(layer)
        x = constrain(jax.nn.one_hot(tokens, vocabulary) @ parameters["embed"],
                      mesh, "data", None, None)
        if scanned:
            x, _ = jax.lax.scan(lambda x, p: (layer(p, x), None), x, parameters["blocks"])
        else:
            for p in parameters["blocks"]:
                x = layer(p, x)
        logits = jax.nn.log_softmax(x @ parameters["embed"].T)
        return -jnp.mean(jnp.sum(jax.nn.one_hot(targets, vocabulary) * logits, axis=-1))
    return training(loss, parameters, (tokens, tokens), optimizer)


# ---------------------------------------------------------------- mixture of experts (GShard)
def moe(layers=2, experts=8, width=512, hidden=1024, groups=32, tokens=512, optimizer=sgd,
        attention=False):
    """Top-1 routing; groups and experts along one axis, so that dispatch is an all-to-all."""
    mesh = mesh_of(expert=experts)
    capacity = 2 * tokens // experts
    parameters = [{"gate": shape(mesh, (width, experts)),
                   "in": shape(mesh, (experts, width, hidden), "expert", None, None),
                   "out": shape(mesh, (experts, hidden, width), "expert", None, None)}
                  for _ in range(layers)]
    if attention:  # each MoE layer after a dense one, as in GShard
        heads = width // 128
        for p in parameters:
            p.update({n: shape(mesh, (width, heads, 128)) for n in ("q", "k", "v")},
                     o=shape(mesh, (heads, 128, width)), dense_in=shape(mesh, (width, hidden)),
                     dense_out=shape(mesh, (hidden, width)))
    x = shape(mesh, (groups, tokens, width), "expert", None, None)

    def attend(p, x):
        q, k, v = (jnp.einsum("gsm,mhd->gshd", x, p[n]) for n in ("q", "k", "v"))
        scores = jax.nn.softmax(jnp.einsum("gshd,gthd->ghst", q, k), axis=-1)
        x = x + jnp.einsum("gshd,hdm->gsm", jnp.einsum("ghst,gthd->gshd", scores, v), p["o"])
        return x + jax.nn.relu(x @ p["dense_in"]) @ p["dense_out"]

    def layer(p, x):
        if attention:
            x = attend(p, x)
        gates = jax.nn.softmax(jnp.einsum("gsm,me->gse", x, p["gate"]), axis=-1)
        chosen = jax.nn.one_hot(jnp.argmax(gates, axis=-1), experts)
        place = jnp.cumsum(chosen, axis=1) * chosen - 1
        combine = ((gates * chosen)[..., None] *
                   jax.nn.one_hot(place.astype(jnp.int32), capacity))
        dispatch = (combine > 0).astype(jnp.float32)
        sent = constrain(jnp.einsum("gsec,gsm->egcm", dispatch, x), mesh, None, "expert")
        sent = constrain(sent, mesh, "expert")
        h = jax.nn.relu(jnp.einsum("egcm,emh->egch", sent, p["in"]))
        back = constrain(jnp.einsum("egch,ehm->egcm", h, p["out"]), mesh, "expert")
        back = constrain(back, mesh, None, "expert")
        return x + constrain(jnp.einsum("gsec,egcm->gsm", combine, back), mesh, "expert")

    def loss(parameters, x, y):
        for p in parameters:
            x = jax.checkpoint(layer)(p, x) if attention else layer(p, x)
        return jnp.mean((x - y) ** 2)
    return training(loss, parameters, (x, x), optimizer)


# ---------------------------------------------------------------- convolutions
def conv(spatial, layers=4, channels=32, size=128, batch=8):
    mesh = mesh_of(axis=8)
    kernels = [shape(mesh, (3, 3, channels, channels)) for _ in range(layers)]
    spec = (None, "axis", None, None) if spatial else ("axis", None, None, None)
    x = shape(mesh, (batch, size, size, channels), *spec)

    def loss(kernels, x, y):
        for k in kernels:
            x = x + jax.nn.relu(jax.lax.conv_general_dilated(
                x, k, (1, 1), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC")))
        return jnp.mean((x - y) ** 2)
    return training(loss, kernels, (x, x))


# GShard's MoE with 128 experts and 12 layers, 12.5 billion parameters, over 128 devices.
LARGE = {"moe_12b": functools.partial(moe, layers=6, experts=128, width=1024, hidden=8192, groups=128,
                                      tokens=1024, attention=True)}

PROGRAMS = {
    "mlp": functools.partial(mlp, True),
    "mlp_undonated": functools.partial(mlp, False),
    "mlp_adam": functools.partial(mlp, True, adam),
    "transformer_scanned": functools.partial(transformer, True, False),
    "transformer_scanned_remat": functools.partial(transformer, True, True),
    "transformer_unrolled": functools.partial(transformer, False, False),
    "transformer_unrolled_remat": functools.partial(transformer, False, True),
    "transformer_scanned_adam": functools.partial(transformer, True, True, adam),
    "transformer_unrolled_adam": functools.partial(transformer, False, False, adam),
    "moe": moe,
    "conv_batch": functools.partial(conv, False),
    "conv_space": functools.partial(conv, True),
}
