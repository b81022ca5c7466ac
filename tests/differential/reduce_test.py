"""`gshard-opt reduce --differs-from-xla`: XLA's faults of tests/xla_faults come down to what shows them, with inputs where these
show them.

gshard-opt and gshard-run are taken from PATH; the Python of XLA is the one that runs this.
"""
import os
import re
import subprocess
import sys
import tempfile

import numpy as np

import hlo_lines
from tally import Tally

FAULTS = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "xla_faults")
COMPARE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "cmd", "cli", "reduce", "compare_with_xla.py")

# XLA's tanh and ours are off by units in the last place.
ROUNDED = """HloModule m
ENTRY e {
  x = f32[64] parameter(0)
  y = f32[64] tanh(x)
  ROOT r = f32[64] multiply(y, y)
}
"""

# In parts it has an all-reduce, and asks which device it is on.
SUMMED = """HloModule m, num_partitions=2
ENTRY e {
  x = f32[8,6] parameter(0), sharding={devices=[1,2]<=[2]}
  w = f32[6,5] parameter(1), sharding={devices=[2,1]<=[2]}
  y = f32[8,5] dot(x, w), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  i = f32[8,5] iota(), iota_dimension=0, sharding={devices=[2,1]<=[2]}
  z = f32[8,5] add(y, i), sharding={devices=[2,1]<=[2]}
  s = f32[] constant(2)
  ROOT r = (f32[8,5], f32[]) tuple(z, s)
}
"""


def instructions(path):
    with open(path) as file:
        return sum(1 for line in file if hlo_lines.INSTRUCTION.match(line))


def reduce(work, program, *flags):
    """(exit code, what was said, the result's file)."""
    out = os.path.join(work, "small.hlo")
    for stale in (out, out[:-4] + ".npz"):
        if os.path.exists(stale):
            os.remove(stale)
    done = subprocess.run(["gshard-opt", "reduce", program, "--differs-from-xla", "--python", sys.executable, "-o", out, *flags],
                          capture_output=True, text=True)
    return done.returncode, done.stderr.strip(), out


def differs(path, *flags):
    """What the comparison says of a program; raises where it runs on neither side."""
    done = subprocess.run([sys.executable, COMPARE, "gshard-opt", "gshard-run", path, *flags], capture_output=True, text=True)
    if done.returncode > 1 or not done.stdout:
        raise RuntimeError(done.stdout + done.stderr)
    return done.returncode == 0, done.stdout.strip()


def check_fault(tally, work, name, most, devices, inputs=None):
    """The fault's file comes down to `most` instructions that still show it on `devices`."""
    flags = []
    if inputs:
        np.savez(os.path.join(work, "given.npz"), **inputs)
        flags = ["--input", os.path.join(work, "given.npz")]
    code, said, out = reduce(work, os.path.join(FAULTS, name), *flags)
    tally.check(f"{name} is reduced", "" if code == 0 else f"exit {code}: {said}")
    if code:
        return
    print(f"  {name}: {said}", flush=True)
    left = out[:-4] + ".npz"
    still, line = differs(out, *(["--input", left] if os.path.exists(left) else []))
    tally.check(f"{name}: the result shows it", "" if still and f"XLA on {devices} " in line else line)
    count = instructions(out)
    tally.check(f"{name}: {count} instructions", "" if count <= most else f"more than {most}")


def check_parts(tally, work):
    """A program that is partitioned already: XLA runs each device's part."""
    for name, text in (("rounded", ROUNDED.replace("m\n", "m, num_partitions=2\n", 1).replace(
            "parameter(0)", "parameter(0), sharding={devices=[2]<=[2]}")), ("summed", SUMMED)):
        whole, parts = os.path.join(work, name + ".hlo"), os.path.join(work, name + ".parts.hlo")
        with open(whole, "w") as file:
            file.write(text)
        subprocess.run(["gshard-opt", "partition", whole, "-o", parts], check=True)
        still, line = differs(parts)
        tally.check(f"{name} in parts", "" if not still and "XLA on 2 devices agrees" in line else line)
    code, said, out = reduce(work, os.path.join(work, "rounded.parts.hlo"), "--rtol", "0")
    tally.check("a program in parts is reduced", "" if code == 0 and instructions(out) == 2 else f"exit {code}: {said}")


def main():
    tally = Tally()
    with tempfile.TemporaryDirectory() as work:
        # x[8:14][0:4], moved inside, is x[4:8]; XLA reads x[6:10]. With starts inside all is right.
        x = np.arange(10, dtype=np.float32)
        check_fault(tally, work, "nested_slices.hlo", 5, 2, {"x": x, "i": np.int32(8), "j": np.int32(0)})
        np.savez(os.path.join(work, "inside.npz"), x=x, i=np.int32(2), j=np.int32(0))
        code, said, _ = reduce(work, os.path.join(FAULTS, "nested_slices.hlo"), "--input", os.path.join(work, "inside.npz"))
        agreed = code == 1 and "E-REDUCE-001" in said and "XLA on 2 devices agrees" in said
        tally.check("starts inside show nothing", "" if agreed else f"exit {code}: {said}")
        check_fault(tally, work, "sums_and_maxima.whole.hlo", 12, 4)
        # Row 70 of 64 is moved inside; the random one is inside. A smaller program may draw one that is not.
        code, said, _ = reduce(work, os.path.join(FAULTS, "update_outside.whole.hlo"))
        agreed = code == 1 and "E-REDUCE-001" in said and "XLA on 8 devices agrees" in said
        tally.check("a row inside shows nothing", "" if agreed else f"exit {code}: {said}")
        check_fault(tally, work, "update_outside.whole.hlo", 8, 8, {"at.1": np.int32(70)})
        rounded = os.path.join(work, "rounded.hlo")
        with open(rounded, "w") as file:
            file.write(ROUNDED)
        code, said, _ = reduce(work, rounded)
        tally.check("rounding is no difference", "" if code == 1 and "XLA on 1 device agrees" in said else f"exit {code}: {said}")
        code, said, out = reduce(work, rounded, "--rtol", "0")
        found = re.search(r" tanh\(", open(out).read()) if code == 0 else None
        tally.check("unless --rtol says so", "" if found and instructions(out) == 2 else f"exit {code}: {said}")
        check_parts(tally, work)
    tally.finish()


if __name__ == "__main__":
    main()
