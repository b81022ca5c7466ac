"""Names of the arrays of flax's modules: nnx.jit numbers them, and knows what they are."""

from __future__ import annotations

import inspect
import re
from typing import Any

_FLAT = re.compile(r"<flat index (\d+)>")  # of states in groups
_NUMBERED = re.compile(r'"([^"\n]*\.states\[\d+\]\[[^"\n]*)"')


def with_names(program: Any, text: bytes) -> bytes:
    """The text of what nnx.jit lowered or compiled, with the names that jax.jit would give: for "model.states[0][7]" it has
    "model.blocks[0].up.kernel.value". Text of anything else, or with modules that flax cannot put together, stays as it is.
    """
    if not hasattr(program, "jit_wrapped"):
        return text
    try:
        names = _names(program)
    except Exception:  # flax's own insides: a version that has others costs the names, nothing more
        return text
    return _NUMBERED.sub(lambda quoted: f'"{names.get(quoted[1], quoted[1])}"', text.decode()).encode()


def _names(program: Any) -> dict[str, str]:
    """Names of arguments and results by those that nnx.jit gave."""
    import jax

    inner = program.lowered if hasattr(program, "lowered") else program.compiled  # JAX's own
    positional, by_name = inner.args_info
    arguments = dict(zip(_argument_names(program.jit_wrapped, len(positional)), positional)) | by_name
    found: dict[str, str] = {}
    for name, argument in arguments.items():
        _add_names(name, argument, found)
    _add_names("result", jax.tree.unflatten(inner.out_tree, range(inner.out_tree.num_leaves)), found)
    return found


def _argument_names(wrapped: Any, count: int) -> list[str]:
    """As JAX has them in a text: those of the function's signature, without those that are static."""
    parameters = list(inspect.signature(wrapped.fun).parameters.values())
    static = getattr(wrapped, "static_argnums", None)
    places = [] if static is None else [static] if isinstance(static, int) else list(static)
    names: list[str] = []
    for i, parameter in enumerate(parameters):
        if parameter.kind == inspect.Parameter.VAR_POSITIONAL:
            names += [f"{parameter.name}[{k}]" for k in range(count - len(names))]
        elif i not in places and i - len(parameters) not in places:
            names.append(parameter.name)
    return names[:count]


def _add_names(name: str, tree: Any, found: dict[str, str]) -> None:
    import jax
    from flax import nnx

    def is_module(node: Any) -> bool:
        return hasattr(node, "graphdef") and hasattr(node, "states")

    for path, node in jax.tree_util.tree_flatten_with_path(tree, is_leaf=is_module)[0]:
        if not is_module(node):
            continue
        prefix = name + jax.tree_util.keystr(path)
        old, structure = jax.tree_util.tree_flatten_with_path(node)
        numbers = jax.tree.unflatten(structure, range(len(old)))
        module = nnx.merge(numbers.graphdef, *numbers.states)
        for new, k in jax.tree_util.tree_flatten_with_path(module)[0]:
            number = _FLAT.sub(r"\1", jax.tree_util.keystr(old[k][0]))
            found.setdefault(prefix + number, prefix + jax.tree_util.keystr(new))
