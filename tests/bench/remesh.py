#!/usr/bin/env python3
"""The same program on a larger mesh of the same axes, where JAX would refuse dims that do not divide or take minutes.

    remesh.py moe.2048.hlo --from data=2048,model=1 --to data=2048,model=8 -o moe.16384.hlo

Shardings in HLO text, `devices=[..]<=[..]T(..)`, are read as lists of the axes of --from, major first, and written with
the sizes of --to. An axis of size 1 there is one that nothing is cut along here.
"""
import argparse
import math
import re
import sys


def axes_of(text):
    return {name: int(size) for name, size in (axis.split("=") for axis in text.split(","))}


def take(size, axes, sizes):
    """Takes the axes from the front of the list that make `size` together."""
    taken, product = [], 1
    while product < size:
        taken.append(axes.pop(0))
        product *= sizes[taken[-1]]
    if product != size:
        sys.exit(f"remesh: a dim of {size} is no product of the axes {sizes}")
    return taken


def remeshed(match, old, new):
    tiles, source, order, copies = match.groups()
    tiles = [int(t) for t in tiles.split(",")]
    left = [axis for axis in old if old[axis] > 1]
    groups = [take(int(size), left, old) for size in source.split(",")]
    permutation = [int(i) for i in order.split(",")] if order else range(len(groups))
    permuted = [axis for i in permutation for axis in groups[i]]
    dims = [take(size, permuted, old) for size in tiles]
    idle = [axis for axis in new if old[axis] == 1 and new[axis] > 1]
    if idle and not copies:
        dims.append([])
        copies = " last_tile_dim_replicate"
    if idle:
        dims[-1] += idle
    size = lambda group: math.prod(new[axis] for axis in group)
    listed = [axis for dim in dims for axis in dim]
    iota = [axis for axis in new if new[axis] > 1]
    text = ",".join(str(size(dim)) for dim in dims)
    if listed == iota:
        return f"devices=[{text}]<=[{size(iota)}]{copies or ''}"
    turned = ",".join(str(iota.index(axis)) for axis in listed)
    return f"devices=[{text}]<=[{','.join(str(new[axis]) for axis in iota)}]T({turned}){copies or ''}"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("text")
    parser.add_argument("--from", dest="old", required=True, type=axes_of, metavar="AXIS=SIZE,..")
    parser.add_argument("--to", dest="new", required=True, type=axes_of, metavar="AXIS=SIZE,..")
    parser.add_argument("-o", "--output", required=True)
    options = parser.parse_args()
    if list(options.old) != list(options.new):
        parser.error("--from and --to are to name the same axes in the same order")
    with open(options.text) as file:
        text = file.read()
    sharding = r"devices=\[([0-9,]+)\]<=\[([0-9,]+)\](?:T\(([0-9,]+)\))?( last_tile_dim_replicate)?"
    text = re.sub(sharding, lambda match: remeshed(match, options.old, options.new), text)
    text = re.sub(r"num_partitions=\d+", f"num_partitions={math.prod(options.new.values())}", text)
    with open(options.output, "w") as file:
        file.write(text)


if __name__ == "__main__":
    main()
