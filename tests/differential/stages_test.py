"""The text of each stage inside XLA's compiler: what it dumps after each pass of its own and of Shardy's, as users have it.

  python tests/differential/stages_test.py [PROGRAM ..]     programs of compiled_programs.py; without: four of them

Each dump is read, and run: those before the partitioner with --verify, those after it with the first dump as their --reference.
"""
import glob
import os
import re
import subprocess
import sys
import tempfile

from tally import Tally

PROGRAMS = "gpt", "moe", "manual", "loop_with_zeros"
DUMP = "import sys; sys.path.insert(0, {here!r}); import compiled_programs; compiled_programs.dump({name!r}, {folder!r})"
HERE = os.path.dirname(os.path.abspath(__file__))
# XLA's partitioner gives the entry this name.
PARTITIONED = re.compile(r"^ENTRY \S*_spmd ", re.MULTILINE)


def problem_of(path, is_partitioned, before):
    """What is wrong with one dump; empty: nothing."""
    command = ["gshard-run", path, "--verify"]
    command += ["--reference", before] if is_partitioned else ["-n", "8"]
    done = subprocess.run(command, capture_output=True, text=True)
    return (done.stderr + done.stdout).strip()[-400:] if done.returncode else ""


def check(tally, name, folder):
    flags = (f"--xla_force_host_platform_device_count=8 --xla_dump_to={folder} --xla_dump_hlo_as_text "
             "--xla_dump_hlo_pass_re=.*")
    done = subprocess.run([sys.executable, "-c", DUMP.format(here=HERE, name=name, folder=folder)],
                          env=dict(os.environ, XLA_FLAGS=flags, JAX_PLATFORMS="cpu"), capture_output=True, text=True)
    if done.returncode:
        return tally.check(f"{name} compiles", done.stderr.strip()[-300:])
    before = glob.glob(os.path.join(folder, "*jit_program.before_optimizations.txt"))[0]
    stages = sorted(glob.glob(os.path.join(folder, "*jit_program.0*.txt")))
    shardy = sorted(glob.glob(os.path.join(folder, "shardy", "*jit_program*", "*.mlir")))
    seen = {}
    for path in stages + shardy:
        with open(path) as file:
            seen.setdefault(file.read(), path)  # most passes change nothing
    made = {path: bool(PARTITIONED.search(text)) for text, path in seen.items()}
    # A check that saw only one side of the partitioner, or no dump of Shardy's, would be none.
    tally.check(f"{name}: dumps of all stages", "" if shardy and len(set(made.values())) == 2 else f"{len(made)} dumps")
    for path, is_partitioned in made.items():
        tally.check(f"{name}: {os.path.relpath(path, folder)}", problem_of(path, is_partitioned, before))


def main():
    tally = Tally()
    for name in sys.argv[1:] or PROGRAMS:
        with tempfile.TemporaryDirectory() as folder:
            check(tally, name, folder)
    tally.finish()


if __name__ == "__main__":
    main()
