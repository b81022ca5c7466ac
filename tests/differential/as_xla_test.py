"""What gshard-opt partition --as-xla makes of programs beside what XLA's partitioner makes of them, by kind and axis.

Both sides start from the module as XLA propagated it, and gshard-cost counts the bytes that a device sends on both. A program
is alike where they agree within 2 % for every kind of collective and every mesh axis, and its total is near where the sums
agree within 10 %. With libtpu in Python, XLA's partitioner for TPUs is the judge (no TPU is needed), else that for CPUs;
GSHARD_AS_XLA_PLATFORM=cpu|tpu says which. GSHARD_AS_XLA_PROGRAMS: how many of the 40 programs of tpu_partition.py.
GSHARD_AS_XLA_FILES: more programs, files joined by `:`. GSHARD_AS_XLA_KEEP: a folder where all texts are left.
"""
import collections
import importlib.util
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[1:1] = [os.path.join(HERE, "propagation")]
os.environ["XLA_FLAGS"] = "--xla_force_host_platform_device_count=256"
os.environ["JAX_PLATFORMS"] = "cpu"

import xla_propagation
from compare import prepared_for_xla
from tally import Tally
from tpu_partition import MESHES, hlo_text, programs

PASS = {"cpu": "spmd-partitioning", "tpu": "tpu-spmd-partitioning"}
ALIKE, NEAR = 0.02, 0.1
# How many of the 40 programs at least: what was reached, so that it stays. Not alike on CPU: a convolution of which XLA's
# program is wrong (docs/xla.md, cut_image) and running sums, whose operand XLA gathers where ours sends sums of tiles.
LEAST = {"cpu": (38, 38), "tpu": (36, 37)}  # alike, near


def platform():
    default = "tpu" if importlib.util.find_spec("libtpu") else "cpu"
    return os.environ.get("GSHARD_AS_XLA_PLATFORM", default)


def made_programs(count):
    """{name: text as JAX hands it to XLA}."""
    import jax
    import numpy as np
    from jax.sharding import AxisType, Mesh

    cases = [(dims, program) for dims in MESHES for program in programs()][:40]
    step = max(1, len(cases) // count)
    texts = {}
    for dims, (name, function, arguments, results) in cases[::step][:count]:
        devices = np.array(jax.devices()[:dims[0] * dims[1]]).reshape(dims)
        mesh = Mesh(devices, ("d", "m"), axis_types=(AxisType.Auto,) * 2)
        texts[f"{name} on {dims[0]}x{dims[1]}"] = hlo_text(function, arguments, results, mesh)
    return texts


def with_meshes(text, meshes):
    """The text with the mesh's names in its header, so that gshard-cost can tell axes."""
    header, rest = text.split("\n", 1)
    header = re.sub(r", frontend_attributes=\{.*\}$", "", header)
    return header + (", frontend_attributes={" + meshes + "}" if meshes else "") + "\n" + rest


def sent(path):
    """Counter of bytes that a device sends by (kind, axes), by gshard-cost; raises with its message."""
    done = subprocess.run(["gshard-cost", "--json", "--partitioned", "yes", path], capture_output=True, text=True)
    if done.returncode:
        raise RuntimeError(done.stderr[:300])
    found = collections.Counter()
    for entry in json.loads(done.stdout)["collectives"]:
        axes = entry["axes"]
        found[entry["kind"], axes if isinstance(axes, str) else "+".join(axes)] += entry["bytes_per_device"]
    return found


def near(mine, theirs, share):
    return abs(mine - theirs) <= share * max(mine, theirs)


class Rows:
    """One row a program, for several sets of flags."""

    def __init__(self):
        self.counts = collections.Counter()
        self.wrong = collections.Counter()

    def add(self, name, label, mine, theirs):
        keys = [key for key in mine | theirs if not near(mine[key], theirs[key], ALIKE)]
        is_near = near(mine.total(), theirs.total(), NEAR)
        self.counts[label, "alike"] += not keys
        self.counts[label, "near"] += is_near
        print(f"{name}, {label}: {mine.total():.0f} bytes, XLA {theirs.total():.0f}"
              f"{'' if keys else ', alike'}", flush=True)
        for kind, axes in sorted(keys):
            self.wrong[label, kind] += 1
            print(f"    {kind} over {axes}: {mine[kind, axes]:.0f}, XLA {theirs[kind, axes]:.0f}", flush=True)


def check(rows, name, meshes, texts, folder):
    before, after = (os.path.join(folder, f"{name.replace(' ', '_')}.{part}.hlo") for part in ("before", "xla"))
    for path, text in zip((before, after), texts):
        pathlib.Path(path).write_text(with_meshes(text, meshes))
    theirs = sent(after)
    for label, flags in (("by default", []), ("as XLA", ["--as-xla"])):
        ours = before.replace(".before.", f".{label.replace(' ', '_')}.")
        done = subprocess.run(["gshard-opt", "partition", "--no-propagate", *flags, before, "-o", ours],
                              capture_output=True, text=True)
        if done.returncode:
            return done.stderr[:300]
        rows.add(name, label, sent(ours), theirs)
    return ""


def prepared(text, folder):
    """(the text for XLA, the meshes that its header names)."""
    path = os.path.join(folder, "whole.hlo")
    pathlib.Path(path).write_text(text)
    header = subprocess.run(["gshard-opt", "print", path], capture_output=True, text=True).stdout.split("\n", 1)[0]
    meshes = re.search(r"xla\.sdy\.meshes=\{[^{}]*\}", header)
    return prepared_for_xla(path), meshes[0] if meshes else ""


def main():
    tally, rows, on = Tally(), Rows(), platform()
    keep = os.environ.get("GSHARD_AS_XLA_KEEP")
    wanted = min(40, int(os.environ.get("GSHARD_AS_XLA_PROGRAMS", "40")))
    wholes = made_programs(wanted) if wanted else {}
    for path in filter(None, os.environ.get("GSHARD_AS_XLA_FILES", "").split(":")):
        wholes[pathlib.Path(path).stem] = pathlib.Path(path).read_text()
    with tempfile.TemporaryDirectory() as scratch:
        folder = keep or scratch
        os.makedirs(folder, exist_ok=True)
        texts = {name: prepared(text, scratch) for name, text in wholes.items()}
        made = xla_propagation.run_pass(PASS[on], [text for text, _ in texts.values()], devices=256, timeout=200, platform=on)
        for (name, (_, meshes)), (pair, error) in zip(texts.items(), made):
            if pair is None:
                tally.check(f"XLA partitions {name}", error)
                continue
            tally.check(f"partition {name}", check(rows, name, meshes, pair, folder))
    for label in ("by default", "as XLA"):
        print(f"{label}: of {len(made)} programs {rows.counts[label, 'alike']} alike in all kinds and axes, "
              f"{rows.counts[label, 'near']} near in total; apart: "
              + ", ".join(f"{kind} {n}" for (of, kind), n in rows.wrong.most_common() if of == label))
    for what, least in zip(("alike", "near"), LEAST[on]):
        problem = "" if wanted < 40 or rows.counts["as XLA", what] >= least else f"fewer than {least}"
        tally.check(f"programs {what}", problem)
    tally.finish()


if __name__ == "__main__":
    main()
