"""All-reduces leave loops only where that changes no result: random loops that add them up, also in branches.

usage: accumulations.py [FIRST_SEED [COUNT]]     (default: 0 150)

Each program keeps two accumulators that are added to, scaled, cut, moved, put together, exchanged and handed through
conditionals, of which some are taken by whole groups of devices and others by single ones. `gshard-opt optimize --passes
while-loop-all-reduce-code-motion` must leave what gshard-run computes as it is. Integers: equal means equal. gshard-opt and
gshard-run are taken from PATH.
"""
import os
import random
import subprocess
import sys
import tempfile
import zipfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "differential"))
import tally  # noqa: E402

GROUPS = ["[2,2]<=[4]"] * 4 + ["[2,2]<=[2,2]T(1,0)"]  # of neighbours, whom branches keep together, and across
STATE = "(s32[], s32[8], s32[8], s32[8])"
BOTH = "(s32[8], s32[8])"
GIVEN = "(s32[8], s32[8], s32[8], s32[])"  # to a branch
MOST_CHANGED, LEAST_CHANGED = 0.8, 0.2  # share of programs that the pass changes: else they test nothing


class LoopMaker:
    """One program: x, and accumulators a and b, in a loop of up to four turns."""

    def __init__(self, rng):
        self.rng, self.count, self.branches = rng, 0, []

    def add(self, lines, text):
        self.count += 1
        name = f"v{self.count}_"
        lines.append(f"  {name} = {text}")
        return name

    def all_reduce(self, lines, shape, x, groups):
        return self.add(lines, f"{shape} all-reduce({x}), channel_id={self.count + 1}, replica_groups={groups}, "
                               "use_global_device_ids=true, to_apply=sum")

    def step(self, lines, acc, other, groups):
        """What becomes of an accumulator; without `groups` no devices may meet."""
        kind = self.rng.choice((["sum"] * 6 + ["minus", "rows", "gather", "scatter"]) * bool(groups)
                               + ["own", "other", "update", "move", "twice", "keep", "scale", "halve"])
        if kind == "sum":
            term = self.add(lines, f"s32[8] {self.rng.choice(['negate', 'sign', 'abs'])}(x)")
            term = self.all_reduce(lines, "s32[8]", term, groups)
            if self.rng.random() < 0.3:
                term = self.add(lines, f"s32[8] reshape({self.add(lines, f's32[2,4] reshape({term})')})")
            terms = self.rng.sample([acc, term], 2)
            return self.add(lines, f"s32[8] add({terms[0]}, {terms[1]})")
        if kind == "minus":
            term = self.all_reduce(lines, "s32[8]", self.add(lines, f"s32[8] multiply(x, {acc if self.rng.random() < 0.1 else 'x'})"), groups)
            term = self.scaled(lines, term) if self.rng.random() < 0.5 else term
            return self.add(lines, f"s32[8] subtract({acc}, {term})")
        if kind == "rows":
            term = self.all_reduce(lines, "s32[4]", self.add(lines, "s32[4] slice(x), slice={[4:8]}"), groups)
            start = self.add(lines, f"s32[] {self.rng.choice(['multiply(n, n)', 'add(n, n)', 'constant(3)'])}")
            old = self.add(lines, f"s32[4] dynamic-slice({acc}, {start}), dynamic_slice_sizes={{4}}")
            term = self.add(lines, f"s32[4] add({old}, {term})") if self.rng.random() < 0.7 else term
            return self.add(lines, f"s32[8] dynamic-update-slice({acc}, {term}, {start})")
        if kind in ("gather", "scatter"):
            # Between shapes: of what two devices have each device gets the whole, or its half of the sum.
            own = {"gather": "s32[4] slice(x), slice={[0:4]}", "scatter": "s32[16] concatenate(x, x), dimensions={0}"}[kind]
            term = self.add(lines, f"s32[8] {dict(gather='all-gather', scatter='reduce-scatter')[kind]}({self.add(lines, own)}), "
                                   f"channel_id={self.count + 1}, replica_groups={groups}, use_global_device_ids=true, "
                                   f"dimensions={{0}}{', to_apply=sum' * (kind == 'scatter')}")
            return self.add(lines, f"s32[8] add({acc}, {term})")
        if kind == "scale":
            return self.scaled(lines, acc)
        if kind == "halve":  # of integers that is not linear
            two = self.add(lines, f"s32[8] broadcast({self.add(lines, 's32[] constant(2)')}), dimensions={{}}")
            return self.add(lines, f"s32[8] divide({acc}, {two})")
        if kind in ("own", "other", "twice"):
            return self.add(lines, f"s32[8] add({acc}, {dict(own='x', other=other, twice=acc)[kind]})")
        if kind == "update":
            piece = self.add(lines, f"s32[4] slice({acc}), slice={{[2:6]}}")
            if groups:
                term = self.all_reduce(lines, "s32[4]", self.add(lines, "s32[4] slice(x), slice={[0:4]}"), groups)
                piece = self.add(lines, f"s32[4] add({piece}, {term})")
            start = self.add(lines, f"s32[] constant({self.rng.choice([0, 1, 2, 2, 2, 3])})")
            return self.add(lines, f"s32[8] dynamic-update-slice({acc}, {piece}, {start})")
        if kind == "move":
            halves = [self.add(lines, f"s32[4] slice({acc}), slice={{[{i}:{i + 4}]}}") for i in (0, 4)]
            self.rng.shuffle(halves)
            return self.add(lines, f"s32[8] concatenate({halves[0]}, {halves[1]}), dimensions={{0}}")
        return acc

    def scaled(self, lines, value):
        """By a number in the text, by one that counts turns, or by one that the devices of a group do not share."""
        factor = self.rng.choice(["constant(-3)", "add(n, n)", "add(n, own)"])
        factor = self.add(lines, f"s32[8] broadcast({self.add(lines, f's32[] {factor}')}), dimensions={{}}")
        return self.add(lines, f"s32[8] multiply({value}, {factor})")

    def steps(self, lines, values, groups):
        k = self.rng.randrange(2)
        values[k] = self.step(lines, values[k], values[1 - k], groups)

    def branch(self, groups, may_exchange):
        lines = [f"  p = {GIVEN} parameter(0)"]
        lines += [f"  {name} = s32[8] get-tuple-element(p), index={i}" for i, name in enumerate("xab")]
        lines += ["  n = s32[] get-tuple-element(p), index=3", "  own = s32[] convert(u32[] partition-id())"]
        values = ["a", "b"]
        for _ in range(self.rng.randrange(3)):
            self.steps(lines, values, groups)
        if may_exchange and self.rng.random() < 0.7:
            values.reverse()
        lines.append(f"  ROOT o = {BOTH} tuple({values[0]}, {values[1]})")
        self.branches.append(f"branch{len(self.branches)} {{\n" + "\n".join(lines) + "\n}\n")
        return f"branch{len(self.branches) - 1}"

    def conditional(self, lines, values):
        taken = self.rng.choice(["by group", "by group", "by device", "by turn"])
        if taken == "by turn":
            chosen = self.add(lines, "s32[] remainder(turn, two_s)")
        else:
            number = self.add(lines, f"u32[] {'divide' if taken == 'by group' else 'remainder'}(id, two)")
            chosen = self.add(lines, f"s32[] convert({number})")
        may_exchange = self.rng.random() < 0.1
        branches = [self.branch(GROUPS[0] if taken != "by device" else None, may_exchange) for _ in range(2)]
        if self.rng.random() < 0.15:
            branches[1] = branches[0]
        given = self.add(lines, f"{GIVEN} tuple(x, {values[0]}, {values[1]}, turn)")
        both = self.add(lines, f"{BOTH} conditional({chosen}, {given}, {given}), branch_computations={{{', '.join(branches)}}}")
        values[:] = [self.add(lines, f"s32[8] get-tuple-element({both}), index={i}") for i in range(2)]

    def program(self):
        lines = [f"  state = {STATE} parameter(0)", "  turn = s32[] get-tuple-element(state), index=0",
                 "  n = s32[] copy(turn)", "  own = s32[] convert(u32[] partition-id())"]
        lines += [f"  {name} = s32[8] get-tuple-element(state), index={i + 1}" for i, name in enumerate("xab")]
        lines += ["  one = s32[] constant(1)", "  next = s32[] add(turn, one)", "  id = u32[] partition-id()",
                  "  two = u32[] constant(2)", "  two_s = s32[] constant(2)"]
        values = ["a", "b"]
        for _ in range(self.rng.randrange(1, 4)):
            if self.rng.random() < 0.65:
                self.conditional(lines, values)
            else:
                self.steps(lines, values, self.rng.choice(GROUPS))
        x = self.add(lines, "s32[8] negate(x)") if self.rng.random() < 0.3 else "x"
        lines.append(f"  ROOT o = {STATE} tuple(next, {x}, {values[0]}, {values[1]})")
        body = "\n".join(lines)
        return f"""HloModule sums, num_partitions=4
sum {{
  p = s32[] parameter(0)
  q = s32[] parameter(1)
  ROOT s = s32[] add(p, q)
}}
{"".join(self.branches)}body {{
{body}
}}
condition {{
  state = {STATE} parameter(0)
  turn = s32[] get-tuple-element(state), index=0
  most = s32[] constant({self.rng.randrange(5)})
  ROOT less = pred[] compare(turn, most), direction=LT
}}
ENTRY e {{
  given = s32[8] parameter(0)
  before = s32[8] parameter(1)
  id = s32[] convert(u32[] partition-id())
  own = s32[8] broadcast(id), dimensions={{}}
  x = s32[8] add(given, own)
  zero = s32[] constant(0)
  none = s32[8] broadcast(zero), dimensions={{}}
  init = {STATE} tuple(zero, x, {self.rng.choice(["none", "before"])}, {self.rng.choice(["none", "own", "before"])})
  loop = {STATE} while(init), condition=condition, body=body
  a = s32[8] get-tuple-element(loop), index=2
  b = s32[8] get-tuple-element(loop), index=3
  ROOT r = {BOTH} tuple(a, b)
}}
"""


def optimized(path, passes):
    done = subprocess.run(["gshard-opt", "optimize", path, "--passes", passes, "--verify-each"], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout


def results_of(path, seed):
    """What the program computes, or why it does not run."""
    done = subprocess.run(["gshard-run", path, "--seed", str(seed), "--output", path + ".npz"], capture_output=True, text=True)
    if done.returncode != 0:
        return done.stderr
    with zipfile.ZipFile(path + ".npz") as arrays:
        return {name: arrays.read(name) for name in arrays.namelist()}


def main():
    first, count = [*map(int, sys.argv[1:]), *([0, 150][len(sys.argv) - 1:])]
    results, changed = tally.Tally(), 0
    with tempfile.TemporaryDirectory() as folder:
        before, after = os.path.join(folder, "before.hlo"), os.path.join(folder, "after.hlo")
        for seed in range(first, first + count):
            with open(before, "w") as file:
                file.write(LoopMaker(random.Random(seed)).program())
            text = optimized(before, "while-loop-all-reduce-code-motion")
            if text == optimized(before, "dead-code"):
                continue
            changed += 1
            with open(after, "w") as file:
                file.write(text)
            expected, got = results_of(before, seed), results_of(after, seed)
            problem = expected if isinstance(expected, str) else got if isinstance(got, str) else ""
            results.check(f"seed {seed}", problem or ("" if expected == got else "the optimized program computes something else"))
    share = changed / count
    results.check("programs that the pass changes", "" if LEAST_CHANGED < share < MOST_CHANGED else f"{share:.0%} of all")
    results.finish()


if __name__ == "__main__":
    main()
