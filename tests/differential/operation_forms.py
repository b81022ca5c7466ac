"""Forms of JAX's operations, one or a few operations each: name -> (function, shapes and types of its arguments).

For output_shardings_test.py and shardy_test.py, which shard the arguments at random over a mesh of 2 x 4 devices.
"""
import os

os.environ.setdefault("XLA_FLAGS", "--xla_force_host_platform_device_count=8")
os.environ.setdefault("JAX_PLATFORMS", "cpu")
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.sharding import AxisType, NamedSharding
from jax.sharding import PartitionSpec as P

MESH = jax.make_mesh((2, 4), ("a", "b"), axis_types=(AxisType.Auto,) * 2)


def array(*shape, dtype=jnp.float32):
    return jax.ShapeDtypeStruct(shape, dtype)


def index(*shape):
    return array(*shape, dtype=jnp.int32)


def random_sharding(shape, rng):
    """Over one or both axes, or none; dims divide."""
    for _ in range(20):
        dims = [()] * len(shape)
        for axis in rng.sample(["a", "b"], rng.choice([0, 1, 1, 2, 2])):
            if shape:
                d = rng.randrange(len(shape))
                dims[d] += (axis,)
        sizes = [2 ** ("a" in d) * 4 ** ("b" in d) for d in dims]
        if all(n % size == 0 for n, size in zip(shape, sizes)):
            return NamedSharding(MESH, P(*[d if d else None for d in dims]))
    return None


def on_mesh(*spec):
    return NamedSharding(MESH, P(*spec))


X, Y, Z, V = array(8, 16), array(16, 32), array(8, 16, 32), array(16)
IMAGES = array(8, 16, 16, 8)
NHWC = ("NHWC", "HWIO", "NHWC")


def convolution(window=(1, 1), padding="SAME", numbers=NHWC, **more):
    return lambda x, k: lax.conv_general_dilated(x, k, window, padding, dimension_numbers=numbers, **more)


def pooled(monoid, start, window, strides, padding):
    return lambda x: lax.reduce_window(x, start, monoid, window, strides, padding)


def gathered(slices, offset=(), collapsed=(), start=(), batch=((), ()), mode="clip"):
    numbers = lax.GatherDimensionNumbers(offset, collapsed, start, operand_batching_dims=batch[0],
                                         start_indices_batching_dims=batch[1])
    return lambda x, i: lax.gather(x, i, numbers, slices, mode=mode)


def scattered(combine, window=(), inserted=(), to=(), batch=((), ()), mode="clip"):
    numbers = lax.ScatterDimensionNumbers(window, inserted, to, operand_batching_dims=batch[0],
                                          scatter_indices_batching_dims=batch[1])
    return lambda x, i, u: combine(x, i, u, numbers, mode=mode)


def layers(x, w, v):
    return lax.scan(lambda c, p: (c + jnp.maximum(c @ p[0], 0.) @ p[1], None), x, (w, v))[0]


def region(function, ins, outs, axes):
    return jax.shard_map(function, mesh=MESH, in_specs=ins, out_specs=outs, axis_names=axes)


FORMS = {
    # --- element by element
    "add": (lambda x, y: x + y, [X, X]),
    "subtract": (lambda x, y: x - y, [Z, Z]),
    "multiply": (lambda x, y: x * y, [X, X]),
    "divide": (lambda x, y: x / y, [X, X]),
    "maximum": (lambda x, y: jnp.maximum(x, y), [X, X]),
    "power": (lax.pow, [X, X]),
    "arc_tangent": (lax.atan2, [X, X]),
    "remainder": (lax.rem, [X, X]),
    "shift": (lax.shift_left, [index(8, 16)] * 2),
    "and_or": (lambda x, y: (x & y) | 3, [index(8, 16)] * 2),
    "exponential": (jnp.exp, [X]),
    "logarithm": (jnp.log, [Z]),
    "tangent": (jnp.tanh, [X]),
    "cosine": (jnp.cos, [array(8, 4, 16)]),
    "root": (lax.rsqrt, [X]),
    "sigmoid": (jax.nn.sigmoid, [X]),
    "sign": (jnp.sign, [X]),
    "absolute": (jnp.abs, [X]),
    "floor": (jnp.floor, [X]),
    "not": (jnp.logical_not, [array(8, 16, dtype=jnp.bool_)]),
    "finite": (jnp.isfinite, [X]),
    "leading_zeros": (lax.clz, [index(8, 16)]),
    "compare": (lambda x, y: x < y, [X, X]),
    "convert": (lambda x: x.astype(jnp.bfloat16), [X]),
    "to_integer": (lambda x: x.astype(jnp.int32), [Z]),
    "bits": (lambda x: lax.bitcast_convert_type(x, jnp.int32), [X]),
    "bytes": (lambda x: lax.bitcast_convert_type(x, jnp.uint8), [X]),
    "words": (lambda x: lax.bitcast_convert_type(x, jnp.int32), [array(8, 16, 4, dtype=jnp.uint8)]),
    "precision": (lambda x: lax.reduce_precision(x, 5, 10), [X]),
    "complex": (lax.complex, [X, X]),
    "real": (jnp.real, [array(8, 16, dtype=jnp.complex64)]),
    "conjugate": (jnp.conj, [array(8, 16, dtype=jnp.complex64)]),
    "select": (lambda x, y: lax.select(x > 0, x, y), [X, X]),
    "select_scalar": (lambda p, x, y: lax.select(p, x, y), [array(dtype=jnp.bool_), X, X]),
    "where_zero": (lambda x: jnp.where(x > 0, x, 0.), [X]),
    "clamp": (lambda x: lax.clamp(0., x, 1.), [X]),
    "clamp_array": (lambda x, y, z: lax.clamp(x, y, z), [X, X, X]),
    "logistic_two": (lambda x, y: jnp.logaddexp(x, y), [X, X]),
    "quotient": (lambda x, y: jnp.divmod(x, y), [index(8, 16)] * 2),
    "three_terms": (lambda x, y, z: x * y + z, [X, X, X]),
    "twice": (lambda x: x * x, [X]),
    "polynomial": (lambda x: x * (1 + x * (2 + x)), [X]),
    # --- broadcasts
    "add_row": (lambda x, y: x + y[None, :], [X, V]),
    "add_column": (lambda x, y: x + y, [X, array(8, 1)]),
    "add_scalar": (lambda x, y: x + y, [X, array()]),
    "outer": (lambda x, y: x[:, None] * y[None, :], [V, V]),
    "repeat_rows": (lambda x: jnp.broadcast_to(x, (8, 16)), [V]),
    "new_middle": (lambda x: lax.broadcast_in_dim(x, (8, 4, 16), (0, 2)), [X]),
    "expand_dim": (lambda x: jnp.broadcast_to(x, (8, 16)), [array(8, 1)]),
    "numbers": (lambda x: x + lax.broadcasted_iota(jnp.float32, (8, 16), 1), [X]),
    "table": (lambda x: x + np.arange(128, dtype=np.float32).reshape(8, 16), [X]),
    "tile": (lambda x: jnp.tile(x, (2, 1)), [X]),
    # --- shapes
    "split_dim": (lambda x: x.reshape(8, 4, 4), [X]),
    "split_major": (lambda x: x.reshape(2, 4, 16), [X]),
    "join_dims": (lambda x: x.reshape(128), [X]),
    "join_two": (lambda x: x.reshape(8, 512), [Z]),
    "regroup": (lambda x: x.reshape(4, 32), [X]),
    "regroup_thirds": (lambda x: x.reshape(8, 12), [array(24, 4)]),
    "unit_dim": (lambda x: x[:, None, :], [X]),
    "squeeze": (lambda x: x.reshape(8, 16), [array(8, 1, 16)]),
    "heads": (lambda x: x.reshape(8, 16, 4, 8).transpose(0, 2, 1, 3), [Z]),
    "transpose": (lambda x: x.T, [X]),
    "transpose_three": (lambda x: x.transpose(2, 0, 1), [Z]),
    "reverse": (lambda x: lax.rev(x, (0,)), [X]),
    "reverse_both": (lambda x: lax.rev(x, (0, 1)), [X]),
    "roll": (lambda x: jnp.roll(x, 3, 1), [X]),
    # --- slices and pads
    "slice": (lambda x: x[2:6], [X]),
    "slice_column": (lambda x: x[:, :8], [X]),
    "strided": (lambda x: x[:, ::2], [X]),
    "element": (lambda x: x[0], [X]),
    "halves": (lambda x: x[:, :8] * x[:, 8:], [X]),
    "pad": (lambda x: lax.pad(x, 0., ((0, 0, 0), (1, 3, 0))), [X]),
    "pad_between": (lambda x: lax.pad(x, 0., ((0, 0, 1), (0, 0, 0))), [X]),
    "pad_shift": (lambda x: lax.pad(x, 0., ((1, -1, 0), (0, 0, 0))), [X]),
    "concatenate": (lambda x, y: lax.concatenate([x, y], 0), [X, X]),
    "concatenate_columns": (lambda x, y: lax.concatenate([x, y], 1), [X, array(8, 32)]),
    "concatenate_self": (lambda x: lax.concatenate([x, x], 0), [X]),
    "split": (lambda x: jnp.split(x, 2, axis=1), [X]),
    "interleave": (lambda x, y: jnp.stack([x, y], 2).reshape(8, 32), [X, X]),
    "stack": (lambda x, y: jnp.stack([x, y]), [X, X]),
    "dynamic_slice": (lambda x, i: lax.dynamic_slice_in_dim(x, i, 2, 0), [X, index()]),
    "dynamic_row": (lambda x, i: lax.dynamic_index_in_dim(x, i, 1), [Z, index()]),
    "dynamic_both": (lambda x, i: lax.dynamic_slice(x, (i, i), (4, 8)), [X, index()]),
    "dynamic_update": (lambda x, u, i: lax.dynamic_update_slice_in_dim(x, u, i, 0), [X, array(2, 16), index()]),
    "dynamic_column": (lambda x, u, i: lax.dynamic_update_slice_in_dim(x, u, i, 1), [Z, array(8, 1, 32), index()]),
    # --- products
    "dot": (lambda x, y: x @ y, [X, Y]),
    "dot_transposed": (lambda x, y: x @ y.T, [X, array(32, 16)]),
    "dot_vector": (lambda x, y: x @ y, [X, V]),
    "inner": (lambda x, y: jnp.dot(x, y), [V, V]),
    "dot_low": (lambda x, y: (x @ y).astype(jnp.bfloat16).astype(jnp.float32), [X, Y]),
    "batch_dot": (lambda x, y: jnp.einsum("bij,bjk->bik", x, y), [array(4, 8, 16), array(4, 16, 32)]),
    "two_batches": (lambda x, y: jnp.einsum("abij,abjk->abik", x, y), [array(2, 4, 8, 16), array(2, 4, 16, 8)]),
    "batch_last": (lambda x, y: jnp.einsum("ijb,jkb->ikb", x, y), [array(8, 16, 4), array(16, 8, 4)]),
    "two_contracted": (lambda x, y: jnp.einsum("bsd,bse->de", x, y), [array(4, 8, 16), array(4, 8, 32)]),
    "projection": (lambda x, w: jnp.einsum("bsd,dhe->bshe", x, w), [array(4, 8, 16), array(16, 4, 8)]),
    "attention": (lambda q, k: jnp.einsum("bshd,bthd->bhst", q, k), [array(2, 8, 4, 16)] * 2),
    "mlp": (lambda x, w, v: jnp.maximum(x @ w, 0.) @ v, [X, Y, array(32, 16)]),
    "residual": (lambda x, w, v: x + jnp.maximum(x @ w, 0.) @ v, [X, Y, array(32, 16)]),
    "gated": (lambda x, w, v: jax.nn.silu(x @ w) * (x @ v), [X, Y, Y]),
    "square": (lambda x, w: x + x @ w, [X, array(16, 16)]),
    "three_products": (lambda x, w, v, u: x @ w @ v @ u, [X, array(16, 16), array(16, 16), array(16, 16)]),
    # --- convolutions
    "convolution": (convolution(), [IMAGES, array(3, 3, 8, 16)]),
    "convolution_valid": (convolution(padding="VALID"), [IMAGES, array(3, 3, 8, 16)]),
    "convolution_point": (convolution(), [IMAGES, array(1, 1, 8, 16)]),
    "blocks": (convolution((2, 2)), [IMAGES, array(2, 2, 8, 16)]),
    "patches": (convolution((4, 4), "VALID"), [IMAGES, array(4, 4, 8, 16)]),
    "strided_convolution": (convolution((2, 2)), [IMAGES, array(3, 3, 8, 16)]),
    "dilated": (convolution(rhs_dilation=(2, 2)), [IMAGES, array(3, 3, 8, 16)]),
    "grouped": (convolution(feature_group_count=4), [IMAGES, array(3, 3, 2, 16)]),
    "depthwise": (convolution(feature_group_count=8), [IMAGES, array(3, 3, 1, 8)]),
    "depthwise_double": (convolution(feature_group_count=8), [IMAGES, array(3, 3, 1, 16)]),
    "channels_first": (convolution(numbers=("NCHW", "OIHW", "NCHW")), [array(8, 8, 16, 16), array(16, 8, 3, 3)]),
    "convolution_line": (convolution((1,), numbers=("NWC", "WIO", "NWC")), [array(8, 16, 8), array(3, 8, 16)]),
    "transposed_convolution": (convolution(padding=((1, 2), (1, 2)), lhs_dilation=(2, 2)), [IMAGES, array(3, 3, 8, 16)]),
    "batch_groups": (convolution((1, 1), "SAME", batch_group_count=4), [IMAGES, array(3, 3, 8, 16)]),
    # --- reductions
    "sum": (lambda x: x.sum(0), [X]),
    "sum_columns": (lambda x: x.sum(1), [Z]),
    "sum_two": (lambda x: x.sum((0, 2)), [Z]),
    "largest": (lambda x: x.max(), [X]),
    "smallest": (lambda x: x.min(1), [X]),
    "product": (lambda x: x.prod(0), [X]),
    "all": (lambda x: jnp.all(x > 0, 1), [X]),
    "arg_max": (lambda x: lax.argmax(x, 1, jnp.int32), [X]),
    "arg_min": (lambda x: lax.argmin(x, 0, jnp.int32), [X]),
    "mean": (lambda x: x.mean(-1, keepdims=True), [Z]),
    "normalised": (lambda x: x / jnp.sqrt((x * x).sum(-1, keepdims=True)), [X]),
    "softmax": (lambda x: jax.nn.softmax(x), [X]),
    "pairs": (lambda x, y: lax.reduce((x, y), (0., 0.), lambda a, b: (a[0] + b[0], a[1] + b[1]), (0,)), [X, X]),
    "pool": (pooled(lax.max, -jnp.inf, (1, 2, 2, 1), (1, 2, 2, 1), "VALID"), [IMAGES]),
    "mean_pool": (pooled(lax.add, 0., (1, 3, 3, 1), (1, 1, 1, 1), "SAME"), [IMAGES]),
    "pool_gradient": (jax.grad(lambda x: pooled(lax.max, -jnp.inf, (1, 2, 2, 1), (1, 2, 2, 1), "VALID")(x).sum()), [IMAGES]),
    "cumulative": (lambda x: lax.cumsum(x, axis=1), [X]),
    "cumulative_rows": (lambda x: lax.cumsum(x, axis=0), [X]),
    "cumulative_max": (lambda x: lax.cummax(x, axis=1), [X]),
    # --- indexed
    "rows": (lambda x, i: x.at[i].get(mode="clip"), [X, index(4)]),
    "rows_checked": (lambda x, i: x[i], [X, index(8)]),
    "columns": (lambda x, i: jnp.take(x, i, axis=1, mode="clip"), [X, index(8)]),
    "embedding": (lambda x, i: jnp.take(x, i, axis=0, mode="clip"), [array(64, 16), index(4, 8)]),
    "points": (lambda x, i: x.at[i, i].get(mode="clip"), [X, index(8)]),
    "along": (lambda x, i: jnp.take_along_axis(x, i, 1, mode="clip"), [X, index(8, 4)]),
    "windows": (gathered((2, 16), (1, 2), (), (0,)), [X, index(4, 1)]),
    "batch_rows": (jax.vmap(lambda x, i: x.at[i].get(mode="clip")), [array(4, 8, 16), index(4, 8)]),
    "add_rows": (lambda x, i, u: x.at[i].add(u, mode="drop"), [X, index(4), array(4, 16)]),
    "set_rows": (lambda x, i, u: x.at[i].set(u, mode="drop"), [X, index(4), array(4, 16)]),
    "max_rows": (lambda x, i, u: x.at[i].max(u, mode="drop"), [X, index(4), array(4, 16)]),
    "multiply_rows": (lambda x, i, u: x.at[i].multiply(u, mode="drop"), [X, index(4), array(4, 16)]),
    "add_points": (lambda x, i, u: x.at[i, i].add(u, mode="drop"), [X, index(8), array(8)]),
    "add_columns": (lambda x, i, u: x.at[:, i].add(u, mode="drop"), [X, index(8), array(8, 8)]),
    "batch_add": (jax.vmap(lambda x, i, u: x.at[i].add(u, mode="drop")), [array(4, 8, 16), index(4, 8), array(4, 8, 16)]),
    "histogram": (lambda i: jnp.zeros(16).at[i].add(1., mode="drop"), [index(32)]),
    "segments": (lambda x, i: jax.ops.segment_sum(x, i, 8), [X, index(8)]),
    "one_hot": (lambda i: jax.nn.one_hot(i, 16), [index(8, 4)]),
    # --- order
    "sort": (lambda x: lax.sort(x, dimension=1), [X]),
    "sort_rows": (lambda x: lax.sort(x, dimension=0), [X]),
    "sort_pairs": (lambda x, y: lax.sort((x, y), dimension=1, num_keys=1), [X, index(8, 16)]),
    "order": (lambda x: jnp.argsort(x, axis=1), [X]),
    "top": (lambda x: lax.top_k(x, 4), [X]),
    "top_of_three": (lambda x: lax.top_k(x, 2), [Z]),
    # --- transforms (of 64: XLA's partitioner needs as many elements as devices in a tile) and linear algebra
    "transform": (lambda x: lax.fft(x, "fft", (64,)), [array(8, 64, dtype=jnp.complex64)]),
    "transform_two": (lambda x: lax.fft(x, "fft", (64, 64)), [array(4, 64, 64, dtype=jnp.complex64)]),
    "inverse_transform": (lambda x: lax.fft(x, "ifft", (64,)), [array(8, 64, dtype=jnp.complex64)]),
    "real_transform": (lambda x: lax.fft(x, "rfft", (64,)), [array(8, 64)]),
    "to_real": (lambda x: lax.fft(x, "irfft", (126,)), [array(8, 64, dtype=jnp.complex64)]),
    "cholesky": (lambda x: lax.linalg.cholesky(x, symmetrize_input=False), [array(4, 8, 8)]),
    "solve": (lambda a, b: lax.linalg.triangular_solve(a, b, left_side=True, lower=True), [array(4, 8, 8), array(4, 8, 16)]),
    "solve_right": (lambda a, b: lax.linalg.triangular_solve(a, b, left_side=False, lower=True), [array(4, 8, 8), array(4, 16, 8)]),
    "eigenvalues": (lambda x: jnp.linalg.eigh(x)[0], [array(4, 8, 8)]),
    "triangle": (lambda x: jnp.tril(x), [array(4, 8, 8)]),
    # --- random numbers
    "random_bits": (lambda k, x: x + lax.rng_bit_generator(k, (8, 16), dtype=jnp.uint32)[1].astype(jnp.float32),
                    [array(4, dtype=jnp.uint32), X]),
    # --- control flow
    "branches": (lambda p, x: lax.cond(p, lambda x: x * 2, jnp.sin, x), [array(dtype=jnp.bool_), X]),
    "branches_product": (lambda p, x, w: lax.cond(p, lambda x, w: x @ w, lambda x, w: x, x, w),
                         [array(dtype=jnp.bool_), X, array(16, 16)]),
    "switch": (lambda i, x: lax.switch(i, [jnp.sin, jnp.cos, jnp.tanh], x), [index(), X]),
    "scan": (lambda x, w: lax.scan(lambda c, w: (jnp.tanh(c @ w), c.sum()), x, w), [X, array(3, 16, 16)]),
    "scan_outputs": (lambda x: lax.scan(lambda c, r: (c + r, c * r), jnp.zeros(16), x)[1], [X]),
    "repeated": (lambda x, w: lax.fori_loop(0, 3, lambda i, c: jnp.tanh(c @ w), x), [X, array(16, 16)]),
    "until": (lambda x: lax.while_loop(lambda x: x.sum() < 9., lambda x: x * 2 + 1, x), [X]),
    "layers": (layers, [X, array(3, 16, 32), array(3, 32, 16)]),
    "gradients": (jax.grad(lambda w, v, x: layers(x, w, v).sum(), argnums=(0, 1)), [array(3, 16, 32), array(3, 32, 16), X]),
    "barrier": (lambda x, y: lax.optimization_barrier((x, y)), [X, Y]),
    # --- annotations
    "constrained": (lambda x, w: lax.with_sharding_constraint(x @ w, on_mesh("a", None)), [X, Y]),
    "half_open": (lambda x, w: lax.with_sharding_constraint(x @ w, on_mesh("a", P.UNCONSTRAINED)), [X, Y]),
    "constrained_within": (lambda x, w: lax.with_sharding_constraint(x * 2, on_mesh(None, "b")) @ w, [X, Y]),
    "constrained_twice": (lambda x: lax.with_sharding_constraint(lax.with_sharding_constraint(x, on_mesh("a")), on_mesh(None, "a")) + 1, [X]),
    "per_device": (region(lambda x, w: x @ w, (P("a"), P()), P("a"), {"a"}), [X, Y]),
    "per_device_sum": (region(lambda x: lax.psum(x, "a"), (P("a"),), P(), {"a"}), [X]),
    "all_devices": (region(lambda x: x * 2, (P("a", "b"),), P("a", "b"), {"a", "b"}), [X]),
    # --- gradients of what is above
    "product_gradient": (jax.grad(lambda w, x: jnp.tanh(x @ w).sum()), [Y, X]),
    "row_gradient": (jax.grad(lambda b, x: ((x + b) ** 2).sum()), [V, X]),
    "embedding_gradient": (jax.grad(lambda t, i: jnp.take(t, i, axis=0, mode="clip").sum()), [array(64, 16), index(8)]),
    "softmax_gradient": (jax.grad(lambda x: (jax.nn.softmax(x) ** 2).sum()), [X]),
    "convolution_gradient": (jax.grad(lambda k, x: convolution()(x, k).sum()), [array(3, 3, 8, 16), IMAGES]),
    "network_gradient": (jax.grad(lambda w, v, x: (jnp.maximum(x @ w, 0.) @ v).sum(), argnums=(0, 1)), [Y, array(32, 16), X]),
    "update": (lambda w, g, m: (w - .1 * (.9 * m + g), .9 * m + g), [Y, Y, Y]),
}
