"""GPipe's tables and the schedules of its giants: ours beside the paper's (tables.py gpipe).

Programs are planned by `gshard-opt pipeline --report`, whose times are the cost model's. Throughputs are relative to K=2;
transfers between stages take no time, as in the paper's analysis.
"""

import json
import re
import subprocess
import sys

import amoebanet
import gpipe

GIB = 2**30
CUT = {"cut": "attention|loss"}  # a layer is attention and what follows
CELLS = {"cut": "cell_[0-9a-z]+"}
PARAMETERS = {3: "282.2M", 13: "785.8M", 103: "5.3B", 415: "21.0B", 1663: "83.9B"}  # Table 1, by layers


def plan(directory, name, text, **flags):
    """The report of a pipelined program; the program is made once."""
    directory.mkdir(parents=True, exist_ok=True)
    path, report = directory / f"gpipe_{name}.hlo", directory / f"gpipe_{name}.json"
    if not path.exists():
        path.write_text(text())
    words = [word for key, value in flags.items() for word in (f"--{key}", str(value))]
    done = subprocess.run(["gshard-opt", "pipeline", path, *words, "--report", report, "-o", "/dev/null"],
                          stderr=subprocess.PIPE, text=True, check=False)
    # Batch norm by micro-batch (W-PIPELINE-001) is as in the paper, and these programs are planned, not run.
    sys.stderr.write(re.sub(r"^\S.*\[W-PIPELINE-001\]\n(?:\s.*\n)*", "", done.stderr, flags=re.MULTILINE))
    done.check_returncode()
    return json.loads(report.read_text())


def throughput(directory):
    print("Tables 2 and 3: throughput at M=32, relative to K=2")
    print(f"{'':44} {'K=2':>6} {'K=4':>6} {'K=8':>6}")
    rows = [("Transformer, paper, TPU", (1, 1.89, 3.50)), ("Transformer, paper, GPU", (1, 1.8, 3.3))]
    models = (("48 equal layers", "t48", lambda: gpipe.transformer(48, ends=False), {}),
              ("48 layers, embedding, 32k softmax", "t48_ends", lambda: gpipe.transformer(48), {}),
              ("AmoebaNet-D(18,256)", "amoeba", lambda: amoebanet.amoebanet(18, 256), CELLS),
              ("AmoebaNet-D, GPipe's heuristic", "amoeba", None, CELLS | {"balance": "gpipe"}))
    for title, name, text, cut in models:
        for remat in ("none", "stage"):
            spans = [plan(directory, name, text, stages=k, microbatches=32, schedule="gpipe", remat=remat, **cut)["span_s"]
                     for k in (2, 4, 8)]
            rows.append((f"{title}, remat {remat}", [spans[0] / span for span in spans]))
        if name == "t48_ends":
            rows += [("AmoebaNet-D, paper, TPU", (1, 1.52, 2.88)), ("AmoebaNet-D, paper, GPU", (1, 1.7, 2.7))]
    for title, ratios in rows:
        print(f"{title:44} " + " ".join(f"{ratio:6.2f}" for ratio in ratios))


def largest(directory):
    print("\nTable 1: the largest Transformer on 16 GiB a core; 12 bytes a parameter, embedding and softmax on every\n"
          "core, bfloat16 activations, a layer's activations saved once, M=8 micro-batches of 4")
    one = plan(directory, "t13", lambda: gpipe.transformer(13), stages=1, microbatches=8, **CUT)
    layer = one["layers"][3]
    weights = layer["parameters"]
    ends = 2 * 32000 * 2048
    saved = layer["saved_bytes"]
    inputs = 32 * 1024 * 2048 * 2

    def memory(layers, last):
        return 12 * (ends + layers * weights) + layers * saved + (inputs if last else 0)

    fits = max(n for n in range(1, 200) if memory(n, True) <= 16 * GIB)
    print(f"a layer: {weights / 1e6:.2f}M parameters, {saved / GIB:.2f} GiB saved a micro-batch; {fits} layers fit a core")
    print(f"{'cores':>6} {'layers':>7} {'paper':>6} {'ratio':>6} {'parameters':>11} {'paper':>7} {'activations a core':>19}"
          f" {'paper':>6}")
    for cores, paper, activations in ((1, 13, 6.4), (8, 103, 6.36), (32, 415, 6.25), (128, 1663, 6.22)):
        layers = fits * cores
        count = ends + paper * weights
        print(f"{cores:6} {layers:7} {paper:6} {layers / paper:6.3f} {count / 1e9:10.4f}B {PARAMETERS[paper]:>7} "
              f"{(fits * saved + inputs) / GIB:15.2f} GiB {activations:6}")


def giants(directory):
    print("\nThe models that the paper trained, and a Conformer stack, M=32")
    print(f"{'':34} {'K':>3} {'R':>3} {'schedule':>9} {'parameters':>11} {'bubble':>7} {'imbalance':>9} {'useful':>7} "
          f"{'memory a stage':>15}")
    six = lambda: gpipe.transformer(128, batch=64, model=1024, hidden=16384, heads=32, vocabulary=64000,
                                    width=96)
    cases = [("Transformer 6B, 128 layers", "six", six, 16, schedule, 0, {})
             for schedule in ("gpipe", "1f1b", "zero-bubble")]
    # The cell of AmoebaNet-B is not at hand: D's with filters for as many parameters, 557M.
    wide = lambda: amoebanet.amoebanet(18, 552, batch=64, size=480)
    cases.append(("AmoebaNet-D(18,552), 480 x 480", "wide", wide, 4, "1f1b", 0, CELLS))
    stack = lambda: gpipe.conformer(40)
    cases += [("Conformer, 40 blocks", "conformer", stack, 8, "gpipe", 0, {})]
    cases += [("Conformer, 40 blocks", "conformer", stack, 8, "shift", r, {}) for r in (1, 2, 4)]
    for title, name, text, k, schedule, repeats, cut in cases:
        more = {"repeats": repeats} if repeats else {}
        d = plan(directory, name, text, stages=k, microbatches=32, schedule=schedule, **more, **cut)
        stages = [s for s in d["stage"] if s["device"] >= 0]
        device = {}
        for s in stages:
            device[s["device"]] = s["memory_bytes"]  # of the whole device, told with each of its stages
        weights = sum(layer["parameters"] for layer in d["layers"])
        print(f"{title:34} {k:3} {d['repeats']:3} {schedule:>9} {weights / 1e9:10.3f}B {d['bubble_fraction']:7.1%} "
              f"{d['imbalance']:9.3f} {d['useful_flops'] / d['executed_flops']:7.1%} "
              f"{max(device.values()) / GIB:11.2f} GiB")


def main(directory):
    throughput(directory)
    largest(directory)
    giants(directory)
