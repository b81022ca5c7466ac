"""Training steps as JAX's users write them: optimised, and pipelined.

  - the partitioned program that `gshard-opt optimize` has rewritten verifies against the step, with everything in between
  - `gshard-opt pipeline` takes each step in four schedules; the partitioned program of each verifies against the step
  - gshard-cost's peak of it is the largest `memory_bytes` of a stage in the pipeliner's report

gshard-opt, gshard-cost and gshard-run are taken from PATH.
"""
import json
import os
import subprocess
import sys
import tempfile

from tally import Tally
from user_steps import STEPS

CASES = [("gpipe", 2, 2), ("1f1b", 2, 4), ("zero-bubble", 2, 2), ("interleaved", 2, 4)]


def failure(*commands):
    """What the first command said that failed; empty if none did."""
    for words in commands:
        done = subprocess.run(words, capture_output=True, text=True)
        if done.returncode != 0:
            return (done.stderr + done.stdout).strip()[-400:] or f"exit code {done.returncode}"
    return ""


def check(path, schedule, stages, microbatches, work):
    names = ("pipelined.hlo", "device.hlo", "report.json", "cost.json")
    pipelined, device, report, cost = (os.path.join(work, name) for name in names)
    failed = failure(["gshard-opt", "pipeline", path, "--stages", str(stages), "--microbatches", str(microbatches),
                      "--schedule", schedule, "--report", report, "-o", pipelined],
                     ["gshard-opt", "partition", pipelined, "-o", device],
                     ["gshard-run", device, "--reference", path, "--verify"],
                     ["gshard-cost", device, "--json", "-o", cost])
    if failed:
        return failed
    peak = json.load(open(cost))["memory"]["peak_bytes"]
    most = max(stage["memory_bytes"] for stage in json.load(open(report))["stage"])
    return "" if peak == most else f"gshard-cost has a peak of {peak} bytes, the report {most}"


def check_optimized(path, work):
    device, optimized = (os.path.join(work, name) for name in ("device.hlo", "optimized.hlo"))
    return failure(["gshard-opt", "partition", path, "-o", device], ["gshard-opt", "optimize", device, "-o", optimized],
                   ["gshard-run", optimized, "--reference", path, "--verify"])


def main():
    tally = Tally()
    with tempfile.TemporaryDirectory() as work:
        for name, make in STEPS.items():
            path = os.path.join(work, name + ".mlir")
            with open(path, "w") as out:
                out.write(make())
            tally.check(f"{name}, optimized", check_optimized(path, work))
            for schedule, stages, microbatches in CASES:
                tally.check(f"{name}, {schedule}, {stages} x {microbatches}", check(path, schedule, stages, microbatches, work))
    tally.finish()


if __name__ == "__main__":
    sys.exit(main())
