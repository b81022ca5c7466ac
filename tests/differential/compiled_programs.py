"""Small JAX programs of many kinds on eight devices, for compiled_test.py: each a function, its arguments and their
shardings."""
import os

import jax
import jax.numpy as jnp
from jax.sharding import AxisType, NamedSharding
from jax.sharding import PartitionSpec as P


def mesh():
    return jax.make_mesh((4, 2), ("data", "model"), axis_types=(AxisType.Auto,) * 2)


def floats(*dims):
    return jax.ShapeDtypeStruct(dims, jnp.float32)


def attention_loss(params, x):
    def layer(x, weights):
        qkv, out, wi, wo = weights
        q, k, v = jnp.split(x @ qkv, 3, axis=-1)
        scores = jax.nn.softmax(jnp.einsum("bqd,bkd->bqk", q, k) / 4.0)
        x = x + jnp.einsum("bqk,bkd->bqd", scores, v) @ out
        return x + jax.nn.gelu(x @ wi) @ wo, None
    x, _ = jax.lax.scan(jax.checkpoint(layer), x, params)
    return jnp.mean(x ** 2)


def gpt(params, x):
    loss, grads = jax.value_and_grad(attention_loss)(params, x)
    return loss, jax.tree.map(lambda p, g: p - 0.1 * g, params, grads)


def mlp(x, w):
    return jnp.tanh(x @ w).sum(0), x * 2


def data_parallel(x):
    return jnp.sin(x) * 2 + 1


def convolution(x, kernel, scale):
    y = jax.lax.conv_general_dilated(x, kernel, (1, 1), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC"))
    mean, var = y.mean((0, 1, 2)), y.var((0, 1, 2))
    return jax.nn.relu((y - mean) / jnp.sqrt(var + 1e-5) * scale)


def fft(x):
    return jnp.abs(jnp.fft.rfft(x, axis=1))


def sort_and_top_k(x):
    values, indices = jax.lax.top_k(x, 4)
    return jnp.sort(x, axis=1), values, indices


def uneven(x, w):
    return x @ w


def ragged(x, w, sizes):
    return jax.lax.ragged_dot(x, w, sizes)


def moe(params, x):
    """A dropless mixture of experts, one step: tokens are sorted by their expert, each group meets its expert's weights."""
    def loss(params):
        gate, wi, wo = params
        experts = gate.shape[1]
        weights, choice = jax.lax.top_k(jax.nn.softmax(x @ gate), 2)
        chosen = choice.reshape(-1)
        order = jnp.argsort(chosen, stable=True)
        sizes = jnp.sum(chosen[:, None] == jnp.arange(experts), axis=0, dtype=jnp.int32)
        rows = order // 2
        tokens = x[rows]
        hidden = jax.nn.relu(jax.lax.ragged_dot(tokens, wi, sizes))
        out = jax.lax.ragged_dot(hidden, wo, sizes)
        share = weights.reshape(-1)[order]
        return jnp.mean(x.at[rows].add(out * share[:, None]) ** 2)

    value, gradients = jax.value_and_grad(loss)(params)
    return value, jax.tree.map(lambda p, g: p - 0.1 * g, params, gradients)


def shared_zeros(x, w):
    """Zeros that XLA's export makes one array, though rows of x and columns of w are cut."""
    return jnp.where(x > 1, x, 0.0) @ w, jnp.where(w > 1, w, 0.0)


def loop_with_zeros(x, w):
    def body(carry, k):
        return jnp.where(carry > 0, carry, 0.0) @ w, jnp.maximum(w, 0.0).sum() + k
    return jax.lax.scan(body, x, jnp.arange(4.0))


def adam(x, w):
    """The first step, moments of zero: they are one array with the zeros of both relus."""
    gradient = jax.grad(lambda w: jnp.mean(jax.nn.relu(x @ jax.nn.relu(w)) ** 2))(w)
    m = 0.9 * jnp.zeros((64, 64)) + 0.1 * gradient
    v = 0.99 * jnp.zeros((64, 64)) + 0.01 * gradient * gradient
    return w - m / (jnp.sqrt(v) + 1e-8), jnp.zeros((64, 64)) + x


def scan_of_pairs(a, b):
    def combine(p, q):
        return p[0] * q[0], q[0] * p[1] + q[1]
    return jax.lax.associative_scan(combine, (a, b))[1]


def blockwise_attention(q, k, v):
    """Softmax over blocks of keys: its gradient's loops pass on what they only read, and begin many sums with zeros."""
    def step(carry, block):
        out, top, total = carry
        scores = q @ block[0].swapaxes(-1, -2)
        new_top = jnp.maximum(top, scores.max(-1))
        p, shrink = jnp.exp(scores - new_top[..., None]), jnp.exp(top - new_top)
        return (out * shrink[..., None] + p @ block[1], new_top, total * shrink + p.sum(-1)), None
    init = (jnp.zeros_like(q), jnp.full(q.shape[:-1], -1e9), jnp.zeros(q.shape[:-1]))
    (out, _, total), _ = jax.lax.scan(step, init, (k, v))
    return out / total[..., None]


def blockwise_gradient(q, k, v):
    return jax.grad(lambda *a: (blockwise_attention(*a) ** 2).sum(), argnums=(0, 1, 2))(q, k, v)


def dispatch(experts, gate, x):
    """GShard's einsums over one-hot masks, made of identities and constants."""
    wi, wo = experts
    split = NamedSharding(mesh(), P("data"))
    constrain = jax.lax.with_sharding_constraint
    scores = jax.nn.softmax(jnp.einsum("gsm,me->gse", x, gate))
    mask = jax.nn.one_hot(jnp.argmax(scores, -1), 4)
    position = jnp.cumsum(mask, 1) * mask
    sent = (mask * (position <= 4))[..., None] * jax.nn.one_hot((position - 1).astype(int), 4)
    inputs = constrain(jnp.einsum("gsec,gsm->egcm", sent, x), split)
    hidden = constrain(jax.nn.relu(jnp.einsum("egcm,emh->egch", inputs, wi)), split)
    outputs = constrain(jnp.einsum("egch,ehm->egcm", hidden, wo), split)
    return constrain(jnp.einsum("gsec,egcm->gsm", sent * scores[..., None], outputs), split)


def dispatch_gradient(experts, gate, x):
    return jax.value_and_grad(lambda e: (dispatch(e, gate, x) ** 2).mean())(experts)


def contrastive(w, a, b):
    """A loss over the diagonal: jnp.diag's gradient branches on what is known."""
    def loss(w):
        left, right = (y / jnp.linalg.norm(y, axis=-1, keepdims=True) for y in (a @ w, b @ w))
        logits = left @ right.T * 10
        return -(jnp.diag(jax.nn.log_softmax(logits, 0)) + jnp.diag(jax.nn.log_softmax(logits, 1))).mean()
    return jax.grad(loss)(w)


def uneven_result(table, rows, updates):
    """The only result is a constraint, with uneven tiles."""
    data = NamedSharding(mesh(), P("data"))
    constrain = jax.lax.with_sharding_constraint
    return constrain(constrain(table, data).at[rows].add(updates), data)


def manual(x):
    def body(x):
        return jax.lax.psum(x * jax.lax.axis_index("data"), "data")
    return jax.shard_map(body, mesh=mesh(), in_specs=P("data", None), out_specs=P(None, None))(x)


def scatter(x, indices, updates):
    return x.at[indices].add(updates)


WEIGHTS = (floats(2, 16, 48), floats(2, 16, 16), floats(2, 16, 64), floats(2, 64, 16))
WEIGHT_SPECS = (P(None, None, "model"), P(None, "model", None), P(None, None, "model"), P(None, "model", None))
SQUARES = ((floats(64, 64), floats(64, 64)), (P("data"), P(None, "model")))
# name: function, arguments, their shardings
PROGRAMS = {
    "gpt": (gpt, (WEIGHTS, floats(8, 8, 16)), (WEIGHT_SPECS, P("data"))),
    "mlp": (mlp, (floats(16, 32), floats(32, 64)), (P("data"), P(None, "model"))),
    "data_parallel": (data_parallel, (floats(16, 32),), (P("data"),)),
    "convolution": (convolution, (floats(8, 8, 8, 4), floats(3, 3, 4, 8), floats(8)), (P("data"), P(), P())),
    "fft": (fft, (floats(8, 32),), (P("data"),)),
    "sort_and_top_k": (sort_and_top_k, (floats(8, 32),), (P("data"),)),
    "uneven": (uneven, (floats(16, 6), floats(6, 10)), (P("data"), P(None, "model"))),
    "ragged": (ragged, (floats(16, 8), floats(4, 8, 16), jax.ShapeDtypeStruct((4,), jnp.int32)),
               (P(), P(None, None, "model"), P())),
    "moe": (moe, ((floats(16, 4), floats(4, 16, 32), floats(4, 32, 16)), floats(32, 16)),
            ((P(), P(None, None, "model"), P(None, "model", None)), P("data"))),
    "shared_zeros": (shared_zeros, *SQUARES),
    "loop_with_zeros": (loop_with_zeros, *SQUARES),
    "adam": (adam, *SQUARES),
    "scan_of_pairs": (scan_of_pairs, (floats(16, 8), floats(16, 8)), (P("data", "model"), P("data", "model"))),
    "blockwise_gradient": (blockwise_gradient, (floats(4, 8, 8), floats(3, 4, 8, 8), floats(3, 4, 8, 8)),
                           (P("data"), P(None, "data"), P(None, "data", None, "model"))),
    "dispatch_gradient": (dispatch_gradient, ((floats(4, 8, 16), floats(4, 16, 8)), floats(8, 4), floats(8, 8, 8)),
                          ((P("data", None, "model"), P("data", "model")), P(), P("data"))),
    "contrastive": (contrastive, (floats(8, 8), floats(16, 8), floats(16, 8)), (P(None, "model"), P("data"), P("data"))),
    "uneven_result": (uneven_result, (floats(11, 6), jax.ShapeDtypeStruct((5,), jnp.int32), floats(5, 6)),
                      (P(), P(), P())),
    "manual": (manual, (floats(8, 16),), (P("data"),)),
    "scatter": (scatter, (floats(16, 8), jax.ShapeDtypeStruct((4,), jnp.int32), floats(4, 8)),
                (P(None, "model"), P(), P(None, "model"))),
}


def dump(name, folder):
    """Writes the two prints; XLA_FLAGS says where XLA dumps the rest."""
    function, arguments, specs = PROGRAMS[name]
    grid = mesh()
    shardings = jax.tree.map(lambda spec: NamedSharding(grid, spec), specs, is_leaf=lambda s: isinstance(s, P))
    def program(*inputs):
        return function(*inputs)
    lowered = jax.jit(program, in_shardings=shardings).lower(*arguments)
    with open(os.path.join(folder, "default.mlir"), "w") as file:
        file.write(lowered.as_text())
    with open(os.path.join(folder, "text.hlo"), "w") as file:
        file.write(lowered.as_text("hlo"))
    lowered.compile()
