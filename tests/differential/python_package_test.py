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
    for part in (forms, keyword_arguments, shardings_without_devices, flax_modules, assertions, samples):
        part()
    print(f"{passed} passed, {failed} failed")
    sys.exit(failed > 0)


main()
