"""Transformer layers that the samples share.

Dims: B batch (one sequence each; a group of tokens in the mixtures), S and T positions, M model
width, N heads, D head width, H hidden width, V vocabulary.
"""

import jax
import jax.numpy as jnp


def normalise(x, scale):
    """Root-mean-square layer normalisation over the last dim; the scale is kept as scale - 1."""
    return x * jax.lax.rsqrt(jnp.mean(jnp.square(x), axis=-1, keepdims=True) + 1e-6) * (1.0 + scale)


def attention(x, layer):
    """Causal self-attention over x [B,S,M]."""
    x = normalise(x, layer["norm"])
    query = jnp.einsum("BSM,MND->BSND", x, layer["query"])
    key = jnp.einsum("BSM,MND->BSND", x, layer["key"])
    value = jnp.einsum("BSM,MND->BSND", x, layer["value"])
    logits = jnp.einsum("BSND,BTND->BNST", query, key) * query.shape[-1] ** -0.5
    position = jnp.arange(x.shape[1])
    causal = jnp.where(position[:, None] >= position[None, :], 0.0, -1e9)
    weights = jax.nn.softmax(logits + causal, axis=-1)
    return jnp.einsum("BSND,NDM->BSM", jnp.einsum("BNST,BTND->BSND", weights, value), layer["out"])


def feed_forward(x, layer):
    """Two-layer GELU network over x [B,S,M]."""
    x = normalise(x, layer["norm"])
    hidden = jax.nn.gelu(jnp.einsum("BSM,MH->BSH", x, layer["wi"]))
    return jnp.einsum("BSH,HM->BSM", hidden, layer["wo"])


def embed(tokens, params):
    """Token plus position embeddings [B,S,M] of token ids [B,S]."""
    return params["embedding"].at[tokens].get(mode="promise_in_bounds") + params["position"]


def cross_entropy(x, targets, params):
    """Cross-entropy of the softmax over the vocabulary against target ids [B,S], all summed."""
    logits = jnp.einsum("BSM,MV->BSV", normalise(x, params["norm"]), params["softmax"])
    log_probability = jax.nn.log_softmax(logits, axis=-1)
    return -jnp.sum(log_probability * jax.nn.one_hot(targets, logits.shape[-1], dtype=logits.dtype))


def stacked_parameter_shapes(layers, model, heads, head_dim, hidden, vocabulary, sequence):
    """A language model whose layers' weights are stacked along a first dimension, for a scan over `block`."""
    f32 = lambda *dims: jax.ShapeDtypeStruct(dims, jnp.float32)
    return {
        "embedding": f32(vocabulary, model),
        "position": f32(sequence, model),
        "norm": f32(model),
        "softmax": f32(model, vocabulary),
        "layers": {
            "attention": {
                "norm": f32(layers, model),
                "query": f32(layers, model, heads, head_dim),
                "key": f32(layers, model, heads, head_dim),
                "value": f32(layers, model, heads, head_dim),
                "out": f32(layers, heads, head_dim, model),
            },
            "ffn": {
                "norm": f32(layers, model),
                "wi": f32(layers, model, hidden),
                "wo": f32(layers, hidden, model),
            },
        },
    }


def block(x, layer):
    """One layer, as a scan body."""
    with jax.named_scope("attention"):
        x = x + attention(x, layer["attention"])
    with jax.named_scope("ffn"):
        x = x + feed_forward(x, layer["ffn"])
    return x, None
