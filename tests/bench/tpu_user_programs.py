"""Programs as their users write them, for tpu_programs.py beside tpu_program_list.py: labels are integers, dropout draws
numbers, heads have 64 numbers, images three channels, sequences 197 positions, tables rows of 16. All are cut by examples over
eight devices. Dims: B batch, S and T positions, M model width, N heads, D head width, V vocabulary, E experts, C capacity.
"""
import functools

import jax
import jax.numpy as jnp

from tpu_program_list import BF16, F32, I32, adam, shape, training

PER_DEVICE = "data"


def tokens(mesh, *dims):
    return shape(mesh, dims, PER_DEVICE, dtype=I32)


def layer_norm(x, scale):
    y = x.astype(F32)
    y = (y - y.mean(-1, keepdims=True)) * jax.lax.rsqrt(y.var(-1, keepdims=True) + 1e-5)
    return (y * scale).astype(x.dtype)


def block_weights(mesh, width, dtype=F32):
    dims = {"norm1": (width,), "norm2": (width,), "qkv": (width, 3 * width), "out": (width, width), "up": (width, 4 * width),
            "down": (4 * width, width)}
    return {name: shape(mesh, d, dtype=dtype) for name, d in dims.items()}


def attention(p, x, heads, causal):
    batch, length, width = x.shape
    split = lambda y: y.reshape(batch, length, heads, width // heads).transpose(0, 2, 1, 3)
    q, k, v = map(split, jnp.split(layer_norm(x, p["norm1"]) @ p["qkv"].astype(x.dtype), 3, axis=-1))
    scores = jnp.einsum("BNSD,BNTD->BNST", q, k).astype(F32) / 8
    if causal:
        scores = jnp.where(jnp.tril(jnp.ones((length, length), bool)), scores, -1e9)
    mixed = jnp.einsum("BNST,BNTD->BNSD", jax.nn.softmax(scores).astype(x.dtype), v)
    return mixed.transpose(0, 2, 1, 3).reshape(batch, length, width) @ p["out"].astype(x.dtype)


def feed_forward(p, x):
    return jax.nn.gelu(layer_norm(x, p["norm2"]) @ p["up"].astype(x.dtype)) @ p["down"].astype(x.dtype)


def block(p, x, heads, causal=True):
    x = x + attention(p, x, heads, causal)
    return x + feed_forward(p, x)


def cross_entropy(logits, labels):
    logits = logits.astype(F32)
    picked = jnp.take_along_axis(logits, labels[..., None], axis=-1)[..., 0]
    return jnp.mean(jax.nn.logsumexp(logits, axis=-1) - picked)


def log_likelihood(logits, labels):
    return jnp.take_along_axis(jax.nn.log_softmax(logits.astype(F32)), labels[..., None], axis=-1)[..., 0]


# ---------------------------------------------------------------- language
class Language:
    """A decoder whose table of tokens is its last product, too."""

    def __init__(self, mesh, layers=4, width=768, heads=12, length=1024, batch=64, vocabulary=50257, dtype=F32):
        self.mesh, self.heads, self.dims = mesh, heads, (batch, length)
        self.weights = {"tokens": shape(mesh, (vocabulary, width), dtype=dtype), "norm": shape(mesh, (width,), dtype=dtype),
                        "positions": shape(mesh, (length, width), dtype=dtype),
                        "blocks": [block_weights(mesh, width, dtype) for _ in range(layers)]}

    def batch(self):
        return tokens(self.mesh, *self.dims)

    def logits(self, p, ids, around=lambda x, i: x, remat=False, causal=True):
        body = functools.partial(block, heads=self.heads, causal=causal)
        if remat:
            body = jax.checkpoint(body)
        x = (p["tokens"][ids] + p["positions"]).astype(BF16)
        for i, weights in enumerate(p["blocks"]):
            x = around(body(weights, x), i)
        return layer_norm(x, p["norm"]) @ p["tokens"].T.astype(BF16)


def gpt2(mesh):
    model = Language(mesh)
    return training(lambda p, ids, labels: -log_likelihood(model.logits(p, ids), labels).mean(), model.weights,
                    (model.batch(), model.batch()), adam)


def dropout(mesh):
    """Gradients clipped by their norm."""
    model = Language(mesh, width=1024, heads=16, vocabulary=50304)

    def step(p, state, ids, labels, key):
        def drop(x, i):
            kept = jax.random.bernoulli(jax.random.fold_in(key, i), 0.9, x.shape)
            return jnp.where(kept, x / 0.9, 0).astype(x.dtype)
        gradients = jax.grad(lambda p: cross_entropy(model.logits(p, ids, drop), labels))(p)
        length = jnp.sqrt(sum(jnp.sum(g ** 2) for g in jax.tree.leaves(gradients)))
        return adam(p, jax.tree.map(lambda g: g * jnp.minimum(1, 1 / length), gradients), state)
    state = {"m": model.weights, "v": model.weights}
    key = jax.ShapeDtypeStruct((2,), jnp.uint32)
    return step, (model.weights, state, model.batch(), model.batch(), key), (0, 1)


def masked_language(mesh, batch=128, length=512, masked=76, width=768):
    model = Language(mesh, layers=6, length=length, batch=batch, vocabulary=30522)
    weights = dict(model.weights, dense=shape(mesh, (width, width)), bias=shape(mesh, (30522,)))

    def loss(p, ids, places, labels, kept):
        x = (p["tokens"][ids] + p["positions"]).astype(BF16)
        for one in p["blocks"]:
            x = block(one, x, model.heads, causal=False)
        x = jnp.take_along_axis(x, places[..., None], axis=1)
        x = layer_norm(jax.nn.gelu(x @ p["dense"].astype(BF16)), p["norm"])
        found = log_likelihood((x @ p["tokens"].T.astype(BF16)).astype(F32) + p["bias"], labels)
        return -(found * kept).sum() / kept.sum()
    at = tokens(mesh, batch, masked)
    return training(loss, weights, (model.batch(), at, at, shape(mesh, (batch, masked), PER_DEVICE)), adam)


def low_rank(mesh, width=2048, rank=16):
    """Adapters beside frozen bf16 weights."""
    model = Language(mesh, width=width, heads=16, batch=32, vocabulary=32000, dtype=BF16)
    adapters = [{"a": shape(mesh, (width, rank)), "b": shape(mesh, (rank, width))} for _ in model.weights["blocks"]]

    def step(p, state, frozen, ids, labels):
        def loss(p):
            add = lambda x, i: x + (x @ p[i]["a"].astype(BF16)) @ p[i]["b"].astype(BF16)
            return cross_entropy(model.logits(frozen, ids, add), labels)
        return adam(p, jax.grad(loss)(p), state)
    state = {"m": adapters, "v": adapters}
    return step, (adapters, state, model.weights, model.batch(), model.batch()), (0, 1)


def accumulation(mesh, parts=4):
    model = Language(mesh, width=1024, heads=16, vocabulary=32768)

    def step(p, state, ids, labels):
        def one(total, part):
            gradients = jax.grad(lambda p: cross_entropy(model.logits(p, part[0], remat=True), part[1]))(p)
            return jax.tree.map(jnp.add, total, gradients), None
        cut = lambda x: jnp.moveaxis(x.reshape(-1, parts, x.shape[1]), 1, 0)
        total = jax.lax.scan(one, jax.tree.map(jnp.zeros_like, p), (cut(ids), cut(labels)))[0]
        return adam(p, jax.tree.map(lambda g: g / parts, total), state)
    state = {"m": model.weights, "v": model.weights}
    return step, (model.weights, state, model.batch(), model.batch()), (0, 1)


def preferences(mesh):
    """Two texts by the model that learns and by the one that it was."""
    model = Language(mesh, width=1024, heads=16, batch=32, vocabulary=32000)
    before = jax.tree.map(lambda w: jax.ShapeDtypeStruct(w.shape, BF16, sharding=w.sharding), model.weights)

    def likelihood(p, ids):
        return log_likelihood(model.logits(p, ids, remat=True)[:, :-1], ids[:, 1:]).sum(-1)

    def step(p, state, before, better, worse):
        def loss(p):
            gain = likelihood(p, better) - likelihood(p, worse) - likelihood(before, better) + likelihood(before, worse)
            return -jnp.mean(jax.nn.log_sigmoid(0.1 * gain))
        return adam(p, jax.grad(loss)(p), state)
    state = {"m": model.weights, "v": model.weights}
    return step, (model.weights, state, before, model.batch(), model.batch()), (0, 1)


def mixture_by_sorting(mesh, experts=8, chosen=2, width=1024, hidden=2048, length=512, batch=64):
    """Tokens are sorted by expert and put into rows of a buffer."""
    model = Language(mesh, layers=2, width=width, heads=8, length=length, batch=batch, vocabulary=32000)
    for one in model.weights["blocks"]:
        one |= {"router": shape(mesh, (width, experts)), "in": shape(mesh, (experts, width, hidden)),
                "back": shape(mesh, (experts, hidden, width))}
    capacity = length * chosen // experts * 5 // 4

    def mix(p, x, gates, ids):
        flat = ids.reshape(-1)
        order = jnp.argsort(flat, stable=True)
        expert = flat[order]
        rank = jnp.arange(length * chosen) - jnp.searchsorted(expert, expert)
        rows = jnp.zeros((experts, capacity, width), BF16).at[expert, rank].set(x[order // chosen], mode="drop")
        hidden = jax.nn.silu(jnp.einsum("ECM,EMH->ECH", rows, p["in"].astype(BF16)))
        rows = jnp.einsum("ECH,EHM->ECM", hidden, p["back"].astype(BF16))
        back = rows.at[expert, rank].get(mode="fill", fill_value=0) * gates.reshape(-1)[order][:, None].astype(BF16)
        return jnp.zeros((length, width), BF16).at[order // chosen].add(back)

    def loss(p, ids, labels):
        def around(x, i):
            one = p["blocks"][i]
            y = layer_norm(x, one["norm1"])
            gates, which = jax.lax.top_k(jax.nn.softmax((y @ one["router"].astype(BF16)).astype(F32)), chosen)
            return x + jax.vmap(functools.partial(mix, one))(y, gates, which)
        return cross_entropy(model.logits(p, ids, around), labels)
    return training(loss, model.weights, (model.batch(), model.batch()), adam)


def serving(mesh, layers=4, batch=64, heads=12, length=2048):
    """One token of each text; keys and values of heads of 64."""
    width = heads * 64
    weights = [block_weights(mesh, width) for _ in range(layers)]
    cache = [(shape(mesh, (batch, length, heads, 64), PER_DEVICE, dtype=BF16),) * 2 for _ in range(layers)]

    def step(cache, weights, x, at):
        split = lambda y: y.reshape(x.shape[0], 1, heads, 64)
        after = []
        for (keys, values), p in zip(cache, weights):
            q, k, v = map(split, jnp.split(layer_norm(x, p["norm1"]) @ p["qkv"].astype(BF16), 3, axis=-1))
            keys = jax.lax.dynamic_update_slice(keys, k, (0, at, 0, 0))
            values = jax.lax.dynamic_update_slice(values, v, (0, at, 0, 0))
            after.append((keys, values))
            shares = jax.nn.softmax(jnp.einsum("BND,BTND->BNT", q[:, 0], keys).astype(F32)).astype(BF16)
            mixed = jnp.einsum("BNT,BTND->BND", shares, values).reshape(x.shape)
            x = x + mixed @ p["out"].astype(BF16)
            x = x + feed_forward(p, x)
        return after, x
    return step, (cache, weights, shape(mesh, (batch, width), PER_DEVICE, dtype=BF16), jax.ShapeDtypeStruct((), I32)), (0,)


def paged_attention(mesh, texts=512, heads=32, keys=8, pages=65536, page=16, most=128):
    """Each text's keys and values lie in pages of a table, in any order; each device has its own."""
    def attend(q, k, v, table, lengths):
        k, v = (x[table].reshape(q.shape[0], most * page, keys, 128) for x in (k, v))
        q = q.reshape(q.shape[0], keys, heads // keys, 128)
        scores = jnp.einsum("BKND,BTKD->BKNT", q, k).astype(F32) * 128 ** -0.5
        scores = jnp.where(jnp.arange(most * page) < lengths[:, None, None, None], scores, -1e9)
        return jnp.einsum("BKNT,BTKD->BKND", jax.nn.softmax(scores).astype(BF16), v)

    rows = jax.sharding.PartitionSpec(PER_DEVICE)
    step = jax.shard_map(attend, mesh=mesh, in_specs=(rows,) * 5, out_specs=rows)
    cache = shape(mesh, (pages, page, keys, 128), PER_DEVICE, dtype=BF16)
    query = shape(mesh, (texts, heads, 128), PER_DEVICE, dtype=BF16)
    return step, (query, cache, cache, tokens(mesh, texts, most), tokens(mesh, texts)), ()


def adapter_of_each_text(mesh, texts=2048, width=4096, rank=16, count=16):
    def step(x, weights, a, b, ids):
        low = jnp.einsum("BM,BMR->BR", x, a[ids])
        return x @ weights + jnp.einsum("BR,BRM->BM", low, b[ids])
    return step, (shape(mesh, (texts, width), PER_DEVICE, dtype=BF16), shape(mesh, (width, width), dtype=BF16),
                  shape(mesh, (count, width, rank), dtype=BF16), shape(mesh, (count, rank, width), dtype=BF16), tokens(mesh, texts)), ()


def nucleus(mesh, texts=512, vocabulary=128256):
    """A token of those that make up nine tenths."""
    def step(logits, key):
        ordered = jnp.sort(logits, axis=-1)[:, ::-1]
        before = jnp.cumsum(jax.nn.softmax(ordered, axis=-1), axis=-1) - jax.nn.softmax(ordered, axis=-1)
        least = jnp.min(jnp.where(before < 0.9, ordered, jnp.inf), axis=-1, keepdims=True)
        return jax.random.categorical(key, jnp.where(logits < least, -jnp.inf, logits))
    return step, (shape(mesh, (texts, vocabulary), PER_DEVICE), jax.ShapeDtypeStruct((2,), jnp.uint32)), ()


# ---------------------------------------------------------------- images and sound
def patches(images):
    batch, size = images.shape[:2]
    n = size // 16
    cut = images.reshape(batch, n, 16, n, 16, 3).transpose(0, 1, 3, 2, 4, 5)
    return cut.reshape(batch, n * n, 768).astype(BF16)


def vision(mesh, layers=4, width=768, batch=512):
    """197 positions."""
    weights = {"patch": shape(mesh, (768, width)), "positions": shape(mesh, (197, width)), "class": shape(mesh, (1, 1, width)),
               "head": shape(mesh, (width, 1000)), "blocks": [block_weights(mesh, width) for _ in range(layers)]}

    def loss(p, images, labels):
        x = patches(images) @ p["patch"].astype(BF16)
        first = jnp.broadcast_to(p["class"].astype(BF16), (x.shape[0], 1, width))
        x = jnp.concatenate([first, x], axis=1) + p["positions"].astype(BF16)
        for one in p["blocks"]:
            x = block(one, x, 12, causal=False)
        return cross_entropy(x[:, 0] @ p["head"].astype(BF16), labels)
    return training(loss, weights, (shape(mesh, (batch, 224, 224, 3), PER_DEVICE, dtype=BF16), tokens(mesh, batch)), adam)


def narrow_convolutions(mesh, batch=512):
    channels = (3, 24, 40, 80, 112)
    weights = {"kernels": [shape(mesh, (3, 3, a, b)) for a, b in zip(channels, channels[1:])], "head": shape(mesh, (112, 1000))}

    def loss(p, x, labels):
        for i, kernel in enumerate(p["kernels"]):
            stride = 2 if i < 2 else 1
            x = jax.nn.silu(jax.lax.conv_general_dilated(x, kernel.astype(BF16), (stride, stride), "SAME",
                                                         dimension_numbers=("NHWC", "HWIO", "NHWC")))
        return cross_entropy(x.mean((1, 2)) @ p["head"].astype(BF16), labels)
    return training(loss, weights, (shape(mesh, (batch, 224, 224, 3), PER_DEVICE, dtype=BF16), tokens(mesh, batch)), adam)


def images_and_texts(mesh, batch=1024, width=512):
    tower = lambda **more: more | {"blocks": [block_weights(mesh, width) for _ in range(4)]}
    weights = {"image": tower(patch=shape(mesh, (768, width)), positions=shape(mesh, (196, width))),
               "text": tower(tokens=shape(mesh, (49408, width)), positions=shape(mesh, (77, width))), "scale": shape(mesh, ())}

    def run(p, x, causal):
        x = x + p["positions"].astype(BF16)
        for one in p["blocks"]:
            x = block(one, x, 8, causal)
        return x.astype(F32)

    def loss(p, images, ids):
        unit = lambda y: y / jnp.linalg.norm(y, axis=-1, keepdims=True)
        a = unit(run(p["image"], patches(images) @ p["image"]["patch"].astype(BF16), False).mean(1))
        b = unit(run(p["text"], p["text"]["tokens"][ids].astype(BF16), True)[:, -1])
        logits = jnp.exp(p["scale"]) * a @ b.T
        return -sum(jnp.diag(jax.nn.log_softmax(logits, axis=i)).mean() for i in (0, 1)) / 2
    return training(loss, weights, (shape(mesh, (batch, 224, 224, 3), PER_DEVICE, dtype=BF16), tokens(mesh, batch, 77)), adam)


def speech(mesh, batch=64, width=512):
    weights = {"first": shape(mesh, (3, 80, width)), "second": shape(mesh, (3, width, width)), "positions": shape(mesh, (1500, width)),
               "head": shape(mesh, (width, 51865)), "blocks": [block_weights(mesh, width) for _ in range(4)]}

    def convolve(x, kernel, stride):
        return jax.nn.gelu(jax.lax.conv_general_dilated(x, kernel.astype(BF16), (stride,), "SAME", dimension_numbers=("NWC", "WIO", "NWC")))

    def loss(p, sound, labels):
        x = convolve(convolve(sound, p["first"], 1), p["second"], 2) + p["positions"].astype(BF16)
        for one in p["blocks"]:
            x = block(one, x, 8, causal=False)
        return cross_entropy(x[:, :448] @ p["head"].astype(BF16), labels)
    return training(loss, weights, (shape(mesh, (batch, 3000, 80), PER_DEVICE, dtype=BF16), tokens(mesh, batch, 448)), adam)


# ---------------------------------------------------------------- tables, rays, graphs
def recommender(mesh, batch=65536, tables=26, rows=100000, width=16):
    weights = {"tables": [shape(mesh, (rows, width)) for _ in range(tables)], "a": shape(mesh, (13, 512)), "b": shape(mesh, (512, width)),
               "c": shape(mesh, (27 * 27, 1024)), "d": shape(mesh, (1024, 1))}

    def loss(p, dense, ids, clicked):
        x = jax.nn.relu(dense @ p["a"]) @ p["b"]
        z = jnp.stack([x] + [table[ids[:, i]] for i, table in enumerate(p["tables"])], axis=1)
        products = jnp.einsum("Bnd,Bmd->Bnm", z, z).reshape(x.shape[0], -1)
        y = (jax.nn.relu(products @ p["c"]) @ p["d"])[:, 0]
        return jnp.mean(jax.nn.softplus(y) - clicked * y)
    return training(loss, weights, (shape(mesh, (batch, 13), PER_DEVICE), tokens(mesh, batch, 26), shape(mesh, (batch,), PER_DEVICE)), adam)


def rays(mesh, count=65536, samples=64):
    weights = [shape(mesh, dims) for dims in ((63, 256), (256, 256), (256, 256), (256, 256), (256, 4))]

    def loss(p, origins, directions, colours):
        x = origins[:, None] + directions[:, None] * jnp.linspace(0.0, 1.0, samples)[:, None]
        x = jnp.concatenate([x] + [f(x * 2.0 ** i) for i in range(10) for f in (jnp.sin, jnp.cos)], axis=-1)
        for weights in p[:-1]:
            x = jax.nn.relu(x @ weights)
        x = x @ p[-1]
        opaque = 1 - jnp.exp(-jax.nn.softplus(x[..., 3]))
        shares = jnp.cumprod(1 - opaque + 1e-6, axis=-1) * opaque
        return jnp.mean(((shares[..., None] * jax.nn.sigmoid(x[..., :3])).sum(1) - colours) ** 2)
    return training(loss, weights, (shape(mesh, (count, 3), PER_DEVICE),) * 3, adam)


def graph(mesh, nodes=80000, edges=800000):
    weights = [shape(mesh, dims) for dims in ((33, 50), (50, 50), (50, 7))]

    def loss(p, x, senders, receivers, labels):
        for weights in p:
            x = jax.nn.relu(jax.ops.segment_sum((x @ weights)[senders], receivers, num_segments=nodes))
        return -log_likelihood(x, labels).mean()
    ends = tokens(mesh, edges)
    return training(loss, weights, (shape(mesh, (nodes, 33)), ends, ends, shape(mesh, (nodes,), dtype=I32)), adam)


def digits(mesh, batch=524288):
    weights = [shape(mesh, dims) for dims in ((784, 100), (100, 100), (100, 10))]

    def loss(p, x, labels):
        return cross_entropy(jnp.tanh(jnp.tanh(x @ p[0]) @ p[1]) @ p[2], labels)
    return training(loss, weights, (shape(mesh, (batch, 784), PER_DEVICE), tokens(mesh, batch)), adam)


PROGRAMS = [(name, topology, "data=8", build) for name, topology, build in (
    ("GPT-2, integer labels", "v5e:2x4", gpt2), ("dropout, clipped gradients", "v5p:2x2x2", dropout),
    ("masked language", "v6e:2x4", masked_language), ("low-rank adapters", "v5e:2x4", low_rank),
    ("gradient accumulation", "v4:2x2x2", accumulation), ("preferences", "v6e:2x4", preferences),
    ("mixture by sorting", "v5p:2x2x2", mixture_by_sorting), ("serving, heads of 64", "v5e:2x4", serving),
    ("vision, 197 positions", "v4:2x2x2", vision), ("convolutions, narrow", "v5e:2x4", narrow_convolutions),
    ("images and texts", "v5e:2x4", images_and_texts), ("speech", "v6e:2x4", speech), ("recommender", "v5e:2x4", recommender),
    ("rays", "v5p:2x2x2", rays), ("graph", "v5e:2x4", graph), ("digits", "v6e:2x4", digits),
    ("paged attention", "v5e:2x4", paged_attention), ("adapter of each text", "v6e:2x4", adapter_of_each_text),
    ("nucleus sampling", "v5e:2x4", nucleus))]
