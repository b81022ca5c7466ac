"""The golden runner fails where it must: on tests that would pass whatever a program printed, and on wrong output.

usage: golden_refusals.py GSHARD_GOLDEN BIN_DIR, from the top of the checkout

Each file of tests/golden_refused says what the runner must answer:
  // refusal: LINE: TEXT    the file is no test, because of this line; no other line is refused
  // failure: TEXT          it is a test, and it fails for this reason
"""
import os
import pathlib
import re
import subprocess
import sys
import tempfile

RUNNER, BIN = sys.argv[1:]
FOLDER = pathlib.Path("tests/golden_refused")
passed = failed = 0


def answer(*paths, flags=()):
    environment = {k: v for k, v in os.environ.items() if k != "GSHARD_UPDATE"}
    done = subprocess.run([RUNNER, *flags, BIN, *map(str, paths)], capture_output=True, text=True, env=environment)
    return done.returncode, done.stdout


def report(name, problem, output=""):
    global passed, failed
    if problem:
        failed += 1
        print(f"FAIL {name}: {problem}\n{output}")
    else:
        passed += 1


def judge(path):
    text = path.read_text()
    refusals = {(int(line), why) for line, why in re.findall(r"^// refusal: (\d+): (.*)$", text, re.M)}
    failures = re.findall(r"^// failure: (.*)$", text, re.M)
    code, output = answer(path)
    if code != 1:
        return f"exit code {code} instead of 1", output
    if not refusals and not failures:
        return "the file does not say why it is wrong", output
    for line, why in refusals:
        if not any(why in said for said in re.findall(rf":{line}: refused: (.*)", output)):
            return f"line {line} is not refused as '{why}'", output
    extra = {int(line) for line in re.findall(r":(\d+): refused: ", output)} - {line for line, _ in refusals}
    if extra:
        return f"lines {sorted(extra)} are refused too", output
    for why in failures:
        if why not in output:
            return f"does not fail with '{why}'", output
    return "", output


for file in sorted(FOLDER.glob("*.hlo")):
    report(file.name, *judge(file))

# With --abort nothing is run after the first failure.
code, output = answer(*sorted(FOLDER.glob("*.hlo"))[:3], flags=["--abort"])
report("--abort", "" if code == 1 and "\n0 passed, 1 failed\n" in output else "more than one test was run", output)

# Folders: tests that are passed over, and none at all.
with tempfile.TemporaryDirectory() as empty:
    for name, path, why in [("a file that is no test", FOLDER / "stray_file", "tests end with .hlo, .mlir or .test"),
                            ("a folder without tests", empty, "no tests"),
                            ("a folder that is not there", empty + "/none", "no such file")]:
        code, output = answer(path)
        report(name, "" if code == 1 and why in output else f"exit code {code}, no '{why}'", output)

print(f"{passed} passed, {failed} failed")
sys.exit(failed != 0)
