"""What each core of a pipelined step computes and holds, counted by gshard-run: beside the plan and GPipe's bounds.

A network of equal layers (and an uneven one) is differentiated, cut into K stages and M micro-batches and run:

1. FLOPs of each core are the plan's: forward and backward of its layers for M micro-batches, and forward again as --remat
   says. In sum they are the unpipelined step's and the recompute; the busiest core has the imbalance of the plan.
2. Idle stages execute nothing: FLOPs do not depend on how many ticks are idle. The shifting buffer computes on padding; what
   it executes is useful work by the report's ratio.
3. Activations (what grows with the batch N) are O(N + L/K * N/M) a core with recomputation; without it 1F1B keeps at most K
   micro-batches of a stage, GPipe M.

usage: pipeline_work.py [--all]    a subset without it; needs the built programs on PATH, nothing else
"""
import itertools
import json
import os
import subprocess
import sys
import tempfile

import tally

LAYERS, WIDTH, BATCH = 16, 32, 512
SAMPLE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "samples", "gpipe", "step.hlo")
FLOP_TOLERANCE = 0.05


def network(widths, batch):
    """The loss of a chain of dense layers, as HLO text."""
    weights, layers = [], [f"  x = f32[{batch},{widths[0]}] parameter({len(widths)})",
                           f"  in = f32[{widths[0]},{widths[0]}] parameter({len(widths) - 1})",
                           f"  h0 = f32[{batch},{widths[0]}] dot(x, in), lhs_contracting_dims={{1}}, "
                           "rhs_contracting_dims={0}"]
    for i, (rows, columns) in enumerate(zip(widths, widths[1:])):
        about = f'metadata={{op_name="layer_{i}/dense"}}'
        weights.append(f"  w{i} = f32[{rows},{columns}] parameter({i})")
        layers.append(f"  d{i} = f32[{batch},{columns}] dot(h{i}, w{i}), lhs_contracting_dims={{1}}, "
                      f"rhs_contracting_dims={{0}}, {about}")
        layers.append(f"  h{i + 1} = f32[{batch},{columns}] tanh(d{i}), {about}")
    return "\n".join(["HloModule chain", "add {", "  a = f32[] parameter(0)", "  b = f32[] parameter(1)",
                      "  ROOT s = f32[] add(a, b)", "}", "ENTRY e {", *weights, *layers, "  zero = f32[] constant(0)",
                      f"  ROOT loss = f32[] reduce(h{len(widths) - 1}, zero), dimensions={{0,1}}, to_apply=add", "}\n"])


def tool(*command):
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        raise RuntimeError(f"{command[0]} {command[1]}: {done.stderr.strip()[:400]}")
    return done.stdout


class Bench:
    def __init__(self, work):
        self.work = work
        self.steps = {}
        self.runs = {}

    def step(self, widths, batch):
        """The path of the differentiated step, and its FLOPs on one device."""
        key = (tuple(widths), batch)
        if key not in self.steps:
            path = os.path.join(self.work, f"step{len(self.steps)}.hlo")
            with open(path + ".loss", "w") as file:
                file.write(network(widths, batch))
            weights = ",".join(f"p{i}" for i in range(len(widths)))
            tool("gshard-opt", "grad", path + ".loss", "--wrt", weights, "-o", path)
            self.steps[key] = path, json.loads(tool("gshard-run", path, "--json"))["flops"]
        return self.steps[key]

    def run(self, widths, batch, stages, microbatches, schedule, remat, repeats=0):
        """The plan, and by stage FLOPs and peak bytes."""
        key = (tuple(widths), batch, stages, microbatches, schedule, remat, repeats)
        if key not in self.runs:
            path, _ = self.step(widths, batch)
            self.runs[key] = self.measure(path, stages, microbatches, schedule, remat, repeats, "--cut", "layer_[0-9]+")
        return self.runs[key]

    def measure(self, path, stages, microbatches, schedule, remat, repeats, *flags):
        out = os.path.join(self.work, "pipelined")
        more = ("--repeats", str(repeats)) if repeats else ()
        tool("gshard-opt", "pipeline", path, "--stages", str(stages), "--microbatches", str(microbatches),
             "--schedule", schedule, "--remat", remat, *flags, *more, "--report", out + ".json", "-o", out)
        tool("gshard-opt", "partition", out, "-o", out + ".device")
        run = json.loads(tool("gshard-run", out + ".device", "--json"))
        cores = [group for group in run["per_device"]["groups"] for _ in range(group["count"])]
        with open(out + ".json") as file:
            plan = json.load(file)
        return plan, [c["flops"] for c in cores], [c["peak_bytes"] for c in cores]

    def activations(self, widths, batch, *case):
        """Most bytes of a core that grow with the batch: of two batches twice the difference."""
        whole, half = (self.run(widths, n, *case)[2] for n in (batch, batch // 2))
        return max(2 * (a - b) for a, b in zip(whole, half))


def planned_flops(plan):
    """By core: the passes of its layers, of all micro-batches."""
    cores = [0] * plan["stages"]
    last = plan["stage"][-1]
    for stage in plan["stage"]:
        # The last stage's forward pass is part of its backward pass.
        passes = ["recompute", "backward", "weights"] + (["forward"] if stage is not last or plan["remat"] == "none" else [])
        cores[stage["device"]] += plan["microbatches"] * sum(stage[f"{name}_pass_flops"] for name in passes)
    return cores


def check_work(results, bench, name, widths, case):
    stages, microbatches, schedule, remat = case
    _, unpipelined = bench.step(widths, BATCH)
    plan, flops, peaks = bench.run(widths, BATCH, *case)
    planned = planned_flops(plan)
    off = max(abs(a / b - 1) for a, b in zip(flops, planned))
    recompute = sum(planned) - unpipelined
    off_sum = abs(sum(flops) / (unpipelined + recompute) - 1)
    imbalance = max(flops) * stages / sum(flops)
    planned_imbalance = max(planned) * stages / sum(planned)
    print(f"  {name:8} K={stages} M={microbatches:<2} {schedule:11} remat {remat:5} MFLOP a core "
          f"{min(flops) / 1e6:7.2f}..{max(flops) / 1e6:7.2f}  whole/K {unpipelined / stages / 1e6:7.2f}  recompute/K "
          f"{recompute / stages / 1e6:6.2f}  off the plan {off:5.1%}  imbalance {imbalance:.3f} ({planned_imbalance:.3f})  "
          f"peak {max(peaks) / 1024:.0f} KiB")
    fault = ""
    if max(off, off_sum) > FLOP_TOLERANCE:
        fault = f"FLOPs a core differ by {off:.1%} from the plan, in sum by {off_sum:.1%}"
    elif abs(imbalance / planned_imbalance - 1) > FLOP_TOLERANCE:
        fault = f"imbalance {imbalance:.3f}, planned {planned_imbalance:.3f}"
    results.check(f"work {name} K={stages} M={microbatches} {schedule} {remat}", fault)


def check_idle(results, bench, schedule, stages):
    """Most ticks are idle with one micro-batch, few with many: the work is the same."""
    few, many = (sum(bench.run([WIDTH] * (LAYERS + 1), BATCH, stages, m, schedule, "none")[1]) for m in (1, 16))
    off = abs(few / many - 1)
    print(f"  {schedule}: {few / 1e6:.2f} MFLOP with M=1, {many / 1e6:.2f} with M=16")
    results.check(f"idle stages of {schedule}", "" if off < 0.02 else f"FLOPs differ by {off:.1%}")


def check_padding(results, bench, stages, microbatches, repeats):
    plan, flops, _ = bench.measure(SAMPLE, stages, microbatches, "shift", "stage", repeats)
    off = abs(sum(flops) / plan["executed_flops"] - 1)
    print(f"  shift K={stages} M={microbatches} R={repeats}: executed {sum(flops) / 1e6:.2f} MFLOP "
          f"({plan['executed_flops'] / 1e6:.2f} planned), useful {plan['useful_flops'] / 1e6:.2f}: "
          f"{plan['useful_flops'] / sum(flops):.1%} of it")
    results.check(f"padding of shift K={stages} M={microbatches} R={repeats}",
                  "" if off <= FLOP_TOLERANCE else f"executed FLOPs differ by {off:.1%} from the report")


def check_memory(results, bench, stages, counts, schedule):
    """Activations of a core over N + L/K * N/M rows: the same number of bytes for all K and M, within a factor."""
    row = 4 * WIDTH
    factors = []
    for k, m in itertools.product(stages, counts):
        bytes_of = bench.activations([WIDTH] * (LAYERS + 1), BATCH, k, m, schedule, "stage")
        bound = row * (BATCH + LAYERS / k * BATCH / m)
        factors.append(bytes_of / bound)
        print(f"  {schedule} remat stage K={k} M={m:<2} activations {bytes_of / 1024:7.0f} KiB, {factors[-1]:.2f} of "
              f"(N + L/K N/M) rows")
    fault = "" if max(factors) < 5 else f"{max(factors):.2f} times (N + L/K N/M) rows"
    results.check(f"activations of {schedule} with recomputation", fault)


def check_in_flight(results, bench, stages):
    """Without recomputation: 1F1B keeps K micro-batches of a stage, so it falls with M; GPipe M, so it does not."""
    widths = [WIDTH] * (LAYERS + 1)
    held = {}
    for schedule, m in itertools.product(("gpipe", "1f1b"), (8, 32)):
        held[schedule, m] = bench.activations(widths, BATCH, stages, m, schedule, "none") / (4 * WIDTH * BATCH / m)
        print(f"  {schedule} remat none K={stages} M={m:<2} activations of {held[schedule, m]:.1f} rows a micro-batch's example")
    # A layer keeps at least its result. The examples, one row, are there from the beginning.
    more = {s: (held[s, 32] - held[s, 8]) / 24 for s in ("gpipe", "1f1b")}
    ok = more["gpipe"] > 1 + LAYERS / stages and more["1f1b"] < 1.1
    results.check(f"micro-batches in flight, K={stages}", "" if ok else f"rows kept for one micro-batch more: {more}")


def main():
    everything = "--all" in sys.argv[1:]
    results = tally.Tally()
    with tempfile.TemporaryDirectory() as work:
        bench = Bench(work)
        equal = [WIDTH] * (LAYERS + 1)
        uneven = [WIDTH * (1 + i % 3) for i in range(LAYERS + 1)]
        schedules = ("gpipe", "1f1b", "interleaved", "zero-bubble")
        if everything:
            cases = [(name, widths, case) for name, widths in (("equal", equal), ("uneven", uneven))
                     for case in itertools.product((2, 4, 8), (8, 32), schedules, ("none", "stage", "all"))
                     if case[0] < 8 or case[2] != "interleaved"]
        else:
            cases = [("equal", equal, (4, 8, schedule, remat))
                     for schedule, remat in zip(schedules, ("none", "stage", "none", "stage"))]
            cases += [("uneven", uneven, (4, 8, "1f1b", "none")), ("uneven", uneven, (4, 8, "1f1b", "all")),
                      ("equal", equal, (4, 8, "gpipe", "stage")), ("equal", equal, (8, 8, "zero-bubble", "all"))]
        for name, widths, case in cases:
            check_work(results, bench, name, widths, case)
        for schedule in schedules if everything else ("1f1b",):
            check_idle(results, bench, schedule, 4)
        for k, m, r in ((4, 8, 1), (4, 8, 2), (2, 16, 4)) if everything else ((4, 8, 2),):
            check_padding(results, bench, k, m, r)
        for schedule in ("gpipe", "1f1b") if everything else ("gpipe",):
            check_memory(results, bench, (2, 4, 8) if everything else (2, 4), (4, 8, 16, 32) if everything else (4, 16), schedule)
        check_in_flight(results, bench, 4)
    return results.finish()


if __name__ == "__main__":
    sys.exit(main())
