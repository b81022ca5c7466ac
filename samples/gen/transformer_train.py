"""Dense Transformer language model, its layers in a loop over stacked weights: one training step.

The loop is a `lax.scan` whose body is rematerialised in the backward loop, as in the models of the
GSPMD paper. Forward, backward and an Adam update, all in float32.
"""

import jax
import jax.numpy as jnp

import adam
import hlo_text
import layers

BATCH, SEQUENCE, MODEL, HEADS, HEAD_DIM, HIDDEN = 64, 32, 128, 64, 8, 512
VOCABULARY, LAYERS = 1024, 4
RATE = 0.01


def parameter_shapes():
    return layers.stacked_parameter_shapes(LAYERS, MODEL, HEADS, HEAD_DIM, HIDDEN, VOCABULARY, SEQUENCE)


def loss(params, tokens, targets):
    """Cross-entropy of a sequence, averaged over the batch."""
    with jax.named_scope("embed"):
        x = layers.embed(tokens, params)
    with jax.named_scope("layers"):
        x, _ = jax.lax.scan(jax.checkpoint(layers.block, prevent_cse=False), x, params["layers"])
    with jax.named_scope("softmax"):
        return layers.cross_entropy(x, targets, params) / BATCH


def train_step(params, state, batch):
    sequence_loss, grads = jax.value_and_grad(loss)(params, batch["tokens"], batch["targets"])
    with jax.named_scope("norm"):
        norm = jnp.sqrt(sum(jnp.sum(jnp.square(g)) for g in jax.tree.leaves(grads)))
    with jax.named_scope("update"):
        params, state = adam.apply(params, grads, state, RATE)
    return params, state, {"loss": sequence_loss / SEQUENCE, "gradient_norm": norm}


def make():
    params = parameter_shapes()
    tokens = jax.ShapeDtypeStruct((BATCH, SEQUENCE), jnp.int32)
    args = (params, adam.state_shapes(params), {"tokens": tokens, "targets": tokens})
    return hlo_text.to_text(train_step, args, __doc__, donate=(0, 1))


if __name__ == "__main__":
    hlo_text.main(make, "transformer_train", __doc__)
