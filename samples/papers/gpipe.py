"""The models of GPipe's tables at true size, from shapes alone: training steps without annotations.

Weights and one optimizer slot are float32, activations bfloat16. `transformer`: GPipe's Transformer-L (d_model
2048, hidden 8192, 32 heads), its layers a scan; `ends` adds embedding and softmax. `conformer`: feed-forward, attention, convolution, feed-forward, all blocks alike (the GSPMD paper's pipelining study).
"""

import jax
import jax.numpy as jnp

import gen  # noqa: F401  (puts ../gen on the path)
import hlo_text

RATE = 0.01


def half(x):
    return x.astype(jnp.bfloat16)


def normalised(x, scale, shift):
    x = x.astype(jnp.float32)
    x = x - jnp.mean(x, -1, keepdims=True)
    return half(x * jax.lax.rsqrt(jnp.mean(x * x, -1, keepdims=True) + 1e-6) * scale + shift)


@jax.custom_vjp
def norm(x, scale, shift):
    """Layer norm that keeps its input alone."""
    return normalised(x, scale, shift)


norm.defvjp(lambda *args: (normalised(*args), args), lambda args, g: jax.vjp(normalised, *args)[1](g))


@jax.custom_vjp
def softmax(x):
    """Softmax that keeps its result alone."""
    return jax.nn.softmax(x, -1)


def softmax_backward(y, g):
    return (y * (g - jnp.sum(y * g, -1, keepdims=True)),)


softmax.defvjp(lambda x: (softmax(x),) * 2, softmax_backward)


def attention(x, p):
    with jax.named_scope("attention"):
        h = norm(x, *p["attention_norm"])
        query, key, value = (jnp.einsum("BSM,MND->BSND", h, half(p[n])) + half(p[n + "_bias"])
                             for n in ("query", "key", "value"))
        logits = jnp.einsum("BSND,BTND->BNST", query * half(jnp.float32(query.shape[-1] ** -0.5)), key)
        mixed = jnp.einsum("BNST,BTND->BSND", softmax(logits), value)
        return x + jnp.einsum("BSND,NDM->BSM", mixed, half(p["out"])) + half(p["out_bias"])


def feed_forward(x, p, name="ffn"):
    with jax.named_scope(name):
        h = norm(x, *p[name + "_norm"])
        h = jax.nn.relu(h @ half(p[name + "_in"]) + half(p[name + "_in_bias"]))
        return x + h @ half(p[name + "_out"]) + half(p[name + "_out_bias"])


def convolution(x, w, stride=1, groups=1):
    dims = ("NHWC", "HWIO", "NHWC") if x.ndim == 4 else ("NWC", "WIO", "NWC")
    return jax.lax.conv_general_dilated(x, half(w), (stride,) * (x.ndim - 2), "SAME", dimension_numbers=dims,
                                        feature_group_count=groups)


def f32(*dims):
    return jax.ShapeDtypeStruct(dims, jnp.float32)


def norm_shapes(layers, model):
    return f32(layers, model), f32(layers, model)


def attention_shapes(layers, model, heads, width=None):
    width = width or model // heads
    names = ("query", "key", "value")
    return dict(attention_norm=norm_shapes(layers, model), out=f32(layers, heads, width, model),
                out_bias=f32(layers, model), **{n: f32(layers, model, heads, width) for n in names},
                **{n + "_bias": f32(layers, heads, width) for n in names})


def ffn_shapes(layers, model, hidden, name="ffn"):
    return {name + "_norm": norm_shapes(layers, model), name + "_in": f32(layers, model, hidden),
            name + "_in_bias": f32(layers, hidden), name + "_out": f32(layers, hidden, model),
            name + "_out_bias": f32(layers, model)}


def text(loss, params, batch, about):
    """One step: gradients, momentum, update."""
    def step(params, momentum, batch):
        value, grads = jax.value_and_grad(loss)(params, batch)
        momentum = jax.tree.map(lambda m, g: 0.9 * m + g, momentum, grads)
        return jax.tree.map(lambda p, m: p - RATE * m, params, momentum), momentum, value
    return hlo_text.to_text(step, (params, params, batch), about, donate=(0, 1))


def cross_entropy(x, weight, targets):
    with jax.named_scope("loss"):
        logits = (x @ half(weight)).astype(jnp.float32)
        picked = jnp.take_along_axis(logits, targets[..., None], -1)[..., 0]
        return jnp.mean(jax.nn.logsumexp(logits, -1) - picked)


def scan(block, x, layers):
    return jax.lax.scan(lambda x, p: (block(x, p), None), x, layers)[0]


def transformer(layers, batch=32, ends=True, model=2048, hidden=8192, heads=32, vocabulary=32000, sequence=1024, width=None):
    params = dict(layers=attention_shapes(layers, model, heads, width) | ffn_shapes(layers, model, hidden))
    tokens = jax.ShapeDtypeStruct((batch, sequence), jnp.int32)
    inputs = dict(x=jax.ShapeDtypeStruct((batch, sequence, model), jnp.bfloat16))
    if ends:
        params |= dict(embedding=f32(vocabulary, model), softmax=f32(model, vocabulary))
        inputs = dict(tokens=tokens, targets=tokens)

    def loss(p, batch):
        x = half(p["embedding"])[batch["tokens"]] if ends else batch["x"]
        x = scan(lambda x, p: feed_forward(attention(x, p), p), x, p["layers"])
        if not ends:
            return jnp.mean(x.astype(jnp.float32))
        return cross_entropy(x, p["softmax"], batch["targets"])

    return text(loss, params, inputs, f"Transformer-{layers}" + ("" if ends else " without its ends"))


def conformer(layers, batch=64, model=1024, hidden=4096, heads=8, kernel=32, sequence=512):
    params = dict(layers=attention_shapes(layers, model, heads) | ffn_shapes(layers, model, hidden, "first")
                  | ffn_shapes(layers, model, hidden, "second")
                  | dict(conv_norm=norm_shapes(layers, model), conv_in=f32(layers, model, model),
                         conv=f32(layers, kernel, 1, model), conv_out=f32(layers, model, model)),
                  softmax=f32(model, 1024))

    def block(x, p):
        x = attention(feed_forward(x, p, "first"), p)
        h = jax.nn.relu(norm(x, *p["conv_norm"]) @ half(p["conv_in"]))
        x = x + convolution(h, p["conv"], groups=model) @ half(p["conv_out"])
        return feed_forward(x, p, "second")

    def loss(p, batch):
        x = scan(block, batch["x"], p["layers"])
        return cross_entropy(x, p["softmax"], batch["targets"])

    inputs = dict(x=jax.ShapeDtypeStruct((batch, sequence, model), jnp.bfloat16),
                  targets=jax.ShapeDtypeStruct((batch, sequence), jnp.int32))
    return text(loss, params, inputs, f"{layers} Conformer blocks")
