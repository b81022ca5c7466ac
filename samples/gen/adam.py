"""Adam (Kingma and Ba 2014) with bias correction; state and weights in float32."""

import jax
import jax.numpy as jnp

BETA1 = 0.9
BETA2 = 0.98
EPSILON = 1e-3  # for gradients of a loss summed over a sequence


@jax.jit
def adam(param, grad, m, v, correction1, correction2, rate):
    """New parameter, m and v.

    The bound on v is a no-op on states made here (by Cauchy-Schwarz m^2 < 3 v for these decays);
    with arbitrary inputs it keeps the update finite and well conditioned.
    """
    v = jnp.maximum(v, 0.25 * jnp.square(m))
    m = BETA1 * m + (1 - BETA1) * grad
    v = BETA2 * v + (1 - BETA2) * jnp.square(grad)
    return param - rate * (m / correction1) / (jnp.sqrt(v / correction2) + EPSILON), m, v


def state_shapes(params):
    return {"step": jax.ShapeDtypeStruct((), jnp.int32), "m": params, "v": params}


def apply(params, grads, state, rate):
    """One step over a tree of parameters."""
    step = state["step"] + 1
    correction1 = 1.0 - jnp.power(BETA1, step.astype(jnp.float32))
    correction2 = 1.0 - jnp.power(BETA2, step.astype(jnp.float32))
    leaves, tree = jax.tree.flatten(params)
    rows = zip(leaves, *(tree.flatten_up_to(t) for t in (grads, state["m"], state["v"])))
    new = [adam(*row, correction1, correction2, rate) for row in rows]
    params, m, v = (tree.unflatten(column) for column in zip(*new))
    return params, {"step": step, "m": m, "v": v}
