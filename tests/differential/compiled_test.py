"""JAX programs by four ways: default print, as_text('hlo'), XLA's dump before optimisation, XLA's compiled text.

  - from the first three, gshard-cost tells the same collectives, bytes and memory
  - gshard-run --verify is ok for the three, and for the compiled text with the dump as its --reference
"""
import glob
import json
import os
import subprocess
import sys
import tempfile

from tally import Tally

CHILD = """
import sys
sys.path.insert(0, {here!r})
import compiled_programs
compiled_programs.dump({name!r}, {folder!r})
"""
HERE = os.path.dirname(os.path.abspath(__file__))


def run(*command):
    done = subprocess.run(command, capture_output=True, text=True)
    return done.returncode, done.stdout, (done.stderr + done.stdout).strip()[:400]


# XLA's export shares constants and drops scalars that no one needs: so much memory is not compared.
SCALARS = 64


def same(found, expected):
    return (isinstance(found, tuple) and isinstance(expected, tuple) and found[0] == expected[0] and
            abs(found[1] - expected[1]) <= SCALARS)


def figures(path):
    # A GPU pads no array, and its kernels make iotas themselves, which the texts share differently.
    code, out, errors = run("gshard-cost", path, "--json", "--chip", "h100")
    if code:
        return errors
    report = json.loads(out)
    collectives = sorted((c["kind"], c["count"], c["bytes_per_device"]) for c in report["collectives"])
    return collectives, report["memory"]["peak_bytes"]


def check(tally, name, folder):
    flags = f"--xla_force_host_platform_device_count=8 --xla_dump_to={folder} --xla_dump_hlo_as_text"
    environment = dict(os.environ, XLA_FLAGS=flags, JAX_PLATFORMS="cpu")
    child = CHILD.format(here=HERE, name=name, folder=folder)
    done = subprocess.run([sys.executable, "-c", child], env=environment, capture_output=True, text=True)
    if done.returncode:
        return tally.check(f"{name} compiles", done.stderr.strip()[-300:])
    before = glob.glob(os.path.join(folder, "*jit_program.before_optimizations.txt"))
    compiled = glob.glob(os.path.join(folder, "*jit_program.cpu_after_optimizations.txt"))
    if len(before) != 1 or len(compiled) != 1:
        return tally.check(f"{name} is dumped", f"{len(before)} dumps before, {len(compiled)} after optimisation")
    three = [os.path.join(folder, "default.mlir"), os.path.join(folder, "text.hlo"), before[0]]
    expected = figures(three[2])
    for path in three:
        found = figures(path)
        base = os.path.basename(path)
        tally.check(f"{name}: figures of {base}", "" if same(found, expected) else f"{found}, the dump: {expected}")
        code, _, errors = run("gshard-run", path, "-n", "8", "--verify")
        tally.check(f"{name}: {base} verifies", errors if code else "")
    code, _, errors = run("gshard-run", compiled[0], "--reference", before[0], "--verify")
    tally.check(f"{name}: the compiled text verifies", errors if code else "")


def main():
    import compiled_programs
    tally = Tally()
    for name in sys.argv[1:] or compiled_programs.PROGRAMS:
        with tempfile.TemporaryDirectory() as folder:
            check(tally, name, folder)
    tally.finish()


if __name__ == "__main__":
    main()
