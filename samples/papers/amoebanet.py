"""AmoebaNet-D at true size, from shapes alone: the network of GPipe's image tables.

The cells are those of Real et al. 2018 as the authors' program has them: normal cells join states 0, 3, 4 and 6. A cell
sees the results of the two before it. Parameters agree with what is published for five sizes (`parameters`):
81.5M (18,208), 319.0M (18,416), 542.7M (18,544), 1.06B (36,544), 1.84B (72,512).
"""

import functools

import jax
import jax.numpy as jnp

import gpipe

# Pairs of (state, operation); the sum of a pair is the next state.
NORMAL = (((1, "1x1"), (1, "max3")), ((1, "same"), (0, "1x7")), ((0, "1x1"), (0, "1x7")), ((2, "max3"), (2, "same")),
          ((1, "mean3"), (5, "1x1")))
REDUCTION = (((0, "max2"), (0, "max3")), ((2, "same"), (1, "3x3")), ((2, "1x7"), (2, "max3")), ((3, "same"), (1, "max2")),
             ((2, "mean3"), (3, "1x1")))
NORMAL_JOINED, REDUCTION_JOINED = (0, 3, 4, 6), (4, 5, 6)
# Kernels of an operation on C channels, (height, width, channels in and out as parts of C).
KERNELS = {"1x1": ((1, 1, 1, 1),), "3x3": ((1, 1, 1, 4), (3, 3, 4, 4), (1, 1, 4, 1)),
           "1x7": ((1, 1, 1, 4), (1, 7, 4, 4), (7, 1, 4, 4), (1, 1, 4, 1))}


def weights(height, width, before, after):
    return dict(w=gpipe.f32(height, width, before, after), scale=gpipe.f32(after), shift=gpipe.f32(after))


def activate(x, p, stride=1, name="convolution"):
    """Rectifier, convolution, normalisation over the examples."""
    x = jax.nn.relu(x)
    with jax.named_scope(name):
        x = gpipe.convolution(x, p["w"], stride)
    x = x.astype(jnp.float32)
    mean = jnp.mean(x, (0, 1, 2))
    variance = jnp.mean(x * x, (0, 1, 2)) - mean * mean
    return gpipe.half((x - mean) * jax.lax.rsqrt(variance + 1e-3) * p["scale"] + p["shift"])


def pool(x, kind, stride):
    size = 2 if kind == "max2" else 3
    window, strides = (1, size, size, 1), (1, stride, stride, 1)
    if kind == "mean3":
        ones = jnp.ones(x.shape[1:3], jnp.float32)[None, :, :, None]
        add = functools.partial(jax.lax.reduce_window, init_value=0.0, computation=jax.lax.add, window_dimensions=window,
                                window_strides=strides, padding="SAME")
        return gpipe.half(add(x.astype(jnp.float32)) / add(ones))
    return jax.lax.reduce_window(x, -jnp.inf, jax.lax.max, window, strides, "SAME")


def operation_shapes(name, channels):
    return [weights(h, w, channels // i, channels // o) for h, w, i, o in KERNELS.get(name, ())]


def operation(x, name, p, stride):
    if name in ("max2", "max3", "mean3"):
        return pool(x, name, stride)
    for (height, width, _, _), kernel in zip(KERNELS.get(name, ()), p):
        # The kernel that looks around is the one that halves; a lone 1x1 halves itself.
        halves = height * width > 1 or len(p) == 1
        x = activate(x, kernel, stride if halves else 1)
        stride = 1 if halves else stride
    return x


def network(cells, filters):
    """Of each cell: is it a reduction, its channels, those of the last cell and the one before, was that a reduction."""
    plan, channels, last, earlier, reduced = [], filters // 4, filters // 4, filters // 4, False
    for reduces in [True, True] + ([False] * (cells // 3) + [True]) * 2 + [False] * (cells // 3):
        channels *= 2 if reduces else 1
        plan.append((reduces, channels, last, earlier, reduced))
        earlier, last = last, channels * len(REDUCTION_JOINED if reduces else NORMAL_JOINED)
        reduced = reduces
    return plan, last


def cell_shapes(reduces, channels, last, earlier, reduced):
    shapes = dict(last=weights(1, 1, last, channels),
                  operations=[[operation_shapes(name, channels) for _, name in pair]
                              for pair in (REDUCTION if reduces else NORMAL)])
    if reduced:
        shapes["halves"] = [weights(1, 1, earlier, channels // 2) for _ in range(2)]
    elif earlier != channels:
        shapes["earlier"] = weights(1, 1, earlier, channels)
    return shapes


def cell(x, before, p, reduces, number):
    """The cell's result; `before` is what the last cell got. It begins with convolution `cell_number`."""
    if "halves" in p:
        # Two grids of every second pixel.
        shifted = jnp.pad(before, ((0, 0), (0, 1), (0, 1), (0, 0)))[:, 1:, 1:]
        before = jnp.concatenate([activate(before, p["halves"][0], 2), activate(shifted, p["halves"][1], 2)], -1)
    elif "earlier" in p:
        before = activate(before, p["earlier"])
    states = [activate(x, p["last"], name=f"cell_{number}"), before]
    for pair, kernels in zip(REDUCTION if reduces else NORMAL, p["operations"]):
        states.append(sum(operation(states[i], name, k, 2 if reduces and i < 2 and name != "same" else 1)
                          for (i, name), k in zip(pair, kernels)))
    return jnp.concatenate([states[i] for i in (REDUCTION_JOINED if reduces else NORMAL_JOINED)], -1)


def shapes(cells, filters, classes):
    plan, last = network(cells, filters)
    return dict(stem=weights(3, 3, 3, filters // 4), cells=[cell_shapes(*of) for of in plan], head=gpipe.f32(last, classes))


def parameters(cells, filters, classes=1000):
    return sum(x.size for x in jax.tree.leaves(shapes(cells, filters, classes)))


def amoebanet(cells, filters, batch=128, size=224, classes=1000):
    plan, _ = network(cells, filters)

    def loss(p, batch):
        x = before = activate(batch["images"], p["stem"], 2)
        for number, ((reduces, *_), weights_of) in enumerate(zip(plan, p["cells"])):
            x, before = cell(x, before, weights_of, reduces, number), x
        with jax.named_scope("cell_head"):
            pooled = jnp.mean(x.astype(jnp.float32), (1, 2))
        logits = pooled @ p["head"]
        picked = jnp.take_along_axis(logits, batch["labels"][:, None], -1)[:, 0]
        return jnp.mean(jax.nn.logsumexp(logits, -1) - picked)

    inputs = dict(images=jax.ShapeDtypeStruct((batch, size, size, 3), jnp.bfloat16),
                  labels=jax.ShapeDtypeStruct((batch,), jnp.int32))
    return gpipe.text(loss, shapes(cells, filters, classes), inputs, f"AmoebaNet-D({cells},{filters})")
