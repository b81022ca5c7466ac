"""Prints the HLO text of one row of configs.json: make.py TABLE NAME [-o FILE]."""

import argparse
import importlib
import json
import math
import pathlib

import jax

HERE = pathlib.Path(__file__).resolve().parent


def rows(table):
    """The rows of a table of configs.json."""
    return json.loads((HERE / "configs.json").read_text())["tables"][table]["rows"]


def make(row):
    """HLO text of a row. One row a process: the number of JAX's devices is that of its mesh."""
    jax.config.update("jax_num_cpu_devices", math.prod(row["mesh"].values()))
    return importlib.import_module(row["model_kind"]).make(row)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("table")
    parser.add_argument("name")
    parser.add_argument("-o", "--output", type=pathlib.Path, default=pathlib.Path("/dev/stdout"))
    arguments = parser.parse_args()
    row = next(r for r in rows(arguments.table) if r["name"] == arguments.name)
    arguments.output.write_text(make(row))
