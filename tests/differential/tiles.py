"""Shardings of the form devices=[..] as tiles of numpy arrays: cutting inputs up, putting outputs together."""
import re

import numpy as np


def leaves_of(text):
    """The leaf shardings of "{..}" or "{{..}, {..}}", in order."""
    inner = text.strip()[1:-1].strip()
    if not inner.startswith("{"):
        return [text.strip()] if inner else []
    leaves, depth, start = [], 0, 0
    for i, c in enumerate(inner):
        if c == "{":
            start = i if depth == 0 else start
            depth += 1
        elif c == "}":
            depth -= 1
            if depth == 0:
                leaves.append(inner[start:i + 1])
    return leaves


class Tiles:
    """Where the tiles of one array lie: `counts` per dim (empty: whole), `index[device]` or None."""

    def __init__(self, text, devices):
        text = re.sub(r"/\*.*?\*/", "", text)
        self.counts, self.index = (), [()] * devices
        one = re.search(r"maximal device=(\d+)", text)
        if one:
            self.index = [() if d == int(one.group(1)) else None for d in range(devices)]
        cut = re.search(r"devices=\[([\d,]+)\](?:<=\[([\d,]+)\](?:T\(([\d,]+)\))?|([\d,]+))", text)
        if not cut:
            return
        numbers = lambda group: [int(x) for x in cut.group(group).split(",")]
        dims = numbers(1)
        if cut.group(4):
            order = np.array(numbers(4))
        else:
            order = np.arange(devices).reshape(numbers(2))
            order = order.transpose(numbers(3)) if cut.group(3) else order
        data = len(dims) - (1 if "last_tile_dim_replicate" in text else 0)
        self.counts = tuple(dims[:data])
        for place, device in np.ndenumerate(order.reshape(dims)):
            self.index[device] = place[:data]

    def box(self, device, whole):
        """The slices of `whole` that the device's tile covers, without padding."""
        if not self.counts:
            return tuple(slice(0, n) for n in whole)
        sizes = [-(-n // t) for n, t in zip(whole, self.counts)]
        return tuple(slice(min(i * z, n), min((i + 1) * z, n))
                     for i, z, n in zip(self.index[device], sizes, whole))

    def cut(self, array, device):
        """The device's tile, padding filled with what no program may read."""
        if self.index[device] is None:
            return np.full(array.shape, poison(array.dtype), array.dtype)
        part = array[self.box(device, array.shape)]
        if not self.counts:
            return np.ascontiguousarray(part)
        tile = np.full([-(-n // t) for n, t in zip(array.shape, self.counts)], poison(array.dtype), array.dtype)
        tile[tuple(slice(0, n) for n in part.shape)] = part
        return tile


def poison(dtype):
    if dtype.kind == "b":
        return True
    if dtype.kind in "iu" or dtype.name.startswith(("int", "uint")):
        return 99 if dtype.itemsize > 1 or dtype.kind in "iu" else 1
    return np.nan
