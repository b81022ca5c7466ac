"""Instruction by instruction: what gshard-opt and XLA infer for the same module."""
import collections
import concurrent.futures
import math
import os
import re
import subprocess

import hlo_lines
import shardings
import xla_propagation


def ours(text, as_xla=True, split_constants=False, mode="gspmd"):
    """(propagated text, "") or (None, error). Not `as_xla`: with our own defaults for the program's boundary.

    XLA on CPU does not split constants.
    """
    tool = os.environ.get("GSHARD_OPT", "gshard-opt")
    flags = [f"--propagation={mode}", *([] if split_constants else ["--no-split-constants"])]
    done = subprocess.run([tool, "propagate", "-", *flags, *(hlo_lines.xla_defaults(text) if as_xla else [])],
                          input=text, capture_output=True, text=True, timeout=60)
    return (done.stdout, "") if done.returncode == 0 else (None, done.stderr.strip()[:400])


def ours_of_this_graph(text):
    """(our propagation of the text as it stands, nothing simplified before and no constant split, ""), or (None, error).

    The graph that XLA's own pass had: without Shardy's meshes in its header, which would choose Shardy's mode, and with XLA's
    flags for the program's boundary where the header has none.
    """
    head, _, rest = text.partition("\n")
    at = head.find(", frontend_attributes={")
    if at >= 0:
        head = head[:at] + head[hlo_lines.closing(head, head.index("{", at)):]
    for what in ("parameters", "output"):
        flag = f"allow_spmd_sharding_propagation_to_{what}="
        if flag not in head:
            head += f", {flag}{{false}}"
    tool = os.environ.get("GSHARD_OPT", "gshard-opt")
    done = subprocess.run([tool, "optimize", "--passes", "propagate", "-"], input=head + "\n" + rest, capture_output=True,
                          text=True, timeout=60)
    return (done.stdout, "") if done.returncode == 0 else (None, done.stderr.strip()[:400])


def late_replication(before, sharding, theirs):
    """Ours is replicated and XLA has none, which means the same, where the program boundary may be replicated last.

    XLA stops there; we let the instructions around it know, so that a second run changes nothing.
    """
    boundary = re.search(r"^HloModule [^\n]*allow_spmd_sharding_propagation_to_\w+=\{[^}]*true", before)
    return boundary and theirs is None and shardings.parse(sharding) == ("replicated",)


def differences(before, after, mine):
    """[(name, ours, XLA's)] of the instructions of `before`, and how many were compared."""
    want = xla_propagation.results_by_name(before, after)
    have = {x.name: x.sharding for x in shardings.instructions(mine)}
    out = []
    for name, s in want.items():
        if name not in have:
            out.append((name, "missing", s))
        elif shardings.parse(have[name]) != shardings.parse(s) and not late_replication(before, have[name], s):
            out.append((name, have[name], s))
    return out, len(want)


def unique(text):
    """{name: instruction} of the names that are there once."""
    found = collections.defaultdict(list)
    for x in shardings.instructions(text):
        found[x.name].append(x)
    return {name: rows[0] for name, rows in found.items() if len(rows) == 1}


def prepared_for_xla(path):
    """The text without metadata and with Shardy's attributes as plain shardings, or None."""
    tool = os.environ.get("GSHARD_OPT", "gshard-opt")
    done = subprocess.run(f"{tool} optimize --passes import-shardy '{path}' | {tool} print --no-metadata -",
                          shell=True, capture_output=True, text=True)
    text = shardings.without_meshes(done.stdout[done.stdout.find("HloModule"):])
    devices = max([1] + [math.prod(int(d) for d in dims.split(","))
                         for dims in re.findall(r"devices=\[([\d,]+)\]", text)])
    if "num_partitions=" not in text.split("\n", 1)[0]:
        text = re.sub(r"^(HloModule [^\s,]+)", rf"\1, num_partitions={devices}", text, count=1)
    return text if done.returncode == 0 and devices > 1 else None


def differences_end_to_end(text, after, mine):
    """[(name, ours, XLA's)] of the names that are there once in what XLA was given, made of it, and we made of the file,
    and how many were compared."""
    written, have = unique(text), unique(mine)
    theirs = collections.defaultdict(list)
    for x in shardings.instructions(after):  # XLA's op_name is our name, behind its callers' ones
        name_here = x.op_name.rsplit("/", 1)[-1] if x.op_name else None
        y = written.get(name_here)
        if y and y.shape == x.shape and (y.opcode, x.opcode) in ((x.opcode, x.opcode), ("custom-call", "copy")):
            theirs[name_here].append(x.sharding)
    names = [x for x, s in theirs.items() if len(s) == 1 and x in have]
    rows = [(x, have[x].sharding, theirs[x][0]) for x in names]
    return [row for row in rows if shardings.parse(row[1]) != shardings.parse(row[2])], len(names)


def arguments_reversed(text):
    """The text with the arguments of each conditional made in the opposite order, or None if it has none.

    XLA's importer makes them in an order that its print does not show, and propagation asks users in the order in
    which they were made. A value that two branches take may come out by either order.
    """
    lines = text.split("\n")
    places = {}
    for k, line in enumerate(lines):
        m = hlo_lines.INSTRUCTION.match(line)
        if m:
            places[m.group(2)] = k
    swapped = False
    for line in list(lines):
        m = re.search(r" conditional\(%[\w.\-]+, (.*?)\)", line)
        if not m:
            continue
        at = sorted(places[n] for n in set(re.findall(r"%([\w.\-]+)", m.group(1))))
        if len(at) < 2:
            continue
        block = [lines[k] for k in reversed(at)]
        for k in at[:-1]:
            lines[k] = ""
        lines[at[-1]] = "\n".join(block)
        swapped = True
    return "\n".join(lines) if swapped else None


def check(before, after):
    """(differences, compared, error) of our propagation of `before` against XLA's."""
    mine, error = ours_of_this_graph(before)
    if mine is None:
        return [], 0, "gshard: " + error
    found, compared = differences(before, after, mine)
    if found:
        other = arguments_reversed(before)
        mine = ours_of_this_graph(other)[0] if other else None
        if mine and not differences(before, after, mine)[0]:
            found = []
    return found, compared, ""


def run(graphs, workers=2):
    """For {name: text}: yields (name, differences, compared, error)."""
    names = list(graphs)
    parts = [names[k::workers] for k in range(workers)]
    with concurrent.futures.ThreadPoolExecutor(workers) as pool:
        results = {}
        for part, answers in zip(parts, pool.map(
                lambda p: xla_propagation.propagate([graphs[n] for n in p]), parts)):
            results.update(zip(part, answers))
    for name in names:
        texts, error = results[name]
        if texts is None:
            yield name, [], 0, "XLA: " + error
        else:
            yield (name, *check(*texts))
