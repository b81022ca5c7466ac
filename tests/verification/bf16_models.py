"""25 training steps in bf16 for 8 devices, as JAX prints them and as XLA compiles them.

  XLA_FLAGS=--xla_force_host_platform_device_count=8 tests/verification/bf16_models.py DIR [--compiled] [--only NAME]

writes DIR/NAME.mlir, with --compiled also DIR/NAME.compiled.txt. Decoders, encoders, mixtures of experts (dispatched by einsum
and by ragged products), convolutions, state-space scans; each with AdamW, whose states are f32 or bf16, and in another layout of
data, tensor or fully sharded parallel devices. Every other pair is the first step of a training, whose states are zero: its results
are gradients, which no states hide.
"""
import argparse
import os

os.environ.setdefault("XLA_FLAGS", "--xla_force_host_platform_device_count=8")
os.environ.setdefault("JAX_PLATFORMS", "cpu")

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.sharding import Mesh, NamedSharding, PartitionSpec as P

BF16, F32 = jnp.bfloat16, jnp.float32
BATCH, LENGTH, WIDTH, VOCAB, HEADS, EXPERTS = 8, 32, 32, 64, 4, 4


def normalized(x, scale, bias=None):
    """Layer norm in f32, or RMS norm where there is no bias."""
    y = x.astype(F32)
    if bias is not None:
        y = y - y.mean(-1, keepdims=True)
    y = y * lax.rsqrt((y * y).mean(-1, keepdims=True) + 1e-5)
    return (y.astype(BF16) * scale) + (0 if bias is None else bias)


def attention(x, p, causal):
    def heads(name):
        return (x @ p[name] + p.get("b" + name, 0)).reshape(BATCH, LENGTH, HEADS, -1)
    q, k, v = heads("q"), heads("k"), heads("v")
    scores = jnp.einsum("bqhd,bkhd->bhqk", q, k).astype(F32) / (WIDTH // HEADS) ** 0.5
    if causal:
        scores = jnp.where(jnp.tril(jnp.ones((LENGTH, LENGTH), bool)), scores, -1e9)
    weights = jax.nn.softmax(scores, -1).astype(BF16)
    return jnp.einsum("bhqk,bkhd->bqhd", weights, v).reshape(x.shape) @ p["o"]


def cross_entropy(logits, labels):
    logs = jax.nn.log_softmax(logits.astype(F32), -1)
    return -jnp.take_along_axis(logs, labels[..., None], -1).mean()


ATTENTION = {name: (WIDTH, WIDTH) for name in "qkvo"}
MLP = {"up": (WIDTH, 4 * WIDTH), "down": (4 * WIDTH, WIDTH)}
TOKENS = {"tokens": (BATCH, LENGTH), "labels": (BATCH, LENGTH)}


def language_model(layer_shapes, layer, tied):
    shapes = {"table": (VOCAB, WIDTH), "norm": (WIDTH,), "layers": [layer_shapes] * 2}
    if not tied:
        shapes["head"] = (WIDTH, VOCAB)

    def loss(p, batch):
        x = p["table"][batch["tokens"]]
        for weights in p["layers"]:
            x = layer(x, weights)
        x = normalized(x, p["norm"])
        return cross_entropy(x @ (p["table"].T if tied else p["head"]), batch["labels"])

    return shapes, TOKENS, loss


def decoder(tied):
    def layer(x, p):
        x = x + attention(normalized(x, p["n1"]), p, True)
        y = normalized(x, p["n2"])
        return x + (jax.nn.silu(y @ p["gate"]) * (y @ p["up"])) @ p["down"]
    return language_model({**ATTENTION, **MLP, "gate": (WIDTH, 4 * WIDTH), "n1": (WIDTH,), "n2": (WIDTH,)}, layer, tied)


def encoder(tied):
    def layer(x, p):
        x = normalized(x + attention(x, p, False), p["n1"], p["c1"])
        return normalized(x + jax.nn.gelu(x @ p["up"] + p["bup"]) @ p["down"], p["n2"], p["c2"])
    biases = {name: (WIDTH,) for name in ("bq", "bk", "bv", "n1", "c1", "n2", "c2")}
    return language_model({**ATTENTION, **MLP, **biases, "bup": (4 * WIDTH,)}, layer, tied)


EXPERT = {"up": (EXPERTS, WIDTH, 2 * WIDTH), "down": (EXPERTS, 2 * WIDTH, WIDTH), "router": (WIDTH, EXPERTS), "n1": (WIDTH,)}


def moe_einsum(tied):
    def layer(x, p):
        y = normalized(x, p["n1"])
        gates = jax.nn.softmax((y @ p["router"]).astype(F32), -1)
        best, index = lax.top_k(gates, 2)
        hot = jax.nn.one_hot(index, EXPERTS, dtype=F32)  # batch, token, choice, expert
        place = (jnp.cumsum(hot.reshape(BATCH, -1, EXPERTS), 1) - 1).reshape(hot.shape)
        slots = jax.nn.one_hot(place.astype(jnp.int32), LENGTH, dtype=F32) * hot[..., None]
        dispatch = slots.sum(2).astype(BF16)
        combine = (slots * best[..., None, None]).sum(2).astype(BF16)
        tokens = jnp.einsum("btec,btd->ebcd", dispatch, y)
        hidden = jax.nn.gelu(jnp.einsum("ebcd,edf->ebcf", tokens, p["up"]))
        return x + jnp.einsum("btec,ebcd->btd", combine, jnp.einsum("ebcf,efd->ebcd", hidden, p["down"]))
    return language_model(EXPERT, layer, tied)


def moe_ragged(tied):
    def layer(x, p):
        y = normalized(x, p["n1"]).reshape(-1, WIDTH)
        gates = jax.nn.softmax((y @ p["router"]).astype(F32), -1)
        best, index = gates.max(-1), gates.argmax(-1)
        order = jnp.argsort(index)
        sizes = jnp.bincount(index, length=EXPERTS)
        hidden = jax.nn.gelu(lax.ragged_dot(y[order], p["up"], sizes))
        out = jnp.zeros_like(y).at[order].set(lax.ragged_dot(hidden, p["down"], sizes))
        return x + (out * best[:, None].astype(BF16)).reshape(x.shape)
    return language_model(EXPERT, layer, tied)


def convolution(pooled):
    shapes = {"stem": (3, 3, 4, 16), "c1": (3, 3, 16, 32), "c2": (3, 3, 32, 32), "s0": (16,), "s1": (32,), "s2": (32,), "head": (32, 8)}

    def block(x, kernel, scale, stride):
        x = lax.conv_general_dilated(x, kernel, (stride, stride), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC"))
        y = x.astype(F32)
        mean = y.mean((0, 1, 2))
        y = (y - mean) * lax.rsqrt(((y - mean) ** 2).mean((0, 1, 2)) + 1e-5)
        return jax.nn.relu(y.astype(BF16) * scale)

    def loss(p, batch):
        x = block(batch["image"], p["stem"], p["s0"], 1)
        if pooled:
            x = lax.reduce_window(x, -jnp.inf, lax.max, (1, 2, 2, 1), (1, 2, 2, 1), "SAME")
        x = block(x, p["c1"], p["s1"], 2)
        x = x + block(x, p["c2"], p["s2"], 1)
        if pooled:
            x = lax.reduce_window(x, 0.0, lax.add, (1, 2, 2, 1), (1, 1, 1, 1), "SAME")
        return cross_entropy(x.mean((1, 2)) @ p["head"], batch["labels"])

    return shapes, {"image": (BATCH, 16, 16, 4), "labels": (BATCH,)}, loss


def state_space(parallel):
    """h = a h + b x, over time step by step or as a parallel prefix; a running mean beside it."""
    def layer(x, p):
        y = normalized(x, p["n1"])
        a, b = jax.nn.sigmoid(y @ p["a"]), y @ p["b"]
        if parallel:
            _, h = lax.associative_scan(lambda s, t: (s[0] * t[0], s[1] * t[0] + t[1]), (a, b), axis=1)
        else:
            def step(h, ab):
                h = ab[0] * h + ab[1]
                return h, h
            _, h = lax.scan(step, jnp.zeros_like(b[:, 0]), (a.swapaxes(0, 1), b.swapaxes(0, 1)))
            h = h.swapaxes(0, 1)
        return x + (h * jax.nn.silu(y @ p["gate"]) + jnp.cumsum(y, 1) * BF16(0.1)) @ p["out"]
    square = {name: (WIDTH, WIDTH) for name in ("a", "b", "gate", "out")}
    return language_model({**square, "n1": (WIDTH,)}, layer, True)


def adamw(p, m, v, gradient):
    """One step; bf16 states are kept in bf16."""
    g = gradient.astype(F32)
    m_new = 0.9 * m.astype(F32) + 0.1 * g
    v_new = 0.999 * jnp.abs(v.astype(F32)) + 0.001 * g * g
    step = m_new / (jnp.sqrt(v_new) + 1e-8) + 0.01 * p.astype(F32)
    return (p.astype(F32) - 1e-3 * step).astype(p.dtype), m_new.astype(m.dtype), v_new.astype(v.dtype)


def spec_of(shape, placement, sizes):
    """Where an array lies: cut by "data" and "model" as far as they divide its dims."""
    spec = [None] * len(shape)
    if placement in ("tp", "2d", "ep") and len(shape) > 1:
        spec[0 if placement == "ep" and len(shape) == 3 else -1] = "model"
    if placement in ("fsdp", "2d") and len(shape) > 0 and spec[0] is None:
        spec[0] = "data"
    return P(*[axis if axis and size % sizes[axis] == 0 else None for size, axis in zip(shape, spec)])


MODELS = {}
for family, option, layouts in [
        (decoder, True, ["8x1.dp", "4x2.tp", "4x2.2d", "8x1.fsdp"]), (decoder, False, ["2x4.tp", "2x4.2d"]),
        (encoder, True, ["8x1.dp", "4x2.2d"]), (encoder, False, ["2x4.tp", "8x1.fsdp"]),
        (moe_einsum, True, ["2x4.ep", "8x1.dp"]), (moe_einsum, False, ["4x2.ep", "4x2.2d"]),
        (moe_ragged, True, ["8x1.dp", "4x2.tp"]), (moe_ragged, False, ["2x4.2d"]),
        (convolution, True, ["8x1.dp", "4x2.tp"]), (convolution, False, ["8x1.fsdp", "2x4.2d"]),
        (state_space, True, ["8x1.dp", "4x2.tp"]), (state_space, False, ["2x4.2d", "8x1.fsdp"])]:
    for layout in layouts:
        states, is_first = BF16 if len(MODELS) % 2 else F32, len(MODELS) % 4 > 1
        name = f"{family.__name__}.{layout}.{'bf16' if states == BF16 else 'f32'}{'.first' if is_first else ''}"
        MODELS[name] = (family, option, layout, states, is_first)


def lowered(name):
    family, option, layout, states, is_first = MODELS[name]
    counts, placement = layout.split(".")
    sizes = dict(zip(("data", "model"), map(int, counts.split("x"))))
    mesh = Mesh(np.array(jax.devices()).reshape(tuple(sizes.values())), tuple(sizes))
    shapes, inputs, loss = family(option)

    def struct(shape, dtype, spec):
        return jax.ShapeDtypeStruct(shape, dtype, sharding=NamedSharding(mesh, spec))

    def params(dtype):
        return jax.tree.map(lambda shape: struct(shape, dtype, spec_of(shape, placement, sizes)), shapes,
                            is_leaf=lambda x: isinstance(x, tuple))

    batch = {key: struct(shape, BF16 if key == "image" else jnp.int32, P("data")) for key, shape in inputs.items()}

    def step(p, *rest):
        zeros = jax.tree.map(lambda x: jnp.zeros_like(x, states), p)
        m, v, batch = (zeros, zeros, *rest) if is_first else rest
        value, gradient = jax.value_and_grad(loss)(p, batch)
        new = jax.tree.map(adamw, p, m, v, gradient)
        return value, *(jax.tree.map(lambda _, n, k=k: n[k], p, new, is_leaf=lambda x: isinstance(x, tuple)) for k in range(3))

    results = jax.tree.map(lambda x: x.sharding, (params(BF16), params(states), params(states)))
    given = [params(BF16)] + ([] if is_first else [params(states)] * 2) + [batch]
    return jax.jit(step, out_shardings=(None, *results)).lower(*given)


def write(folder, names=(), compiled=False):
    os.makedirs(folder, exist_ok=True)
    for name in names or MODELS:
        program = lowered(name)
        with open(os.path.join(folder, name + ".mlir"), "w") as out:
            out.write(program.as_text())
        if compiled:
            with open(os.path.join(folder, name + ".compiled.txt"), "w") as out:
                out.write(program.compile().as_text())
        yield name


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder")
    parser.add_argument("--compiled", action="store_true")
    parser.add_argument("--only", action="append", default=[])
    options = parser.parse_args()
    for name in write(options.folder, options.only, options.compiled):
        print(name, flush=True)


if __name__ == "__main__":
    main()
