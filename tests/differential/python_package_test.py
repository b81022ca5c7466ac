"""import gshard with JAX's own objects: each form of a program is the same program. And samples/ci is well-formed YAML.

Needs jax and flax (tests/differential/requirements.txt) and the programs in build/ci/cmd.
"""
import os
import pathlib
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
os.environ.setdefault("GSHARD_BIN", str(ROOT / "build" / "ci" / "cmd"))
os.environ.setdefault("JAX_PLATFORMS", "cpu")
sys.path.insert(0, str(ROOT / "packaging" / "python"))

import jax
import jax.numpy as jnp
import optax
import yaml
from flax import nnx
from jax import export
from jax.sharding import AbstractMesh, NamedSharding, PartitionSpec

import gshard
import gshard.testing

passed = failed = 0
DOT = 2 * 512 * 256 * 1024  # FLOPs


def check(truth, what):
    global passed, failed
    passed, failed = passed + bool(truth), failed + (not truth)
    if not truth:
        print("FAIL", what)


def mlp(params, x):
    return jnp.maximum(x @ params["wi"], 0) @ params["wo"]


PARAMS = {"wi": jax.ShapeDtypeStruct((256, 1024), jnp.float32), "wo": jax.ShapeDtypeStruct((1024, 256), jnp.float32)}
ARGS = (PARAMS, jax.ShapeDtypeStruct((512, 256), jnp.float32))
RULES = {r"param:0": (None, "model"), r"param:1": PartitionSpec("model"), r"param:2": ["data"]}


def forms():
    jitted = jax.jit(mlp)
    lowered = jitted.lower(*ARGS)
    whole = {"lowered": (lowered,), "jitted": (jitted, *ARGS), "function": (mlp, *ARGS), "traced": (jitted.trace(*ARGS),),
             "StableHLO text": (lowered.as_text(),), "HLO text": (lowered.as_text("hlo"),), "module": (lowered.compiler_ir(),),
             "HLO module": (lowered.compiler_ir("hlo"),), "exported": (export.export(jitted)(*ARGS),),
             "serialised proto": (lowered.compiler_ir("hlo").as_serialized_hlo_module_proto(),)}
    for name, (program, *args) in whole.items():
        report = gshard.cost(program, *args, mesh=AbstractMesh((2, 4), ("data", "model")), rules=RULES, chip="tpu-v5p")
        check(report.devices == 8 and [each.kind for each in report.collectives] == ["all-reduce"], f"{name}: {report.collectives}")
        check(abs(report.flops_per_device * 8 / (2 * DOT) - 1) < 0.01, f"{name}: {report.flops_per_device} FLOPs")
    check(any("python_package_test.py" in tensor.source for tensor in gshard.cost(lowered).memory.at_peak), "lines are told")
    check(abs(gshard.cost(lowered.compile()).flops_per_device / (2 * DOT) - 1) < 0.01, "compiled")
    report = gshard.run(lowered, mesh={"data": 2, "model": 4}, rules=RULES, verify=True)
    check(report.ok and report.devices == 8, str(report.verify))
    check("model" in str(gshard.explain(lowered, "dot_general.3", mesh={"data": 2, "model": 4}, rules=RULES)), "explain")


def keyword_arguments():
    def f(x, *, scale):
        return x @ x * scale

    x = jax.ShapeDtypeStruct((64, 64), jnp.float32)
    report = gshard.cost(jax.jit(f), x, kwargs={"scale": jax.ShapeDtypeStruct((), jnp.float32)})
    check(report.flops_per_device >= 2 * 64**3, "keyword arguments")


def shardings_without_devices():
    """On an AbstractMesh JAX lowers for a platform that is named only."""
    mesh = AbstractMesh((2, 4), ("data", "model"))
    specs = {"wi": PartitionSpec(None, "model"), "wo": PartitionSpec("model")}
    shardings = {name: NamedSharding(mesh, spec) for name, spec in specs.items()}, NamedSharding(mesh, PartitionSpec("data"))
    jitted = jax.jit(mlp, in_shardings=shardings)
    sharded = jax.tree.map(lambda shape, sharding: jax.ShapeDtypeStruct(shape.shape, shape.dtype, sharding=sharding), ARGS, shardings)
    for name, program in {"jitted": (jitted, *ARGS), "traced": (jitted.trace(*ARGS),), "arguments": (mlp, *sharded)}.items():
        report = gshard.cost(*program, chip="tpu-v5p")
        check(report.devices == 8 and [each.kind for each in report.collectives] == ["all-reduce"],
              f"{name} on an AbstractMesh: {report.collectives}")


def flax_modules():
    class Model(nnx.Module):
        def __init__(self, rngs):
            self.dense = nnx.Linear(16, 32, rngs=rngs)

        def __call__(self, x):
            return self.dense(x)

    model, x = Model(nnx.Rngs(0)), jnp.ones((8, 16))
    jitted = nnx.jit(lambda model, x: model(x))
    for name, program in (("nnx.jit", (jitted, model, x)), ("nnx.jit, lowered", (jitted.lower(model, x),))):
        check(gshard.cost(*program).flops_per_device >= 2 * 8 * 16 * 32, name)


def names_of_flax_modules():
    """nnx.jit numbers parameters; rules and reports have the names that jax.jit gives them."""
    class Block(nnx.Module):
        def __init__(self, rngs):
            self.up = nnx.Linear(16, 32, rngs=rngs)
            self.down = nnx.Linear(32, 16, rngs=rngs)
            self.up_again = self.up

        def __call__(self, x):
            return self.down(nnx.relu(self.up(x))) + self.up_again(x)[:, :16]

    class Model(nnx.Module):
        def __init__(self, rngs):
            self.blocks = nnx.List([Block(rngs), Block(rngs)])

        def __call__(self, x):
            for block in self.blocks:
                x = block(x)
            return x

    def loss(scale, model, optimizer, x):
        value, gradient = nnx.value_and_grad(lambda model: jnp.sum(model(x) ** 2) * scale)(model)
        optimizer.update(model, gradient)
        return value

    model, x = Model(nnx.Rngs(0)), jnp.ones((8, 16))
    optimizer = nnx.Optimizer(model, optax.adam(1e-3), wrt=nnx.Param)
    step = nnx.jit(loss, static_argnums=0)
    lowered = step.lower(2.0, model, optimizer, x)
    rules = {r"\bup\b.*kernel": (None, "model"), r"\bdown\b.*kernel": ("model", None), "^x$": ("data",)}
    arguments = (2.0, model, optimizer, x)
    for name, program, given in (("nnx.jit", step, arguments), ("lowered", lowered, ()), ("compiled", lowered.compile(), ())):
        text = gshard._inputs.read(program, given).data.decode()
        check('.states[0]' not in text, f"{name}: parameters have numbers")
        for parameter in ("model.blocks[1].up.kernel.value", "mu['blocks'][0]['down']['bias'].value"):
            check(parameter in text.replace("\\'", "'"), f"{name}: {parameter}")
    report = gshard.cost(lowered, mesh={"data": 2, "model": 2}, rules=rules)
    check(any(tensor.op_name == "model.blocks[1].up.kernel.value" for tensor in report.memory.at_peak),
          f"named at the peak: {[tensor.op_name for tensor in report.memory.at_peak]}")
    check(gshard.run(lowered, mesh={"data": 2, "model": 2}, rules=rules, verify=True).ok, "a step of named parameters verifies")
    groups = nnx.StateSharding({nnx.Param: None, ...: None})
    by_kind = nnx.jit(lambda model, x: model(x), in_shardings=(groups, None)).lower(model, x)
    check("model.blocks[0].down.kernel.value" in gshard._inputs.read(by_kind).data.decode(), "states in groups")


def open_dims():
    exported = export.export(jax.jit(lambda x, w: x @ w))(
        jax.ShapeDtypeStruct(export.symbolic_shape("b, 256"), jnp.float32), PARAMS["wi"])
    sized = gshard.with_dims(exported, {"b": 512})
    report = gshard.cost(sized, mesh={"data": 4}, rules={"param:0": ("data",)})
    check(abs(report.flops_per_device * 4 / DOT - 1) < 0.01, f"a size for b: {report.flops_per_device} FLOPs")


def assertions():
    lowered = jax.jit(mlp).lower(*ARGS)
    gshard.testing.assert_fits(lowered, chip="h100")
    gshard.testing.assert_collectives(lowered, {})
    try:
        gshard.testing.assert_fits(lowered, limit="1MiB")
        check(False, "it does not fit")
    except AssertionError as error:
        check("does not fit" in str(error) and "f32[" in str(error), str(error))


def samples():
    github = yaml.safe_load((ROOT / "samples/ci/github.yml").read_text())
    steps = [step for job in github["jobs"].values() for step in job["steps"]]
    check(all(("uses" in step) != ("run" in step) for step in steps), "each step of GitHub's uses something or runs something")
    check(sum("gshard" in step.get("run", "") and "pip" not in step["run"] for step in steps) == 4, "four of them check")
    gitlab = yaml.safe_load((ROOT / "samples/ci/gitlab.yml").read_text())
    written = [word for line in gitlab["sharding"]["script"] for word in line.split() if word.endswith(".xml")]
    check(written == gitlab["sharding"]["artifacts"]["reports"]["junit"], "GitLab is told of every report")


def main():
    for part in (forms, keyword_arguments, shardings_without_devices, flax_modules, names_of_flax_modules, open_dims, assertions, samples):
        part()
    print(f"{passed} passed, {failed} failed")
    sys.exit(failed > 0)


main()
