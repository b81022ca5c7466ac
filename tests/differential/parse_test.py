"""What gshard-opt prints, XLA's own parser takes: samples, golden inputs and the corpus.

For every file: print is a fixpoint, and XLA accepts the print, the propagated and the partitioned text.
"""
import glob
import os
import subprocess
import tempfile

import samples
import xla
from tally import Tally

CORPUS = os.environ.get("GSHARD_CORPUS", "")


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
