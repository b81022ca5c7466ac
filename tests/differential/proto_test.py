"""HLO protos and the text of the same modules: the same prints, whatever reads them.

For every text that XLA's parser takes (golden inputs, samples, the corpus where it is present):
  - XLA's proto of it and XLA's text of it print the same through gshard-opt (the header apart: a proto has neither
    replica_count nor num_partitions, and no word on what propagation may change)
  - gzip of the proto, and the proto as HloProto and as HloSnapshot, read as the proto does
"""
import glob
import gzip
import math
import os
import re
import subprocess
import tempfile

import xla
from jax._src.lib import xla_client
from tally import Tally

HERE = os.path.dirname(os.path.abspath(__file__))
CORPUS = os.environ.get("GSHARD_CORPUS", "")
MOST_ELEMENTS = 10 ** 7
# What the proto of a module lacks.
TEXT_ONLY = re.compile(r", (num_partitions|replica_count|allow_spmd_sharding_propagation_to_\w+|"
                       r"alias_passthrough_params)=(\{[^}]*\}|\w+)")


def texts():
    for path in sorted(glob.glob(os.path.join(HERE, "..", "golden", "*", "*.hlo"))):
        with open(path) as file:
            for i, part in enumerate(file.read().split("// -----")):
                if "HloModule" in part:
                    lines = [line for line in part.splitlines() if not line.startswith("//")]
                    yield f"{os.path.relpath(path, HERE)} part {i}", "\n".join(lines)
    for path in sorted(glob.glob(os.path.join(HERE, "..", "..", "samples", "*.hlo")) +
                       glob.glob(os.path.join(CORPUS, "*.hlo"))):
        with open(path) as file:
            yield os.path.basename(path), file.read()


def is_heavy(text):
    """Does XLA make up hundreds of megabytes for values that the text leaves out?"""
    for dims in re.findall(r"\[([\d,]+)\](?:\{[\d,]*\})? constant\(\{\.\.\.\}\)", text):
        if math.prod(int(dim) for dim in dims.split(",")) > MOST_ELEMENTS:
            return True
    return False


def printed(path):
    """(the print with computations in one order, or None; standard error)"""
    done = subprocess.run(["gshard-opt", "print", path], capture_output=True, text=True)
    if done.returncode:
        return None, done.stderr
    blocks = TEXT_ONLY.sub("", done.stdout).split("\n\n")
    return "\n\n".join(blocks[:1] + sorted(blocks[1:])), ""


def field(number, content):
    """A field of bytes in the wire format."""
    def varint(n):
        out = b""
        while n > 127:
            out += bytes([n & 127 | 128])
            n >>= 7
        return out + bytes([n])
    return varint(number << 3 | 2) + varint(len(content)) + content


def compare(tally, name, module, work):
    options = xla_client.hlo.HloPrintOptions()
    options.print_large_constants = True
    text_path = os.path.join(work, "a.hlo")
    with open(text_path, "w") as file:
        file.write(module.to_string(options))
    expected, errors = printed(text_path)
    if expected is None:
        # XLA takes what the verifier does not; or prints what neither parser reads.
        return
    proto = module.as_serialized_hlo_module_proto()
    forms = {"proto": proto}
    if (tally.passed + tally.failed) % 10 == 0:
        forms["HloProto"] = field(1, proto)
        forms["HloSnapshot"] = field(1, field(1, proto))
        forms["gzip"] = gzip.compress(proto)
    for form, content in forms.items():
        path = os.path.join(work, "a.hlo.pb")
        with open(path, "wb") as file:
            file.write(content)
        found, errors = printed(path)
        problem = errors
        if found is not None and found != expected:
            pairs = zip(found.splitlines(), expected.splitlines())
            problem = next((f"{a}\n  text: {b}" for a, b in pairs if a != b), "other lengths")
        tally.check(f"{form} of {name}", problem)


def main():
    tally = Tally()
    if not CORPUS:
        print("SKIPPED: the corpus (GSHARD_CORPUS) is absent")
    with tempfile.TemporaryDirectory() as work:
        for name, text in texts():
            if is_heavy(text):
                continue
            try:
                module = xla.module_of(text)
            except Exception:  # jaxlib raises its own types
                continue
            compare(tally, name, module, work)
    tally.finish()


if __name__ == "__main__":
    main()
