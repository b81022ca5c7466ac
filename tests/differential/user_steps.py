"""Training steps as JAX's users write them, for the pipeliner: name -> StableHLO of 8 devices, as JAX prints it.

optax, flax, nnx, haiku and equinox; data, tensor (2) and ZeRO-1 parallel; layers one by one and scanned; checkpoints by policy and by name;
shard_map in the layers; mixed precision; explicit out_shardings with donation; optimizers whose state is not donated; frozen weights;
low-rank adapters; two batches as one.
"""
import os

os.environ.setdefault("XLA_FLAGS", "--xla_force_host_platform_device_count=8")
os.environ.setdefault("JAX_PLATFORMS", "cpu")

import functools

import equinox as eqx
import flax.linen as nn
import haiku as hk
import jax
import jax.numpy as jnp
import numpy as np
import optax
from flax import nnx
from jax import shard_map
from jax.ad_checkpoint import checkpoint_name
from jax.sharding import Mesh, NamedSharding, PartitionSpec as P

MESH = Mesh(np.array(jax.devices()).reshape(4, 2), ("data", "model"))
BATCH, LENGTH, WIDTH, HEADS, HIDDEN, WORDS, LAYERS = 16, 8, 16, 2, 32, 32, 4
STEPS = {}


def step(make):
    STEPS[make.__name__] = make
    return make


# --- how parameters lie
def whole(x):
    return P()


def by_model(x):
    return P(*[None] * (x.ndim - 1), "model") if x.ndim > 1 and x.shape[-1] % 2 == 0 else P()


def by_data(x):
    return P("data") if x.ndim > 0 and x.shape[0] % 4 == 0 else P()


def inner_by_data(x):
    return P(None, "data") if x.ndim > 1 and x.shape[1] % 4 == 0 else P()


def placed(tree, spec):
    return jax.tree.map(lambda x: jax.ShapeDtypeStruct(x.shape, x.dtype, sharding=NamedSharding(MESH, spec(x))), tree)


def examples(dtype, *shape):
    return jax.ShapeDtypeStruct(shape, dtype, sharding=NamedSharding(MESH, P("data")))


# --- a decoder
def norm(x, gain):
    return x * jax.lax.rsqrt(jnp.mean(x * x, -1, keepdims=True) + 1e-6) * gain


def attention(x, p):
    q, k, v = (t.reshape(*x.shape[:2], HEADS, -1) for t in jnp.split(norm(x, p["norm1"]) @ p["qkv"], 3, -1))
    scores = jnp.einsum("bshk,bthk->bhst", q, k) / float(np.sqrt(WIDTH // HEADS))
    scores = jnp.where(jnp.tril(jnp.ones((x.shape[1], x.shape[1]), bool)), scores, -1e9)
    return x + jnp.einsum("bhst,bthk->bshk", jax.nn.softmax(scores), v).reshape(x.shape) @ p["out"]


def mlp(x, p):
    return x + jax.nn.gelu(norm(x, p["norm2"]) @ p["up"]) @ p["down"]


def megatron_mlp(x, p):
    def local(x, gain, up, down):
        return jax.lax.psum(jax.nn.gelu(norm(x, gain) @ up) @ down, "model")

    specs = (P("data"), P(), P(None, "model"), P("model"))
    return x + shard_map(local, mesh=MESH, in_specs=specs, out_specs=P("data"))(x, p["norm2"], p["up"], p["down"])


def block(x, p):
    return mlp(attention(x, p), p)


def shard_map_block(x, p):
    return megatron_mlp(attention(x, p), p)


def named_block(x, p):
    return mlp(checkpoint_name(attention(x, p), "attention"), p)


def decoder_parameters(scanned):
    def normal(*shape):
        return np.full(shape, .1, np.float32)

    def layer():
        return {"norm1": np.ones(WIDTH, np.float32), "norm2": np.ones(WIDTH, np.float32), "qkv": normal(WIDTH, 3 * WIDTH),
                "out": normal(WIDTH, WIDTH), "up": normal(WIDTH, HIDDEN), "down": normal(HIDDEN, WIDTH)}

    layers = [layer() for _ in range(LAYERS)]
    if scanned:
        layers = jax.tree.map(lambda *x: np.stack(x), *layers)
    return {"embedding": normal(WORDS, WIDTH), "layers": layers, "head": normal(WIDTH, WORDS)}


def cross_entropy(logits, words):
    return optax.softmax_cross_entropy_with_integer_labels(logits[:, :-1].astype(jnp.float32), words[:, 1:]).mean()


def decoder_loss(p, words, block=block, scanned=False, dtype=None):
    if dtype is not None:
        p = jax.tree.map(lambda x: x.astype(dtype), p)
    x = p["embedding"][words]
    if scanned:
        x, _ = jax.lax.scan(lambda x, layer: (block(x, layer), None), x, p["layers"])
    else:
        for layer in p["layers"]:
            x = block(x, layer)
    return cross_entropy(x @ p["head"], words)


def lowered(f, *arguments, donated=(), results=None):
    more = {} if results is None else {"out_shardings": results}
    return jax.jit(f, donate_argnums=donated, **more).lower(*arguments).as_text(debug_info=True)


def optax_step(loss, optimizer, parameters, spec=whole, state_spec=None, says_results=False):
    state = jax.eval_shape(optimizer.init, parameters)

    def f(parameters, state, words):
        value, gradient = jax.value_and_grad(loss)(parameters, words)
        updates, state = optimizer.update(gradient, state, parameters)
        return optax.apply_updates(parameters, updates), state, value

    arguments = placed(parameters, spec), placed(state, state_spec or spec)
    results = None
    if says_results:
        results = (*jax.tree.map(lambda x: x.sharding, arguments), NamedSharding(MESH, P()))
    return lowered(f, *arguments, examples(jnp.int32, BATCH, LENGTH), donated=(0, 1), results=results)


def decoder_step(optimizer, spec=whole, state_spec=None, says_results=False, **options):
    loss = functools.partial(decoder_loss, **options)
    return optax_step(loss, optimizer, decoder_parameters(options.get("scanned", False)), spec, state_spec, says_results)


def descent_step(loss, parameters, *more, donated=(0,)):
    """Plain gradient descent on what comes first."""
    def f(parameters, *more):
        value, gradient = jax.value_and_grad(loss)(parameters, *more)
        return jax.tree.map(lambda x, g: x - .1 * g, parameters, gradient), value

    return lowered(f, parameters, *more, donated=donated)


@step
def data_parallel_adam():
    return decoder_step(optax.adam(1e-3))


@step
def clipped_adamw():
    return decoder_step(optax.chain(optax.clip_by_global_norm(1.), optax.adamw(1e-3)))


@step
def tensor_parallel_adam():
    return decoder_step(optax.adam(1e-3), by_model)


@step
def tensor_parallel_scanned_with_results():
    return decoder_step(optax.adam(1e-3), by_model, says_results=True, scanned=True)


@step
def zero_1_with_results():
    return decoder_step(optax.adam(1e-3), whole, by_data, says_results=True)


@step
def zero_1_scanned_with_results():
    return decoder_step(optax.adam(1e-3), whole, inner_by_data, says_results=True, scanned=True)


@step
def checkpointed_scan():
    return decoder_step(optax.sgd(1e-2, momentum=.9), scanned=True, block=jax.checkpoint(block))


@step
def checkpointed_but_products():
    return decoder_step(optax.sgd(1e-2), block=jax.checkpoint(block, policy=jax.checkpoint_policies.dots_saveable))


@step
def checkpointed_but_names():
    policy = jax.checkpoint_policies.save_only_these_names("attention")
    return decoder_step(optax.sgd(1e-2), block=jax.checkpoint(named_block, policy=policy))


@step
def mixed_precision():
    return decoder_step(optax.adam(1e-3), dtype=jnp.bfloat16)


@step
def mixed_precision_scanned_tensor_parallel():
    return decoder_step(optax.adamw(1e-3), by_model, dtype=jnp.bfloat16, scanned=True)


@step
def shard_map_layers():
    return decoder_step(optax.sgd(1e-2), block=shard_map_block)


@step
def shard_map_scanned():
    return decoder_step(optax.adam(1e-3), block=shard_map_block, scanned=True)


@step
def shard_map_checkpointed():
    return decoder_step(optax.sgd(1e-2), block=jax.checkpoint(shard_map_block))


@step
def frozen_embedding():
    parameters = decoder_parameters(False)
    embedding = parameters.pop("embedding")
    return descent_step(lambda p, embedding, words: decoder_loss({**p, "embedding": embedding}, words), placed(parameters, whole),
                        placed(embedding, whole), examples(jnp.int32, BATCH, LENGTH))


@step
def low_rank_adapters():
    """The frozen gains are as long as the batch is large."""
    adapters = [{"a": np.ones((WIDTH, 2), np.float32), "b": np.zeros((2, 3 * WIDTH), np.float32)} for _ in range(LAYERS)]

    def loss(adapters, p, words):
        layers = [{**layer, "qkv": layer["qkv"] + own["a"] @ own["b"]} for layer, own in zip(p["layers"], adapters)]
        return decoder_loss({**p, "layers": layers}, words)

    return descent_step(loss, placed(adapters, whole), placed(decoder_parameters(False), whole), examples(jnp.int32, BATCH, LENGTH))


@step
def accumulated_gradients():
    """A loop over two parts of the batch."""
    def f(p, words):
        def part(total, words):
            return jax.tree.map(lambda a, b: a + b / 2, total, jax.value_and_grad(decoder_loss)(p, words)), None

        zero = jnp.zeros(()), jax.tree.map(jnp.zeros_like, p)
        (value, gradient), _ = jax.lax.scan(part, zero, words.reshape(2, BATCH // 2, LENGTH))
        return jax.tree.map(lambda x, g: x - .1 * g, p, gradient), value

    return lowered(f, placed(decoder_parameters(False), whole), examples(jnp.int32, BATCH, LENGTH), donated=(0,))


def written_out_parts(scanned, words, take):
    """Four parts of the batch, one after the other in the text; each has a key by its number."""
    def loss(p, words, key):
        kept = jax.random.bernoulli(key, .9, (len(words), LENGTH, WIDTH))
        return decoder_loss(p, words, scanned=scanned) + jnp.mean(
            jnp.where(kept, p["embedding"][words], 0) ** 2)

    def f(p, words, key):
        total, values = jax.tree.map(jnp.zeros_like, p), []
        for i, part in enumerate(take(words)):
            value, gradient = jax.value_and_grad(loss)(p, part, jax.random.fold_in(key, i))
            total = jax.tree.map(lambda a, b: a + b / 4, total, gradient)
            values.append(value)
        scale = jnp.minimum(1, 1 / optax.global_norm(total))
        return jax.tree.map(lambda x, g: x - .1 * scale * g, p, total), jnp.mean(jnp.stack(values))

    return lowered(f, placed(decoder_parameters(scanned), whole), words, jax.ShapeDtypeStruct((2,), jnp.uint32), donated=(0,))


@step
def written_out_slices():
    return written_out_parts(False, examples(jnp.int32, BATCH, LENGTH), lambda words: jnp.split(words, 4))


@step
def written_out_rows():
    return written_out_parts(True, jax.ShapeDtypeStruct((BATCH, LENGTH), jnp.int32), lambda words: words.reshape(4, -1, LENGTH))


def accumulated_dropout_step(words):
    """Parts with keys of their own, which layers of a scan split further; the numbers of a part's rows weigh them."""
    def loss(p, words, key):
        def layer(x, own):
            layer, key = own
            x = block(x, layer)
            return jnp.where(jax.random.bernoulli(key, .9, x.shape), x / .9, 0), None

        x, _ = jax.lax.scan(layer, p["embedding"][words], (p["layers"], jax.random.split(key, LAYERS)))
        values = optax.softmax_cross_entropy_with_integer_labels((x @ p["head"])[:, :-1], words[:, 1:])
        return jnp.mean(values * jnp.arange(1., 1 + len(words))[:, None])

    def f(p, words, key):
        def part(carried, words):
            value, total, key = carried
            key, own = jax.random.split(key)
            one, gradient = jax.value_and_grad(loss)(p, words, own)
            return (value + one, jax.tree.map(jnp.add, total, gradient), key), None

        zero = jnp.zeros(()), jax.tree.map(jnp.zeros_like, p), key
        (value, gradient, _), _ = jax.lax.scan(part, zero, words.reshape(2, BATCH // 2, LENGTH))
        return jax.tree.map(lambda x, g: x - .05 * g, p, gradient), value / 2

    return lowered(f, placed(decoder_parameters(True), whole), words, jax.ShapeDtypeStruct((2,), jnp.uint32), donated=(0,))


@step
def accumulated_dropout():
    return accumulated_dropout_step(jax.ShapeDtypeStruct((BATCH, LENGTH), jnp.int32))


@step
def accumulated_dropout_data_parallel():
    return accumulated_dropout_step(examples(jnp.int32, BATCH, LENGTH))


@step
def preferred_pairs():
    """Chosen and rejected sequences as one batch, compared pair by pair."""
    def log_probabilities(p, words):
        x, _ = jax.lax.scan(lambda x, layer: (block(x, layer), None), p["embedding"][words], p["layers"])
        logits = jax.nn.log_softmax((x @ p["head"])[:, :-1])
        return jnp.take_along_axis(logits, words[:, 1:, None], -1)[..., 0].sum(-1)

    def loss(p, chosen, rejected, margins):
        better, worse = jnp.split(log_probabilities(p, jnp.concatenate([chosen, rejected])), 2)
        return -jax.nn.log_sigmoid(.1 * (better - worse - margins)).mean()

    words = examples(jnp.int32, BATCH, LENGTH)
    return descent_step(loss, placed(decoder_parameters(True), whole), words, words, examples(jnp.float32, BATCH))


@step
def joined_views():
    """Two views as one batch, with a random mask of its rows, and labels of both."""
    def loss(p, first, second, labels, key):
        x = jnp.concatenate([first, second])
        for layer in p["layers"]:
            x = mlp(x, layer)
        x = jnp.where(jax.random.bernoulli(key, .8, x.shape), x, 0)
        logits = x.mean(1) @ p["head"]
        own = optax.softmax_cross_entropy_with_integer_labels(logits, jnp.concatenate([labels, (labels + 1) % WORDS])).mean()
        return own + jnp.mean((logits[:BATCH] - logits[BATCH:]) ** 2)

    rows = jax.ShapeDtypeStruct((BATCH, LENGTH, WIDTH), jnp.float32)
    return descent_step(loss, decoder_parameters(False), rows, rows, jax.ShapeDtypeStruct((BATCH,), jnp.int32),
                        jax.ShapeDtypeStruct((2,), jnp.uint32))


@step
def scanned_experts():
    """A router's top-k of [batch, length, experts] in each layer."""
    def layer(x, p):
        gates, chosen = jax.lax.top_k(jax.nn.softmax(x @ p["router"]), 2)
        weights = jnp.sum(jax.nn.one_hot(chosen, 4) * gates[..., None], 2)
        return x + jnp.einsum("bse,bsed->bsd", weights, jnp.tanh(jnp.einsum("bsd,edf->bsef", x, p["experts"]))), None

    rows = examples(jnp.float32, BATCH, LENGTH, WIDTH)
    parameters = {"router": np.full((LAYERS, WIDTH, 4), .1, np.float32), "experts": np.full((LAYERS, 4, WIDTH, WIDTH), .1, np.float32)}
    return descent_step(lambda p, x, y: jnp.mean((jax.lax.scan(layer, x, p)[0] - y) ** 2), placed(parameters, whole), rows, rows)


def scanned_square_step(layer):
    """`layer` of [batch, length, width] and a square weight."""
    rows = examples(jnp.float32, BATCH, LENGTH, WIDTH)
    weights = placed(np.full((LAYERS, WIDTH, WIDTH), .1, np.float32), whole)
    return descent_step(lambda p, x, y: jnp.mean((jax.lax.scan(layer, x, p)[0] - y) ** 2), weights, rows, rows)


@step
def scanned_recurrent_layers():
    """A loop over time within each layer adds up the gradient of its weight."""
    def layer(x, w):
        def turn(state, now):
            state = jnp.tanh(state @ w + now)
            return state, state

        return jax.lax.scan(turn, x[:, 0], x.swapaxes(0, 1))[1].swapaxes(0, 1), None

    return scanned_square_step(layer)


@step
def scanned_conditional_layers():
    """Layers of two kinds, one with a loop over time, by a predicate of the weights; a gradient of one is zeros in the other."""
    def recurrent(x, w):
        return jax.lax.scan(lambda state, now: (jnp.tanh(state @ w + now),) * 2, x[:, 0], x.swapaxes(0, 1))[1].swapaxes(0, 1)

    def layer(x, w):
        x = jax.lax.cond(jnp.sum(w) > 0, lambda x: jnp.tanh(x @ w), lambda x: x, x)
        return jax.lax.cond(jnp.sum(w) > 1, recurrent, lambda x, w: x + w[0], x, w), None

    return scanned_square_step(layer)


# --- sums over the batch beside the loss
@step
def biased_recurrent_layers():
    """The bias that a cell adds in the loop over time has a gradient that is reduced twice there."""
    def layer(x, p):
        def turn(state, now):
            state = jnp.tanh(state @ p["w"] + now + p["b"])
            return state, state

        return jax.lax.scan(turn, x[:, 0], x.swapaxes(0, 1))[1].swapaxes(0, 1), None

    rows = examples(jnp.float32, BATCH, LENGTH, WIDTH)
    parameters = {"w": np.full((LAYERS, WIDTH, WIDTH), .1, np.float32), "b": np.full((LAYERS, WIDTH), .1, np.float32)}
    return descent_step(lambda p, x, y: jnp.mean((jax.lax.scan(layer, x, p)[0] - y) ** 2), placed(parameters, whole), rows, rows)


@step
def whitened_advantages():
    """Policy gradients: advantages are made from rewards by a loop over time, and normalised over the whole batch."""
    def loss(p, words, rewards):
        _, advantages = jax.lax.scan(lambda later, now: (now + .9 * later,) * 2, jnp.zeros(BATCH), rewards.T, reverse=True)
        advantages = (advantages.T - advantages.mean()) / (advantages.std() + 1e-6)
        x = p["embedding"][words]
        for layer in p["layers"]:
            x = block(x, layer)
        chosen = jnp.take_along_axis(jax.nn.log_softmax(x @ p["head"]), words[..., None], -1)[..., 0]
        return -jnp.mean(chosen * advantages)

    return descent_step(loss, placed(decoder_parameters(False), whole), examples(jnp.int32, BATCH, LENGTH),
                        examples(jnp.float32, BATCH, LENGTH))


@step
def memory_bank():
    """Keys of all examples replace the oldest in a queue of negatives, and a value is printed as the step runs."""
    def f(p, queue, place, x, y):
        def loss(p):
            keys = jax.nn.tanh(scanned_residual(p, y))
            similar = jnp.concatenate([jnp.sum(scanned_residual(p, x) * keys, -1, keepdims=True), keys @ queue.T], -1)
            return -jax.nn.log_softmax(similar)[:, 0].mean(), keys

        (value, keys), gradient = jax.value_and_grad(loss, has_aux=True)(p)
        jax.debug.print("loss {}", value)
        return p - .1 * gradient, jax.lax.dynamic_update_slice(queue, keys, (place, 0)), place + BATCH, value

    rows = examples(jnp.float32, BATCH, WIDTH)
    queue = jax.ShapeDtypeStruct((4 * BATCH, WIDTH), jnp.float32)
    place = jax.ShapeDtypeStruct((), jnp.int32)
    return lowered(f, *placed((np.full((LAYERS, WIDTH, WIDTH), .1, np.float32), queue, place), whole), rows, rows, donated=(0, 1))


# --- what is not donated looks like examples
def scanned_residual(p, x):
    return jax.lax.scan(lambda x, w: (x + jnp.tanh(x @ w), None), x, p)[0]


def undonated_state_step(optimizer):
    """The examples are floats, as the optimizer's state is, and the weights alone are donated."""
    def f(p, state, x, y):
        value, gradient = jax.value_and_grad(lambda p: jnp.mean((scanned_residual(p, x) - y) ** 2))(p)
        updates, state = optimizer.update(gradient, state, p)
        return optax.apply_updates(p, updates), state, value

    p = np.full((LAYERS, WIDTH, WIDTH), .1, np.float32)
    rows = examples(jnp.float32, BATCH, WIDTH)
    return lowered(f, placed(p, whole), placed(jax.eval_shape(optimizer.init, p), whole), rows, rows, donated=(0,))


@step
def undonated_adam():
    return undonated_state_step(optax.adam(1e-3))


@step
def undonated_clipped_adamw():
    rate = optax.warmup_cosine_decay_schedule(0., 1e-2, 2, 10)
    return undonated_state_step(optax.chain(optax.clip_by_global_norm(.5), optax.adamw(rate), optax.ema(.9)))


@step
def undonated_adam_if_finite():
    return undonated_state_step(optax.apply_if_finite(optax.adam(1e-3), 3))


@step
def low_rank_adapters_accumulated():
    """A loop takes the parts of the batch one by one, one within it the layers, frozen weights and adapters."""
    frozen = {"up": np.full((LAYERS, WIDTH, HIDDEN), .1, np.float32), "down": np.full((LAYERS, HIDDEN, WIDTH), .1, np.float32)}
    adapters = {"a": np.full((LAYERS, WIDTH, 2), .1, np.float32), "b": np.full((LAYERS, 2, HIDDEN), .1, np.float32)}

    def loss(adapters, frozen, x, y):
        def layer(x, p):
            base, own = p
            return x + jax.nn.silu(x @ base["up"] + x @ own["a"] @ own["b"]) @ base["down"], None

        return jnp.mean((jax.lax.scan(layer, x, (frozen, adapters))[0] - y) ** 2)

    def f(adapters, frozen, xs, ys):
        def part(total, rows):
            return jax.tree.map(jnp.add, total, jax.value_and_grad(loss)(adapters, frozen, *rows)), None

        zero = jnp.zeros(()), jax.tree.map(jnp.zeros_like, adapters)
        (value, gradient), _ = jax.lax.scan(part, zero, (xs, ys))
        return jax.tree.map(lambda x, g: x - .1 * g, adapters, gradient), value

    rows = jax.ShapeDtypeStruct((2, BATCH, WIDTH), jnp.float32)
    return lowered(f, placed(adapters, whole), placed(frozen, whole), rows, rows, donated=(0,))


# --- by libraries
class FlaxBlock(nn.Module):
    @nn.compact
    def __call__(self, x):
        h = nn.LayerNorm()(x)
        x = x + nn.MultiHeadDotProductAttention(num_heads=HEADS)(h, h)
        return x + nn.Dense(WIDTH)(nn.gelu(nn.Dense(HIDDEN)(nn.LayerNorm()(x))))


class FlaxDecoder(nn.Module):
    checkpoints: bool = False

    @nn.compact
    def __call__(self, words):
        x = nn.Embed(WORDS, WIDTH)(words)
        layer = nn.remat(FlaxBlock) if self.checkpoints else FlaxBlock
        for _ in range(LAYERS):
            x = layer()(x)
        return nn.Dense(WORDS)(nn.LayerNorm()(x))


def flax_step(model, optimizer, spec=whole):
    parameters = jax.eval_shape(model.init, jax.random.PRNGKey(0), jnp.zeros((1, LENGTH), jnp.int32))
    return optax_step(lambda p, words: cross_entropy(model.apply(p, words), words), optimizer, parameters, spec)


@step
def flax_adamw():
    return flax_step(FlaxDecoder(), optax.adamw(1e-3))


@step
def flax_checkpointed_tensor_parallel():
    return flax_step(FlaxDecoder(True), optax.sgd(1e-2), by_model)


class FlaxRecurrent(nn.Module):
    @nn.compact
    def __call__(self, words):
        x = nn.Embed(WORDS, WIDTH)(words)
        for _ in range(LAYERS):
            x = x + nn.RNN(nn.OptimizedLSTMCell(WIDTH))(x)
        return nn.Dense(WORDS)(x)


@step
def flax_recurrent():
    """The gradients of a cell's four gates are slices of one product."""
    return flax_step(FlaxRecurrent(), optax.adam(1e-3))


def haiku_block(x):
    y = hk.LayerNorm(-1, True, True)(x)
    mask = jnp.tril(jnp.ones((1, 1, LENGTH, LENGTH), bool))
    x += hk.MultiHeadAttention(HEADS, WIDTH // HEADS, w_init=hk.initializers.VarianceScaling(), model_size=WIDTH)(y, y, y, mask)
    return x + hk.Linear(WIDTH)(jax.nn.gelu(hk.Linear(HIDDEN)(hk.LayerNorm(-1, True, True)(x))))


def haiku_step(blocks, optimizer, spec=whole):
    """`blocks`: a haiku function that applies all of them."""
    net = hk.without_apply_rng(hk.transform(
        lambda words: hk.Linear(WORDS)(hk.LayerNorm(-1, True, True)(blocks(hk.Embed(WORDS, WIDTH)(words))))))
    parameters = jax.eval_shape(net.init, jax.random.PRNGKey(0), jnp.zeros((1, LENGTH), jnp.int32))
    return optax_step(lambda p, words: cross_entropy(net.apply(p, words), words), optimizer, parameters, spec)


@step
def haiku_adam():
    return haiku_step(lambda x: functools.reduce(lambda x, _: haiku_block(x), range(LAYERS), x), optax.adam(1e-3))


@step
def haiku_layer_stack_tensor_parallel():
    return haiku_step(lambda x: hk.experimental.layer_stack(LAYERS)(haiku_block)(x), optax.sgd(1e-2, momentum=.9), by_model)


def regression_step(apply, parameters):
    rows = examples(jnp.float32, BATCH, WIDTH)
    return descent_step(lambda p, x, y: jnp.mean((apply(p, x) - y) ** 2), placed(parameters, whole), rows, rows)


@step
def equinox_mlp():
    parameters, static = eqx.partition(eqx.nn.MLP(WIDTH, WIDTH, HIDDEN, 6, key=jax.random.PRNGKey(0)), eqx.is_array)
    return regression_step(lambda p, x: jax.vmap(eqx.combine(p, static))(x), parameters)


class NnxNet(nnx.Module):
    def __init__(self):
        for i in range(6):
            setattr(self, f"layer{i}", nnx.Linear(WIDTH, WIDTH, rngs=nnx.Rngs(i)))

    def __call__(self, x):
        for i in range(6):
            x = x + jnp.tanh(getattr(self, f"layer{i}")(x))
        return x


@step
def nnx_residual():
    graph, state = nnx.split(NnxNet())
    return regression_step(lambda state, x: nnx.merge(graph, state)(x), state)
