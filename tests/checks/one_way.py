"""Compares, on samples and corpus, the texts that gshard-opt partition and gshard-run --print-after=partition print."""
import json
import os
import re
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "differential"))
import samples  # noqa: E402
import tally  # noqa: E402


def output(*command):
    return subprocess.run(command, capture_output=True, text=True)


def first_difference(a, b):
    for x, y in zip(a.splitlines(), b.splitlines()):
        if x != y:
            return f"{x[:300]}\n  {y[:300]}"
    return "one text is longer"


def check_file(results, name, path):
    partition = output("gshard-opt", "partition", path)
    if partition.returncode != 0:
        return results.check(name, f"gshard-opt partition: {partition.stderr[:500]}")
    # A byte is too little to run in: the program is made and printed, the run refused.
    run = output("gshard-run", path, "--verify", "--print-after=partition", "--memory-limit", "1B")
    if not run.stderr.startswith(partition.stdout):
        return results.check(name, first_difference(partition.stdout, run.stderr))
    devices = re.search(r'gshard.num_partitions="(\d+)"', partition.stdout)
    cost = output("gshard-cost", path, "--json")
    counted = json.loads(cost.stdout).get("devices") if cost.returncode == 0 else cost.stderr[:500]
    problem = "" if devices and counted == int(devices[1]) else f"gshard-cost counts {counted}"
    return results.check(name, problem)


def main():
    results = tally.Tally()
    samples.check_each(results, check_file, os.environ.get("GSHARD_CORPUS", ""))
    return results.finish()


if __name__ == "__main__":
    sys.exit(main())
