#!/usr/bin/env python3
"""Is `gshard-opt auto` ever slower than what people write by hand? Real programs x devices x memory limits x chips.

    auto_never_worse.py build/ci/cmd --points 120 --seed 1       so many points, drawn at random
    auto_never_worse.py build/ci/cmd --match resnet --points 0   all points of programs that match

A point is a program, a mesh, a chip and a limit: none, the smallest peak of a plan by hand, or the middle between that and the peak of
the fastest of them. Plans by hand are the file's own annotations or the sample's rules, and data parallelism, FSDP, ZeRO and the largest dim of each
parameter, over the first axis and over all. They are written here as rules by instruction name and priced by gshard-cost,
which also prices what auto writes. A plan by hand counts where it fits; auto must fit where one does, be at most .5 % slower than
the fastest, and with more memory never slower than with less. Ends with "N passed, N failed".
"""
import argparse
import collections
import itertools
import json
import os
import pathlib
import random
import re
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
CORPUS = pathlib.Path(os.environ.get("GSHARD_CORPUS", ROOT.parent / "shared" / "corpus"))
MAY_BE_SLOWER = 1.005
CHIPS = ["tpu-v3", "tpu-v5p", "h100"]
LIMITS = ["no limit", "middle", "smallest"]
DEVICES = [8, 64, 2048]
# Whose rules or annotations name axes: the mesh of each number of devices. Others: data, or data and model.
MESHES = {
    "moe_train": ["data=2,model=4", "data=8,model=8", "data=32,model=64"],
    "transformer_train": ["data=2,model=4", "data=8,model=8", "data=32,model=64"],
    "moe_2048": ["core=8", "core=64", "core=2048"],
    "resnet_train": ["data=8", "data=64", "data=2048"],
    "pipeline_loop": ["stage=2,data=2,model=2", "stage=8,data=4,model=2", "stage=8,data=16,model=16"],
    "rocm_llama3_8b_train": ["fsdp=8", "fsdp=64", "fsdp=2048"],
    "rocm_llama3_8b_train.fsdp64_tensor32": ["fsdp=2,tensor=4", "fsdp=8,tensor=8", "fsdp=64,tensor=32"],
}
ANY_MESHES = ["data=8", "data=8,model=8", "data=32,model=64"]
LEFT_OUT = {"intel_llama31_70b_bf16_32x8", "pipeline", "rocm_colabfold_infer_8gpu"}  # partitioned, or seconds a plan


class Tool:
    def __init__(self, folder, work):
        self.folder, self.work = folder, work

    def run(self, program, *arguments, codes=(0,)):
        done = subprocess.run([f"{self.folder}/{program}", *map(str, arguments)], capture_output=True, text=True, check=False)
        if done.returncode not in codes:
            raise RuntimeError(f"{program} {' '.join(map(str, arguments))}\n{done.stderr.strip()[:600]}")
        return done.stdout

    def price(self, text, chip):
        """Time and peak of the annotated program `text`, a file."""
        cost = json.loads(self.run("gshard-cost", text, "--chip", chip, "--json", codes=(0, 3)))
        return cost["step_time_s"], cost["memory"]["peak_bytes"]


def parameters_of(text):
    """Name, op_name, element type and dims of the entry's array parameters, and the numbers of those that are returned updated."""
    entry = text[text.index("\nENTRY "):]
    found = {}
    for line in entry.splitlines():
        match = re.match(r"\s+(?:ROOT )?%?(\S+) = (\w+)\[([\d,]*)\]\S* parameter\((\d+)\)", line)
        if match:
            name, kind, dims, number = match.groups()
            found[int(number)] = (name, kind, [int(d) for d in dims.split(",") if d])
    header = text[:text.index("\n\n")] if "\n\n" in text else text
    updated = {int(n) for n in re.findall(r"\}: \((\d+), ", header)}
    if not updated:  # results of the same shapes take their places
        root = re.search(r"\n\s+ROOT [^=]+ = (.*?) \w[\w-]*\(", entry)
        shapes = collections.Counter(re.findall(r"\w+\[[\d,]+\]", root.group(1) if root else ""))
        for number, (_, kind, dims) in sorted(found.items()):
            shape = f"{kind}[{','.join(map(str, dims))}]"
            if dims and shapes[shape] > 0:
                shapes[shape] -= 1
                updated.add(number)
    return found, updated


def rule(name, dims, dim, axes):
    spec = ",".join("+".join(axes) if d == dim else "_" for d in range(len(dims)))
    return f"^{re.escape(name)}$={spec}"


def styles(parameters, updated, mesh):
    """Rules of each style, by its name."""
    sizes = [(axis, int(size)) for axis, size in (part.split("=") for part in mesh.split(","))]
    found = {}
    for axes in {(sizes[0][0],), tuple(axis for axis, _ in sizes)}:
        ways = 1
        for axis, size in sizes:
            ways *= size if axis in axes else 1
        first, largest, weights = [], [], []
        for number, (name, _, dims) in parameters.items():
            by_size = sorted(range(len(dims)), key=lambda d: -dims[d])
            dim = next((d for d in by_size if dims[d] % ways == 0), None)
            if dim is not None:
                largest.append(rule(name, dims, dim, axes))
                if number in updated:
                    weights.append(rule(name, dims, dim, axes))
            if number not in updated and dims and dims[0] % ways == 0:
                first.append(rule(name, dims, 0, axes))
        over = "+".join(axes)
        found |= {f"data parallel over {over}": first, f"FSDP over {over}": first + weights,
                  f"ZeRO over {over}": first, f"largest dims over {over}": largest}
    return {name: rules for name, rules in found.items() if rules}


class Program:
    """One program of the corpus or the samples, without its annotations, and the plans that people write for it."""

    def __init__(self, path, tool):
        self.path, self.tool, self.name = path, tool, path.stem
        self.bare = tool.work / f"{self.name}.bare.hlo"
        self.bare.write_text(tool.run("gshard-opt", "optimize", path, "--passes", "strip-shardings,inline-calls"))
        self.parameters, self.updated = parameters_of(self.bare.read_text())
        self.by_hand = {}

    def mesh(self, devices):
        return MESHES.get(self.name, ANY_MESHES)[DEVICES.index(devices)]

    def plans_by_hand(self, devices, chip):
        """Time and peak of each, by its name."""
        if (devices, chip) in self.by_hand:
            return self.by_hand[devices, chip]
        mesh, prices = self.mesh(devices), {}
        for name, rules in styles(self.parameters, self.updated, mesh).items():
            self.try_one(prices, name, chip, self.bare, "--mesh", mesh, *itertools.chain(*(["--shard", r] for r in rules)))
        rules = self.path.with_suffix(".rules")
        if rules.exists():
            self.try_one(prices, "the sample's rules", chip, self.bare, "--mesh", mesh, "--rules", rules)
        if "sharding=" in self.path.read_text():
            try:  # on its own mesh, or on one of the same axes
                table = json.loads(self.tool.run("gshard-cost", "sweep", self.path, "--mesh", mesh, "--chip", chip, "--json", codes=(0, 3)))
                for point in table["points"]:
                    if point.get("step_time_s") and point["devices"] == devices:
                        prices["the file's annotations"] = point["step_time_s"], point["peak_bytes"]
            except RuntimeError:
                pass  # for a mesh of other axes
        self.by_hand[devices, chip] = prices
        return prices

    def try_one(self, prices, name, chip, *annotate):
        text = self.tool.work / "by_hand.hlo"
        try:
            self.tool.run("gshard-opt", "annotate", *annotate, "-o", text)
            if name.startswith("ZeRO"):
                self.tool.run("gshard-opt", "optimize", text, "--passes", "weight-update-sharding", "-o", text)
            prices[name] = self.tool.price(text, chip)
        except RuntimeError as refused:
            print(f"  {self.name}: {name} is refused: {str(refused).splitlines()[-1][:120]}", file=sys.stderr)

    def auto(self, devices, chip, limit, flags):
        """Time and peak of auto's plan; whether it fits."""
        text, report = self.tool.work / "auto.hlo", self.tool.work / "auto.json"
        self.tool.run("gshard-opt", "auto", self.path, "--keep", "none", "--mesh", self.mesh(devices), "--chip", chip, "--limit", limit,
                      "-o", text, "--report", report, *flags, codes=(0, 3))
        time, peak = self.tool.price(text, chip)
        told = json.loads(report.read_text())
        claimed = told["plans"][0]
        if (claimed["step_time_s"], claimed["peak_bytes"]) != (time, peak):
            raise RuntimeError(f"the report says {claimed['step_time_s']} s, gshard-cost {time} s")
        if min(plan["step_time_s"] for plan in told["plans"]) < told["bound_s"] * (1 - 1e-9):
            raise RuntimeError("a plan lies below perfect scaling")
        return time, peak


def human(seconds):
    for unit, size in (("s", 1), ("ms", 1e-3), ("us", 1e-6)):
        if seconds >= size:
            return f"{seconds / size:.4g} {unit}"
    return f"{seconds / 1e-9:.4g} ns"


def judge(program, devices, chip, flags, rows):
    """One program on one mesh and chip, with each of the limits; the failures."""
    by_hand = program.plans_by_hand(devices, chip)
    if not by_hand:
        return [f"{program.name}: no plan by hand can be priced"], 0
    smallest, fastest = min(peak for _, peak in by_hand.values()), min(by_hand.values())[1]
    bytes_of = {"no limit": 1 << 60, "middle": (smallest + fastest) // 2, "smallest": smallest}
    failures, found = [], []  # of the limits, the largest first: the time, if it fits
    for name in LIMITS:
        limit = bytes_of[name]
        where = f"{program.name} {program.mesh(devices)} {chip} {name}"
        fitting = {style: price for style, price in by_hand.items() if price[1] <= limit}
        best = min(fitting, key=lambda style: fitting[style][0], default=None)
        try:
            time, auto_peak = program.auto(devices, chip, limit, flags)
        except RuntimeError as error:
            failures.append(f"{where}: {error}")
            continue
        fits = auto_peak <= limit
        found.append((name, time if fits else None))
        if best is None:
            verdict = "fits alone" if fits else "neither fits"
        elif not fits:
            verdict = "LOST"
            failures.append(f"{where}: {best} fits and auto's plan does not")
        else:
            verdict = f"{fitting[best][0] / time:.2f}"
            if time > fitting[best][0] * MAY_BE_SLOWER:
                verdict += " LOST"
                failures.append(f"{where}: {human(time)}, {best} {human(fitting[best][0])}")
        rows.append((where, best or "-", human(fitting[best][0]) if best else "-", human(time) if fits else "-", verdict))
        print(*rows[-1], sep=" | ", flush=True)
    for (more, faster), (less, slower) in itertools.combinations(found, 2):
        if slower is not None and (faster is None or faster > slower * MAY_BE_SLOWER):
            failures.append(f"{program.name} {program.mesh(devices)} {chip}: slower with {more} than with {less}")
    return failures, len(found)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("commands", help="folder of gshard-opt and gshard-cost")
    parser.add_argument("--points", type=int, default=120, help="how many, each with its limits; 0: all")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--match", default="", help="only programs whose name has this")
    parser.add_argument("--devices", type=int, choices=DEVICES, help="only these")
    parser.add_argument("--chip", choices=CHIPS, help="only this")
    parser.add_argument("--flags", default="", help="more flags of auto, such as '--evaluations 200'")
    options = parser.parse_args()
    paths = [p for p in sorted(CORPUS.glob("*.hlo")) + sorted((ROOT / "samples").glob("*.hlo"))
             if p.stem not in LEFT_OUT and options.match in p.stem]
    sets = list(itertools.product(paths, DEVICES, CHIPS))  # each with all limits
    every = len(sets) * len(LIMITS)
    sets = [(path, devices, chip) for path, devices, chip in sets
            if options.devices in (None, devices) and options.chip in (None, chip)]
    random.Random(options.seed).shuffle(sets)
    if options.points:
        sets = sets[:max(1, options.points // len(LIMITS))]
    failures, rows, points = [], [], 0
    with tempfile.TemporaryDirectory() as folder:
        tool = Tool(options.commands, pathlib.Path(folder))
        programs = {}
        for path, devices, chip in sets:
            if path not in programs:
                programs[path] = Program(path, tool)
            more, done = judge(programs[path], devices, chip, options.flags.split(), rows)
            for failure in more:
                print(f"FAILED {failure}", flush=True)
            failures += more
            points += done
    ratios = [float(row[-1].split()[0]) for row in rows if row[-1][0].isdigit()]
    ratios.sort()
    if ratios:
        print(f"{points} of {every} points, {len(ratios)} of them with a plan by hand that fits: auto's is faster by a factor of "
              f"{ratios[0]} to {ratios[-1]}, median {ratios[len(ratios) // 2]}")
    print(f"{points - min(points, len(failures))} passed, {len(failures)} failed")
    sys.exit(1 if failures else 0)


if __name__ == "__main__":
    main()
