"""Losses of models that libraries from PyPI make: flax, equinox, optax. Imported by grad_test.py if they are installed."""
import equinox
import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np
import optax

from grad_losses import array, integers

MODELS = []


def flax_model(name, module, inputs, loss, heavy=True, **call):
    variables = jax.tree.map(np.asarray, module.init(jax.random.key(0), inputs, **call))

    def function(variables, inputs):
        return loss(module.apply(variables, inputs, **call))
    MODELS.append((name, function, (variables, inputs), heavy))


def cross_entropy(labels):
    def loss(logits):
        return optax.softmax_cross_entropy_with_integer_labels(logits, labels).mean()
    return loss


class Mlp(nn.Module):
    @nn.compact
    def __call__(self, x):
        x = nn.LayerNorm()(nn.gelu(nn.Dense(24)(x)))
        return nn.Dense(5)(nn.RMSNorm()(nn.silu(nn.Dense(16)(x))))


class ConvNet(nn.Module):
    @nn.compact
    def __call__(self, x):
        x = nn.relu(nn.GroupNorm(num_groups=2)(nn.Conv(8, (3, 3), strides=2)(x)))
        x = nn.max_pool(x, (2, 2), strides=(2, 2))
        y = nn.Conv(8, (3, 3), feature_group_count=8)(x)
        x = x + nn.swish(nn.Conv(8, (1, 1))(y))
        x = nn.ConvTranspose(6, (3, 3), strides=(2, 2))(x)
        return nn.Dense(5)(nn.avg_pool(x, (2, 2), strides=(2, 2)).reshape(x.shape[0], -1))


class Block(nn.Module):
    @nn.compact
    def __call__(self, x):
        y = nn.LayerNorm()(x)
        mask = nn.make_causal_mask(jnp.ones(x.shape[:2]))
        x = x + nn.MultiHeadDotProductAttention(num_heads=2, qkv_features=16)(y, y, mask=mask)
        return x + nn.Dense(x.shape[-1])(nn.gelu(nn.Dense(32)(nn.LayerNorm()(x))))


class LanguageModel(nn.Module):
    @nn.compact
    def __call__(self, tokens):
        embed = nn.Embed(11, 16)
        x = embed(tokens) + self.param("positions", nn.initializers.normal(0.1), (tokens.shape[1], 16))
        for _ in range(2):
            x = Block()(x)
        return embed.attend(nn.LayerNorm()(x))


class ScannedModel(nn.Module):
    @nn.compact
    def __call__(self, x):
        class Layer(nn.Module):
            @nn.compact
            def __call__(self, x, _):
                return Block()(x), None
        layers = nn.scan(nn.remat(Layer), variable_axes={"params": 0}, split_rngs={"params": True}, length=3)
        return layers()(x, None)[0]


class Recurrent(nn.Module):
    @nn.compact
    def __call__(self, x):
        return nn.RNN(nn.GRUCell(7))(nn.RNN(nn.OptimizedLSTMCell(6))(x))


flax_model("flax_mlp", Mlp(), array(1, 6, 12), cross_entropy(integers(2, 5, 6)))
flax_model("flax_convnet", ConvNet(), array(1, 2, 16, 16, 3), cross_entropy(integers(2, 5, 2)))
flax_model("flax_language_model", LanguageModel(), integers(1, 11, 2, 6), cross_entropy(integers(2, 11, 2, 6)))
flax_model("flax_scanned_remat", ScannedModel(), array(1, 2, 6, 16), lambda y: jnp.mean(jnp.square(y)), heavy=False)
flax_model("flax_recurrent", Recurrent(), array(1, 3, 5, 4), lambda y: jnp.mean(jnp.sin(y)))


def equinox_model(name, model, inputs, loss, heavy=True):
    leaves, static = equinox.partition(model, equinox.is_inexact_array)
    leaves = jax.tree.map(np.asarray, leaves)

    def function(leaves, inputs):
        return loss(jax.vmap(equinox.combine(leaves, static))(inputs))
    MODELS.append((name, function, (leaves, inputs), heavy))


equinox_model("equinox_mlp", equinox.nn.MLP(6, 3, 16, 2, key=jax.random.key(1)), array(1, 5, 6),
              lambda y: optax.huber_loss(y, jnp.ones_like(y)).mean())
equinox_model("equinox_convolution",
              equinox.nn.Sequential([equinox.nn.Conv2d(3, 6, 3, stride=2, padding=1, key=jax.random.key(1)),
                                     equinox.nn.Lambda(jax.nn.elu), equinox.nn.AvgPool2d(2, 2),
                                     equinox.nn.Lambda(jnp.ravel), equinox.nn.Linear(54, 4, key=jax.random.key(2))]),
              array(1, 3, 3, 12, 12), lambda y: jnp.mean(optax.sigmoid_binary_cross_entropy(y, jnp.ones_like(y))))


def clipped_step(weights, x, y):
    """A loss of what one optimizer step leaves: gradients of gradients, as in meta-learning."""
    def inner(w):
        return jnp.mean(jnp.square(jnp.tanh(x @ w["a"]) @ w["b"] - y))
    optimizer = optax.chain(optax.clip_by_global_norm(1.0), optax.adam(1e-2))
    updates, _ = optimizer.update(jax.grad(inner)(weights), optimizer.init(weights), weights)
    return inner(optax.apply_updates(weights, updates))


MODELS.append(("optax_meta_step", clipped_step, ({"a": array(1, 5, 8), "b": array(2, 8, 3)}, array(3, 7, 5), array(4, 7, 3)),
               False))
