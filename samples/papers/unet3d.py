"""3-D U-Net over volumes (GSPMD paper, section 5.6): one training step as HLO text.

An encoder of strided convolutions, a decoder of transposed ones, skips between them; bfloat16
activations, float32 weights, SGD. Dims: N batch, X Y Z space, C channels, I O of a kernel.
"""

import jax
import jax.numpy as jnp

import gen  # noqa: F401  (puts ../gen on the path)
import hlo_text
from sharding import Sharding

RATE = 1e-3
DIMS = ("NXYZC", "XYZIO", "NXYZC")


def parameter_shapes(c):
    """Shapes of the kernels of configuration `c` (configs.json)."""
    f32 = lambda *dims: jax.ShapeDtypeStruct(dims, jnp.float32)
    width = [c["channels"] * 2**k for k in range(c["depth"] + 1)]
    down = [{"first": f32(3, 3, 3, 1 if k == 0 else width[k], width[k]),
             "second": f32(3, 3, 3, width[k], width[k]),
             "stride": f32(2, 2, 2, width[k], width[k + 1])} for k in range(c["depth"])]
    up = [{"grow": f32(2, 2, 2, width[k + 1], width[k]),
           "first": f32(3, 3, 3, 2 * width[k], width[k]),
           "second": f32(3, 3, 3, width[k], width[k])} for k in reversed(range(c["depth"]))]
    bottom = {"first": f32(3, 3, 3, width[-1], width[-1]),
              "second": f32(3, 3, 3, width[-1], width[-1])}
    return {"down": down, "bottom": bottom, "up": up, "classes": f32(1, 1, 1, width[0], 4)}


def convolve(x, kernel, stride=1):
    kernel = kernel.astype(x.dtype)
    return jax.lax.conv_general_dilated(x, kernel, (stride,) * 3, "SAME", dimension_numbers=DIMS)


def normalise(x):
    """Zero mean and unit variance of each example and channel, then ReLU."""
    y = x.astype(jnp.float32)
    y = y - jnp.mean(y, axis=(1, 2, 3), keepdims=True)
    y = y * jax.lax.rsqrt(jnp.mean(jnp.square(y), axis=(1, 2, 3), keepdims=True) + 1e-5)
    return jax.nn.relu(y).astype(x.dtype)


def unit(x, layer):
    return normalise(convolve(normalise(convolve(x, layer["first"])), layer["second"]))


def loss(params, volume, labels):
    """Cross-entropy of four classes, averaged over the voxels."""
    x, skips = volume.astype(jnp.bfloat16), []
    for k, layer in enumerate(params["down"]):
        with jax.named_scope(f"down{k}"):
            x = unit(x, layer)
            skips.append(x)
            x = convolve(x, layer["stride"], stride=2)
    with jax.named_scope("bottom"):
        x = unit(x, params["bottom"])
    for k, layer in enumerate(params["up"]):
        with jax.named_scope(f"up{k}"):
            x = jax.lax.conv_transpose(x, layer["grow"].astype(x.dtype), (2, 2, 2), "SAME",
                                       dimension_numbers=DIMS)
            x = unit(jnp.concatenate([x, skips.pop()], axis=-1), layer)
    with jax.named_scope("classes"):
        logits = convolve(x, params["classes"]).astype(jnp.float32)
        picked = jnp.sum(jax.nn.one_hot(labels, 4) * logits, axis=-1)
        return jnp.mean(jax.nn.logsumexp(logits, axis=-1) - picked)


def make(c):
    """HLO text of one training step of configuration `c`."""

    def train_step(params, batch):
        value, grads = jax.value_and_grad(loss)(params, batch["volume"], batch["labels"])
        return jax.tree.map(lambda p, g: p - RATE * g, params, grads), value

    s = Sharding(c)
    size = (c["batch"],) + (c["size"],) * 3
    names = ("batch", "x", None, None)
    batch = {"volume": s.shape(size + (1,), *names, None),
             "labels": s.shape(size, *names, dtype=jnp.int32)}
    return hlo_text.to_text(train_step, (parameter_shapes(c), batch), c["name"], donate=(0,))
