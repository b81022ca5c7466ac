"""The help of every program and subcommand: complete, and golden.

usage: help_texts.py BIN_DIR, from the top of the checkout

For each program and each subcommand that its help lists:
  - `--help`, `help` and `help SUBCOMMAND` print the same; `--version` prints the version
  - the text has one example, which names the command itself
  - a flag's value is named for what it is (SIZE, FILE, REGEX), and its default or that it is required is told
  - no line is longer than a terminal is wide
  - tests/golden/help holds the text
"""
import pathlib
import re
import subprocess
import sys

BIN = pathlib.Path(sys.argv[1])
GOLDEN = pathlib.Path("tests/golden/help")
PROGRAMS = ["gshard-opt", "gshard-cost", "gshard-run"]
WIDTH = 130
passed = failed = 0


def output(*words):
    done = subprocess.run([str(BIN / words[0]), *words[1:]], capture_output=True, text=True, stdin=subprocess.DEVNULL)
    return done.stdout if done.returncode == 0 else f"exit code {done.returncode}: {done.stderr}"


def section(text, title):
    match = re.search(rf"^{title}:\n((?:  .*\n)*)", text, re.M)
    return match.group(1) if match else ""


def entries(text, title):
    """(names and value, text) of each entry of a section; continued lines are joined."""
    found = []
    for line in section(text, title).splitlines():
        if line.startswith(" " * 20):
            found[-1][1] += " " + line.strip()
        else:
            parts = re.split(r"\s{2,}", line.strip(), maxsplit=1)
            found.append([parts[0], parts[1] if len(parts) > 1 else ""])
    return found


def problems(words):
    program, *sub = words
    text = output(*words, "--help")
    for spelling in [[*words, "help"], [program, "help", *sub]]:
        if output(*spelling) != text:
            yield f"'{' '.join(spelling)}' is not its help"
    # Programs that compute name the processor and the BLAS kernel on a second line.
    machine = r".+; OpenBLAS .+, kernel \w+\n" if words[0].startswith("gshard-run") else ""
    if not re.fullmatch(r"gshard \d+\.\d+\.\d+\n" + machine, output(*words, "--version")):
        yield "--version prints no version"
    examples = re.findall(r"^Example: (.*)$", text, re.M)
    if len(examples) != 1 or " ".join(words) not in examples[0]:
        yield f"one example of its own is wanted, there are {examples}"
    # A value that a flag before it has explained: "The same for outputs".
    for title in ("Positionals", "Options"):
        for names, said in entries(text, title):
            value = re.search(r"[ =\[]\[?=?([A-Z][A-Z.=a-z]*|\S+\|\S+?)\]?$", names)
            if not said:
                yield f"{names}: nothing is said about it"
            if value and value.group(1) == "TEXT":
                yield f"{names}: the value is named TEXT"
            if value and not re.search(r"default|required|The same", said):
                yield f"{names}: neither a default nor 'required' is told"
    for line in text.splitlines():
        if len(line) > WIDTH:
            yield f"a line of {len(line)} characters: {line[:60]}…"
    golden = GOLDEN / f"{'_'.join(words)}.test"
    if not golden.exists() or f"// RUN: {' '.join(words)} --help\n" not in golden.read_text():
        yield f"{golden} does not hold it: write its RUN line, then GSHARD_UPDATE=1 gshard_golden {BIN} {golden}"


def check(words):
    global passed, failed
    found = list(problems(words))
    for problem in found:
        print(f"FAIL {' '.join(words)}: {problem}")
    passed, failed = passed + (not found), failed + bool(found)


for program in PROGRAMS:
    check([program])
    for name, _ in entries(output(program, "--help"), "Subcommands"):
        check([program, name])
if not passed:
    print("FAIL no help was found")
print(f"{passed} passed, {failed} failed")
sys.exit(failed != 0 or passed == 0)
