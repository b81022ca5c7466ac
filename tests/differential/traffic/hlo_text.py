"""Reads the HLO text that XLA and gshard-opt print (one instruction a line) as computations and instructions."""
import math
import re

import hlo_lines

COMPUTATION = re.compile(r"^(ENTRY )?%?([\w.\-]+) (?:\(.*)?\{\s*$")
ARRAY = re.compile(r"([a-z]\w*)\[([\d,<= ]*)\]")
BITS = {"pred": 8, "token": 0, "opaque": 0}


class Array:
    """One array of a shape."""

    def __init__(self, dtype, dims):
        self.dtype, self.dims = dtype, dims
        self.elements = math.prod(dims)
        bits = BITS.get(dtype)
        if bits is None:
            bits = int(re.search(r"\d+", dtype).group(0))
        self.bytes = self.elements * bits / 8

    @property
    def is_float(self):
        return self.dtype[0] in "fbc" and self.dtype != "pred"


class Instruction:
    def __init__(self, name, shape, opcode, operands, attributes, is_root):
        self.name, self.opcode, self.operands, self.is_root = name, opcode, operands, is_root
        self.attributes = attributes  # the text behind the operands
        self.is_tuple = shape.startswith("(")
        self.arrays = [Array(t, [int(x) for x in d.replace("<=", "").split(",") if x.strip()])
                       for t, d in ARRAY.findall(re.sub(r"\{[^{}]*\}", "", shape))]

    @property
    def dims(self):
        return self.arrays[0].dims if self.arrays else []

    @property
    def bytes(self):
        return sum(a.bytes for a in self.arrays)

    def attribute(self, key):
        """The value of `key=` up to the end of its braces or to the comma, or None."""
        found = re.search(r"[, ]" + key + r"=", self.attributes)
        if not found:
            return None
        start = end = found.end()
        depth = 0
        while end < len(self.attributes):
            c = self.attributes[end]
            depth += {"{": 1, "[": 1, "(": 1, "}": -1, "]": -1, ")": -1}.get(c, 0)
            if depth < 0 or c == "," and depth == 0:
                break
            end += 1
        return self.attributes[start:end].strip()

    def ints(self, key):
        return [int(x) for x in re.findall(r"-?\d+", self.attribute(key) or "")]

    def called(self, key):
        """Names of the computations behind `key=`."""
        return re.findall(r"[\w.\-]+", (self.attribute(key) or "").replace("%", " "))


class Computation:
    def __init__(self, name):
        self.name, self.instructions, self.by_name, self.root = name, [], {}, None

    def add(self, instruction):
        self.instructions.append(instruction)
        self.by_name[instruction.name] = instruction
        if instruction.is_root:
            self.root = instruction

    def operand(self, instruction, k):
        return self.by_name[instruction.operands[k]]


class Module:
    def __init__(self, text):
        self.computations, self.entry, self.devices = {}, None, 1
        found = re.search(r"^HloModule .*?num_partitions=(\d+)", text, re.M)
        if found:
            self.devices = int(found.group(1))
        current = None
        for line in text.split("\n"):
            if "/*" in line:
                line = re.sub(r"/\*.*?\*/", "", line)
            if current is None:
                found = COMPUTATION.match(line)
                if found:
                    current = Computation(found.group(2))
                    self.computations[current.name] = current
                    if found.group(1):
                        self.entry = current
            elif line.startswith("}"):
                current = None
            else:
                instruction = read_instruction(line)
                if instruction:
                    current.add(instruction)


def read_instruction(line):
    x = hlo_lines.instruction(line)
    if x is None:
        return None
    operands = [] if x.opcode in ("constant", "parameter") else re.findall(r"%([\w.\-]+)", x.operands)
    instruction = Instruction(x.name, x.shape, x.opcode, operands, x.attributes, x.is_root)
    instruction.inside = x.operands
    return instruction
