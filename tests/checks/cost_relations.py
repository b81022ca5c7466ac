"""Relations between prices that hold whatever the model's constants are: a program written another way costs the
same, a better machine never takes longer, less work never costs more.

usage: cost_relations.py BIN_DIR [PROGRAM] [RELATION], from the top of the checkout; prints what does not hold
"""
import concurrent.futures
import json
import os
import random
import re
import subprocess
import sys
import tempfile

import cost_programs

BIN = os.path.abspath(sys.argv[1])
CHIPS = ["tpu-v5e", "h100"]
# Figures that are equal up to rounding of sums; and those of programs that a compiler may order otherwise.
EXACT, LOOSE = 1e-6, 0.02
# Layers in a loop beside layers written out: the loop's slices and stacks are real work of the one and not of the other.
SCAN_TIME, SCAN_PEAK = 0.03, 0.05


def tool(name, *words, text=None):
    done = subprocess.run([os.path.join(BIN, name), *map(str, words)], input=text, capture_output=True, text=True)
    if done.returncode not in (0, 3):
        raise RuntimeError(f"{name} {' '.join(map(str, words))}: exit {done.returncode}: {done.stderr[:400]}")
    return done.stdout


_prices = {}


def price(text, *flags, chip="tpu-v5e"):
    if not any(str(flag).startswith("--chip-file") for flag in flags):
        flags = (*flags, "--chip", chip)
    key = (hash(text), flags)
    if key not in _prices:
        _prices[key] = json.loads(tool("gshard-cost", "-", "--json", *flags, text=text))
    return _prices[key]


def figures(report):
    return {"step": report["step_time_s"], "peak": report["memory"]["peak_bytes"], "flops": report["flops_per_device"],
            "traffic": report["hbm_bytes_per_device"], "sent": sum(row["bytes_per_device"] for row in report["collectives"])}


def apart(a, b):
    return abs(a - b) / max(abs(a), abs(b), 1e-30)


def same(a, b, names=("step", "peak", "flops", "traffic", "sent"), within=EXACT):
    """What differs between two reports, in words; empty if nothing does."""
    a, b = figures(a), figures(b)
    limits = within if isinstance(within, dict) else dict.fromkeys(names, within)
    names = [name for name in names if name in limits]
    return ", ".join(f"{name} {a[name]:.6g} and {b[name]:.6g} ({100 * (b[name] / max(a[name], 1e-30) - 1):+.2f} %)"
                     for name in names if apart(a[name], b[name]) > limits[name])


def no_more(more, less, names=("step", "peak"), slack=EXACT):
    """Where `less` has more than `more`; empty if nowhere."""
    more, less = figures(more), figures(less)
    return ", ".join(f"{name} {less[name]:.6g}, not at most {more[name]:.6g} ({100 * (less[name] / more[name] - 1):+.2f} %)"
                     for name in names if less[name] > more[name] * (1 + slack))


# --- programs written another way

NAME = re.compile(r"%([A-Za-z_][\w.\-]*)")
CALLED = re.compile(r"(to_apply|condition|body|calls)=%[\w.\-]+|(branch_computations|called_computations)=\{[^}]*\}")


def blocks(text):
    """Lines outside of computations as they are, computations as (head, lines, tail)."""
    out, inside = [], None
    for line in text.splitlines():
        if inside is None and line.endswith("{") and not line.startswith(" "):
            inside = (line, [])
        elif inside is not None and line == "}":
            out.append((inside[0], inside[1], line))
            inside = None
        elif inside is not None:
            inside[1].append(line)
        else:
            out.append(line)
    return out


def joined(parts):
    return "\n".join(part if isinstance(part, str) else "\n".join([part[0], *part[1], part[2]]) for part in parts) + "\n"


def shuffled(text, seed):
    """Every computation in another order in which operands stand first."""
    rng = random.Random(seed)
    out = []
    for part in blocks(text):
        if isinstance(part, str):
            out.append(part)
            continue
        lines = part[1]
        defined = {NAME.search(line.split("=", 1)[0]).group(1): i for i, line in enumerate(lines)}
        waits = [{defined[name] for name in NAME.findall(CALLED.sub("", line.split("=", 1)[1])) if name in defined} for line in lines]
        users = [[] for _ in lines]
        for i, needed in enumerate(waits):
            for j in needed:
                users[j].append(i)
        left = [len(needed) for needed in waits]
        ready = [i for i, count in enumerate(left) if count == 0]
        order = []
        while ready:
            i = ready.pop(rng.randrange(len(ready)))
            order.append(i)
            for user in users[i]:
                left[user] -= 1
                if left[user] == 0:
                    ready.append(user)
        out.append((part[0], [lines[i] for i in order], part[2]))
    return joined(out)


def renamed(text):
    numbers = {}
    return NAME.sub(lambda m: "%v" + str(numbers.setdefault(m.group(1), 7919 * len(numbers) % 100003)), text)


def entry_lines(text, change):
    """`change` gets the lines of the entry computation and returns others."""
    return joined([part if isinstance(part, str) or not part[0].startswith("ENTRY") else (part[0], change(part[1]), part[2])
                   for part in blocks(text)])


def with_dead_code(text):
    dead = ["  %dead.one = f32[4096,4096] broadcast(%dead.zero), dimensions={}",
            "  %dead.two = f32[4096,4096] dot(%dead.one, %dead.one), lhs_contracting_dims={1}, rhs_contracting_dims={0}"]
    return entry_lines(text, lambda lines: ["  %dead.zero = f32[] constant(0)", *dead, *lines])


def through_reshapes(text):
    """An identity reshape behind every entry parameter."""
    def change(lines):
        out, moved = [], {}
        for line in lines:
            made = re.match(r"  (ROOT )?%([\w.\-]+) = ([a-z0-9]+\[[\d,]*\](?:\{[\d,]*\})?) parameter\(", line)
            name, rest = line.split(" = ", 1)
            out.append(name + " = " + NAME.sub(lambda m: "%" + moved.get(m.group(1), m.group(1)), rest))
            if made and not made.group(1):
                moved[made.group(2)] = made.group(2) + ".same"
                out.append(f"  %{made.group(2)}.same = {made.group(3)} reshape(%{made.group(2)})")
        return out
    return entry_lines(text, change)


def in_a_call(text):
    """The entry computation's work in a function that it calls."""
    parts = blocks(text)
    for i, part in enumerate(parts):
        if isinstance(part, str) or not part[0].startswith("ENTRY"):
            continue
        parameters = sorted((int(re.search(r" parameter\((\d+)\)", line).group(1)), line) for line in part[1] if " parameter(" in line)
        root = next(line for line in part[1] if line.lstrip().startswith("ROOT"))
        shape = re.match(r"\s*ROOT %[\w.\-]+ = (\(.*?\)|\S+) [a-z][\w\-]*\(", root).group(1)
        if "sharding=" in root or " parameter(" in root:
            return None
        names = [NAME.search(line).group(1) for _, line in parameters]
        outer = [re.sub(r"%([\w.\-]+)", r"%outer.\1", line, count=1) for _, line in parameters]
        call = f"  ROOT %outer.call = {shape} call({', '.join('%outer.' + name for name in names)}), to_apply=%whole.work"
        inner = [re.sub(r", sharding=\{.*\}(?=$|, metadata)", "", line) if " parameter(" in line else line for line in part[1]]
        parts[i:i + 1] = [("%whole.work {", inner, "}"), "", ("ENTRY %outer.entry {", [*outer, call], "}")]
        return joined(parts)
    return None


def without_field(text, field):
    """The header without `field={..}`, which may be nested."""
    begin = text.find(f", {field}=" + "{")
    if begin < 0:
        return text
    depth, end = 0, text.index("{", begin)
    while True:
        depth += {"{": 1, "}": -1}.get(text[end], 0)
        end += 1
        if depth == 0:
            return text[:begin] + text[end:]


def with_argument(text):
    entry = next(part for part in blocks(text) if not isinstance(part, str) and part[0].startswith("ENTRY"))
    count = sum(" parameter(" in line for line in entry[1])
    changed = entry_lines(text, lambda lines: [f"  %unused.argument = f32[256,1024] parameter({count})", *lines])
    changed = re.sub(r"^(ENTRY %[\w.\-]+) \(.*$", r"\1 {", changed, flags=re.M)
    return without_field(changed, "entry_computation_layout")


def without_metadata(text):
    return tool("gshard-opt", "print", "-", "--no-metadata", text=text)


# --- machines

def chip_file(folder, base, **changes):
    named = "".join(f"_{key}" + (f"={value}" if isinstance(value, int) else "") for key, value in sorted(changes.items()))
    path = os.path.join(folder, base + named + ".json")
    if not os.path.exists(path):
        with open(path + ".part", "w") as file:
            json.dump({"base": base, "name": "changed", **changes}, file)
        os.replace(path + ".part", path)
    return path


class Relations:
    """Each method is a relation: takes a program, returns what is wrong in words, empty if nothing is, None if it says
    nothing of this program."""

    def __init__(self, folder):
        self.folder = folder
        self.base = {chip: json.loads(open(f"core/cost/chips/{chip}.json").read()) for chip in CHIPS}

    def changed(self, text, chip="tpu-v5e", **changes):
        return price(text, "--chip-file", chip_file(self.folder, chip, **changes))

    def faster(self, p, chip, key):
        """`key` of the chip twice as much."""
        value = self.base[chip][key]
        twice = {k: 2 * v for k, v in value.items()} if isinstance(value, dict) else 2 * value
        return no_more(price(p.text, chip=chip), self.changed(p.text, chip, **{key: twice}), ("step",))

    # the same program
    def text_order(self, p):
        # Which of several equal choices propagation takes depends on the order, as in XLA.
        rest = EXACT if p.devices == 1 else LOOSE
        within = {"step": LOOSE, "peak": LOOSE, "flops": rest, "traffic": rest, "sent": rest}
        return same(price(p.text), price(shuffled(p.text, 1)), within=within)

    def text_order_of_a_gpu(self, p):
        # Of small kernels, which take launches only, propagation's choices weigh more.
        within = LOOSE if p.devices == 1 else 2 * LOOSE
        return same(price(p.text, chip="h100"), price(shuffled(p.text, 2), chip="h100"), ("step", "flops"), within=within)

    def other_names(self, p):
        return same(price(p.text), price(renamed(p.text)))

    def without_metadata(self, p):
        return same(price(p.text), price(without_metadata(p.text)))

    def printed_again(self, p):
        return same(price(p.text), price(tool("gshard-opt", "print", "-", text=p.text)))

    def as_stablehlo(self, p):
        return same(price(p.text), price(tool("gshard-opt", "print", "-", "--format", "stablehlo", "--gspmd", text=p.text)), within=LOOSE)

    def dead_code(self, p):
        return same(price(p.text), price(with_dead_code(p.text)))

    def identity_reshapes(self, p):
        return same(price(p.text), price(through_reshapes(p.text)), ("step", "flops", "sent"), LOOSE) if p.devices == 1 else None

    def work_in_a_call(self, p):
        text = in_a_call(p.text) if p.devices == 1 else None
        return same(price(p.text), price(text)) if text else None

    def unused_argument(self, p):
        more, before = price(with_argument(p.text)), price(p.text)
        grown = more["memory"]["peak_bytes"] - before["memory"]["peak_bytes"]
        return same(before, more, ("step", "flops", "traffic", "sent")) or ("" if grown == 1 << 20 else f"the peak grows by {grown}")

    def inlined_or_not(self, p):
        return same(price(p.text), price(tool("gshard-opt", "optimize", "-", "--passes", "inline-calls", text=p.text)))

    def partition_of_one_device(self, p):
        if p.devices > 1:
            return None
        # Constants that are merged on the way fold once more in the printed text: some adds less.
        within = {"step": EXACT, "peak": EXACT, "flops": 1e-3, "traffic": EXACT}
        return same(price(p.text), price(tool("gshard-opt", "partition", "-", text=p.text)), within=within)

    def partitioned_before(self, p):
        return same(price(p.text), price(tool("gshard-opt", "partition", "-", text=p.text))) if p.devices > 1 else None

    def parts_make_up_the_step(self, p):
        # Of scheduled text as well, which keeps its order, and with a permute under way beside everything.
        entry = re.compile(r"^(ENTRY .*\{\n(?:.*parameter\(.*\n)*)", re.MULTILINE)
        start = ('  beside = f32[8] constant({...})\n  on_its_way = (f32[8], f32[8], u32[], u32[]) collective-permute-start(beside), '
                 'channel_id=777, source_target_pairs={{0,1}}\n  arrived = f32[8] collective-permute-done(on_its_way)\n')
        text = tool("gshard-opt", "partition", "-", text=p.text) if p.devices > 1 else p.text
        scheduled = re.sub(r"^(HloModule [\w.\-]+)", r"\1, is_scheduled=true", text, count=1, flags=re.MULTILINE)
        texts = [p.text, scheduled] + ([entry.sub(lambda m: m[1] + start, scheduled, count=1)] if p.devices > 1 else [])
        for report in map(price, texts):
            parts = sum(report["breakdown"].values())
            if apart(parts, report["step_time_s"]) > EXACT:
                return f"{parts:.6g} s of parts in a step of {report['step_time_s']:.6g} s"
        return ""

    def propagated_before(self, p):
        return same(price(p.text), price(tool("gshard-opt", "propagate", "-", text=p.text)), within=LOOSE) if p.devices > 1 else None

    def scanned_or_unrolled(self, p):
        return same(price(p.text), price(p.unrolled), ("step", "peak"), {"step": SCAN_TIME, "peak": SCAN_PEAK}) if p.unrolled else None

    def sweep_of_its_mesh(self, p):
        if not p.mesh:
            return None
        points = json.loads(tool("gshard-cost", "sweep", "-", "--mesh", p.mesh, "--chip", "tpu-v5e", "--json", text=p.text))["points"]
        before = price(p.text)
        return "" if apart(points[0]["step_time_s"], before["step_time_s"]) < EXACT and points[0]["peak_bytes"] == before["memory"]["peak_bytes"] else "the sweep says otherwise"

    def no_difference_to_itself(self, p):
        with tempfile.NamedTemporaryFile("w", suffix=".hlo") as file:
            file.write(p.text)
            file.flush()
            diff = json.loads(tool("gshard-cost", "diff", file.name, file.name, "--json"))
        return "".join(key + " " for key in ("traffic", "collectives", "tensors", "opcodes")
                       if any(row.get("before") != row.get("after") for row in diff[key] if "before" in row))

    # better machines
    def more_flops(self, p):
        return self.faster(p, "tpu-v5e", "peak_flops")

    def more_bandwidth(self, p):
        return self.faster(p, "tpu-v5e", "hbm_bytes_per_s")

    def more_vector_flops(self, p):
        return self.faster(p, "tpu-v5e", "vector_flops")

    def more_flops_of_a_gpu(self, p):
        return self.faster(p, "h100", "peak_flops")

    def more_bandwidth_of_a_gpu(self, p):
        return self.faster(p, "h100", "hbm_bytes_per_s")

    def no_launches(self, p):
        return no_more(price(p.text, chip="h100"), self.changed(p.text, "h100", launch_s=0), ("step",))

    def faster_network(self, p):
        network = [{**level, "bytes_per_s": 2 * level["bytes_per_s"]} for level in self.base["tpu-v5e"]["network"]]
        return no_more(price(p.text), self.changed(p.text, network=network), ("step",))

    def less_latency(self, p):
        network = [{**level, "latency_s": level.get("latency_s", 1e-6) / 2} for level in self.base["tpu-v5e"]["network"]]
        return no_more(price(p.text), self.changed(p.text, network=network, collective_launch_s=0), ("step",))

    def more_memory(self, p):
        bigger = self.changed(p.text, hbm_bytes=2 * self.base["tpu-v5e"]["hbm_bytes"])
        return same(price(p.text), bigger) or ("" if bigger["fits"] >= price(p.text)["fits"] else "it fits no longer")

    def fast_memory_has_room(self, p):
        """What fast memory takes from the values alive at the peak, it has room for."""
        def alive(room):
            memory = self.changed(p.text, fast_memory_bytes=room)["memory"]
            return memory["peak_bytes"] - memory["fragmentation_bytes"]
        without = alive(1)
        for room in (without // 16, without // 4):
            if (taken := without - alive(room)) > room:
                return f"{taken} bytes of the peak are in a fast memory of {room}"
        return ""

    def work_is_the_programs(self, p):
        return same(price(p.text), price(p.text, chip="tpu-v5p"), ("flops", "sent"))

    # less work
    def optimized(self, p):
        # Combined all-reduces wait for the last gradient, and merged values live longer, as in XLA.
        return no_more(price(p.text), price(p.text, "--optimize"), slack=LOOSE)

    def overlap(self, p):
        modes = [price(p.text, "--overlap", mode) for mode in ("none", "xla", "perfect")]
        return no_more(modes[0], modes[1], ("step",)) or no_more(modes[1], modes[2], ("step",))

    def flash_attention(self, p):
        return no_more(price(p.text, "--attention", "materialized"), price(p.text))

    def tiling(self, p):
        peaks = [price(p.text, "--tiling", tiling)["memory"]["peak_bytes"] for tiling in ("none", "layout", "tpu")]
        return "" if peaks == sorted(peaks) else f"peaks of none, layout, tpu: {peaks}"

    def twice_the_layers(self, p):
        if not p.deeper:
            return None
        once, twice = figures(price(p.text)), figures(price(p.deeper))
        growth = twice["step"] / once["step"]
        return no_more(price(p.deeper), price(p.text)) or ("" if growth <= 2.02 else f"twice the layers take {growth:.3f} times as long")

    def twice_the_batch(self, p):
        return no_more(price(p.wider), price(p.text), ("step", "peak", "flops")) if p.wider else None

    def sums(self, p):
        report = price(p.text)
        wrong = [rows for rows in ("by_opcode", "by_source") if apart(sum(row["time_s"] for row in report[rows]), report["step_time_s"]) > EXACT]
        if sum(row["bytes"] for row in report["memory"]["at_peak"]) != report["memory"]["peak_bytes"]:
            wrong.append("at_peak")
        if report["memory"]["peak_bytes"] < report["memory"]["argument_bytes"] + report["memory"]["output_bytes"]:
            wrong.append("arguments and outputs are alive together")
        return ", ".join(wrong)

    def efficiency(self, p):
        report = price(p.text)
        return "" if report["mfu"] <= report["hfu"] * (1 + EXACT) <= 1 + EXACT else f"MFU {report['mfu']:.3f}, HFU {report['hfu']:.3f}"

    def advice_helps(self, p):
        report = json.loads(tool("gshard-cost", "-", "--json", "--advice", 3, "--chip", "tpu-v5e", text=p.text))
        worse = [one["what"] for one in report["advice"] if report["fits"] and
                 (one["step_time_s"] > report["step_time_s"] * 1.0001 or one["peak_bytes"] > report["memory"]["peak_bytes"])]
        return ", ".join(worse)


def main():
    only_program, only_relation = (sys.argv[2:] + ["", ""])[:2]
    with tempfile.TemporaryDirectory() as folder:
        relations = Relations(folder)
        names = [name for name, value in vars(Relations).items() if callable(value) and name not in ("__init__", "changed", "faster")]
        programs = cost_programs.all_programs(lambda *words, text=None: tool("gshard-opt", *words, text=text))

        def judge(case):
            program, name = case
            try:
                return getattr(relations, name)(program)
            except Exception as error:  # of this case, not of the check
                return f"{type(error).__name__}: {error}"

        cases = [(program, name) for program in programs for name in names
                 if only_program in program.name and only_relation in name]
        with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
            answers = list(pool.map(judge, cases))
    failed = [(program.name, name, answer) for (program, name), answer in zip(cases, answers) if answer]
    for row in failed:
        print("FAIL {}: {}: {}".format(*row))
    said = sum(answer is not None for answer in answers)
    print(f"{len(programs)} programs, {len(names)} relations: {said - len(failed)} hold, {len(failed)} do not")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
