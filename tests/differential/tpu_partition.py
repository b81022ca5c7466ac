"""What gshard-opt partition makes of JAX programs beside what XLA's compiler for TPUs makes of them, for 8 to 256 devices.

- Traffic: ours sends no more bytes per device than XLA's program, both counted by gshard-cost.
- Both programs, run by gshard-run on emulated devices, compute what the program before partitioning does (`--reference`).
  Where XLA's does not, FAULTS says why, and it does with that set right.

Needs jaxlib and libtpu in Python, no TPU, and the tool that compiles pass by pass: GSHARD_TPU_PASSES, by default
../shared/tools/tpu_passes.py. Without them it says so and passes. GSHARD_TPU_PROGRAMS: how many (default 8, at most 92).
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
# XLA's faults: a program, why it is wrong, and what its text says in the place of what would be right. It is run with that.
FAULTS = {
    "cut_image on 2x4": ("copies of partial sums are added up as well (docs/xla.md, fault 5)",
                         "{{0,1,2,3,4,5,6,7}}, use_global_device_ids=true, to_apply=",
                         "{{0,4},{1,5},{2,6},{3,7}}, use_global_device_ids=true, to_apply="),
}
MESHES = [(2, 4), (4, 4), (8, 8), (16, 16)]


def programs():
    """[(name, function, [(shape, spec, f32 or this type)], result's spec)]; `d` and `m` are the mesh's axes."""
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

    def cross_entropy(w, x, labels):
        scores = x @ w
        peak = lax.stop_gradient(scores.max(-1, keepdims=True))
        mass = jnp.log(jnp.exp(scores - peak).sum(-1)) + peak[:, 0]
        return (mass - jnp.take_along_axis(scores, labels[:, None], 1)[:, 0]).mean()

    def embedded(table, ids):
        return table[ids]

    def dispatched(x, gates, w):
        sent = jnp.einsum("gsm,gsec->egcm", x, gates)
        done = jnp.maximum(jnp.einsum("egcm,emf->egcf", sent, w), 0.)
        return jnp.einsum("egcf,gsec->gsf", done, gates)

    def block(x, g, wq, wk, wv, wo, w, v):
        h = normalised(x, g)
        a = attention(*(jnp.einsum("bsm,mhd->bshd", h, p) for p in (wq, wk, wv)))
        x = x + jnp.einsum("bshd,hdm->bsm", a, wo)
        return x + mlp(normalised(x, g), w, v)

    def block_loss(*weights_and_x):
        return (block(weights_and_x[-1], *weights_and_x[:-1]) ** 2).mean()

    def momentum(w, m, x, y):
        g = jax.grad(lambda w: ((x @ w - y) ** 2).mean())(w)
        m = 0.9 * m + g
        return w - 0.1 * m, m

    def rotated(x, angle):
        a, b = jnp.split(x, 2, -1)
        return jnp.concatenate([a * jnp.cos(angle) - b * jnp.sin(angle), b * jnp.cos(angle) + a * jnp.sin(angle)], -1)

    def split_heads(x, w):
        b, s, _ = x.shape
        return (x @ w).reshape(b, s, 32, -1).transpose(0, 2, 1, 3)

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
        ("cut_image", convolution, [((16, 256, 16, 32), (None, "d")), ((3, 3, 32, 32), (None, None, "m"))], (None, "d")),
        ("kernel_gradients", jax.grad(lambda k, x: (convolution(x, k) ** 2).mean()),
         [((3, 3, 32, 64), (None, None, None, "m")), ((32, 16, 16, 32), ("d",))], (None, None, None, "m")),
        ("vocabulary", jax.grad(cross_entropy, (0, 1)),
         [((128, 1024), (None, "m")), ((256, 128), ("d",)), ((256,), ("d",), "int32")], [(None, "m"), ("d",)]),
        ("embedded", embedded, [((1024, 128), ("m",)), ((64, 32), ("d",), "int32")], ("d",)),
        ("dispatched", dispatched, [((16, 64, 32), ("d",)), ((16, 64, 16, 8), ("d",)), ((16, 32, 64), ("d", None, "m"))],
         ("d", None, "m")),
        ("block", block,
         [((32, 64, 128), ("d",)), ((128,), ()), *[((128, 32, 16), (None, "m"))] * 3, ((32, 16, 128), ("m",)),
          ((128, 512), (None, "m")), ((512, 128), ("m",))], ("d",)),
        ("block_gradients", jax.grad(block_loss, tuple(range(7))),
         [((128,), ()), *[((128, 32, 16), (None, "m"))] * 3, ((32, 16, 128), ("m",)), ((128, 512), (None, "m")),
          ((512, 128), ("m",)), ((32, 64, 128), ("d",))],
         [(), *[(None, "m")] * 3, ("m",), (None, "m"), ("m",)]),
        ("momentum", momentum, [((256, 512), ("d", "m")), ((256, 512), ("d", "m")), ((256, 256), ("d",)), ((256, 512), ("d", "m"))],
         [("d", "m"), ("d", "m")]),
        ("rotated", rotated, [((32, 64, 32, 64), wide), ((64, 1, 32), ())], wide),
        ("split_heads", split_heads, [((32, 64, 128), ("d",)), ((128, 512), (None, "m"))], ("d", "m")),
        ("running_sums", lambda x: jnp.cumsum(x, 1), [((32, 1024), ("d", "m"))], ("d", "m")),
        ("ordered", lambda x: jnp.sort(x, 1), [((32, 1024), ("d", "m"))], ("d", "m")),
        ("shifted", lambda x: jnp.roll(x, 5, 1) + jnp.pad(x, ((0, 0), (3, 0)))[:, :-3], [((32, 1024), ("d", "m"))], ("d", "m")),
    ]


def hlo_text(function, arguments, results, mesh):
    """The program as JAX hands it to XLA."""
    import jax
    import jax.numpy as jnp
    from jax.sharding import NamedSharding
    from jax.sharding import PartitionSpec as P

    def sharding(spec):
        return NamedSharding(mesh, P(*spec))

    shapes = [jax.ShapeDtypeStruct(shape, *(kind or [jnp.float32])) for shape, _, *kind in arguments]
    out = tuple(map(sharding, results)) if isinstance(results, list) else sharding(results)
    step = jax.jit(function, in_shardings=tuple(sharding(spec) for _, spec, *_ in arguments), out_shardings=out)
    return step.lower(*shapes).as_text("hlo")


def sent_bytes(path):
    """Bytes that a device sends, by gshard-cost; raises with its message."""
    done = subprocess.run(["gshard-cost", "--json", "--partitioned", "yes", path], capture_output=True, text=True)
    if done.returncode:
        raise RuntimeError(done.stderr[:300])
    return sum(entry["bytes_per_device"] for entry in json.loads(done.stdout)["collectives"])


def difference(program, whole):
    """What the program of one device computes otherwise than the whole one does."""
    done = subprocess.run(["gshard-run", program, "--reference", whole, "--verify"], capture_output=True, text=True)
    return "" if done.returncode == 0 else (done.stderr + done.stdout)[-300:]


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
    tally.check(f"{name} runs right, ours", difference(ours, path))
    wrong = difference(theirs, path)
    if wrong and name in FAULTS:
        reason, said, right = FAULTS[name]
        print(f"XLA's {name} is wrong: {reason}")
        with open(theirs) as file:
            text = file.read()
        with open(theirs, "w") as file:
            file.write(text.replace(said, right))
        wrong = difference(theirs, path)
    tally.check(f"{name} runs right, XLA's", wrong)


def main():
    if importlib.util.find_spec("libtpu") is None or not TOOL.exists():
        print("skipped: needs libtpu and", TOOL)
        return
    import jax
    from jax.sharding import AxisType, Mesh
    import numpy as np

    from tally import Tally

    tally = Tally()
    cases = [(dims, program) for dims in MESHES for program in programs()]
    wanted = min(len(cases), int(os.environ.get("GSHARD_TPU_PROGRAMS", "8")))
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
