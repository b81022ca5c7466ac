"""Losses in JAX whose gradients `gshard-opt grad` is compared with: (name, function, arguments).

Every floating argument is differentiated. Arguments are small: what counts is the form of the program.
"""
import functools

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

LOSSES = []


def array(seed, *dims, low=-1.0, high=1.0):
    rng = np.random.default_rng(seed)
    return rng.uniform(low, high, dims).astype(np.float32)


def positive(seed, *dims):
    return array(seed, *dims, low=0.4, high=1.6)


def integers(seed, limit, *dims):
    return np.random.default_rng(seed).integers(0, limit, dims).astype(np.int32)


def well_conditioned(seed, *dims):
    return array(seed, *dims) + 3 * np.eye(dims[-2], dims[-1], dtype=np.float32)


def loss(*arguments, heavy=False):
    """Registers a function; `heavy`: made of dots or convolutions, so that its work is compared one by one."""
    def register(function):
        LOSSES.append((function.__name__, function, arguments, heavy))
        return function
    return register


def weighted(y):
    """A sum in which every element counts differently."""
    weights = jnp.cos(jnp.arange(y.size, dtype=jnp.float32)).reshape(y.shape) + 1.5
    return jnp.sum(y * weights)


# --- elementwise, one a function
UNARY = {
    "exp": jnp.exp, "log": jnp.log, "sqrt": jnp.sqrt, "rsqrt": lax.rsqrt, "cbrt": lax.cbrt, "sin": jnp.sin,
    "cos": jnp.cos, "tan": jnp.tan, "tanh": jnp.tanh, "logistic": jax.nn.sigmoid, "expm1": jnp.expm1,
    "log1p": jnp.log1p, "abs": jnp.abs, "erf": lax.erf, "asinh": jnp.arcsinh, "sinh": jnp.sinh, "cosh": jnp.cosh,
    "gelu": jax.nn.gelu, "silu": jax.nn.silu, "softplus": jax.nn.softplus, "square": jnp.square, "pow2_5": lambda x: x ** 2.5,
    "erf_inv": lambda x: lax.erf_inv(x * 0.5), "lgamma": lax.lgamma, "digamma": lax.digamma,
}
for _name, _function in UNARY.items():
    LOSSES.append((f"unary_{_name}", functools.partial(lambda f, x: weighted(f(x)), _function), (positive(1, 4, 5),), False))
for _name, _function in {"asin": jnp.arcsin, "acos": jnp.arccos, "atanh": jnp.arctanh, "atan": jnp.arctan}.items():
    LOSSES.append((f"unary_{_name}", functools.partial(lambda f, x: weighted(f(x * 0.8)), _function), (array(1, 4, 5),), False))
BINARY = {
    "atan2": jnp.arctan2, "maximum": jnp.maximum, "minimum": jnp.minimum, "power": jnp.power, "divide": jnp.divide,
    "remainder": lambda x, y: lax.rem(5 * x, y), "logaddexp": jnp.logaddexp, "hypot": jnp.hypot,
}
for _name, _function in BINARY.items():
    LOSSES.append((f"binary_{_name}", functools.partial(lambda f, x, y: weighted(f(x, y)), _function),
                   (positive(1, 4, 5), positive(2, 4, 5)), False))


@loss(np.array([1.0, 2.0, 2.0, -1.0], np.float32), np.array([1.0, 1.0, 3.0, -1.0], np.float32))
def ties(x, y):
    return weighted(jnp.maximum(x, y)) + jnp.max(x) + jnp.min(y) + weighted(jnp.clip(x, -1.0, 1.5))


# --- dots
@loss(array(1, 8, 6), array(2, 6, 4), heavy=True)
def matmul(x, w):
    return weighted(jnp.tanh(x @ w))


@loss(array(1, 3, 5, 6), array(2, 3, 6, 4), heavy=True)
def batched_matmul(x, w):
    return weighted(jnp.tanh(jnp.einsum("bij,bjk->bik", x, w)))


@loss(array(1, 2, 3, 5, 4), array(2, 5, 2, 4, 6), heavy=True)
def einsum_permuted(x, w):
    return weighted(jnp.sin(jnp.einsum("abcd,cadf->fbac", x, w)))


@loss(array(1, 4, 6), array(2, 6, 4), heavy=True)
def two_contracted(x, w):
    return jnp.tanh(jnp.einsum("ij,ji->", x, w))


@loss(array(1, 16, 8), array(2, 8, 32), array(3, 32), array(4, 32, 4), integers(5, 4, 16), heavy=True)
def mlp_cross_entropy(x, w1, b1, w2, labels):
    logits = jax.nn.relu(x @ w1 + b1) @ w2
    return -jnp.mean(jnp.take_along_axis(jax.nn.log_softmax(logits), labels[:, None], 1))


@loss(array(1, 16, 8).astype(jnp.bfloat16), array(2, 8, 12), heavy=True)
def mixed_precision(x, w):
    y = jnp.dot(x, w.astype(jnp.bfloat16), preferred_element_type=jnp.float32)
    return jnp.sum(jnp.tanh(y))


def attention(q, k, v, mask=None):
    scores = jnp.einsum("bqhd,bkhd->bhqk", q, k) / np.sqrt(q.shape[-1]).astype(np.float32)
    if mask is not None:
        scores = jnp.where(mask, scores, -1e9)
    return jnp.einsum("bhqk,bkhd->bqhd", jax.nn.softmax(scores), v)


def layer_norm(x, scale, bias):
    mean = jnp.mean(x, -1, keepdims=True)
    variance = jnp.var(x, -1, keepdims=True)
    return (x - mean) * lax.rsqrt(variance + 1e-5) * scale + bias


@loss(array(1, 2, 6, 16), array(2, 16, 3, 4, 4), array(3, 4, 4, 16), positive(4, 16), array(5, 16), array(6, 16, 32),
      array(7, 32, 16), heavy=True)
def transformer_block(x, qkv, out, scale, bias, wi, wo):
    h = layer_norm(x, scale, bias)
    q, k, v = jnp.einsum("bld,dthk->tblhk", h, qkv)
    mask = jnp.tril(jnp.ones((6, 6), bool))
    x = x + jnp.einsum("blhk,hkd->bld", attention(q, k, v, mask), out)
    x = x + jax.nn.gelu(layer_norm(x, scale, bias) @ wi) @ wo
    return jnp.mean(jnp.square(x))


@loss(array(1, 2, 5, 8), array(2, 3, 8, 8), array(3, 3, 8), heavy=True)
def scanned_layers(x, ws, bs):
    def layer(x, wb):
        w, b = wb
        return jnp.tanh(x @ w + b), jnp.sum(x)
    x, sums = lax.scan(layer, x, (ws, bs))
    return weighted(x) + weighted(sums)


@loss(array(1, 2, 5, 8), array(2, 3, 8, 8), array(3, 3, 8), heavy=True)
def scanned_layers_remat(x, ws, bs):
    @jax.checkpoint
    def layer(x, wb):
        w, b = wb
        return jnp.tanh(x @ w + b), None
    return weighted(lax.scan(layer, x, (ws, bs))[0])


@loss(array(1, 4, 3), array(2, 7, 4, 5), array(3, 8, 12), array(4, 12), heavy=True)
def lstm(h0, xs, w, b):
    def cell(carry, x):
        h, c = carry
        gates = jnp.concatenate([h, x], -1) @ w + b
        i, f, g, o = jnp.split(gates, 4, -1)
        c = jax.nn.sigmoid(f) * c + jax.nn.sigmoid(i) * jnp.tanh(g)
        h = jax.nn.sigmoid(o) * jnp.tanh(c)
        return (h, c), h
    (h, c), ys = lax.scan(cell, (h0, jnp.zeros_like(h0)), xs, reverse=True)
    return weighted(ys) + weighted(c)


@loss(array(1, 6, 4), array(2, 4, 4), heavy=True)
def fori_loop_invariant(x, w):
    return weighted(lax.fori_loop(0, 5, lambda i, y: jnp.tanh(y @ w) * (1.0 + 0.1 * i), x))


@loss(array(1, 6, 4), array(2, 3, 4, 4), heavy=True)
def nested_scans(x, ws):
    def outer(x, w):
        def inner(y, k):
            return jnp.sin(y @ w) + k, jnp.sum(y)
        y, s = lax.scan(inner, x, jnp.arange(2.0))
        return y, s
    y, s = lax.scan(outer, x, ws)
    return weighted(y) + weighted(s)


# --- convolutions
def convolution(x, w, strides=(1, 1), padding="SAME", lhs_dilation=None, rhs_dilation=None, groups=1, batch_groups=1,
                layout=("NHWC", "HWIO", "NHWC")):
    return lax.conv_general_dilated(x, w, strides, padding, lhs_dilation, rhs_dilation, layout, groups, batch_groups)


CONVOLUTIONS = {
    "same": ((2, 8, 8, 3), (3, 3, 3, 4), {}),
    "strided": ((2, 9, 8, 3), (3, 3, 3, 4), {"strides": (2, 3)}),
    "valid": ((2, 8, 8, 3), (3, 2, 3, 4), {"padding": "VALID"}),
    "padded": ((2, 5, 6, 3), (3, 3, 3, 4), {"padding": ((2, 1), (0, 3))}),
    "cropped": ((2, 7, 7, 3), (3, 3, 3, 4), {"padding": ((-1, 2), (1, -2))}),
    "transposed": ((2, 5, 5, 3), (3, 3, 3, 4), {"lhs_dilation": (2, 2), "padding": ((2, 2), (1, 2))}),
    "dilated": ((2, 9, 9, 3), (3, 3, 3, 4), {"rhs_dilation": (2, 3), "padding": "SAME"}),
    "all_windows": ((2, 9, 8, 3), (3, 2, 3, 4), {"strides": (2, 1), "lhs_dilation": (2, 3), "rhs_dilation": (2, 1),
                                                 "padding": ((1, 0), (2, 1))}),
    "grouped": ((2, 6, 6, 6), (3, 3, 2, 9), {"groups": 3}),
    "depthwise": ((2, 6, 6, 4), (3, 3, 1, 8), {"groups": 4, "strides": (2, 2)}),
    "batch_grouped": ((6, 5, 5, 3), (3, 3, 3, 6), {"batch_groups": 3}),
    "channels_first": ((2, 3, 8, 8), (4, 3, 3, 3), {"layout": ("NCHW", "OIHW", "NCHW"), "strides": (2, 2)}),
}
for _name, (_x, _w, _options) in CONVOLUTIONS.items():
    LOSSES.append((f"convolution_{_name}",
                   functools.partial(lambda o, x, w: weighted(jnp.tanh(convolution(x, w, **o))), _options),
                   (array(1, *_x), array(2, *_w)), True))


@loss(array(1, 2, 8, 8, 3), array(2, 3, 3, 3, 8), array(3, 3, 3, 8, 8), positive(4, 8), array(5, 8), array(6, 8, 5),
      integers(7, 5, 2), heavy=True)
def small_resnet(x, w1, w2, scale, bias, head, labels):
    x = convolution(x, w1, (2, 2))
    mean, variance = jnp.mean(x, (0, 1, 2)), jnp.var(x, (0, 1, 2))
    y = jax.nn.relu((x - mean) * lax.rsqrt(variance + 1e-5) * scale + bias)
    x = x + convolution(y, w2)
    x = lax.reduce_window(x, -jnp.inf, lax.max, (1, 2, 2, 1), (1, 2, 2, 1), "SAME")
    logits = jnp.mean(x, (1, 2)) @ head
    return -jnp.mean(jnp.take_along_axis(jax.nn.log_softmax(logits), labels[:, None], 1))


# --- reductions and windows
for _name, _function in {
        "sum": jnp.sum, "prod": jnp.prod, "max": jnp.max, "min": jnp.min, "mean": jnp.mean, "var": jnp.var,
        "logsumexp": jax.nn.logsumexp, "cumsum": jnp.cumsum, "cumprod": jnp.cumprod, "median": jnp.median,
        "norm": jnp.linalg.norm}.items():
    LOSSES.append((f"reduce_{_name}", functools.partial(lambda f, x: weighted(f(x, axis=1)), _function),
                   (positive(3, 4, 5, 3) if _name != "norm" else positive(3, 4, 5),), False))
for _name, _function in {"cummax": lax.cummax, "cummin": lax.cummin, "cumlogsumexp": lax.cumlogsumexp}.items():
    LOSSES.append((f"reduce_{_name}", functools.partial(lambda f, x: weighted(f(x, axis=1)), _function), (array(3, 4, 5, 3),), False))


@loss(np.array([[1.0, 0.0, 2.0, 3.0], [0.0, 0.0, 2.0, 1.0]], np.float32))
def product_with_zeros(x):
    return weighted(jnp.prod(x, axis=1))


@loss(array(1, 2, 8, 8, 3))
def average_pool(x):
    return weighted(jnp.sin(lax.reduce_window(x, 0.0, lax.add, (1, 3, 2, 1), (1, 2, 2, 1), "SAME")))


@loss(array(1, 2, 8, 8, 3))
def max_pool(x):
    return weighted(lax.reduce_window(x, -jnp.inf, lax.max, (1, 3, 3, 1), (1, 2, 2, 1), "SAME"))


@loss(array(1, 4, 6))
def arg_max_value(x):
    value = jnp.max(x, axis=1)
    index = jnp.argmax(x, axis=1)
    return weighted(value * index)


# --- indexing
@loss(array(1, 10, 4), integers(2, 10, 3, 5))
def embedding(table, tokens):
    return weighted(jnp.tanh(table[tokens]))


@loss(array(1, 6, 7), integers(2, 6, 5), integers(3, 7, 5))
def gather_points(x, i, j):
    return weighted(jnp.sin(x[i, j]))


@loss(array(1, 6, 7), array(2, 4, 7), integers(3, 6, 4))
def scatter_add(x, u, i):
    return weighted(jnp.sin(x.at[i].add(u)))


@loss(array(1, 6, 7), array(2, 4, 7), np.array([3, 1, 5, 0], np.int32))
def scatter_set(x, u, i):
    return weighted(jnp.sin(x.at[i].set(u)))


@loss(array(1, 6, 7), array(2, 4, 7), np.array([3, 1, 5, 0], np.int32))
def scatter_mul(x, u, i):
    return weighted(jnp.sin(x.at[i].multiply(u, unique_indices=True)))


@loss(array(1, 6, 7), integers(2, 7, 6, 3))
def take_along(x, i):
    return weighted(jnp.take_along_axis(x, i, axis=1) ** 2)


@loss(array(1, 6, 7), np.int32(2))
def dynamic_slice(x, i):
    y = lax.dynamic_slice(x, (i, 3), (3, 2))
    return weighted(y * y) + weighted(lax.dynamic_update_slice(x, y * 2, (0, i)))


@loss(array(1, 6, 8))
def slices(x):
    a, b = jnp.split(x, 2, axis=1)
    return weighted(jnp.concatenate([b * b, a[::-1, ::2]], axis=1)) + weighted(x[1:5:2, ::3] ** 3)


@loss(array(1, 6, 8), np.float32(0.5))
def pads(x, v):
    return weighted(lax.pad(x, v, ((1, -2, 1), (-1, 3, 0))) ** 2)


@loss(array(1, 5, 9))
def sort_values(x):
    return weighted(jnp.sort(x, axis=1))


@loss(array(1, 5, 9), array(2, 5, 9))
def sort_pairs(x, y):
    keys, values = lax.sort((x, y), dimension=1, num_keys=1)
    return weighted(keys) + weighted(jnp.sin(values))


@loss(array(1, 5, 9))
def top_k(x):
    values, indices = lax.top_k(x, 3)
    return weighted(values * (1 + indices))


@loss(array(1, 4, 8, 6), array(2, 6, 4), array(3, 4, 6, 5), heavy=True)
def moe_dispatch(x, gate, experts):
    probabilities = jax.nn.softmax(x @ gate)
    best, index = lax.top_k(probabilities, 2)
    mask = jax.nn.one_hot(index, 4) * best[..., None]
    combine = jnp.sum(mask, axis=-2)
    outputs = jnp.einsum("bsd,edf->bsef", x, experts)
    return weighted(jnp.einsum("bse,bsef->bsf", combine, outputs))


@loss(array(1, 3, 4, 5))
def movement(x):
    y = jnp.transpose(x, (2, 0, 1)).reshape(5, 12)
    return weighted(jnp.broadcast_to(y[:, None], (5, 2, 12)) * jnp.flip(y)[:, None] + jnp.roll(y, 2, 1)[:, None])


# --- control flow
@loss(array(1, 4, 5), array(2, 4, 5))
def conditional(x, y):
    z = lax.cond(jnp.sum(x) > 0, lambda a, b: jnp.sin(a) * b, lambda a, b: a - jnp.exp(b), x, y)
    return weighted(z)


@loss(array(1, 4, 5), array(2, 4, 5), np.int32(1))
def switch(x, y, i):
    return weighted(lax.switch(i, [lambda a, b: a * b, lambda a, b: jnp.tanh(a @ b.T) @ b, lambda a, b: a], x, y))


@loss(array(1, 8))
def cond_in_scan(x):
    def step(c, v):
        return lax.cond(v > 0, lambda a: a * v, lambda a: jnp.sin(a) + v, c), c
    c, ys = lax.scan(step, jnp.float32(0.7), x)
    return c + weighted(ys)


@loss(array(1, 12), array(2, 12))
def associative(a, b):
    def combine(left, right):
        return left[0] * right[0], left[1] * right[0] + right[1]
    return weighted(lax.associative_scan(combine, (a, b))[1])


@loss(array(1, 4, 5))
def stopped(x):
    return weighted(jnp.sign(x) * x + jnp.floor(x * 3) * x)


# --- linear algebra and complex numbers
@loss(well_conditioned(1, 4, 4))
def cholesky(a):
    return weighted(jnp.linalg.cholesky(a @ a.T))


@loss(well_conditioned(1, 2, 4, 4), array(2, 2, 4, 3))
def triangular_solve(a, b):
    x = lax.linalg.triangular_solve(a, b, left_side=True, lower=True)
    y = lax.linalg.triangular_solve(a, jnp.swapaxes(b, 1, 2), left_side=False, lower=False, transpose_a=True)
    return weighted(x) + weighted(y)


@loss(well_conditioned(1, 4, 4), array(2, 4, 3))
def solve(a, b):
    return weighted(jnp.linalg.solve(a, b))


@loss(well_conditioned(1, 4, 4))
def determinant(a):
    return jnp.linalg.slogdet(a)[1] + weighted(jnp.linalg.inv(a))


@loss(well_conditioned(1, 6, 4))
def qr(a):
    q, r = jnp.linalg.qr(a)
    return weighted(jnp.sin(q)) + weighted(r)


@loss(well_conditioned(1, 5, 5))
def eigh(a):
    w, v = jnp.linalg.eigh(a + a.T)
    return weighted(w) + weighted(jnp.abs(v))


@loss(well_conditioned(1, 5, 3))
def svd(a):
    u, s, vt = jnp.linalg.svd(a, full_matrices=False)
    return weighted(s) + weighted(u @ jnp.diag(s * s) @ vt)


@loss(array(1, 4, 8))
def fft_power(x):
    return weighted(jnp.abs(jnp.fft.fft(x)) ** 2) + weighted(jnp.fft.irfft(jnp.fft.rfft(x) * 2j))


@loss(array(1, 4, 6), array(2, 4, 6))
def complex_arithmetic(x, y):
    z = lax.complex(x, y)
    w = jnp.exp(z) * z / (z + 2.0) + jnp.conj(z) ** 2
    return weighted(jnp.real(w)) + weighted(jnp.imag(w)) + weighted(jnp.abs(z))


@loss(array(1, 3, 4), array(2, 4, 3))
def complex_dot(x, y):
    z = jnp.dot(lax.complex(x, x * 2), lax.complex(y, y - 1))
    return weighted(jnp.real(z * jnp.conj(z)))
