"""gshard-opt check against gshard-run, and against programs that are right.

usage: communication.py BIN_DIR, from the top of the checkout

  - each deadlock of tests/golden/errors_run is found without a run: the message and the line of gshard-run
  - no sample and no golden program that verifies has a finding, whole or partitioned; nor has a file of GSHARD_CORPUS
"""
import os
import pathlib
import re
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor

OPT = str(pathlib.Path(sys.argv[1]) / "gshard-opt")
RUN = str(pathlib.Path(sys.argv[1]) / "gshard-run")
DEADLOCKS = ["deadlocks", "collectives", "arrivals"]
# Errors of the emulator that are none of the program: a host that it does not have.
NOT_OF_DEVICES = re.compile("talks to the host")
# What `check` says of programs that cannot be read or partitioned is not its own.
OWN = re.compile(r"\[(E-CHECK-\w+|W-CHECK-\w+|E-RUN-\w+)\]")
failures = []


def call(*words):
    return subprocess.run(words, capture_output=True, text=True, stdin=subprocess.DEVNULL, timeout=120)


def parts(path):
    return re.split(r"^// -----.*\n", path.read_text(errors="replace"), flags=re.M)


def first_error(text):
    match = re.search(r":(\d+):\d+: error: (.*)$", text, re.M)
    # A send and its recv are a permute to the emulator.
    return (match.group(1), match.group(2).replace("in recv ", "in collective-permute ")) if match else None


def compare(name, text, folder):
    file = folder / f"{name}.hlo"
    file.write_text(text)
    expected = first_error(call(RUN, str(file)).stderr)
    if expected is None or NOT_OF_DEVICES.search(expected[1]):
        return 0
    done = call(OPT, "check", str(file))
    found = first_error(done.stderr)
    if found != expected or done.returncode != 1:
        failures.append(f"{name}: gshard-run says {expected}, check {found}, exit code {done.returncode}")
    return 1


def alarm(path):
    done = call(OPT, "check", str(path))
    found = OWN.search(done.stderr)
    if found or done.returncode == 4:
        failures.append(f"{path}: {done.stderr.splitlines()[0]}")
    return 1


def right_programs(folder):
    """Files of programs that are right: samples, golden ones that are no errors, what they are partitioned into."""
    files = [p for p in pathlib.Path("samples").rglob("*.hlo")]
    corpus = os.environ.get("GSHARD_CORPUS")
    if corpus:
        files += sorted(pathlib.Path(corpus).glob("*.hlo"))
    for path in sorted(pathlib.Path("tests/golden").rglob("*.hlo")):
        if path.parts[2] in ("check", "errors", "errors_run"):
            continue
        for i, text in enumerate(parts(path)):
            if "EXPECT-ERROR" in text or "EXIT:" in text or not re.search(r"^HloModule", text, re.M):
                continue
            file = folder / ("-".join(path.with_suffix("").parts[2:]) + f".{i}.hlo")
            file.write_text(text)
            files.append(file)
    return files


def partitioned(path, folder):
    out = folder / ("partitioned-" + path.name)
    done = call(OPT, "partition", str(path), "-o", str(out))
    return out if done.returncode == 0 else None


with tempfile.TemporaryDirectory() as name, ThreadPoolExecutor(2) as pool:
    folder = pathlib.Path(name)
    known = sum(
        compare(f"{stem}.{i}", text, folder)
        for stem in DEADLOCKS
        for i, text in enumerate(parts(pathlib.Path(f"tests/golden/errors_run/{stem}.hlo")))
    )
    if known < 25:
        failures.append(f"only {known} programs that gshard-run stops at")
    files = right_programs(folder)
    files += [p for p in pool.map(lambda p: partitioned(p, folder), files) if p is not None]
    right = sum(pool.map(alarm, files))
for failure in failures:
    print("FAILED", failure)
print(f"{known} deadlocks as gshard-run tells them, {right} right programs, {len(failures)} failed")
sys.exit(1 if failures else 0)
