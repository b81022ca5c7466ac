"""Peak memory and kernels' times of small programs: XLA's compiler for TPUs beside ours (tpu_program_list.py,
tpu_user_programs.py and tpu_f32_programs.py).

    python3 tests/bench/tpu_programs.py --gshard build/ci/cmd/gshard-cost [--only REGEX] [--keep DIR] [--compiled]
        [--topology v3:2x2] [--json FILE]

Needs jax, jaxlib and libtpu from PyPI, no TPU: programs are compiled ahead of time, each in a process of its own, 5 to 60
seconds a program; what is in DIR already is not compiled again. The compiler's peak is arguments + outputs - aliased +
temporaries of memory_analysis(); its kernels' times are the `estimated_cycles` of its text over the chip's clock, loops
multiplied. Ours are those of the program that JAX prints, of all devices, with attention as it is written (no kernel that
the program does not name). Prints a row a program: both peaks, their ratio, and ratios of the time by class of kernels.
"""
import argparse
import json
import os
import pathlib
import re
import statistics
import subprocess
import sys

os.environ.setdefault("TPU_SKIP_MDS_QUERY", "1")
os.environ.setdefault("TPU_WORKER_HOSTNAMES", "localhost")
os.environ.setdefault("ALLOW_MULTIPLE_LIBTPU_LOAD", "1")
os.environ["JAX_PLATFORMS"] = "cpu"

from tpu_kernels import at_full_rates  # noqa: E402

CHIPS = {"v3": "tpu-v3", "v4": "tpu-v4", "v5e": "tpu-v5e", "v5p": "tpu-v5p", "v6e": "tpu-v6e"}
CLASSES = ("dot", "attention", "movement", "other")
FIELDS = ("argument", "output", "alias", "temp", "host_temp")


def all_programs():
    import tpu_f32_programs
    import tpu_program_list
    import tpu_user_programs
    return tpu_program_list.PROGRAMS + tpu_user_programs.PROGRAMS + tpu_f32_programs.PROGRAMS


def tpu_devices(topology):
    from jax.experimental import topologies
    # A v4 chip is one device, as its users have it.
    options = {"chip_config_name": "megacore"} if topology.startswith("v4") else {}
    return topologies.get_topology_desc(platform="tpu", topology_name=topology, **options).devices


def place_of(name):
    return re.sub(r"[^a-z0-9]+", "_", name.lower()).strip("_")


def compile_one(name, directory, topology, devices_of=tpu_devices):
    """Writes step.mlir, compiled.txt and memory.json of the program, for its own topology if none is given."""
    import jax
    import numpy
    _, own_topology, mesh, build = next(p for p in all_programs() if p[0] == name)
    names, sizes = zip(*[(axis.split("=")[0], int(axis.split("=")[1])) for axis in mesh.split(",")])
    devices = devices_of(topology or own_topology)
    step, arguments, donated = build(jax.sharding.Mesh(numpy.array(devices).reshape(sizes), names))
    lowered = jax.jit(step, donate_argnums=donated).lower(*arguments)
    directory.mkdir(parents=True, exist_ok=True)
    (directory / "step.mlir").write_text(lowered.as_text(debug_info=True))
    compiled = lowered.compile()
    memory = compiled.memory_analysis()
    (directory / "memory.json").write_text(json.dumps({f: getattr(memory, f + "_size_in_bytes") for f in FIELDS}))
    # jaxlib cannot print every program that libtpu compiles; its memory is known all the same.
    try:
        (directory / "compiled.txt").write_text(compiled.as_text())
    except jax.errors.JaxRuntimeError as error:
        print(f"no text: {str(error)[:200]}", file=sys.stderr)


def cost(gshard, path, chip, *flags):
    """The report, or null where there is no text or one that gshard-cost does not read."""
    if not path.exists():
        return None
    with at_full_rates(chip) as chip_file:
        done = subprocess.run([gshard, path, "--chip-file", chip_file, "--attention", "materialized", "--json", *flags], check=False,
                              capture_output=True, text=True)
    if done.returncode:
        print(f"gshard-cost {path}: {done.stderr[:300]}", file=sys.stderr)
        return None
    return json.loads(done.stdout)


def compare(gshard, number, name, topology, directory):
    chip = CHIPS[topology.split(":")[0]]
    ours, text = cost(gshard, directory / "step.mlir", chip), cost(gshard, directory / "compiled.txt", chip)
    if ours is None:
        sys.exit(1)
    memory = json.loads((directory / "memory.json").read_text())
    row = {"number": number, "program": name, "topology": topology,
           "xla_peak": memory["argument"] + memory["output"] - memory["alias"] + memory["temp"],
           "gshard_peak": ours["memory"]["peak_bytes"], "text_peak": text["memory"]["peak_bytes"] if text else None, "memory": memory}
    for kind in CLASSES:
        # Copies between memories run beside kernels: only what has cycles counts.
        theirs = sum(kernel["text_time_s"] for kernel in text["kernels"] if kernel["class"] == kind) if text else 0
        row[kind] = (ours["breakdown"][kind + "_s"], theirs)
    return row


def ratio(pair):
    """Ours over theirs; of what takes less than a microsecond there is none."""
    return pair[0] / pair[1] if min(pair) > 1e-6 else None


def print_table(rows):
    text = lambda value: f"{value:9.3f}" if value is not None else "        -"
    print(f" n  {'program':34} {'topology':11} {'XLA, MiB':>9} {'ours':>9} {'ratio':>7} {'text':>7} " + " ".join(f"{kind:>9}" for kind in CLASSES) + f" {'all':>9}")
    for row in rows:
        totals = [sum(row[kind][i] for kind in CLASSES) for i in (0, 1)]
        share = f"{row['text_peak'] / row['xla_peak']:7.3f}" if row["text_peak"] else "      -"
        print(f"{row['number']:2}  {row['program']:34} {row['topology']:11} {row['xla_peak'] / 2**20:9.1f} {row['gshard_peak'] / 2**20:9.1f} "
              f"{row['gshard_peak'] / row['xla_peak']:7.3f} {share} " + " ".join(text(ratio(row[kind])) for kind in CLASSES) + f" {text(ratio(totals))}")
    print()
    for which, chosen in (("all", rows), ("odd numbers", [r for r in rows if r["number"] % 2]), ("even numbers", [r for r in rows if r["number"] % 2 == 0])):
        if errors := [abs(row["gshard_peak"] / row["xla_peak"] - 1) for row in chosen]:
            print(f"peaks, {which}: {sum(e <= .05 for e in errors)} of {len(errors)} within 5 %, {sum(e <= .1 for e in errors)} within 10 %, "
                  f"median error {statistics.median(errors):.1%}, the worst {max(errors):.1%}")
    for kind in CLASSES:
        ratios = [r for r in (ratio(row[kind]) for row in rows) if r is not None]
        if ratios:
            print(f"{kind}: {len(ratios)} programs, median {statistics.median(ratios):.3f}, "
                  f"median error {statistics.median(abs(r - 1) for r in ratios):.1%}")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--gshard", help="the program gshard-cost")
    parser.add_argument("--only", default="", help="programs whose name matches")
    parser.add_argument("--keep", type=pathlib.Path, default=pathlib.Path("build/tpu_programs"), help="where compiled programs lie")
    parser.add_argument("--compiled", action="store_true", help="only programs that lie there")
    parser.add_argument("--topology", help="compile all of them for this one, such as v3:2x2, instead of each for its own")
    parser.add_argument("--json", help="all rows, to this file")
    parser.add_argument("--compile", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    place = lambda name: arguments.keep / place_of(name)
    if arguments.compile:
        compile_one(arguments.compile, place(arguments.compile), arguments.topology)
        return
    rows = []
    for number, program in enumerate(all_programs(), 1):
        if not re.search(arguments.only, program[0]):
            continue
        directory = place(program[0])
        if not (directory / "memory.json").exists():
            if arguments.compiled:
                continue
            topology = ["--topology", arguments.topology] if arguments.topology else []
            done = subprocess.run([sys.executable, __file__, "--keep", arguments.keep, "--compile", program[0], *topology], check=False,
                                  capture_output=True, text=True)
            if done.returncode:
                print(f"{program[0]}: not compiled: {done.stderr.strip().splitlines()[-1][:200]}", file=sys.stderr)
                continue
            print(f"{program[0]}: compiled", file=sys.stderr)
        if arguments.gshard:
            rows.append(compare(arguments.gshard, number, program[0], arguments.topology or program[1], directory))
    if rows:
        print_table(rows)
    if arguments.json:
        pathlib.Path(arguments.json).write_text(json.dumps(rows, indent=1))


if __name__ == "__main__":
    main()
