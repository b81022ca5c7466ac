#!/usr/bin/env python3
"""gshard-run against XLA's CPU backend and its emulated devices: called by vs_xla.sh, which see.

Both sides run in turn, each step in a process that has warmed up; figures are medians of all steps of all rounds. Memory
is the peak resident set: of gshard-run the whole process, of XLA what it adds to a Python that has loaded JAX.
"""
import argparse
import json
import os
import signal
import statistics
import subprocess
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))
MESH = 2048
UNPARTITIONED, TOTAL = 1, MESH
SIX = ["mlp", "megatron", "transformer", "moe", "spatial", "pipeline"]
# Device counts at which XLA's emulation is tried, most first: it does not finish all of them.
XLA_DEVICES = {"moe": [512, 256]}
DEFAULT_XLA_DEVICES = [2048, 256]
MIB = 1 << 20


def processor():
    """Its name and the vector instruction sets it has."""
    lines = dict(line.split(":", 1) for line in open("/proc/cpuinfo") if ":" in line)
    fields = {key.strip(): value.strip() for key, value in lines.items()}
    sets = [name for name in ("sse4_2", "avx", "fma", "avx2", "avx512f", "avx512_vnni", "avx512_bf16", "amx_tile")
            if name in fields.get("flags", "").split()]
    return f"{fields.get('model name', 'unknown processor')} ({', '.join(sets)})"


class Samples:
    """Seconds of every step, and the peak memory of the processes."""

    def __init__(self):
        self.times, self.memory, self.report, self.failure = [], 0, {}, None

    @property
    def time(self):
        return statistics.median(self.times) if self.times else None

    def __bool__(self):
        return bool(self.times)


def execute(command, timeout, environment=None):
    """(exit code or None after the time-out, stdout, stderr, peak resident bytes)."""
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
        process = subprocess.Popen(command, stdout=out, stderr=err, env=environment, process_group=0)
        deadline = time.monotonic() + timeout
        code, usage = None, None
        while time.monotonic() < deadline:
            pid, status, usage = os.wait4(process.pid, os.WNOHANG)
            if pid != 0:
                code = process.returncode = os.waitstatus_to_exitcode(status)
                break
            time.sleep(0.02)
        if code is None:
            os.killpg(process.pid, signal.SIGKILL)
            _, _, usage = os.wait4(process.pid, 0)
            process.returncode = -signal.SIGKILL
        out.seek(0), err.seek(0)
        return code, out.read().decode(errors="replace"), err.read().decode(errors="replace"), usage.ru_maxrss * 1024


def dot_bench(programs):
    """The benchmark of dots, beside the folder of gshard-run."""
    return os.path.join(programs, "..", "tests", "dot_bench")


class Bench:
    def __init__(self, options, work):
        self.options, self.work = options, work
        self.samples = {}
        self.verdicts = []

    def text(self, name, devices):
        path = os.path.join(self.work, f"{name}.{devices}.hlo")
        if not os.path.exists(path):
            subprocess.run([sys.executable, os.path.join(HERE, "workloads.py"), "text", name, "--devices", str(devices),
                            "-o", path], check=True, stderr=subprocess.DEVNULL)
        return path

    def of(self, side, name, devices):
        return self.samples.setdefault((side, name, devices), Samples())

    def gshard(self, name, devices, steps):
        samples = self.of("gshard", name, devices)
        code, out, err, peak = execute([os.path.join(self.options.bin, "gshard-run"), self.text(name, devices), "--json",
                                        "--repeat", str(steps + 1)], self.options.timeout)
        if code != 0:
            samples.failure = "timeout" if code is None else f"exit {code}: {err.strip()[:200]}"
            return
        samples.report = json.loads(out)
        samples.times += samples.report["step_times_s"][1:]
        samples.memory = max(samples.memory, peak)

    def xla(self, name, devices, steps):
        samples = self.of("xla", name, devices)
        code, out, _, _ = execute([sys.executable, os.path.join(HERE, "workloads.py"), "run", name, "--devices",
                                   str(devices), "--steps", str(steps)], self.options.timeout)
        lines = [line for line in out.splitlines() if line.startswith("{")]
        if lines:
            samples.report = json.loads(lines[-1])
            times = samples.report["times_s"]
            samples.times += times[1:] or times
            samples.memory = max(samples.memory, samples.report["peak_bytes"])
        if code != 0:
            samples.failure = "timeout" if code is None else f"aborts ({code})"

    def verdict(self, passed, text):
        self.verdicts.append(passed)
        print(f"{'PASS' if passed else 'FAIL'}  {text}", flush=True)

    # ------------------------------------------------------------ measuring
    def measure(self, names):
        for round_number in range(self.options.rounds):
            for name in names:
                self.xla(name, UNPARTITIONED, self.options.steps)
                self.gshard(name, UNPARTITIONED, self.options.steps)
                self.gshard(name, TOTAL, self.options.steps)
                self.note(f"round {round_number + 1} of {self.options.rounds}: {name}")
        for name in names if not self.options.skip_emulation else []:
            for devices in XLA_DEVICES.get(name, DEFAULT_XLA_DEVICES):
                self.note(f"XLA's emulation of {devices} devices: {name}")
                self.xla(name, devices, 1)
                if devices != TOTAL:
                    self.gshard(name, devices, self.options.steps)
                if self.of("xla", name, devices):
                    break
        if "moe" in names:
            for devices in (512, 1024):
                if not self.of("gshard", "moe", devices):
                    self.gshard("moe", devices, 1)

    def note(self, text):
        print(text, file=sys.stderr, flush=True)

    # ------------------------------------------------------------ reporting
    def table(self, names):
        print("| workload | devices | XLA | gshard | | XLA memory | gshard memory |\n|---|---|---|---|---|---|---|")
        for side, name, devices in sorted(self.samples, key=lambda key: (SIX.index(key[1]), key[2])):
            if side != "gshard":
                continue
            ours, theirs = self.of("gshard", name, devices), self.samples.get(("xla", name, devices), Samples())
            seconds = lambda s: f"{s.time:.3f} s" if s else s.failure or "-"
            memory = lambda s: f"{s.memory / MIB:.0f} MiB" if s else "-"
            ratio = f"{theirs.time / ours.time:.1f}x" if theirs and ours else ""
            print(f"| {name} | {devices} | {seconds(theirs)} | {seconds(ours)} | {ratio} | {memory(theirs)} | {memory(ours)} |")
        print(flush=True)

    def against_emulation(self, name):
        """10 times faster than XLA's emulation in half its memory."""
        if name == "mlp":
            ours, single = self.of("gshard", name, TOTAL), self.of("xla", name, UNPARTITIONED)
            self.verdict(bool(ours) and ours.time <= 1.5 * single.time,
                         f"mlp: {TOTAL} devices take {ours.time / single.time:.2f} of XLA's one device (at most 1.5)")
        counts = XLA_DEVICES.get(name, DEFAULT_XLA_DEVICES)
        tried = [devices for devices in counts if self.of("xla", name, devices)]
        for devices in counts:
            if self.of("xla", name, devices).failure:
                print(f"note  {name}: XLA at {devices} devices: {self.of('xla', name, devices).failure}")
        if not tried:
            return
        devices = tried[0]
        ours, theirs = self.of("gshard", name, devices), self.of("xla", name, devices)
        speed, share = theirs.time / ours.time, ours.memory / theirs.memory
        if devices != TOTAL:
            print(f"note  {name}: {devices} devices {speed:.1f} times faster than XLA's emulation of as many, in {share:.2f} "
                  f"of its memory; {TOTAL} is what counts, and XLA does not finish that")
            return
        if name != "mlp":
            self.verdict(speed >= 10, f"{name}: {devices} devices {speed:.1f} times faster than XLA's emulation (at least 10)")
        self.verdict(share <= 0.5, f"{name}: {devices} devices in {share:.2f} of its memory (at most 0.5)")

    def against_unpartitioned(self, name, bandwidth):
        """1.1 or 1.5 times the unpartitioned step, in 1.5 times its memory; and what partial sums cost."""
        whole, mesh = self.of("gshard", name, UNPARTITIONED), self.of("gshard", name, TOTAL)
        ratio, memory = mesh.time / whole.time, mesh.memory / whole.memory
        traffic = 2 * mesh.report["partial_sum_bytes"]
        bound = whole.time + traffic / bandwidth
        detail = (f"; partial sums: {traffic / 1e9:.2f} GB written and read at {bandwidth / 1e9:.1f} GB/s are "
                  f"{traffic / bandwidth:.3f} s, so with the unpartitioned step {bound:.3f} s: the run is at {mesh.time / bound:.2f} of that")
        limit = 1.5 if name == "transformer" else 1.1
        self.verdict(ratio <= limit, f"{name}: {TOTAL} devices {mesh.time:.3f} s, unpartitioned {whole.time:.3f} s: "
                                     f"{ratio:.2f} (at most {limit}){detail}")
        self.verdict(memory <= 1.5, f"{name}: its memory {mesh.memory / MIB:.0f} MiB, unpartitioned "
                                    f"{whole.memory / MIB:.0f} MiB: {memory:.2f} (at most 1.5)")

    def against_one_device(self, name):
        ours, theirs = self.of("gshard", name, UNPARTITIONED), self.of("xla", name, UNPARTITIONED)
        ratio = ours.time / theirs.time
        self.verdict(ratio <= 1.2, f"{name}: unpartitioned {ratio:.2f} of XLA's time (at most 1.2)")

    def planning(self):
        path = os.path.join(self.work, "deep.device.hlo")
        subprocess.run([os.path.join(self.options.bin, "gshard-opt"), "partition", self.text("deep", TOTAL), "-o", path],
                       check=True, stderr=subprocess.DEVNULL)
        instructions = sum(" = " in line for line in open(path))
        times = []
        for _ in range(3):
            code, out, err, _ = execute([os.path.join(self.options.bin, "gshard-run"), path, "--json"], self.options.timeout)
            if code != 0:
                self.verdict(False, f"planning: {err.strip()[:200]}")
                return
            times.append(json.loads(out)["plan_time_s"])
        seconds = statistics.median(times)
        self.verdict(instructions >= 5000 and seconds < 1,
                     f"planning {instructions} instructions for {TOTAL} devices takes {seconds:.3f} s (under 1)")

    def dots(self):
        """Large dots against plain OpenBLAS, and the memory bandwidth of both cores together."""
        code, out, err, _ = execute([dot_bench(self.options.bin)], self.options.timeout)
        if code != 0:
            sys.exit(f"vs_xla: dot_bench failed: {err}")
        return json.loads(out)

    def run(self):
        names = self.options.workloads or SIX
        dots = self.dots()
        self.measure(names)
        print(f"{processor()}; OpenBLAS's kernel: {dots['openblas_kernel']}")
        print(f"{os.cpu_count()} cores, medians over {self.options.rounds} rounds of {self.options.steps} steps\n")
        self.table(names)
        for name in names:
            self.against_emulation(name)
        if "moe" in names:
            for devices in (512, 1024, 2048):
                ours = self.of("gshard", "moe", devices)
                self.verdict(bool(ours), f"moe: runs on {devices} devices" + (f" in {ours.time:.3f} s" if ours else ""))
        for name in names:
            if name in ("mlp", "megatron", "transformer"):
                self.against_unpartitioned(name, dots["copy_bytes_per_s"])
        for name in names:
            self.against_one_device(name)
        for dot in dots["dots"]:
            self.verdict(dot["ratio"] <= 1.05, f"dot {dot['name']}: {dot['ratio']:.3f} of OpenBLAS's time (at most 1.05)")
        self.planning()
        return 0 if all(self.verdicts) else 1


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("workloads", nargs="*", metavar="WORKLOAD", help=" ".join(SIX))
    parser.add_argument("--bin", required=True, help="folder of gshard-run and gshard-opt")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--steps", type=int, default=3, help="steps a process, after one to warm up")
    parser.add_argument("--timeout", type=float, default=300, help="seconds for a process")
    parser.add_argument("--skip-emulation", action="store_true", help="do not run XLA's emulated devices")
    parser.add_argument("--quick", action="store_true", help="one round; 60 seconds for a process")
    options = parser.parse_args()
    for name in options.workloads:
        if name not in SIX:
            parser.error(f"no workload {name}; there are: {' '.join(SIX)}")
    if not os.access(dot_bench(options.bin), os.X_OK):
        parser.error(f"no {dot_bench(options.bin)}: --bin is to be of a build with its benchmarks (cmake --preset ci)")
    if options.quick:
        options.rounds, options.steps, options.timeout = 1, 2, 60
    with tempfile.TemporaryDirectory() as work:
        return Bench(options, work).run()


if __name__ == "__main__":
    sys.exit(main())
