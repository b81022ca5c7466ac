"""Shardings of HLO text as values that can be compared, and the instructions of a text that carry them."""
import math
import re
import typing

import hlo_lines
from hlo_lines import closing, split_top


def _ints(text):
    return [int(x) for x in text.split(",")] if text else []


def _transposed(dims, permutation):
    """Flat iota of `dims`, transposed."""
    strides = [math.prod(dims[i + 1:]) for i in range(len(dims))]
    order = [0]
    for p in permutation:
        order = [base + k * strides[p] for base in order for k in range(dims[p])]
    return order


TILES = re.compile(r"devices=\[([\d,]+)\](?:<=\[([\d,]+)\](?:T\(([\d,]+)\))?|([\d,]+))")


def tile_array(text):
    """([dims], [devices in row-major order]) of `devices=..`, which begins the text."""
    m = TILES.match(text)
    if m.group(4):
        return _ints(m.group(1)), _ints(m.group(4))
    reshape = _ints(m.group(2))
    permutation = _ints(m.group(3)) if m.group(3) else range(len(reshape))
    return _ints(m.group(1)), list(_transposed(reshape, permutation))


def parse(text):
    """A value that is equal for shardings of equal meaning; None for none. Replication is normalised."""
    if text is None:
        return None
    text = text.strip()
    inner = text[1:-1].strip()
    if inner == "" or inner.startswith("{"):
        return ("tuple",) + tuple(parse(p) for p in split_top(inner))
    if inner.startswith("mesh"):
        return _parse_mesh(inner)
    m = re.match(r"maximal device=(\d+)", inner)
    if m:
        return ("maximal", int(m.group(1)))
    m = TILES.match(inner)
    if not m:
        return (inner.split()[0],)
    dims, order = tile_array(inner)
    types = []
    rest = inner[m.end():]
    q = re.search(r"last_tile_dims=\{([^}]*)\}", rest)
    if q:
        types = [t.strip() for t in q.group(1).split(",")]
    elif "last_tile_dim_replicate" in rest:
        types = ["replicated"]
    return _tiled(dims, order, types)


def _tiled(dims, order, types):
    data = dims[:len(dims) - len(types)]
    replicated = math.prod(d for d, t in zip(dims[len(data):], types) if t == "replicated")
    if types and types[-1] == "replicated" and all(t != "replicated" for t in types[:-1]):
        # Devices of one tile in ascending order: their order says nothing.
        order = [x for i in range(0, len(order), replicated) for x in sorted(order[i:i + replicated])]
    kept = [(d, t) for d, t in zip(dims[len(data):], types) if d > 1]
    if math.prod(data) == 1 and len({t for _, t in kept}) <= 1:
        return (kept[0][1],) if kept else ("replicated",)
    return ("tiled", tuple(data), tuple(kept), tuple(order))


def _parse_mesh(inner):
    m = re.match(r"mesh\[([^\]]*)\]", inner)
    axes = [(a, int(n)) for a, n in re.findall(r"'([^']+)'=(\d+)", m.group(1))]
    rest = inner[m.end():]
    ids = None
    q = re.match(r"\s*,\s*device_ids=\(", rest)
    if q:
        end = closing(rest, q.end() - 1)
        spec = rest[q.end():end - 1]
        r = re.match(r"\[([\d,]+)\](?:T\(([\d,]+)\))?$", spec)
        ids = _transposed(_ints(r.group(1)), _ints(r.group(2)) if r.group(2) else
                          range(len(_ints(r.group(1))))) if r else _ints(spec)
        rest = rest[end:]
    rest = rest.lstrip(" ,")
    if not rest.startswith("["):
        return (rest.split("}")[0].split(",")[0].strip(),)
    end = closing(rest, 0)
    dims = []
    for part in split_top(rest[1:end - 1]):
        dims.append([(a, int(p) if p else 1, int(s) if s else None)
                     for a, p, s in re.findall(r"'([^']+)'(?::\((\d+)\)(\d+))?", part)])
    sizes = dict(axes)
    cuts = {a: {1, n} for a, n in axes}
    for dim in dims:
        for a, pre, size in dim:
            cuts[a] |= {pre, pre * (size or sizes[a])}
    pieces, where = [], {}
    for a, n in axes:
        c = sorted(cuts[a])
        for lo, hi in zip(c, c[1:]):
            where[(a, lo)] = len(pieces)
            pieces.append((a, lo, hi // lo))
    order, counts = [], []
    for dim in dims:
        count = 1
        for a, pre, size in dim:
            size = size or sizes[a]
            count *= size
            order += [k for k, (b, lo, _) in enumerate(pieces) if b == a and pre <= lo < pre * size]
        counts.append(count)
    left = [k for k in range(len(pieces)) if k not in order]
    flat = _transposed([p[2] for p in pieces], order + left)
    if ids is not None:
        flat = [ids[x] for x in flat]
    spare = math.prod(pieces[k][2] for k in left)
    return _tiled(counts + [spare], flat, ["replicated"])


def to_text(value):
    """A parsed sharding in its plainest text form."""
    if value[0] == "tuple":
        return "{" + ", ".join(to_text(v) for v in value[1:]) + "}"
    if value[0] == "maximal":
        return f"{{maximal device={value[1]}}}"
    if value[0] != "tiled":
        return f"{{{value[0]}}}"
    _, data, kept, order = value
    dims = ",".join(str(d) for d in data + tuple(d for d, _ in kept))
    types = [t for _, t in kept]
    tail = ""
    if types == ["replicated"]:
        tail = " last_tile_dim_replicate"
    elif types:
        tail = f" last_tile_dims={{{', '.join(types)}}}"
    return f"{{devices=[{dims}]{','.join(map(str, order))}{tail}}}"


def without_meshes(text):
    """The text with shardings in mesh form written as device lists."""
    out, at = [], 0
    while True:
        start = text.find("sharding={", at)
        if start < 0:
            return "".join(out) + text[at:]
        end = closing(text, start + 9)
        body = text[start + 9:end]
        out.append(text[at:start + 9])
        out.append(to_text(parse(body)) if "mesh[" in body and text[start - 1] == " " else body)
        at = end


class Instruction(typing.NamedTuple):
    name: str
    shape: str  # without layouts
    opcode: str
    sharding: str  # text or None
    op_name: str  # or None


def instructions(text):
    """Every Instruction of the text."""
    for line in text.split("\n"):
        x = hlo_lines.instruction(line)
        if x is None:
            continue
        shape = re.sub(r"/\*.*?\*/|\{[^}]*\}", "", x.shape)
        rest = x.attributes
        s = rest.find("sharding={")
        while s > 0 and rest[s - 1] not in " ,":
            s = rest.find("sharding={", s + 1)
        sharding = rest[s + 9:closing(rest, s + 9)] if s >= 0 else None
        o = re.search(r'op_name="((?:[^"\\]|\\.)*)"', rest)
        yield Instruction(x.name, shape, x.opcode, sharding, o.group(1) if o else None)
