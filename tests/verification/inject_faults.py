"""Single faults injected into partitioned samples: `gshard-run --verify` must catch each and name its instruction.

  tests/verification/inject_faults.py [--faults N] [--seed S] [--keep DIR] [--right N] [--models DIR]

Each sample is partitioned for 8 devices; one line of the per-device program is damaged; `gshard-run damaged.hlo --reference
sample.hlo --verify` must fail (exit code 3). A fault that changes no bit of any output and of no array in between is no fault
(an operand that is zero anyway, say): another is drawn. The right instruction is the first array of the whole graph that the
damaged line has a part in: by name, or because the line is among the per-device instructions that are told to make it. Needs at least 99 of 100 caught and 90 named. `--right N`: N random right programs
(gshard_property) must not be called wrong. `--models DIR`: the programs are DIR/*.mlir, each as often as the others, with
shardings of their own for 8 devices (bf16_models.py writes some). gshard-opt, gshard-run and gshard_property are taken from PATH.
"""
import argparse
import collections
import json
import os
import random
import re
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "differential"))
import hlo_lines  # noqa: E402
import samples  # noqa: E402

# name, mesh; samples without rules have shardings inside.
PROGRAMS = [("mlp", "data=4,model=2"), ("moe_layer", None), ("spatial_conv", None), ("pipeline", None),
            ("transformer_train", "data=4,model=2"), ("resnet_train", "data=8")]
SHARE = [4, 4, 4, 2, 5, 1]  # how often each is drawn
COLLECTIVES = ("all-reduce", "all-gather", "reduce-scatter", "all-to-all", "collective-permute")


def run(*command):
    return subprocess.run(command, capture_output=True, text=True)


class Program:
    """A sample, or the file of a model, partitioned: its lines, and who uses whom."""

    def __init__(self, name, whole):
        """`whole`: the file of the graph, with its shardings."""
        self.name = name
        self.damaged = set()  # texts that were tried
        self.whole = whole
        done = run("gshard-opt", "partition", self.whole)
        if done.returncode:
            sys.exit(f"{name}: {done.stderr}")
        self.text = done.stdout.split("\n")
        self.lines = {i: line for i, line in ((i, hlo_lines.instruction(t)) for i, t in enumerate(self.text)) if line}
        with open(self.whole) as source:
            parsed = [hlo_lines.instruction(t) for t in source.read().split("\n")]
        self.arrays = {line.name for line in parsed if line and not line.shape.startswith("(")}
        self.users = collections.defaultdict(list)
        self.by_name = {line.name: line for line in self.lines.values()}
        for line in self.lines.values():
            for operand in operands_of(line):
                self.users[operand].append(line.name)
        self.computation = {}  # name -> computation
        current = None
        for i, text in enumerate(self.text):
            header = re.match(r"^(ENTRY )?%?([^\s({]+) .*\{$", text)
            if header and i not in self.lines:
                current = header.group(2)
            if i in self.lines:
                self.computation[self.lines[i].name] = current

    @classmethod
    def of_model(cls, name, model, folder):
        whole = os.path.join(folder, name + ".hlo")
        done = run("gshard-opt", "print", model)
        if done.returncode:
            sys.exit(f"{name}: {done.stderr}")
        with open(whole, "w") as out:
            out.write(done.stdout)
        return cls(name, whole)

    @classmethod
    def of_sample(cls, name, mesh, folder):
        whole = os.path.join(folder, name + ".hlo")
        if mesh is None:
            with open(samples.path(name)) as source, open(whole, "w") as out:
                out.write(source.read())
        else:
            problem = samples.annotate(name, name, mesh, whole)
            if problem:
                sys.exit(f"{name}: {problem}")
        return cls(name, whole)

    def is_array(self, name):
        """Is it compared? Constants and spread-out scalars are not."""
        line = self.by_name[name]
        if line.opcode == "constant" or line.shape.startswith("("):
            return False
        if line.opcode == "broadcast" and "[]" in self.by_name[operands_of(line)[0]].shape:
            return False
        return name in self.arrays

    def named(self, name):
        """The arrays of the whole graph that the line is the first part of."""
        found, stack, seen = set(), [name], set()
        while stack:
            at = stack.pop()
            if at in seen:
                continue
            seen.add(at)
            if self.is_array(at):
                found.add(at)
                continue
            stack.extend(self.users[at])
            line = self.by_name[at]
            if line.is_root:  # of a loop's body or a called computation: what its caller makes of it
                for caller in self.lines.values():
                    if re.search(r"(body|to_apply|calls|computations?)=[{%\w.,\s-]*%?" +
                                 re.escape(self.computation[at] or "?") + r"\b", caller.attributes):
                        stack.append(caller.name)
                for other, computation in self.computation.items():
                    if computation == self.computation[at] and self.by_name[other].opcode == "get-tuple-element":
                        stack.append(other)
        return found


def operands_of(line):
    return [re.split(r"\s", part.strip())[-1].lstrip("%") for part in hlo_lines.split_top(line.operands)]


def replace_line(program, i, new):
    text = list(program.text)
    text[i] = new
    return "\n".join(text)


def head(line):
    return f"  {'ROOT ' if line.is_root else ''}%{line.name} = {line.shape}"


def shape_of(program, name):
    return program.by_name[name].shape.split("{")[0]


# --- Faults: each gives (line number, damaged text, what) or nothing.

def drop(program, rng):
    """A collective that keeps the shape is a copy instead."""
    found = [(i, l) for i, l in program.lines.items() if l.opcode in COLLECTIVES and len(operands_of(l)) == 1 and
             shape_of(program, operands_of(l)[0]) == l.shape.split("{")[0]]
    if found:
        i, line = rng.choice(found)
        return i, replace_line(program, i, f"{head(line)} copy({line.operands})"), f"{line.opcode} dropped"


def regroup(program, rng):
    """Two devices of different replica groups are exchanged, or two of one group where order counts."""
    found = [(i, l) for i, l in program.lines.items() if "replica_groups=" in l.attributes]
    if not found:
        return None
    i, line = rng.choice(found)
    m = re.search(r"replica_groups=(\[[\d,]+\]<=\[[\d,]+\](T\([\d,]+\))?|\{\{[\d,{}]*\}\})", line.attributes)
    if not m:
        return None
    groups = lists_of(m.group(1))
    if len(groups) > 1:
        a, b = rng.sample(range(len(groups)), 2)
        x, y = rng.randrange(len(groups[a])), rng.randrange(len(groups[b]))
        groups[a][x], groups[b][y] = groups[b][y], groups[a][x]
    elif line.opcode != "all-reduce" and len(groups[0]) > 1:
        x, y = rng.sample(range(len(groups[0])), 2)
        groups[0][x], groups[0][y] = groups[0][y], groups[0][x]
    else:
        half = len(groups[0]) // 2
        groups = [groups[0][:half], groups[0][half:]]
        if line.opcode != "all-reduce":
            return None
    text = "{" + ",".join("{" + ",".join(map(str, g)) + "}" for g in groups) + "}"
    damaged = program.text[i].replace(m.group(1), text)
    return i, replace_line(program, i, damaged), f"{line.opcode} mis-grouped"


def lists_of(text):
    if text.startswith("{{"):
        return [[int(d) for d in group.split(",")] for group in re.findall(r"\{([\d,]+)\}", text)]
    m = re.match(r"\[([\d,]+)\]<=\[([\d,]+)\](?:T\(([\d,]+)\))?", text)
    dims, reshape = ([int(d) for d in m.group(k).split(",")] for k in (1, 2))
    order = [int(d) for d in m.group(3).split(",")] if m.group(3) else list(range(len(reshape)))
    count = 1
    for d in reshape:
        count *= d
    strides = [1] * len(reshape)
    for k in range(len(reshape) - 2, -1, -1):
        strides[k] = strides[k + 1] * reshape[k + 1]
    flat = [0]
    for axis in order:
        flat = [f + c * strides[axis] for f in flat for c in range(reshape[axis])]
    return [flat[k:k + dims[-1]] for k in range(0, count, dims[-1])]


def shift_permute(program, rng):
    found = [(i, l) for i, l in program.lines.items() if l.opcode == "collective-permute"]
    if not found:
        return None
    i, line = rng.choice(found)
    m = re.search(r"source_target_pairs=(\{\{[\d,{}]*\}\})", line.attributes)
    pairs = lists_of(m.group(1))
    if len(pairs) < 2:
        return None
    targets = [target for _, target in pairs]
    targets = targets[1:] + targets[:1]
    text = "{" + ",".join("{%d,%d}" % (s, t) for (s, _), t in zip(pairs, targets)) + "}"
    return i, replace_line(program, i, program.text[i].replace(m.group(1), text)), "permute shifted"


def swap_operands(program, rng):
    found = []
    for i, line in program.lines.items():
        names = operands_of(line)
        if line.opcode in ("subtract", "divide", "power", "compare") and len(names) == 2 and names[0] != names[1]:
            found.append((i, line))
        if line.opcode == "select" and names[1] != names[2]:
            found.append((i, line))
    if not found:
        return None
    i, line = rng.choice(found)
    parts = hlo_lines.split_top(line.operands)
    parts[-1], parts[-2] = parts[-2], parts[-1]
    new = f"{head(line)} {line.opcode}({', '.join(parts)}){line.attributes}"
    return i, replace_line(program, i, new), f"operands of {line.opcode} swapped"


def change_constant(program, rng):
    found = [(i, l) for i, l in program.lines.items()
             if l.opcode == "constant" and re.match(r"^-?[\d.e+-]+$", l.operands) and re.match(r"^(f32|bf16|s32)\[", l.shape)
             and program.users[l.name]]
    if not found:
        return None
    i, line = rng.choice(found)
    value = float(line.operands)
    new = value * rng.choice([2, 0.5, 1.1]) if value != 0 else 1.0
    if line.shape.startswith("s32"):
        new = int(value) + 1
    return i, replace_line(program, i, f"{head(line)} constant({new}){line.attributes}"), "constant changed"


def shift_slice(program, rng):
    """A slice, or the start of a dynamic-slice by device, is off by one."""
    found = [(i, l) for i, l in program.lines.items() if l.opcode == "slice"]
    tables = [(i, l) for i, l in program.lines.items() if l.opcode == "constant" and
              re.match(r"^[su](32|64)\[\d+\]", l.shape) and l.operands.startswith("{")]
    if not found + tables:
        return None
    i, line = rng.choice(found + tables)
    if line.opcode == "constant":  # offsets by device
        values = line.operands.strip("{}").split(",")
        if len(values) < 2:
            return None
        moved = values[1:] + values[:1]
        new = f"{head(line)} constant({{{','.join(moved)}}}){line.attributes}"
        return i, replace_line(program, i, new), "offset table shifted"
    m = re.search(r"slice=\{(.*?)\}", line.attributes)
    limits = [[int(n) for n in part.strip(" []").split(":")] for part in m.group(1).split(",")]
    dims = [int(d) for d in re.search(r"\[([\d,]+)\]", shape_of(program, operands_of(line)[0])).group(1).split(",")]
    for k in rng.sample(range(len(limits)), len(limits)):
        step = 1 if limits[k][1] < dims[k] else -1 if limits[k][0] > 0 else 0
        if step:
            limits[k][0] += step
            limits[k][1] += step
            text = "{" + ", ".join("[" + ":".join(map(str, l)) + "]" for l in limits) + "}"
            return i, replace_line(program, i, program.text[i].replace("slice={" + m.group(1) + "}", "slice=" + text)), \
                "slice shifted"
    return None


FAULTS = [drop, regroup, shift_permute, swap_operands, change_constant, shift_slice]


def outputs_of(path, *flags):
    """Exit code, and the results' file: the file is replaced, not written into."""
    with tempfile.TemporaryDirectory() as folder:
        out = os.path.join(folder, "out.npz")
        done = run("gshard-run", path, "--output", out, *flags)
        if done.returncode:
            return done.returncode, b""
        with open(out, "rb") as results:
            return 0, results.read()


def inject(programs, shares, rng, folder, tally, keep):
    program = rng.choices(programs, shares)[0]
    fault = rng.choice(FAULTS)
    made = fault(program, rng)
    if made is None:
        return False
    i, text, what = made
    if text in program.damaged:
        return False
    program.damaged.add(text)
    path = os.path.join(folder, "damaged.hlo")
    with open(path, "w") as out:
        out.write(text)
    if not hasattr(program, "right"):
        right = os.path.join(folder, program.name + ".right.hlo")
        with open(right, "w") as out:
            out.write("\n".join(program.text))
        program.right = outputs_of(right)
    code, outputs = outputs_of(path)
    if code or outputs == program.right[1]:
        return False  # refused before it runs, or without effect
    done = run("gshard-run", path, "--reference", program.whole, "--verify", "--json")
    first = {}
    if done.stdout:
        first = json.loads(done.stdout).get("verify", {}).get("first", {})
    line = program.lines[i]
    expected = program.named(line.name)
    caught = done.returncode == 3
    made_by = {part.split(" ")[-1] for part in first.get("made_by", [])}
    named = caught and (first.get("name") in expected or line.name in made_by)
    tally[what.split(" of ")[0] if "operands" in what else what].append((caught, named, bool(first.get("diagnosis"))))
    mark = "ok" if named else "CAUGHT, ELSEWHERE" if caught else "MISSED"
    print(f"{mark}: {program.name}: {what} at {line.name}: {first.get('name')}: {first.get('diagnosis')}", flush=True)
    if not named:
        print(f"    expected one of {sorted(expected)[:4]}")
        if keep:
            os.makedirs(keep, exist_ok=True)
            count = len(os.listdir(keep))
            with open(os.path.join(keep, f"{count}_{program.name}.hlo"), "w") as out:
                out.write(text)
    return True


def right_programs(count, folder):
    """How many of `count` right random programs are called wrong."""
    done = run("gshard_property", "--write", folder, "--devices", "8", "--seeds", f"0:{count}")
    if done.returncode:
        sys.exit(done.stderr)
    files = sorted(f for f in os.listdir(folder) if f.endswith(".hlo"))
    wrong = 0
    for file in files:
        done = run("gshard-run", os.path.join(folder, file), "--verify", "--threads", "1")
        if done.returncode == 3:
            wrong += 1
            print(f"ALARM: {file}\n{done.stdout}{done.stderr}")
    return len(files), wrong


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--faults", type=int, default=100)
    parser.add_argument("--right", type=int, default=0)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--keep", default="")
    parser.add_argument("--models", default="")
    options = parser.parse_args()
    rng = random.Random(options.seed)
    tally = collections.defaultdict(list)
    failed = False
    with tempfile.TemporaryDirectory() as folder:
        if options.models:
            files = sorted(f for f in os.listdir(options.models) if f.endswith(".mlir"))
            shares = [1] * len(files)
            programs = [Program.of_model(f[:-5], os.path.join(options.models, f), folder) for f in files]
        else:
            shares = SHARE
            programs = [Program.of_sample(name, mesh, folder) for name, mesh in PROGRAMS] if options.faults else []
        done = 0
        while done < options.faults:
            done += inject(programs, shares, rng, folder, tally, options.keep)
        total = [r for results in tally.values() for r in results]
        print(f"{'fault':36} {'injected':>8} {'caught':>7} {'named':>7} {'diagnosed':>9}")
        for what, results in sorted(tally.items()) + [("all", total)]:
            caught, named, diagnosed = (sum(r[k] for r in results) for k in range(3))
            print(f"{what:36} {len(results):8} {caught:7} {named:7} {diagnosed:9}")
        if total:
            failed = sum(r[0] for r in total) < 0.99 * len(total) or sum(r[1] for r in total) < 0.9 * len(total)
        if options.right:
            count, wrong = right_programs(options.right, os.path.join(folder, "right"))
            print(f"{count} right programs, {wrong} called wrong")
            failed = failed or wrong > 0
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
