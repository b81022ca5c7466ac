#!/usr/bin/env python3
"""A step on emulated devices by two builds of gshard-run, in turn, for the same per-device programs: a Markdown table.

  emulated_steps.py BEFORE AFTER FILE.hlo...         folders with gshard-opt and gshard-run
  emulated_steps.py --rounds 9 --threads 2 BEFORE AFTER FILE.hlo...

Each file is partitioned by both builds, and each of the two programs is run by both: so the speed of the emulator is told
apart from the program that the partitioner writes. Medians of `rounds` runs of `--repeat 3`; the last column is what a user
sees, each build with its own program.
"""
import argparse
import json
import math
import os
import statistics
import subprocess
import tempfile


def step_ms(folder, path, threads):
    words = [os.path.join(folder, "gshard-run"), path, "--threads", str(threads), "--repeat", "3", "--json"]
    report = subprocess.run(words, check=True, capture_output=True, text=True)
    return json.loads(report.stdout)["step_time_s"] * 1e3


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("before")
    parser.add_argument("after")
    parser.add_argument("files", nargs="+")
    parser.add_argument("--rounds", type=int, default=5, metavar="N")
    parser.add_argument("--threads", type=int, default=os.cpu_count())
    args = parser.parse_args()
    builds = (args.before, args.after)
    print("| ms | program of BEFORE | | | program of AFTER | | | own |\n|---|---|---|---|---|---|---|---|")
    ratios = ([], [], [])
    with tempfile.TemporaryDirectory() as work:
        for path in args.files:
            cells, medians = [], []
            for b, build in enumerate(builds):
                program = os.path.join(work, f"{b}.hlo")
                subprocess.run([os.path.join(build, "gshard-opt"), "partition", path, "-o", program], check=True,
                               stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
                rounds = [[step_ms(folder, program, args.threads) for folder in builds] for _ in range(args.rounds)]
                medians.append([statistics.median(column) for column in zip(*rounds)])
                ratios[b].append(medians[b][1] / medians[b][0])
                cells += [f"{medians[b][0]:.0f}", f"{medians[b][1]:.0f}", f"{ratios[b][-1]:.3f}"]
            ratios[2].append(medians[1][1] / medians[0][0])
            print(f"| {os.path.basename(path)} | {' | '.join(cells)} | {ratios[2][-1]:.3f} |", flush=True)
    means = [math.exp(statistics.mean(map(math.log, column))) for column in ratios]
    print(f"| geometric mean | | | {means[0]:.3f} | | | {means[1]:.3f} | {means[2]:.3f} |")


if __name__ == "__main__":
    main()
