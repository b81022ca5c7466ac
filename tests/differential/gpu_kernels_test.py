"""tests/bench/gpu_kernels.py as far as it goes without a GPU: it says that there is none, its kernels run and are priced on a CPU,
gshard-cost reads the chip file that it writes, and constants that made the times are found again by its fit."""
import json
import os
import pathlib
import subprocess
import sys
import tempfile

from tally import Tally

BENCH = pathlib.Path(__file__).resolve().parents[1] / "bench"
sys.path.insert(0, str(BENCH))
os.environ["JAX_PLATFORMS"] = "cpu"
TRUE = {"launch_s": 4e-6, "dot_efficiency": {"limit": 0.6, "half": 3e9}, "memory_efficiency": {"limit": 0.8, "half": 2e6}}


def run(*words):
    done = subprocess.run([sys.executable, str(BENCH / "gpu_kernels.py"), "--gshard", "gshard-cost", *words], capture_output=True, text=True)
    return done.returncode, done.stdout, done.stderr


def check_without_gpu(tally):
    code, out, err = run()
    tally.check("says that there is no GPU", "" if code == 0 and out.startswith("SKIPPED: JAX sees no GPU here") else out + err)


def check_on_cpu(tally, folder):
    chip, rows = os.path.join(folder, "chip.json"), os.path.join(folder, "rows.json")
    code, out, err = run("--platform", "cpu", "--base", "h100", "--shrink", "64", "--most", "12", "--chip-out", chip, "--json", rows)
    tally.check("runs on a CPU", err[-500:] if code else "")
    if code:
        return
    classes = {row["class"] for row in json.loads(pathlib.Path(rows).read_text())}
    wanted = {"layer", "dot bf16", "dot f32", "batched dot", "attention xla", "elementwise", "reduction", "movement", "convolution"}
    tally.check("a kernel of each class", f"{wanted - classes} are missing" if wanted - classes else "")
    tally.check("both chips are printed", "" if "constant" in out and "fitted" in out else out)
    done = subprocess.run(["gshard-cost", "samples/mlp.hlo", "--chip-file", chip, "--json"], capture_output=True, text=True)
    read = json.loads(done.stdout)["chip"] if done.returncode == 0 else done.stderr
    tally.check("gshard-cost reads the chip file", "" if read == "h100-measured" else read)


def check_fit(tally, folder):
    """Times are those of a chip whose constants differ from the base's; the fit starts from the base."""
    import jax

    import gpu_kernels

    base = json.loads((gpu_kernels.CHIPS / "h100.json").read_text())
    paths, rows = gpu_kernels.chip_files(folder, base), []
    true = os.path.join(folder, "true.json")
    pathlib.Path(true).write_text(json.dumps({"base": "h100", "name": "true", **gpu_kernels.AT_RATES, **TRUE}))
    every = gpu_kernels.List(jax, 1, False).all()
    for kind, count in (("dot bf16", 8), ("elementwise", 8)):
        for kernel in [kernel for kernel in every if kernel.kind == kind][:count]:
            ideal, kernels = gpu_kernels.priced("gshard-cost", kernel, jax, paths["ideal"])
            seconds, _ = gpu_kernels.priced("gshard-cost", kernel, jax, true)
            rows.append({"class": kind, "measured_s": seconds, "is_long": True, "kernels": kernels, "ideal_s": ideal})
    fields, _ = gpu_kernels.fitted(rows, base, TRUE["launch_s"])
    tally.check("attention was not measured", "" if "attention_efficiency" not in fields else str(fields))
    for field in ("dot_efficiency", "memory_efficiency"):
        found = fields.get(field, {"limit": 0, "half": 0})
        off = max(abs(found[key] / TRUE[field][key] - 1) for key in ("limit", "half"))
        tally.check(f"{field} is found again", f"{found} in place of {TRUE[field]}" if off > 0.05 else "")


def main():
    tally = Tally()
    with tempfile.TemporaryDirectory() as folder:
        check_without_gpu(tally)
        check_on_cpu(tally, folder)
        check_fit(tally, folder)
    tally.finish()


if __name__ == "__main__":
    main()
