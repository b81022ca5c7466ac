"""The three programs: where they are, and one run of one of them."""

from __future__ import annotations

import json
import os
import pathlib
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NoReturn

from .errors import InputError, InternalError, ProgramNotFound, UsageError

_PACKAGE = pathlib.Path(__file__).resolve().parent


def command_of(program: str) -> list[str]:
    """The words that start `program`, such as "gshard-cost".

    The folder in the environment variable GSHARD_BIN comes first, then the programs inside of the
    wheel, then those on PATH. The wheel may have a dynamic loader and a C library of its own, which
    are older systems' way to run programs that were built on a newer one.

    Raises:
      ProgramNotFound: if there is no such program in any of these places.
    """
    folder = os.environ.get("GSHARD_BIN")
    if folder:
        path = pathlib.Path(folder) / program
        if not path.exists():
            raise ProgramNotFound(f"there is no {program} in {folder}, which GSHARD_BIN names")
        return [str(path)]
    path = _PACKAGE / "bin" / program
    if path.exists():
        libraries = _PACKAGE / "lib"
        loaders = sorted(libraries.glob("ld-linux*"))
        if loaders:
            return [str(loaders[0]), "--inhibit-cache", "--library-path", str(libraries), "--argv0", program, str(path)]
        return [str(path)]
    found = _on_path(program)
    if found is None:
        raise ProgramNotFound(f"{program} is neither in the package nor on PATH; set GSHARD_BIN to its folder")
    return [found]


def _on_path(program: str) -> str | None:
    """The first `program` on PATH that is no entry point of this package, which would start itself."""
    own = pathlib.Path(sys.argv[0]).resolve()
    for folder in os.get_exec_path():
        found = shutil.which(program, path=folder)
        if found and pathlib.Path(found).resolve() != own and not _is_script(found):
            return found
    return None


def _is_script(path: str) -> bool:
    with open(path, "rb") as file:
        return file.read(2) == b"#!"


@dataclass(frozen=True)
class Output:
    """What a program wrote, and its exit code: 0, or 3 if a check failed."""

    text: str
    messages: str
    exit_code: int

    def json(self) -> dict[str, Any]:
        """The text as the JSON document that it is."""
        document = _document(self.text)
        if document is None:  # exit code 3 without a report: there was no memory
            raise InternalError(self.messages.strip() or "there is no report")
        return document


def run(program: str, arguments: Sequence[str], stdin: bytes | None = None,
        environment: Mapping[str, str] | None = None, findings_exit: bool = False) -> Output:
    """Runs `program` to its end.

    Args:
      findings_exit: Exit code 1 with a document that has no "error" is an answer, not a failure, as
        it is of `gshard-opt check`.

    Raises:
      InputError: of a program that cannot be read, or that deadlocks (exit code 1).
      UsageError: of flags that do not fit (exit code 2).
      InternalError: of a mistake in gshard (any other exit code but 0 and 3).
      ProgramNotFound: see command_of.
    """
    done = subprocess.run([*command_of(program), *arguments], input=b"" if stdin is None else stdin,
                          capture_output=True, env=None if environment is None else {**os.environ, **environment},
                          check=False)
    output = Output(done.stdout.decode("utf-8", "replace"), done.stderr.decode("utf-8", "replace"), done.returncode)
    if done.returncode in (0, 3):
        return output
    if done.returncode == 1:
        document = _document(output.text)
        error = document.get("error") if document else None
        if findings_exit and document and not error:
            return output
        raise InputError.of(error, output.messages)
    if done.returncode == 2:
        raise UsageError(output.messages.strip())
    if done.returncode == 130:
        raise KeyboardInterrupt
    raise InternalError(f"{program} ended with exit code {done.returncode}: {output.messages.strip()}")


def _document(text: str) -> dict[str, Any] | None:
    try:
        document = json.loads(text)
    except ValueError:
        return None
    return document if isinstance(document, dict) else None


def _become(program: str) -> NoReturn:
    try:
        command = command_of(program)
    except ProgramNotFound as error:
        sys.exit(f"{program}: {error}")
    os.execv(command[0], [*command, *sys.argv[1:]])


def opt() -> NoReturn:
    """Entry point of gshard-opt."""
    _become("gshard-opt")


def cost() -> NoReturn:
    """Entry point of gshard-cost."""
    _become("gshard-cost")


def emulate() -> NoReturn:
    """Entry point of gshard-run."""
    _become("gshard-run")
