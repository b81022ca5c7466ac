#!/usr/bin/env python3
"""Traffic of library programs (library_programs.py): bytes a device moves, ours against XLA's partitioner.

    library_traffic_test.py [NAME ..]     names, or beginnings of names; default: a few of each library
    library_traffic_test.py all           all of them

Of data parallel programs, named .dp, the bytes that the sums of their gradients take at least are computed, too: n devices
have a summand each, r copies of every one, and the sum is to be on all n r of them. To bring n summands together takes
n - 1 messages of an element, to tell the other n r - 1 devices as many more: (n + n r - 2) / (n r) elements a device.

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


def bytes_of_gradients(name, text):
    """The least that summing one gradient of every weight takes, or None where weights are not whole on every device."""
    if not name.endswith(".dp") or name.startswith("diffrax"):  # without gradients
        return None
    data, model = (int(x) for x in (name.split(".")[1] + "x1").split("x")[:2])
    elements = 0
    for dims in re.findall(r"^  (?:p_|state_0_)\S+ = f32\[([\d,]*)\]\S* parameter\(", text, re.MULTILINE):
        elements += math.prod(int(x) for x in dims.split(",") if x)
    return 4 * elements * (data + data * model - 2) / (data * model)


def text_of(name):
    text = library_programs.PROGRAMS[name]()
    if "num_partitions" not in text.split("\n", 1)[0]:
        text = text.replace("\n", ", num_partitions=8\n", 1)
    return traffic_test.OPAQUE.sub('custom_call_target="opaque"', text)


def main():
    words = sys.argv[1:] or FEW
    names = [name for name in library_programs.PROGRAMS if "all" in words or any(name.startswith(w) for w in words)]
    tally, rows, bounds = Tally(), [], []
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
        least = bytes_of_gradients(name, texts[name])
        if least:
            bounds.append((ours.moved / least, name))
        tally.check(f"traffic of {name}", f"{ours.moved:.0f} bytes, XLA {xla.moved:.0f}" if ours.moved > xla.moved else "")
    rows.sort()
    if os.environ.get("GSHARD_TABLE"):
        for ratio, ours, xla, name in rows:
            print(f"  {ratio:7.3f}  {ours:12.0f} {xla:12.0f}  {name}")
    moving = [row for row in rows if row[1] + row[2]]
    mean = math.exp(sum(math.log(row[0]) for row in moving) / max(1, len(moving)))
    near = sum(ratio < 1.05 for ratio, _ in bounds)
    if bounds:
        print(f"{len(bounds)} data parallel programs, {near} within 5 % of the least that sums of their gradients take")
        if os.environ.get("GSHARD_TABLE"):
            print("".join(f"  {ratio:7.3f}  {name}\n" for ratio, name in sorted(bounds)), end="")
    print(f"{len(rows)} programs, {len(moving)} with traffic: geometric mean {mean:.3f} of XLA's bytes")
    tally.finish()


if __name__ == "__main__":
    main()
