"""What every subcommand of gshard-opt writes is read by `gshard-opt print -`, and what that prints, is read alike.

usage: self_reading.py BIN_DIR [--all] [--only WORD]... [--match TEXT], from the top of the checkout

Inputs are the samples, each part of the golden files, and where they are there ../shared/cases and GSHARD_CORPUS.
An input that is not read counts as one test: exit code 1, not 4 and no signal. By default larger inputs and rarer
options take turns; --all takes every input with every option. --only: these subcommands; --match: inputs whose
name has TEXT.
"""
import argparse
import concurrent.futures
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import zlib

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests" / "differential"))
import tally  # noqa: E402

SECONDS = 60  # of one command; ten times as much with --all
SMALL = 24 << 10  # bytes: larger inputs take turns
LARGE = 200 << 10  # bytes: with --all only
TURNS = {False: 6, True: 24}  # one of so many options is taken; by whether the input is not small

STABLEHLO = ["--format", "stablehlo"]
# Taken with every small input.
ALWAYS = [
    ["print"],
    ["print", *STABLEHLO],
    ["propagate"],
    ["partition"],
    ["grad"],
]
SOMETIMES = [
    ["print", "--no-metadata", "--no-layouts"],
    ["print", "--named"],
    ["print", "--tiles"],
    ["print", *STABLEHLO, "--gspmd"],
    ["annotate", "--mesh", "data=2,model=2", "--shard", ".*=replicated"],
    ["annotate", "--mesh", "data=4", "--shard", "param:0=data"],
    ["annotate", "--mesh", "data=4", "--shard", "param:0=data,_"],
    ["propagate", "-n", "4", "--named"],
    ["propagate", "--allow-spmd-sharding-propagation-to-output=false"],
    ["partition", "-n", "4"],
    ["partition", "--no-propagate"],
    ["partition", "--windowed-einsum", "1", "--weight-update-sharding"],
    ["optimize"],
    ["grad", "--remat"],
    ["remat", "--limit", "1KiB"],
]
SCHEDULES = {"gpipe": [], "1f1b": [], "zero-bubble": [], "interleaved": [], "shift": ["--repeats", "2"]}


def list_passes(opt):
    text = subprocess.run([opt, "list-passes"], capture_output=True, text=True, check=True).stdout
    return [line.split()[0] for line in text.splitlines() if line.strip()]


def options(opt):
    """All commands but ALWAYS, IN left out."""
    found = list(SOMETIMES)
    found += [["optimize", "--passes", name] for name in list_passes(opt)]
    for schedule, more in SCHEDULES.items():
        for remat in ("stage", "none", "all"):
            command = ["pipeline", "--stages", "2", "--microbatches", "4", "--schedule", schedule, "--remat", remat]
            found.append(command + more)
    return found


def parts(path):
    """A golden file's programs: (name, text)."""
    text = path.read_text(errors="surrogateescape")
    for number, part in enumerate(text.split("\n// -----")):
        yield f"{path.parent.name}/{path.name}:{number}", part


def inputs(folder):
    """(name, path) of every input; parts of golden files are written into `folder`."""
    for path in sorted((ROOT / "samples").glob("**/*.hlo")):
        yield f"samples/{path.name}", path
    for path in sorted((ROOT / "tests" / "golden").glob("*/*.hlo")):
        for number, (name, text) in enumerate(parts(path)):
            written = folder / f"{path.parent.name}.{path.stem}.{number}.hlo"
            written.write_text(text, errors="surrogateescape")
            yield name, written
    shared = ROOT.parent / "shared"
    for base in (shared / "cases", pathlib.Path(os.environ.get("GSHARD_CORPUS", shared / "corpus"))):
        if not base.is_dir():
            print(f"SKIPPED: {base.name} is absent")
            continue
        for path in sorted(base.glob("**/*")):
            is_program = path.suffix in (".hlo", ".mlir", ".pb", ".gz") or path.name.endswith(".compiled.txt")
            if is_program and path.is_file():
                yield f"{base.name}/{path.relative_to(base)}", path


class Check:
    def __init__(self, opt, timeout):
        self.opt, self.timeout = opt, timeout

    def run(self, command, text=None):
        """Exit code and output; the code is a word where it is none of 0 to 3."""
        try:
            done = subprocess.run([self.opt, *command], input=text, capture_output=True, timeout=self.timeout)
        except subprocess.TimeoutExpired:
            return "timeout", b"", b""
        code = done.returncode if 0 <= done.returncode <= 3 else f"exit {done.returncode}"
        return code, done.stdout, done.stderr

    def read(self, form, text):
        """What `print -` makes of the text; dims that StableHLO leaves open get a size."""
        sizes = []
        for _ in range(8):
            code, same, errors = self.run(["print", "-", *form, *sizes], text)
            wanted = re.search(rb"give it one: (--dim) (\S+)", errors)
            if code == 0 or wanted is None:
                break
            sizes += [word.decode() for word in wanted.groups()]
        return code, same, errors

    def problem_of(self, path, command):
        """What is wrong with what this command writes, "" if nothing is; None: it refuses the input."""
        code, text, errors = self.run([command[0], str(path), *command[1:]])
        # remat prints the best there is where the limit cannot be met.
        written = (0, 3) if command[0] == "remat" else (0,)
        if code in (1, 2) and errors:
            return None
        if code not in written:
            return f"{code}: {last_line(errors)}"
        form = [word for word in command[1:] if command[0] == "print" and word != "-n"]
        again, same, errors = self.read(form, text)
        if again != 0:
            # docs/stablehlo.md, "Writing", 7.
            if "stablehlo" in form and b"the results of a custom call have static types" in errors:
                return None
            return f"its output is not read, {again}: {first_line(errors)}"
        # What settles when it is read: names that several computations share, blank lines; in StableHLO the order of
        # constants and of what loops capture, and dead code.
        for _ in range(3 if "stablehlo" in form else 1):
            if same == text:
                return ""
            text = same
            code, same, errors = self.run(["print", "-", *form], text)
            if code != 0:
                return f"printed again it is not read, {code}: {first_line(errors)}"
        return "" if same == text else f"printed again it differs: {first_difference(text, same)}"

    def is_read(self, path):
        code, _, errors = self.run(["print", str(path)])
        if code in (0, 1) and (code == 0 or errors):
            return code == 0, ""
        return False, f"{code}: {last_line(errors)}"


def first_line(errors):
    return errors.decode(errors="replace").strip().split("\n")[0][:300]


def last_line(errors):
    return errors.decode(errors="replace").strip().split("\n")[-1][:300]


def first_difference(a, b):
    for x, y in zip(a.splitlines(), b.splitlines()):
        if x != y:
            return f"\n  {x[:300]!r}\n  {y[:300]!r}"
    return "one text is longer"


def is_taken(name, command, turns):
    return zlib.crc32(f"{name} {' '.join(command)}".encode()) % turns == 0


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("bin")
    parser.add_argument("--all", action="store_true")
    parser.add_argument("--only", action="append", default=[])
    parser.add_argument("--match", default="")
    arguments = parser.parse_args()
    opt = os.path.abspath(os.path.join(arguments.bin, "gshard-opt"))
    check = Check(opt, SECONDS * 10 if arguments.all else SECONDS)
    rest = options(opt)
    results, refused = tally.Tally(), 0

    def wanted(command):
        return not arguments.only or command[0] in arguments.only

    def check_input(name, path):
        size = path.stat().st_size
        if not arguments.all and size > LARGE:
            return []
        read, problem = check.is_read(path)
        found = [(name, problem)]
        if not read:
            return found
        commands = ALWAYS + rest
        if not arguments.all:
            turns = TURNS[size > SMALL]
            commands = [c for c in commands if (c in ALWAYS and size <= SMALL) or is_taken(name, c, turns)]
        return found + [(f"{name} {' '.join(c)}", check.problem_of(path, c)) for c in commands if wanted(c)]

    with tempfile.TemporaryDirectory() as folder, concurrent.futures.ThreadPoolExecutor(2) as pool:
        chosen = [(name, path) for name, path in inputs(pathlib.Path(folder)) if arguments.match in name]
        # A training step is a loss with its gradients: pipelines of these.
        for name, path in list(chosen):
            if name.startswith(("pipeline/", "grad/")):
                step = path.with_suffix(".grad.hlo")
                code, text, _ = check.run(["grad", str(path)])
                if code == 0:
                    step.write_bytes(text)
                    chosen.append((f"grad of {name}", step))
        for found in pool.map(lambda pair: check_input(*pair), chosen):
            for name, problem in found:
                if problem is None:
                    refused += 1
                else:
                    results.check(name, problem)
    print(f"{refused} commands refuse their input, with exit code 1 or 2 and a message")
    return results.finish()


if __name__ == "__main__":
    sys.exit(main())
