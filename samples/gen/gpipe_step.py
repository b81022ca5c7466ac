"""Transformer language model without any annotation: one training step for samples/gpipe.

Sixteen equal layers in a loop over stacked weights, embedding before, softmax after; forward, backward and an Adam
update. The batch is 1024 short sequences, so that 32 micro-batches times 32 data-parallel shards have one each.
"""

import jax
import jax.numpy as jnp

import adam
import hlo_text
import layers

LAYERS, BATCH = 16, 1024
SEQUENCE, MODEL, HEADS, HEAD_DIM, HIDDEN, VOCABULARY = 4, 16, 8, 2, 64, 64
RATE = 0.01


def parameter_shapes():
    return layers.stacked_parameter_shapes(LAYERS, MODEL, HEADS, HEAD_DIM, HIDDEN, VOCABULARY, SEQUENCE)


def loss(params, tokens, targets):
    with jax.named_scope("embed"):
        x = layers.embed(tokens, params)
    x, _ = jax.lax.scan(layers.block, x, params["layers"])
    with jax.named_scope("softmax"):
        return jnp.sum(layers.cross_entropy(x, targets, params)) / BATCH


def train_step(params, state, batch):
    sequence_loss, grads = jax.value_and_grad(loss)(params, batch["tokens"], batch["targets"])
    with jax.named_scope("update"):
        params, state = adam.apply(params, grads, state, RATE)
    return params, state, sequence_loss / SEQUENCE


def make():
    params = parameter_shapes()
    tokens = jax.ShapeDtypeStruct((BATCH, SEQUENCE), jnp.int32)
    args = (params, adam.state_shapes(params), {"tokens": tokens, "targets": tokens})
    return hlo_text.to_text(train_step, args, __doc__, donate=(0, 1))


if __name__ == "__main__":
    hlo_text.main(make, "gpipe/step", __doc__)
