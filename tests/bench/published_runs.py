"""Published training runs: the step time that gshard-cost predicts over the one that was measured.

    python3 tests/bench/published_runs.py FILE.json.. --gshard build/ci/cmd [--only REGEX] [--programs DIR] [--json FILE]
        [--sustained] [--auto]

FILE.json has `rows`, by name a configuration and what was measured: devices, mesh, layers, widths, heads, vocabulary, batch,
length, remat, and `step_s`, `tok_s_device`, `images_s` or `tflops_device` (of 6N + 12 L S N D FLOPs a token). Needs JAX
(samples/gen/requirements.txt), no accelerator: published_models.py builds the graph of each row from shapes alone, once, in
DIR. Prints a row a run with what its time goes to, each part over the measured time, and for each file the median and how
many runs are within 15 and 30 %. Rows whose configuration is incomplete are listed with what is missing.

--sustained asks what share of the chip's rates the steps sustain: by TPU generation, of GPUs by stack, the share with which the
ratios' geometric mean is 1; and how far off each run is with the share of the others of its kind, without itself. --auto also
prints the plan that gshard-opt auto finds for each on the run's mesh and chip, in its memory (or what the run takes by
gshard-cost, if that is more), which must not be slower.
"""
import argparse
import json
import os
import pathlib
import re
import statistics
import subprocess
import sys
import tempfile

os.environ["JAX_PLATFORMS"] = "cpu"
PARTS = ("dot", "attention", "movement", "other", "exposed_communication", "bubble")
# Whose programs they are, by what the source is of; else JAX's.
STACKS = (("pytorch", "llm-foundry|nanotron|DeepLearningExamples|fms-fsdp|torchtitan"),
          ("megatron", "NeMo|Megatron|dgxc-benchmarking (nemotron|llama3)|TransformerEngine|2205.05198|2104.04473"))
# Machines that are not the chip's usual ones, by what the source says of them: fields of a chip file over the row's chip.
# A3 with TCPX: cloud.google.com/compute/docs/gpus/gpu-network-bandwidth, "A3 High": 1,000 Gb/s a machine, five NICs of 200,
# four of them for its eight GPUs.
MACHINES = (("A3: .*TCPX", {"network": [
    {"kind": "switch", "name": "nvlink", "bytes_per_s": 360e9, "efficiency": 0.9, "latency_s": 1e-6, "devices": 8},
    {"kind": "switch", "name": "nic", "bytes_per_s": 12.5e9, "efficiency": 0.85, "latency_s": 1e-5}]}),
            ("HBM2e 2.4 TB/s", {"hbm_bytes": 96e9, "hbm_bytes_per_s": 2.4e12}))
# Attention kernels that are not the stack's of today. llm-foundry's benchmarks call the Triton kernel of FlashAttention's first
# version (submit_benchmarks.py, --attn_impl): up to 40 % of an A100's peak with heads of 128 (25 to 40 % of all: arXiv 2307.08691,
# abstract), of an H100's as much less as the second version's share is less.
ATTENTION = {"llm-foundry": {"a100": 0.40, "h100": 0.229}}
# Stacks whose attention is no kernel of its own: rosetta's ViT is google-research/vision_transformer's, flax's
# MultiHeadDotProductAttention, which XLA for GPUs runs as it is written; Megatron's before FlashAttention.
SPELLED_OUT = "projects/vit|2205.05198|2104.04473"
HEADS = ("dots", "attention", "moves", "other", "exposed", "bubble")


def model_flops(row):
    """Of a step: 6 a weight and token, and the attention's 12 L S N D a token."""
    weights = row["d"] * row["head_dim"] * 2 * (row["heads"] + row["kv"]) + row["d"] * row["ffn"] * (3 if row["gated"] else 2)
    weights = row["layers"] * weights + 2 * row["vocab"] * row["d"]
    attention = 12 * row["layers"] * row["seq"] * row["heads"] * row["head_dim"]
    return row["batch"] * row["seq"] * (6 * weights + attention)


def measured_seconds(row):
    devices = row.get("devices_in_all", row["devices"])
    if "step_s" in row:
        return row["step_s"]
    if "tok_s_device" in row:
        return row["batch"] * row["seq"] / (row["tok_s_device"] * devices)
    if "images_s" in row:
        return row["batch"] / row["images_s"]
    return model_flops(row) / (row["tflops_device"] * 1e12 * devices)


def stack_of(row):
    return next((stack for stack, source in STACKS if re.search(source, row["source"])), "jax")


def kind_of(row):
    """Of runs that sustain one share of the rates. PyTorch's and Megatron's are enough to tell GPUs apart, whose clocks fall."""
    stack = stack_of(row)
    if row["chip"].startswith("tpu"):
        return row["chip"]
    if row["chip"].startswith("mi"):
        return f"AMD, {stack}"
    if stack == "jax":
        return "GPUs, jax"
    return "GPUs to A100, others" if row["chip"][:4] in ("p100", "v100", "a100") else f"GPUs from H100, {stack}"


def run(*command):
    done = subprocess.run(command, check=False, capture_output=True, text=True)
    if done.returncode:
        sys.exit(f"{' '.join(map(str, command))}: {done.stderr[:2000]}")
    return done.stdout


def chip_flags(row, path, sustained):
    """--chip, or --chip-file of one that is written beside the program."""
    fields = dict(next((fields for source, fields in MACHINES if re.search(source, row["source"])), {}))
    for source, kernels in ATTENTION.items():
        if source in row["source"]:
            fields["attention_efficiency"] = {"limit": next(share for chip, share in kernels.items() if row["chip"].startswith(chip)), "half": 0}
    if sustained:
        fields["sustained"] = sustained
    if not fields:
        return ["--chip", row["chip"]]
    file = path.with_suffix(".chip.json")
    file.write_text(json.dumps({"base": row["chip"], "name": row["chip"], **fields}))
    return ["--chip-file", file]


def pricing_flags(row, path, sustained=None):
    attention = "materialized" if re.search(SPELLED_OUT, row["source"]) else "flash"
    return [*map(str, chip_flags(row, path, sustained)), "--stack", stack_of(row), "--attention", attention]


def estimate(gshard, path, row, sustained=None):
    """gshard-cost's document; at the chip's share of its rates where `sustained` is not given."""
    if "pipeline" in row:
        plan, staged = row["pipeline"], path.with_suffix(".stages.hlo")
        flags = ["--stages", plan["stages"], "--microbatches", plan["microbatches"], "--schedule", plan["schedule"]]
        if "repeats" in plan:
            flags += ["--repeats", plan["repeats"]]
        if not staged.exists():
            flags += ["--remat", "none"] if row["remat"] == "none" else []
            run(gshard / "gshard-opt", "pipeline", path, "--chip", row["chip"], "-o", staged, *map(str, flags))
        path = staged
    return json.loads(run(gshard / "gshard-cost", path, *pricing_flags(row, path, sustained), "--json"))


def found_is_no_slower(gshard, path, row, report):
    """Prints the run's own plan beside the one that auto finds."""
    mesh = ",".join(f"{axis['name']}={axis['size']}" for axis in report["mesh"])
    limit = max(report["memory_limit_bytes"], report["memory"]["peak_bytes"])
    with tempfile.TemporaryDirectory() as folder:
        told = pathlib.Path(folder, "auto.json")
        run(gshard / "gshard-opt", "auto", path, "--keep", "none", "--mesh", mesh, "--limit", str(limit), *pricing_flags(row, path),
            "--report", told, "-o", os.devnull)
        auto = json.loads(told.read_text())
    found = auto["plans"][0]
    for name, plan in (("published", auto["written"]), ("found", found)):
        print(f"    {name:9} {plan['step_time_s']:8.3f} s, {plan['exposed_communication_s']:6.3f} exposed, "
              f"{plan['peak_bytes'] / 2**30:6.1f} GiB, most time: {plan['why']}", flush=True)
    return found["fits"] and found["step_time_s"] <= report["step_time_s"]


def program(directory, name, row):
    """The row's StableHLO; made in a process of its own if it is not there."""
    path = directory / f"{name}.mlir"
    if not path.exists():
        directory.mkdir(parents=True, exist_ok=True)
        import published_models
        text = published_models.program(row)
        path.write_text(text)
    return path


def print_row(name, row, report):
    measured = measured_seconds(row)
    ratio = report["step_time_s"] / measured
    parts = " ".join(f"{report['breakdown'].get(part + '_s', 0) / measured:9.3f}" for part in PARTS)
    print(f"{name:34} {row['chip']:8} {report['devices']:7} {measured:9.3f} {report['step_time_s']:9.3f} {ratio:6.3f}  {parts} "
          f"{report['memory']['peak_bytes'] / 2**30:9.1f}", flush=True)
    return ratio


def print_sustained(gshard, runs):
    """`runs`: (row, path of its program) by name."""
    kinds = {}
    for name, (row, _) in runs.items():
        kinds.setdefault(kind_of(row), []).append(name)
    ratio = lambda name, share: estimate(gshard, runs[name][1], runs[name][0], share)["step_time_s"] / measured_seconds(runs[name][0])
    left_out = []
    for kind, names in kinds.items():
        full = {name: ratio(name, 1) for name in names}
        mean = statistics.geometric_mean(full.values())
        print(f"{kind:20} {len(names):3} runs sustain {mean:.3f}")
        for name in names if len(names) > 1 else []:
            share = min(1, statistics.geometric_mean(value for other, value in full.items() if other != name))
            left_out.append(ratio(name, share))
            print(f"    {name:34} at full rates {full[name]:.3f}, with the others' share {share:.3f}: {left_out[-1]:.3f}", flush=True)
    off = [abs(value - 1) for value in left_out]
    print(f"each by the others: {len(off)} runs, median {statistics.median(left_out):.3f}, {sum(x <= .15 for x in off)} within 15 %, "
          f"{sum(x <= .3 for x in off)} within 30 %")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("files", nargs="+", type=pathlib.Path)
    parser.add_argument("--gshard", required=True, type=pathlib.Path, help="the folder of gshard-cost and gshard-opt")
    parser.add_argument("--only", default="", help="rows whose name matches")
    parser.add_argument("--programs", type=pathlib.Path, default=pathlib.Path("build/published_runs"))
    parser.add_argument("--json", type=pathlib.Path, help="all ratios, to this file")
    parser.add_argument("--sustained", action="store_true", help="what share of the rates the steps sustain")
    parser.add_argument("--auto", action="store_true", help="is the plan of gshard-opt auto ever slower?")
    arguments = parser.parse_args()
    import published_models
    kept, runs, slower = {}, {}, []
    print(f"{'run':34} {'chip':8} {'devices':>7} {'measured':>9} {'gshard, s':>9} {'ratio':>6}  "
          + " ".join(f"{head:>9}" for head in HEADS) + f" {'peak, GiB':>9}")
    for file in arguments.files:
        ratios = {}
        for name, row in json.loads(file.read_text())["rows"].items():
            if not re.search(arguments.only, name):
                continue
            if lacking := published_models.missing(row):
                print(f"{name:34} lacks {', '.join(lacking)}")
                continue
            path = program(arguments.programs, name, row)
            report = estimate(arguments.gshard, path, row)
            ratios[name] = print_row(name, row, report)
            runs[name] = (row, path)
            if arguments.auto and "pipeline" not in row and not found_is_no_slower(arguments.gshard, path, row, report):
                slower.append(name)
        if ratios:
            off = [abs(ratio - 1) for ratio in ratios.values()]
            print(f"{file.name}: {len(ratios)} runs, median {statistics.median(ratios.values()):.3f}, {sum(x <= .15 for x in off)} within "
                  f"15 %, {sum(x <= .3 for x in off)} within 30 %")
        kept[file.name] = ratios
    if arguments.sustained:
        print_sustained(arguments.gshard, runs)
    if arguments.json:
        arguments.json.write_text(json.dumps(kept, indent=1))
    if slower:
        sys.exit("the plan found is slower: " + ", ".join(slower))


if __name__ == "__main__":
    main()
