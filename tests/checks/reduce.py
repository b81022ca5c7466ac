"""gshard-opt reduce: seeded faults in programs come down to few instructions that still show them.

usage: reduce.py BIN_DIR [--all], from the top of the checkout   --all: thirty faults in the programs of GSHARD_CORPUS too

A fault is a pair of opcodes, one of which reads the other's result: what a wrong rewriting of that pair would meet. The test
command looks for the pair in what gshard-opt prints, so a candidate that does not parse or verify can never pass.
"""
import os
import pathlib
import random
import re
import shlex
import subprocess
import sys
import tempfile
import time

BIN = pathlib.Path(sys.argv[1]).resolve()
OPT = BIN / "gshard-opt"
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


def interface(work):
    """Flags, exit codes, and what --verify-fails and --crashes look for."""
    mlp = "samples/mlp.hlo"
    for words, code in ((["--test", "true"], 0), (["--test", "false"], 1), ([], 2), (["--test", "true", "--verify-fails"], 2),
                        (["--verify-fails"], 1), (["--crashes"], 1), (["--crashes", "--test", "kill -SEGV $$ #"], 0),
                        (["--crashes", "--test", "exit 4 #"], 0), (["--test", "sleep 5 #", "--timeout", "1"], 1)):
        done = subprocess.run([OPT, "reduce", mlp, *words], capture_output=True, text=True)
        check(done.returncode == code, f"{words}: exit code {done.returncode} in place of {code}: {done.stderr}")
        if code == 1:
            check("E-REDUCE-001" in done.stderr, f"{words}: {done.stderr}")
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
        chosen = random.Random(38)
        for path in files if everything else files[:1]:
            text = subprocess.run([OPT, "print", path], capture_output=True, text=True, check=True).stdout
            found = pairs(text)
            for pair in chosen.sample(found, min(2, len(found))):
                reduce(path, pair, finder, work)
    print(f"{passed} passed, {failed} failed")
    sys.exit(failed > 0)


main()
