"""Texts of the newest JAX that this Python can install are read, printed, partitioned, verified and judged (tests/versions/judge.py).

Makes a virtual environment for it; skipped where the package index cannot be reached. GSHARD_NEWEST_JAX: a Python that has it.
"""
import os
import shutil
import subprocess
import sys
import tempfile

from tally import Tally

HERE = os.path.dirname(os.path.abspath(__file__))
VERSIONS = os.path.join(HERE, "..", "versions")
sys.path.insert(0, VERSIONS)
from judge import judge


def python_with_newest(folder):
    """Its path; nothing if it could not be installed."""
    if os.environ.get("GSHARD_NEWEST_JAX"):
        return os.environ["GSHARD_NEWEST_JAX"]
    subprocess.run([sys.executable, "-m", "venv", folder], check=True)
    python = os.path.join(folder, "bin", "python")
    done = subprocess.run([python, "-m", "pip", "install", "-q", "--upgrade", "jax"], capture_output=True, text=True)
    return python if done.returncode == 0 else None


def main():
    tally = Tally()
    with tempfile.TemporaryDirectory() as work:
        python = python_with_newest(os.path.join(work, "venv"))
        if python is None:
            print("SKIPPED: the newest JAX could not be installed")
            tally.finish()
        texts = os.path.join(work, "texts")
        done = subprocess.run([python, os.path.join(VERSIONS, "programs.py"), texts], capture_output=True, text=True)
        tally.check("programs are printed", done.stderr[-300:] if done.returncode else "")
        if done.returncode == 0:
            version = done.stdout.strip()
            print(f"JAX {version}")
            commands = os.path.dirname(shutil.which("gshard-opt"))
            for name, problem in judge(commands, texts, work):
                tally.check(f"{version}: {name}", problem)
    tally.finish()


if __name__ == "__main__":
    main()
