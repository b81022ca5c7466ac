"""What can go wrong in calls of the programs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


class GshardError(Exception):
    """Base of all errors of this package."""


class InputError(GshardError):
    """A program or a file that cannot be taken as it is.

    Attributes:
      code: of the message, such as "E-PARSE-003"; empty if it has none.
      file, line, column: where it is, as far as known; lines and columns count from 1.
      hint: what to try; empty if nothing is known.
    """

    def __init__(self, text: str, code: str = "", file: str | None = None, line: int | None = None,
                 column: int | None = None, hint: str = "") -> None:
        super().__init__(text)
        self.code = code
        self.file = file
        self.line = line
        self.column = column
        self.hint = hint

    @classmethod
    def of(cls, error: Mapping[str, Any] | None, rendered: str) -> InputError:
        """Of the "error" of a JSON document, and of what was printed for people."""
        error = error or {}
        text = rendered.strip() or str(error.get("message", "the program was refused"))
        return cls(text, str(error.get("code", "")), error.get("file"), error.get("line"), error.get("column"),
                   str(error.get("hint", "")))


class UsageError(GshardError, ValueError):
    """Arguments that do not fit each other, or values that a flag does not take."""


class InternalError(GshardError, RuntimeError):
    """A mistake in gshard. Please report it with the program that shows it."""


class ProgramNotFound(GshardError, FileNotFoundError):
    """The programs are not there: neither in the package nor on PATH."""

    def __str__(self) -> str:
        return str(self.args[0])
