"""Adafactor (Shazeer and Stern 2018) without momentum, the optimiser of the GShard paper.

The second moment of a matrix is kept as its row and column means, so that the state is small beside
the weights.
"""

import functools

import jax
import jax.numpy as jnp

DECAY = 0.99
EPSILON = 1e-30
MIN_SCALE = 1e-3
CLIP = 1.0


def factored_dims(shape):
    """The two largest dims, in ascending order of index; None for vectors."""
    if len(shape) < 2:
        return None
    return tuple(sorted(sorted(range(len(shape)), key=lambda d: (shape[d], d))[-2:]))


def state_shapes(params, dims_of=factored_dims):
    """Shapes of the optimiser state for a tree of parameter shapes."""

    def leaf(p):
        dims = dims_of(p.shape)
        if dims is None:
            return {"v": p}
        without = lambda d: jax.ShapeDtypeStruct(p.shape[:d] + p.shape[d + 1:], p.dtype)
        return {"row": without(dims[1]), "col": without(dims[0])}

    return jax.tree.map(leaf, params)


def rms(x):
    return jnp.sqrt(jnp.mean(jnp.square(x)))


@functools.partial(jax.jit, static_argnames="dims_of")
def adafactor(param, grad, state, rate, dims_of=factored_dims):
    """New parameter and state; `dims_of` a shape are the two dims that are factored.

    The abs() are no-ops on states made here; they keep the update finite for arbitrary inputs.
    """
    square = jnp.square(grad) + EPSILON
    dims = dims_of(param.shape)
    if dims is None:
        v = DECAY * jnp.abs(state["v"]) + (1 - DECAY) * square
        new_state = {"v": v}
        update = grad * jax.lax.rsqrt(v)
    else:
        first, second = dims
        row = DECAY * jnp.abs(state["row"]) + (1 - DECAY) * jnp.mean(square, axis=second)
        col = DECAY * jnp.abs(state["col"]) + (1 - DECAY) * jnp.mean(square, axis=first)
        new_state = {"row": row, "col": col}
        row = row / jnp.mean(row, axis=first, keepdims=True)
        update = grad * jnp.expand_dims(jax.lax.rsqrt(row), second)
        update = update * jnp.expand_dims(jax.lax.rsqrt(col), first)
    update = update / jnp.maximum(1.0, rms(update) / CLIP)
    return param - rate * jnp.maximum(rms(param), MIN_SCALE) * update, new_state


def apply(params, grads, state, rate, dims_of=factored_dims):
    """One step over a tree of parameters."""
    leaves, tree = jax.tree.flatten(params)
    pairs = [
        adafactor(p, g, s, rate, dims_of=dims_of)
        for p, g, s in zip(leaves, tree.flatten_up_to(grads), tree.flatten_up_to(state))
    ]
    return tree.unflatten([p for p, _ in pairs]), tree.unflatten([s for _, s in pairs])
