"""From what users have, a function or what JAX made of it, to bytes that the programs read."""

from __future__ import annotations

import os
import pathlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Union

from . import _flax, _programs
from .errors import UsageError

#: What a program may be given as: text, a path, bytes of a proto, or an object of JAX. Functions that are not jitted are.
Program = Any
#: Axis sizes by name, the same as text ("data=4,model=8"), or a mesh of JAX.
Mesh = Union[str, Mapping[str, int], Any]
#: Patterns with the sharding of what they match, or a file of such lines.
Rules = Union[str, "os.PathLike[str]", Mapping[str, Any], Sequence[str]]


@dataclass(frozen=True)
class Source:
    """A program as bytes, and the name that messages give it."""

    data: bytes
    name: str


def read(program: Program, args: Sequence[Any] = (), kwargs: Mapping[str, Any] | None = None) -> Source:
    """The text, or the proto, of a program.

    Args:
      program: HLO or StableHLO text; a path of a file with either, a proto, or gzip of these; bytes; an object that says
        its text, as JAX's Lowered, Compiled, Traced and Exported, a StableHLO module or an HLO module do; or a function,
        jitted or not, which is lowered for `args` and `kwargs`.

    Raises:
      UsageError: if it is none of these, or if arguments were given for what takes none.
    """
    if isinstance(program, Source):
        return program
    text = _text_of(program)
    if text is not None:
        text = Source(_flax.with_names(program, text.data), text.name)
        if args or kwargs:
            raise UsageError("arguments go with a function, and this is a program already")
        return text
    lowered = _lower(program, args, kwargs or {})
    text = _text_of(lowered)
    if text is None:
        raise UsageError(f"a {type(program).__name__} is neither a program nor a function")
    return Source(_flax.with_names(lowered, text.data), text.name)


def _text_of(program: Program) -> Source | None:
    if isinstance(program, bytes):
        return Source(program, "program")
    if isinstance(program, os.PathLike):
        return _file(pathlib.Path(program))
    if isinstance(program, str):
        return Source(program.encode(), "program") if "\n" in program else _file(pathlib.Path(program))
    if isinstance(program, type):
        return None
    # Equinox's and flax's Lowered and Compiled hold JAX's, whose text has the names and lines that theirs has not.
    for held in ("lowered", "compiled"):
        inner = getattr(program, held, None)
        found = None if inner is None or callable(inner) else _text_of(inner)
        if found is not None:
            return found
    # Each of JAX's objects has one of these; the debug information has op_names and lines.
    # The as_text of JAX 0.4.30 and older has no such flag, their compiler_ir() has it.
    for method, options in (("as_text", {"debug_info": True}), ("compiler_ir", {}), ("as_text", {}), ("mlir_module", {}),
                            ("to_string", {}), ("as_hlo_text", {})):
        write = getattr(program, method, None)
        if not callable(write):
            continue
        try:
            written = write(**options)
        except TypeError:
            continue
        text = written if isinstance(written, (str, bytes)) else _assembly_of(written)
        if text is not None:
            return Source(text.encode() if isinstance(text, str) else text, _name_of(program))
    assembly = _assembly_of(program)
    return None if assembly is None else Source(assembly.encode(), _name_of(program))


def _assembly_of(module: Any) -> str | None:
    """The text of a module of MLIR, with names and lines; None of anything else."""
    operation = getattr(module, "operation", None)
    if operation is None or not hasattr(operation, "get_asm"):
        return None
    return str(operation.get_asm(enable_debug_info=True))


def _file(path: pathlib.Path) -> Source:
    try:
        return Source(path.read_bytes(), str(path))
    except OSError as error:
        raise UsageError(f"{path}: {error.strerror}; a program as text has more than one line") from error


def _name_of(program: Any) -> str:
    name = getattr(program, "fun_name", None) or getattr(program, "__name__", None)
    return name if isinstance(name, str) else "program"


def _lower(function: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
    if not callable(getattr(function, "lower", None)):
        if not callable(function) or isinstance(function, type):
            raise UsageError(f"a {type(function).__name__} is neither a program nor a function")
        try:
            import jax  # only here: whoever has a function to lower has it
        except ImportError as error:
            raise UsageError(f"to lower {_name_of(function)}, which is not jitted, takes jax: {error}") from error
        function = jax.jit(function)
    try:
        return function.lower(*args, **kwargs)
    except ValueError as error:
        if "lowering_platforms" not in str(error):
            raise
    # Shardings on an AbstractMesh have no devices that would tell the platform: that of this machine.
    import jax
    platform = {"gpu": "cuda"}.get(jax.default_backend(), jax.default_backend())
    traced = function.trace(*args, **kwargs) if hasattr(function, "trace") else function
    return traced.lower(lowering_platforms=(platform,))


def annotated(source: Source, mesh: Mesh | None, rules: Rules | None) -> Source:
    """The program with the shardings that `rules` put on its values; itself without a mesh and rules."""
    if mesh is None and rules is None:
        return source
    flags = ["annotate", "-"]
    if mesh is not None:
        flags += ["--mesh", mesh_text(mesh)]
    if rules is not None:
        flags += rule_flags(rules)
    return Source(_programs.run("gshard-opt", flags, source.data).text.encode(), source.name)


def with_dims(program: Program, sizes: Mapping[str, int], *args: Any, kwargs: Mapping[str, Any] | None = None) -> Source:
    """A shape-polymorphic program, such as jax.export makes, with sizes for the dims that it leaves open.

    Args:
      sizes: by variable, {"b": 16}, or by place, {"arg0:0": 16}.

    >>> text = "func.func @main(%arg0: tensor<?x4xf32>) -> tensor<?x4xf32> {\\n return %arg0 : tensor<?x4xf32>\\n}"
    >>> "f32[16,4]" in with_dims(text, {"arg0:0": 16}).data.decode()
    True
    """
    source = read(program, args, kwargs)
    flags = [word for name, size in sizes.items() for word in ("--dim", f"{name}={size}")]
    return Source(_programs.run("gshard-opt", ["print", "-", *flags], source.data).text.encode(), source.name)


def mesh_text(mesh: Mesh) -> str:
    """A mesh as --mesh takes it.

    >>> mesh_text({"data": 4, "model": 8})
    'data=4,model=8'
    """
    if isinstance(mesh, str):
        return mesh
    shape = mesh if isinstance(mesh, Mapping) else getattr(mesh, "shape", None)
    if not isinstance(shape, Mapping):
        raise UsageError(f"a {type(mesh).__name__} is no mesh: write {{'data': 4, 'model': 8}}")
    return ",".join(f"{name}={size}" for name, size in shape.items())


def rule_flags(rules: Rules) -> list[str]:
    """Rules as gshard-opt annotate and gshard-cost sweep take them."""
    if isinstance(rules, (str, os.PathLike)):
        return ["--rules", os.fspath(rules)]
    lines = [f"{pattern}={spec_text(spec)}" for pattern, spec in rules.items()] if isinstance(rules, Mapping) else list(rules)
    return [word for line in lines for word in ("--shard", line)]


def spec_text(spec: Any) -> str:
    """A sharding as a rule has it; takes PartitionSpecs, and tuples that are written like them.

    Dims behind those that are named are whole, as PartitionSpecs have it.

    >>> spec_text(("data", None, ("data", "model")))
    'data,_,data+model,..'
    >>> spec_text(())
    'replicated'
    """
    if isinstance(spec, str):
        return spec
    dims = tuple(spec)
    return ",".join([*map(_dim_text, dims), ".."]) if dims else "replicated"


def _dim_text(dim: None | str | tuple[str, ...] | Iterable[str] | Any) -> str:
    if dim is None:
        return "_"
    if isinstance(dim, str):
        return dim
    if isinstance(dim, (tuple, list)):
        return "+".join(dim) if dim else "_"
    return "*"  # PartitionSpec.UNCONSTRAINED
