#!/usr/bin/env python3
"""Peak memory of a device: gshard-cost against XLA's compiled programs.

  memory_test.py GSHARD_COST [PROGRAM ..] [--limit 0.05] [--keep DIR]

XLA's figure is arguments + outputs - aliased + temporaries of jaxlib's memory_analysis() on 8 CPU devices;
gshard-cost is given the same program before XLA partitions it, and, as a second column, XLA's compiled text.
Exit 1 if a program differs by more than the limit.
"""
import argparse
import json
import os
import subprocess
import sys
import tempfile

os.environ.setdefault("JAX_PLATFORMS", "cpu")
os.environ["XLA_FLAGS"] = (os.environ.get("XLA_FLAGS", "") +
                           " --xla_force_host_platform_device_count=8").strip()

import jax  # noqa: E402  (after the flags)

from memory_programs import PROGRAMS  # noqa: E402


def xla_bytes(compiled):
    m = compiled.memory_analysis()
    return (m.argument_size_in_bytes + m.output_size_in_bytes - m.alias_size_in_bytes +
            m.temp_size_in_bytes)


def our_bytes(cost, path):
    done = subprocess.run([cost, path, "--json"], capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(f"{path}: {done.stderr.strip()}")
    return json.loads(done.stdout)["memory"]["peak_bytes"]


def compare(cost, name, folder):
    step, arguments, donated = PROGRAMS[name]()
    shardings = jax.tree.map(lambda x: x.sharding, arguments[:2])  # parameters, optimizer's state
    lowered = jax.jit(step, donate_argnums=donated,
                      out_shardings=(*shardings, None)).lower(*arguments)
    compiled = lowered.compile()
    paths = {kind: os.path.join(folder, f"{name}.{kind}.hlo") for kind in ("before", "compiled")}
    for kind, text in (("before", lowered.as_text("hlo")), ("compiled", compiled.as_text())):
        with open(paths[kind], "w") as file:
            file.write(text)
    expected = xla_bytes(compiled)
    return expected, our_bytes(cost, paths["before"]), our_bytes(cost, paths["compiled"])


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("cost")
    parser.add_argument("programs", nargs="*")
    parser.add_argument("--limit", type=float, default=0.05)
    parser.add_argument("--keep", help="folder for the programs' texts")
    args = parser.parse_args()
    folder = args.keep or tempfile.mkdtemp(prefix="gshard_memory.")
    os.makedirs(folder, exist_ok=True)
    failed = []
    print(f"{'program':<28}{'XLA MiB':>10}{'ours':>10}{'ratio':>8}{'compiled':>10}{'ratio':>8}")
    for name in args.programs or PROGRAMS:
        expected, ours, scheduled = compare(args.cost, name, folder)
        mib = 1 << 20
        print(f"{name:<28}{expected / mib:>10.2f}{ours / mib:>10.2f}{ours / expected:>8.3f}"
              f"{scheduled / mib:>10.2f}{scheduled / expected:>8.3f}", flush=True)
        if abs(ours / expected - 1) > args.limit:
            failed.append(name)
    if failed:
        sys.exit(f"over {args.limit:.0%}: {', '.join(failed)}")


if __name__ == "__main__":
    main()
