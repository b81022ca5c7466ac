"""Transformer language model as a pipelined loop (GSPMD paper, section 3.3): one training step.

The eight stages are one vectorised stage over stacked weights. Each turn of the loop shifts a
buffer of stage inputs by one stage, feeds the next micro-batch to stage 0 and applies all stages;
K micro-batches take K + L - 1 turns. Forward, backward and an Adam update; the stages are
rematerialised in the backward loop.
"""

import functools

import jax
import jax.numpy as jnp

import adam
import hlo_text
import layers

STAGES, MICROBATCHES, BATCH = 8, 20, 16  # BATCH is of one micro-batch
SEQUENCE, MODEL, HEADS, HEAD_DIM, HIDDEN, VOCABULARY = 32, 64, 16, 4, 256, 256
RATE = 0.01


def parameter_shapes():
    f32 = lambda *dims: jax.ShapeDtypeStruct(dims, jnp.float32)
    return {
        "embedding": f32(VOCABULARY, MODEL),
        "position": f32(SEQUENCE, MODEL),
        "norm": f32(MODEL),
        "softmax": f32(MODEL, VOCABULARY),
        "stages": {
            "attention": {
                "norm": f32(STAGES, MODEL),
                "query": f32(STAGES, MODEL, HEADS, HEAD_DIM),
                "key": f32(STAGES, MODEL, HEADS, HEAD_DIM),
                "value": f32(STAGES, MODEL, HEADS, HEAD_DIM),
                "out": f32(STAGES, HEADS, HEAD_DIM, MODEL),
            },
            "ffn": {
                "norm": f32(STAGES, MODEL),
                "wi": f32(STAGES, MODEL, HIDDEN),
                "wo": f32(STAGES, HIDDEN, MODEL),
            },
        },
    }


@functools.partial(jax.checkpoint, prevent_cse=False)
@jax.vmap
def stages(x, params):
    """All stages at once: x [L,B,S,M] and every weight have the stage as leading dim."""
    with jax.named_scope("attention"):
        x = x + layers.attention(x, params["attention"])
    with jax.named_scope("ffn"):
        return x + layers.feed_forward(x, params["ffn"])


def pipeline(params, microbatches):
    """What the last stage makes of microbatches [K,B,S,M]."""

    def turn(state, x):
        with jax.named_scope("shift"):
            shifted = jax.lax.pad(state, 0.0, ((1, -1, 0), *[(0, 0, 0)] * 3))
            stage = jax.lax.broadcasted_iota(jnp.int32, state.shape, 0)
            state = jax.lax.select(stage == 0, jnp.broadcast_to(x, state.shape), shifted)
        with jax.named_scope("stages"):
            state = stages(state, params)
        return state, state[-1]

    bubble = jnp.zeros((STAGES - 1, *microbatches.shape[1:]), microbatches.dtype)
    state = jnp.zeros((STAGES, *microbatches.shape[1:]), microbatches.dtype)
    _, outputs = jax.lax.scan(turn, state, jnp.concatenate([microbatches, bubble]))
    return outputs[STAGES - 1:]


def loss(params, tokens, targets):
    """Cross-entropy of a sequence, averaged over all micro-batches."""
    with jax.named_scope("embed"):
        x = layers.embed(tokens, params)
    with jax.named_scope("pipeline"):
        x = pipeline(params["stages"], x)
    with jax.named_scope("softmax"):
        cross_entropy = jax.vmap(layers.cross_entropy, in_axes=(0, 0, None))(x, targets, params)
        return jnp.sum(cross_entropy) / (MICROBATCHES * BATCH)


def train_step(params, state, batch):
    sequence_loss, grads = jax.value_and_grad(loss)(params, batch["tokens"], batch["targets"])
    with jax.named_scope("update"):
        params, state = adam.apply(params, grads, state, RATE)
    return params, state, sequence_loss / SEQUENCE


def make():
    params = parameter_shapes()
    tokens = jax.ShapeDtypeStruct((MICROBATCHES, BATCH, SEQUENCE), jnp.int32)
    args = (params, adam.state_shapes(params), {"tokens": tokens, "targets": tokens})
    return hlo_text.to_text(train_step, args, __doc__, donate=(0, 1))


if __name__ == "__main__":
    hlo_text.main(make, "pipeline_loop", __doc__)
