"""Shardings inferred in Shardy's mode against those of Shardy's own passes, which jaxlib registers.

JAX programs with random shardings of their arguments over a mesh of 2 x 4 devices, as jit prints them. Shardy's passes run over a
copy whose operations are named by their locations; gshard-opt propagate keeps these names as op_name. Of every program each
argument, result and operation is compared, axis by axis. Programs with calls or CHLO operations are left out: XLA resolves them
before it asks Shardy. In about one program of a hundred two conflicting axes meet in an order that is Shardy's work list's
(docs/propagation.md, section 11): 99 % of the values and 95 % of the programs must agree.
GSHARD_SHARDY_SEEDS: random shardings of each program (default 4).
"""
import os
import random
import re
import subprocess
import tempfile

os.environ["XLA_FLAGS"] = "--xla_force_host_platform_device_count=8"

import jax
import jax.numpy as jnp
from jax import lax
from jax._src.interpreters import mlir
from jax.sharding import AxisType, NamedSharding
from jax.sharding import PartitionSpec as P
from jaxlib.mlir import ir
from jaxlib.mlir.passmanager import PassManager

from tally import Tally

PASSES = """symbol-dce, sdy-lift-inlined-meshes, sdy-remove-size-one-axes, sdy-constant-or-scalar-splitter, symbol-dce,
sdy-manual-axes-cleanup, sdy-add-data-flow-edges, sdy-apply-sharding-constraints, sdy-sharding-group-import,
sdy-user-priority-propagate, sdy-propagate-to-func-results, func.func(sdy-constant-or-scalar-merger),
func.func(sdy-sink-data-flow-edges), sdy-remove-sharding-groups, func.func(sdy-sharding-constraint-to-reshard),
sdy-update-non-divisible-input-output-shardings, sdy-remove-sub-axes-in-input-output-shardings, sdy-close-shardings"""
MESH = jax.make_mesh((2, 4), ("a", "b"), axis_types=(AxisType.Auto,) * 2)


def array(*shape, dtype=jnp.float32):
    return jax.ShapeDtypeStruct(shape, dtype)


def index(*shape):
    return array(*shape, dtype=jnp.int32)


X, Y, V = array(8, 16), array(16, 32), array(16)
CONV = dict(window_strides=(1, 1), padding="SAME", dimension_numbers=("NHWC", "HWIO", "NHWC"))
IMAGES = array(8, 16, 16, 8)


def layers(x, w, v):
    return lax.scan(lambda c, p: (c + jnp.maximum(c @ p[0], 0.) @ p[1], None), x, (w, v))[0]


PROGRAMS = {
    "add": (lambda x, y: x + y, [X, X]),
    "add_row": (lambda x, y: x + y[None, :], [X, V]),
    "add_column": (lambda x, y: x + y, [X, array(8, 1)]),
    "dot": (lambda x, y: x @ y, [X, Y]),
    "batch_dot": (lambda x, y: jnp.einsum("bij,bjk->bik", x, y), [array(4, 8, 16), array(4, 16, 32)]),
    "attention": (lambda q, k: jnp.einsum("bshd,bthd->bhst", q, k), [array(2, 8, 4, 16)] * 2),
    "mlp": (lambda x, w, v: jnp.maximum(x @ w, 0.) @ v, [X, Y, array(32, 16)]),
    "split_dim": (lambda x: x.reshape(8, 4, 4), [X]),
    "join_dims": (lambda x: x.reshape(128), [X]),
    "transpose": (lambda x: x.T, [X]),
    "sum": (lambda x: x.sum(0), [X]),
    "largest": (lambda x: x.max(), [X]),
    "normalised": (lambda x: x / jnp.sqrt((x * x).sum(-1, keepdims=True)), [X]),
    "slice": (lambda x: x[2:6], [X]),
    "strided": (lambda x: x[:, ::2], [X]),
    "pad": (lambda x: lax.pad(x, 0., ((0, 0, 0), (1, 3, 0))), [X]),
    "concatenate": (lambda x, y: lax.concatenate([x, y], 0), [X, X]),
    "reverse": (lambda x: lax.rev(x, (0,)), [X]),
    "sort": (lambda x: lax.sort(x, dimension=1), [X]),
    "cumulative": (lambda x: lax.cumsum(x, axis=1), [X]),
    "arg_max": (lambda x: lax.argmax(x, 1, jnp.int32), [X]),
    "rows": (lambda x, i: x.at[i].get(mode="clip"), [X, index(4)]),
    "add_rows": (lambda x, i, u: x.at[i].add(u, mode="drop"), [X, index(4), array(4, 16)]),
    "set_rows": (lambda x, i, u: x.at[i].set(u, mode="drop"), [X, index(4), array(4, 16)]),
    "dynamic_slice": (lambda x, i: lax.dynamic_slice_in_dim(x, i, 2, 0), [X, index()]),
    "dynamic_update": (lambda x, u, i: lax.dynamic_update_slice_in_dim(x, u, i, 0), [X, array(2, 16), index()]),
    "convolution": (lambda x, k: lax.conv_general_dilated(x, k, **CONV), [IMAGES, array(3, 3, 8, 16)]),
    "blocks": (lambda x, k: lax.conv_general_dilated(x, k, **{**CONV, "window_strides": (2, 2)}), [IMAGES, array(2, 2, 8, 16)]),
    "grouped": (lambda x, k: lax.conv_general_dilated(x, k, feature_group_count=4, **CONV), [IMAGES, array(3, 3, 2, 16)]),
    "depthwise": (lambda x, k: lax.conv_general_dilated(x, k, feature_group_count=8, **CONV), [IMAGES, array(3, 3, 1, 8)]),
    "pool": (lambda x: lax.reduce_window(x, -jnp.inf, lax.max, (1, 2, 2, 1), (1, 2, 2, 1), "VALID"), [IMAGES]),
    "transform": (lambda x: lax.fft(x, "fft", (16,)), [array(8, 16, dtype=jnp.complex64)]),
    "real_transform": (lambda x: lax.fft(x, "rfft", (16,)), [X]),
    "cholesky": (lambda x: lax.linalg.cholesky(x, symmetrize_input=False), [array(4, 8, 8)]),
    "solve": (lambda a, b: lax.linalg.triangular_solve(a, b, left_side=True, lower=True), [array(4, 8, 8), array(4, 8, 16)]),
    "select": (lambda x, y: lax.select(x > 0, x, y), [X, X]),
    "clamp": (lambda x: lax.clamp(0., x, 1.), [X]),
    "branches": (lambda p, x: lax.cond(p, lambda x: x * 2, jnp.sin, x), [array(dtype=jnp.bool_), X]),
    "scan": (lambda x, w: lax.scan(lambda c, w: (jnp.tanh(c @ w), c.sum()), x, w), [X, array(3, 16, 16)]),
    "repeated": (lambda x, w: lax.fori_loop(0, 3, lambda i, c: jnp.tanh(c @ w), x), [X, array(16, 16)]),
    "layers": (layers, [X, array(3, 16, 32), array(3, 32, 16)]),
    "gradients": (jax.grad(lambda w, v, x: layers(x, w, v).sum(), argnums=(0, 1)), [array(3, 16, 32), array(3, 32, 16), X]),
    "numbers": (lambda x: x + lax.broadcasted_iota(jnp.float32, (8, 16), 1), [X]),
    "types": (lambda x, y: (x @ y).astype(jnp.bfloat16).astype(jnp.float32), [X, Y]),
    "complex": (lambda x, y: lax.abs(lax.complex(x, y)), [X, X]),
    "bytes": (lambda x: lax.bitcast_convert_type(x, jnp.uint8), [X]),
    "constrained": (lambda x, w: lax.with_sharding_constraint(x @ w, NamedSharding(MESH, P("a", None))), [X, Y]),
    "half_open": (lambda x, w: lax.with_sharding_constraint(x @ w, NamedSharding(MESH, P("a", P.UNCONSTRAINED))), [X, Y]),
    "per_device": (jax.shard_map(lambda x, w: x @ w, mesh=MESH, in_specs=(P("a"), P()), out_specs=P("a"), axis_names={"a"}), [X, Y]),
}


def random_sharding(shape, rng):
    """Over one or both axes, or none; dims divide."""
    for _ in range(20):
        dims = [()] * len(shape)
        for axis in rng.sample(["a", "b"], rng.choice([0, 1, 1, 2, 2])):
            if shape:
                d = rng.randrange(len(shape))
                dims[d] += (axis,)
        sizes = [2 ** ("a" in d) * 4 ** ("b" in d) for d in dims]
        if all(n % size == 0 for n, size in zip(shape, sizes)):
            return NamedSharding(MESH, P(*[d if d else None for d in dims]))
    return None


def walk(operation):
    for region in operation.regions:
        for block in region:
            for inner in block:
                yield inner.operation
                yield from walk(inner.operation)


def dims_of(text):
    """[["a"], []] of `[{"a"}, {}, ..]` or `[{'a'}, {?}]`: the first list in the text."""
    start = text.index("[{") if "[{" in text else text.find("[]")
    if start < 0 or text.startswith("[]", start):
        return []
    return [[re.sub("[\"' ]", "", axis) for axis in dim.split(",") if axis.strip() not in ("", "?")]
            for dim in re.findall(r"\{([^}]*)\}", text[start:text.index("]", start)])]


def of_shardy(module):
    """{name: dims}; None for what is whole. Names of operations with one array as a result, arg0, res0."""
    found = {}
    main = next(f.operation for f in module.body if f.operation.name == "func.func")
    for key, prefix in (("arg_attrs", "arg"), ("res_attrs", "res")):
        for i, attributes in enumerate(main.attributes[key] if key in main.attributes else []):
            attributes = ir.DictAttr(attributes)
            found[f"{prefix}{i}"] = dims_of(str(attributes["sdy.sharding"])) if "sdy.sharding" in attributes else None
    for op in walk(main):
        name = re.search(r'"(v\d+)"', str(op.location))
        if not name or len(op.results) != 1 or op.name == "sdy.manual_computation":
            continue
        key = "sharding" if op.name == "sdy.reshard" else "sdy.sharding"
        shape = tuple(ir.RankedTensorType(op.results[0].type).shape)
        found[name[1]] = (shape, dims_of(str(op.attributes[key])) if key in op.attributes else None)
    return found


def attribute(line, start):
    """The text in braces that begins at `start`."""
    depth = 0
    for i in range(start, len(line)):
        depth += {"{": 1, "}": -1}.get(line[i], 0)
        if depth == 0:
            return line[start:i + 1]
    return line[start:]


def of_gshard(text):
    """The same of HLO text; operations: every array that came from one, [(shape, dims)]."""
    found = {}
    in_entry = False
    for line in text.split("\n"):
        in_entry = in_entry or line.startswith("ENTRY ")
        match = re.match(r"\s+(ROOT )?%\S+ = (\(.*?\)|\w+\[([\d,]*)\]\S*) ([\w-]+)\((\d*)", line)
        if not match:
            continue
        start = line.find(" sharding={")
        sharding = attribute(line, start + 10) if start >= 0 else ""
        dims = dims_of(re.sub(r"mesh\[[^\]]*\], ", "", sharding)) if sharding and not sharding.startswith("{{") else None
        if match[4] == "parameter" and in_entry:
            found.setdefault(f"arg{match[5]}", dims)
        if match[1] and in_entry:
            parts = re.findall(r"\{mesh\[[^\]]*\], (\[.*?\])[,}]|(\{replicated\})", sharding) if sharding.startswith("{{") else None
            for i, (part, _) in enumerate(parts or []):
                found[f"res{i}"] = dims_of(part) if part else None
            if parts is None:
                found["res0"] = dims
        name = re.search(r'op_name="(?:[^"]*/)?(v\d+)"', line)
        if name and match[3] is not None:
            shape = tuple(int(n) for n in match[3].split(",") if n)
            found.setdefault(name[1], []).append((shape, dims))
    return found


def same(a, b):
    return (a if a and any(a) else None) == (b if b and any(b) else None)


def compare(name, text, folder):
    """Values compared, and those that differ; None if the program is left out."""
    with mlir.make_ir_context(), ir.Location.unknown():
        module = ir.Module.parse(text)
        operations = list(walk(module.operation))
        if any(op.name.startswith("chlo.") or op.name == "func.call" for op in operations):
            return None
        for i, op in enumerate(operations):
            op.location = ir.Location.name(f"v{i}")
        path = os.path.join(folder, f"{name}.mlir")
        with open(path, "w") as out:
            out.write(module.operation.get_asm(enable_debug_info=True))
        PassManager.parse(f"builtin.module({PASSES})").run(module.operation)
        theirs = of_shardy(module)
    done = subprocess.run(["gshard-opt", "propagate", path, "--propagation=shardy"], capture_output=True, text=True)
    if done.returncode:
        raise RuntimeError(f"{name}: {done.stderr[:300]}")
    ours = of_gshard(done.stdout)
    compared, different = 0, []
    for key, wanted in theirs.items():
        if key.startswith("v"):
            shape, wanted = wanted
            found = [dims for s, dims in ours.get(key, []) if s == shape]
            if not found:
                continue  # folded, or part of another operation
            alike = any(same(wanted, dims) for dims in found)
        else:
            found = [ours.get(key)]
            alike = same(wanted, found[0])
        compared += 1
        if not alike:
            different.append(f"{key}: {wanted}, ours {found}")
    return compared, different


def main():
    tally = Tally()
    seeds = int(os.environ.get("GSHARD_SHARDY_SEEDS", "4"))
    values = wrong = programs = alike = 0
    with tempfile.TemporaryDirectory() as folder:
        for name, (function, arguments) in PROGRAMS.items():
            for seed in range(seeds):
                rng = random.Random(f"{name} {seed}")
                shardings = tuple(random_sharding(a.shape, rng) for a in arguments)
                text = jax.jit(function, in_shardings=shardings).lower(*arguments).as_text()
                result = compare(f"{name}_{seed}", text, folder)
                if result is None:
                    continue
                compared, different = result
                values, wrong, programs = values + compared, wrong + len(different), programs + 1
                alike += not different
                if different:
                    print(f"{name} {seed}: {len(different)} of {compared} differ, {different[0]}")
                tally.check(f"{name} {seed}", "" if compared else "nothing was compared")
    share, of_programs = 1 - wrong / max(values, 1), alike / max(programs, 1)
    print(f"{values - wrong} of {values} values, {alike} of {programs} programs as Shardy's passes have them")
    tally.check("values", "" if share >= 0.99 else f"only {100 * share:.2f} % agree")
    tally.check("programs", "" if of_programs >= 0.95 else f"only {100 * of_programs:.1f} % agree")
    tally.finish()


if __name__ == "__main__":
    main()
