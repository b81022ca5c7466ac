"""gshard-opt propagate against XLA's compiler for TPUs on real models: the same sharding on at least 99.9 % of the values.

  python tests/differential/tpu_propagation.py [FILE ...]

FILE: HLO or StableHLO text with shardings for 2 to 256 devices; by default the corpus (the folder GSHARD_CORPUS), the
StableHLO texts of the folder GSHARD_MODELS, and the samples, over their meshes of 8 and 256 devices. Of each are compared

- the graph that XLA's propagation had itself: the text before its pass goes through ours, value by value. Over all files
  together at least 99.9 %, and 99 % of each. Scalars that are replicated for one and have no sharding for the other are
  counted apart, since both mean the same: XLA visits loops that its passes have made anew behind the entry computation, where
  its text does not have them, and so asks for the indices of slices at another time;
- the file as it is, through our own preparations (inline-calls, canonicalize, split-constants), over the names that are
  there once in both results: at least 99 % over all files.

Needs jaxlib and libtpu in Python (`pip install jax==0.10.2 jaxlib==0.10.2 libtpu`), no TPU; without them it says so and
passes. GSHARD_SHOWN: how many differences of a file are printed (default 3).
"""
import glob
import importlib.util
import os
import re
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "propagation"))

import compare
import samples
import shardings
import xla_propagation
from tally import Tally

SHOWN = int(os.environ.get("GSHARD_SHOWN", "3"))


def same_for_a_scalar(row, scalars):
    """A scalar cannot be cut: replicated and none mean the same."""
    name, ours, theirs = row
    return name in scalars and {ours, theirs} == {None, "{replicated}"}


def show(kind, found):
    for name, ours, theirs in found[:SHOWN]:
        print(f"  {kind} {name}: {ours}, XLA {theirs}")


class Comparison:
    def __init__(self):
        self.tally = Tally()
        # Values compared and values that differ: on XLA's graph, and end to end.
        self.graph, self.whole = [0, 0], [0, 0]
        self.unsaid = 0  # scalars that one side calls replicated and the other leaves without sharding

    def check_file(self, tally, name, path):
        text = compare.prepared_for_xla(path)
        if text is None:
            return print(f"{name}: no devices are named, or more than one program")
        n = int(re.search(r"num_partitions=(\d+)", text).group(1))
        if n not in xla_propagation.TPU_SLICES:
            return print(f"{name}: {n} devices, no slice of TPUs has so many")
        texts, error = xla_propagation.propagate([text], timeout=400, platform="tpu")[0]
        if texts is None:
            return tally.check(f"propagate {name}", "XLA: " + error)
        before, after = texts
        mine, error = compare.ours_of_this_graph(before)
        if mine is None:
            return tally.check(f"propagate {name}", error)
        found, count = compare.differences(before, after, mine)
        scalars = {x.name for x in shardings.instructions(before) if x.shape.endswith("[]")}
        unsaid = [row for row in found if same_for_a_scalar(row, scalars)]
        found = [row for row in found if row not in unsaid]
        self.unsaid += len(unsaid)
        self.graph[0] += count
        self.graph[1] += len(found)
        mine, error = compare.ours(open(path).read(), split_constants=True)
        if mine is None:
            return tally.check(f"propagate {name}", error)
        whole, whole_count = compare.differences_end_to_end(text, after, mine)
        self.whole[0] += whole_count
        self.whole[1] += len(whole)
        print(f"{name}: {len(found)} of {count} values differ on XLA's graph, {len(whole)} of {whole_count} end to end"
              + (f"; {len(unsaid)} scalars are replicated for one, without sharding for the other" if unsaid else ""), flush=True)
        show("on XLA's graph:", found)
        show("end to end:", whole)
        tally.check(f"propagate {name}", "" if len(found) * 100 <= count else f"{len(found)} of {count} differ")

    def check_samples(self, tally):
        for name in samples.BY_HAND:
            self.check_file(tally, name, samples.path(name))
        with tempfile.TemporaryDirectory() as folder:
            for name, rules, meshes in samples.GENERATED:
                for mesh in meshes[:2]:
                    out = os.path.join(folder, rules + ".hlo")
                    problem = samples.annotate(name, rules, mesh, out)
                    if problem:
                        tally.check(f"annotate {rules}", problem)
                    else:
                        self.check_file(tally, f"{rules} over {mesh}", out)

    def finish(self):
        for what, (count, differing), least in (("on XLA's graph", self.graph, 99.9), ("end to end", self.whole, 99)):
            share = 100 * (count - differing) / max(1, count)
            print(f"{what}: {share:.3f} % of {count} values agree")
            self.tally.check(what, "" if share >= least else f"{share:.3f} % agree")
        print(f"scalars replicated for one, without sharding for the other: {self.unsaid}")
        self.tally.finish()


def main():
    if importlib.util.find_spec("libtpu") is None:
        print("skipped: needs libtpu")
        return
    comparison = Comparison()
    files = sys.argv[1:]
    if not files and os.environ.get("GSHARD_CORPUS"):
        files = samples.corpus_files(os.environ["GSHARD_CORPUS"])
    if not sys.argv[1:] and os.environ.get("GSHARD_MODELS"):
        files += sorted(glob.glob(os.path.join(os.environ["GSHARD_MODELS"], "*.mlir")))
    for file in files:
        comparison.check_file(comparison.tally, os.path.basename(file), file)
    if not sys.argv[1:]:
        comparison.check_samples(comparison.tally)
    comparison.finish()


if __name__ == "__main__":
    main()
