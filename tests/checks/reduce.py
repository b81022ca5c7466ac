"""gshard-opt reduce: seeded faults in programs come down to few instructions that still show them.

usage: reduce.py BIN_DIR [--all], from the top of the checkout   --all: thirty faults in the programs of GSHARD_CORPUS too

A fault is a pair of opcodes, one of which reads the other's result: what a wrong rewriting of that pair would meet. The test
command looks for the pair in what gshard-opt prints, so a candidate that does not parse or verify can never pass.
"""
import ast
import os
import pathlib
import random
import re
import shlex
import struct
import subprocess
import sys
import tempfile
import time
import zipfile

BIN = pathlib.Path(sys.argv[1]).resolve()
OPT, RUN = BIN / "gshard-opt", BIN / "gshard-run"
SAMPLES = ["samples/transformer_train.hlo", "samples/moe_train.hlo", "samples/resnet_train.hlo"]
MOST_INSTRUCTIONS, MOST_SECONDS = 20, 120
passed = failed = 0

FINDER = """import re, subprocess, sys
done = subprocess.run([sys.argv[1], "print", sys.argv[4]], capture_output=True, text=True)
if done.returncode != 0: sys.exit(2)
opcode = {}
for line in done.stdout.splitlines():
    name, equals, value = line.strip().removeprefix("ROOT ").partition(" = ")
    found = equals and re.search(r"[\\])}] ([a-z-]+)\\(", value)
    if not found: continue
    op, rest = found.group(1), value[found.end():]
    opcode[name] = op
    if op == sys.argv[3] and any(opcode.get(each) == sys.argv[2] for each in re.findall(r"%[^ ,)]+", rest.split("),")[0])): sys.exit(0)
sys.exit(1)
"""


def check(truth, what):
    global passed, failed
    passed, failed = passed + bool(truth), failed + (not truth)
    if not truth:
        print("FAIL", what)


def instructions(text):
    return len(re.findall(r"^  (?:ROOT )?%?[\w.-]+ = ", text, flags=re.M))


def pairs(text):
    """Pairs of opcodes, producer and user, each once."""
    opcode, found = {}, []
    for line in text.splitlines():
        name, equals, value = line.strip().removeprefix("ROOT ").partition(" = ")
        match = equals and re.search(r"[\])}] ([a-z-]+)\(", value)
        if not match:
            continue
        op, rest = match.group(1), value[match.end():]
        opcode[name] = op
        found += [(opcode[each], op) for each in re.findall(r"%[^ ,)]+", rest.split("),")[0]) if each in opcode]
    return sorted(set(found) - {pair for pair in found if "parameter" in pair or "constant" in pair or "tuple" in pair})


def reduce(path, pair, finder, work):
    small = work / "small.hlo"
    small.unlink(missing_ok=True)
    command = f"{shlex.quote(sys.executable)} {shlex.quote(str(finder))} {shlex.quote(str(OPT))} {pair[0]} {pair[1]} {{}}"
    start = time.monotonic()
    done = subprocess.run([OPT, "reduce", path, "--test", command, "-o", small], capture_output=True, text=True)
    seconds = time.monotonic() - start
    what = f"{path}: {pair[0]} -> {pair[1]}"
    check(done.returncode == 0, f"{what}: exit code {done.returncode}: {done.stderr}")
    if done.returncode:
        return
    text = small.read_text()
    check(instructions(text) <= MOST_INSTRUCTIONS, f"{what}: {instructions(text)} instructions are left")
    check(seconds < MOST_SECONDS, f"{what}: {seconds:.0f} s")
    still = subprocess.run([sys.executable, finder, OPT, *pair, small], check=False).returncode
    check(still == 0, f"{what}: the result does not show it")
    print(f"{what}: {done.stderr.strip().split(': ')[-1]}")


# A compiler that leaves clamps between -1 and 1 out, which shows where an element is beyond: FAULT GSHARD_RUN PROGRAM INPUTS.
FAULT = r"""import re, subprocess, sys, tempfile
run, program, inputs = sys.argv[1:]
text = open(program).read()
bounds = set(re.findall(r"(\S+) = f32\[\] constant\(-?1\)", text))
wrong = re.sub(r" clamp\(([^,()]+), ([^,()]+), ([^,()]+)\)", lambda m: f" copy({m[2]})" if {m[1], m[3]} <= bounds else m[0], text)
with tempfile.TemporaryDirectory() as folder:
    results = []
    for k, each in enumerate((text, wrong)):
        with open(f"{folder}/{k}.hlo", "w") as file: file.write(each)
        command = [run, f"{folder}/{k}.hlo", "--unpartitioned", "--input", inputs, "--output", f"{folder}/{k}.npz"]
        if subprocess.run(command, capture_output=True).returncode: sys.exit(2)
        results.append(open(f"{folder}/{k}.npz", "rb").read())
sys.exit(results[0] == results[1])
"""

CLAMPED = """HloModule m, num_partitions=2
ENTRY e {
  bias = f32[12] parameter(0)
  x = f32[8,16] parameter(1), sharding={devices=[2,1]<=[2]}
  w = f32[16,12] parameter(2)
  spread = f32[8,12] broadcast(bias), dimensions={1}
  product = f32[8,12] dot(x, w), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  shifted = f32[8,12] add(product, spread)
  low = f32[] constant(-1)
  high = f32[] constant(1)
  kept = f32[8,12] clamp(low, shifted, high)
  ROOT r = (f32[8,12], f32[8,12]) tuple(kept, spread)
}
"""


def write_npz(path, arrays):
    """name -> (dims, list of floats)."""
    with zipfile.ZipFile(path, "w") as archive:
        for name, (dims, values) in arrays.items():
            header = f"{{'descr': '<f4', 'fortran_order': False, 'shape': {tuple(dims)!r}, }}"
            header = header.ljust(117) + "\n"
            archive.writestr(name + ".npy", b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header.encode()
                             + struct.pack(f"<{len(values)}f", *values))


def read_npz(path):
    """name -> (dims, list of floats) of arrays of f32."""
    with zipfile.ZipFile(path) as archive:
        arrays = {}
        for name in archive.namelist():
            data = archive.read(name)
            end = 10 + struct.unpack("<H", data[8:10])[0]
            dims = ast.literal_eval(data[10:end].decode())["shape"]
            arrays[name.removesuffix(".npy")] = dims, [value for value, in struct.iter_unpack("<f", data[end:])]
    return arrays


def inputs(work):
    """A fault that shows with certain values only keeps the part of the inputs that has them."""
    program, given, small = work / "clamped.hlo", work / "given.npz", work / "least.hlo"
    left, fault = small.with_suffix(".npz"), work / "fault.py"
    program.write_text(CLAMPED)
    fault.write_text(FAULT)
    command = f"{shlex.quote(sys.executable)} {shlex.quote(str(fault))} {shlex.quote(str(RUN))} {{}} {{inputs}}"

    def reduce_it(*words):
        left.unlink(missing_ok=True)
        return subprocess.run([OPT, "reduce", program, "--test", command, "--input", given, "-o", small, *words],
                              capture_output=True, text=True)

    # One element of 96 is beyond: x[6,11] * w[11,9] = 9; w by its name, no input for the bias.
    x, w = [0.0] * 128, [0.0] * 192
    x[6 * 16 + 11], w[11 * 12 + 9] = 3.0, 3.0
    write_npz(given, {"p1": ((8, 16), x), "w": ((16, 12), w)})
    text, arrays = "", {}
    done = reduce_it()
    check(done.returncode == 0 and "needs 1 input: " in done.stderr, f"inputs: {done.returncode}: {done.stderr}")
    if done.returncode == 0:
        text, arrays = small.read_text(), read_npz(left)
        check(instructions(text) <= 4 and " clamp(" in text and " dot(" not in text, text)
        check(list(arrays) == ["p0"] and len(arrays["p0"][1]) <= 4 and any(value > 8 for value in arrays["p0"][1]), f"{arrays}")
        still = subprocess.run([sys.executable, fault, RUN, small, left], check=False).returncode
        check(still == 0, f"the result does not show it: {text} {arrays}")
        print("inputs:", done.stderr.strip())
    named = work / "named.npz"
    done = reduce_it("--output-inputs", named, "--threads", "3")
    check(done.returncode == 0 and named.exists() and not left.exists(), f"--output-inputs: {done.stderr}")
    check(done.returncode or read_npz(named) == arrays and small.read_text() == text, "threads change nothing")
    # The same product, but within the bounds.
    write_npz(given, {"p1": ((8, 16), x), "w": ((16, 12), [value / 1000 for value in w])})
    done = reduce_it()
    check(done.returncode == 1 and "E-REDUCE-001" in done.stderr and not left.exists(), f"values that do not show it: {done.stderr}")
    write_npz(given, {"p7": ((8, 16), x)})
    done = reduce_it()
    check(done.returncode == 1 and "no parameter is named p7" in done.stderr and "E-REDUCE-002" in done.stderr, done.stderr)
    write_npz(given, {"p1": ((16, 8), x)})
    check("E-REDUCE-002" in reduce_it().stderr, "an input of another shape")
    # Where values do not matter none are left.
    write_npz(given, {"p1": ((8, 16), x)})
    done = subprocess.run([OPT, "reduce", program, "--test", "grep -q clamp {} && test -s {inputs}", "--input", given, "-o", small],
                          capture_output=True, text=True)
    check(done.returncode == 0 and "needs no inputs" in done.stderr and not left.exists(), done.stderr)
    done = subprocess.run([OPT, "reduce", program, "--verify-fails", "--input", given, "-o", small], capture_output=True, text=True)
    check(done.returncode == 1 and "E-REDUCE-001" in done.stderr, done.stderr)
    device = work / "device.hlo"
    subprocess.run([OPT, "partition", program, "-o", device], check=True, capture_output=True)
    done = subprocess.run([OPT, "reduce", device, "--verify-fails", "--input", given, "-o", small], capture_output=True, text=True)
    check(done.returncode == 1 and "E-REDUCE-003" in done.stderr, done.stderr)
    for words in (["--test", "true {inputs}"], ["--test", "true", "--input", given, "-o", small],
                  ["--verify-fails", "--input", given], ["--crashes", "--input", left, "-o", small],
                  ["--test", "true", "--output-inputs", left]):
        done = subprocess.run([OPT, "reduce", program, *words], capture_output=True, text=True)
        check(done.returncode == 2, f"{words}: exit code {done.returncode}: {done.stderr}")


def interface(work):
    """Flags, exit codes, and what --verify-fails and --crashes look for."""
    mlp = "samples/mlp.hlo"
    for words, code in ((["--test", "true"], 0), (["--test", "false"], 1), ([], 2), (["--test", "true", "--verify-fails"], 2),
                        (["--verify-fails"], 1), (["--crashes"], 1), (["--crashes", "--test", "kill -SEGV $$ #"], 0),
                        (["--crashes", "--test", "exit 4 #"], 0), (["--test", "sleep 5 #", "--timeout", "1"], 1),
                        (["--differs-from-xla", "--python", "/nonexistent"], 2), (["--differs-from-xla", "--python", "false"], 2),
                        (["--differs-from-xla", "--test", "true"], 2), (["--differs-from-xla", "--crashes"], 2),
                        (["--differs-from-xla", "--rtol", "-1"], 2), (["--verify-fails", "--rtol", "1"], 2),
                        (["--verify-fails", "--python", "python3"], 2)):
        done = subprocess.run([OPT, "reduce", mlp, *words], capture_output=True, text=True)
        check(done.returncode == code, f"{words}: exit code {done.returncode} in place of {code}: {done.stderr}")
        if "--python" in words and "--verify-fails" not in words:
            check(f"--python: '{words[-1]}' has no jaxlib to ask; name a Python that has one" in done.stderr, done.stderr)
        if code == 1:
            check("E-REDUCE-001" in done.stderr, f"{words}: {done.stderr}")
            check(("longer than 1 s; --timeout gives it more" in done.stderr) == ("--timeout" in words), f"{words}: {done.stderr}")
    small, seen = work / "negate.hlo", work / "seen"
    small.write_text("HloModule m\nENTRY e {\n  x = f32[1] parameter(0)\n  ROOT y = f32[1] negate(x)\n}\n")
    slow = f"test ! -e {seen} && touch {seen} || sleep 5 #"  # it holds for the program itself, and is slow for smaller ones
    done = subprocess.run([OPT, "reduce", small, "--timeout", "1", "--test", slow], capture_output=True, text=True)
    check(done.returncode == 0 and "of them took longer than 1 s (--timeout)" in done.stderr, done.stderr)
    # Whatever it is, it is interesting: one instruction is left, and no file.
    done = subprocess.run([OPT, "reduce", mlp, "--test", "true"], capture_output=True, text=True, env={**os.environ, "TMPDIR": str(work)})
    check(instructions(done.stdout) == 1 and not list(work.glob("gshard-reduce-*")), done.stdout)
    one, two = (subprocess.run([OPT, "reduce", mlp, "--threads", threads, "--test", "grep -q maximum"], capture_output=True, text=True).stdout
                for threads in ("1", "3"))
    check(one == two and "maximum" in one, "threads change nothing")
    check(instructions(one) <= 3 and "1024" not in one, one)
    missing = work / "a folder's" / "step.hlo"
    missing.parent.mkdir()
    missing.write_text(pathlib.Path(mlp).read_text())
    done = subprocess.run([OPT, "reduce", missing, "--test", "grep -q dot {} && test -s {}"], capture_output=True, text=True)
    check(done.returncode == 0 and " dot(" in done.stdout, done.stderr)


def main():
    everything = "--all" in sys.argv
    files = list(SAMPLES)
    if everything:
        files += sorted(map(str, pathlib.Path(os.environ.get("GSHARD_CORPUS", "../shared/corpus")).glob("*.hlo")))
    with tempfile.TemporaryDirectory() as folder:
        work = pathlib.Path(folder)
        finder = work / "finder.py"
        finder.write_text(FINDER)
        interface(work)
        inputs(work)
        chosen = random.Random(38)
        for path in files if everything else files[:1]:
            text = subprocess.run([OPT, "print", path], capture_output=True, text=True, check=True).stdout
            found = pairs(text)
            for pair in chosen.sample(found, min(2, len(found))):
                reduce(path, pair, finder, work)
    print(f"{passed} passed, {failed} failed")
    sys.exit(failed > 0)


main()
