"""Bubbles of emitted programs beside the schedules' formulas, by gshard-cost's own figure of the program.

Equal dense layers (or a Transformer's without embedding and softmax, samples/papers/gpipe.py), pipelined by each schedule
without recomputation, so that stages are alike. Bounds: gpipe and 1f1b (K-1)/(M+K-1) + .005, zero-bubble (K-1)/(3M+K-1) + .01 and no
more than 1f1b, interleaved and shift with R chunks (K-1)/(RM+K-1) + .01. Interleaved and zero-bubble want M >= K.

The formula of zero-bubble has F = B = W, the times of a micro-batch's forward pass, backward pass and gradients of weights.
With those of the program, means over its stages, a step takes M(F+B+W) + (K-1)(F+B-W), for M = K in any order: the last stage
runs K forward and K backward passes by turns, the first cotangent and the last go K-1 stages, in all (2K-1)(F+B) + W. The column
"own" is the bubble with these times, and with what the busiest stage, the last with its loss, takes longer than others.

usage: pipeline_bubbles.py [--model dense|transformer] [--layers N] [--only SCHEDULE] [--stages K] [--show]

needs the built programs on PATH, and JAX
"""
import argparse
import itertools
import json
import pathlib
import statistics
import subprocess
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "samples" / "papers"))
import gpipe  # noqa: E402

SCHEDULES = {"gpipe": 1, "1f1b": 1, "interleaved": 2, "zero-bubble": 1, "shift": 1}  # chunks a device


def dense(layers, m, width=8192, tokens=8192):
    """Residual feed-forward layers: forward, cotangents and gradients of weights are two products each, of all layers."""
    params = dict(layers=dict(wi=gpipe.f32(layers, width, width), wo=gpipe.f32(layers, width, width)), shift=gpipe.f32(width))

    def loss(p, x):
        x = gpipe.scan(lambda x, w: x + gpipe.jax.nn.relu(x @ gpipe.half(w["wi"])) @ gpipe.half(w["wo"]),
                       x + gpipe.half(p["shift"]), p["layers"])
        return gpipe.jnp.mean(x.astype(gpipe.jnp.float32) ** 2)

    return gpipe.text(loss, params, gpipe.jax.ShapeDtypeStruct((m * tokens, width), gpipe.jnp.bfloat16), f"{layers} dense layers")


def transformer(layers, m):
    return gpipe.transformer(layers, batch=m * 2, ends=False)


CHIP = "tpu-v5p"  # all fit in its memory
MODELS = {"dense": dense, "transformer": transformer}


def combinations():
    for k, m, schedule in itertools.product((2, 4, 8), (4, 8, 32), SCHEDULES):
        if m >= k or schedule not in ("interleaved", "zero-bubble"):
            yield k, m, schedule


def bound(k, m, schedule):
    """The formula, and how much may be above it."""
    chunks = 3 if schedule == "zero-bubble" else SCHEDULES[schedule]
    return (k - 1) / (chunks * m + k - 1), .005 if schedule in ("gpipe", "1f1b") else .01


def own_bound(k, m, schedule, cost):
    """The formula with the program's own times: passes that are not alike, and stages that are not quite."""
    busy = [stage["busy_s"] for stage in cost["stages"]]
    if cost["schedule"] != "zero-bubble":
        return 1 - (1 - bound(k, m, schedule)[0]) * statistics.fmean(busy) / max(busy)
    f, b, w = (statistics.fmean(p["time_s"] for p in cost["passes"] if p["name"].endswith(end))
               for end in ("_forward", "_backward", "_weight_gradients"))
    return 1 - statistics.fmean(busy) / (max(busy) + (k - 1) * (f + b - w))


def pipeline_of(program, work, k, m, schedule):
    """gshard-cost's section on the pipeline."""
    out = work / "pipelined.hlo"
    subprocess.run(["gshard-opt", "pipeline", program, "--stages", str(k), "--microbatches", str(m), "--schedule", schedule,
                    "--remat", "none", "--chip", CHIP, "-o", out], check=True)
    done = subprocess.run(["gshard-cost", out, "--chip", CHIP, "--json"], check=True, capture_output=True, text=True)
    return json.loads(done.stdout)["pipeline"]


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--layers", type=int, default=32)
    parser.add_argument("--model", choices=MODELS, default="dense")
    parser.add_argument("--only", choices=SCHEDULES)
    parser.add_argument("--stages", type=int)
    parser.add_argument("--show", action="store_true", help="times of passes, too")
    flags = parser.parse_args()
    above = 0
    print(f"{'K':>2} {'M':>3} {'schedule':12} {'bubble':>7} {'formula':>8} {'above':>7}   {'own':>6}  busiest stage / least, transfers / span, planned")
    with tempfile.TemporaryDirectory() as name:
        work, programs, of_1f1b = pathlib.Path(name), {}, {}
        for k, m, schedule in combinations():
            if (flags.only and schedule != flags.only) or (flags.stages and k != flags.stages):
                continue
            if m not in programs:
                programs[m] = work / f"{m}.hlo"
                programs[m].write_text(MODELS[flags.model](flags.layers, m))
            cost = pipeline_of(programs[m], work, k, m, schedule)
            bubble, (formula, slack) = cost["bubble_share"], bound(k, m, schedule)
            of_1f1b.update({(k, m): bubble} if schedule == "1f1b" else {})
            fails = bubble > formula + slack or (schedule == "zero-bubble" and bubble > of_1f1b.get((k, m), 1) + 1e-9)
            above += fails
            busy = [stage["busy_s"] for stage in cost["stages"]]
            own = own_bound(k, m, schedule, cost)
            print(f"{k:2} {m:3} {schedule:12} {bubble:7.4f} {formula:8.4f} {bubble - formula:7.4f} {'!' if fails else ' '} {own:6.4f} "
                  f"{max(busy) / min(busy):6.3f}, {cost['transfer_s'] / cost['span_s']:6.3f} {cost['planned_bubble_share']:.4f}", flush=True)
            if flags.show:
                print("     " + ", ".join(f"{p['name']} {1e3 * p['time_s']:.3f}" for p in cost["passes"]))
    print(f"{above} above their bounds")
    return above != 0


if __name__ == "__main__":
    sys.exit(main())
