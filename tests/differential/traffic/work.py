"""What one device moves and computes in a partitioned module, counted from its HLO text.

Bytes moved per device, for a group of g devices:

  all-gather             (g-1)/g of the result
  reduce-scatter         (g-1)/g of the operand
  all-reduce           2 (g-1)/g of the operand
  all-to-all             (g-1)/g of the operand
  collective-permute     the operand, if some pair joins two devices
  collective-broadcast   the operand

A while loop counts as often as it runs, of a conditional the branch that moves most, a called computation every time.
Floating-point operations: dots and convolutions two a multiply-add (convolutions as if every window lay inside);
elementwise operations one an element of a float result, copies, converts and selects none; reductions one a float
element that they read.
"""
import collections
import math
import re

import hlo_text

COLLECTIVES = {"all-gather", "reduce-scatter", "all-reduce", "all-to-all", "ragged-all-to-all", "collective-permute",
               "collective-broadcast"}
ELEMENTWISE = set("""abs add atan2 cbrt ceil clamp cosine divide erf exponential exponential-minus-one floor log
log-plus-one logistic maximum minimum multiply negate power remainder round-nearest-afz round-nearest-even rsqrt sign
sine sqrt subtract tan tanh""".split())


def group_size(instruction, devices):
    """Members of each group of a collective."""
    text = instruction.attribute("replica_groups") or ""
    found = re.match(r"\[(\d+),(\d+)\]", text)
    if found:
        return int(found.group(2))
    found = re.search(r"replica_groups=mesh\[([^\]]*)\](?:, device_ids=\([^{}]*\))? ?\{([^}]*)\}",
                      instruction.attributes)
    if found:
        sizes = {name: int(size) for name, size in re.findall(r"'([^']+)'=(\d+)", found.group(1))}
        size = 1
        for name, part in re.findall(r"'([^']+)'(?::\(\d+\)(\d+))?", found.group(2)):
            size *= int(part) if part else sizes[name]
        return size
    found = re.match(r"\{\{([\d,]*)\}", text)
    if found:
        return len(found.group(1).split(","))
    return devices


def bytes_moved(computation, instruction, devices):
    kind = instruction.opcode
    operands = sum(computation.by_name[name].bytes for name in instruction.operands)
    if kind == "collective-permute":
        pairs = re.findall(r"\{(\d+),(\d+)\}", instruction.attribute("source_target_pairs") or "")
        return operands if any(a != b for a, b in pairs) else 0
    if kind == "collective-broadcast":
        return operands
    g = group_size(instruction, devices)
    share = (g - 1) / g
    if kind == "all-gather":
        return instruction.bytes * share
    return operands * share * (2 if kind == "all-reduce" else 1)


def window_size(instruction):
    found = re.search(r"size=([\dx]+)", instruction.attribute("window") or "")
    return math.prod(int(x) for x in found.group(1).split("x")) if found else 1


def flops(computation, instruction):
    """(kind, operations) or None."""
    opcode = instruction.opcode
    if not instruction.arrays or not any(a.is_float for a in instruction.arrays):
        return None
    result = sum(a.elements for a in instruction.arrays if a.is_float)
    if opcode in ELEMENTWISE:
        return "elementwise", result
    if opcode == "dot":
        lhs = computation.operand(instruction, 0).dims
        return "dot", 2 * result * math.prod(lhs[d] for d in instruction.ints("lhs_contracting_dims"))
    if opcode == "convolution":
        kernel = computation.operand(instruction, 1).dims
        labels = re.match(r"\w+_(\w+)->", instruction.attribute("dim_labels")).group(1)
        return "dot", 2 * result * window_size(instruction) * kernel[labels.index("i")]
    if opcode == "reduce":
        return "reduction", sum(a.elements for a in computation.operand(instruction, 0).arrays)
    if opcode == "reduce-window":
        return "reduction", result * window_size(instruction)
    return None


class Loops:
    """Trip counts of counted loops: a carried scalar steps by a constant towards a constant bound."""

    def __init__(self, module):
        self.module = module

    def trip_count(self, computation, loop):
        condition = self.module.computations[loop.called("condition")[0]]
        body = self.module.computations[loop.called("body")[0]]
        init = computation.operand(loop, 0)
        compare = self.seen_through(condition, condition.root)
        if compare.opcode != "compare":
            return None
        index = self.carried(condition, condition.operand(compare, 0))
        bound = self.value(condition, condition.operand(compare, 1), computation, init, body)
        direction = compare.attribute("direction")
        if index is None:
            index = self.carried(condition, condition.operand(compare, 1))
            bound = self.value(condition, condition.operand(compare, 0), computation, init, body)
            direction = {"GT": "LT", "GE": "LE", "NE": "NE"}.get(direction)
        if index is None or bound is None or direction not in ("LT", "LE", "NE"):
            return None
        first = self.constant(computation, self.element(computation, init, index))
        step = self.step(body, index)
        if first is None or not step or step < 0:
            return None
        return max(0, math.ceil((bound - first + (1 if direction == "LE" else 0)) / step))

    @staticmethod
    def seen_through(computation, instruction):
        while instruction.opcode in ("copy", "bitcast", "reshape", "convert"):
            instruction = computation.operand(instruction, 0)
        return instruction

    def carried(self, computation, instruction):
        """k if the instruction is element k of the loop's state."""
        instruction = self.seen_through(computation, instruction)
        if instruction.opcode == "parameter":
            return 0
        if instruction.opcode != "get-tuple-element":
            return None
        if computation.operand(instruction, 0).opcode != "parameter":
            return None
        return instruction.ints("index")[0]

    def element(self, computation, state, index):
        state = self.seen_through(computation, state)
        return computation.operand(state, index) if state.opcode == "tuple" else state

    def constant(self, computation, instruction):
        instruction = self.seen_through(computation, instruction)
        if instruction.opcode == "constant":
            return int(instruction.inside) if re.fullmatch(r"-?\d+", instruction.inside) else None
        if instruction.opcode in ("add", "subtract", "multiply"):
            a, b = (self.constant(computation, computation.operand(instruction, k)) for k in (0, 1))
            if a is None or b is None:
                return None
            return {"add": a + b, "subtract": a - b, "multiply": a * b}[instruction.opcode]
        return None

    def value(self, condition, instruction, computation, init, body):
        """A constant, or an element of the state that the body hands on."""
        found = self.constant(condition, instruction)
        if found is not None:
            return found
        index = self.carried(condition, instruction)
        if index is None or self.carried(body, self.element(body, body.root, index)) != index:
            return None
        return self.constant(computation, self.element(computation, init, index))

    def step(self, body, index):
        add = self.seen_through(body, self.element(body, body.root, index))
        if add.opcode != "add":
            return None
        for a, b in ((0, 1), (1, 0)):
            if self.carried(body, body.operand(add, a)) == index:
                return self.constant(body, body.operand(add, b))
        return None


class Work:
    """Bytes by kind of collective, operations by kind, and loops whose trip count is not known."""

    def __init__(self):
        self.bytes, self.flops = collections.Counter(), collections.Counter()
        self.unknown_loops = 0

    @property
    def moved(self):
        return sum(self.bytes.values())

    def add(self, other, times=1):
        for key, value in other.bytes.items():
            self.bytes[key] += value * times
        for key, value in other.flops.items():
            self.flops[key] += value * times
        self.unknown_loops += other.unknown_loops


def work_of(module):
    loops, done = Loops(module), {}

    def of_computation(name):
        if name in done:
            return done[name]
        computation = module.computations[name]
        work = Work()
        for x in computation.instructions:
            if x.opcode in COLLECTIVES:
                work.bytes[x.opcode] += bytes_moved(computation, x, module.devices)
            elif x.opcode == "while":
                trips = loops.trip_count(computation, x)
                work.add(of_computation(x.called("body")[0]), 1 if trips is None else trips)
                work.unknown_loops += trips is None
            elif x.opcode == "conditional":
                branches = x.called("branch_computations") or (x.called("true_computation") +
                                                               x.called("false_computation"))
                parts = [of_computation(b) for b in branches]
                work.add(max(parts, key=lambda p: (p.moved, sum(p.flops.values()))))
            elif x.opcode == "call":
                work.add(of_computation(x.called("to_apply")[0]))
            else:
                found = flops(computation, x)
                if found:
                    work.flops[found[0]] += found[1]
        done[name] = work
        return work

    return of_computation(module.entry.name)


# Operations that hand on the tiles of a value as they are.
PASSED_ON = {"all-gather", "reshape", "bitcast", "copy", "transpose", "convert", "slice", "pad"}


def full_rematerializations(module):
    """Names of all-gathers that end a chain over all devices and whose result is only cut again.

    Every user, through reshapes and the like, is a dynamic-slice at places that differ between devices.
    """
    found = []
    for computation in module.computations.values():
        users = collections.defaultdict(list)
        for x in computation.instructions:
            for name in x.operands:
                users[name].append(x)
        for x in computation.instructions:
            if x.opcode != "all-gather" or gathered(computation, x, module.devices) < module.devices:
                continue
            if is_only_cut(computation, users, x):
                found.append(x.name)
    return found


def gathered(computation, instruction, devices):
    """Devices that the chain of all-gathers up to here joins."""
    members = 1
    while instruction.opcode in PASSED_ON:
        if instruction.opcode == "all-gather":
            members *= group_size(instruction, devices)
        instruction = computation.operand(instruction, 0)
    return members


def is_only_cut(computation, users, value):
    if value.is_root or not users[value.name]:
        return False
    for user in users[value.name]:
        if user.opcode == "dynamic-slice":
            if user.operands[0] != value.name or not any(
                    depends_on_device(computation, name) for name in user.operands[1:]):
                return False
        elif user.opcode not in PASSED_ON or is_larger(user, value) or not is_only_cut(computation, users, user):
            return False
    return True


def is_larger(user, value):
    """A pad puts the value into something larger (an update of a slice, a part of a concatenation)."""
    return user.opcode == "pad" and user.arrays[0].elements > value.arrays[0].elements


def depends_on_device(computation, name):
    seen, todo = set(), [name]
    while todo:
        x = computation.by_name[todo.pop()]
        if x.opcode == "partition-id":
            return True
        if x.name not in seen and all(not a.dims or a.elements < 4096 for a in x.arrays):
            seen.add(x.name)
            todo += x.operands
    return False


def count(text):
    """(Work, full rematerialisations) of a module's text."""
    module = hlo_text.Module(text)
    return work_of(module), full_rematerializations(module)
