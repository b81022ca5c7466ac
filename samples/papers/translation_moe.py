"""The translation models of the GShard paper at true size: one training step as HLO text.

Encoder and decoder have half of the layers each; every other feed-forward part is a mixture of
experts with top-2 gating. All is float32, as in the paper; f32 dots take one bfloat16 pass on a
TPU. The two stacks are scans over pairs of layers (one dense, one mixture).
"""

import functools

import jax
import jax.numpy as jnp

import gen  # noqa: F401  (puts ../gen on the path)
import adafactor
import hlo_text
import layers
from moe_gating import moe_layer
from sharding import Sharding

RATE = 1.0
MODEL, HIDDEN, HEADS, HEAD_DIM = 1024, 8192, 16, 128
SOURCE_VOCABULARY, TARGET_VOCABULARY = 64000, 32000


def parameter_shapes(c, s):
    """Shapes of the weights of configuration `c` (configs.json); all but the experts are whole on every core."""
    f32 = lambda *dims: s.shape(dims, *(None for _ in dims))
    of_experts = lambda *dims: s.shape(dims, None, "expert", None, None)
    pairs, experts = c["layers"] // 4, c["experts"]

    def attention():
        weights = {k: f32(pairs, MODEL, HEADS, HEAD_DIM) for k in ("query", "key", "value")}
        return weights | {"out": f32(pairs, HEADS, HEAD_DIM, MODEL), "norm": f32(pairs, MODEL)}

    def stack(crosses):
        result = {
            "dense_attention": attention(),
            "moe_attention": attention(),
            "ffn": {"norm": f32(pairs, MODEL), "wi": f32(pairs, MODEL, HIDDEN),
                    "wo": f32(pairs, HIDDEN, MODEL)},
            "moe": {"norm": f32(pairs, MODEL), "gate": f32(pairs, MODEL, experts),
                    "wi": of_experts(pairs, experts, MODEL, HIDDEN),
                    "wo": of_experts(pairs, experts, HIDDEN, MODEL)},
        }
        if crosses:
            result |= {"dense_cross": attention(), "moe_cross": attention()}
        return result

    return {
        "source": {"embedding": f32(SOURCE_VOCABULARY, MODEL), "position": f32(c["sequence"], MODEL)},
        "target": {"embedding": f32(TARGET_VOCABULARY, MODEL), "position": f32(c["sequence"], MODEL)},
        "encoder": stack(False),
        "decoder": stack(True),
        "top": {"norm": f32(MODEL), "softmax": f32(MODEL, TARGET_VOCABULARY)},
    }


def own_dims(shape):
    """Feed-forward matrices by their own two dims, not by the number of experts: a state of no size."""
    if sorted(shape[-2:]) == [MODEL, HIDDEN]:
        return len(shape) - 2, len(shape) - 1
    return adafactor.factored_dims(shape)


def attend(x, memory, layer, causal):
    """Attention of x [B,S,M] over memory [B,T,M]."""
    x = layers.normalise(x, layer["norm"])
    memory = x if memory is None else memory
    query = jnp.einsum("BSM,MND->BSND", x, layer["query"])
    key = jnp.einsum("BTM,MND->BTND", memory, layer["key"])
    value = jnp.einsum("BTM,MND->BTND", memory, layer["value"])
    logits = jnp.einsum("BSND,BTND->BNST", query, key) * HEAD_DIM**-0.5
    if causal:
        logits = jnp.where(jnp.tril(jnp.ones(logits.shape[-2:], bool)), logits, -1e9)
    mixed = jnp.einsum("BNST,BTND->BSND", jax.nn.softmax(logits, axis=-1), value)
    return jnp.einsum("BSND,NDM->BSM", mixed, layer["out"])


def pair(s, groups, capacity, memory, x, layer):
    """A dense layer and a mixture layer over x [B,S,M]; the mixture gates `groups` groups."""
    causal = memory is not None
    for kind in ("dense", "moe"):
        with jax.named_scope("attention"):
            x = x + attend(x, None, layer[f"{kind}_attention"], causal)
        if memory is not None:
            with jax.named_scope("cross"):
                x = x + attend(x, memory, layer[f"{kind}_cross"], False)
        if kind == "dense":
            with jax.named_scope("ffn"):
                h = layers.normalise(x, layer["ffn"]["norm"])
                hidden = jax.nn.relu(jnp.einsum("BSM,MH->BSH", h, layer["ffn"]["wi"]))
                x = x + jnp.einsum("BSH,HM->BSM", hidden, layer["ffn"]["wo"])
    with jax.named_scope("moe"):
        y, aux = moe_layer(x.reshape(groups, -1, MODEL), layer["moe"], capacity, s.split)
    return s.split(x + y.reshape(x.shape), "batch", None, None), aux


def loss(c, s, params, source, target, labels):
    """Cross-entropy of the target, averaged over tokens, with the auxiliary losses."""
    groups = c["groups"]
    capacity = -(-2 * (source.size // groups) // c["experts"])
    remat = functools.partial(jax.checkpoint, prevent_cse=False,
                              policy=jax.checkpoint_policies.nothing_saveable)
    wrap = remat if c["remat"] == "full" else lambda f: f
    with jax.named_scope("encoder"):
        x = s.split(layers.embed(source, params["source"]), "batch", None, None)
        body = wrap(functools.partial(pair, s, groups, capacity, None))
        memory, aux_encoder = jax.lax.scan(body, x, params["encoder"])
    with jax.named_scope("decoder"):
        x = s.split(layers.embed(target, params["target"]), "batch", None, None)
        body = wrap(lambda m, x, layer: pair(s, groups, capacity, m, x, layer))
        x, aux_decoder = jax.lax.scan(lambda x, layer: body(memory, x, layer), x,
                                      params["decoder"])
    with jax.named_scope("softmax"):
        entropy = layers.cross_entropy(x, labels, params["top"]) / labels.size
    return entropy + 0.01 * (jnp.sum(aux_encoder) + jnp.sum(aux_decoder))


def make_layer(c, s):
    """HLO text of the forward pass of two layers of the encoder, one dense and one with a mixture."""
    capacity = -(-2 * (c["batch_tokens"] // c["groups"]) // c["experts"])

    def forward(layer, x):
        layer = jax.tree.map(lambda w: w[0], layer)
        return pair(s, c["groups"], capacity, None, x, layer)

    x = s.shape((c["batch_tokens"] // c["sequence"], c["sequence"], MODEL), "batch", None, None)
    return hlo_text.to_text(forward, (parameter_shapes(c, s)["encoder"], x), f"{c['name']}: two layers, forward")


def make(c):
    """HLO text of one training step of configuration `c`, or of the part of it that it names."""

    s = Sharding(c)
    if c.get("part") == "layer":
        return make_layer(c, s)
    dims_of = own_dims if c.get("factored") == "own" else adafactor.factored_dims

    def train_step(params, state, batch):
        value, grads = jax.value_and_grad(functools.partial(loss, c, s))(
            params, batch["source"], batch["target"], batch["labels"])
        with jax.named_scope("update"):
            params, state = adafactor.apply(params, grads, state, RATE, dims_of)
        return params, state, value

    params = parameter_shapes(c, s)
    tokens = s.shape((c["batch_tokens"] // c["sequence"], c["sequence"]), "batch", None,
                     dtype=jnp.int32)
    batch = {"source": tokens, "target": tokens, "labels": tokens}
    args = (params, adafactor.state_shapes(params, dims_of), batch)
    return hlo_text.to_text(train_step, args, f"{c['name']}: {c['layers']} layers", donate=(0, 1))
