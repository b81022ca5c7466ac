"""gshard-opt list-ops: every opcode, every layer, no empty cell; the text and the JSON say the same.

usage: list_ops.py GSHARD_OPT, from the top of the checkout
"""
import json
import pathlib
import re
import subprocess
import sys

OPT = sys.argv[1]
LAYERS = ["opcode", "family", "attributes", "shape", "types", "propagate", "partition", "cost", "grad", "run"]
passed = failed = 0


def check(truth, what):
    global passed, failed
    passed, failed = passed + bool(truth), failed + (not truth)
    if not truth:
        print("FAIL", what)


def run(*words):
    return subprocess.run([OPT, "list-ops", *words], capture_output=True, text=True, check=True).stdout


rows = json.loads(run("--json"))["ops"]
opcodes = re.findall(r'^GSHARD_OPCODE\(\w+, "([^"]+)"', pathlib.Path("ir/opcodes.def").read_text(), re.M)
check([row["opcode"] for row in rows] == opcodes and len(opcodes) > 100, "one row for each of ir/opcodes.def, in its order")
for row in rows:
    for layer in LAYERS:
        check(layer in row, f"{row['opcode']}: there is no column {layer}")
    for layer, cell in row.items():
        check(isinstance(cell, str) and cell.strip(), f"{row['opcode']}: {layer} says nothing")
header, *lines = run().splitlines()
names = header.split()
check(names == list(rows[0]), f"the columns of the text are those of the JSON: {names}")
for row, line in zip(rows, lines):
    check(line.split() == list(row.values()), f"the text says the same as the JSON: {line}")
check(len(lines) == len(rows), "as many lines as rows")
print(f"{passed} passed, {failed} failed")
sys.exit(failed != 0)
