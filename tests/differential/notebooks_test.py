"""Runs the notebooks of samples/notebooks cell by cell, as Jupyter would, and compares what the cells print with the outputs that are
stored. GSHARD_UPDATE=1 stores those that are seen. Needs jax; no Jupyter.

usage: notebooks_test.py [NOTEBOOK…]
"""
import contextlib
import io
import json
import os
import pathlib
import sys
import traceback

TOP = pathlib.Path(__file__).resolve().parents[2]
FOLDER = TOP / "samples" / "notebooks"
UPDATE = "GSHARD_UPDATE" in os.environ
sys.path[:0] = [str(TOP / "packaging/python"), str(TOP / "tests/differential")]
os.environ.setdefault("GSHARD_BIN", str(TOP / "build/ci/cmd"))
os.environ["JAX_PLATFORMS"] = "cpu"

from tutorial_test import plain  # noqa: E402  # without times and rounding errors


def run(path):
    """(passed, failed)"""
    notebook = json.loads(path.read_text())
    names, passed, failed = {"__name__": "__main__"}, 0, 0
    for number, cell in enumerate(notebook["cells"]):
        if cell["cell_type"] != "code":
            continue
        printed = io.StringIO()
        try:
            with contextlib.redirect_stdout(printed):
                exec(compile("".join(cell["source"]), f"{path.name}[{number}]", "exec"), names)
        except Exception:
            print(f"FAIL {path.name}, cell {number}\n{traceback.format_exc()}")
            return passed, failed + 1
        stored = "".join(line for output in cell["outputs"] for line in output["text"])
        if plain(stored) != plain(printed.getvalue()) and not UPDATE:
            failed += 1
            print(f"FAIL {path.name}, cell {number}\n--- stored\n{stored}--- it prints\n{printed.getvalue()}---")
        passed += 1
        lines = printed.getvalue().splitlines(keepends=True)
        cell["outputs"] = [{"name": "stdout", "output_type": "stream", "text": lines}] if lines else []
        cell["execution_count"] = passed
    if UPDATE:
        path.write_text(json.dumps(notebook, indent=1, ensure_ascii=False) + "\n")
    return passed, failed


def main():
    os.chdir(FOLDER)
    passed = failed = 0
    for name in sys.argv[1:] or sorted(path.name for path in FOLDER.glob("*.ipynb")):
        good, bad = run(FOLDER / name)
        passed, failed = passed + good, failed + bad
    if not passed:
        print("FAIL there are no notebooks")
        failed += 1
    print(f"{passed} passed, {failed} failed")
    return failed != 0


if __name__ == "__main__":
    sys.exit(main())
