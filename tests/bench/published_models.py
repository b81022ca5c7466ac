"""Training steps of published runs as StableHLO, from their configurations alone (published_runs.py).

`program(row)` is the text of a row of measured_steps*.json; `missing(row)` names what a configuration lacks. Weights and the
optimizer's state are f32, activations bf16 (or the row's `dtype`). The layers are a scan over stacked weights. Dims: B batch,
S and T positions, M model width, N heads, K key heads, D head width, H hidden width, V vocabulary, E experts, C capacity.
"""
import functools

import jax
import jax.numpy as jnp
from jax.ad_checkpoint import checkpoint_name
from jax.sharding import AbstractMesh, NamedSharding, PartitionSpec as P

BF16, F32, I32 = jnp.bfloat16, jnp.float32, jnp.int32
SAVED = {"full": jax.checkpoint_policies.nothing_saveable, "minimal": jax.checkpoint_policies.checkpoint_dots_with_no_batch_dims}
NEEDED = {"decoder": ("layers", "d", "ffn", "heads", "kv", "head_dim", "vocab", "gated", "seq", "batch", "remat"),
          "vit": ("layers", "d", "ffn", "heads", "patch", "image", "batch"), "resnet50": ("batch", "dtype")}


def missing(row):
    kind = row.get("kind", "decoder")
    return [key for key in NEEDED.get(kind, ("kind",)) if key not in row] if kind in NEEDED else [f"a builder of {kind}"]


def mesh_of(row):
    mesh = row.get("mesh") or {"fsdp": row["devices"] // row["tensor"], "tensor": row["tensor"]}
    return AbstractMesh(tuple(mesh.values()), tuple(mesh))


# ---------------------------------------------------------------- products in eight bits
def quantised(x, dtype, largest, dynamic):
    """x over its scale, and the scale; a delayed one is known before, so that the cast needs no pass of its own."""
    scale = jnp.max(jnp.abs(x)).astype(F32) / largest if dynamic else jnp.asarray(1.0, F32)
    y = x.astype(F32) / scale
    return (jnp.round(y) if dtype == jnp.int8 else y).astype(dtype), scale


@functools.partial(jax.custom_vjp, nondiff_argnums=(0, 1))
def narrow_einsum(spec, recipe, x, w):
    return narrow_forward(spec, recipe, x, w)[0]


def eight_bits(recipe, backward):
    if recipe == "int8":
        return jnp.int8, 127.0, True
    return (jnp.float8_e5m2, 57344.0, recipe == "dynamic") if backward else (jnp.float8_e4m3fn, 448.0, recipe == "dynamic")


def scaled(spec, recipe, x, w):
    (x, a), (w, b) = x, w
    y = jnp.einsum(spec, x, w, preferred_element_type=jnp.int32 if recipe == "int8" else BF16)
    return (y.astype(F32) * (a * b)).astype(BF16)


def narrow_forward(spec, recipe, x, w):
    kind = eight_bits(recipe, False)
    xq, wq = quantised(x, *kind), quantised(w, *kind)
    return scaled(spec, recipe, xq, wq), (x if recipe == "int8" else xq, wq)


def narrow_backward(spec, recipe, saved, g):
    x, w = saved
    operands, result = spec.split("->")
    left, right = operands.split(",")
    gq = quantised(g, *eight_bits(recipe, True))
    dx = scaled(f"{result},{right}->{left}", recipe, gq, w)
    if recipe == "int8":  # AQT leaves the weights' gradient in bf16
        return dx, jnp.einsum(f"{left},{result}->{right}", x, g)
    return dx, scaled(f"{left},{result}->{right}", recipe, x, gq)


narrow_einsum.defvjp(narrow_forward, narrow_backward)


# ---------------------------------------------------------------- decoders
class Decoder:
    def __init__(self, row):
        self.row, self.mesh = row, mesh_of(row)
        axes = self.mesh.axis_names
        pick = lambda *names: tuple(n for n in names if n in axes) or None
        # Megatron's gradients are summed over micro-batches on each device, and over `data` once: there a
        # dim of its own leads, which vmap puts before the others.
        self.apart = row.get("zero1") and row.get("ga", 1) > 1
        self.outer_batch = pick("data", "fsdp", "expert")
        self.batch = pick("fsdp", "expert") if self.apart else self.outer_batch
        self.rows = pick("fsdp", "expert")     # what splits weights beside `tensor`
        self.tensor = "tensor" if "tensor" in axes else None
        # Between the parts of a layer. Stages of a pipeline, too, hand on a piece from each device of a tensor group
        # (arXiv 2104.04473, section 4.1).
        is_cut = row.get("sp") or "pipeline" in row
        self.sequence = "context" if "context" in axes else (self.tensor if is_cut else None)
        self.context = "context" if "context" in axes else None
        self.zero = pick("data", "context") if row.get("zero1") else None  # optimizer state alone
        self.recipe = "int8" if row.get("int8") else row.get("fp8")

    def sharding(self, *names):
        return NamedSharding(self.mesh, P(*names))

    def split(self, x, *names):
        return jax.lax.with_sharding_constraint(x, self.sharding(*names))

    def weights(self):
        """Name -> (dims without the layer's, mesh axes, axes while it is used)."""
        r, rows, columns = self.row, self.rows, self.tensor
        width, heads, keys, head, hidden = r["d"], r["heads"], r["kv"], r["head_dim"], r["ffn"]
        key_columns = columns if columns and keys % r["tensor"] == 0 else None
        made = {"norm": ((width,), (None,)), "query": ((width, heads, head), (rows, columns, None)),
                "key": ((width, keys, head), (rows, key_columns, None)), "value": ((width, keys, head), (rows, key_columns, None)),
                "out": ((heads, head, width), (columns, None, rows))}
        if not r.get("parallel"):
            made["norm2"] = made["norm"]
        if "experts" in r:
            experts, deep = r["experts"], r["expert_ffn"]
            inner = "fsdp" if "fsdp" in self.mesh.axis_names else None
            made |= {"router": ((width, experts), (None, None)), "wi": ((experts, width, deep), ("expert", inner, None)),
                     "wo": ((experts, deep, width), ("expert", None, inner))}
        else:
            made |= {"wi": ((width, hidden), (rows, columns)), "wo": ((hidden, width), (columns, rows))}
        if r["gated"]:
            made["wg"] = made["wi"]
        return made

    def shapes(self):
        stack = {name: self.stored((self.row["layers"], *dims), None, *axes) for name, (dims, axes) in self.weights().items()}
        outside = {"embedding": ((self.row["vocab"], self.row["d"]), (self.tensor, self.rows)),
                   "logits": ((self.row["d"], self.row["vocab"]), (self.rows, self.tensor)), "norm": ((self.row["d"],), (None,))}
        return {"layers": stack} | {name: self.stored(dims, *axes) for name, (dims, axes) in outside.items()}

    def zero_dim(self, dims, axes):
        """The dim that ZeRO-1 splits over the batch's axes, or None."""
        if not self.zero:
            return None
        size = 1
        for name in self.zero:
            size *= self.mesh.shape[name]
        return next((i for i, axis in enumerate(axes) if axis is None and dims[i] % size == 0 and (len(dims) < 3 or i)), None)

    def stored(self, dims, *axes):
        """With the state of the optimizer split over the batch's axes (ZeRO-1), so is the f32 copy of the weights."""
        dim = self.zero_dim(dims, axes)
        if dim is not None:
            axes = tuple(self.zero if i == dim else axis for i, axis in enumerate(axes))
        return jax.ShapeDtypeStruct(dims, F32, sharding=self.sharding(*axes))

    def used(self, params):
        """bf16 weights, whole over the axes of ZeRO-1."""
        if not self.zero:
            return params
        layers = {name: self.split(params["layers"][name].astype(BF16), None, *axes) for name, (_, axes) in self.weights().items()}
        return {"layers": layers, "embedding": self.split(params["embedding"].astype(BF16), self.tensor, None),
                "logits": self.split(params["logits"].astype(BF16), None, self.tensor), "norm": params["norm"]}

    def split_like_weights(self, grads):
        """Sums of gradients lie as the weights do while they are used; with FSDP as they are stored."""
        rows = None if self.zero else self.rows
        layers = {name: self.split(grads["layers"][name], None, *axes) for name, (_, axes) in self.weights().items()}
        return {"layers": layers, "embedding": self.split(grads["embedding"], self.tensor, rows),
                "logits": self.split(grads["logits"], rows, self.tensor), "norm": grads["norm"]}

    def project(self, spec, x, w):
        if self.recipe:
            return narrow_einsum(spec, self.recipe, x, w.astype(BF16))
        return jnp.einsum(spec, x, w.astype(BF16))

    def normalise(self, x, scale):
        y = x.astype(F32)
        y = y * jax.lax.rsqrt(jnp.mean(jnp.square(y), axis=-1, keepdims=True) + 1e-6)
        return self.split((y * scale).astype(BF16), self.batch, self.context, None)

    def attention(self, x, p):
        heads = lambda y, axis=self.tensor: self.split(y, self.batch, self.context, axis, None)
        query = checkpoint_name(heads(self.project("BSM,MND->BSND", x, p["query"])), "q")
        key_axis = self.tensor if self.tensor and self.row["kv"] % self.row["tensor"] == 0 else None
        key, value = (checkpoint_name(heads(self.project("BSM,MKD->BSKD", x, p[name]), key_axis), name[0]) for name in ("key", "value"))
        if self.context:
            key, value = (self.split(y, self.batch, None, key_axis, None) for y in (key, value))
        if (shared := query.shape[2] // key.shape[2]) > 1:
            key, value = (jnp.repeat(y, shared, axis=2) for y in (key, value))
        scores = jnp.einsum("BSND,BTND->BNST", query, key).astype(F32) * query.shape[-1] ** -0.5
        causal = jnp.tril(jnp.ones(scores.shape[-2:], bool))
        probabilities = jax.nn.softmax(jnp.where(causal, scores, -1e9), axis=-1).astype(BF16)
        mixed = checkpoint_name(heads(jnp.einsum("BNST,BTND->BSND", probabilities, value)), "context")
        return checkpoint_name(self.between(self.project("BSND,NDM->BSM", mixed, p["out"])), "out")

    def between(self, x):
        """Activations between the parts of a layer."""
        return self.split(x, self.batch, self.sequence, None)

    def feed_forward(self, x, p):
        hidden = checkpoint_name(self.split(self.project("BSM,MH->BSH", x, p["wi"]), self.batch, self.context, self.tensor), "wi")
        if "wg" in p:
            gate = self.split(self.project("BSM,MH->BSH", x, p["wg"]), self.batch, self.context, self.tensor)
            hidden = jax.nn.silu(checkpoint_name(gate, "wg")) * hidden
        else:
            hidden = jax.nn.gelu(hidden)
        return checkpoint_name(self.between(self.project("BSH,HM->BSM", hidden, p["wo"])), "wo")

    def experts(self, x, p):
        gates = jax.nn.softmax(jnp.einsum("BSM,ME->BSE", x.astype(F32), p["router"]), axis=-1)
        values, chosen = jax.lax.top_k(gates, self.row["topk"])
        values = values / jnp.sum(values, axis=-1, keepdims=True)
        by = self.by_masks if self.row["dispatch"] == "mask" else self.by_sorting
        return self.between(by(x, p, values, chosen))

    def run_experts(self, x, p, spec, out):
        hidden = jnp.einsum(spec, x, p["wi"].astype(BF16))
        hidden = jax.nn.silu(jnp.einsum(spec, x, p["wg"].astype(BF16))) * hidden if "wg" in p else jax.nn.gelu(hidden)
        return jnp.einsum(out, hidden, p["wo"].astype(BF16))

    def by_masks(self, x, p, values, chosen):
        experts, topk = self.row["experts"], self.row["topk"]
        capacity = int(self.row["capacity"] * topk * x.shape[1] / experts)
        mask = jax.nn.one_hot(chosen.reshape(chosen.shape[0], -1), experts, dtype=I32)          # B, S x topk, E
        place = (jnp.cumsum(mask, axis=1) * mask - 1).reshape(*chosen.shape, experts)
        slots = jax.nn.one_hot(place, capacity, dtype=BF16)                                    # B, S, topk, E, C
        combine = jnp.einsum("BSKEC,BSK->BSEC", slots, values.astype(BF16))
        outside = tuple(a for a in self.batch if a != "expert")
        sent = jnp.einsum("BSEC,BSM->EBCM", (combine > 0).astype(BF16), x)
        sent = self.split(sent, "expert", outside, None, None)
        back = self.run_experts(sent, p, "EBCM,EMH->EBCH", "EBCH,EHM->EBCM")
        return jnp.einsum("BSEC,EBCM->BSM", combine, self.split(back, "expert", outside, None, None))

    def by_sorting(self, x, p, values, chosen):
        experts, topk, shards = self.row["experts"], self.row["topk"], self.mesh.shape["expert"]
        names = [name for name in ("wi", "wg", "wo") if name in p]

        def local(x, values, chosen, *weights):
            flat, width = x.reshape(-1, x.shape[-1]), x.shape[-1]
            order = jnp.argsort(chosen.reshape(-1))
            sent = flat[order // topk].reshape(experts, -1, width)
            sent = jax.lax.all_to_all(sent, "expert", 0, 1, tiled=True)
            back = self.run_experts(sent, dict(zip(names, weights)), "ECM,EMH->ECH", "ECH,EHM->ECM")
            back = jax.lax.all_to_all(back, "expert", 1, 0, tiled=True).reshape(-1, width)
            back = back[jnp.argsort(order)].reshape(-1, topk, width)
            return jnp.sum(back * values.reshape(-1, topk, 1).astype(BF16), axis=1).reshape(x.shape)
        assert shards * (experts // shards) == experts
        rows = P(self.batch, None, None)
        weights = [p[name].astype(BF16) for name in names]
        return jax.shard_map(local, mesh=self.mesh, in_specs=(rows, rows, rows, *[P("expert", None, None)] * len(names)),
                             out_specs=rows, check_vma=False)(x, values, chosen, *weights)

    def layer(self, x, p):
        mix = self.experts if "experts" in self.row else self.feed_forward
        y = self.normalise(x, p["norm"])
        if self.row.get("parallel"):
            return x + self.attention(y, p) + mix(y, p)
        x = x + self.attention(y, p)
        return x + mix(self.normalise(x, p["norm2"]), p)

    def loss(self, params, tokens, targets):
        table = self.split(params["embedding"].astype(BF16), self.tensor, None)
        x = self.between(table[tokens])
        body, remat = self.layer, self.row["remat"]
        if remat != "none":
            policy = SAVED[remat] if isinstance(remat, str) else jax.checkpoint_policies.save_only_these_names(*remat)
            body = jax.checkpoint(body, prevent_cse=False, policy=policy)
        x, _ = jax.lax.scan(lambda x, p: (body(x, p), None), x, params["layers"])
        logits = jnp.einsum("BSM,MV->BSV", self.normalise(x, params["norm"]), params["logits"].astype(BF16))
        logits = self.split(logits, self.batch, self.context, self.tensor).astype(F32)
        picked = jnp.sum(jax.nn.one_hot(targets, logits.shape[-1]) * logits, axis=-1)
        return jnp.mean(jax.nn.logsumexp(logits, axis=-1) - picked)

    def gradients(self, params, tokens, targets):
        """Summed over `ga` micro-batches in f32; with FSDP scattered with each of them."""
        used = self.used(params)
        if not self.apart:
            return self.summed(used, tokens, targets)
        cut = lambda x: self.split(x.reshape(self.mesh.shape["data"], -1, x.shape[1]), "data", None, self.context)
        apart = jax.vmap(self.summed, in_axes=(None, 0, 0), spmd_axis_name="data")(used, cut(tokens), cut(targets))
        return self.summed_over_data(apart)

    def summed_over_data(self, apart):
        """A reduce-scatter of each leaf [D,..] where ZeRO-1 cuts it, else an all-reduce."""
        layers = {name: ((self.row["layers"], *dims), (None, *axes)) for name, (dims, axes) in self.weights().items()}
        places = {"layers": layers, "embedding": (apart["embedding"].shape[1:], (self.tensor, None)),
                  "logits": (apart["logits"].shape[1:], (None, self.tensor)), "norm": (apart["norm"].shape[1:], (None,))}
        is_none, is_place = (lambda x: x is None), (lambda x: isinstance(x, tuple))
        dims = jax.tree.map(lambda place: self.zero_dim(*place), places, is_leaf=is_place)

        def local(grads):
            return jax.tree.map(lambda dim, g: jax.lax.psum(g[0], "data") if dim is None else jax.lax.psum_scatter(
                g[0], "data", scatter_dimension=dim, tiled=True), dims, grads, is_leaf=is_none)
        out = jax.tree.map(lambda dim: P() if dim is None else P(*[None] * dim, "data"), dims, is_leaf=is_none)
        return jax.shard_map(local, mesh=self.mesh, in_specs=P("data"), out_specs=out, axis_names={"data"}, check_vma=False)(apart)

    def summed(self, used, tokens, targets):
        compute = jax.value_and_grad(self.loss)
        if (micro := self.row.get("ga", 1)) == 1 or "pipeline" in self.row:
            return compute(used, tokens, targets)[1]

        def one(total, batch):
            grads = compute(used, *batch)[1]
            return self.split_like_weights(jax.tree.map(lambda t, g: t + g.astype(F32), total, grads)), None
        zeros = self.split_like_weights(jax.tree.map(lambda p: jnp.zeros(p.shape, F32), used))
        cut = lambda x: self.split(x.reshape(micro, -1, x.shape[1]), None, self.batch, self.context)
        return jax.lax.scan(one, zeros, (cut(tokens), cut(targets)))[0]

    def step(self, params, state, tokens, targets):
        grads = self.gradients(params, tokens, targets)
        grads = jax.tree.map(lambda g, p: jax.lax.with_sharding_constraint(g, p.sharding), grads, self.shapes())
        return adam(params, grads, state)

    def arguments(self):
        params = self.shapes()
        first = jnp.bfloat16 if self.row.get("mu_dtype") == "bf16" else F32
        state = {"m": jax.tree.map(lambda p: jax.ShapeDtypeStruct(p.shape, first, sharding=p.sharding), params), "v": params}
        tokens = jax.ShapeDtypeStruct((self.row["batch"], self.row["seq"]), I32, sharding=self.sharding(self.outer_batch, self.context))
        return params, state, tokens, tokens


def adam(params, grads, state):
    """AdamW."""
    def one(p, g, m, v):
        g = g.astype(F32)
        m, v = 0.9 * m.astype(F32) + 0.1 * g, 0.95 * v + 0.05 * g * g
        return p - 1e-3 * (m / (jnp.sqrt(v) + 1e-8) + 0.1 * p), m.astype(state_dtype), v
    state_dtype = jax.tree.leaves(state["m"])[0].dtype
    leaves, tree = jax.tree.flatten(params)
    parts = [one(*x) for x in zip(leaves, *(jax.tree.leaves(t) for t in (grads, state["m"], state["v"])))]
    params, m, v = (jax.tree.unflatten(tree, part) for part in zip(*parts))
    return params, {"m": m, "v": v}


# ---------------------------------------------------------------- images
class Images:
    """Data parallel; the loss is the cross-entropy of 1,000 classes."""

    def __init__(self, row):
        self.row, self.mesh = row, mesh_of(row)
        self.dtype = {"f16": jnp.float16, "f32": F32, "bf16": BF16}[row.get("dtype", "bf16")]
        self.size = row.get("image", 224)

    def whole(self, *dims):
        return jax.ShapeDtypeStruct(dims, F32, sharding=NamedSharding(self.mesh, P()))

    def arguments(self):
        sharding = NamedSharding(self.mesh, P("data"))
        images = jax.ShapeDtypeStruct((self.row["batch"], self.size, self.size, 3), self.dtype, sharding=sharding)
        params = self.shapes()
        if not self.row.get("train", True):
            return params, images
        state = {"m": params, "v": params} if self.row["kind"] == "vit" else params
        return params, state, images, jax.ShapeDtypeStruct((self.row["batch"],), I32, sharding=sharding)

    def step(self, params, *more):
        if not self.row.get("train", True):
            return self.logits(params, *more)
        state, images, labels = more

        def loss(params):
            logits = self.logits(params, images).astype(F32)
            return -jnp.mean(jnp.sum(jax.nn.one_hot(labels, 1000) * jax.nn.log_softmax(logits), axis=-1))
        grads = jax.grad(loss)(params)
        if self.row["kind"] == "vit":
            return adam(params, grads, state)
        state = jax.tree.map(lambda m, g: 0.9 * m + g, state, grads)
        return jax.tree.map(lambda p, m: p - 0.1 * m, params, state), state


class Vit(Images):
    def shapes(self):
        r, width = self.row, self.row["d"]
        head = width // r["heads"]
        stack = {"norm": (width,), "norm2": (width,), "qkv": (width, 3, r["heads"], head), "out": (r["heads"], head, width),
                 "wi": (width, r["ffn"]), "wo": (r["ffn"], width)}
        patches = (self.size // r["patch"]) ** 2
        return {"layers": {name: self.whole(r["layers"], *dims) for name, dims in stack.items()},
                "patch": self.whole(3 * r["patch"] ** 2, width), "class": self.whole(1, 1, width),
                "position": self.whole(patches + 1, width), "head": self.whole(width, 1000)}

    def layer(self, x, p):
        w = {name: value.astype(self.dtype) for name, value in p.items()}

        def norm(x, scale):
            y = x.astype(F32)
            y = y - jnp.mean(y, axis=-1, keepdims=True)
            return (y * jax.lax.rsqrt(jnp.mean(y * y, axis=-1, keepdims=True) + 1e-6) * scale).astype(self.dtype)
        q, k, v = jnp.einsum("BSM,MCND->CBSND", norm(x, p["norm"]), w["qkv"])
        scores = jnp.einsum("BSND,BTND->BNST", q, k).astype(F32) * q.shape[-1] ** -0.5
        mixed = jnp.einsum("BNST,BTND->BSND", jax.nn.softmax(scores, axis=-1).astype(self.dtype), v)
        x = x + jnp.einsum("BSND,NDM->BSM", mixed, w["out"])
        return x + jax.nn.gelu(norm(x, p["norm2"]) @ w["wi"]) @ w["wo"], None

    def logits(self, params, images):
        n, patch = self.size // self.row["patch"], self.row["patch"]
        x = images.reshape(-1, n, patch, n, patch, 3).transpose(0, 1, 3, 2, 4, 5).reshape(images.shape[0], n * n, -1)
        x = x.astype(self.dtype) @ params["patch"].astype(self.dtype)
        first = jnp.broadcast_to(params["class"].astype(self.dtype), (x.shape[0], 1, x.shape[2]))
        x = jnp.concatenate([first, x], axis=1) + params["position"].astype(self.dtype)
        x, _ = jax.lax.scan(self.layer, x, params["layers"])
        return x[:, 0] @ params["head"].astype(self.dtype)


class ResNet50(Images):
    STAGES = ((3, 64), (4, 128), (6, 256), (3, 512))

    def blocks(self):
        inside = 64
        for stage, (count, width) in enumerate(self.STAGES):
            for block in range(count):
                yield inside, width, 2 if stage and not block else 1
                inside = 4 * width

    def shapes(self):
        made = []
        for inside, width, stride in self.blocks():
            p = {"a": (1, 1, inside, width), "b": (3, 3, width, width), "c": (1, 1, width, 4 * width)}
            if inside != 4 * width:
                p["short"] = (1, 1, inside, 4 * width)
            made.append({name: {"w": self.whole(*dims), "scale": self.whole(dims[3]), "bias": self.whole(dims[3])} for name, dims in p.items()})
        stem = {"w": self.whole(7, 7, 3, 64), "scale": self.whole(64), "bias": self.whole(64)}
        return {"stem": stem, "blocks": made, "head": self.whole(2048, 1000)}

    def convolve(self, x, p, stride=1):
        x = jax.lax.conv_general_dilated(x, p["w"].astype(self.dtype), (stride, stride), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC"))
        if not self.row.get("train", True):  # what was measured while training is folded into scale and bias
            return x * p["scale"].astype(self.dtype) + p["bias"].astype(self.dtype)
        y = x.astype(F32)
        mean = jnp.mean(y, axis=(0, 1, 2))
        variance = jnp.mean(y * y, axis=(0, 1, 2)) - mean * mean
        return ((y - mean) * (jax.lax.rsqrt(variance + 1e-5) * p["scale"]) + p["bias"]).astype(self.dtype)

    def logits(self, params, images):
        x = jax.nn.relu(self.convolve(images, params["stem"], 2))
        x = jax.lax.reduce_window(x, -jnp.inf, jax.lax.max, (1, 3, 3, 1), (1, 2, 2, 1), "SAME")
        for p, (_, _, stride) in zip(params["blocks"], self.blocks()):
            y = jax.nn.relu(self.convolve(x, p["a"]))
            y = jax.nn.relu(self.convolve(y, p["b"], stride))
            y = self.convolve(y, p["c"])
            x = jax.nn.relu(y + (self.convolve(x, p["short"], stride) if "short" in p else x))
        return jnp.mean(x, axis=(1, 2)) @ params["head"].astype(self.dtype)


def program(row):
    """StableHLO of one training step (or, where the row says so, of inference)."""
    model = {"decoder": Decoder, "vit": Vit, "resnet50": ResNet50}[row.get("kind", "decoder")](row)
    donated = (0, 1) if row.get("train", True) else ()
    platform = "tpu" if row["chip"].startswith("tpu") else "cuda"
    return jax.jit(model.step, donate_argnums=donated).trace(*model.arguments()).lower(lowering_platforms=(platform,)).as_text(debug_info=True)
