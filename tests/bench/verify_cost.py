#!/usr/bin/env python3
"""What `gshard-run --verify` costs, in plain runs of the same program.

  GSHARD_BIN=build/ci/cmd tests/bench/verify_cost.py [--rounds N] [--texts DIR] [--touch-gib G] [PROGRAM.hlo... | WORKLOAD...]

Programs: files, or the workloads of vs_xla.sh at 2048 devices (those need jax; --texts keeps their texts). Without any: the six
workloads, and the samples as they are (all devices alike), over 8 devices and over 2048. Both sides run in turn, as whole processes;
figures are medians. A virtual machine that gives free memory back to its host pays up to 3 s a GiB for the first touch of a page,
once a few seconds have passed: with --touch-gib another process touches so much before each run, as on a machine of one's own.
`wall` is the ratio of elapsed times, `cpu` of processor seconds, `user` of those outside the system. `memory` is the ratio of peak resident sets.
"""
import argparse
import os
import statistics
import subprocess
import sys
import tempfile
import time

from vs_xla import HERE, SIX, processor

sys.path.insert(0, os.path.join(os.path.dirname(HERE), "differential"))
import samples  # noqa: E402

MESH = 2048


def touch(gib):
    """Touches so much memory in a process that ends."""
    code = f"""import mmap
memory = mmap.mmap(-1, {gib} << 30, mmap.MAP_PRIVATE)
memory.madvise(mmap.MADV_HUGEPAGE)
for at in range(0, {gib} << 30, 4096): memory[at] = 1"""
    subprocess.run([sys.executable, "-c", code], check=True)


class Side:
    def __init__(self):
        self.wall, self.cpu, self.user, self.memory = [], [], [], []

    def run(self, command):
        begin = time.monotonic()
        with tempfile.TemporaryFile() as out:
            process = subprocess.Popen(command, stdout=out, stderr=subprocess.STDOUT)
            _, status, usage = os.wait4(process.pid, 0)
            process.returncode = os.waitstatus_to_exitcode(status)
            out.seek(0)
            text = out.read().decode(errors="replace")
        self.wall.append(time.monotonic() - begin)
        self.cpu.append(usage.ru_utime + usage.ru_stime)
        self.user.append(usage.ru_utime)
        self.memory.append(usage.ru_maxrss / 1024)
        return process.returncode, text


def text_of(name, folder):
    path = os.path.join(folder, f"{name}.{MESH}.hlo")
    if not os.path.exists(path):
        subprocess.run([sys.executable, os.path.join(HERE, "workloads.py"), "text", name, "--devices", str(MESH), "-o", path],
                       check=True, stderr=subprocess.DEVNULL)
    return path


def programs(options, folder):
    """Name and file of each."""
    for name in options.programs or SIX:
        yield (name, text_of(name, folder)) if name in SIX else (os.path.basename(name), name)
    for name, rules, meshes in [] if options.programs else samples.GENERATED:
        if rules == name:
            yield name, samples.path(name)
        for mesh in (meshes[0], meshes[-1]):
            path = os.path.join(folder, f"{rules}.{samples.devices(mesh)}.hlo")
            problem = samples.annotate(name, rules, mesh, path)
            if problem:
                sys.exit(f"{rules}: {problem}")
            yield f"{rules} over {mesh}", path


def measure(name, path, options):
    """A line of the table."""
    plain, verified = Side(), Side()
    verdict = ""
    for _ in range(options.rounds):
        if options.touch_gib:
            touch(options.touch_gib)
        code, text = plain.run([os.path.join(options.bin, "gshard-run"), path])
        if code != 0:
            sys.exit(f"{path}: exit {code}: {text[:400]}")
        if options.touch_gib:
            touch(options.touch_gib)
        code, text = verified.run([os.path.join(options.bin, "gshard-run"), path, "--verify"])
        verdict = next((line[7:].split(":")[0].strip() for line in text.splitlines() if line.startswith("verify ")), f"exit {code}")
    median = statistics.median
    ratio = lambda what: median(getattr(verified, what)) / max(median(getattr(plain, what)), 1e-9)
    return (f"| {name} | {median(plain.wall):.2f} s | {median(verified.wall):.2f} s | {ratio('wall'):.2f} | {ratio('cpu'):.2f} | "
            f"{ratio('user'):.2f} | "
            f"{median(plain.memory):.0f} MiB | {median(verified.memory):.0f} MiB | {ratio('memory'):.1f} | {verdict} |")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("programs", nargs="*")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--touch-gib", type=int, default=0)
    parser.add_argument("--texts", help="folder that keeps the workloads' texts")
    parser.add_argument("--bin", default=os.environ.get("GSHARD_BIN", "build/ci/cmd"))
    options = parser.parse_args()
    for name in ("OPENBLAS_CORETYPE", "OPENBLAS_L2_SIZE"):  # some environments force an old kernel
        os.environ.pop(name, None)
    os.environ["PATH"] = os.path.abspath(options.bin) + os.pathsep + os.environ["PATH"]
    print(f"{processor()}, {os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}\n")
    print("| program | plain | verified | wall | cpu | user | plain | verified | memory | verdict |\n|---|---|---|---|---|---|---|---|---|---|")
    with tempfile.TemporaryDirectory() as scratch:
        folder = options.texts or scratch
        for name, path in programs(options, folder):
            print(measure(name, path, options), flush=True)


if __name__ == "__main__":
    main()
