#!/usr/bin/env python3
"""The sample transformer_train with its layer loops unrolled, and how propagation and partitioning scale with it.

  unrolled_transformer.py LAYERS [--steps K]     prints the HLO text: K training steps, one after the other
  unrolled_transformer.py --measure 10 30 100    annotates each, times the passes, prints a Markdown table

Each layer is the loop body's instructions under names of its own, forward and backward; weights are stacked over
LAYERS. Without the loop nothing tells the compiler that layers are alike.
"""
import argparse
import json
import os
import re
import subprocess
import sys
import tempfile

SAMPLES = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "samples")
SAMPLE_LAYERS = 4
DEFINITION = re.compile(r"^\s*(?:ROOT )?([\w.\-]+) = ")
NAME = re.compile(r"(?<![\w.\-/\"=])[A-Za-z_][\w.\-]*")
MESH = "data=16,model=16"


def with_layers(text, layers):
    text = text.replace(f"[{SAMPLE_LAYERS},", f"[{layers},")
    return text.replace(f"s32[] constant({SAMPLE_LAYERS})", f"s32[] constant({layers})")


def computations_of(text):
    """({name: lines}, entry lines, everything before the entry)."""
    before, entry = text.split("\nENTRY ", 1)
    found = {}
    for block in re.finditer(r"^([\w.\-]+)[^\n]*\{\n(.*?)^\}", before, re.M | re.S):
        found[block.group(1)] = block.group(2).splitlines()
    return found, entry.splitlines(), before


def renamed(line, names):
    """The line with the names of the operands and of the result exchanged; attributes stay."""
    head, _, metadata = line.partition(", metadata=")
    head = NAME.sub(lambda m: names.get(m.group(0), m.group(0)), head)
    return head + (", metadata=" + metadata if metadata else "")


def unrolled(lines, computations, layers):
    """The entry's lines with each while replaced by `layers` copies of its body."""
    out, names = [], {}
    for line in lines:
        line = renamed(line, names)
        loop = re.match(r"\s*([\w.\-]+) = .* while\(([\w.\-]+)\), condition=[\w.\-]+, body=([\w.\-]+)", line)
        if loop is None:
            out.append(line)
            continue
        value = loop.group(2)
        for k in range(layers):
            here = {}
            for inner in computations[loop.group(3)]:
                name = DEFINITION.match(inner).group(1)
                if " parameter(" in inner:
                    here[name] = value
                    continue
                here[name] = f"{name}.layer{k}"
                out.append(renamed(inner.replace("ROOT ", ""), here))
            value = here[name]
        names[loop.group(1)] = value
    return out


def repeated(lines, steps):
    """The entry's lines `steps` times: what one step returns is what the next one takes."""
    body = [line for line in lines if DEFINITION.match(line)]
    parameters = {}
    for line in body:
        number = re.search(r" parameter\((\d+)\)", line)
        if number:
            parameters[DEFINITION.match(line).group(1)] = int(number.group(1))
    out = [line for line in body if " parameter(" in line]
    results = []
    for k in range(steps):
        names = {}
        for name, number in parameters.items():
            names[name] = results[number] if number < len(results) else name
        for line in body:
            name = DEFINITION.match(line).group(1)
            if name in parameters:
                continue
            names[name] = f"{name}.step{k}"
            if "ROOT " not in line:
                out.append(renamed(line, names))
                continue
            root = renamed(line, names)
            operands = re.search(r" tuple\(([^)]*)\)", root).group(1)
            # The loss and the norm of the gradient come last and go nowhere.
            results = [x.strip() for x in re.sub(r"/\*.*?\*/", "", operands).split(",")][:-2]
    return [lines[0]] + out + [root, "}"]


def module(layers, steps):
    text = with_layers(open(os.path.join(SAMPLES, "transformer_train.hlo")).read(), layers)
    computations, entry, before = computations_of(text)
    return before + "\nENTRY " + "\n".join(repeated(unrolled(entry, computations, layers), steps)) + "\n"


def times(command, path, work):
    report = os.path.join(work, "times.json")
    subprocess.run(["gshard-opt", command, path, f"--time-passes={report}", "--repeat", "3", "-o", os.path.join(work, "out.hlo")],
                   check=True)
    document = json.load(open(report))
    return {entry["name"]: entry["time_ms"] / 1e3 for entry in document["passes"]}, document["peak_rss_bytes"] / 2**20


def measure(sizes, steps, partition):
    print("| layers | instructions | parse s | inline s | propagate s | µs an instruction | partition s | peak MiB |")
    print("|---|---|---|---|---|---|---|---|")
    for layers in sizes:
        with tempfile.TemporaryDirectory() as work:
            plain, annotated = os.path.join(work, "plain.hlo"), os.path.join(work, "annotated.hlo")
            open(plain, "w").write(module(layers, steps))
            subprocess.run(["gshard-opt", "annotate", plain, "--mesh", MESH, "--rules",
                            os.path.join(SAMPLES, "transformer_train.rules"), "-o", annotated], check=True)
            found, peak = times("propagate", annotated, work)
            count = sum(1 for line in open(os.path.join(work, "out.hlo")) if " = " in line)
            rest = "-"
            if partition:
                whole, peak = times("partition", annotated, work)
                rest = f"{whole['partition']:.2f}"
        print(f"| {layers} | {count} | {found['parse']:.2f} | {found['inline-calls']:.2f} | {found['propagate']:.3f} | "
              f"{1e6 * found['propagate'] / count:.2f} | {rest} | {peak:.0f} |", flush=True)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("layers", nargs="+", type=int)
    parser.add_argument("--steps", type=int, default=3)
    parser.add_argument("--measure", action="store_true")
    parser.add_argument("--no-partition", action="store_true")
    options = parser.parse_args()
    if options.measure:
        measure(options.layers, options.steps, not options.no_partition)
    else:
        sys.stdout.write(module(options.layers[0], options.steps))


if __name__ == "__main__":
    main()
