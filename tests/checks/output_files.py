"""Every file the programs write: whole or not at all, also on a full disk and at Ctrl-C.

usage: output_files.py BIN_DIR, from the top of the checkout
"""
import os
import pathlib
import signal
import subprocess
import sys
import tempfile
import time

# A script that runs in the background has SIGINT ignored, and its children inherit that.
signal.signal(signal.SIGINT, signal.default_int_handler)

BIN = os.path.abspath(sys.argv[1])
OPT, COST, RUN = (os.path.join(BIN, "gshard-" + name) for name in ("opt", "cost", "run"))
MLP = os.path.abspath("samples/mlp.hlo")
# Each writer: a command to which the file's name is appended.
WRITERS = {
    "print -o": [OPT, "print", MLP, "-o"],
    "propagate --report": [OPT, "propagate", MLP, "-n", "8", "-o", "/dev/null", "--report"],
    "partition --report": [OPT, "partition", MLP, "-n", "8", "-o", "/dev/null", "--report"],
    "partition --time-passes": [OPT, "partition", MLP, "-n", "8", "-o", "/dev/null", "--time-passes="],
    "cost -o": [COST, MLP, "-n", "8", "-o"],
    "cost --html": [COST, MLP, "-n", "8", "-o", "/dev/null", "--html"],
    "cost --trace": [COST, MLP, "-n", "8", "-o", "/dev/null", "--trace"],
    "cost --write-budget": [COST, MLP, "-n", "8", "-o", "/dev/null", "--write-budget"],
    "sweep -o": [COST, "sweep", MLP, "--mesh", "data=2..4", "-o"],
    "auto --html": [OPT, "auto", MLP, "--mesh", "data=2", "--keep", "none", "-o", "/dev/null", "--html"],
    "sweep --html": [COST, "sweep", MLP, "--mesh", "data=2..4", "-o", "/dev/null", "--html"],
    "diff -o": [COST, "diff", MLP, MLP, "-n", "8", "-o"],
    "run --output": [RUN, MLP, "-n", "8", "--output"],
    "run --trace": [RUN, MLP, "-n", "8", "--trace"],
    "run --dump": [RUN, MLP, "-n", "8", "--dump", "x="],
}
passed = failed = 0


def check(truth, what):
    global passed, failed
    passed, failed = passed + bool(truth), failed + (not truth)
    if not truth:
        print("FAIL", what)


def run(words, **options):
    return subprocess.run([str(word) for word in words], capture_output=True, text=True, **options)


def to(command, path):
    """The command with the file's name: a word of its own, or behind the "="."""
    return command[:-1] + [command[-1] + str(path)] if command[-1].endswith("=") else command + [path]


def name_of_first_parameter():
    text = open(MLP).read()
    entry = text[text.index("ENTRY"):]
    line = next(line for line in entry.splitlines() if " parameter(" in line)
    return line.split("=")[0].strip().lstrip("%")


def check_writer(name, command, folder):
    plain, real, link = folder / "plain", folder / "real", folder / "link"
    done = run(to(command, plain))
    check(done.returncode == 0 and plain.stat().st_size > 0, f"{name}: exit {done.returncode}: {done.stderr}")
    check(plain.stat().st_mode & 0o777 == 0o666 & ~UMASK, f"{name}: mode {plain.stat().st_mode:o}")
    real.write_text("old")
    real.chmod(0o640)
    link.symlink_to("real")
    check(run(to(command, link)).returncode == 0, f"{name}: to a symlink")
    check(real.stat().st_size > len("old"), f"{name}: the symlink is followed")
    check(link.is_symlink(), f"{name}: the symlink stays")
    check(real.stat().st_mode & 0o777 == 0o640, f"{name}: the mode stays")
    done = run(to(command, "/dev/full"))
    check(done.returncode == 1 and "/dev/full" in done.stderr, f"{name}: /dev/full: exit {done.returncode}: {done.stderr}")
    check(pathlib.Path("/dev/full").is_char_device(), f"{name}: /dev/full is replaced")
    done = run(to(command, folder / "none" / "file"))
    check(done.returncode == 1 and "none/file" in done.stderr, f"{name}: no folder: exit {done.returncode}")
    left = {path.name for path in folder.iterdir()} - {"plain", "real", "link"}
    check(not left, f"{name}: leaves {left} behind")


def check_two_outputs(folder):
    same = folder / "same"
    cases = [
        [OPT, "partition", MLP, "-n", "8", "-o", same, "--report", same],
        [COST, MLP, "-n", "8", "-o", same, "--html", f"{folder}/./same"],
        [RUN, MLP, "-n", "8", "--output", same, "--trace", same],
        [RUN, MLP, "-n", "8", "--dump", f"{PARAMETER}={same}", "--dump", f"{PARAMETER}={same}"],
    ]
    for words in cases:
        done = run(words)
        check(done.returncode == 2 and "already" in done.stderr, f"two outputs: {done.returncode}: {done.stderr}")
        check(not same.exists(), "two outputs: nothing is written")
    done = run([OPT, "partition", MLP, "-n", "8", "-o", "/dev/null", "--report", "/dev/null"])
    check(done.returncode == 0, "/dev/null may be named twice")


def check_full_standard_output():
    """Whatever goes there: exit code 1, and the reason."""
    programs = [OPT, COST, RUN]
    commands = [[program, flag] for program in programs for flag in ("--help", "--version")]
    commands += [[OPT, name, *flags] for name in ("list-ops", "list-passes") for flags in ([], ["--json"])]
    commands += [[OPT, "print", "--help"], [OPT, "print", MLP], [OPT, "check", MLP], [OPT, "show", MLP, "x"],
                 [OPT, "explain", MLP, "x"], [COST, MLP], [RUN, MLP], [RUN, MLP, "--json"],
                 [RUN, MLP, "--json", "--memory-limit", "5000"], [COST, "/none", "--json"]]
    for words in commands:
        with open("/dev/full", "w") as full:
            done = subprocess.run(words, stdout=full, stderr=subprocess.PIPE, text=True)
        what = " ".join(os.path.basename(word) for word in words)
        check(done.returncode == 1, f"{what} to a full standard output: exit {done.returncode}")
        check("writing standard output failed" in done.stderr, f"{what} to a full standard output: {done.stderr!r}")


def deep_program(lines):
    body = "\n".join(f"  x{i} = f32[8,128] negate(x{i - 1})" for i in range(1, lines))
    return f"HloModule m\nENTRY e {{\n  x0 = f32[8,128] parameter(0)\n{body}\n  ROOT r = f32[8,128] add(x1, x{lines - 1})\n}}\n"


def check_interrupts(folder):
    """Ctrl-C at many moments: 130 (or done), and no file but a whole one."""
    program = folder / "deep.hlo"
    program.write_text(deep_program(20000))
    out = folder / "out"
    whole = None
    for words in ([OPT, "propagate", program, "-o", out], [COST, program, "-o", out], [RUN, program, "--output", out]):
        begin = time.time()
        check(run(words).returncode == 0, f"{words[0]} runs")
        lasts, whole = time.time() - begin, out.read_bytes()
        out.unlink()
        seen = set()
        for k in range(1, 13):
            process = subprocess.Popen([str(w) for w in words], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
            time.sleep(lasts * k / 10)
            process.send_signal(signal.SIGINT)
            _, error = process.communicate(timeout=30)
            seen.add(process.returncode)
            # Before main has come to it, Ctrl-C is the system's: then nothing is written.
            check(process.returncode in (0, 130) or (process.returncode == -signal.SIGINT and not out.exists()),
                  f"{words[0]}: {process.returncode} after {k}/10: {error}")
            left = {path.name for path in folder.iterdir()} - {"deep.hlo", "out"}
            check(not left, f"{words[0]}: Ctrl-C leaves {left}")
            if out.exists():
                check(len(out.read_bytes()) == len(whole), f"{words[0]}: a part of the file")
                out.unlink()
        check(130 in seen, f"{words[0]}: Ctrl-C is never heard")


UMASK = os.umask(0)
os.umask(UMASK)
PARAMETER = name_of_first_parameter()
WRITERS["run --dump"][-1] = PARAMETER + "="
for writer, words in WRITERS.items():
    with tempfile.TemporaryDirectory() as place:
        check_writer(writer, words, pathlib.Path(place))
with tempfile.TemporaryDirectory() as place:
    check_two_outputs(pathlib.Path(place))
check_full_standard_output()
with tempfile.TemporaryDirectory() as place:
    check_interrupts(pathlib.Path(place))
print(f"{passed} passed, {failed} failed")
sys.exit(failed > 0)
