#!/usr/bin/env python3
"""Parse, propagate and partition: gshard against XLA's own parser and passes, same files, same run.

  passes_vs_xla.py FILE.hlo...        prints a Markdown table (median milliseconds)
  passes_vs_xla.py --propagate-at-least 10 FILE.hlo...
  passes_vs_xla.py --partition-at-least 10 FILE.hlo...
      that pass alone, over the files of more than 1,000 instructions; fails if on one of them gshard is not that
      many times as fast

XLA: jaxlib's text parser, and the passes `sharding-propagation` and `spmd-partitioning` as XLA's own pass timer
reports them; gshard: --time-passes. Call inlining is counted on neither side. Shardings that a file carries as
Shardy attributes are first made plain by gshard-opt, and both sides read that text. Run with a python that has jaxlib.
"""
import argparse
import collections
import json
import os
import re
import signal
import statistics
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "differential"))

import hlo_lines  # noqa: E402

PASS = re.compile(r"HLO pass: (\S+) time: ([\d.]+) ?(ns|us|ms|s)\b")
# Outside JAX, XLA aborts on these.
OPAQUE = re.compile(r'custom_call_target="(CustomSPMDPartitioning|te_[a-z_]+)"')
MILLISECONDS = {"ns": 1e-6, "us": 1e-3, "ms": 1.0, "s": 1e3}


def devices_of(text):
    """num_partitions of the header, else the largest sharding of the text."""
    found = re.search(r"^HloModule .*num_partitions=(\d+)", text, re.M)
    if found:
        return int(found.group(1))
    count = 1
    for dims in set(re.findall(r"sharding=\{+devices=\[([\d,]+)\]", text)):
        product = 1
        for dim in dims.split(","):
            product *= int(dim)
        count = max(count, product)
    return count


def propagation_flags(text, key):
    found = re.search(r"allow_spmd_sharding_propagation_to_" + key + r"=\{([^}]*)\}", text)
    return [word == "true" for word in found.group(1).split(",")] if found else [False]


def child(path, devices, repetitions):
    """Parses `repetitions` times, writes the times, then compiles for `devices` (the parent ends us)."""
    import jax
    import numpy as np
    from jax._src.lib import xla_client
    import jaxlib._jax as jaxlib_api

    text = open(path).read()
    times = []
    for _ in range(repetitions):
        start = time.perf_counter()
        module = xla_client.hlo.hlo_module_from_text(text)
        times.append((time.perf_counter() - start) * 1e3)
    print("PARSE " + json.dumps(times), flush=True)
    computation = xla_client.XlaComputation(module.as_serialized_hlo_module_proto())
    mlir = jaxlib_api.mlir.xla_computation_to_mlir_module(computation)
    options = xla_client.CompileOptions()
    options.num_replicas, options.num_partitions = 1, devices
    build = options.executable_build_options
    build.num_replicas, build.num_partitions = 1, devices
    build.use_spmd_partitioning = True
    build.use_shardy_partitioner = False
    build.allow_spmd_sharding_propagation_to_parameters = propagation_flags(text, "parameters")
    build.allow_spmd_sharding_propagation_to_output = propagation_flags(text, "output")
    options.device_assignment = xla_client.DeviceAssignment.create(np.arange(devices).reshape(1, devices))
    mesh = jax.devices()[:devices]
    mesh[0].client.compile_and_load(mlir, jaxlib_api.DeviceList(tuple(mesh)), options)


def instruction_count(text):
    return len(re.findall(r"^\s+(?:ROOT )?%?[\w.\-]+ = ", text, re.M))


def xla_times(path, devices, repetitions, last="spmd-partitioning"):
    """{"parse", "propagate", "partition"} in ms up to the pass `last`; absent where XLA gives up."""
    samples = collections.defaultdict(list)
    for _ in range(repetitions):
        environment = dict(os.environ, JAX_PLATFORMS="cpu", TF_CPP_MIN_LOG_LEVEL="0", PYTHONUNBUFFERED="1",
                           TF_CPP_VMODULE="hlo_pass_pipeline=1",
                           XLA_FLAGS=f"--xla_force_host_platform_device_count={devices}")
        process = subprocess.Popen([sys.executable, os.path.abspath(__file__), "--child", path, str(devices),
                                    str(repetitions)], env=environment, stdout=subprocess.PIPE,
                                   stderr=subprocess.STDOUT, text=True, errors="replace", start_new_session=True)
        totals = collections.defaultdict(float)
        reached = False
        for line in process.stdout:
            if line.startswith("PARSE "):
                samples["parse"] += json.loads(line[6:])
            found = PASS.search(line)
            if found:
                totals[found.group(1)] += float(found.group(2)) * MILLISECONDS[found.group(3)]
                reached = found.group(1) == last
                if reached:
                    os.killpg(process.pid, signal.SIGKILL)
                    break
        process.stdout.close()
        process.wait()
        if not reached:
            break
        samples["propagate"].append(totals["sharding-propagation"])
        if "spmd-partitioning" in totals:
            samples["partition"].append(totals["spmd-partitioning"])
    return {key: statistics.median(values) for key, values in samples.items()}


def gshard_times(command, path, repetitions, work):
    report = os.path.join(work, "times.json")
    with open(path) as text:
        defaults = hlo_lines.xla_defaults(text.read())
    # By GSPMD's rules, as XLA's side is: texts of today's JAX would be propagated as Shardy does.
    subprocess.run(["gshard-opt", command, path, *defaults, "--propagation", "gspmd", f"--time-passes={report}", "--repeat",
                    str(repetitions), "-o", os.path.join(work, "out.hlo")], check=True, stderr=subprocess.DEVNULL)
    return {entry["name"]: entry["time_ms"] for entry in json.load(open(report))["passes"]}


def prepared(path, work):
    """(path, text, devices) of the file with plain shardings, as both sides read it."""
    plain = os.path.join(work, "plain.hlo")
    subprocess.run(["gshard-opt", "optimize", path, "--passes", "import-shardy", "--tiles", "-o", plain], check=True)
    text = OPAQUE.sub('custom_call_target="opaque"', open(plain).read())
    open(plain, "w").write(text)
    return plain, text, devices_of(text)


def compare_all(files, repetitions):
    print("| file | devices | parse: XLA | gshard | | propagate: XLA | gshard | | partition: XLA | gshard | |")
    print("|---|---|---|---|---|---|---|---|---|---|---|")
    for path in files:
        with tempfile.TemporaryDirectory() as work:
            plain, _, devices = prepared(path, work)
            theirs = xla_times(plain, devices, repetitions)
            ours = gshard_times("partition", plain, 10 * repetitions, work)
        cells = [os.path.splitext(os.path.basename(path))[0], str(devices)]
        for step in ("parse", "propagate", "partition"):
            if step in theirs:
                cells += [f"{theirs[step]:.2f}", f"{ours[step]:.2f}", f"{theirs[step] / ours[step]:.1f}x"]
            else:
                cells += ["-", f"{ours[step]:.2f}", ""]
        print("| " + " | ".join(cells) + " |", flush=True)


def compare_pass(step, xla_pass, files, repetitions, at_least):
    """True if gshard is `at_least` times as fast on every annotated file of over 1,000 instructions."""
    good = True
    print("| file | instructions | devices | XLA ms | gshard ms | | |")
    print("|---|---|---|---|---|---|---|")
    for path in files:
        with tempfile.TemporaryDirectory() as work:
            plain, text, devices = prepared(path, work)
            count = instruction_count(text)
            if count <= 1000 or devices == 1:
                continue
            theirs = xla_times(plain, devices, repetitions, xla_pass).get(step)
            if theirs is None:
                print(f"| {os.path.basename(path)} | {count} | {devices} | XLA fails | | | |", flush=True)
                continue
            ours = gshard_times(step, plain, 10 * repetitions, work)[step]
        enough = theirs / ours >= at_least
        good = good and enough
        print(f"| {os.path.splitext(os.path.basename(path))[0]} | {count} | {devices} | {theirs:.2f} | {ours:.2f} | "
              f"{theirs / ours:.1f}x | {'pass' if enough else 'FAIL'} |", flush=True)
    return good


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("files", nargs="+")
    parser.add_argument("--repeat", type=int, default=5, help="runs of XLA a file; gshard runs ten times as often")
    parser.add_argument("--propagate-at-least", type=float, metavar="RATIO")
    parser.add_argument("--partition-at-least", type=float, metavar="RATIO")
    options = parser.parse_args()
    wanted = [("propagate", "sharding-propagation", options.propagate_at_least),
              ("partition", "spmd-partitioning", options.partition_at_least)]
    wanted = [row for row in wanted if row[2] is not None]
    if not wanted:
        compare_all(options.files, options.repeat)
    verdicts = [compare_pass(step, name, options.files, options.repeat, least) for step, name, least in wanted]
    if not all(verdicts):
        sys.exit(1)


if __name__ == "__main__":
    if len(sys.argv) == 5 and sys.argv[1] == "--child":
        child(sys.argv[2], int(sys.argv[3]), int(sys.argv[4]))
    else:
        main()
