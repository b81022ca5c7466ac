"""What must hold for the texts of one version of JAX that programs.py has written to a folder; see `judge`."""
import glob
import gzip
import os
import subprocess

PROGRAMS = ("step", "exchange", "lookup")


def run(commands, *arguments, **options):
    done = subprocess.run([os.path.join(commands, arguments[0]), *arguments[1:]], capture_output=True, text=True, **options)
    return done.returncode, done.stdout, done.stderr.strip()[:300]


def text_of(path):
    with (gzip.open(path, "rt") if path.endswith(".gz") else open(path)) as file:
        return file.read()


def problem_of_print(commands, path):
    """What is printed is read again and printed alike."""
    code, once, errors = run(commands, "gshard-opt", "print", path)
    if code:
        return errors
    code, twice, errors = run(commands, "gshard-opt", "print", "-", input=once)
    return errors if code else "" if once == twice else "another text when printed again"


def problem_of_verdict(commands, wanted, *arguments):
    code, out, errors = run(commands, "gshard-run", *arguments)
    return "" if code == wanted else f"exit code {code}, not {wanted}: {errors or out[-300:]}"


def judge(commands, folder, work):
    """(name of the check, what is wrong or nothing) of each: default print and HLO text are printed, partitioned and verified;
    compiled text is printed and judged by the default print, and what it computes otherwise is seen."""
    for name in PROGRAMS:
        for ending in ("mlir", "hlo"):
            path = os.path.join(folder, f"{name}.{ending}")
            yield f"{name}.{ending} is printed", problem_of_print(commands, path)
            code, _, errors = run(commands, "gshard-opt", "partition", path, "-n", "8", "-o", os.path.join(work, "out.hlo"))
            yield f"{name}.{ending} is partitioned", errors if code else ""
            yield f"{name}.{ending} is right", problem_of_verdict(commands, 0, path, "-n", "8", "--verify")
        compiled = glob.glob(os.path.join(folder, f"{name}.compiled.txt*"))[0]
        reference = os.path.join(folder, f"{name}.mlir")
        yield f"{name}.compiled is printed", problem_of_print(commands, compiled)
        yield f"{name}.compiled is right", problem_of_verdict(commands, 0, compiled, "--reference", reference, "--verify")
    text = text_of(glob.glob(os.path.join(folder, "step.compiled.txt*"))[0])
    wrong = os.path.join(work, "wrong.txt")
    with open(wrong, "w") as out:
        out.write(text.replace("constant(2.5)", "constant(3.5)"))
    yield "another step size is seen", problem_of_verdict(
        commands, 3, wrong, "--reference", os.path.join(folder, "step.mlir"), "--verify")
