"""Shardy's own answer for StableHLO text: the passes that jaxlib registers, over what XLA would hand to them.

XLA inlines calls first, drops what nobody uses, puts operations in the order in which their results are needed, and expands
CHLO's operations: element by element, but top-k, whose last dim does not propagate, and erf, which Shardy does not know.
`prepare` does that in the text both sides read and names each operation by its location; `answer` runs the passes.
"""
import re

from jax._src.interpreters import mlir
from jaxlib.mlir import ir
from jaxlib.mlir.passmanager import PassManager

from propagated import dims_of

PASSES = """symbol-dce, sdy-lift-inlined-meshes, sdy-remove-size-one-axes, sdy-constant-or-scalar-splitter, symbol-dce,
sdy-manual-axes-cleanup, sdy-add-data-flow-edges, sdy-apply-sharding-constraints, sdy-sharding-group-import,
sdy-user-priority-propagate, sdy-propagate-to-func-results, func.func(sdy-constant-or-scalar-merger),
func.func(sdy-sink-data-flow-edges), sdy-remove-sharding-groups, func.func(sdy-sharding-constraint-to-reshard),
sdy-update-non-divisible-input-output-shardings, sdy-remove-sub-axes-in-input-output-shardings, sdy-close-shardings"""
# Without results that are used they still do something, or say something.
KEPT = {"stablehlo.custom_call", "stablehlo.infeed", "stablehlo.outfeed", "stablehlo.while", "stablehlo.case", "stablehlo.if",
        "stablehlo.send", "stablehlo.recv", "sdy.sharding_group"}
# CHLO's operations without a rule; they stay, and are replicated.
WITHOUT_RULE = {"chlo.erf", "chlo.ragged_dot", "chlo.scan", "chlo.constant", "chlo.constant_like"}


def walk(operation):
    for region in operation.regions:
        for block in region:
            for inner in block:
                yield inner.operation
                yield from walk(inner.operation)


def main_of(module):
    functions = [f.operation for f in module.body if f.operation.name == "func.func"]
    return next((f for f in functions if ir.StringAttr(f.attributes["sym_name"]).value == "main"), functions[0])


def copy_before(op, place, values):
    """A copy of `op` whose operands are looked up in `values`, which learns the copy's results."""
    def follow(old, new):
        for i, operand in enumerate(old.operands):
            new.operands[i] = values.get(operand, operand)
        values.update(zip(old.results, new.results))
        for old_region, new_region in zip(old.regions, new.regions):
            for old_block, new_block in zip(old_region, new_region):
                values.update(zip(old_block.arguments, new_block.arguments))
                for a, b in zip(old_block, new_block):
                    follow(a.operation, b.operation)
    follow(op, op.clone(place))


def inline_calls(module):
    functions = {ir.StringAttr(f.operation.attributes["sym_name"]).value: f.operation
                 for f in module.body if f.operation.name == "func.func"}
    main = main_of(module)
    inlined = set()
    while calls := [op for op in walk(main) if op.name == "func.call"]:
        for call in calls:
            name = ir.FlatSymbolRefAttr(call.attributes["callee"]).value
            inlined.add(name)
            body = functions[name].regions[0].blocks[0]
            values = dict(zip(body.arguments, call.operands))
            place = ir.InsertionPoint(call)
            for op in list(body):
                if op.operation.name != "func.return":
                    copy_before(op.operation, place, values)
                    continue
                for result, value in zip(call.results, op.operation.operands):
                    result.replace_all_uses_with(values.get(value, value))
            call.erase()
    for name in inlined:
        functions[name].erase()


def drop_unused(module):
    removed = True
    while removed:
        removed = False
        for op in reversed(list(walk(module.operation))):
            if op.name.startswith(("stablehlo.", "chlo.")) and op.name not in KEPT and len(op.results) and not any(
                    True for result in op.results for _ in result.uses):
                op.erase()
                removed = True


def reshape_for_broadcast(module):
    """What only adds dims of size 1 is a reshape to XLA, which Shardy visits earlier than a broadcast."""
    for op in list(walk(module.operation)):
        if op.name != "stablehlo.broadcast_in_dim" or not op.operands[0].type.rank:
            continue
        shape, result = list(op.operands[0].type.shape), list(op.results[0].type.shape)
        if [n for n in shape if n != 1] != [n for n in result if n != 1]:
            continue
        attributes = {"sdy.sharding": op.attributes["sdy.sharding"]} if "sdy.sharding" in op.attributes else {}
        with ir.InsertionPoint(op), op.location:
            new = ir.Operation.create("stablehlo.reshape", results=[op.results[0].type], operands=list(op.operands),
                                      attributes=attributes)
        op.results[0].replace_all_uses_with(new.results[0])
        op.erase()


def put_in_order(block):
    """XLA hands over each computation in post-order from its root: operands from left to right, then what regions use."""
    operations = [op.operation for op in block]
    position = {op: i for i, op in enumerate(operations)}
    seen, order = set(), []

    def used_by(op):
        for nested in [op, *walk(op)]:
            for value in nested.operands:
                if isinstance(value.owner, ir.Block):
                    continue
                if value.owner.operation in position:
                    yield value.owner.operation

    for root in [operations[-1], *operations]:
        stack = [(root, used_by(root))] if root not in seen else []
        seen.add(root)
        while stack:
            op, operands = stack[-1]
            following = next((operand for operand in operands if operand not in seen), None)
            if following is None:
                stack.pop()
                order.append(op)
            else:
                seen.add(following)
                stack.append((following, used_by(following)))
    for op in order:
        for region in op.regions:
            for inner in region:
                put_in_order(inner)
        if op != operations[-1]:
            op.move_before(operations[-1])


def prepare(text):
    """The text with calls inlined and operations named v0, v1, .."""
    with mlir.make_ir_context(), ir.Location.unknown():
        module = ir.Module.parse(text)
        inline_calls(module)
        drop_unused(module)
        reshape_for_broadcast(module)
        put_in_order(main_of(module).regions[0].blocks[0])
        for i, op in enumerate(walk(module.operation)):
            op.location = ir.Location.name(f"v{i}")
        return module.operation.get_asm(enable_debug_info=True)


def rule_of(op):
    """The sharding rule by which XLA's expansion of a CHLO operation propagates."""
    shape = ir.RankedTensorType(op.results[0].type).shape
    letters = [f"z_{i - 17}" if i > 17 else "ijklmnopqrstuvwxyz"[i] for i in range(len(shape))]
    sizes = list(shape)
    if op.name == "chlo.top_k":
        sizes = list(ir.RankedTensorType(op.operands[0].type).shape)
    dims = f"[{', '.join(letters)}]"
    operands = ", ".join(dims if ir.RankedTensorType(o.type).rank == len(shape) else "[]" for o in op.operands)
    factors = "{" + ", ".join(f"{c}={n}" for c, n in zip(letters, sizes)) + "} " if letters else ""
    last = f"need_replication={{{letters[-1]}}} blocked_propagation={{{letters[-1]}}}" if op.name == "chlo.top_k" else ""
    return f"#sdy.op_sharding_rule<({operands})->({', '.join([dims] * len(op.results))}) {factors}{last}, custom>".replace(" ,", ",")


def rule_of_approximate_top(op):
    """XLA makes it a sort and a slice, through which the last dim passes as one that is sorted."""
    shape = ir.RankedTensorType(op.operands[0].type).shape
    letters = "ijklmnopq"[:len(shape)]
    dims = f"[{', '.join(letters)}]"
    scalars = ", []" * (len(op.operands) - 2)
    sizes = ", ".join(f"{c}={n}" for c, n in zip(letters, shape))
    return (f"#sdy.op_sharding_rule<({dims}, {dims}{scalars})->({dims}, {dims}) {{{sizes}}} "
            f"need_replication={{{letters[-1]}}}, custom>")


def expand_chlo(module):
    for op in list(walk(module.operation)):
        if op.name == "stablehlo.custom_call" and ir.StringAttr(op.attributes["call_target_name"]).value == "ApproxTopK":
            op.attributes["sdy.sharding_rule"] = ir.Attribute.parse(rule_of_approximate_top(op))
        if not op.name.startswith("chlo.") or op.name in WITHOUT_RULE:
            continue
        with ir.InsertionPoint(op), op.location:
            attributes = {"call_target_name": ir.StringAttr.get(op.name), "sdy.sharding_rule": ir.Attribute.parse(rule_of(op))}
            if "sdy.sharding" in op.attributes:
                attributes["sdy.sharding"] = op.attributes["sdy.sharding"]
            new = ir.Operation.create("stablehlo.custom_call", results=[r.type for r in op.results], operands=list(op.operands),
                                      attributes=attributes)
        for old, fresh in zip(op.results, new.results):
            old.replace_all_uses_with(fresh)
        op.erase()


def read(module):
    """{name: dims}; None for what is whole. Names of operations with one array as a result, arg0, res0."""
    found = {}
    main = main_of(module)
    for key, prefix in (("arg_attrs", "arg"), ("res_attrs", "res")):
        for i, attributes in enumerate(main.attributes[key] if key in main.attributes else []):
            attributes = ir.DictAttr(attributes)
            found[f"{prefix}{i}"] = dims_of(str(attributes["sdy.sharding"])) if "sdy.sharding" in attributes else None
    for op in walk(main):
        name = re.search(r'"(v\d+)"', str(op.location))
        if not name or len(op.results) != 1 or op.name == "sdy.manual_computation":
            continue
        if not isinstance(op.results[0].type, ir.RankedTensorType):
            continue
        key = "sharding" if op.name == "sdy.reshard" else "sdy.sharding"
        shape = tuple(ir.RankedTensorType(op.results[0].type).shape)
        found[name[1]] = (shape, dims_of(str(op.attributes[key])) if key in op.attributes else None)
    return found


def answer(text):
    """Shardings by name of a text that `prepare` has made."""
    with mlir.make_ir_context(), ir.Location.unknown():
        module = ir.Module.parse(text)
        expand_chlo(module)
        PassManager.parse(f"builtin.module({PASSES})").run(module.operation)
        return read(module)
