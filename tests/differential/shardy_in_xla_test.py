"""Shardings of ragged-dot in Shardy's mode against those inside of XLA's compiler, which has the rule; jaxlib's passes alone have not.

Each form is StableHLO as JAX prints it for TPUs, whose lowering keeps the operation. XLA's CPU compiler cannot emit it, but dumps what
its propagation made before it says so. The shardings of the program's result are compared, and gshard-run verifies the program.
"""
import glob
import os
import re
import subprocess
import sys
import tempfile

import numpy as np

from tally import Tally

DEVICES = 8
PASS = "shardy-xla"


def dimension_numbers(contracting, batch=((), ()), ragged=0, group=()):
    from jax import lax
    return lax.RaggedDotDimensionNumbers((contracting, batch), [ragged], list(group))


def forms():
    """name: (dimension numbers, (dims, sharding) of each operand) over the axes a, b and c of two devices each."""
    rows = dimension_numbers(((1,), (1,)), group=(0,))
    summed = dimension_numbers(((0,), (0,)))
    batched = dimension_numbers(((2,), (2,)), ((0,), (1,)), ragged=1, group=(0,))
    x, w, sizes, y = (64, 16), (8, 16, 32), (8,), (64, 32)
    xs, ws, many_sizes = (4, 64, 16), (8, 4, 16, 32), (4, 8)
    return {
        "rows": (rows, (x, ("a",)), (w, ()), (sizes, ())),
        "columns": (rows, (x, ()), (w, (None, None, "a")), (sizes, ())),
        "both": (rows, (x, (("a", "b"),)), (w, (None, None, "c")), (sizes, ())),
        "contracted": (rows, (x, (None, "a")), (w, (None, "a")), (sizes, ())),
        "contracted_left": (rows, (x, (None, "a")), (w, ()), (sizes, ())),
        "groups": (rows, (x, ()), (w, ("a",)), (sizes, ())),
        "groups_and_sizes": (rows, (x, ("b",)), (w, ("a",)), (sizes, ("a",))),
        "all": (rows, (x, ("a", "b")), (w, (None, "b", "c")), (sizes, ())),
        "gradient_columns": (summed, (x, (None, "a")), (y, (None, "b")), (sizes, ())),
        "gradient_rows": (summed, (x, ("a",)), (y, ("a", "b")), (sizes, ())),
        "gradient_sizes": (summed, (x, ("a",)), (y, ()), (sizes, ("b",))),
        "batch": (batched, (xs, ("a",)), (ws, (None, "a", None, "b")), (many_sizes, ())),
        "batch_of_sizes": (batched, (xs, ()), (ws, ()), (many_sizes, ("a", "b"))),
    }


def lowered(numbers, operands):
    import jax
    import jax.numpy as jnp
    from jax.sharding import Mesh, NamedSharding, PartitionSpec
    mesh = Mesh(np.array(jax.devices()).reshape(2, 2, 2), ("a", "b", "c"))
    arguments = [jax.ShapeDtypeStruct(dims, jnp.float32 if i < 2 else jnp.int32, sharding=NamedSharding(mesh, PartitionSpec(*spec)))
                 for i, (dims, spec) in enumerate(operands)]
    step = jax.jit(lambda x, w, sizes: jax.lax.ragged_dot_general(x, w, sizes, numbers))
    return step.trace(*arguments).lower(lowering_platforms=("tpu",)).as_text()


def compile_until_it_fails(path):
    """In a process whose XLA_FLAGS ask for dumps."""
    import jax
    from jax._src.interpreters import mlir
    from jaxlib import xla_client
    options = xla_client.CompileOptions()
    options.num_replicas, options.num_partitions = 1, DEVICES
    options.device_assignment = xla_client.DeviceAssignment.create(np.arange(DEVICES).reshape(1, DEVICES))
    build = options.executable_build_options
    build.num_partitions = DEVICES
    build.use_spmd_partitioning = build.use_shardy_partitioner = True
    build.allow_spmd_sharding_propagation_to_output = [True]
    devices = tuple(jax.devices())
    with mlir.make_ir_context():
        devices[0].client.compile_and_load(open(path).read(), xla_client.DeviceList(devices), options)


def in_xla(path, folder):
    """The sharding of the result after XLA's propagation, as text, or None."""
    flags = (f"--xla_force_host_platform_device_count={DEVICES} --xla_dump_to={folder} --xla_dump_hlo_as_text "
             f"--xla_dump_hlo_pass_re={PASS}")
    subprocess.run([sys.executable, __file__, path], capture_output=True, text=True, env=dict(os.environ, XLA_FLAGS=flags))
    files = glob.glob(os.path.join(folder, f"*after_{PASS}*.txt"))
    return sharding_of_root(open(files[0]).read()) if files else None


def sharding_of_root(text):
    root = next(line for line in text[text.index("\nENTRY"):].split("\n") if line.lstrip().startswith("ROOT"))
    found = re.search(r"sharding=(\{[^}]*\})", root)
    return found[1] if found else "{replicated}"


def check(tally, name, text):
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, f"{name}.mlir")
        with open(path, "w") as out:
            out.write(text)
        theirs = in_xla(path, os.path.join(folder, "dump"))
        done = subprocess.run(["gshard-opt", "propagate", "--tiles", path], capture_output=True, text=True)
        ours = sharding_of_root(done.stdout) if done.returncode == 0 else done.stderr
        tally.check(f"{name}: propagated", "" if ours == theirs else f"{ours}, XLA {theirs}")
        done = subprocess.run(["gshard-run", "--verify", path], capture_output=True, text=True)
        tally.check(f"{name}: verified", done.stderr if done.returncode else "")


def main():
    if sys.argv[1:]:
        return compile_until_it_fails(sys.argv[1])
    tally = Tally()
    for name, (numbers, *operands) in forms().items():
        check(tally, name, lowered(numbers, operands))
    tally.finish()


if __name__ == "__main__":
    os.environ["JAX_PLATFORMS"] = "cpu"
    os.environ.setdefault("XLA_FLAGS", f"--xla_force_host_platform_device_count={DEVICES}")
    main()
