"""gshard-opt propagate against XLA's sharding-propagation pass: the same sharding on every instruction.

- Programs written for one point of docs/propagation.md each, and random ones (the same every run): no difference.
  Both sides get the very module that XLA had before its pass.
- The corpus and the samples, end to end over the names that are unique in both texts: at least 99 %.
- Of all of them: propagation is idempotent and deterministic, and what the user fixed stays.
GSHARD_RANDOM=N changes the number of random programs.
"""
import os
import re
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "propagation"))

import compare
import laws
import random_graphs
import samples
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


def check_laws(tally, texts):
    for name, problem in laws.run(texts):
        tally.check(f"laws of propagation {name}", problem)


def check_file(tally, name, path):
    """End to end: original text, calls and all, over unique names."""
    check_laws(tally, {name: open(path).read()})
    text = compare.prepared_for_xla(path)
    if text is None:
        return
    mine, error = compare.ours(open(path).read())
    if mine is None:
        return tally.check(f"propagate {name}", error)
    n = int(re.search(r"num_partitions=(\d+)", text).group(1))
    texts, error = xla_propagation.propagate([text], devices=max(16, n), timeout=150)[0]
    if texts is None:
        return tally.check(f"propagate {name}", "XLA: " + error)
    wrong, count = compare.differences_end_to_end(text, texts[1], mine)
    share = 100.0 * (count - len(wrong)) / max(1, count)
    print(f"{name}: {share:.2f} % of {count} instructions agree", flush=True)
    problem = f"{share:.2f} % agree, first: {wrong[0][0]}" if share < 99 else ""
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
