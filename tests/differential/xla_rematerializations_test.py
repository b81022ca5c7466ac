"""What gshard-cost says XLA's partitioner has whole on every device, beside the warnings that XLA on CPU prints.

Of each program the module that XLA propagated is partitioned by XLA, whose pass spmd-partitioning warns of "Involuntary full
rematerialization", and by gshard-opt partition --as-xla: the same values are to go from the same tiles to the same tiles. Layouts
by hand, JAX programs, StableHLO, and `../shared/corpus` where it is there. GSHARD_REMATERIALIZATION_FILES: more, joined by `:`.
"""
import collections
import glob
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

import shardings
import xla_propagation
from as_xla_test import made_programs, prepared
from tally import Tally

WARNING = re.compile(r"Involuntary full rematerialization\..*? from sharding (\{.*?\}) to (\{.*?\}) efficiently for HLO operation "
                     r"(.*?\])(?:\{[^}]*\})? .*?op_name=\"([^\"]*)\"")
# Values of f32[64,64,..] that a copy moves from one layout to another, on 8 devices: which, and how they begin and end.
BY_HAND = {
    "swapped axes of two": ("64,64", "[4,2]<=[8]", "[2,4]<=[8]"),
    "the same tiles elsewhere": ("64,64", "[4,2]<=[8]", "[4,2]<=[2,4]T(1,0)"),
    "two to the second": ("64,64", "[8,1]<=[8]", "[1,4,2]<=[8] last_tile_dim_replicate"),
    "minor of two": ("64,64", "[8,1]<=[8]", "[1,4,2]<=[2,4]T(1,0) last_tile_dim_replicate"),
    "one to two": ("64,64", "[4,1,2]<=[8] last_tile_dim_replicate", "[2,4]<=[8]"),
    "copies to copies": ("64,64", "[2,1,4]<=[8] last_tile_dim_replicate", "[1,4,2]<=[8] last_tile_dim_replicate"),
    "three dims turned": ("16,16,16", "[2,2,2]<=[8]", "[2,2,2]<=[2,2,2]T(2,1,0)"),
    "two of three": ("16,16,16", "[4,2,1]<=[8]", "[1,2,4]<=[8]"),
    "half of a dim": ("16,16,16", "[4,2,1]<=[8]", "[1,4,2]<=[8]"),
    "a dim into two": ("16,16,16", "[8,1,1]<=[8]", "[1,4,2]<=[8]"),
    "more tiles than elements": ("8,4,8,64", "[2,4,1,1]<=[8]", "[1,8,1,1]<=[2,4]T(1,0)"),
    "more tiles at the start": ("8,4,8,64", "[1,8,1,1]<=[2,4]T(1,0)", "[1,1,2,4]<=[8]"),
    "uneven": ("10,6", "[4,2]<=[8]", "[1,8]<=[8]"),
    "uneven, both dims": ("10,6", "[4,2]<=[8]", "[2,4]<=[8]"),
    "uneven, all to the other dim": ("6,12", "[8,1]<=[8]", "[1,8]<=[8]"),
    "padded alike": ("16,6", "[2,4]<=[8]", "[1,8]<=[2,4]T(1,0)"),
    "padded otherwise": ("8,12", "[2,4]<=[8]", "[1,8]<=[2,4]T(1,0)"),
    "copies into more tiles than elements": ("16,4", "[4,1,2]<=[8] last_tile_dim_replicate", "[1,8]<=[8]"),
    "back from more tiles than elements": ("16,4", "[1,8]<=[8]", "[2,4]<=[8]"),
}


def by_hand():
    texts = {}
    for name, (dims, before, after) in BY_HAND.items():
        shape = f"f32[{dims}]"
        texts[name] = (f"HloModule m, num_partitions=8\n\nENTRY e {{\n"
                       f"  x = {shape} parameter(0), sharding={{devices={before}}}\n"
                       f"  negated = {shape} negate(x), sharding={{devices={before}}}\n"
                       f"  moved = {shape} tanh(negated), sharding={{devices={after}}}\n"
                       f"  again = {shape} exponential(negated), sharding={{devices={after}}}\n"
                       f"  ROOT both = ({shape}, {shape}) tuple(moved, again), sharding={{{{devices={after}}}, {{devices={after}}}}}\n}}\n")
    return texts


def files():
    found = {}
    corpus = [path for path in sorted(glob.glob("../shared/corpus/rocm_*gpu.hlo")) if os.path.getsize(path) < 600_000]
    extra = filter(None, os.environ.get("GSHARD_REMATERIALIZATION_FILES", "").split(":"))
    for path in ["../shared/cases/models/remat_xla.mlir", *corpus, *extra]:
        if os.path.exists(path):
            text = subprocess.run(["gshard-opt", "print", path], capture_output=True, text=True).stdout
            found[pathlib.Path(path).stem] = text
    return found


def warned(log):
    """Counter of (value, from, to) that XLA's warnings tell."""
    found = collections.Counter()
    for line in log.splitlines():
        if "Involuntary full rematerialization" in line:
            match = WARNING.search(line)
            key = (match[4].rsplit("/", 1)[-1], shardings.parse(match[1]), shardings.parse(match[2])) if match else line
            found[key] += 1
    return found


def listed(text, folder):
    """The same of gshard-opt partition --as-xla."""
    path, report = os.path.join(folder, "before.hlo"), os.path.join(folder, "report.json")
    pathlib.Path(path).write_text(text)
    done = subprocess.run(["gshard-opt", "partition", "--no-propagate", "--as-xla", path, "--report", report, "-o", os.devnull],
                          capture_output=True, text=True)
    if done.returncode:
        raise RuntimeError(done.stderr[:300])
    names = {x.name: (x.op_name or x.name).rsplit("/", 1)[-1] for x in shardings.instructions(text)}
    return collections.Counter((names.get(row["value"], row["value"]), shardings.parse(row["has"]), shardings.parse(row["wants"]))
                               for row in json.loads(pathlib.Path(report).read_text())["full_rematerializations"])


def in_words(counter):
    return ", ".join(f"{n} x {key}"[:300] for key, n in counter.items())


def main():
    tally, alike, some = Tally(), 0, 0
    wholes = by_hand() | made_programs(int(os.environ.get("GSHARD_REMATERIALIZATION_PROGRAMS", "12"))) | files()
    with tempfile.TemporaryDirectory() as folder:
        texts = {name: prepared(text, folder)[0] for name, text in wholes.items()}
        made = xla_propagation.run_pass("spmd-partitioning", list(texts.values()), devices=256, timeout=200, logs=folder)
        for k, (name, (pair, error)) in enumerate(zip(texts, made)):
            if pair is None:
                tally.check(f"XLA partitions {name}", error)
                continue
            theirs, ours = warned(pathlib.Path(folder, str(k)).read_text()), listed(pair[0], folder)
            only_ours, only_theirs = ours - theirs, theirs - ours
            problem = f"only ours {in_words(only_ours)}; only XLA's {in_words(only_theirs)}" if ours != theirs else ""
            alike, some = alike + (not problem), some + bool(theirs)
            print(f"{name}: {theirs.total()} of XLA's, {ours.total()} ours", flush=True)
            tally.check(name, problem)
    print(f"{alike} of {len(made)} programs alike; XLA warns of {some} of them")
    tally.finish()


if __name__ == "__main__":
    main()
