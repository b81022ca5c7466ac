"""Index faults injected into partitioned programs: `gshard-run --verify` must catch them with random inputs alone.

  tests/verification/inject_index_faults.py [--faults N] [--seed S] [--keep DIR]

Small random programs that gather, scatter, slice dynamically, update, choose branches, compare with iotas and count rows are
partitioned; one line of the per-device program that computes an index, a mask or a branch is damaged: an offset is off by one
or by a tile, a clamp, a bound or a condition is missing, a comparison takes one row more or less, devices have each other's
offsets, branches are exchanged. A damaged program is wrong if its results differ from the right one's for some of many given
inputs, whose integers sweep all that they index and what lies around it. Then `gshard-run damaged.hlo --reference program.hlo
--verify`, with random inputs of one seed, must fail (exit code 3). Each fault is of another program. Needs at least 99 of
100. Needs numpy; gshard-opt and gshard-run are taken from PATH.
"""
import argparse
import collections
import os
import random
import re
import sys
import tempfile

import numpy

import inject_faults
from inject_faults import head, operands_of, replace_line, run
sys.path.insert(0, os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "differential"))
import hlo_lines  # noqa: E402

DEVICES = 8
ADD = """add { a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT c = f32[] add(a, b) }
"""


class Graph:
    """Text, and of every integer parameter its name, dims and what it may be: low..high."""

    def __init__(self, text, indices):
        self.text = text
        self.indices = indices


# --- Programs: each draws sizes and shardings.

def rows_cut(rng):
    return rng.choice(["{devices=[8,1]<=[8]}", "{devices=[4,1,2]<=[8] last_tile_dim_replicate}",
                       "{devices=[4,1,2]<=[2,4]T(1,0) last_tile_dim_replicate}", "{devices=[4,2]<=[8]}"])


def embedding(rng):
    rows, count = rng.choice([40, 64, 60]), rng.choice([16, 24, 32])
    cut = rng.choice(["{replicated}", "{devices=[8,1]<=[8]}", "{devices=[2,1,4]<=[8] last_tile_dim_replicate}"])
    return Graph(f"""ENTRY e {{
  table = f32[{rows},16] parameter(0), sharding={rows_cut(rng)}
  ids = s32[{count},1] parameter(1), sharding={cut}
  ROOT g = f32[{count},16] gather(table, ids), offset_dims={{1}}, collapsed_slice_dims={{0}}, start_index_map={{0}},
    index_vector_dim=1, slice_sizes={{1,16}}, sharding={cut}
}}""", {"ids": ((count, 1), -3, rows + 2)})


def gather_points(rng):
    return Graph(f"""ENTRY e {{
  x = f32[32,24] parameter(0), sharding={rows_cut(rng)}
  at = s32[40,2] parameter(1), sharding={{replicated}}
  ROOT g = f32[40,2] gather(x, at), offset_dims={{1}}, collapsed_slice_dims={{0}}, start_index_map={{0,1}},
    index_vector_dim=1, slice_sizes={{1,2}}, sharding={{replicated}}
}}""", {"at": ((40, 2), -3, 34)})


def segment_sum(rng):
    rows, count = rng.choice([24, 32, 30]), rng.choice([40, 64])
    combine = rng.choice(["add", "add", "set"])
    unique = ", unique_indices=true" if combine == "set" else ""
    if combine == "set":
        count = rows // 2
    text = ADD + "set { a = f32[] parameter(0)\n  ROOT b = f32[] parameter(1) }\n" + f"""ENTRY e {{
  x = f32[{rows},8] parameter(0), sharding={rows_cut(rng)}
  ids = s32[{count},1] parameter(1), sharding={{replicated}}
  u = f32[{count},8] parameter(2), sharding={rng.choice(["{replicated}", "{devices=[8,1]<=[8]}"])}
  ROOT s = f32[{rows},8] scatter(x, ids, u), update_window_dims={{1}}, inserted_window_dims={{0}},
    scatter_dims_to_operand_dims={{0}}, index_vector_dim=1{unique}, to_apply={combine}, sharding={{devices=[8,1]<=[8]}}
}}"""
    return Graph(text, {"ids": ((count, 1), -2 if combine == "add" else 0, rows + (1 if combine == "add" else -1))})


def slice_rows(rng):
    rows, size = rng.choice([64, 40, 50]), rng.choice([1, 4, 6])
    return Graph(f"""ENTRY e {{
  x = f32[{rows},16] parameter(0), sharding={rows_cut(rng)}
  at = s32[] parameter(1), sharding={{replicated}}
  z = s32[] constant(0)
  ROOT d = f32[{size},16] dynamic-slice(x, at, z), dynamic_slice_sizes={{{size},16}}, sharding={{replicated}}
}}""", {"at": ((), -9, rows + 8)})


def update_rows(rng):
    rows, size = rng.choice([64, 40, 50]), rng.choice([1, 4, 6])
    cut = rows_cut(rng)
    return Graph(f"""ENTRY e {{
  x = f32[{rows},16] parameter(0), sharding={cut}
  u = f32[{size},16] parameter(1), sharding={{replicated}}
  at = s32[] parameter(2), sharding={{replicated}}
  z = s32[] constant(0)
  ROOT d = f32[{rows},16] dynamic-update-slice(x, u, at, z), sharding={cut}
}}""", {"at": ((), -9, rows + 8)})


def update_block(rng):
    return Graph(f"""ENTRY e {{
  x = f32[32,24] parameter(0), sharding={{devices=[4,2]<=[8]}}
  u = f32[{rng.choice([1, 3])},2] parameter(1), sharding={{replicated}}
  i = s32[] parameter(2), sharding={{replicated}}
  k = s32[] parameter(3), sharding={{replicated}}
  ROOT d = f32[32,24] dynamic-update-slice(x, u, i, k), sharding={{devices=[4,2]<=[8]}}
}}""", {"i": ((), -9, 40), "k": ((), -13, 36)})


def update_from_end(rng):
    """As JAX writes x.at[i].set(u): negative positions count from the end."""
    rows = rng.choice([64, 40])
    return Graph(f"""ENTRY e {{
  x = f32[{rows},16] parameter(0), sharding={{devices=[8,1]<=[8]}}
  u = f32[1,16] parameter(1), sharding={{replicated}}
  at = s32[] parameter(2), sharding={{replicated}}
  z = s32[] constant(0)
  n = s32[] constant({rows})
  l = pred[] compare(at, z), direction=LT
  w = s32[] add(at, n)
  i = s32[] select(l, w, at)
  ROOT d = f32[{rows},16] dynamic-update-slice(x, u, i, z), sharding={{devices=[8,1]<=[8]}}
}}""", {"at": ((), -rows - 9, rows + 8)})


def branches(rng):
    count = rng.choice([2, 3, 5])
    bodies = ["negate", "exponential", "tanh", "cosine", "abs"]
    text = "".join(f"b{k} {{ x{k} = f32[16,4] parameter(0)\n  ROOT y{k} = f32[16,4] {bodies[k]}(x{k}) }}\n" for k in range(count))
    names = ", ".join(f"b{k}" for k in range(count))
    operands = ", ".join(["x"] * count)
    return Graph(text + f"""ENTRY e {{
  i = s32[] parameter(0), sharding={{replicated}}
  x = f32[16,4] parameter(1), sharding={{devices=[8,1]<=[8]}}
  ROOT c = f32[16,4] conditional(i, {operands}), branch_computations={{{names}}}, sharding={{devices=[8,1]<=[8]}}
}}""", {"i": ((), -2, count + 1)})


def one_hot(rng):
    classes, count = rng.choice([24, 32]), 16
    return Graph(f"""ENTRY e {{
  labels = s32[{count}] parameter(0), sharding={{replicated}}
  x = f32[{classes},8] parameter(1), sharding={{devices=[8,1]<=[8]}}
  i = s32[{count},{classes}] iota(), iota_dimension=1
  b = s32[{count},{classes}] broadcast(labels), dimensions={{0}}
  h = pred[{count},{classes}] compare(b, i), direction=EQ, sharding={{devices=[1,8]<=[8]}}
  f = f32[{count},{classes}] convert(h)
  ROOT d = f32[{count},8] dot(f, x), lhs_contracting_dims={{1}}, rhs_contracting_dims={{0}}, sharding={{replicated}}
}}""", {"labels": ((count,), -2, classes + 1)})


def lengths(rng):
    rows = rng.choice([32, 40, 28])
    return Graph(f"""ENTRY e {{
  n = s32[6] parameter(0), sharding={{replicated}}
  x = f32[6,{rows}] parameter(1), sharding={{devices=[1,8]<=[8]}}
  i = s32[6,{rows}] iota(), iota_dimension=1
  b = s32[6,{rows}] broadcast(n), dimensions={{0}}
  m = pred[6,{rows}] compare(i, b), direction={rng.choice(["LT", "LE", "GE"])}
  z = f32[] constant(0)
  zb = f32[6,{rows}] broadcast(z), dimensions={{}}
  ROOT s = f32[6,{rows}] select(m, x, zb), sharding={{devices=[1,8]<=[8]}}
}}""", {"n": ((6,), -2, rows + 2)})


def decode(rng):
    """A loop that writes rows from a position on."""
    rows, steps = 64, rng.choice([2, 3])
    return Graph(f"""cond {{ s = (s32[], s32[], f32[{rows},8]) parameter(0)
  k = s32[] get-tuple-element(s), index=0
  n = s32[] constant({steps})
  ROOT l = pred[] compare(k, n), direction=LT }}
body {{ s = (s32[], s32[], f32[{rows},8]) parameter(0)
  k = s32[] get-tuple-element(s), index=0
  at = s32[] get-tuple-element(s), index=1
  x = f32[{rows},8] get-tuple-element(s), index=2
  one = s32[] constant(1)
  z = s32[] constant(0)
  i = s32[] add(at, k)
  v = f32[1,8] dynamic-slice(x, i, z), dynamic_slice_sizes={{1,8}}
  w = f32[1,8] cosine(v)
  j = s32[] add(i, one)
  y = f32[{rows},8] dynamic-update-slice(x, w, j, z)
  k1 = s32[] add(k, one)
  ROOT t = (s32[], s32[], f32[{rows},8]) tuple(k1, at, y) }}
ENTRY e {{
  x = f32[{rows},8] parameter(0), sharding={{devices=[8,1]<=[8]}}
  at = s32[] parameter(1), sharding={{replicated}}
  z = s32[] constant(0)
  t = (s32[], s32[], f32[{rows},8]) tuple(z, at, x)
  w = (s32[], s32[], f32[{rows},8]) while(t), condition=cond, body=body
  ROOT r = f32[{rows},8] get-tuple-element(w), index=2, sharding={{devices=[8,1]<=[8]}}
}}""", {"at": ((), -9, rows + 8)})


PROGRAMS = [embedding, gather_points, segment_sum, slice_rows, update_rows, update_block, update_from_end, branches, one_hot,
            lengths, decode]

# --- Faults: each gives (damaged text, what) or nothing.

INTEGER = r"^[su](32|64)\[[\d,]*\]"


def is_integer(line):
    return re.match(INTEGER, line.shape) is not None


def lines_of(program, *opcodes):
    return [(i, l) for i, l in program.lines.items() if l.opcode in opcodes]


def moved_constant(program, rng):
    """A number that offsets, bounds or sizes of tiles are made of."""
    found = [(i, l) for i, l in lines_of(program, "constant") if is_integer(l) and re.match(r"^-?\d+$", l.operands) and
             program.users[l.name]]
    if not found:
        return None
    i, line = rng.choice(found)
    value = int(line.operands)
    new = value + rng.choice([-1, 1, 4, 8, -8])
    if line.shape.startswith("u") and new < 0:
        return None
    return replace_line(program, i, f"{head(line)} constant({new}){line.attributes}"), "offset or bound moved"


def shifted_table(program, rng):
    """Devices have each other's offsets."""
    found = [(i, l) for i, l in lines_of(program, "constant") if is_integer(l) and l.operands.startswith("{") and
             not l.operands.startswith("{{")]
    if not found:
        return None
    i, line = rng.choice(found)
    values = line.operands.strip("{}").split(",")
    turn = rng.randrange(1, len(values)) if len(values) > 1 else 0
    if turn == 0:
        return None
    values = values[turn:] + values[:turn]
    return replace_line(program, i, f"{head(line)} constant({{{','.join(values)}}}){line.attributes}"), "another shard's rows"


def other_device(program, rng):
    """The number of the device is another's."""
    found = [(i, l) for i, l in lines_of(program, "partition-id")]
    if not found:
        return None
    i, line = rng.choice(found)
    text = (f"  %right_id = u32[] partition-id()\n  %turn_id = u32[] constant({rng.choice([1, 2, 4])})\n"
            f"{head(line)} xor(%right_id, %turn_id)")
    return replace_line(program, i, text), "another shard's rows"


def no_clamp(program, rng):
    found = [(i, l) for i, l in lines_of(program, "clamp", "minimum", "maximum") if is_integer(l)]
    if not found:
        return None
    i, line = rng.choice(found)
    parts = hlo_lines.split_top(line.operands)
    kept = parts[1] if line.opcode == "clamp" else parts[rng.randrange(2)]
    return replace_line(program, i, f"{head(line)} copy({kept.strip()})"), "clamp missing"


def other_bound(program, rng):
    """A row more or less."""
    found = [(i, l) for i, l in lines_of(program, "compare")
             if any(is_integer(program.by_name[o]) for o in operands_of(l) if o in program.by_name)]
    if not found:
        return None
    i, line = rng.choice(found)
    direction = re.search(r"direction=(\w\w)", line.attributes).group(1)
    new = {"LT": "LE", "LE": "LT", "GT": "GE", "GE": "GT", "EQ": "GE", "NE": "LT"}[direction]
    return replace_line(program, i, program.text[i].replace("direction=" + direction, "direction=" + new)), "row dropped or doubled"


def no_condition(program, rng):
    found = [(i, l) for i, l in lines_of(program, "and") if l.shape.startswith("pred")]
    found += [(i, l) for i, l in lines_of(program, "select") if not program.is_array(l.name)]
    if not found:
        return None
    i, line = rng.choice(found)
    parts = hlo_lines.split_top(line.operands)
    kept = rng.choice(parts[-2:]).strip()
    return replace_line(program, i, f"{head(line)} copy({kept})"), "condition missing"


def shifted_start(program, rng):
    """A start of a slice or an update is off by one, or by a tile."""
    found = lines_of(program, "dynamic-slice", "dynamic-update-slice")
    found = [(i, l) for i, l in found if len(operands_of(l)) > 1]
    if not found:
        return None
    i, line = rng.choice(found)
    parts = [p.strip() for p in hlo_lines.split_top(line.operands)]
    first = 1 if line.opcode == "dynamic-slice" else 2
    k = rng.randrange(first, len(parts))
    name = parts[k].split(" ")[-1].lstrip("%")
    if name not in program.by_name:
        return None
    kind = program.by_name[name].shape.split("{")[0]
    parts[k] = "%moved_start"
    operator = rng.choice(["add", "subtract"])
    text = (f"  %moved_by = {kind} constant({rng.choice([1, 4, 8])})\n  %moved_start = {kind} {operator}(%{name}, %moved_by)\n"
            f"{head(line)} {line.opcode}({', '.join(parts)}){line.attributes}")
    return replace_line(program, i, text), "start off"


def other_branch(program, rng):
    found = lines_of(program, "conditional")
    if not found:
        return None
    i, line = rng.choice(found)
    m = re.search(r"branch_computations=\{([^}]*)\}", line.attributes)
    if m is None:
        return None
    names = [n.strip() for n in m.group(1).split(",")]
    a, b = rng.sample(range(len(names)), 2)
    if rng.random() < 0.5:
        names[a], names[b] = names[b], names[a]
    else:
        names[a] = names[b]
    damaged = program.text[i].replace(m.group(0), "branch_computations={" + ", ".join(names) + "}")
    return replace_line(program, i, damaged), "wrong branch"


FAULTS = [moved_constant, shifted_table, other_device, no_clamp, no_clamp, other_bound, no_condition, shifted_start, other_branch,
          other_branch]

# --- Which damaged programs are wrong.

SWEEPS = 30


def swept_inputs(graph, folder, name):
    """Files of given integers; scalars step through all that they may be, arrays are drawn from it."""
    rng = numpy.random.default_rng(0)
    files = []
    for sweep in range(SWEEPS):
        arrays = {}
        for k, (leaf, (dims, low, high)) in enumerate(graph.indices.items()):
            if dims == ():
                step = (high - low + 1) / SWEEPS
                at = (sweep * (7 if k else 1)) % SWEEPS
                arrays[leaf] = numpy.int32(low + int(step * at) + int(rng.integers(0, max(int(step), 1))))
            else:
                arrays[leaf] = rng.integers(low, high + 1, dims).astype(numpy.int32)
                if graph.indices[leaf][1] == 0:  # promised to be unique
                    arrays[leaf] = rng.permutation(high + 1)[:dims[0]].astype(numpy.int32).reshape(dims)
        path = os.path.join(folder, f"{name}.{sweep}.npz")
        numpy.savez(path, **arrays)
        files.append(path)
    return files


def results(path, given, folder):
    out = os.path.join(folder, "out.npz")
    done = run("gshard-run", path, "--input", given, "--output", out, "--threads", "1")
    if done.returncode:
        return None
    with numpy.load(out) as arrays:
        return [arrays[name] for name in sorted(arrays.files)]


def is_wrong(right, damaged, files, known, folder):
    """Do results differ for some input? None: it does not run."""
    for given in files:
        if given not in known:
            known[given] = results(right, given, folder)
        have = results(damaged, given, folder)
        if have is None:
            return None
        for a, b in zip(known[given], have):
            if a.shape != b.shape or not numpy.allclose(a, b, rtol=1e-3, atol=1e-3, equal_nan=True):
                return True
    return False


def write(path, text):
    with open(path, "w") as out:
        out.write(text)


def inject(number, rng, folder, seed):
    """(what, program, caught, damaged text) of one fault of a new program."""
    make = PROGRAMS[number % len(PROGRAMS)]
    graph = make(rng)
    name = f"{make.__name__}{number}"
    whole = os.path.join(folder, name + ".hlo")
    write(whole, f"HloModule {make.__name__}, num_partitions={DEVICES}\n{graph.text}\n")
    program = inject_faults.Program(name, whole)
    right = os.path.join(folder, name + ".right.hlo")
    write(right, "\n".join(program.text))
    damaged = os.path.join(folder, name + ".damaged.hlo")
    files, known = swept_inputs(graph, folder, name), {}
    for _ in range(60):
        made = rng.choice(FAULTS)(program, rng)
        if made is None or made[0] in program.damaged:
            continue
        text, what = made
        program.damaged.add(text)
        write(damaged, text)
        if is_wrong(right, damaged, files, known, folder):
            done = run("gshard-run", damaged, "--reference", whole, "--verify", "--seed", str(seed))
            return what, name, done.returncode == 3, text, graph
    return None


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--faults", type=int, default=100)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--keep", default="")
    options = parser.parse_args()
    rng = random.Random(options.seed)
    tally = collections.defaultdict(list)
    number = 0
    with tempfile.TemporaryDirectory() as folder:
        while sum(map(len, tally.values())) < options.faults and number < 3 * options.faults:
            found = inject(number, rng, folder, number % 5)
            number += 1
            if found is None:
                continue
            what, name, caught, text, graph = found
            tally[what].append(caught)
            print(f"{'ok' if caught else 'MISSED'}: {name}: {what}", flush=True)
            if not caught and options.keep:
                os.makedirs(options.keep, exist_ok=True)
                write(os.path.join(options.keep, name + ".damaged.hlo"), text)
                write(os.path.join(options.keep, name + ".hlo"), f"HloModule m, num_partitions={DEVICES}\n{graph.text}\n")
    total = [caught for results_of in tally.values() for caught in results_of]
    print(f"{'fault':36} {'injected':>8} {'caught':>7}")
    for what, caught in sorted(tally.items()) + [("all", total)]:
        print(f"{what:36} {len(caught):8} {sum(caught):7}")
    sys.exit(1 if len(total) < options.faults or sum(total) < 0.99 * len(total) else 0)


if __name__ == "__main__":
    main()
