"""Shardings inferred in Shardy's mode against those of Shardy's own passes, which jaxlib registers.

Three sets: forms of operations and JAX programs with random shardings of their arguments, as jit prints them, and steps of
libraries with theirs. Shardy's passes run over a copy whose operations are named by their locations; gshard-opt propagate keeps
these names as op_name. Of every program each argument, result and operation is compared, axis by axis. XLA itself is the judge where
the two differ: EXPLAINED has the programs in which XLA hands another program to Shardy than the text is. Of each set 99 % of the
values, 98 % of those that Shardy cuts and 95 % of the programs must agree.
GSHARD_SHARDY_SEEDS: random shardings of each program (default 1). GSHARD_SHARDY_SHARE: of libraries' steps, every n-th (default 8).
GSHARD_SHARDY_KEEP: a folder for programs that differ. Arguments: names of programs, to run these alone.
"""
import os
import random
import subprocess
import sys
import tempfile

import jax

from operation_forms import FORMS, random_sharding
from propagated import same, values_of
from shardy_passes import answer, prepare
from tally import Tally

SEEDS = int(os.environ.get("GSHARD_SHARDY_SEEDS", "1"))
SHARE = int(os.environ.get("GSHARD_SHARDY_SHARE", "8"))

# Differences that are the comparison's: of these programs XLA's compiled results lie as ours.
EXPLAINED = {
    "zero_size": "XLA leaves out operands without elements before it asks Shardy",
    "rand_gamma": "XLA leaves out reshapes that the next one takes back before it asks Shardy",
}


def forms():
    for name, (function, arguments) in FORMS.items():
        for seed in range(SEEDS):
            rng = random.Random(f"{name} {seed}")
            shardings = tuple(random_sharding(a.shape, rng) for a in arguments)
            yield f"{name}_{seed}", lambda: jax.jit(function, in_shardings=shardings).lower(*arguments).as_text()


def programs():
    from jax_programs import PROGRAMS
    for name, (function, arguments, keywords) in PROGRAMS.items():
        for seed in range(1 if "in_shardings" in keywords or name.startswith("m_") else SEEDS):
            def text():
                options = dict(keywords)
                if "in_shardings" not in options and not name.startswith("m_"):  # those bring a mesh of their own
                    rng = random.Random(f"{name} {seed}")
                    options["in_shardings"] = jax.tree.map(lambda a: random_sharding(a.shape, rng), tuple(arguments))
                return jax.jit(function, **options).lower(*arguments).as_text()
            yield f"{name}_{seed}", text


def libraries():
    import library_programs
    library_programs.DIALECT = "stablehlo"
    for i, (name, make) in enumerate(library_programs.PROGRAMS.items()):
        if i % SHARE == 0 or sys.argv[1:]:
            yield name, make


class Figures:
    def __init__(self):
        self.values = self.alike = self.cut = self.cut_alike = self.programs = self.programs_alike = 0

    def add(self, theirs, ours):
        """What differs."""
        different = []
        for key, wanted in theirs.items():
            if key.startswith("v"):
                shape, wanted = wanted
                found = [dims for s, dims in ours.get(key, []) if s == shape]
                if not found:
                    continue  # folded, or part of another operation
            else:
                found = [ours.get(key)]
            agrees = any(same(wanted, dims) for dims in found)
            is_cut = bool(wanted) and any(wanted)
            self.values += 1
            self.alike += agrees
            self.cut += is_cut
            self.cut_alike += is_cut and agrees
            if not agrees:
                different.append(f"{key}: {wanted}, ours {found}")
        self.programs += 1
        self.programs_alike += not different
        return different


def propagate(name, text, folder):
    path = os.path.join(folder, f"{name}.mlir")
    with open(path, "w") as out:
        out.write(text)
    done = subprocess.run(["gshard-opt", "propagate", path, "--propagation=shardy"], capture_output=True, text=True)
    if done.returncode:
        raise RuntimeError(f"{name}: {done.stderr[:300]}")
    return values_of(done.stdout)


def compare(tally, title, set_of_programs, folder):
    figures = Figures()
    for name, make in set_of_programs:
        if sys.argv[1:] and not any(name.startswith(wanted) for wanted in sys.argv[1:]):
            continue
        text = prepare(make())
        before = figures.values
        theirs, ours = answer(text), propagate(name, text, folder)
        why = EXPLAINED.get(name.rsplit("_", 1)[0])
        different = (Figures() if why else figures).add(theirs, ours)
        if why:
            print(f"{name}: {len(different)} differ, {why}")
            continue
        if different:
            print(f"{name}: {len(different)} of {figures.values - before} differ, {different[0]}", flush=True)
            if keep := os.environ.get("GSHARD_SHARDY_KEEP"):
                with open(os.path.join(keep, f"{name}.mlir"), "w") as out:
                    out.write(text)
                with open(os.path.join(keep, f"{name}.txt"), "w") as out:
                    out.write("\n".join(different))
        tally.check(name, "" if figures.values > before else "nothing was compared")
    for what, alike, total, least in (("values", figures.alike, figures.values, 0.99),
                                      ("values that are cut", figures.cut_alike, figures.cut, 0.98),
                                      ("programs", figures.programs_alike, figures.programs, 0.95)):
        share = alike / max(total, 1)
        print(f"{title}: {alike} of {total} {what} as Shardy's passes have them, {100 * share:.2f} %", flush=True)
        tally.check(f"{title}: {what}", "" if share >= least else f"only {100 * share:.2f} % agree")


def main():
    tally = Tally()
    with tempfile.TemporaryDirectory() as folder:
        compare(tally, "operation forms", forms(), folder)
        compare(tally, "JAX programs", programs(), folder)
        compare(tally, "steps of libraries", libraries(), folder)
    tally.finish()


if __name__ == "__main__":
    main()
