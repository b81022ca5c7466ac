"""What holds of every propagation, whatever XLA says: a second run changes nothing, a second process says the same,
what the user fixed stays as it was, and other numbers of the devices give the same shardings by these numbers: so
does a list of some of twice as many, of which XLA itself has no program."""
import concurrent.futures
import math
import os
import re
import subprocess

import compare
import shardings

# The result is shared with other instructions, or may be refined by request.
SHARED = {"parameter", "while", "conditional", "call"}


def fixed_by_user(text):
    """{name: sharding} of the instructions whose annotation nothing may change."""
    roots = set(re.findall(r"^\s*ROOT %?([^\s=]+) = ", text, re.M))
    may_change = set(re.findall(r"^\s*(?:ROOT )?%?([^\s=]+) = .*(?:unspecified_dims=|\{unknown|shard_as|shard_like)",
                                text, re.M))
    return {x.name: x.sharding for x in shardings.instructions(text)
            if x.sharding and x.opcode not in SHARED and x.name not in roots and x.name not in may_change
            and "unknown" not in x.sharding}


def plainly(text):
    """The text as gshard-opt prints it: no meshes by name."""
    tool = os.environ.get("GSHARD_OPT", "gshard-opt")
    return subprocess.run([tool, "print", "-"], input=text, capture_output=True, text=True, timeout=60).stdout


# What names devices otherwise than in shardings, or has a count of them from elsewhere.
NAMES_DEVICES = re.compile(r"replica_groups|source_target_pairs|partition-id|manual|xla\.sdy|unreduced")


def spread_over_twice(text):
    """The text over some of twice as many devices (0,1,4,5 for 0..3), or None if it names them elsewhere too."""
    text = shardings.without_meshes(text)
    counts = [math.prod(map(int, dims.split(","))) for dims in re.findall(r"devices=\[([\d,]+)\]", text)]
    if not counts or max(counts) % 2 or NAMES_DEVICES.search(text):
        return None
    half = max(counts) // 2

    def moved(device):
        return device if device < half else device + half

    def as_list(m):
        dims, order = shardings.tile_array(m.group(0))
        return f"devices=[{','.join(map(str, dims))}]{','.join(str(moved(d)) for d in order)}"

    text = shardings.TILES.sub(as_list, text)
    text = re.sub(r"maximal device=(\d+)", lambda m: f"maximal device={moved(int(m.group(1)))}", text)
    header, body = text.split("\n", 1)
    header = re.sub(r", num_partitions=\d+", "", header)
    return re.sub(r"^(HloModule [^\s,]+)", rf"\1, num_partitions={4 * half}", header) + "\n" + body


def depends_on_numbers(text, once):
    """Where the shardings of the text over some of twice as many devices are others, or ""."""
    asked, expected = spread_over_twice(plainly(text)), spread_over_twice(once)
    if asked is None or expected is None:
        return ""
    have, error = compare.ours(asked, split_constants=True)
    if have is None:
        return "over some of the devices: " + error
    wanted = {x.name: x.sharding for x in shardings.instructions(expected)}
    for x in shardings.instructions(have):
        if shardings.parse(x.sharding) != shardings.parse(wanted.get(x.name)):
            return f"over some of the devices {x.name} is {x.sharding}, not {wanted.get(x.name)}"
    return ""


def broken(text):
    """Which law is broken for this module, or ""."""
    once, error = compare.ours(text, split_constants=True)
    if once is None:
        return error
    if compare.ours(text, split_constants=True)[0] != once:
        return "two runs differ"
    if "xla.sdy.meshes" in text:
        shardy, error = compare.ours(text, as_xla=False, mode="shardy")
        if shardy is None or compare.ours(shardy, as_xla=False, mode="shardy")[0] != shardy:
            return f"in Shardy's mode a second run differs {error}"
    # The text alone says what was refused.
    twice, error = compare.ours(once, as_xla=False, split_constants=True)
    if twice is None:
        return "a second propagation fails: " + error
    if twice != once:
        first, second = next((a, b) for a, b in zip(once.split("\n"), twice.split("\n")) if a != b)
        return f"not idempotent: {first.strip()[:200]} | {second.strip()[:200]}"
    have = {x.name: x.sharding for x in shardings.instructions(once)}
    for name, sharding in fixed_by_user(plainly(text)).items():
        if name in have and shardings.parse(have[name]) != shardings.parse(sharding):
            return f"{name} was fixed as {sharding}, now {have[name]}"
    return depends_on_numbers(text, once)


def run(texts, workers=2):
    """For {name: text}: yields (name, problem)."""
    with concurrent.futures.ThreadPoolExecutor(workers) as pool:
        yield from zip(texts, pool.map(broken, texts.values()))
