"""gshard-opt propagate against XLA's sharding-propagation pass: the same sharding on every instruction.

- Programs written for one point of docs/propagation.md each, and random ones (the same every run): no difference.
  Both sides get the very module that XLA had before its pass.
- The corpus and the samples, end to end over the names that are unique in both texts: at least 99 %.
- Of all of them: propagation is idempotent and deterministic, and what the user fixed stays.
GSHARD_RANDOM=N changes the number of random programs.
"""
import collections
import math
import os
import re
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "propagation"))

import compare
import laws
import random_graphs
import samples
import shardings
import written_graphs
import xla_propagation
from tally import Tally

CORPUS = os.environ.get("GSHARD_CORPUS", "")
# Programs on which XLA itself fails: they say nothing.
XLA_FAILS = re.compile(r"XLA died|RET_CHECK|INTERNAL")


def check_graphs(tally, graphs):
    total = 0
    for name, found, compared, error in compare.run(graphs):
        if error.startswith("XLA") and XLA_FAILS.search(error):
            continue
        total += compared
        lines = [f"{n}: {ours}, XLA {theirs}" for n, ours, theirs in found[:5]]
        tally.check(f"propagate {name}", error or "; ".join(lines))
    return total


def unique(text):
    """{name: instruction} of the names that are there once."""
    found = collections.defaultdict(list)
    for x in shardings.instructions(text):
        found[x.name].append(x)
    return {name: rows[0] for name, rows in found.items() if len(rows) == 1}


def prepared_for_xla(path):
    """The text without metadata and with Shardy's attributes as plain shardings, or None."""
    tool = os.environ.get("GSHARD_OPT", "gshard-opt")
    done = subprocess.run(f"{tool} optimize --passes import-shardy '{path}' | {tool} print --no-metadata -",
                          shell=True, capture_output=True, text=True)
    text = shardings.without_meshes(done.stdout[done.stdout.find("HloModule"):])
    devices = max([1] + [math.prod(int(d) for d in dims.split(","))
                         for dims in re.findall(r"devices=\[([\d,]+)\]", text)])
    if "num_partitions=" not in text.split("\n", 1)[0]:
        text = re.sub(r"^(HloModule [^\s,]+)", rf"\1, num_partitions={devices}", text, count=1)
    return text if done.returncode == 0 and devices > 1 else None


def check_laws(tally, texts):
    for name, problem in laws.run(texts):
        tally.check(f"laws of propagation {name}", problem)


def check_file(tally, name, path):
    """End to end: original text, calls and all, over unique names."""
    check_laws(tally, {name: open(path).read()})
    text = prepared_for_xla(path)
    if text is None:
        return
    mine, error = compare.ours(open(path).read())
    if mine is None:
        return tally.check(f"propagate {name}", error)
    n = int(re.search(r"num_partitions=(\d+)", text).group(1))
    texts, error = xla_propagation.propagate([text], devices=max(16, n), timeout=150)[0]
    if texts is None:
        return tally.check(f"propagate {name}", "XLA: " + error)
    written, have = unique(text), unique(mine)
    theirs = collections.defaultdict(list)
    for x in shardings.instructions(texts[1]):  # XLA's op_name is our name, behind its callers' ones
        name_here = x.op_name.rsplit("/", 1)[-1] if x.op_name else None
        y = written.get(name_here)
        if y and y.shape == x.shape and (y.opcode, x.opcode) in ((x.opcode, x.opcode), ("custom-call", "copy")):
            theirs[name_here].append(x.sharding)
    names = [x for x, s in theirs.items() if len(s) == 1 and x in have]
    wrong = [x for x in names if shardings.parse(have[x].sharding) != shardings.parse(theirs[x][0])]
    share = 100.0 * (len(names) - len(wrong)) / max(1, len(names))
    print(f"{name}: {share:.2f} % of {len(names)} instructions agree", flush=True)
    problem = f"{share:.2f} % agree, first: {wrong[0]}" if share < 99 else ""
    tally.check(f"propagate {name}", problem)


def main():
    tally = Tally()
    count = int(os.environ.get("GSHARD_RANDOM", "400"))
    graphs = dict(written_graphs.CASES)
    graphs.update({f"random_{k}": random_graphs.generate(k) for k in range(count)})
    print(f"{check_graphs(tally, graphs)} instructions of {len(graphs)} programs compared", flush=True)
    check_laws(tally, graphs)
    samples.check_each(tally, check_file, CORPUS)
    tally.finish()


if __name__ == "__main__":
    main()
