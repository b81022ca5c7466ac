"""`gshard-cost sweep --batch` says of every batch what gshard-cost says of the program written with that batch, to the last digit;
and all that it says of that program as it is.

usage: sweep_batch.py BIN_DIR, from the top of the checkout

Programs: stacks of layers of cost_programs.py, in a loop and written out, over one device and over a mesh; two samples, of
which the one with another batch is made by changing the size wherever it stands in a shape.
"""
import concurrent.futures
import json
import os
import re
import subprocess
import sys
import tempfile

import cost_programs

BIN = os.path.abspath(sys.argv[1])
FIGURES = {"step_time_s": ["step_time_s"], "mfu": ["mfu"], "peak_bytes": ["memory", "peak_bytes"]}


def tool(name, *words, text):
    done = subprocess.run([os.path.join(BIN, name), *map(str, words)], input=text, capture_output=True, text=True)
    if done.returncode not in (0, 3):
        raise RuntimeError(f"{name} {' '.join(map(str, words))}: exit {done.returncode}: {done.stderr[:400]}")
    return done.stdout


def layers(batch):
    """Layers in a loop, and written out, one device and four."""
    print_as = lambda text: tool("gshard-opt", "print", "-", text=text)
    for kind in cost_programs.KINDS:
        for scanned in (True, False):
            yield f"{kind}{' scanned' if scanned else ''}", print_as(cost_programs.stack_of_layers(kind, scanned, batch=batch))
    for kind in ("dense", "attention"):
        loss = cost_programs.loss_of(cost_programs.stack_of_layers(kind, True, batch=batch), batch)
        yield f"{kind} gradients", tool("gshard-opt", "grad", "-", text=loss)


def sample(name, before, batch):
    """The sample with another batch, which is a number that nothing else has."""
    text = open(f"samples/{name}.hlo").read()
    return re.sub(r"(?<=[\[,{:])" + str(before) + r"(?=[\],}])", str(batch), text)


def cases():
    """Name, program at a batch, flags of the sweep, {batch: program at it}."""
    # Every parameter of a stack but the first is a weight.
    yield from ((name, text, ["--batch", "param:0$=0"], {4: text, 8: twice, 12: thrice})
                for (name, text), (_, twice), (_, thrice) in zip(layers(4), layers(8), layers(12)))
    for name, batch, flags in [("mlp", MLP_BATCH, []), ("resnet_train", 2048, [])]:
        yield name, sample(name, batch, batch), flags, {size: sample(name, batch, size) for size in (batch // 2, batch, 3 * batch)}


def judge(case):
    name, text, flags, programs = case

    def sweep(program, *batches):
        sizes = ",".join(map(str, batches))
        found = json.loads(tool("gshard-cost", "sweep", "-", *flags, "--batch", sizes, "--chip", "tpu-v5e", "--json", text=program))
        if found["failed"]:
            raise RuntimeError(found["failed"][0]["message"])
        return found["points"]

    try:
        wrong = []
        for point, (batch, program) in zip(sweep(text, *programs), programs.items()):
            if point != sweep(program, batch)[0]:
                wrong.append(f"{name}: the sweep of the program at {batch} says otherwise")
            report = json.loads(tool("gshard-cost", "-", "--chip", "tpu-v5e", "--json", text=program))
            for key, path in FIGURES.items():
                value = report
                for step in path:
                    value = value[step]
                if point[key] != value:
                    wrong.append(f"{name}: {key} at {batch} is {point[key]}, of the program at {batch} {value}")
            if point["batch"] != batch or point["step_time_per_example_s"] != point["step_time_s"] / batch:
                wrong.append(f"{name}: the batch and its time per example")
        return wrong
    except (RuntimeError, KeyError) as error:
        return [f"{name}: {error}"]


MLP_BATCH = 2048

if __name__ == "__main__":
    passed = failed = 0
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        for case, wrong in zip(all_cases := list(cases()), pool.map(judge, all_cases)):
            passed, failed = passed + (not wrong), failed + bool(wrong)
            for line in wrong:
                print("FAIL", line)
    print(f"{passed} passed, {failed} failed")
    sys.exit(failed != 0 or passed == 0)
