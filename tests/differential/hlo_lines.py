"""Lines of HLO text as XLA and gshard-opt print them: brackets, and the parts of an instruction."""
import re
import typing

# Behind it stands the shape.
INSTRUCTION = re.compile(r"^\s*(ROOT )?%?([^\s=(){},%]+) = ")



def xla_defaults(text):
    """Flags of gshard-opt: where the header is silent, XLA lets parameters and results take no shardings."""
    header = re.search(r"^HloModule [^\n]*", text, re.M)
    header = header.group(0) if header else ""
    return [f"--allow-spmd-sharding-propagation-to-{what}=false" for what in ("parameters", "output")
            if f"allow_spmd_sharding_propagation_to_{what}=" not in header]


def closing(text, start):
    """Index just past the brace, bracket or parenthesis that closes the one at `start`."""
    depth, i = 0, start
    while i < len(text):
        c = text[i]
        if c == '"':
            i += 1
            while text[i] != '"':
                i += 2 if text[i] == "\\" else 1
        elif text.startswith("/*", i):
            i = text.index("*/", i) + 1
        elif c in "({[":
            depth += 1
        elif c in ")}]":
            depth -= 1
            if depth == 0:
                return i + 1
        i += 1
    raise ValueError("unbalanced: " + text[start:start + 60])


def split_top(text):
    """The comma-separated parts of `text` outside all brackets."""
    parts, depth, start, i = [], 0, 0, 0
    while i < len(text):
        c = text[i]
        if text.startswith("/*", i):
            i = text.index("*/", i) + 1
        elif c in "({[":
            depth += 1
        elif c in ")}]":
            depth -= 1
        elif c == "," and depth == 0:
            parts.append(text[start:i])
            start = i + 1
        i += 1
    if text[start:].strip():
        parts.append(text[start:])
    return [re.sub(r"/\*.*?\*/", "", p).strip() for p in parts]


class Line(typing.NamedTuple):
    is_root: bool
    name: str
    shape: str
    opcode: str
    operands: str  # the text between the parentheses
    attributes: str  # the text behind them


def instruction(line):
    """The Line, or None where this is none."""
    m = INSTRUCTION.match(line)
    if not m:
        return None
    start = m.end()
    at = closing(line, start) if line[start] == "(" else line.index(" ", start)
    q = re.match(r"\s*([\w\-]+)\(", line[at:])
    if not q:
        return None
    open_at = at + q.end() - 1
    end = closing(line, open_at)
    return Line(bool(m.group(1)), m.group(2), line[start:at], q.group(1), line[open_at + 1:end - 1], line[end:])
