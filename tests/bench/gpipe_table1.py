"""GPipe's Table 1, part B, by the emitted programs: the largest Transformer whose program fits in 16 GiB a core.

The graph of L layers is samples/papers/gpipe.py's with the paper's configuration (arXiv 1811.06965): d_model 2048, hidden 8192,
32 heads, 32k words, sequence 1024, batch 32, 8 micro-batches, recomputation by stage; 12 bytes a parameter: the weight, one
slot and the gradient, each float32. A number of layers fits if `gshard-opt pipeline | gshard-cost --attention materialized
--limit 16GiB` says so: the paper is older than attention as one kernel, and keeps its scores. Beside it, of the paper's own number of layers, what the memory of the fullest stage holds and what the paper says a core has.

usage: gpipe_table1.py [--stages K ...] [--step N]    needs the built programs on PATH, and JAX
"""
import argparse
import collections
import json
import pathlib
import re
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "samples" / "papers"))
import gpipe  # noqa: E402

GIB = 2**30
SEQUENCE = 1024
# By stages: layers; of all cores GiB of parameters with their states and gradients, and of activations.
PAPER = {1: (13, 8.8, 6.4), 8: (103, 59.5, 50.9), 32: (415, 235.1, 199.9), 128: (1663, 937.9, 796.1)}
KINDS = ("weights and slots", "gradient sums", "kept activations", "temporaries")


class Table:
    def __init__(self, work, limit):
        self.work, self.limit, self.known = work, limit, {}

    def memory(self, stages, layers):
        """gshard-cost's section on memory, and the seconds of the two programs."""
        if (stages, layers) not in self.known:
            step, out = self.work / f"{layers}.hlo", self.work / "pipelined.hlo"
            step.write_text(gpipe.transformer(layers))
            begin = time.monotonic()
            subprocess.run(["gshard-opt", "pipeline", step, "--stages", str(stages), "--microbatches", "8", "--schedule", "gpipe",
                            "--remat", "stage", "-o", out], check=True)
            between = time.monotonic()
            done = subprocess.run(["gshard-cost", out, "--json", "--attention", "materialized", "--limit", f"{self.limit}GiB"], capture_output=True, text=True)
            if done.returncode not in (0, 3):
                raise RuntimeError(done.stderr)
            self.known[stages, layers] = json.loads(done.stdout)["memory"], between - begin, time.monotonic() - between
        return self.known[stages, layers]

    def fits(self, stages, layers):
        return self.memory(stages, layers)[0]["peak_bytes"] <= self.limit * GIB

    def largest(self, stages, near, step):
        """To within `step` layers: the largest number that fits, and does not with `step` more."""
        low = high = max(near // step * step, 1)
        stride = step
        if self.fits(stages, low):
            while self.fits(stages, high := low + stride):
                low, stride = high, 2 * stride
        else:
            while not self.fits(stages, low := max(high - stride, 1)):
                high, stride = low, 2 * stride
                if low == 1:
                    return 0
        while high - low > step:
            middle = (low + high) // 2
            low, high = (middle, high) if self.fits(stages, middle) else (low, middle)
        return low


def kind(value):
    """What a value alive at the peak is: activations have a dim of the sequence, weights and their gradients none."""
    dims = [int(d) for d in re.findall(r"\d+", value["shape"].partition("[")[2].partition("]")[0])]
    if value["class"] == "argument":
        return KINDS[0]
    if value["class"] == "loop carry":
        return KINDS[2] if SEQUENCE in dims else KINDS[1]
    return KINDS[3]


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--stages", type=int, nargs="+", choices=PAPER, default=sorted(PAPER))
    parser.add_argument("--step", type=int, default=0, help="layers between tried numbers (default: half the stages)")
    parser.add_argument("--limit", type=int, default=16, help="GiB of a core")
    parser.add_argument("--no-search", action="store_true", help="the paper's numbers of layers alone")
    flags = parser.parse_args()
    print(f"{'':26}|  of the paper's layers, GiB a core: {'; '.join(KINDS)}; in all (paper)")
    print(f"{'cores':>5} {'layers':>6} {'paper':>6} {'ratio':>5} |")
    with tempfile.TemporaryDirectory() as name:
        table = Table(pathlib.Path(name), flags.limit)
        for stages in flags.stages:
            layers, parameters, activations = PAPER[stages]
            memory, *seconds = table.memory(stages, layers)
            held = collections.Counter()
            for value in memory["at_peak"]:
                held[kind(value)] += value["bytes"] / GIB
            found = 0 if flags.no_search else table.largest(stages, layers, flags.step or max(stages // 2, 1))
            print(f"{stages:5} {found:6} {layers:6} {found / layers:5.3f} | " + "; ".join(f"{held[k]:.2f}" for k in KINDS) +
                  f"; {memory['peak_bytes'] / GIB:.2f} (parameters {parameters / stages:.2f}, activations "
                  f"{activations / stages:.2f})   pipeline {seconds[0]:.1f} s, cost {seconds[1]:.1f} s", flush=True)


if __name__ == "__main__":
    sys.exit(main())
