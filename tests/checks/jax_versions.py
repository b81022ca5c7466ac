"""Texts of JAX 0.4.26 to 0.10 that are kept in tests/versions are read, printed, partitioned, verified and judged."""
import glob
import os
import sys
import tempfile

sys.path.insert(0, "tests/versions")
from judge import judge


def main():
    commands = os.path.abspath(sys.argv[1])
    passed = failed = 0
    for folder in sorted(glob.glob("tests/versions/[0-9]*")):
        with tempfile.TemporaryDirectory() as work:
            for name, problem in judge(commands, folder, work):
                if problem:
                    print(f"FAILED {os.path.basename(folder)}: {name}: {problem}")
                failed, passed = failed + bool(problem), passed + (not problem)
    print(f"{passed} passed, {failed} failed")
    sys.exit(1 if failed or not passed else 0)


main()
