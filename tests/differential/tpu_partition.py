"""What gshard-opt partition makes of JAX programs beside what XLA's compiler for TPUs makes of them, for 8 to 256 devices.

- Traffic: ours sends no more bytes per device than XLA's program, both counted by gshard-cost.
- XLA's program, run by gshard-run on emulated devices, computes what the program before partitioning does
  (`--reference`), so that text of that compiler can be judged.

Needs jaxlib and libtpu in Python, no TPU, and the tool that compiles pass by pass: GSHARD_TPU_PASSES, by default
../shared/tools/tpu_passes.py. Without them it says so and passes. GSHARD_TPU_PROGRAMS: how many (default 8, at most 40).
"""
import importlib.util
import json
import os
import pathlib
import subprocess
import sys
import tempfile

os.environ["XLA_FLAGS"] = "--xla_force_host_platform_device_count=256"
os.environ["JAX_PLATFORMS"] = "cpu"
TOOL = pathlib.Path(os.environ.get("GSHARD_TPU_PASSES", "../shared/tools/tpu_passes.py"))
MOST_RUN = 16  # devices whose program is run here
MESHES = [(2, 4), (4, 4), (8, 8), (16, 16)]


def programs():
    """[(name, function, [(shape, spec)], result's spec)]; `d` and `m` are the mesh's axes."""
    import jax
    import jax.numpy as jnp
    from jax import lax

    def softmax(x):
        e = jnp.exp(x - x.max(-1, keepdims=True))
        return e / e.sum(-1, keepdims=True)

    def mlp(x, w, v):
        return jnp.maximum(x @ w, 0.) @ v

    def loss(w, v, x):
        return (mlp(x, w, v) ** 2).mean()

    def attention(q, k, v):
        scores = jnp.einsum("bshd,bthd->bhst", q, k) * 0.1
        return jnp.einsum("bhst,bthd->bshd", softmax(scores), v)

    def normalised(x, g):
        return x * lax.rsqrt((x * x).mean(-1, keepdims=True) + 1e-6) * g

    def layers(x, w, v):
        return lax.scan(lambda c, p: (c + mlp(c, p[0], p[1]), None), x, (w, v))[0]

    def experts(x, w, v):
        return jnp.einsum("ecf,efd->ecd", jnp.maximum(jnp.einsum("ecd,edf->ecf", x, w), 0.), v)

    def decode(cache, row, q):
        cache = lax.dynamic_update_slice_in_dim(cache, row, 3, 1)
        return cache, softmax(jnp.einsum("bhd,bthd->bht", q, cache))

    def convolution(x, k):
        return lax.conv_general_dilated(x, k, (1, 1), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC"))

    wide = ("d", None, "m", None)
    return [
        ("mlp", mlp, [((256, 256), ("d",)), ((256, 512), (None, "m")), ((512, 256), ("m",))], ("d",)),
        ("mlp_replicated_result", mlp, [((256, 256), ("d",)), ((256, 512), (None, "m")), ((512, 256), ("m",))], ()),
        ("gradients", jax.grad(loss, (0, 1)),
         [((256, 512), (None, "m")), ((512, 256), ("m",)), ((256, 256), ("d",))], [(None, "m"), ("m",)]),
        ("cut_gradients", jax.grad(loss, (0, 1)),
         [((256, 512), ("d", "m")), ((512, 256), ("m", "d")), ((256, 256), ("d",))], [("d", "m"), ("m", "d")]),
        ("attention", attention, [((32, 64, 32, 16), wide)] * 3, wide),
        ("normalised", normalised, [((256, 512), ("d", "m")), ((512,), ("m",))], ("d", "m")),
        ("layers", layers, [((256, 128), ("d",)), ((3, 128, 256), (None, None, "m")), ((3, 256, 128), (None, "m"))], ("d",)),
        ("experts", experts, [((16, 64, 64), ("m", "d")), ((16, 64, 128), ("m",)), ((16, 128, 64), ("m",))], ("m", "d")),
        ("decode", decode, [((32, 64, 32, 16), wide), ((32, 1, 32, 16), wide), ((32, 32, 16), ("d", "m"))],
         [wide, ("d", "m")]),
        ("convolution", convolution, [((32, 16, 16, 32), ("d",)), ((3, 3, 32, 64), (None, None, None, "m"))],
         ("d", None, None, "m")),
    ]


def hlo_text(function, arguments, results, mesh):
    """The program as JAX hands it to XLA."""
    import jax
    import jax.numpy as jnp
    from jax.sharding import NamedSharding
    from jax.sharding import PartitionSpec as P

    def sharding(spec):
        return NamedSharding(mesh, P(*spec))

    shapes = [jax.ShapeDtypeStruct(shape, jnp.float32) for shape, _ in arguments]
    out = tuple(map(sharding, results)) if isinstance(results, list) else sharding(results)
    step = jax.jit(function, in_shardings=tuple(sharding(spec) for _, spec in arguments), out_shardings=out)
    return step.lower(*shapes).as_text("hlo")


def sent_bytes(path):
    """Bytes that a device sends, by gshard-cost; raises with its message."""
    done = subprocess.run(["gshard-cost", "--json", "--partitioned", "yes", path], capture_output=True, text=True)
    if done.returncode:
        raise RuntimeError(done.stderr[:300])
    return sum(entry["bytes_per_device"] for entry in json.loads(done.stdout)["collectives"])


def check(tally, name, text, devices, folder):
    path, theirs, ours = (os.path.join(folder, file) for file in ("whole.hlo", "theirs", "ours.hlo"))
    with open(path, "w") as file:
        file.write(text.replace("HloModule jit_", f"HloModule p{devices}_", 1))
    done = subprocess.run([sys.executable, TOOL, path, theirs], capture_output=True, text=True)
    theirs += ".spmd"
    if not os.path.exists(theirs):
        return tally.check(f"XLA partitions {name}", done.stderr[-300:] or "no program")
    done = subprocess.run(["gshard-opt", "partition", "--propagation=gspmd", "-n", str(devices), path, "-o", ours],
                          capture_output=True, text=True)
    if done.returncode:
        return tally.check(f"partition {name}", done.stderr[:300])
    mine, xla = sent_bytes(ours), sent_bytes(theirs)
    tally.check(f"traffic of {name}", "" if mine <= xla else f"{mine:.0f} bytes, XLA {xla:.0f}")
    print(f"{name}: {mine:.0f} bytes sent, XLA's {xla:.0f}")
    if devices <= MOST_RUN:
        done = subprocess.run(["gshard-run", theirs, "--reference", path, "--verify"], capture_output=True, text=True)
        tally.check(f"XLA's {name} runs right", "" if done.returncode == 0 else (done.stderr + done.stdout)[-300:])


def main():
    if importlib.util.find_spec("libtpu") is None or not TOOL.exists():
        print("skipped: needs libtpu and", TOOL)
        return
    import jax
    from jax.sharding import AxisType, Mesh
    import numpy as np

    from tally import Tally

    tally = Tally()
    wanted = min(40, int(os.environ.get("GSHARD_TPU_PROGRAMS", "8")))
    cases = [(dims, program) for dims in MESHES for program in programs()][:40]
    step = max(1, len(cases) // wanted)  # of every mesh and kind some
    for dims, (name, function, arguments, results) in cases[::step][:wanted]:
        devices = dims[0] * dims[1]
        mesh = Mesh(np.array(jax.devices()[:devices]).reshape(dims), ("d", "m"), axis_types=(AxisType.Auto,) * 2)
        text = hlo_text(function, arguments, results, mesh)
        with tempfile.TemporaryDirectory() as folder:
            check(tally, f"{name} on {dims[0]}x{dims[1]}", text, devices, folder)
    tally.finish()


if __name__ == "__main__":
    main()
