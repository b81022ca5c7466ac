#!/usr/bin/env python3
"""Puts the libraries that the programs of a wheel need into it, so that it runs on any Linux.

usage: portable_wheel.py IN.whl OUT_DIR [--tag manylinux_2_17_x86_64]

The usual tool, auditwheel, leaves out the C library, so its wheels run on systems no older than the one they were built on.
Here the C library and its dynamic loader go in as well; the entry points start the programs by this loader
(packaging/python/gshard/_programs.py), so nothing of the system's is used but the kernel, and the wheel may say that it runs on
every glibc. The licences of the libraries lie in the wheel beside its own.

The same input gives the same bytes: files are in order, and their time is SOURCE_DATE_EPOCH, or 1980.
"""
import argparse
import base64
import hashlib
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import time
import zipfile


def output_of(*command):
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def libraries_of(program):
    """(name, path) of each shared library that the program loads, its loader among them."""
    for line in output_of("ldd", str(program)).splitlines():
        if "not found" in line:
            sys.exit(f"{program}: {line.strip()}")
        found = re.match(r"\s*(?:(\S+) => )?(/\S+) \(0x", line)
        if found:
            name = found.group(1) or found.group(2)
            yield pathlib.Path(name).name, pathlib.Path(found.group(2)).resolve()


def licence_of(library):
    """The file with the licence of the Debian package that a library is of; None on other systems."""
    for path in (str(library), str(library).removeprefix("/usr")):
        done = subprocess.run(["dpkg", "-S", path], capture_output=True, text=True, check=False)
        if done.returncode == 0:
            package = done.stdout.split(":")[0]
            return package, pathlib.Path("/usr/share/doc") / package / "copyright"
    return None


def bundle(root):
    """Fills gshard/lib; returns the names of the libraries."""
    package = root / "gshard"
    folder = package / "lib"
    folder.mkdir(exist_ok=True)
    [info] = root.glob("*.dist-info")
    licences = info / "licenses" / "libraries"
    licences.mkdir(parents=True, exist_ok=True)
    names = set()
    for program in sorted((package / "bin").iterdir()):
        program.chmod(0o755)
        for name, library in libraries_of(program):
            if name in names:
                continue
            names.add(name)
            if library.parent == folder.resolve():
                continue  # the programs' own
            shutil.copyfile(library, folder / name)
            (folder / name).chmod(0o755)
            subprocess.run(["strip", "--strip-unneeded", str(folder / name)], check=True)
            found = licence_of(library)
            if found and found[1].exists():
                shutil.copyfile(found[1], licences / f"{found[0]}.txt")
    return sorted(names)


def retag(root, tag):
    [info] = root.glob("*.dist-info")
    file = info / "WHEEL"
    lines = [line for line in file.read_text().splitlines() if line and not line.startswith("Tag: ")]
    lines += [f"Tag: py3-none-{each}" for each in tag.split(".")]
    file.write_text("\n".join(lines) + "\n")
    return info


def record(root, info):
    """RECORD: each file with its hash and size."""
    lines = []
    for path in sorted(root.rglob("*")):
        if path.is_file() and path != info / "RECORD":
            digest = base64.urlsafe_b64encode(hashlib.sha256(path.read_bytes()).digest()).rstrip(b"=").decode()
            lines.append(f"{path.relative_to(root).as_posix()},sha256={digest},{path.stat().st_size}\n")
    own = (info / "RECORD").relative_to(root).as_posix()
    (info / "RECORD").write_text("".join(lines) + f"{own},,\n")


def pack(root, target):
    when = time.gmtime(max(int(os.environ.get("SOURCE_DATE_EPOCH", "0")), 315532800))[:6]
    with zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED, compresslevel=9) as archive:
        for path in sorted(root.rglob("*")):
            if path.is_file():
                entry = zipfile.ZipInfo(path.relative_to(root).as_posix(), when)
                entry.external_attr = (0o100755 if os.access(path, os.X_OK) else 0o100644) << 16
                entry.compress_type = zipfile.ZIP_DEFLATED
                archive.writestr(entry, path.read_bytes(), compresslevel=9)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("wheel", type=pathlib.Path)
    parser.add_argument("out", type=pathlib.Path)
    parser.add_argument("--tag", default="manylinux_2_17_x86_64.manylinux2014_x86_64")
    parser.add_argument("--at-most", type=float, default=25, help="MB that the wheel may have")
    flags = parser.parse_args()
    flags.out.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as work:
        root = pathlib.Path(work)
        with zipfile.ZipFile(flags.wheel) as archive:
            archive.extractall(root)
            for entry in archive.infolist():
                if entry.external_attr >> 16 & 0o111:
                    (root / entry.filename).chmod(0o755)
        names = bundle(root)
        record(root, retag(root, flags.tag))
        name, version = flags.wheel.name.split("-")[:2]
        target = flags.out / f"{name}-{version}-py3-none-{flags.tag}.whl"
        pack(root, target)
    megabytes = target.stat().st_size / 1e6
    print(f"{target}: {megabytes:.1f} MB, with {', '.join(names)}")
    if megabytes > flags.at_most:
        sys.exit(f"more than {flags.at_most:g} MB")


if __name__ == "__main__":
    main()
