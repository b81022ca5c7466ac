"""Small residual network on 32x32 images: one training step.

Stem with max-pooling, three residual stages (the last two halve the image), batch normalisation
with running averages, SiLU, softmax cross-entropy; forward, backward and SGD with momentum and
weight decay.
"""

import jax
import jax.numpy as jnp

import hlo_text

BATCH, IMAGE, COLOURS, CLASSES = 2048, 32, 3, 10
STEM, STAGES = 8, (8, 16, 32)
RATE, WEIGHT_DECAY = 1e-4, 0.1  # for gradients of a loss summed over the batch
MOMENTUM, AVERAGE = 0.9, 0.9


def shapes():
    """Parameters and running averages of the normalisations, as trees of equal outline."""
    f32 = lambda *dims: jax.ShapeDtypeStruct(dims, jnp.float32)
    params, averages = {}, {}

    def add(name, size, inputs, outputs):
        params[name] = {"kernel": f32(size, size, inputs, outputs)}
        params[name] |= {"scale": f32(outputs), "bias": f32(outputs)}
        averages[name] = {"mean": f32(outputs), "variance": f32(outputs)}

    add("stem", 3, COLOURS, STEM)
    width = STEM
    for k, channels in enumerate(STAGES):
        add(f"stage{k}_conv0", 3, width, channels)
        add(f"stage{k}_conv1", 3, channels, channels)
        if channels != width:
            add(f"stage{k}_shortcut", 1, width, channels)
        width = channels
    params["classifier"] = {"kernel": f32(width, CLASSES), "bias": f32(CLASSES)}
    return params, averages


def convolve(x, kernel, stride):
    """Convolution of x [N,H,W,C], padded so that stride 1 keeps the image's size."""
    return jax.lax.conv_general_dilated(
        x, kernel, (stride, stride), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC"))


def normalise(x, layer):
    """Batch normalisation of x [N,H,W,C]; also the batch's mean and variance."""
    mean = jnp.mean(x, axis=(0, 1, 2))
    variance = jnp.mean(jnp.square(x - mean), axis=(0, 1, 2))
    x = (x - mean) * (jax.lax.rsqrt(variance + 1e-5) * layer["scale"]) + layer["bias"]
    return x, {"mean": mean, "variance": variance}


def max_pool(x):
    """Maximum over 3x3 windows at stride 2.

    It stands before the normalisation, where the same values meet in it however it is partitioned.
    """
    return jax.lax.reduce_window(x, -jnp.inf, jax.lax.max, (1, 3, 3, 1), (1, 2, 2, 1), "SAME")


def loss(params, images, labels):
    """Cross-entropy summed over the batch, and the statistics of every normalisation."""
    statistics = {}

    def conv(x, name, stride=1, pool=lambda x: x):
        with jax.named_scope(name):
            x = pool(convolve(x, params[name]["kernel"], stride))
            x, statistics[name] = normalise(x, params[name])
        return x

    x = jax.nn.silu(conv(images, "stem", pool=max_pool))
    for k in range(len(STAGES)):
        stage = f"stage{k}"
        stride = 2 if k else 1
        y = jax.nn.silu(conv(x, f"{stage}_conv0", stride))
        y = conv(y, f"{stage}_conv1")
        if f"{stage}_shortcut" in params:
            x = conv(x, f"{stage}_shortcut", stride)
        x = jax.nn.silu(x + y)
    with jax.named_scope("classifier"):
        x = jnp.mean(x, axis=(1, 2))
        logits = x @ params["classifier"]["kernel"] + params["classifier"]["bias"]
        wanted = jax.nn.one_hot(labels, CLASSES, dtype=logits.dtype)
        return -jnp.sum(jax.nn.log_softmax(logits) * wanted), statistics


def train_step(params, momenta, averages, batch):
    (total_loss, statistics), grads = jax.value_and_grad(loss, has_aux=True)(
        params, batch["images"], batch["labels"])
    with jax.named_scope("update"):
        momenta = jax.tree.map(
            lambda m, g, p: MOMENTUM * m + g + WEIGHT_DECAY * p, momenta, grads, params)
        params = jax.tree.map(lambda p, m: p - RATE * m, params, momenta)
        averages = jax.tree.map(lambda a, s: AVERAGE * a + (1 - AVERAGE) * s, averages, statistics)
    return params, momenta, averages, total_loss / BATCH


def make():
    params, averages = shapes()
    batch = {
        "images": jax.ShapeDtypeStruct((BATCH, IMAGE, IMAGE, COLOURS), jnp.float32),
        "labels": jax.ShapeDtypeStruct((BATCH,), jnp.int32),
    }
    args = (params, params, averages, batch)
    return hlo_text.to_text(train_step, args, __doc__, donate=(0, 1, 2))


if __name__ == "__main__":
    hlo_text.main(make, "resnet_train", __doc__)
