"""Decoder-only Transformer at true size: one training step as HLO text, from shapes alone.

Weights and optimizer state are float32, activations bfloat16, attention logits and the loss float32.
The layers are a scan over stacked weights. Dims as in ../gen/layers.py: B batch, S and T positions,
M model width, N query heads, K key heads, D head width, H hidden width, V vocabulary, E experts.
"""

import functools

import jax
import jax.numpy as jnp

import gen  # noqa: F401  (puts ../gen on the path)
import adafactor
import adam
import hlo_text
from moe_gating import moe_layer
from sharding import Sharding

RATE = 1e-3
SAVED = {  # what the backward pass finds instead of computing it again
    "none": None,
    "minimal": jax.checkpoint_policies.checkpoint_dots_with_no_batch_dims,
    "full": jax.checkpoint_policies.nothing_saveable,
}


def parameter_shapes(c, s):
    """Shapes of the weights of configuration `c` (configs.json) under sharding `s`."""
    layers, model, heads, keys, width = c["layers"], c["model"], c["heads"], c["keys"], c["head_dim"]
    norm = s.shape((layers, model), None, None)
    attention = {
        "norm": norm,
        "query": s.shape((layers, model, heads, width), None, "rows", "columns", None),
        "key": s.shape((layers, model, keys, width), None, "rows", "columns", None),
        "value": s.shape((layers, model, keys, width), None, "rows", "columns", None),
        "out": s.shape((layers, heads, width, model), None, "columns", None, "rows"),
    }
    ffn = {
        "norm": norm,
        "wi": s.shape((layers, model, c["hidden"]), None, "rows", "columns"),
        "wo": s.shape((layers, c["hidden"], model), None, "columns", "rows"),
    }
    if c["gated"]:
        ffn["gate"] = ffn["wi"]
    params = {
        "embedding": s.shape((c["vocabulary"], model), "columns", "rows"),
        "norm": s.shape((model,), None),
        "softmax": s.shape((model, c["vocabulary"]), "rows", "columns"),
        "layers": {"attention": attention, "ffn": ffn},
    }
    if c.get("experts"):
        experts, hidden = c["experts"], c["expert_hidden"]
        params["layers"]["moe"] = {
            "norm": norm,
            "gate": s.shape((layers, model, experts), None, None, None),
            "wi": s.shape((layers, experts, model, hidden), None, "expert", None, "expert_hidden"),
            "wo": s.shape((layers, experts, hidden, model), None, "expert", "expert_hidden", None),
        }
    return params


def normalise(x, scale):
    """Root-mean-square normalisation in float32, the result in bfloat16."""
    x = x.astype(jnp.float32)
    x = x * jax.lax.rsqrt(jnp.mean(jnp.square(x), axis=-1, keepdims=True) + 1e-6)
    return (x * scale).astype(jnp.bfloat16)


def attention(s, x, layer):
    """Causal self-attention over x [B,S,M]; several query heads may share a key head."""
    x = normalise(x, layer["norm"])
    weight = lambda name: layer[name].astype(jnp.bfloat16)
    heads = lambda y: s.split(y, "batch", None, "columns", None)
    query = heads(jnp.einsum("BSM,MND->BSND", x, weight("query")))
    key = heads(jnp.einsum("BSM,MKD->BSKD", x, weight("key")))
    value = heads(jnp.einsum("BSM,MKD->BSKD", x, weight("value")))
    if (shared := query.shape[2] // key.shape[2]) > 1:
        key, value = (jnp.repeat(y, shared, axis=2) for y in (key, value))
    logits = jnp.einsum("BSND,BTND->BNST", query, key).astype(jnp.float32)
    logits = logits * query.shape[-1] ** -0.5
    causal = jnp.tril(jnp.ones((x.shape[1], x.shape[1]), bool))
    weights = jax.nn.softmax(jnp.where(causal, logits, -1e9), axis=-1).astype(jnp.bfloat16)
    mixed = jnp.einsum("BNST,BTND->BSND", weights, value)
    return jnp.einsum("BSND,NDM->BSM", mixed, weight("out"))


def feed_forward(s, x, layer):
    """GELU network over x [B,S,M], gated where the layer has a gate."""
    x = normalise(x, layer["norm"])
    weight = lambda name: layer[name].astype(jnp.bfloat16)
    hide = lambda y: s.split(y, "batch", None, "columns")
    hidden = jax.nn.gelu(hide(jnp.einsum("BSM,MH->BSH", x, weight("wi"))))
    if "gate" in layer:
        hidden = hidden * hide(jnp.einsum("BSM,MH->BSH", x, weight("gate")))
    return jnp.einsum("BSH,HM->BSM", hidden, weight("wo"))


def block(s, capacity, x, layer):
    """One layer, as a scan body: attention and a feed-forward part, then a mixture if there is one."""
    with jax.named_scope("attention"):
        x = s.split(x + attention(s, x, layer["attention"]), "batch", None, "width")
    with jax.named_scope("ffn"):
        x = s.split(x + feed_forward(s, x, layer["ffn"]), "batch", None, "width")
    if "moe" not in layer:
        return x, 0.0
    with jax.named_scope("moe"):
        y, aux = moe_layer(x.astype(jnp.float32), layer["moe"], capacity, s.split)
    return s.split(x + y.astype(x.dtype), "batch", None, "width"), aux


def loss(c, s, params, tokens, targets):
    """Cross-entropy, averaged over the tokens, and the mixtures' auxiliary loss."""
    with jax.named_scope("embed"):
        x = s.split(params["embedding"].astype(jnp.bfloat16)[tokens], "batch", None, "width")
    capacity = -(-2 * c["sequence"] // c["experts"]) if c.get("experts") else 0
    body = functools.partial(block, s, capacity)
    if c["remat"] != "none":
        body = jax.checkpoint(body, prevent_cse=False, policy=SAVED[c["remat"]])
    with jax.named_scope("layers"):
        x, aux = jax.lax.scan(body, x, params["layers"])
    with jax.named_scope("softmax"):
        weight = params["softmax"].astype(jnp.bfloat16)
        logits = jnp.einsum("BSM,MV->BSV", normalise(x, params["norm"]), weight)
        logits = s.split(logits, "batch", None, "columns").astype(jnp.float32)
        picked = jnp.sum(jax.nn.one_hot(targets, logits.shape[-1]) * logits, axis=-1)
        return jnp.mean(jax.nn.logsumexp(logits, axis=-1) - picked) + 0.01 * jnp.sum(aux)


def make(c):
    """HLO text of one training step of configuration `c`."""
    s = Sharding(c)
    optimizer = {"adam": adam, "adafactor": adafactor}[c["optimizer"]]

    def train_step(params, state, batch):
        value, grads = jax.value_and_grad(functools.partial(loss, c, s))(params, batch["tokens"],
                                                                         batch["targets"])
        with jax.named_scope("update"):
            params, state = optimizer.apply(params, grads, state, RATE)
        return params, state, value

    params = parameter_shapes(c, s)
    tokens = s.shape((c["batch"], c["sequence"]), "batch", None, dtype=jnp.int32)
    args = (params, optimizer.state_shapes(params), {"tokens": tokens, "targets": tokens})
    return hlo_text.to_text(train_step, args, f"{c['name']}: {c['layers']} layers", donate=(0, 1))
