"""Small training steps of many kinds, for the pipeliner: un-annotated JAX, printed as HLO text.

Each has init(rng) -> (params, stats, batch), and loss(params, stats, batch) -> (loss, stats). The step returns updated
parameters, momenta, statistics and the loss. `reference` is the same step run on M micro-batches one after another: the
mean of losses, gradients and statistics.
"""
import pathlib
import sys

import jax
import jax.numpy as jnp
import numpy as np

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "samples" / "gen"))
import hlo_text  # noqa: E402

BATCH, SEQUENCE, WIDTH, HEADS, HIDDEN, WORDS, LAYERS = 32, 8, 16, 2, 32, 24, 8


def normal(rng, *shape):
    return (rng.normal(size=shape) / np.sqrt(shape[0] if len(shape) > 1 else 1)).astype(np.float32)


def norm(x, scale):
    return scale * x * jax.lax.rsqrt(jnp.mean(x * x, -1, keepdims=True) + 1e-6)


def attention(x, p):
    h = norm(x, p["norm"])
    q, k, v = (jnp.einsum("bsd,dhk->bshk", h, p[n]) for n in ("query", "key", "value"))
    scores = jnp.einsum("bshk,bthk->bhst", q, k) / np.sqrt(WIDTH // HEADS)
    scores = jnp.where(jnp.tril(jnp.ones((SEQUENCE, SEQUENCE), bool)), scores, -1e9)
    return x + jnp.einsum("bhst,bthk,hkd->bsd", jax.nn.softmax(scores, -1), v, p["out"])


def feed_forward(x, p):
    return x + jax.nn.relu(norm(x, p["norm"]) @ p["wi"]) @ p["wo"]


def attention_weights(rng):
    head = WIDTH // HEADS
    return dict(norm=np.ones(WIDTH, np.float32), out=normal(rng, HEADS, head, WIDTH),
                **{n: normal(rng, WIDTH, HEADS, head) for n in ("query", "key", "value")})


def ffn_weights(rng):
    return dict(norm=np.ones(WIDTH, np.float32), wi=normal(rng, WIDTH, HIDDEN), wo=normal(rng, HIDDEN, WIDTH))


def tokens(rng):
    return dict(tokens=rng.integers(0, WORDS, (BATCH, SEQUENCE)).astype(np.int32),
                targets=rng.integers(0, WORDS, (BATCH, SEQUENCE)).astype(np.int32))


def cross_entropy(logits, targets):
    return -jnp.mean(jnp.take_along_axis(jax.nn.log_softmax(logits), targets[..., None], -1))


class Dense:
    """Transformer language model; layers as repeated blocks."""
    exact = True  # nothing mixes examples: the whole batch's numbers

    def init(self, rng):
        layers = [dict(attention=attention_weights(rng), ffn=ffn_weights(rng)) for _ in range(LAYERS)]
        params = dict(embedding=normal(rng, WORDS, WIDTH), norm=np.ones(WIDTH, np.float32),
                      softmax=normal(rng, WIDTH, WORDS), layers=self.stack(layers))
        return params, {}, tokens(rng)

    def stack(self, layers):
        return layers

    def blocks(self, x, params):
        for p in params["layers"]:
            x = feed_forward(attention(x, p["attention"]), p["ffn"])
        return x

    def loss(self, params, stats, batch):
        x = self.blocks(params["embedding"][batch["tokens"]], params)
        return cross_entropy(norm(x, params["norm"]) @ params["softmax"], batch["targets"]), stats


class Scan(Dense):
    """The same with a loop over stacked weights."""

    def stack(self, layers):
        return jax.tree.map(lambda *x: np.stack(x), *layers)

    def blocks(self, x, params):
        body = lambda x, p: (feed_forward(attention(x, p["attention"]), p["ffn"]), None)
        return jax.lax.scan(body, x, params["layers"])[0]


class Checkpointed(Scan):
    """The same with rematerialised layers."""

    def blocks(self, x, params):
        body = jax.checkpoint(lambda x, p: (feed_forward(attention(x, p["attention"]), p["ffn"]), None))
        return jax.lax.scan(body, x, params["layers"])[0]


class Tied(Dense):
    """The softmax is the embedding: a weight of the first and the last stage."""

    def loss(self, params, stats, batch):
        x = self.blocks(params["embedding"][batch["tokens"]], params)
        x = norm(x, params["norm"]) @ params["softmax"] @ params["softmax"].T
        return cross_entropy(x @ params["embedding"].T, batch["targets"]), stats


class Masked(Dense):
    """Padding counts for nothing; the loss is divided by the whole batch's number of words."""
    exact = True

    def init(self, rng):
        params, stats, batch = super().init(rng)
        batch["mask"] = (rng.random((BATCH, SEQUENCE)) < 0.7).astype(np.float32)
        return params, stats, batch

    def loss(self, params, stats, batch, words=None):
        x = self.blocks(params["embedding"][batch["tokens"]], params)
        logits = jax.nn.log_softmax(norm(x, params["norm"]) @ params["softmax"])
        ce = -jnp.take_along_axis(logits, batch["targets"][..., None], -1)[..., 0]
        return jnp.sum(ce * batch["mask"]) / jnp.sum(batch["mask"]), stats


class Experts(Dense):
    """Every other feed-forward layer is a mixture of experts with GShard's auxiliary loss over the batch."""
    exact = False
    experts = 4

    def init(self, rng):
        params, stats, batch = super().init(rng)
        for p in params["layers"][1::2]:
            p["ffn"] = dict(norm=np.ones(WIDTH, np.float32), gate=normal(rng, WIDTH, self.experts),
                            wi=normal(rng, self.experts, WIDTH, HIDDEN) * 4,
                            wo=normal(rng, self.experts, HIDDEN, WIDTH) * 4)
        return params, stats, batch

    def experts_layer(self, x, p):
        h = norm(x, p["norm"])
        gates = jax.nn.softmax(h @ p["gate"])
        chosen = jax.nn.one_hot(jnp.argmax(gates, -1), self.experts)
        density, proxy = jnp.mean(chosen, (0, 1)), jnp.mean(gates, (0, 1))
        place = (jnp.cumsum(chosen, 1) - 1) * chosen  # within an example
        slots = jax.nn.one_hot(place.astype(jnp.int32), 4) * chosen[..., None]
        inputs = jnp.einsum("bsec,bsd->ebcd", slots, h)
        outputs = jnp.einsum("ebch,ehd->ebcd", jax.nn.relu(jnp.einsum("ebcd,edh->ebch", inputs, p["wi"])), p["wo"])
        combine = slots * jnp.sum(gates * chosen, -1)[..., None, None]
        return x + jnp.einsum("bsec,ebcd->bsd", combine, outputs), self.experts * jnp.sum(density * proxy)

    def loss(self, params, stats, batch):
        x, auxiliary = params["embedding"][batch["tokens"]], 0.0
        for p in params["layers"]:
            x = attention(x, p["attention"])
            if "gate" in p["ffn"]:
                x, term = self.experts_layer(x, p["ffn"])
                auxiliary += term
            else:
                x = feed_forward(x, p["ffn"])
        return cross_entropy(norm(x, params["norm"]) @ params["softmax"], batch["targets"]) + 0.01 * auxiliary, stats


def convolution(x, w, stride=1):
    return jax.lax.conv_general_dilated(x, w, (stride, stride), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC"))


def images(rng, size=8, channels=3):
    return dict(images=rng.normal(size=(BATCH, size, size, channels)).astype(np.float32),
                labels=rng.integers(0, 10, BATCH).astype(np.int32))


class ResNet:
    """Residual convolutions with batch norm: statistics of the micro-batch, moving averages of all."""
    exact = False
    widths = (8, 8, 8, 16, 16, 16, 32, 32)

    def init(self, rng):
        blocks, stats, before = [], [], 8
        for width in self.widths:
            blocks.append(dict(a=normal(rng, 3, 3, before, width) / 3, b=normal(rng, 3, 3, width, width) / 3,
                               scale=np.ones(width, np.float32), bias=np.zeros(width, np.float32)))
            if width != before:
                blocks[-1]["project"] = normal(rng, 1, 1, before, width)
            stats.append(dict(mean=np.zeros(width, np.float32), variance=np.ones(width, np.float32)))
            before = width
        params = dict(stem=normal(rng, 3, 3, 3, 8) / 3, blocks=blocks, head=normal(rng, before, 10))
        return params, stats, images(rng)

    def loss(self, params, stats, batch):
        x, moving = convolution(batch["images"], params["stem"]), []
        for p, s in zip(params["blocks"], stats):
            stride = 2 if "project" in p else 1
            y = convolution(x, p["a"], stride)
            mean, variance = jnp.mean(y, (0, 1, 2)), jnp.var(y, (0, 1, 2))
            y = (y - mean) * jax.lax.rsqrt(variance + 1e-3) * p["scale"] + p["bias"]
            y = convolution(jax.nn.relu(y), p["b"])
            x = jax.nn.relu(y + (convolution(x, p["project"], stride) if "project" in p else x))
            moving.append(dict(mean=0.9 * s["mean"] + 0.1 * mean, variance=0.9 * s["variance"] + 0.1 * variance))
        return cross_entropy(jnp.mean(x, (1, 2)) @ params["head"], batch["labels"]), moving


class UNet:
    """Skip connections from every level down to the one up: values that cross many stages."""
    exact = True
    widths = (4, 8, 12, 16)

    def init(self, rng):
        down, up, before = [], [], 3
        for width in self.widths:
            down.append(normal(rng, 3, 3, before, width) / 3)
            before = width
        middle = normal(rng, 3, 3, before, before) / 3
        for width in reversed(self.widths):
            up.append(normal(rng, 3, 3, before + width, width) / 3)
            before = width
        batch = dict(images=images(rng, 16)["images"])
        return dict(down=down, middle=middle, up=up, out=normal(rng, 1, 1, before, 3)), {}, batch

    def loss(self, params, stats, batch):
        x, skips = batch["images"], []
        for w in params["down"]:
            x = jax.nn.gelu(convolution(x, w))
            skips.append(x)
            x = jax.lax.reduce_window(x, 0.0, jax.lax.add, (1, 2, 2, 1), (1, 2, 2, 1), "VALID") / 4
        x = jax.nn.gelu(convolution(x, params["middle"]))
        for w in params["up"]:
            x = jnp.repeat(jnp.repeat(x, 2, 1), 2, 2)
            x = jax.nn.gelu(convolution(jnp.concatenate([x, skips.pop()], -1), w))
        return jnp.mean((convolution(x, params["out"]) - batch["images"]) ** 2), stats


class Uneven:
    """A chain of layers of very different sizes."""
    exact = True
    widths = (16, 64, 8, 128, 128, 4, 32, 256, 16, 16, 64)

    def init(self, rng):
        params = [dict(w=normal(rng, a, b), b=np.zeros(b, np.float32)) for a, b in zip(self.widths, self.widths[1:])]
        batch = dict(x=rng.normal(size=(BATCH, self.widths[0])).astype(np.float32),
                     y=rng.normal(size=(BATCH, self.widths[-1])).astype(np.float32))
        return params, {}, batch

    def loss(self, params, stats, batch):
        x = batch["x"]
        for p in params:
            x = jnp.tanh(x @ p["w"] + p["b"])
        return jnp.mean((x - batch["y"]) ** 2), stats


MODELS = {"dense": Dense(), "scan": Scan(), "checkpointed": Checkpointed(), "tied": Tied(), "masked": Masked(),
          "experts": Experts(), "resnet": ResNet(), "unet": UNet(), "uneven": Uneven()}


def update(params, momentum, grads):
    momentum = jax.tree.map(lambda m, g: 0.9 * m + g, momentum, grads)
    return jax.tree.map(lambda p, m: p - 0.1 * m, params, momentum), momentum


def step(model):
    def run(params, momentum, stats, batch):
        (loss, stats), grads = jax.value_and_grad(model.loss, has_aux=True)(params, stats, batch)
        params, momentum = update(params, momentum, grads)
        return params, momentum, stats, loss
    return run


def widened(x):
    """In double precision where that is on (jax_enable_x64)."""
    return np.asarray(x, np.float64) if jax.config.jax_enable_x64 and x.dtype == np.float32 else x


def make(name, seed=0):
    """Arguments (arrays) and HLO text of a model's step."""
    model = MODELS[name]
    params, stats, batch = jax.tree.map(widened, model.init(np.random.default_rng(seed)))
    arguments = (params, jax.tree.map(lambda x: 0.5 * x, params), stats, batch)
    shapes = jax.tree.map(lambda x: jax.ShapeDtypeStruct(x.shape, x.dtype), arguments)
    return arguments, hlo_text.to_text(step(model), shapes, model.__doc__, donate=(0, 1, 2))


def reference(name, arguments, microbatches, shards=1):
    """Flat results of the step, its micro-batches one after another: of each of the batch's shards some rows."""
    model = MODELS[name]
    params, momentum, stats, batch = arguments
    if model.exact:
        microbatches = shards = 1
    rows = np.arange(BATCH).reshape(shards, microbatches, -1)
    sums = None
    run = jax.jit(jax.value_and_grad(model.loss, has_aux=True))
    for j in range(microbatches):
        one = run(params, stats, jax.tree.map(lambda x: x[rows[:, j].ravel()], batch))
        sums = one if sums is None else jax.tree.map(jnp.add, sums, one)
    (loss, stats), grads = jax.tree.map(lambda x: x / microbatches, sums)
    params, momentum = update(params, momentum, grads)
    return [np.asarray(x) for x in jax.tree.leaves((params, momentum, stats, loss))]
