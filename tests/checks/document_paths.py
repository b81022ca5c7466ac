"""Paths of this repository that documents and comments name are there.

usage: document_paths.py, from the top of the checkout

Looked at: *.md, and the comments of *.h, *.cc and *.def. A name without its ending stands for a header or a source (core/json);
names with *, .., <..> or {..}, and file names in capitals (samples/X.hlo) are patterns.
"""
import pathlib
import re
import subprocess
import sys

FOLDERS = ["ir", "core", "backends", "cmd", "tests", "docs", "samples"]
PATH = re.compile(r"(?<![\w/.@-])((?:%s)/[\w./*{}<>,-]*\w/?)" % "|".join(FOLDERS))


def main():
    files = subprocess.check_output(["git", "ls-files", "--cached", "--others", "--exclude-standard"], text=True).split()
    known = {str(parent) for name in files for parent in pathlib.PurePosixPath(name).parents}
    known |= set(files) | {name.rsplit(".", 1)[0] for name in files if name.endswith((".h", ".cc"))}
    looked, missing = 0, []
    for name in files:
        is_code = name.endswith((".h", ".cc", ".def"))
        if not is_code and not name.endswith(".md"):
            continue
        for number, line in enumerate(pathlib.Path(name).read_text(errors="replace").split("\n"), 1):
            if is_code:
                line = line[line.find("//"):] if "//" in line else ""
            for match in PATH.finditer(line):
                path = match.group(1).rstrip("/")
                rest = line[match.end():match.end() + 1]
                is_pattern = any(c in path for c in "*{}<>,") or ".." in path or rest in ("<", "{", "*")
                if is_pattern or pathlib.PurePosixPath(path).stem.isupper():
                    continue
                looked += 1
                if path not in known:
                    missing.append(f"{name}:{number}: there is no {path}")
    print("\n".join(missing + [f"{looked} paths looked at, {len(missing)} not there"]))
    sys.exit(1 if missing or looked < 500 else 0)


if __name__ == "__main__":
    main()
