#!/usr/bin/env python3
"""The six workloads at 2048 devices over several processes: time, memory and bits against one process.

  PATH=build/release/cmd:$PATH tests/bench/ranks.py time|shared|memory|bits|xla [WORKLOAD...]

  time    2 ranks of one thread against 1 rank of two, in turn; medians of the steps of all rounds; at most 1.25.
          Besides, processor seconds a step, which other load on the machine changes less
  shared  2 ranks of one thread with and without memory that they share, in turn
  memory  of each rank of 1, 2, 4 and 8: the first two give the distributed part D and the replicated part P, the
          others must take at most 1.15 D / R + P
  bits    --output of ranks in {2,3,4,5,7,8} with 1 and 2 threads: byte for byte gshard-run's
  xla     MLP and Megatron: XLA over 2 processes of one device (jax.distributed, CPU collectives, by `distributed.py`)
          against 2 ranks of one thread with one device each; and 2 x 1024 devices, which XLA cannot do.
          Besides, processor seconds of both, and what the same arithmetic takes as one large product of OpenBLAS's:
          nobody can be faster than that on these cores

Needs jax (tests/differential/requirements.txt) to write the programs. Exit code 0: every line passed.
"""
import argparse
import filecmp
import json
import os
import resource
import socket
import statistics
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
SIX = ["mlp", "megatron", "transformer", "moe", "spatial", "pipeline"]
MIB = 1 << 20
# Operations a second of one core in a large product, by its own clock: that of others does not count.
PRODUCT = """
import time, numpy
n, times = 1536, []
a = numpy.ones((n, n), numpy.float32)
for _ in range(8):
    begin = time.process_time()
    a @ a
    times.append(time.process_time() - begin)
print(2 * n**3 / min(times))
"""


def mpirun(ranks):
    command = ["mpirun"]
    if "Open MPI" in subprocess.run(["mpirun", "--version"], capture_output=True, text=True).stdout:
        command += ["--bind-to", "none", "--oversubscribe"] + (["--allow-run-as-root"] if os.getuid() == 0 else [])
    return command + ["-n", str(ranks), "gshard-run-mpi"]


class Bench:
    def __init__(self, options, folder):
        self.options, self.folder, self.failed = options, folder, 0

    def text(self, name, devices=2048):
        path = os.path.join(self.options.texts or self.folder, f"{name}.{devices}.hlo")
        if not os.path.exists(path):
            subprocess.run([sys.executable, os.path.join(HERE, "workloads.py"), "text", name, "--devices", str(devices),
                            "-o", path], check=True, stderr=subprocess.DEVNULL)
        return path

    def run(self, command, *flags):
        """The report of a run, or an exception."""
        process = subprocess.run([*command, *flags, "--json"], stdin=subprocess.DEVNULL, capture_output=True, text=True,
                                 timeout=self.options.timeout)
        if process.returncode != 0:
            raise RuntimeError(f"{' '.join(command)}: exit {process.returncode}: {process.stderr[-400:]}")
        return json.loads(process.stdout)

    def processor_seconds(self, command, *flags):
        """Of a step, all processes together: steps are added, the start is not counted."""
        seconds = []
        for steps in (1, 1 + self.options.steps):
            before = resource.getrusage(resource.RUSAGE_CHILDREN)
            self.run(command, *flags, "--repeat", str(steps))
            after = resource.getrusage(resource.RUSAGE_CHILDREN)
            seconds.append(after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)
        return (seconds[1] - seconds[0]) / self.options.steps

    def verdict(self, passed, text):
        self.failed += not passed
        print(f"{'PASS' if passed else 'FAIL'}  {text}", flush=True)

    def time(self, name):
        text, sides = self.text(name), {"1 x 2": [], "2 x 1": []}
        for _ in range(self.options.rounds):
            for side, command, threads in (("1 x 2", ["gshard-run"], "2"), ("2 x 1", mpirun(2), "1")):
                report = self.run([*command, text], "--threads", threads, "--repeat", str(self.options.steps + 1))
                sides[side] += report["step_times_s"][1:]
        one, two = (statistics.median(times) for times in sides.values())
        self.verdict(two <= 1.25 * one, f"{name}: 2 ranks x 1 thread {two * 1e3:.0f} ms, 1 x 2 {one * 1e3:.0f} ms, "
                                        f"ratio {two / one:.2f}")
        one, two = (self.processor_seconds([*command, text], "--threads", threads)
                    for command, threads in ((["gshard-run"], "2"), (mpirun(2), "1")))
        print(f"      {name}: processor seconds a step: {two:.2f} and {one:.2f}, ratio {two / one:.2f}", flush=True)

    def shared(self, name):
        text, sides = self.text(name), {"1GiB": [], "0B": []}
        for _ in range(self.options.rounds):
            for side, times in sides.items():
                report = self.run([*mpirun(2), text], "--threads", "1", "--shared-memory", side, "--repeat",
                                  str(self.options.steps + 1))
                times += report["step_times_s"][1:]
        shared, messages = (statistics.median(times) for times in sides.values())
        print(f"      {name}: in shared memory {shared * 1e3:.0f} ms, in messages {messages * 1e3:.0f} ms, ratio "
              f"{shared / messages:.2f}", flush=True)
        shared, messages = (self.processor_seconds([*mpirun(2), text], "--threads", "1", "--shared-memory", side)
                            for side in sides)
        print(f"      {name}: processor seconds a step: {shared:.2f} and {messages:.2f}", flush=True)

    def memory(self, name):
        text = self.text(name)
        one = self.run(["gshard-run", text], "--threads", "1")["peak_memory_bytes"]
        ranks = {n: max(rank["memory_bytes"] for rank in self.run([*mpirun(n), text], "--threads", "1")["ranks"])
                 for n in (2, 4, 8)}
        # One process has both parts once, each of two ranks half of the distributed one and all of the replicated one.
        replicated = 2 * ranks[2] - one
        print(f"      {name}: {one / MIB:.0f} MiB in one process, {ranks[2] / MIB:.0f} MiB on each of 2 ranks: "
              f"{(one - replicated) / MIB:.0f} MiB are distributed, {replicated / MIB:.0f} MiB replicated", flush=True)
        for n in (4, 8):
            bound = 1.15 * (one - replicated) / n + replicated
            self.verdict(ranks[n] <= bound, f"{name}: {n} ranks: {ranks[n] / MIB:.0f} MiB each, at most {bound / MIB:.0f}")

    def bits(self, name):
        text, expected = self.text(name), os.path.join(self.folder, "expected.npz")
        got = os.path.join(self.folder, "got.npz")
        self.run(["gshard-run", text], "--threads", "2", "--output", expected)
        for ranks in self.options.ranks:
            for threads in (1, 2):
                self.run([*mpirun(ranks), text], "--threads", str(threads), "--output", got)
                self.verdict(filecmp.cmp(expected, got, shallow=False), f"{name}: {ranks} ranks x {threads}")
                os.remove(got)

    def xla(self, name):
        with socket.socket() as free:
            free.bind(("localhost", 0))
            port = free.getsockname()[1]
        workers = [subprocess.Popen([sys.executable, os.path.join(HERE, "distributed.py"), name, str(rank), "2", str(port),
                                     str(self.options.steps)], stdout=subprocess.PIPE, text=True,
                                    stderr=subprocess.DEVNULL) for rank in range(2)]
        outputs = [worker.communicate(timeout=self.options.timeout)[0] for worker in workers]
        if any(worker.returncode != 0 for worker in workers):
            raise RuntimeError(f"distributed.py {name}: exit {[worker.returncode for worker in workers]}")
        reports = [json.loads(output.splitlines()[-1]) for output in outputs]
        theirs = statistics.median(reports[0]["times_s"])
        report = self.run([*mpirun(2), self.text(name, 2)], "--threads", "1", "--repeat", str(self.options.steps + 1))
        ours = statistics.median(report["step_times_s"][1:])
        self.verdict(theirs >= 5 * ours, f"{name}: XLA 2 x 1 device {theirs * 1e3:.0f} ms, gshard {ours * 1e3:.0f} ms, "
                                         f"{theirs / ours:.1f} times")
        their_cpu = sum(statistics.median(report["processor_s"]) for report in reports)
        our_cpu = self.processor_seconds([*mpirun(2), self.text(name, 2)], "--threads", "1")
        rate = float(subprocess.run([sys.executable, "-c", PRODUCT], check=True, capture_output=True, text=True,
                                    env={**os.environ, "OPENBLAS_NUM_THREADS": "1"}).stdout)
        least = report["flops"] / rate
        print(f"      {name}: processor seconds a step: XLA {their_cpu:.2f}, gshard {our_cpu:.2f}, "
              f"{their_cpu / our_cpu:.1f} times; {report['flops'] / 1e9:.0f} GFLOP at the {rate / 1e9:.0f} GFLOP/s of a "
              f"large product {least:.2f}, so at most {their_cpu / least:.1f} times is possible", flush=True)
        many = self.run([*mpirun(2), self.text(name)], "--threads", "1", "--repeat", "2")
        print(f"      {name}: 2 x 1024 devices: {many['step_times_s'][-1] * 1e3:.0f} ms", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["time", "shared", "memory", "bits", "xla"])
    parser.add_argument("workloads", nargs="*", metavar="WORKLOAD")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--steps", type=int, default=2, help="steps a process, after one to warm up")
    parser.add_argument("--ranks", type=int, nargs="*", default=[2, 3, 4, 5, 7, 8])
    parser.add_argument("--texts", help="folder of programs that are there already, NAME.2048.hlo")
    parser.add_argument("--timeout", type=float, default=600)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        bench = Bench(options, folder)
        for name in options.workloads or (["mlp", "megatron"] if options.what == "xla" else SIX):
            getattr(bench, options.what)(name)
    print("every line passed" if bench.failed == 0 else f"{bench.failed} lines failed")
    return bench.failed != 0


if __name__ == "__main__":
    sys.exit(main())
