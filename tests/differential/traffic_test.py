"""Traffic of gshard-opt partition against XLA's spmd-partitioning pass, both modules counted by the same code.

- Corpus and samples, each from its file: no more bytes moved per device than XLA's module right after the pass, no more
  floating-point operations, and no value that is tiled made whole everywhere only to be cut again.
- Random programs (the same every run), both sides from the module as XLA propagated it: less in the geometric mean,
  and more in few programs only (each operation is placed by itself; its user may have wanted it elsewhere).
- Programs of gshard_property, without XLA: no such value either.
traffic/work.py says how things are counted. GSHARD_RANDOM=N changes the number of random programs; GSHARD_PROPERTY
names a gshard_property whose programs are compared with XLA's as well.
"""
import json
import math
import os
import re
import shutil
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[1:1] = [os.path.join(HERE, "propagation"), os.path.join(HERE, "traffic")]

import hlo_lines
import random_graphs
import samples
import work
import xla_propagation
from compare import prepared_for_xla
from tally import Tally

CORPUS = os.environ.get("GSHARD_CORPUS", "")
PASS = "spmd-partitioning"
# Outside JAX, XLA aborts on these.
OPAQUE = re.compile(r'custom_call_target="(CustomSPMDPartitioning|te_[a-z_]+)"')
# Added to both sides of a ratio, so that programs that move nothing count.
SMALL = 256
LISTED = 15
# Part of the random programs that may move more than XLA's.
MORE = 0.1


def partitioned(text, *flags):
    """(our module of one device, "") or (None, error)."""
    tool = os.environ.get("GSHARD_OPT", "gshard-opt")
    done = subprocess.run([tool, "partition", "--propagation=gspmd", *hlo_lines.xla_defaults(text), *flags, "-"], input=text,
                          capture_output=True, text=True, timeout=120)
    return (done.stdout, "") if done.returncode == 0 else (None, done.stderr.strip()[:400])


def bytes_of_cost_tool(text):
    """Bytes per device by gshard-cost."""
    tool = os.environ.get("GSHARD_COST", "gshard-cost")
    done = subprocess.run([tool, "--json", "--partitioned", "yes", "-"], input=text, capture_output=True, text=True,
                          timeout=120)
    if done.returncode:
        return None
    return sum(entry["bytes_per_device"] for entry in json.loads(done.stdout)["collectives"])


def check_counting(tally, name, text, counted):
    by_tool = bytes_of_cost_tool(text)
    problem = ""
    if by_tool is None or abs(by_tool - counted.moved) > 1e-6 * counted.moved + 1:
        problem = f"{counted.moved:.0f} bytes, gshard-cost says {by_tool}"
    elif counted.unknown_loops:
        problem = f"{counted.unknown_loops} loops of unknown trip count"
    tally.check(f"bytes of {name}", problem)


def check_file(tally, name, path):
    text = prepared_for_xla(path)
    if text is None:
        return
    text = OPAQUE.sub('custom_call_target="opaque"', text)
    mine, error = partitioned(text)
    if mine is None:
        return tally.check(f"partition {name}", error)
    devices = int(re.search(r"num_partitions=(\d+)", text).group(1))
    texts, error = xla_propagation.run_pass(PASS, [text], devices=devices, timeout=150)[0]
    if texts is None:
        return tally.check(f"partition {name}", "XLA: " + error)
    ours, remade = work.count(mine)
    theirs, _ = work.count(texts[1])
    check_counting(tally, name, mine, ours)
    check_counting(tally, f"XLA's {name}", texts[1], theirs)
    print(f"{name}: {ours.moved:.5g} bytes, XLA {theirs.moved:.5g} ({ours.moved / max(1, theirs.moved):.3f})", flush=True)
    tally.check(f"traffic of {name}", f"{ours.moved:.0f} bytes, XLA {theirs.moved:.0f}" if ours.moved > theirs.moved else "")
    for kind in sorted(ours.flops | theirs.flops):
        mine_here, theirs_here = ours.flops[kind], theirs.flops[kind]
        problem = f"{mine_here:.0f} operations, XLA {theirs_here:.0f}" if mine_here > theirs_here else ""
        tally.check(f"{kind} operations of {name}", problem)
    tally.check(f"no rematerialization in {name}", ", ".join(remade[:5]))


def programs_of_property_tests(tool, count):
    """{name: text} of programs that gshard_property makes."""
    texts = {}
    for seed in range(count if tool else 0):
        done = subprocess.run([tool, "--print", str(seed)], capture_output=True, text=True)
        if done.returncode == 0:
            texts[f"property_{seed}"] = done.stdout
    return texts


def check_never_made_whole(tally, graphs):
    for name, text in graphs.items():
        mine, error = partitioned(text)
        # What a manual region gathers itself stays as it is.
        own = set(re.findall(r"([\w.-]+) = \S+ all-gather\(", text))
        remade = [x for x in work.count(mine)[1] if x not in own] if mine is not None else [error]
        tally.check(f"no rematerialization in {name}", ", ".join(remade[:5]))


def check_graphs(tally, label, graphs):
    """Partitions modules that XLA propagated; less traffic than XLA's in the geometric mean."""
    names = list(graphs)
    results = xla_propagation.run_pass(PASS, [graphs[name] for name in names])
    rows = []
    for name, (texts, _) in zip(names, results):
        if texts is None:  # XLA fails on it: no yardstick
            continue
        mine, error = partitioned(texts[0], "--no-propagate")
        if mine is None:
            if not re.search(r"E-PARTITION", error):
                tally.check(f"partition {name}", error)
            continue
        ours, remade = work.count(mine)
        theirs, _ = work.count(texts[1])
        if ours.moved + theirs.moved:
            rows.append(((ours.moved + SMALL) / (theirs.moved + SMALL), ours.moved, theirs.moved, name))
        tally.check(f"no rematerialization in {name}", ", ".join(remade[:5]))
    rows.sort()
    mean = math.exp(sum(math.log(row[0]) for row in rows) / max(1, len(rows)))
    worse = sum(row[1] > row[2] for row in rows)
    print(f"{label}: {len(rows)} programs with traffic, geometric mean {mean:.3f} of XLA's; less on "
          f"{sum(row[1] < row[2] for row in rows)}, more on {worse}")
    shown = rows if os.environ.get("GSHARD_TABLE") else rows[:LISTED] + rows[max(LISTED, len(rows) - LISTED):]
    for ratio, ours_moved, theirs_moved, name in shown:
        print(f"  {ratio:7.3f}  {ours_moved:12.0f} {theirs_moved:12.0f}  {name}", flush=True)
    tally.check(f"traffic of {label}", "" if mean < 1 else f"geometric mean {mean:.3f}")
    tally.check(f"few of {label} move more", "" if worse <= MORE * len(rows) else f"{worse} of {len(rows)}")


def main():
    tally = Tally()
    samples.check_each(tally, check_file, CORPUS)
    count = int(os.environ.get("GSHARD_RANDOM", "400"))
    check_graphs(tally, "random programs", {f"random_{k}": random_graphs.generate(k) for k in range(count)})
    tool = os.environ.get("GSHARD_PROPERTY")
    made = programs_of_property_tests(tool or shutil.which("gshard_property"), count)
    check_never_made_whole(tally, made)
    if tool:
        check_graphs(tally, "programs of the property tests", made)
    tally.finish()


if __name__ == "__main__":
    main()
