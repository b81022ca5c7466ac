"""What holds of every propagation, whatever XLA says: a second run changes nothing, a second process says the same,
and what the user fixed stays as it was."""
import concurrent.futures
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


def broken(text):
    """Which law is broken for this module, or ""."""
    once, error = compare.ours(text, split_constants=True)
    if once is None:
        return error
    if compare.ours(text, split_constants=True)[0] != once:
        return "two runs differ"
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
    return ""


def run(texts, workers=2):
    """For {name: text}: yields (name, problem)."""
    with concurrent.futures.ThreadPoolExecutor(workers) as pool:
        yield from zip(texts, pool.map(broken, texts.values()))
