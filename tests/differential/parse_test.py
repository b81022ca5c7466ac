"""What gshard-opt prints, XLA's own parser takes: samples, a line of every opcode, the corpus.

For every program: print is a fixpoint, and XLA accepts the print; of samples and the corpus also the propagated and the
partitioned text. An opcode that XLA has not fails here, in the words of XLA.
"""
import glob
import os
import subprocess
import tempfile

import samples
import xla
from tally import Tally

CORPUS = os.environ.get("GSHARD_CORPUS", "")
# A line of every opcode (tests/unit/ir/attribute_table_test.cc asks for it): opcodes are XLA's, attributes too.
EVERY_OPCODE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "golden", "parse")


def gshard(*arguments):
    """(exit code, standard error) of gshard-opt."""
    done = subprocess.run(["gshard-opt", *arguments], capture_output=True, text=True)
    return done.returncode, done.stderr.strip()[:300]


def check_print(tally, path, work):
    first, second = os.path.join(work, "first.hlo"), os.path.join(work, "second.hlo")
    code, errors = gshard("print", path, "-o", first)
    if code:
        return tally.check(f"print {path}", errors)
    code, errors = gshard("print", first, "-o", second)
    same = not code and open(first).read() == open(second).read()
    tally.check(f"print is a fixpoint: {path}", "" if same else errors or "the second print differs")
    tally.check(f"XLA takes the print of {path}", xla.parse_error(open(first).read()))


def check_every_opcode(tally, work):
    for path in sorted(glob.glob(os.path.join(EVERY_OPCODE, "*.hlo"))):
        for number, piece in enumerate(open(path).read().split("// -----\n"), 1):
            program = os.path.join(work, f"{os.path.basename(path)[:-4]}_{number}.hlo")
            with open(program, "w") as out:
                out.write(piece)
            check_print(tally, program, work)


def check_stage(tally, stage, path, work, *flags):
    out = os.path.join(work, "out.hlo")
    code, errors = gshard(stage, path, "-o", out, *flags)
    problem = errors if code else xla.parse_error(open(out).read())
    tally.check(f"XLA takes what {stage} makes of {path}", problem)


def main():
    tally = Tally()
    with tempfile.TemporaryDirectory() as work:
        corpus = sorted(glob.glob(os.path.join(CORPUS, "*.hlo")))
        if not corpus:
            print("SKIPPED: the corpus (GSHARD_CORPUS) is absent")
        for path in corpus + sorted(glob.glob(os.path.join(samples.SAMPLES, "*.hlo"))):
            check_print(tally, path, work)
        check_every_opcode(tally, work)
        for path in corpus:
            if "llama31_70b" in path or "intel_cpu_mha" in path:
                continue  # partitioned already; no shardings
            check_stage(tally, "propagate", path, work)
            check_stage(tally, "partition", path, work)
        for name, rules, meshes in samples.GENERATED:
            path = os.path.join(work, rules + ".hlo")
            problem = samples.annotate(name, rules, meshes[-1], path)
            tally.check(f"annotate {rules}", problem)
            if not problem:
                check_stage(tally, "propagate", path, work)
                check_stage(tally, "partition", path, work)
    tally.finish()


if __name__ == "__main__":
    main()
