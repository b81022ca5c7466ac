"""Peak memory of small programs on GPUs: XLA's compiler beside ours (the programs of tpu_programs.py, on eight H100).

    LD_LIBRARY_PATH=DIR python3 tests/bench/gpu_programs.py --gshard build/ci/cmd/gshard-cost [--only REGEX] [--keep DIR]
        [--compiled] [--json FILE]

Needs jax[cuda12] from PyPI and no GPU: programs are compiled ahead of time for the GPU that TARGET describes, each in a process
of its own, 3 to 60 seconds a program; what is in --keep already is not compiled again. DIR holds CUDA's stub of the driver as
libcuda.so.1 (lib64/stubs/libcuda.so of CUDA's toolkit).

Without a GPU nothing is tuned: products are Triton's kernels, or, with --xla_gpu_enable_triton_gemm=false, cuBLAS's. A
process on a GPU times both and takes the faster one for each product, so each program is compiled both ways and what a user
meets lies between. Prints a row a program: both peaks (arguments + outputs - aliased + temporaries of memory_analysis()) and
that of gshard-cost, of the program that JAX prints, of all devices, with attention as it is written; its ratio to the nearest
of what lies between both; and the ratio of the peak that gshard-cost reads from each compiled text to the compiler's.
"""
import argparse
import json
import os
import pathlib
import re
import statistics
import subprocess
import sys

import tpu_programs

TARGET = """
gpu_device_info {
  threads_per_block_limit: 1024
  threads_per_warp: 32
  shared_memory_per_block: 49152
  shared_memory_per_core: 233472
  threads_per_core_limit: 2048
  core_count: 132
  fpus_per_core: 128
  block_dim_limit_x: 2147483647
  block_dim_limit_y: 65535
  block_dim_limit_z: 65535
  memory_bandwidth: 3352320000000
  l2_cache_size: 52428800
  clock_rate_ghz: 1.98
  device_memory_size: 84978434048
  shared_memory_per_block_optin: 232448
  cuda_compute_capability { major: 9 }
  registers_per_core_limit: 65536
  registers_per_block_limit: 65536
}
platform_name: "CUDA"
dnn_version_info { major: 9 minor: 8 }
device_description_str: "NVIDIA H100 80GB HBM3"
"""
WAYS = {"triton": "", "cublas": "--xla_gpu_enable_triton_gemm=false"}


def gpu_devices(_):
    from jax.experimental import topologies
    return topologies.get_topology_desc(platform="cuda", topology_name="h100", target_config=TARGET, topology="1x1x8").devices


def compile_both(name, keep):
    """Compiles what is missing; returns the ways that there are."""
    for way, flags in WAYS.items():
        if (keep / way / tpu_programs.place_of(name) / "memory.json").exists():
            continue
        done = subprocess.run([sys.executable, __file__, "--keep", keep / way, "--compile", name], check=False, capture_output=True,
                              text=True, env={**os.environ, "XLA_FLAGS": flags})
        if done.returncode:
            print(f"{name}: not compiled: {done.stderr.strip().splitlines()[-1][:200]}", file=sys.stderr)
            return


def cost(gshard, path):
    done = subprocess.run([gshard, path, "--chip", "h100", "--attention", "materialized", "--json"], check=False, capture_output=True,
                          text=True)
    if done.returncode not in (0, 3):
        print(f"gshard-cost {path}: {done.stderr[:300]}", file=sys.stderr)
        return None
    return json.loads(done.stdout)


def compare(gshard, name, keep):
    place = tpu_programs.place_of(name)
    row = {"program": name}
    for way in WAYS:
        memory_file = keep / way / place / "memory.json"
        if not memory_file.exists():
            return None
        memory = json.loads(memory_file.read_text())
        row[way] = memory["argument"] + memory["output"] - memory["alias"] + memory["temp"]
        text = cost(gshard, keep / way / place / "compiled.txt")
        row[way + "_text"] = text["memory"]["peak_bytes"] if text else None
        row[way + "_step_s"] = text["step_time_s"] if text else None
    ours = cost(gshard, keep / "triton" / place / "step.mlir")
    if ours is None:
        return None
    row["gshard"], row["gshard_step_s"] = ours["memory"]["peak_bytes"], ours["step_time_s"]
    least, most = sorted(row[way] for way in WAYS)
    row["ratio"] = row["gshard"] / min(max(row["gshard"], least), most)
    return row


def print_table(rows):
    print(f"{'program':34} {'Triton':>9} {'cuBLAS':>9} {'ours':>9} {'ratio':>7} {'texts':>15}   step: Triton, cuBLAS, ours")
    for row in rows:
        texts = " ".join(f"{row[way + '_text'] / row[way]:7.3f}" if row[way + "_text"] else "      -" for way in WAYS)
        steps = " ".join(f"{seconds * 1e3:9.3f}" if seconds else "        -"
                         for seconds in (row["triton_step_s"], row["cublas_step_s"], row["gshard_step_s"]))
        print(f"{row['program']:34} {row['triton'] / 2**20:9.1f} {row['cublas'] / 2**20:9.1f} {row['gshard'] / 2**20:9.1f} "
              f"{row['ratio']:7.3f} {texts}   {steps} ms")
    print()

    def summary(what, ratios):
        errors = [abs(ratio - 1) for ratio in ratios]
        print(f"{what}: {sum(e <= .05 for e in errors)} of {len(errors)} within 5 %, {sum(e <= .1 for e in errors)} within 10 %, "
              f"median error {statistics.median(errors):.1%}, the worst {max(errors):.1%}")
    summary("peaks, against what lies between both", [row["ratio"] for row in rows])
    for way in WAYS:
        summary(f"peaks, {way}", [row["gshard"] / row[way] for row in rows])
        summary(f"peaks of texts, {way}", [row[way + "_text"] / row[way] for row in rows if row[way + "_text"]])
        summary(f"step times against the text's, {way}", [row["gshard_step_s"] / row[way + "_step_s"] for row in rows if row[way + "_step_s"]])


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--gshard", help="the program gshard-cost")
    parser.add_argument("--only", default="", help="programs whose name matches")
    parser.add_argument("--keep", type=pathlib.Path, default=pathlib.Path("build/gpu_programs"), help="where compiled programs lie")
    parser.add_argument("--compiled", action="store_true", help="only programs that lie there")
    parser.add_argument("--json", help="all rows, to this file")
    parser.add_argument("--compile", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.compile:
        tpu_programs.compile_one(arguments.compile, arguments.keep / tpu_programs.place_of(arguments.compile), "h100", gpu_devices)
        return
    rows = []
    for name, *_ in tpu_programs.all_programs():
        if not re.search(arguments.only, name):
            continue
        if not arguments.compiled:
            compile_both(name, arguments.keep)
        if arguments.gshard and (row := compare(arguments.gshard, name, arguments.keep)):
            rows.append(row)
    if rows:
        print_table(rows)
    if arguments.json:
        pathlib.Path(arguments.json).write_text(json.dumps(rows, indent=1))


if __name__ == "__main__":
    main()
