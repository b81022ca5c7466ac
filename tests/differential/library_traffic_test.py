#!/usr/bin/env python3
"""Traffic of library programs (library_programs.py): bytes a device moves, ours against XLA's partitioner.

    library_traffic_test.py [NAME ..]     names, or beginnings of names; default: a few of each library
    library_traffic_test.py all           all of them

Both partition the same program after their own propagation. Ends with the geometric mean of the ratios over programs
of which either moves something (256 bytes are added to both sides), and "N passed, N failed": passed are programs of
which we move at most as much as XLA. GSHARD_TABLE=1 prints every program.
"""
import math
import os
import re
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [os.path.join(HERE, "propagation"), os.path.join(HERE, "traffic")]

try:
    import library_programs
except ImportError as missing:
    print(f"SKIPPED: {missing}\n0 passed, 0 failed")
    sys.exit(0)
import traffic_test
import work
import xla_propagation
from tally import Tally

SMALL = 256
# Run by tests/run.sh; each was once more than XLA's, or is of a kind of its own.
FEW = ["optax_adam.4x2", "equinox_attention.8.dp", "equinox_block.4x2.tp", "flax_transformer.4x2.tp",
       "flax_autoencoder.4x2.2d", "diffrax_heun.4x2.dp"]


def text_of(name):
    text = library_programs.PROGRAMS[name]()
    if "num_partitions" not in text.split("\n", 1)[0]:
        text = text.replace("\n", ", num_partitions=8\n", 1)
    return traffic_test.OPAQUE.sub('custom_call_target="opaque"', text)


def main():
    words = sys.argv[1:] or FEW
    names = [name for name in library_programs.PROGRAMS if "all" in words or any(name.startswith(w) for w in words)]
    tally, rows = Tally(), []
    texts = {}
    for name in names:
        texts[name] = text_of(name)
    results = xla_propagation.run_pass(traffic_test.PASS, list(texts.values()), devices=8)
    for name, (theirs, error) in zip(texts, results):
        mine, problem = traffic_test.partitioned(texts[name])
        if mine is None or theirs is None:
            tally.check(f"partition {name}", problem or "XLA: " + error)
            continue
        ours, _ = work.count(mine)
        xla, _ = work.count(theirs[1])
        rows.append(((ours.moved + SMALL) / (xla.moved + SMALL), ours.moved, xla.moved, name))
        tally.check(f"traffic of {name}", f"{ours.moved:.0f} bytes, XLA {xla.moved:.0f}" if ours.moved > xla.moved else "")
    rows.sort()
    if os.environ.get("GSHARD_TABLE"):
        for ratio, ours, xla, name in rows:
            print(f"  {ratio:7.3f}  {ours:12.0f} {xla:12.0f}  {name}")
    moving = [row for row in rows if row[1] + row[2]]
    mean = math.exp(sum(math.log(row[0]) for row in moving) / max(1, len(moving)))
    print(f"{len(rows)} programs, {len(moving)} with traffic: geometric mean {mean:.3f} of XLA's bytes")
    tally.finish()


if __name__ == "__main__":
    main()
