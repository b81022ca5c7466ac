"""Mixture-of-Experts Transformer language model (GShard paper, section 2): one training step.

Every other layer's feed-forward part is a mixture of 64 experts; forward, backward and an Adafactor
update. The batch is 2048 groups of one 32-token sequence each.
"""

import jax
import jax.numpy as jnp

import adafactor
import hlo_text
import layers
from moe_gating import moe_layer

GROUPS, SEQUENCE, MODEL, HEADS, HEAD_DIM, HIDDEN = 2048, 32, 64, 4, 16, 256
EXPERTS, VOCABULARY, LAYERS = 64, 512, 4
CAPACITY = 2  # twice the even share S / E of 2 S choices
AUX_WEIGHT = 0.01
RATE = 0.1


def parameter_shapes():
    f32 = lambda *dims: jax.ShapeDtypeStruct(dims, jnp.float32)
    params = {
        "embedding": f32(VOCABULARY, MODEL),
        "position": f32(SEQUENCE, MODEL),
        "norm": f32(MODEL),
        "softmax": f32(MODEL, VOCABULARY),
    }
    for k in range(LAYERS):
        attention = {name: f32(MODEL, HEADS, HEAD_DIM) for name in ("query", "key", "value")}
        attention |= {"out": f32(HEADS, HEAD_DIM, MODEL), "norm": f32(MODEL)}
        params[f"layer{k}"] = {"attention": attention}
        if k % 2:
            params[f"layer{k}"]["moe"] = {
                "norm": f32(MODEL),
                "gate": f32(MODEL, EXPERTS),
                "wi": f32(EXPERTS, MODEL, HIDDEN),
                "wo": f32(EXPERTS, HIDDEN, MODEL),
            }
        else:
            params[f"layer{k}"]["ffn"] = {
                "norm": f32(MODEL),
                "wi": f32(MODEL, HIDDEN),
                "wo": f32(HIDDEN, MODEL),
            }
    return params


def loss(params, tokens, targets):
    """Summed cross-entropy plus the auxiliary loss; Adafactor does not care for the scale."""
    with jax.named_scope("embed"):
        x = layers.embed(tokens, params)
    aux_loss = 0.0
    for k in range(LAYERS):
        layer = params[f"layer{k}"]
        with jax.named_scope(f"layer{k}"):
            with jax.named_scope("attention"):
                x = x + layers.attention(x, layer["attention"])
            if k % 2:
                with jax.named_scope("moe"):
                    y, aux = moe_layer(x, layer["moe"], CAPACITY)
                    aux_loss += aux
            else:
                with jax.named_scope("ffn"):
                    y = layers.feed_forward(x, layer["ffn"])
            x = x + y
    with jax.named_scope("softmax"):
        cross_entropy = layers.cross_entropy(x, targets, params)
    return cross_entropy + AUX_WEIGHT * tokens.size * aux_loss, (cross_entropy, aux_loss)


def train_step(params, state, batch):
    gradient = jax.value_and_grad(loss, has_aux=True)
    (_, (cross_entropy, aux_loss)), grads = gradient(params, batch["tokens"], batch["targets"])
    with jax.named_scope("update"):
        params, state = adafactor.apply(params, grads, state, RATE)
    metrics = {"loss": cross_entropy / batch["tokens"].size, "aux_loss": aux_loss}
    return params, state, metrics


def make():
    params = parameter_shapes()
    tokens = jax.ShapeDtypeStruct((GROUPS, SEQUENCE), jnp.int32)
    args = (params, adafactor.state_shapes(params), {"tokens": tokens, "targets": tokens})
    return hlo_text.to_text(train_step, args, __doc__, donate=(0, 1))


if __name__ == "__main__":
    hlo_text.main(make, "moe_train", __doc__)
