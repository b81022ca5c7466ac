"""Pipelined training steps compute what the steps compute: on the emulated mesh, and on XLA.

Every model of pipeline_models.py is cut into stages by gshard-opt, partitioned, run, and compared with JAX. By default
a subset of minutes; GSHARD_PIPELINE_ALL=1 takes every model, K in 2, 4, 8, every schedule and M from 1 to 32, alone and
cut over data and model axes; with GSHARD_PIPELINE_SECONDS=N as many of these, in random order, as N seconds allow
(GSHARD_PIPELINE_SEED=S, 0 without it). Words of the command line are the models to take, or one case as it is printed.
GSHARD_PIPELINE_F64=1 computes in double precision: there a step that a ReLU or a rounding decides otherwise agrees, a wrong
one does not.
"""
import collections
import itertools
import os
import random
import subprocess
import sys
import tempfile
import time

import numpy as np

import pipeline_models as models

Case = collections.namedtuple("Case", "model stages microbatches schedule remat repeats data tensor", defaults=[None, 1, 1])
SCHEDULES = ("gpipe", "1f1b", "interleaved", "zero-bubble")
ALIKE = ("dense", "scan", "checkpointed", "tied", "masked", "experts")  # models of equal layers
MESHES = ((1, 1), (2, 1), (1, 2), (2, 2), (4, 4))  # data x model
F64 = bool(os.environ.get("GSHARD_PIPELINE_F64"))
TOLERANCE = 1e-11 if F64 else 2e-5


def whole_matrix():
    for model, k, schedule, m, remat in itertools.product(
            models.MODELS, (2, 4, 8), SCHEDULES, (1, 2, 4, 8, 16, 32), ("stage", "none", "all")):
        if schedule != "interleaved" or k < 8:
            yield Case(model, k, m, schedule, remat)
    for model, (k, r), m, remat in itertools.product(
            ALIKE, ((2, 1), (4, 1), (8, 1), (2, 2), (2, 4), (4, 2)), (1, 2, 4, 8, 16, 32), ("stage", "none", "all")):
        if model != "experts" or k * r <= 4:
            yield Case(model, k, m, "shift", remat, r)


def cases():
    if os.environ.get("GSHARD_PIPELINE_ALL") or os.environ.get("GSHARD_PIPELINE_SECONDS"):
        everything = [case._replace(data=data, tensor=tensor)
                      for case, (data, tensor) in itertools.product(whole_matrix(), MESHES)
                      if models.BATCH % (case.microbatches * data) == 0]
        seconds = os.environ.get("GSHARD_PIPELINE_SECONDS")
        end = time.monotonic() + float(seconds) if seconds else float("inf")
        if seconds:
            random.Random(int(os.environ.get("GSHARD_PIPELINE_SEED", 0))).shuffle(everything)
        yield from itertools.takewhile(lambda _: time.monotonic() < end, everything)
        return
    for n, model in enumerate(models.MODELS):
        for i, schedule in enumerate(SCHEDULES):
            yield Case(model, (2, 4)[(n + i) % 2], (4, 8, 2, 1)[(n + i) % 4], schedule, ("stage", "none")[i % 2])
    yield Case("dense", 8, 32, "1f1b", "stage")
    yield Case("scan", 8, 16, "gpipe", "none")
    for i, model in enumerate(ALIKE):
        yield Case(model, (2, 4)[i % 2 and model != "experts"], (4, 8, 2, 1)[i % 4], "shift",
                   ("stage", "none", "all")[i % 3], (1, 2)[i // 2 % 2])
    yield Case("dense", 8, 32, "shift", "stage")
    for i, model in enumerate(("dense", "resnet", "unet", "uneven")):
        yield Case(model, 4, 8, SCHEDULES[i], "all")
    yield Case("dense", 2, 4, "gpipe", "stage", None, 2, 2)
    yield Case("experts", 2, 4, "1f1b", "none", None, 2, 2)
    yield Case("resnet", 2, 2, "zero-bubble", "stage", None, 4, 1)


def annotations(case, arguments):
    """The batch over `data`, and of each weight and its momentum one dim, if it is one, over `model`."""
    params, _, stats, _ = arguments
    flags, choice = ["--mesh", f"data={case.data},model={case.tensor}"], random.Random(repr(case))
    weights, kept = models.jax.tree.leaves(params), models.jax.tree.leaves(stats)
    for k, weight in enumerate(weights):
        dims = [d for d, size in enumerate(weight.shape) if size % case.tensor == 0]
        cut = choice.choice([None, *dims])
        if cut is None:
            continue
        axes = ",".join("model" if d == cut else "_" for d in range(weight.ndim))
        for number in (k, k + len(weights)):
            flags += ["--shard", f"param:{number}$={axes}"]
    first = 2 * len(weights) + len(kept)
    for k, data in enumerate(models.jax.tree.leaves(arguments[3])):
        flags += ["--shard", f"param:{first + k}$=" + ",".join(["data"] + ["_"] * (data.ndim - 1))]
    return flags


def tool(*command):
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        raise RuntimeError(f"{command[0]} {command[1]}: {done.stderr.strip()[:400]}")
    return done.stdout


def difference(got, want, whole):
    """The largest, relative to the largest element of the whole result; of a NaN infinite."""
    off = float(np.max(np.abs(np.asarray(got, np.float64) - want), initial=0.0))
    return float("inf") if np.isnan(off) else off / max(np.max(np.abs(whole), initial=0.0), 1e-3)


def worst(got, want):
    return max((difference(a, b, b) for a, b in zip(got, want, strict=True)), default=0.0)


def case_of(words):
    """A case as it is printed: "resnet K=8 M=8 gpipe x2 remat all data=1 model=2"."""
    repeats = next((int(w[1:]) for w in words if w[0] == "x" and w[1:].isdigit()), None)
    value = lambda key, default: next((int(w[len(key):]) for w in words if w.startswith(key)), default)
    schedule = next(w for w in words if w in (*SCHEDULES, "shift"))
    return Case(words[0], value("K=", 1), value("M=", 1), schedule, words[words.index("remat") + 1], repeats,
                value("data=", 1), value("model=", 1))


class Suite:
    def __init__(self, work):
        self.work = work
        self.made, self.wanted = {}, {}

    def model(self, name):
        if name not in self.made:
            arguments, text = models.make(name)
            path = os.path.join(self.work, name + ".hlo")
            with open(path, "w") as file:
                file.write(text)
            leaves = [np.asarray(x) for x in models.jax.tree.leaves(arguments)]
            np.savez(path + ".npz", **{f"p{k}": x for k, x in enumerate(leaves)})
            self.made[name] = (arguments, path, leaves)
        return self.made[name]

    def want(self, case):
        """What JAX computes, micro-batch by micro-batch where the model mixes examples."""
        key = (case.model,) if models.MODELS[case.model].exact else (case.model, case.microbatches, case.data)
        if key not in self.wanted:
            self.wanted[key] = models.reference(case.model, self.model(case.model)[0], case.microbatches, case.data)
        return self.wanted[key]

    def pipelined(self, case):
        arguments, path, _ = self.model(case.model)
        out, device = path + ".pipelined", path + ".device"
        if case.data * case.tensor > 1:
            whole, path = path, path + ".annotated"
            tool("gshard-opt", "annotate", whole, *annotations(case, arguments), "-o", path)
        tool("gshard-opt", "pipeline", path, "--stages", str(case.stages), "--microbatches", str(case.microbatches),
             "--schedule", case.schedule, "--remat", case.remat, "-o", out,
             *(("--repeats", str(case.repeats)) if case.repeats else ()))
        tool("gshard-opt", "partition", out, "-o", device)
        return device

    def optimized(self, case, device):
        """Where the batch is cut, all-reduces of gradients leave the loop over ticks."""
        if case.data == 1:
            return device
        tool("gshard-opt", "optimize", device, "-o", device + ".optimized")
        return device + ".optimized"

    def run(self, case):
        _, path, _ = self.model(case.model)
        device = self.pipelined(case)
        want, differences = self.want(case), []
        for program in {device, self.optimized(case, device)}:
            tool("gshard-run", program, "--input", path + ".npz", "--output", path + ".out.npz")
            loaded = np.load(path + ".out.npz")
            differences.append(worst([loaded[f"o{k}"] for k in range(len(want))], want))
        return max(differences)

    def run_on_xla(self, case):
        import partitioned
        import partitioned_run_test as parts
        import tiles
        _, _, leaves = self.model(case.model)
        with open(self.pipelined(case)) as file:
            text = file.read()
        job = partitioned.Job(text, leaves, parts.entry_parameter_shardings(text), parts.output_shardings(text),
                              case.stages)
        want = self.want(case)
        outputs = partitioned.run(job)
        off = 0.0
        for k, of_devices in enumerate(outputs):
            layout = tiles.Tiles(parts.output_shardings(text)[k], case.stages)
            for device, part in enumerate(of_devices):
                if layout.index[device] is None:
                    continue
                whole = want[k]
                piece = whole[layout.box(device, whole.shape)]
                got = np.asarray(part)[tuple(slice(0, n) for n in piece.shape)]
                off = max(off, difference(got, piece, whole))
        return off


XLA_CASES = [Case("dense", 8, 8, "1f1b", "stage"), Case("scan", 4, 4, "gpipe", "none"),
             Case("experts", 2, 4, "zero-bubble", "stage"), Case("unet", 4, 8, "interleaved", "stage"),
             Case("uneven", 8, 32, "1f1b", "none"), Case("scan", 4, 8, "shift", "stage", 2),
             Case("dense", 8, 4, "shift", "all"), Case("tied", 4, 8, "1f1b", "all")]


def main():
    failed = passed = 0
    only = sys.argv[1:]
    if F64:
        models.jax.config.update("jax_enable_x64", True)
    with tempfile.TemporaryDirectory() as work:
        suite = Suite(work)
        jobs = (("mesh", case, suite.run) for case in cases())
        if "remat" in only:
            jobs, only = [("mesh", case_of(only), suite.run)], []
        elif not (os.environ.get("GSHARD_PIPELINE_NO_XLA") or F64):
            jobs = itertools.chain(jobs, (("XLA", case, suite.run_on_xla) for case in XLA_CASES))
        for where, case, run in jobs:
            if only and case.model not in only:
                continue
            try:
                off = run(case)
                fault = "" if off <= TOLERANCE else f"differs by {off:.2g}"
            except (RuntimeError, ValueError, IndexError) as error:
                fault = str(error)
            passed, failed = passed + (not fault), failed + bool(fault)
            name = f"{where} {case.model} K={case.stages} M={case.microbatches} {case.schedule}"
            name += f"{f' x{case.repeats}' if case.repeats else ''} remat {case.remat}"
            name += f" data={case.data} model={case.tensor}" if case.data * case.tensor > 1 else ""
            print(f"{'FAIL' if fault else 'ok  '} {name}{': ' + fault if fault else ''}", flush=True)
    print(f"{passed} passed, {failed} failed")
    return failed != 0


if __name__ == "__main__":
    os.environ.setdefault("XLA_FLAGS", "--xla_force_host_platform_device_count=8")
    os.environ.setdefault("JAX_PLATFORMS", "cpu")
    sys.exit(main())
