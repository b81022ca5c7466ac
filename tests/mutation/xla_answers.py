#!/usr/bin/env python3
"""tests/differential/propagation_test.py in seconds: XLA's answers are asked for once and kept in a file.

    xla_answers.py record FILE [RANDOM]     with jaxlib: the written programs and so many random ones (400)
    xla_answers.py check FILE [K/N]         gshard-opt of GSHARD_OPT or the PATH says the same on all, or on part K (from 0) of
                                            N; ends at the first difference

mutants.py --xla FILE has these among its tests.
"""
import json
import os
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
DIFFERENTIAL = os.path.join(HERE, "../differential")
sys.path[1:1] = [DIFFERENTIAL, os.path.join(DIFFERENTIAL, "propagation")]

import compare
import random_graphs
import written_graphs
import xla_propagation


def record(path, count):
    graphs = dict(written_graphs.CASES)
    graphs.update({f"random_{k}": random_graphs.generate(k) for k in range(count)})
    answers = xla_propagation.propagate(list(graphs.values()))
    kept = {name: texts for name, (texts, _) in zip(graphs, answers) if texts}
    with open(path, "w") as opened:
        json.dump(kept, opened)
    print(f"{len(kept)} of {len(graphs)} programs have an answer")


def check(path, part, parts):
    """The exit code: 1 where an instruction has another sharding than XLA gives it."""
    with open(path) as opened:
        answers = dict(list(json.load(opened).items())[part::parts])
    for name, (before, after) in answers.items():
        found, _, error = compare.check(before, after)
        if found or error:
            print(f"{name}: {error or found[0]}")
            return 1
    print(f"{len(answers)} passed, 0 failed")
    return 0


if __name__ == "__main__":
    if sys.argv[1] == "record":
        record(sys.argv[2], int(sys.argv[3]) if len(sys.argv) > 3 else 400)
    else:
        sys.exit(check(sys.argv[2], *map(int, sys.argv[3].split("/") if len(sys.argv) > 3 else (0, 1))))
