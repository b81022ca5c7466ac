"""Instruction by instruction: what gshard-opt and XLA infer for the same module."""
import os
import subprocess
import tempfile

import shardings
import xla_propagation


def ours(text):
    """(propagated text, "") or (None, error)."""
    tool = os.environ.get("GSHARD_OPT", "gshard-opt")
    done = subprocess.run([tool, "propagate", "-"], input=text, capture_output=True, text=True, timeout=60)
    return (done.stdout, "") if done.returncode == 0 else (None, done.stderr.strip()[:400])


def differences(before, after, mine):
    """[(name, ours, XLA's)] of the instructions of `before`, and how many were compared."""
    want = xla_propagation.results_by_name(before, after)
    have = {name: s for _, name, _, s, _, _ in shardings.instructions(mine)}
    out = []
    for name, s in want.items():
        if name not in have:
            out.append((name, "missing", s))
        elif shardings.parse(have[name]) != shardings.parse(s):
            out.append((name, have[name], s))
    return out, len(want)


def run(graphs):
    """For {name: text}: {name: (differences, compared, before, error)}."""
    names = list(graphs)
    results = {}
    for name, (texts, error) in zip(names, xla_propagation.propagate([graphs[n] for n in names])):
        if texts is None:
            results[name] = (None, 0, None, "XLA: " + error)
            continue
        before, after = texts
        mine, error = ours(before)
        if mine is None:
            results[name] = (None, 0, before, "gshard: " + error)
            continue
        found, compared = differences(before, after, mine)
        results[name] = (found, compared, before, "")
    return results
