"""Programs that XLA's compiler for TPUs and gshard-cost are compared over (tpu_programs.py): small ones of each kind that
is trained or served. Nothing is allocated: only shapes are traced.

Each entry of PROGRAMS is (name, topology, mesh, function of the mesh that returns (step, arguments, donated numbers)).
Dims: B batch, S and T positions, M model width, N heads, D head width, H hidden width, V vocabulary, E experts.
"""
import functools


import jax
import jax.numpy as jnp
from jax.ad_checkpoint import checkpoint_name
from jax.sharding import NamedSharding, PartitionSpec as P

BF16, F32, I32 = jnp.bfloat16, jnp.float32, jnp.int32


def shape(mesh, dims, *spec, dtype=F32, memory=None):
    sharding = NamedSharding(mesh, P(*spec), **({"memory_kind": memory} if memory else {}))
    return jax.ShapeDtypeStruct(dims, dtype, sharding=sharding)


def constrain(x, mesh, *spec):
    return jax.lax.with_sharding_constraint(x, NamedSharding(mesh, P(*spec)))


# ---------------------------------------------------------------- optimizers
def sgd(parameters, gradients, state):
    return jax.tree.map(lambda p, g: p - 0.1 * g, parameters, gradients), state


def adam(parameters, gradients, state):
    m = jax.tree.map(lambda m, g: 0.9 * m + 0.1 * g, state["m"], gradients)
    v = jax.tree.map(lambda v, g: 0.99 * v + 0.01 * g * g, state["v"], gradients)
    new = jax.tree.map(lambda p, m, v: p - 1e-3 * m / (jnp.sqrt(v) + 1e-8), parameters, m, v)
    return new, {"m": m, "v": v}


def training(loss, parameters, batch, optimizer=sgd, donated=True):
    def step(parameters, state, *batch):
        value, gradients = jax.value_and_grad(loss)(parameters, *batch)
        parameters, state = optimizer(parameters, gradients, state)
        return parameters, state, value
    state = {} if optimizer is sgd else {"m": parameters, "v": parameters}
    return step, (parameters, state, *batch), (0, 1) if donated else ()


# ---------------------------------------------------------------- multi-layer perceptron
def mlp(mesh, optimizer=sgd, donated=True, layers=4, width=1024, hidden=4096, batch=4096, dtype=F32):
    parameters = [{"in": shape(mesh, (width, hidden), None, "model"), "out": shape(mesh, (hidden, width), "model", None)}
                  for _ in range(layers)]
    x = shape(mesh, (batch, width), "data", None, dtype=dtype)

    def loss(parameters, x, y):
        for p in parameters:
            x = x + jax.nn.relu(x @ p["in"].astype(dtype)) @ p["out"].astype(dtype)
        return jnp.mean((x - y).astype(F32) ** 2)
    return training(loss, parameters, (x, x), optimizer, donated)


# ---------------------------------------------------------------- Transformers
def norm(x, scale):
    y = x.astype(F32)
    return (y * jax.lax.rsqrt(jnp.mean(y * y, axis=-1, keepdims=True) + 1e-6) * scale).astype(x.dtype)


def attend(q, k, v, causal=True):
    """Spelled out: softmax(q k / sqrt D) v, over [B,S,N,D] and [B,T,K,D] (N a multiple of K)."""
    if q.shape[2] != k.shape[2]:
        k, v = (jnp.repeat(y, q.shape[2] // k.shape[2], axis=2) for y in (k, v))
    scores = jnp.einsum("BSND,BTND->BNST", q, k).astype(F32) * q.shape[-1] ** -0.5
    if causal:
        scores = jnp.where(jnp.tril(jnp.ones(scores.shape[-2:], bool)), scores, -1e9)
    return jnp.einsum("BNST,BTND->BSND", jax.nn.softmax(scores, axis=-1).astype(q.dtype), v)


def flash(mesh, batch, heads, q, k, v):
    """JAX's own kernel for TPUs, a device's batch and heads at a time."""
    from jax.experimental.pallas.ops.tpu.flash_attention import flash_attention

    def local(q, k, v):
        q, k, v = (y.transpose(0, 2, 1, 3) for y in (q, k, v))
        return flash_attention(q, k, v, causal=True, sm_scale=q.shape[-1] ** -0.5).transpose(0, 2, 1, 3)
    spec = P(batch, None, heads, None)
    return jax.shard_map(local, mesh=mesh, in_specs=(spec,) * 3, out_specs=spec, check_vma=False)(q, k, v)


class Transformer:
    """`rows` and `columns` are the mesh axes that split the two dims of weights, `batch` that of activations."""

    def __init__(self, mesh, layers=6, width=1024, hidden=4096, heads=8, keys=0, length=1024, batch=32, vocabulary=8192, rows=None,
                 columns="model", gated=False, kernel="spelled", cross=False):
        self.mesh, self.layers, self.width, self.length, self.vocabulary = mesh, layers, width, length, vocabulary
        self.gated, self.kernel, self.cross, self.columns = gated, kernel, cross, columns
        self.batch = tuple(mesh.axis_names) if columns is None else "data"
        self.size = batch
        keys, head = keys or heads, width // heads
        self.dims = {"q": ((width, heads, head), (rows, columns, None)), "k": ((width, keys, head), (rows, columns, None)),
                     "v": ((width, keys, head), (rows, columns, None)), "o": ((heads, head, width), (columns, None, rows)),
                     "in": ((width, hidden), (rows, columns)), "out": ((hidden, width), (columns, rows)),
                     "norm1": ((width,), (None,)), "norm2": ((width,), (None,))}
        if gated:
            self.dims["gate"] = self.dims["in"]
        if cross:
            self.dims |= {"cross_" + n: self.dims[n] for n in ("q", "k", "v", "o")} | {"norm3": self.dims["norm1"]}
        self.embedding = shape(mesh, (vocabulary, width), columns, rows)

    def stack(self, scanned):
        if scanned:
            return {n: shape(self.mesh, (self.layers, *d), None, *s) for n, (d, s) in self.dims.items()}
        return [{n: shape(self.mesh, d, *s) for n, (d, s) in self.dims.items()} for _ in range(self.layers)]

    def tokens(self):
        return shape(self.mesh, (self.size, self.length), self.batch, None, dtype=I32)

    def split(self, x):
        return constrain(x, self.mesh, self.batch, None, None)

    def attention(self, p, x, memory, causal, prefix=""):
        cast = lambda name: p[prefix + name].astype(BF16)
        q = checkpoint_name(jnp.einsum("BSM,MND->BSND", x, cast("q")), "q")
        k, v = (checkpoint_name(jnp.einsum("BSM,MND->BSND", memory, cast(n)), n) for n in ("k", "v"))
        mixed = flash(self.mesh, self.batch, self.columns, q, k, v) if self.kernel == "flash" else attend(q, k, v, causal)
        return self.split(jnp.einsum("BSND,NDM->BSM", checkpoint_name(mixed, "context"), cast("o")))

    def layer(self, p, x, memory=None, causal=True):
        y = norm(x, p["norm1"])
        x = x + self.attention(p, y, y, causal)
        if memory is not None:
            x = x + self.attention(p, norm(x, p["norm3"]), memory, False, "cross_")
        y = norm(x, p["norm2"])
        h = jnp.einsum("BSM,MH->BSH", y, p["in"].astype(BF16))
        h = jax.nn.silu(h) * jnp.einsum("BSM,MH->BSH", y, p["gate"].astype(BF16)) if self.gated else jax.nn.gelu(h)
        return x + self.split(jnp.einsum("BSH,HM->BSM", h, p["out"].astype(BF16)))

    def run(self, stack, x, remat=None, **more):
        """`remat`: None, or a policy of jax.checkpoint."""
        layer = functools.partial(self.layer, **more)
        if remat:
            layer = jax.checkpoint(layer, policy=remat)
        if isinstance(stack, dict):
            return jax.lax.scan(lambda x, p: (layer(p, x), None), x, stack)[0]
        for p in stack:
            x = layer(p, x)
        return x

    def embed(self, table, tokens):
        return self.split(table.astype(BF16)[tokens])

    def cross_entropy(self, x, table, targets):
        logits = jnp.einsum("BSM,VM->BSV", x, table.astype(BF16)).astype(F32)
        picked = jnp.sum(jax.nn.one_hot(targets, self.vocabulary) * logits, axis=-1)
        return jnp.mean(jax.nn.logsumexp(logits, axis=-1) - picked)


def decoder(mesh, scanned=True, remat=None, optimizer=adam, **dims):
    t = Transformer(mesh, **dims)

    def loss(parameters, tokens, targets):
        x = t.run(parameters["blocks"], t.embed(parameters["embed"], tokens), remat)
        return t.cross_entropy(x, parameters["embed"], targets)
    return training(loss, {"blocks": t.stack(scanned), "embed": t.embedding}, (t.tokens(), t.tokens()), optimizer)


def encoder_decoder(mesh, **dims):
    e, d = Transformer(mesh, **dims), Transformer(mesh, cross=True, **dims)

    def loss(parameters, source, tokens, targets):
        remat = jax.checkpoint_policies.nothing_saveable
        memory = e.run(parameters["encoder"], e.embed(parameters["embed"], source), remat, causal=False)
        x = d.run(parameters["decoder"], d.embed(parameters["embed"], tokens), remat, memory=memory)
        return d.cross_entropy(x, parameters["embed"], targets)
    parameters = {"encoder": e.stack(True), "decoder": d.stack(True), "embed": e.embedding}
    return training(loss, parameters, (e.tokens(), d.tokens(), d.tokens()), adam)


def prefill(mesh, **dims):
    t = Transformer(mesh, **dims)

    def step(parameters, tokens):
        x = t.run(parameters["blocks"], t.embed(parameters["embed"], tokens))
        return jnp.einsum("BM,VM->BV", x[:, -1], parameters["embed"].astype(BF16))
    return step, ({"blocks": t.stack(True), "embed": t.embedding}, t.tokens()), ()


def decode(mesh, layers=8, width=2048, heads=16, cached=4096, batch=32, hidden=8192):
    """One token against a cache of keys and values [L,B,T,N,D] that is updated in place."""
    head = width // heads
    weights = {"q": ((width, heads, head), (None, "model", None)), "k": ((width, heads, head), (None, "model", None)),
               "v": ((width, heads, head), (None, "model", None)), "o": ((heads, head, width), ("model", None, None)),
               "in": ((width, hidden), (None, "model")), "out": ((hidden, width), ("model", None))}
    stack = {n: shape(mesh, (layers, *d), None, *s, dtype=BF16) for n, (d, s) in weights.items()}
    cache = shape(mesh, (layers, batch, cached, heads, head), None, "data", None, "model", None, dtype=BF16)

    def step(stack, keys, values, x, position):
        def layer(x, slices):
            p, k, v = slices
            q = jnp.einsum("BM,MND->BND", x, p["q"])
            k = jax.lax.dynamic_update_slice_in_dim(k, jnp.einsum("BM,MND->BND", x, p["k"])[:, None], position, 1)
            v = jax.lax.dynamic_update_slice_in_dim(v, jnp.einsum("BM,MND->BND", x, p["v"])[:, None], position, 1)
            scores = jnp.einsum("BND,BTND->BNT", q, k).astype(F32) * head ** -0.5
            scores = jnp.where(jnp.arange(cached) <= position, scores, -1e9)
            mixed = jnp.einsum("BNT,BTND->BND", jax.nn.softmax(scores).astype(BF16), v)
            x = x + jnp.einsum("BND,NDM->BM", mixed, p["o"])
            return x + jax.nn.gelu(x @ p["in"]) @ p["out"], (k, v)
        x, (keys, values) = jax.lax.scan(layer, x, (stack, keys, values))
        return x, keys, values
    return step, (stack, cache, cache, shape(mesh, (batch, width), "data", None, dtype=BF16), shape(mesh, (), dtype=I32)), (1, 2)


def attention_alone(mesh, kernel, batch=16, length=2048, heads=16, head=128, backward=True):
    def loss(q, k, v):
        mixed = flash(mesh, "data", "model", q, k, v) if kernel == "flash" else attend(q, k, v)
        return jnp.sum(mixed.astype(F32) ** 2)
    q = shape(mesh, (batch, length, heads, head), "data", None, "model", None, dtype=BF16)
    return (jax.value_and_grad(loss, argnums=(0, 1, 2)) if backward else loss), (q, q, q), ()


# ---------------------------------------------------------------- mixtures of experts
def moe_einsum(mesh, layers=2, experts=8, width=1024, hidden=4096, groups=16, tokens=1024, remat=False):
    """GShard's dispatch by masks, the best two experts of each token; groups and experts along one axis."""
    capacity = 2 * tokens // experts
    stack = [{"gate": shape(mesh, (width, experts)), "in": shape(mesh, (experts, width, hidden), "expert", None, None),
              "out": shape(mesh, (experts, hidden, width), "expert", None, None)} for _ in range(layers)]
    x = shape(mesh, (groups, tokens, width), "expert", None, None, dtype=BF16)

    def layer(p, x):
        gates = jax.nn.softmax(jnp.einsum("GSM,ME->GSE", x.astype(F32), p["gate"]), axis=-1)
        combine, used, left = 0.0, 0, gates
        for _ in range(2):
            chosen = jax.nn.one_hot(jnp.argmax(left, axis=-1), experts)
            place = (jnp.cumsum(chosen, axis=1) + used) * chosen - 1
            combine = combine + (gates * chosen)[..., None] * jax.nn.one_hot(place.astype(I32), capacity)
            used, left = used + jnp.sum(chosen, axis=1, keepdims=True), left * (1 - chosen)
        sent = jnp.einsum("GSEC,GSM->EGCM", (combine > 0).astype(BF16), x)
        sent = constrain(constrain(sent, mesh, None, "expert"), mesh, "expert")
        h = jax.nn.gelu(jnp.einsum("EGCM,EMH->EGCH", sent, p["in"].astype(BF16)))
        back = constrain(jnp.einsum("EGCH,EHM->EGCM", h, p["out"].astype(BF16)), mesh, "expert")
        return x + constrain(jnp.einsum("GSEC,EGCM->GSM", combine.astype(BF16), constrain(back, mesh, None, "expert")), mesh, "expert")

    def loss(stack, x, y):
        for p in stack:
            x = jax.checkpoint(layer)(p, x) if remat else layer(p, x)
        return jnp.mean((x - y).astype(F32) ** 2)
    return training(loss, stack, (x, x), adam)


def moe_ragged(mesh, experts=8, chosen=2, width=1024, hidden=2048, tokens=4096):
    """Tokens sorted by expert, products of ragged groups; each device has its tokens and all experts' columns."""
    weights = {"gate": shape(mesh, (width, experts)), "in": shape(mesh, (experts, width, hidden)),
               "out": shape(mesh, (experts, hidden, width))}
    x = shape(mesh, (8 * tokens, width), "data", None, dtype=BF16)

    def layer(p, x):
        gates, picked = jax.lax.top_k(jax.nn.softmax(x.astype(F32) @ p["gate"], axis=-1), chosen)
        order = jnp.argsort(picked.reshape(-1))
        sizes = jnp.bincount(picked.reshape(-1), length=experts).astype(I32)
        sorted_x = x[order // chosen]
        h = jax.nn.gelu(jax.lax.ragged_dot(sorted_x, p["in"].astype(BF16), sizes))
        y = jax.lax.ragged_dot(h, p["out"].astype(BF16), sizes)
        back = jnp.zeros_like(y).at[order].set(y).reshape(*picked.shape, width)
        return x + jnp.sum(back * gates.astype(BF16)[..., None], axis=1)
    forward = jax.shard_map(layer, mesh=mesh, in_specs=(P(), P("data", None)), out_specs=P("data", None), check_vma=False)

    def loss(weights, x, y):
        return jnp.mean((forward(weights, x) - y).astype(F32) ** 2)
    return training(loss, weights, (x, x))


# ---------------------------------------------------------------- convolutions
def convolve(x, w, stride=1):
    return jax.lax.conv_general_dilated(x, w.astype(x.dtype), (stride,) * (x.ndim - 2), "SAME",
                                        dimension_numbers=("NHWC", "HWIO", "NHWC") if x.ndim == 4 else ("NDHWC", "DHWIO", "NDHWC"))


def conv(mesh, spatial, layers=4, channels=128, size=128, batch=16):
    kernels = [shape(mesh, (3, 3, channels, channels)) for _ in range(layers)]
    x = shape(mesh, (batch, size, size, channels), *((None, "data") if spatial else ("data",)), dtype=BF16)

    def loss(kernels, x, y):
        for k in kernels:
            x = x + jax.nn.relu(convolve(x, k))
        return jnp.mean((x - y).astype(F32) ** 2)
    return training(loss, kernels, (x, x))


def resnet(mesh, batch=256, size=64):
    """Stages of bottlenecks with batch norms over the whole batch."""
    widths, stack, inside = (64, 128, 256, 512), [], 64
    for stage, width in enumerate(widths):
        for block in range(2):
            stride = 2 if stage and not block else 1
            p = {"a": shape(mesh, (1, 1, inside, width)), "b": shape(mesh, (3, 3, width, width)),
                 "c": shape(mesh, (1, 1, width, 4 * width)), "scale": shape(mesh, (4 * width,))}
            if inside != 4 * width:
                p["short"] = shape(mesh, (1, 1, inside, 4 * width))
            stack.append((p, stride))
            inside = 4 * width
    parameters = {"stem": shape(mesh, (7, 7, 3, 64)), "blocks": [p for p, _ in stack], "head": shape(mesh, (inside, 1000))}

    def normed(x):
        y = x.astype(F32)
        mean = jnp.mean(y, axis=(0, 1, 2))
        return ((y - mean) * jax.lax.rsqrt(jnp.mean(y * y, axis=(0, 1, 2)) - mean * mean + 1e-5)).astype(BF16)

    def loss(parameters, images, labels):
        x = jax.nn.relu(normed(convolve(images, parameters["stem"], 2)))
        for p, (_, stride) in zip(parameters["blocks"], stack):
            y = jax.nn.relu(normed(convolve(x, p["a"])))
            y = jax.nn.relu(normed(convolve(y, p["b"], stride)))
            y = normed(convolve(y, p["c"])) * p["scale"].astype(BF16)
            x = jax.nn.relu(y + (convolve(x, p["short"], stride) if "short" in p else x))
        logits = jnp.mean(x, axis=(1, 2)).astype(F32) @ parameters["head"]
        return -jnp.mean(jnp.sum(jax.nn.one_hot(labels, 1000) * jax.nn.log_softmax(logits), axis=-1))
    images, labels = shape(mesh, (batch, size, size, 3), "data", dtype=BF16), shape(mesh, (batch,), "data", dtype=I32)
    return training(loss, parameters, (images, labels))


def unet(mesh, spatial, size=64, batch=8, base=32, depth=3):
    """3-D U-Net over [B,X,Y,Z,C]; in slabs of X if `spatial`."""
    pair = lambda a, b: [shape(mesh, (3, 3, 3, a, b)), shape(mesh, (3, 3, 3, b, b))]
    wide = [base << i for i in range(depth + 1)]
    parameters = {"down": [pair(4 if i == 0 else wide[i - 1], wide[i]) for i in range(depth + 1)],
                  "up": [pair(wide[i + 1] + wide[i], wide[i]) for i in range(depth)], "head": shape(mesh, (1, 1, 1, base, 4))}

    def two(x, pair):
        for w in pair:
            x = jax.nn.relu(convolve(x, w))
        return x

    def loss(parameters, x, y):
        kept = []
        for i, p in enumerate(parameters["down"]):
            if i:
                x = jax.lax.reduce_window(x, -jnp.inf, jax.lax.max, (1, 2, 2, 2, 1), (1, 2, 2, 2, 1), "VALID")
            x = two(x, p)
            kept.append(x)
        for i in reversed(range(depth)):
            for axis in (1, 2, 3):
                x = jnp.repeat(x, 2, axis=axis)
            x = two(jnp.concatenate([x, kept[i]], axis=-1), parameters["up"][i])
        return jnp.mean((convolve(x, parameters["head"]).astype(F32) - y) ** 2)
    spec = (None, "data") if spatial else ("data",)
    batch_of = lambda dtype: shape(mesh, (batch, size, size, size, 4), *spec, dtype=dtype)
    return training(loss, parameters, (batch_of(BF16), batch_of(F32)))


# ---------------------------------------------------------------- state spaces, embeddings, optimizers, the host
def state_space(mesh, associative, layers=4, width=1024, length=1024, batch=16):
    """Diagonal recurrences h = a h + b x over [B,S,M], by an associative scan or a loop over positions."""
    stack = {"a": shape(mesh, (layers, width, width), None, None, "model"), "b": shape(mesh, (layers, width, width), None, None, "model"),
             "out": shape(mesh, (layers, width, width), None, "model", None)}
    x = shape(mesh, (batch, length, width), "data", None, None, dtype=BF16)

    def layer(x, p):
        decay = jax.nn.sigmoid(jnp.einsum("BSM,MK->BSK", x, p["a"].astype(BF16)).astype(F32))
        inflow = jnp.einsum("BSM,MK->BSK", x, p["b"].astype(BF16)).astype(F32)
        if associative:
            _, h = jax.lax.associative_scan(lambda l, r: (l[0] * r[0], l[1] * r[0] + r[1]), (decay, inflow), axis=1)
        else:
            def advance(h, now):
                h = now[0] * h + now[1]
                return h, h
            _, h = jax.lax.scan(advance, jnp.zeros_like(inflow[:, 0]), (decay.transpose(1, 0, 2), inflow.transpose(1, 0, 2)))
            h = h.transpose(1, 0, 2)
        return constrain(x + jnp.einsum("BSK,KM->BSM", h.astype(BF16), p["out"].astype(BF16)), mesh, "data"), None

    def loss(stack, x, y):
        return jnp.mean((jax.lax.scan(jax.checkpoint(layer), x, stack)[0] - y).astype(F32) ** 2)
    return training(loss, stack, (x, x), adam)


def embeddings(mesh, rows=262144, width=256, batch=8192, fields=16):
    """A table by rows, gathered from and scattered to, below a small network."""
    parameters = {"table": shape(mesh, (rows, width), "model", None), "in": shape(mesh, (fields * width, 1024)),
                  "out": shape(mesh, (1024, 1))}

    def loss(parameters, ids, labels):
        x = constrain(parameters["table"][ids], mesh, "data").reshape(ids.shape[0], -1)
        logits = (jax.nn.relu(x @ parameters["in"]) @ parameters["out"])[:, 0]
        return jnp.mean((logits - labels) ** 2)
    return training(loss, parameters, (shape(mesh, (batch, fields), "data", None, dtype=I32), shape(mesh, (batch,), "data")))


def optimizer_alone(mesh, donated, name="adam"):
    parameters = [shape(mesh, (8192, 8192), "data", "model") for _ in range(4)]

    def adafactor(parameters, gradients, state):
        def one(p, g, r, c):
            square = g * g + 1e-30
            r, c = 0.99 * r + 0.01 * jnp.mean(square, axis=1), 0.99 * c + 0.01 * jnp.mean(square, axis=0)
            update = g * jax.lax.rsqrt(r / jnp.mean(r))[:, None] * jax.lax.rsqrt(c)[None]
            return p - 1e-3 * update / jnp.maximum(1.0, jnp.sqrt(jnp.mean(update * update))), r, c
        done = [one(p, g, *s) for p, g, s in zip(parameters, gradients, state)]
        return [d[0] for d in done], [d[1:] for d in done]
    if name == "adafactor":
        state = [(shape(mesh, (8192,), "data"), shape(mesh, (8192,), "model")) for _ in parameters]
        return adafactor, (parameters, parameters, state), (0, 2) if donated else ()
    return adam, (parameters, parameters, {"m": parameters, "v": parameters}), (0, 2) if donated else ()


def offloaded_moments(mesh, width=4096, hidden=8192, batch=4096, layers=4):
    """Adam whose moments live on the host between steps."""
    spec = lambda memory: [shape(mesh, (width, hidden), None, "model", memory=memory) for _ in range(layers)]
    x = shape(mesh, (batch, width), "data", None, dtype=BF16)
    device, host = (NamedSharding(mesh, P(None, "model"), memory_kind=kind) for kind in ("device", "pinned_host"))

    def step(parameters, m, x):
        def loss(parameters):
            y = x
            for p in parameters:
                y = y + jax.nn.relu(y @ p.astype(BF16)) @ p.astype(BF16).T
            return jnp.mean(y.astype(F32) ** 2)
        gradients = jax.grad(loss)(parameters)
        m = [0.9 * jax.device_put(old, device) + 0.1 * g for old, g in zip(m, gradients)]
        return [p - 1e-3 * new for p, new in zip(parameters, m)], [jax.device_put(new, host) for new in m]
    return step, (spec(None), spec("pinned_host"), x), (0, 1)


SAVED = jax.checkpoint_policies
ALL, DOTS = SAVED.nothing_saveable, SAVED.checkpoint_dots_with_no_batch_dims
NAMED = SAVED.save_only_these_names("q", "k", "v", "context")
OFFLOADED = SAVED.save_and_offload_only_these_names(names_which_can_be_saved=[], names_which_can_be_offloaded=["context"],
                                                    offload_src="device", offload_dst="pinned_host")
SMALL = {"length": 512, "batch": 16}
WHOLE = {"columns": None, "rows": ("data", "model"), "batch": 16}
PROGRAMS = [
    ("mlp, bf16, SGD", "v5e:2x4", "data=4,model=2", functools.partial(mlp, dtype=BF16)),
    ("mlp, f32, Adam", "v4:2x2x2", "data=4,model=2", functools.partial(mlp, optimizer=adam)),
    ("mlp, bf16, nothing donated", "v6e:2x4", "data=2,model=4", functools.partial(mlp, donated=False, dtype=BF16)),
    ("decoder, scanned", "v5e:2x4", "data=4,model=2", functools.partial(decoder, **SMALL)),
    ("decoder, scanned, remat", "v5p:2x2x2", "data=4,model=2", functools.partial(decoder, remat=ALL)),
    ("decoder, scanned, dots saved", "v6e:2x4", "data=4,model=2", functools.partial(decoder, remat=DOTS, **SMALL)),
    ("decoder, scanned, names saved", "v4:2x2x2", "data=4,model=2", functools.partial(decoder, remat=NAMED, **SMALL)),
    ("decoder, unrolled", "v4:2x2x2", "data=4,model=2", functools.partial(decoder, scanned=False, layers=4, **SMALL)),
    ("decoder, unrolled, remat", "v5e:2x4", "data=4,model=2", functools.partial(decoder, scanned=False, remat=ALL, layers=4)),
    ("decoder, gated, FSDP, remat", "v5p:2x2x2", "data=4,model=2",
     functools.partial(decoder, remat=ALL, gated=True, keys=2, **WHOLE)),
    ("decoder, flash, remat", "v5e:2x4", "data=4,model=2", functools.partial(decoder, remat=ALL, kernel="flash")),
    ("decoder, flash, names saved", "v6e:2x4", "data=4,model=2", functools.partial(decoder, remat=NAMED, kernel="flash")),
    ("attention, spelled out", "v5p:2x2x2", "data=4,model=2", functools.partial(attention_alone, kernel="spelled")),
    ("attention, spelled out, forward", "v6e:2x4", "data=4,model=2",
     functools.partial(attention_alone, kernel="spelled", backward=False)),
    ("attention, flash", "v5e:2x4", "data=4,model=2", functools.partial(attention_alone, kernel="flash")),
    ("prefill", "v5e:2x4", "data=2,model=4", functools.partial(prefill, keys=4)),
    ("decode", "v5p:2x2x2", "data=2,model=4", decode),
    ("encoder and decoder", "v6e:2x4", "data=4,model=2", functools.partial(encoder_decoder, layers=3, **SMALL)),
    ("mixture, einsum", "v5e:2x4", "expert=8", moe_einsum),
    ("mixture, einsum, remat", "v4:2x2x2", "expert=8", functools.partial(moe_einsum, remat=True)),
    ("mixture, ragged", "v5p:2x2x2", "data=8", moe_ragged),
    ("convolutions by batch", "v5e:2x4", "data=8", functools.partial(conv, spatial=False)),
    ("convolutions by space", "v6e:2x4", "data=8", functools.partial(conv, spatial=True)),
    ("bottlenecks with batch norm", "v4:2x2x2", "data=8", resnet),
    ("U-Net by batch", "v5p:2x2x2", "data=8", functools.partial(unet, spatial=False)),
    ("U-Net by space", "v5e:2x4", "data=8", functools.partial(unet, spatial=True, batch=1, size=128)),
    ("state space, associative scan", "v5e:2x4", "data=4,model=2", functools.partial(state_space, associative=True)),
    ("state space, loop", "v6e:2x4", "data=4,model=2", functools.partial(state_space, associative=False, layers=2)),
    ("embeddings", "v5e:2x4", "data=2,model=4", embeddings),
    ("Adam alone, donated", "v5p:2x2x2", "data=4,model=2", functools.partial(optimizer_alone, donated=True)),
    ("Adam alone, nothing donated", "v4:2x2x2", "data=4,model=2", functools.partial(optimizer_alone, donated=False)),
    ("Adafactor alone, donated", "v6e:2x4", "data=4,model=2", functools.partial(optimizer_alone, donated=True, name="adafactor")),
    ("moments on the host", "v5e:2x4", "data=4,model=2", offloaded_moments),
    ("decoder, context on the host", "v6e:2x4", "data=4,model=2", functools.partial(decoder, remat=OFFLOADED)),
]
