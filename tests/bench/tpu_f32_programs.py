"""Steps in f32 at DEFAULT precision, as `jax.numpy` makes them where nobody names a type, for tpu_programs.py beside
tpu_program_list.py: what products read is rounded to bf16 by the compiler. All are cut by examples over eight devices.
Dims: B batch, S and T positions, N heads, D head width.
"""
import jax
import jax.numpy as jnp

from tpu_program_list import sgd, shape, training
from tpu_user_programs import PER_DEVICE, cross_entropy, tokens


def norm(x):
    centred = x - x.mean(-1, keepdims=True)
    return centred * jax.lax.rsqrt((centred ** 2).mean(-1, keepdims=True) + 1e-6)


def layer(p, x, activation, heads=8):
    batch, length, width = x.shape
    q, k, v = ((norm(x) @ p[name]).reshape(batch, length, heads, width // heads) for name in "qkv")
    scores = jnp.einsum("BSND,BTND->BNST", q, k) / (width // heads) ** 0.5
    scores = jnp.where(jnp.tril(jnp.ones((length, length), bool)), scores, -1e9)
    mixed = jnp.einsum("BNST,BTND->BSND", jax.nn.softmax(scores), v)
    x = x + mixed.reshape(x.shape) @ p["o"]
    return x + activation(norm(x) @ p["up"]) @ p["down"]


def transformer(activation, scanned, layers=4, batch=64, length=512, width=1024, hidden=4096, vocabulary=8192):
    def build(mesh):
        dims = {**{name: (width, width) for name in "qkvo"}, "up": (width, hidden), "down": (hidden, width)}
        weights = ({name: shape(mesh, (layers, *d)) for name, d in dims.items()} if scanned
                   else [{name: shape(mesh, d) for name, d in dims.items()} for _ in range(layers)])

        def loss(p, texts, labels):
            x = p["tokens"][texts]
            if scanned:
                x, _ = jax.lax.scan(lambda x, row: (layer(row, x, activation), None), x, p["layers"])
            else:
                for row in p["layers"]:
                    x = layer(row, x, activation)
            return cross_entropy(norm(x) @ p["tokens"].T, labels)
        ids = tokens(mesh, batch, length)
        return training(loss, {"tokens": shape(mesh, (vocabulary, width)), "layers": weights}, (ids, ids), sgd)
    return build


def perceptron(activation, width=4096, layers=6, batch=65536):
    def build(mesh):
        def loss(weights, x, y):
            for w in weights:
                x = activation(x @ w)
            return jnp.mean((x - y) ** 2)
        examples = shape(mesh, (batch, width), PER_DEVICE)
        return training(loss, [shape(mesh, (width, width)) for _ in range(layers)], (examples, examples), sgd)
    return build


def convolutions(mesh, batch=1024):
    kernels = [(7, 7, 3, 64), (3, 3, 64, 128), (3, 3, 128, 128), (3, 3, 128, 256), (3, 3, 256, 256)]
    strides = (2, 2, 1, 2, 1)

    def loss(weights, images, labels):
        x = images
        for w, stride in zip(weights, strides):
            x = jax.lax.conv_general_dilated(x, w, (stride, stride), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC"))
            x = jax.nn.relu((x - x.mean((0, 1, 2))) * jax.lax.rsqrt(x.var((0, 1, 2)) + 1e-5))
        return cross_entropy(x.mean((1, 2)) @ weights[-1], labels)
    weights = [shape(mesh, dims) for dims in (*kernels, (256, 1000))]
    return training(loss, weights, (shape(mesh, (batch, 224, 224, 3), PER_DEVICE), tokens(mesh, batch)), sgd)


def recurrent(mesh, steps=64, batch=2048, width=1024):
    def loss(p, xs):
        def cell(state, x):
            hidden, memory = state
            i, f, o, update = jnp.split(x @ p["x"] + hidden @ p["h"], 4, -1)
            memory = jax.nn.sigmoid(f) * memory + jax.nn.sigmoid(i) * jnp.tanh(update)
            hidden = jax.nn.sigmoid(o) * jnp.tanh(memory)
            return (hidden, memory), hidden
        zero = jnp.zeros(xs.shape[1:])
        return jnp.mean(jax.lax.scan(cell, (zero, zero), xs)[1] ** 2)
    weights = {name: shape(mesh, (width, 4 * width)) for name in "xh"}
    return training(loss, weights, (shape(mesh, (steps, batch, width), None, PER_DEVICE),), sgd)


PROGRAMS = [(name, topology, "data=8", build) for name, topology, build in (
    ("f32 Transformer, relu", "v5p:2x2x2", transformer(jax.nn.relu, False)), ("f32 Transformer, gelu", "v5e:2x4", transformer(jax.nn.gelu, False)),
    ("f32 Transformer, relu, scanned", "v5e:2x4", transformer(jax.nn.relu, True)),
    ("f32 Transformer, gelu, scanned", "v5p:2x2x2", transformer(jax.nn.gelu, True)),
    ("f32 perceptron, relu", "v6e:2x4", perceptron(jax.nn.relu)), ("f32 perceptron, tanh", "v5p:2x2x2", perceptron(jnp.tanh)),
    ("f32 convolutions", "v5e:2x4", convolutions), ("f32 recurrence", "v5p:2x2x2", recurrent))]
