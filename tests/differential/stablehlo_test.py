"""StableHLO and HLO text of the same JAX programs: the same results and shardings, and the way back to jaxlib.

For every program of jax_programs.py (and library programs, where flax, optax and equinox are installed):
  - both texts give the same bits; functions that CHLO has, and complex ones, within 4 ulp
  - programs with shardings: the same after propagate, parameter by parameter, on the result, and of all values
  - what the writer prints, jaxlib parses; XLA's export of that runs to the same
A few files of each kind are enough to see that a form is read; all of them take about a minute.
"""
import os
import re
import subprocess
import tempfile

import ml_dtypes
import numpy as np
from jaxlib import _jax
from jaxlib.mlir import ir

import jax
from jax._src.interpreters import mlir
from jax_programs import PROGRAMS
from tally import Tally

MOST_ULPS = 4
# XLA's export lays these out itself: constants are shared, iotas are broadcast, tuples are its own.
NOT_COMPARED = {"constant", "iota", "get-tuple-element", "tuple", "parameter", "while", "reshape", "broadcast",
                "conditional"}


def run(*command):
    done = subprocess.run(command, capture_output=True, text=True)
    return done.returncode, done.stdout, done.stderr.strip()[:300]


def results(path, work):
    out = os.path.join(work, "out.npz")
    code, _, errors = run("gshard-run", path, "--unpartitioned", "--seed", "3", "--output", out)
    if code:
        return None, errors
    with np.load(out) as arrays:
        return {name: arrays[name] for name in arrays.files}, ""


def ulps(a, b):
    """The largest distance of floats, or of the parts of complex numbers; nothing for other types."""
    part = {np.dtype(np.complex64): np.float32, np.dtype(np.complex128): np.float64}.get(a.dtype)
    if part:
        a, b = a.view(part), b.view(part)
    if a.dtype == np.dtype("V2"):
        a, b = a.view(ml_dtypes.bfloat16), b.view(ml_dtypes.bfloat16)
    integer = {"bfloat16": np.int16, "float16": np.int16, "float32": np.int32, "float64": np.int64}.get(a.dtype.name)
    if not integer:
        return None
    x, y = a.view(integer).astype(object), b.view(integer).astype(object)
    lowest = int(np.iinfo(integer).min)
    distance = 0
    for i, j, p, q in zip(x.flat, y.flat, a.flat, b.flat):
        if not (np.isnan(p) and np.isnan(q)):
            distance = max(distance, abs((lowest - i if i < 0 else i) - (lowest - j if j < 0 else j)))
    return distance


def difference(one, other):
    if sorted(one) != sorted(other):
        return f"outputs {sorted(one)} and {sorted(other)}"
    for name, a in one.items():
        b = other[name]
        if a.shape != b.shape or a.dtype != b.dtype:
            return f"{name} is {a.dtype}{a.shape} and {b.dtype}{b.shape}"
        if a.tobytes() == b.tobytes():
            continue
        distance = ulps(a, b)
        if distance is None or distance > MOST_ULPS:
            return f"{name} differs by {distance} ulp"
    return ""


def shardings(path, *flags):
    """Of parameters, of the root, and how often each (operation, shape, sharding) occurs."""
    code, text, errors = run("gshard-opt", "propagate", path, "--no-metadata", "--tiles", *flags)
    if code:
        return None, errors
    values, parameters, root, inside = set(), {}, None, False
    for line in text.splitlines():
        inside = inside or line.startswith("ENTRY")
        match = re.match(r"\s+(ROOT )?%\S+ = (.*?) ([a-z0-9-]+)\((\d*)", line)
        if not match:
            continue
        found = re.search(r", sharding=(\{.*?\})(?:, [a-z_]+=|$)", line)
        sharding = found.group(1) if found else None
        if inside and match.group(3) == "parameter":
            parameters[match.group(4)] = sharding
        if inside and match.group(1):
            root = sharding
        if sharding and match.group(3) not in NOT_COMPARED:
            values.add((match.group(3), re.sub(r"\{[^}]*\}", "", match.group(2)), sharding))
    return (parameters, root, values), ""


def sharding_difference(stablehlo, hlo):
    # XLA's export has no dead code, in functions neither.
    live = stablehlo + ".hlo"
    code, _, errors = run("gshard-opt", "optimize", stablehlo, "--passes", "import-shardy,inline-calls,dead-code", "-o",
                          live)
    if code:
        return errors
    fixed = ["--allow-spmd-sharding-propagation-to-output=false",
             "--allow-spmd-sharding-propagation-to-parameters=false"]
    one, errors = shardings(live, *fixed)
    if one is None:
        return errors
    other, errors = shardings(hlo, "-n", "8", *fixed)
    if other is None:
        return errors
    for what, a, b in zip(("parameters", "the root"), one, other):
        if a != b:
            return f"shardings of {what}: {a} and {b}"
    # XLA's export folds constants away, so it may have fewer values, never others.
    missing = other[2] - one[2]
    return f"only in the HLO: {missing}" if missing else ""


def export_of(path):
    """The HLO text that XLA makes of a StableHLO file."""
    with mlir.make_ir_context():
        module = ir.Module.parse(open(path).read())
        computation = _jax.mlir.mlir_module_to_xla_computation(str(module), use_tuple_args=False, return_tuple=False)
    return computation.as_hlo_text(print_large_constants=True)


def check_program(tally, name, lowered, work):
    stablehlo, hlo = os.path.join(work, "p.mlir"), os.path.join(work, "p.hlo")
    written, back = os.path.join(work, "w.mlir"), os.path.join(work, "b.hlo")
    open(stablehlo, "w").write(lowered.as_text(debug_info=True))
    open(hlo, "w").write(lowered.as_text("hlo"))
    expected, errors = results(hlo, work)
    if expected is None:
        return print(f"SKIPPED {name}: its HLO does not run here: {errors}")
    actual, errors = results(stablehlo, work)
    tally.check(f"results: {name}", difference(actual, expected) if actual is not None else errors)
    if "num_partitions = 8" in open(stablehlo).read():
        tally.check(f"shardings: {name}", sharding_difference(stablehlo, hlo))
    code, _, errors = run("gshard-opt", "print", stablehlo, "--format", "stablehlo", "-o", written)
    if code:
        return tally.check(f"write {name}", errors)
    try:
        open(back, "w").write(export_of(written))
    except Exception as error:  # what jaxlib throws has no common type
        return tally.check(f"jaxlib takes {name}", str(error)[:300])
    actual, errors = results(back, work)
    tally.check(f"way back: {name}", difference(actual, expected) if actual is not None else errors)


def main():
    tally = Tally()
    with tempfile.TemporaryDirectory() as work:
        for name, (function, arguments, keywords) in PROGRAMS.items():
            try:
                lowered = jax.jit(function, **keywords).lower(*arguments)
            except Exception as error:
                tally.check(f"lower {name}", str(error)[:200])
                continue
            check_program(tally, name, lowered, work)
    tally.finish()


if __name__ == "__main__":
    main()
