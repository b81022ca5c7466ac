"""Runs the commands of README.md, docs/tour.md, docs/tutorial.md, docs/auto.md and docs/xla.md as a reader would, and compares
what they print with what stands there.

Blocks ```python NAME are files; in blocks ```console a line "$ …" is a command, the lines after it its output. All blocks of a
document run in one folder, in which samples/ is. Times, rates and rounding errors are not compared. Blocks ```sh install or take
long: of these the scripts must be there. GSHARD_UPDATE=1 writes the outputs seen into the documents.

usage: tutorial_test.py [DOCUMENT…]. The three programs are found on PATH or in build/ci/cmd; `python` is the interpreter that
runs this.
"""
import os
import pathlib
import re
import subprocess
import sys
import tempfile

TOP = pathlib.Path(__file__).resolve().parents[2]
DOCUMENTS = ["README.md", "docs/tour.md", "docs/tutorial.md", "docs/auto.md", "docs/xla.md"]
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
    text = re.sub(r"\(# relative, \S+\)", "(# relative, #)", text)  # of which result
    text = re.sub(r"^bash: line \d+: +\d+ ", "bash: ", text, flags=re.M)
    return re.sub(r"[ \t]+", " ", text).strip()


def run(command, folder):
    environment = dict(os.environ)
    environment["PYTHONPATH"] = str(TOP / "packaging/python")
    environment["GSHARD_BIN"] = str(TOP / "build/ci/cmd")
    environment["PATH"] = os.pathsep.join([os.path.dirname(sys.executable), str(TOP / "build/ci/cmd"), environment["PATH"]])
    done = subprocess.run(["bash", "-o", "pipefail", "-c", command], cwd=folder, env=environment, text=True,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    # Sources are named by their whole paths.
    return done.returncode, done.stdout.replace(str(folder) + "/", "")


def scripts_of(block):
    """The paths of this checkout that commands of a block start with."""
    words = [line.split()[0] for line in block.split("\n")[1:-2] if line and not line.startswith(" ")]
    return [word for word in words if "/" in word and not word.startswith(("~", "."))]


def check_document(document):
    """(passed, failed, the text as it is to be)"""
    passed = failed = 0
    written = []
    codes = (0, 3) if document.name == "xla.md" else (0,)  # 3: gshard-run says MISMATCH, as it is shown
    with tempfile.TemporaryDirectory() as folder:
        folder = os.path.realpath(folder)
        os.symlink(TOP / "samples", os.path.join(folder, "samples"))
        os.symlink(TOP / "tests", os.path.join(folder, "tests"))
        for block in re.split(r"^(```.*?^```\n)", document.read_text(), flags=re.M | re.S):
            if block.startswith("```python "):
                first, body = block.split("\n", 1)
                pathlib.Path(folder, first.split()[1]).write_text(body[:-len("```\n")])
            if block.startswith("```sh\n"):
                missing = [script for script in scripts_of(block) if not (TOP / script).exists()]
                failed += len(missing)
                for script in missing:
                    print(f"FAIL {document.name}: no {script}")
            if not block.startswith("```console\n"):
                written.append(block)
                continue
            seen = "```console\n"
            for entry in re.split(r"^(?=\$ )", block[len("```console\n"):-len("```\n")], flags=re.M):
                command, _, expected = entry.partition("\n")
                if not command:
                    continue
                while command.endswith("\\"):
                    more, _, expected = expected.partition("\n")
                    command += "\n" + more
                code, output = run(command[2:], folder)
                seen += command + "\n" + output
                if code not in codes or (plain(output) != plain(expected) and not UPDATE):
                    failed += 1
                    print(f"FAIL {document.name}: {command}\nexit code {code}\n--- it shows\n{expected}--- it prints\n{output}---")
                else:
                    passed += 1
            written.append(seen + "```\n")
    if not passed:
        print(f"FAIL {document.name} has no commands")
        failed += 1
    return passed, failed, "".join(written)


def main():
    passed = failed = 0
    for name in sys.argv[1:] or DOCUMENTS:
        document = TOP / name
        good, bad, text = check_document(document)
        passed, failed = passed + good, failed + bad
        if UPDATE:
            document.write_text(text)
    print(f"{passed} passed, {failed} failed")
    return failed != 0


if __name__ == "__main__":
    sys.exit(main())
