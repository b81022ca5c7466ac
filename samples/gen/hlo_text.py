"""Prints a JAX function as lean HLO text: op_names kept, source files and stack frames dropped.

The text is what `jax.jit(...).lower(...)` hands to XLA, so it holds no shardings and no machine's
paths. The header lets propagation choose the sharding of parameters and results, as JAX does for
functions whose shardings are left open.
"""

import argparse
import pathlib
import re

import jax

HLO_DIR = pathlib.Path(__file__).resolve().parent.parent
TABLES = re.compile(r"^(FileNames|FunctionNames|FileLocations|StackFrames)\n(\d+ .*\n)*\n*", re.M)
FRAME = re.compile(r" ?stack_frame_id=\d+")
OPEN = ("allow_spmd_sharding_propagation_to_parameters={true}, "
        "allow_spmd_sharding_propagation_to_output={true}, ")


def to_text(step, args, comment, donate=()):
    """HLO text of `step` on arguments of the given shapes, below the `//` lines of `comment`."""
    text = jax.jit(step, donate_argnums=donate).lower(*args).as_text(dialect="hlo", debug_info=True)
    text = FRAME.sub("", TABLES.sub("", text))
    text = text.replace(", metadata={}", "")
    text = text.replace("entry_computation_layout=", OPEN + "entry_computation_layout=", 1)
    if "{...}" in text:
        raise ValueError("an elided constant: make it from iota or pass it as a parameter")
    return "".join(f"// {line}".rstrip() + "\n" for line in comment.strip().split("\n")) + text


def main(make, name, doc):
    """Command line of a generator: writes ../NAME.hlo, or FILE given by -o."""
    parser = argparse.ArgumentParser(description=doc)
    parser.add_argument("-o", "--output", type=pathlib.Path, default=HLO_DIR / f"{name}.hlo")
    output = parser.parse_args().output
    output.write_text(make())
    print(f"{output}: {output.stat().st_size} bytes")
