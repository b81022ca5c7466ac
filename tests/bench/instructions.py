#!/usr/bin/env python3
"""Instructions that two builds of the programs execute for the same commands: print, propagate, partition, cost.

  instructions.py BEFORE AFTER FILE.hlo...              folders with gshard-opt and gshard-cost; a Markdown table
  instructions.py --at-most 1.03 BEFORE AFTER FILE.hlo...
      fails if the geometric mean of print, propagate or partition over the files is more than that; of cost it is told
  instructions.py --rounds 15 BEFORE AFTER FILE.hlo...  processor time instead, medians of runs in turn

`valgrind --tool=callgrind` counts: figures do not depend on the machine's load, and a start is in them. Processor time is
user's and system's together: of processes of a few milliseconds the kernel only guesses which is which.
"""
import argparse
import math
import os
import re
import resource
import statistics
import subprocess
import sys
import tempfile

COMMANDS = ("print", "propagate", "partition", "cost")


def command_line(folder, command, path):
    if command == "cost":
        return [os.path.join(folder, "gshard-cost"), path]
    return [os.path.join(folder, "gshard-opt"), command, path]


def instructions(words):
    with tempfile.TemporaryDirectory() as work:
        out = os.path.join(work, "callgrind.out")
        done = subprocess.run(["valgrind", "--tool=callgrind", f"--callgrind-out-file={out}", *words], check=True,
                              stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, errors="replace")
    return int(re.search(r"Collected : (\d+)", done.stderr).group(1))


def processor_ms(words):
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(words, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return (after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime) * 1e3


def measure(before, after, command, path, rounds):
    words = [command_line(folder, command, path) for folder in (before, after)]
    if rounds == 0:
        return [instructions(line) / 1e6 for line in words]
    times = [[processor_ms(line) for line in words] for _ in range(rounds)]
    return [statistics.median(column) for column in zip(*times)]


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("before")
    parser.add_argument("after")
    parser.add_argument("files", nargs="+")
    parser.add_argument("--rounds", type=int, default=0, metavar="N")
    parser.add_argument("--at-most", type=float, metavar="RATIO")
    options = parser.parse_args()
    unit = "ms" if options.rounds else "million instructions"
    print(f"| {unit} | " + " | ".join(f"{command}: before | after | " for command in COMMANDS) + "|")
    print("|---" * (1 + 3 * len(COMMANDS)) + "|")
    ratios = {command: [] for command in COMMANDS}
    for path in options.files:
        cells = [os.path.splitext(os.path.basename(path))[0]]
        for command in COMMANDS:
            before, after = measure(options.before, options.after, command, path, options.rounds)
            ratios[command].append(after / before)
            cells += [f"{before:.1f}", f"{after:.1f}", f"{after / before:.3f}"]
        print("| " + " | ".join(cells) + " |", flush=True)
    means = {command: math.exp(statistics.mean(map(math.log, found))) for command, found in ratios.items()}
    print("| geometric mean | " + " | ".join(f"| | {mean:.3f}" for mean in means.values()) + " |")
    if options.at_most and any(means[command] > options.at_most for command in COMMANDS if command != "cost"):
        sys.exit(1)


if __name__ == "__main__":
    main()
