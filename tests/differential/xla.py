"""XLA through the jaxlib wheel: does its parser take a text, and what does its CPU backend compute.

Everything runs in this process; a caller that expects crashes runs it in a child (`in_child`).
"""
import multiprocessing
import os
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "cmd/cli/reduce"))
from compare_with_xla import (  # noqa: E402, F401  # callers take them from here
    module_of, parameter_types, run, run_in_parts, uncombined, without_shardings)

os.environ.setdefault("JAX_PLATFORMS", "cpu")
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")


def parse_error(text):
    """None if XLA's parser takes the text, else its complaint and the place: the first two lines."""
    try:
        module_of(text)
        return None
    except Exception as error:  # jaxlib raises its own types
        return " ".join(str(error).strip().split("\n")[:2])[:300]


def in_child(function, *arguments):
    """function(*arguments) in a child process: ("ok", result), ("error", text) or ("crash", text)."""
    receiver, sender = multiprocessing.Pipe(duplex=False)
    child = multiprocessing.get_context("spawn").Process(target=_child, args=(sender, function, arguments))
    child.start()
    sender.close()
    try:
        outcome = receiver.recv()
    except EOFError:
        outcome = None
    child.join()
    return outcome or ("crash", f"exit code {child.exitcode}")


def _child(sender, function, arguments):
    try:
        sender.send(("ok", function(*arguments)))
    except Exception as error:
        sender.send(("error", f"{type(error).__name__}: {error}"))
