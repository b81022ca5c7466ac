"""Runs the commands of docs/tutorial.md as a reader would, and compares what they print with what the tutorial shows.

Blocks ```python NAME are files; in blocks ```console a line "$ …" is a command, the lines after it its output. All run in one
folder. Times, rates and rounding errors are not compared. GSHARD_UPDATE=1 writes the outputs seen into the tutorial.

The three programs are found on PATH or in build/ci/cmd; `python` is the interpreter that runs this.
"""
import os
import pathlib
import re
import subprocess
import sys
import tempfile

TOP = pathlib.Path(__file__).resolve().parents[2]
TUTORIAL = TOP / "docs" / "tutorial.md"
UPDATE = "GSHARD_UPDATE" in os.environ


def plain(text):
    """Without what differs from run to run and from machine to machine."""
    text = re.sub(r"\b[\d.]+(e[-+]?\d+)? ?(ns|us|ms|s|GFLOP/s|MFLOP/s)\b", "#", text)
    text = re.sub(r"\b\d+(\.\d+)?e-\d+\b", "#", text)
    text = re.sub(r"on \d+ threads?", "on # threads", text)
    text = re.sub(r"[\d.]+ [KMG]iB in all", "# in all", text)
    text = re.sub(r"^machine .*\n?", "", text, flags=re.M)
    text = re.sub(r"^growth .*\n?", "", text, flags=re.M)
    text = re.sub(r"error # at \S+", "error # at #", text)
    return re.sub(r"[ \t]+", " ", text).strip()


def run(command, folder):
    environment = dict(os.environ)
    environment["PATH"] = os.pathsep.join([os.path.dirname(sys.executable), str(TOP / "build/ci/cmd"), environment["PATH"]])
    done = subprocess.run(["bash", "-o", "pipefail", "-c", command], cwd=folder, env=environment, text=True,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    # Sources are named by their whole paths.
    return done.returncode, done.stdout.replace(str(folder) + "/", "")


def main():
    passed = failed = 0
    written = []
    with tempfile.TemporaryDirectory() as folder:
        folder = os.path.realpath(folder)
        blocks = re.split(r"^(```.*?^```\n)", TUTORIAL.read_text(), flags=re.M | re.S)
        for block in blocks:
            if block.startswith("```python "):
                first, body = block.split("\n", 1)
                pathlib.Path(folder, first.split()[1]).write_text(body[:-len("```\n")])
            if not block.startswith("```console\n"):
                written.append(block)
                continue
            seen = "```console\n"
            for entry in re.split(r"^(?=\$ )", block[len("```console\n"):-len("```\n")], flags=re.M):
                command, _, expected = entry.partition("\n")
                if not command:
                    continue
                code, output = run(command[2:], folder)
                seen += command + "\n" + output
                if code != 0 or (plain(output) != plain(expected) and not UPDATE):
                    failed += 1
                    print(f"FAIL {command}\nexit code {code}\n--- the tutorial shows\n{expected}--- it prints\n{output}---")
                else:
                    passed += 1
            written.append(seen + "```\n")
    if UPDATE:
        TUTORIAL.write_text("".join(written))
    if not passed:
        print("FAIL the tutorial has no commands")
        failed += 1
    print(f"{passed} passed, {failed} failed")
    return failed != 0


if __name__ == "__main__":
    sys.exit(main())
