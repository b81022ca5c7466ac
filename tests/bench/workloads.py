#!/usr/bin/env python3
"""The six workloads of vs_xla.py, as JAX functions: their HLO text, and their step times on XLA.

  workloads.py text NAME --devices N -o FILE.hlo     what JAX hands to XLA, shardings included
  workloads.py run NAME --devices N [--steps K]      JSON line: seconds a step, compile time, memory

N = 1 is the graph without shardings. For `run` the mesh is emulated (--xla_force_host_platform_device_count). Memory is the
peak resident set of the process beyond what it holds before anything is compiled.
Dims: B batch, S and T positions, M model width, N heads, D head width, H hidden width, L layers, E experts.
"""
import argparse
import json
import os
import resource
import sys
import time

F32, S32 = "float32", "int32"


class Workload:
    """A function, its arguments (shape, dtype, spec of mesh axes) and which of them are donated."""

    def __init__(self, step, arguments, donate=()):
        self.step, self.arguments, self.donate = step, arguments, donate


def f32(dims, *spec):
    return (dims, F32, spec)


def relu(x):
    import jax.numpy as jnp
    return jnp.maximum(x, 0.0)


# ---------------------------------------------------------------- MLP
def mlp(constrain, devices):
    """Two matmuls, forward; 69 GFLOP."""

    def step(x, wi, wo):
        return constrain(relu(x @ wi) @ wo, "data", None)

    return Workload(step, (f32((4096, 1024), "data", None), f32((1024, 4096), None, "model"),
                           f32((4096, 1024), "model", None)))


# ---------------------------------------------------------------- Transformer layers
def normalise(x, scale):
    import jax
    import jax.numpy as jnp
    return x * jax.lax.rsqrt(jnp.mean(jnp.square(x), axis=-1, keepdims=True) + 1e-6) * (1.0 + scale)


def attention(x, layer, constrain):
    """Causal self-attention over x [B,S,M], split by heads."""
    import jax
    import jax.numpy as jnp
    heads = lambda w: constrain(jnp.einsum("BSM,MND->BSND", x, w), "data", None, "model", None)
    query, key, value = (heads(layer[name]) for name in ("query", "key", "value"))
    logits = jnp.einsum("BSND,BTND->BNST", query, key) * query.shape[-1]**-0.5
    position = jnp.arange(x.shape[1])
    causal = jnp.where(position[:, None] >= position[None, :], 0.0, -1e9)
    weights = jax.nn.softmax(logits + causal, axis=-1)
    context = constrain(jnp.einsum("BNST,BTND->BSND", weights, value), "data", None, "model", None)
    return jnp.einsum("BSND,NDM->BSM", context, layer["out"])


def transformer_layer(x, layer, constrain):
    import jax.numpy as jnp
    x = constrain(x + attention(normalise(x, layer["norm1"]), layer, constrain), "data", None, None)
    hidden = jnp.einsum("BSM,MH->BSH", normalise(x, layer["norm2"]), layer["wi"])
    hidden = relu(constrain(hidden, "data", None, "model"))
    return constrain(x + jnp.einsum("BSH,HM->BSM", hidden, layer["wo"]), "data", None, None)


def layer_arguments(model, heads, head_width, hidden, layers=None, fsdp=None):
    """Weights split as in Megatron, of one layer or of `layers` stacked ones; `fsdp` splits the model width too."""
    def weight(dims, *spec):
        return f32((layers, *dims), None, *spec) if layers else f32(dims, *spec)

    return {
        "norm1": weight((model,), None), "norm2": weight((model,), None),
        "query": weight((model, heads, head_width), fsdp, "model", None),
        "key": weight((model, heads, head_width), fsdp, "model", None),
        "value": weight((model, heads, head_width), fsdp, "model", None),
        "out": weight((heads, head_width, model), "model", None, fsdp),
        "wi": weight((model, hidden), fsdp, "model"),
        "wo": weight((hidden, model), "model", fsdp),
    }


def sgd(loss):
    """A training step that returns the new parameters and the loss."""
    import jax

    def step(params, *batch):
        value, gradients = jax.value_and_grad(loss)(params, *batch)
        return jax.tree.map(lambda p, g: p - 0.01 * g, params, gradients), value

    return step


def megatron(constrain, devices):
    """Four Transformer layers, unrolled: forward, backward, SGD; 89 GFLOP."""
    import jax.numpy as jnp
    batch, sequence, model = 128, 32, 256

    def loss(params, x, target):
        for layer in params:
            x = transformer_layer(x, layer, constrain)
        return jnp.mean(jnp.square(x - target))

    params = [layer_arguments(model, 32, 8, 1024) for _ in range(4)]
    activations = f32((batch, sequence, model), "data", None, None)
    return Workload(sgd(loss), (params, activations, activations), donate=(0,))


def transformer(constrain, devices):
    """Language model, its layers in a scan over stacked weights that are split over the whole mesh; rematerialised."""
    import functools
    import jax
    import jax.numpy as jnp
    batch, sequence, model, vocabulary, layers = 128, 32, 256, 1024, 4

    def loss(params, tokens, targets):
        x = constrain(params["embedding"][tokens], "data", None, None)
        block = jax.checkpoint(lambda x, layer: (transformer_layer(x, layer, constrain), None), prevent_cse=False)
        x, _ = jax.lax.scan(block, x, params["layers"])
        logits = constrain(jnp.einsum("BSM,MV->BSV", x, params["softmax"]), "data", None, "model")
        wanted = jax.nn.one_hot(targets, vocabulary, dtype=logits.dtype)
        return -jnp.mean(jnp.sum(jax.nn.log_softmax(logits, axis=-1) * wanted, axis=-1))

    params = {
        "embedding": f32((vocabulary, model), None, "model"),
        "softmax": f32((model, vocabulary), "data", "model"),
        "layers": layer_arguments(model, 64, 4, 1024, layers, "data"),
    }
    tokens = ((batch, sequence), S32, ("data", None))
    return Workload(sgd(loss), (params, tokens, tokens), donate=(0,))


# ---------------------------------------------------------------- GShard mixture of experts
def moe(constrain, devices):
    """One layer with top-2 gating (GShard, Algorithm 1), forward: an expert and a group of tokens a device."""
    import jax
    import jax.numpy as jnp
    groups = experts = devices if devices > 1 else 2048
    sequence, model, hidden, capacity = 16, 32, 64, 1

    def weights(gate, mask, slot):
        mask = mask * (slot < capacity)
        slot = jnp.sum(slot * mask, axis=-1).astype(jnp.int32)
        return jnp.einsum("GSE,GSC->GSEC", gate[..., None] * mask, jax.nn.one_hot(slot, capacity, dtype=F32))

    def step(x, gate, wi, wo):
        by_group = lambda value: constrain(value, "data", *[None] * (value.ndim - 1))
        gates = by_group(jax.nn.softmax(jnp.einsum("GSM,ME->GSE", x, gate), axis=-1))
        first = jax.nn.one_hot(jnp.argmax(gates, axis=-1), experts, dtype=F32)
        second = jax.nn.one_hot(jnp.argmax(gates * (1.0 - first), axis=-1), experts, dtype=F32)
        first_gate, second_gate = jnp.sum(gates * first, axis=-1), jnp.sum(gates * second, axis=-1)
        total = first_gate + second_gate
        first_slot = jnp.cumsum(first, axis=1) - first
        second_slot = jnp.cumsum(second, axis=1) - second + jnp.sum(first, axis=1, keepdims=True)
        combine = by_group(weights(first_gate / total, first, first_slot) +
                           weights(second_gate / total, second, second_slot))
        dispatch = (combine > 0.0).astype(F32)
        inputs = by_group(jnp.einsum("GSEC,GSM->GECM", dispatch, x))
        inputs = constrain(jnp.swapaxes(inputs, 0, 1), "data", None, None, None)
        inner = relu(jnp.einsum("EGCM,EMH->EGCH", inputs, wi))
        outputs = constrain(jnp.einsum("EGCH,EHM->EGCM", inner, wo), "data", None, None, None)
        outputs = by_group(jnp.swapaxes(outputs, 0, 1))
        return by_group(jnp.einsum("GSEC,GECM->GSM", combine, outputs))

    return Workload(step, (f32((groups, sequence, model), "data", None, None), f32((model, experts), None, None),
                           f32((experts, model, hidden), "data", None, None),
                           f32((experts, hidden, model), "data", None, None)))


# ---------------------------------------------------------------- spatial convolution
def spatial(constrain, devices):
    """Two convolutions and two max-poolings over images cut into bands: halo exchange."""
    import jax
    import jax.numpy as jnp

    def convolve(x, w):
        y = jax.lax.conv_general_dilated(x, w, (1, 1), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC"))
        return constrain(relu(y), "data", "model", None, None)

    def pool(x):
        x = jax.lax.reduce_window(x, -jnp.inf, jax.lax.max, (1, 3, 3, 1), (1, 2, 2, 1), "SAME")
        return constrain(x, "data", "model", None, None)

    return Workload(lambda x, w1, w2: pool(convolve(pool(convolve(x, w1)), w2)),
                    (f32((256, 64, 64, 8), "data", "model", None, None), f32((3, 3, 8, 16)), f32((3, 3, 16, 32))))


# ---------------------------------------------------------------- pipelined loop
def pipeline(constrain, devices):
    """GSPMD pipelined loop: eight stages as one sharded stage, sixteen micro-batches; forward and backward."""
    import jax
    import jax.numpy as jnp
    stages, microbatches, batch, model, hidden = 8, 16, 256, 128, 512

    def loss(params, inputs):
        def turn(state, x):
            state = constrain(jnp.concatenate([x[None], state[:-1]]), "stage", "data", None)
            inner = relu(constrain(jnp.einsum("LBM,LMH->LBH", state, params["wi"]), "stage", "data", "model"))
            state = constrain(state + jnp.einsum("LBH,LHM->LBM", inner, params["wo"]), "stage", "data", None)
            return state, state[-1]

        bubble = jnp.zeros((stages - 1, batch, model), F32)
        _, outputs = jax.lax.scan(turn, jnp.zeros((stages, batch, model), F32), jnp.concatenate([inputs, bubble]))
        return jnp.mean(jnp.square(outputs[stages - 1:]))

    params = {"wi": f32((stages, model, hidden), "stage", None, "model"),
              "wo": f32((stages, hidden, model), "stage", "model", None)}
    return Workload(sgd(loss), (params, f32((microbatches, batch, model), None, "data", None)), donate=(0,))


def deep(constrain, devices):
    """For planning: a training step of more than 5,000 instructions on one device."""
    import jax.numpy as jnp

    def loss(params, x, target):
        for layer in params:
            x = transformer_layer(x, layer, constrain)
        return jnp.mean(jnp.square(x - target))

    activations = f32((64, 8, 64), "data", None, None)
    params = [layer_arguments(64, 64, 2, 256) for _ in range(24)]
    return Workload(sgd(loss), (params, activations, activations), donate=(0,))


WORKLOADS = {w.__name__: w for w in (mlp, megatron, transformer, moe, spatial, pipeline, deep)}


def mesh_of(name, devices):
    """Sizes of the mesh axes."""
    if name == "moe":
        return {"data": devices}
    if name == "spatial":
        return {"data": devices // 16, "model": 16}
    if name == "pipeline":
        data = 1 << ((devices // 8).bit_length() // 2)
        return {"stage": 8, "data": data, "model": devices // 8 // data}
    log = devices.bit_length() - 1
    data = 1 << ((log + 1) // 2 if name == "megatron" else log // 2)
    return {"data": data, "model": devices // data}


class Case:
    """A workload jitted for so many devices; is_abstract: they need not exist."""

    def __init__(self, name, devices, is_abstract):
        import jax
        from jax.sharding import AbstractMesh, AxisType, NamedSharding, PartitionSpec
        self.devices = devices
        if devices > 1:
            axes = mesh_of(name, devices)
            make_mesh = AbstractMesh if is_abstract else jax.make_mesh
            mesh = make_mesh(tuple(axes.values()), tuple(axes), axis_types=(AxisType.Auto,) * len(axes))
            sharding = lambda *spec: NamedSharding(mesh, PartitionSpec(*spec))
            workload = WORKLOADS[name](lambda x, *spec: jax.lax.with_sharding_constraint(x, sharding(*spec)), devices)
        else:
            workload = WORKLOADS[name](lambda x, *spec: x, devices)
        leaf = lambda x: isinstance(x, tuple) and len(x) == 3 and isinstance(x[1], str)
        each = lambda function: jax.tree.map(function, workload.arguments, is_leaf=leaf)
        self.shapes = each(lambda a: jax.ShapeDtypeStruct(a[0], a[1]))
        options = {"donate_argnums": workload.donate}
        if devices > 1:
            self.shardings = each(lambda a: sharding(*a[2]))
            options["in_shardings"] = self.shardings
        self.jitted = jax.jit(workload.step, **options)

    def inputs(self, which=None):
        """Random arguments; integers are small, so that they are indices everywhere."""
        import jax
        import numpy as np
        random = np.random.default_rng(1)

        def make(shape):
            if shape.dtype == S32:
                return random.integers(0, 4, shape.shape, dtype=S32)
            return random.standard_normal(shape.shape, dtype=F32) * np.float32(0.1)

        values = [jax.tree.map(make, shape) for shape in self.shapes]
        if self.devices > 1:
            values = [jax.device_put(value, sharding) for value, sharding in zip(values, self.shardings)]
        else:
            values = [jax.device_put(value) for value in values]
        return jax.block_until_ready(values)


def write_text(case, path):
    text = case.jitted.trace(*case.shapes).lower(lowering_platforms=("cpu",)).as_text(dialect="hlo")
    with open(path, "w") as file:
        file.write(text)


def peak_bytes():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def run(case, steps):
    import jax
    jax.devices()
    before = peak_bytes()
    start = time.perf_counter()
    compiled = case.jitted.lower(*case.shapes).compile()
    report = {"compile_s": time.perf_counter() - start, "times_s": []}
    arguments = case.inputs()
    for _ in range(steps + 1):  # the first warms up
        start = time.perf_counter()
        result = jax.block_until_ready(compiled(*arguments))
        report["times_s"].append(time.perf_counter() - start)
        if case.jitted is not None and isinstance(result, tuple):
            arguments[0] = result[0]  # donated
        del result
        print(json.dumps(dict(report, peak_bytes=peak_bytes() - before)), flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["text", "run"])
    parser.add_argument("name", choices=list(WORKLOADS))
    parser.add_argument("--devices", type=int, default=1)
    parser.add_argument("--steps", type=int, default=3)
    parser.add_argument("-o", "--output")
    options = parser.parse_args()
    os.environ["JAX_PLATFORMS"] = "cpu"
    if options.what == "run":  # a text needs no devices, each of which would be threads here
        os.environ["XLA_FLAGS"] = f"--xla_force_host_platform_device_count={options.devices}"
    import jax
    jax.config.update("jax_use_shardy_partitioner", options.what == "run")
    case = Case(options.name, options.devices, is_abstract=options.what == "text")
    if options.what == "text":
        write_text(case, options.output)
    else:
        run(case, options.steps)


if __name__ == "__main__":
    sys.exit(main())
