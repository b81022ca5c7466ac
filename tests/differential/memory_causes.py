"""What XLA's CPU compiler adds to a program's peak memory, isolated one cause at a time from its own compiled text.

Each cause is a difference of two figures. Fragmentation is XLA's figure less the live bytes of its compiled text. The order
is what the text needs less as soon as gshard-cost may order it (is_scheduled=false). Layout copies are what it then needs
less when each copy, transpose, or fusion of nothing but these is a bitcast. What is left is the program as XLA fuses it.
"""
import re

COMPUTATION = re.compile(r"^(?:ENTRY )?%?([\w.\-]+) \(.*\{$")
INSTRUCTION = re.compile(r"^\s+(?:ROOT )?%[\w.\-]+ = \S+ ([\w\-]+)\(")
FUSION = re.compile(r"^(\s+(?:ROOT )?%([\w.\-]+) = (\S+) )fusion\((%[\w.\-]+)\), kind=\w+, calls=%([\w.\-]+)")
COPY = re.compile(r"^(\s+(?:ROOT )?%([\w.\-]+) = (\S+) )(?:copy|transpose)\((%[\w.\-]+)\)")
MOVES = {"parameter", "bitcast", "copy", "transpose", "reshape"}
WIDTHS = {"pred": 1, "s8": 1, "u8": 1, "bf16": 2, "f16": 2, "f64": 8, "s64": 8}


def moving_computations(text):
    """Names of the computations that only copy or transpose one parameter."""
    opcodes, name = {}, None
    for line in text.splitlines():
        if begins := COMPUTATION.match(line):
            name = begins[1]
            opcodes[name] = []
        elif name and (instruction := INSTRUCTION.match(line)):
            opcodes[name].append(instruction[1])
    return {n for n, ops in opcodes.items() if MOVES.issuperset(ops) and ops.count("parameter") == 1}


def size_of(shape):
    element, dims = re.match(r"(\w+)\[([\d,]*)\]", shape).groups()
    size = WIDTHS.get(element, 4)
    for dim in filter(None, dims.split(",")):
        size *= int(dim)
    return size


def without_layout_copies(text):
    """The text with bitcasts for its layout copies, also those within fusions (which may then work in place), and the
    copies outside: (bytes, name), largest first."""
    moving, fused = moving_computations(text), set(re.findall(r"calls=%([\w.\-]+)", text))
    lines, copies, is_fused = [], [], False
    for line in text.splitlines():
        if begins := COMPUTATION.match(line):
            is_fused = begins[1] in fused
        found = FUSION.match(line)
        if not found or found[5] not in moving:
            found = COPY.match(line)
        if found:
            if not is_fused:
                copies.append((size_of(found[3]), found[2]))
            line = f"{found[1]}bitcast({found[4]})"
        lines.append(line)
    return "\n".join(lines) + "\n", sorted(copies, reverse=True)


def causes(text, xla, live, bytes_of):
    """[(bytes, what)] of XLA's figure `xla`; `live` is gshard-cost's of the compiled text, `bytes_of(text)` asks it."""
    bare, copies = without_layout_copies(text)
    unordered = [t.replace("is_scheduled=true", "is_scheduled=false", 1) for t in (text, bare)]
    ordered, base = map(bytes_of, unordered)
    largest = ", ".join(f"{name} of {size / (1 << 20):.2f} MiB" for size, name in copies[:3])
    return [(xla - live, "fragmentation"),
            (live - ordered, "an order that keeps more than the least"),
            (ordered - base, f"layout copies: {len(copies)}, such as {largest}")]
