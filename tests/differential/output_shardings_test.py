"""Shardings of results: what jit's compiled programs have, and what gshard-opt propagate gives them.

Each form of operation_forms.py with random shardings of its arguments, results unspecified: XLA's CPU compiler, which
runs Shardy, says compiled.output_shardings. At least 99 % of the results must be alike.
GSHARD_OUTPUT_SEEDS: random shardings of each form (default 2), which are compiled as one program.
"""
import os
import random
import subprocess
import tempfile

os.environ["XLA_FLAGS"] = ("--xla_force_host_platform_device_count=8 --xla_backend_optimization_level=0 "
                           "--xla_llvm_disable_expensive_passes=true")

import jax
from jax.sharding import NamedSharding
from jax.sharding import PartitionSpec as P

from operation_forms import FORMS, MESH, random_sharding
from propagated import values_of
from tally import Tally

# Differences that are explained: name of the form -> why.
EXPLAINED = {}


def compare(name, function, arguments, seeds, folder):
    """(results, descriptions of those that differ)"""
    shardings = [tuple(random_sharding(a.shape, random.Random(f"{name} {seed} {i}")) for i, a in enumerate(arguments))
                 for seed in range(seeds)]

    def copies(*groups):
        return [function(*group) for group in groups]

    lowered = jax.jit(copies, in_shardings=tuple(shardings)).lower(*[tuple(arguments)] * seeds)
    path = os.path.join(folder, f"{name}.mlir")
    with open(path, "w") as out:
        out.write(lowered.as_text())
    done = subprocess.run(["gshard-opt", "propagate", path], capture_output=True, text=True)
    if done.returncode:
        raise RuntimeError(f"{name}: {done.stderr[:300]}")
    ours = values_of(done.stdout)
    different = []
    theirs = jax.tree.leaves(lowered.compile().output_shardings)
    shapes = [result.shape for result in jax.tree.leaves(lowered.out_info)]
    for i, (their, shape) in enumerate(zip(theirs, shapes)):
        dims = ours.get(f"res{i}") or [[] for _ in shape]
        mine = NamedSharding(MESH, P(*[tuple(d) if d else None for d in dims]))
        if not mine.is_equivalent_to(their, len(shape)):
            spec = getattr(their, "spec", their)
            different.append(f"result {i} of arguments {[s and s.spec for s in shardings[i * seeds // len(theirs)]]}: {spec}, ours {mine.spec}")
    return len(theirs), different


def main():
    tally = Tally()
    seeds = int(os.environ.get("GSHARD_OUTPUT_SEEDS", "2"))
    results = wrong = 0
    with tempfile.TemporaryDirectory() as folder:
        for name, (function, arguments) in FORMS.items():
            compared, different = compare(name, function, arguments, seeds, folder)
            results, wrong = results + compared, wrong + len(different)
            for text in different:
                print(f"{name}: {text}" + (f" ({EXPLAINED[name]})" if name in EXPLAINED else ""))
            tally.check(name, "" if compared else "nothing was compared")
    print(f"{results - wrong} of {results} results of {len(FORMS)} operations lie as XLA's")
    tally.check("results", "" if wrong <= results / 100 else f"{wrong} of {results} differ")
    tally.check("number of results", "" if results >= 400 or seeds < 2 else f"only {results}")
    tally.finish()


if __name__ == "__main__":
    main()
