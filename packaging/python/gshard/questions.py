"""The questions to ask of a program, a function each."""

from __future__ import annotations

import json
import os
import pathlib
import tempfile
from collections.abc import Mapping, Sequence
from typing import Any, Union

from . import _inputs, _programs, reports
from ._inputs import Mesh, Program, Rules, Source, read

Path = Union[str, "os.PathLike[str]"]
Size = Union[int, str]  # bytes, or text such as "16GiB"


def _cost_flags(chip: str | None, flags: Sequence[str]) -> list[str]:
    return (["--chip", chip] if chip is not None else []) + list(flags)


def _source(program: Program, args: Sequence[Any], kwargs: Mapping[str, Any] | None, mesh: Mesh | None,
            rules: Rules | None) -> Source:
    return _inputs.annotated(read(program, args, kwargs), mesh, rules)


def cost(program: Program, *args: Any, mesh: Mesh | None = None, rules: Rules | None = None,
         chip: str | None = None, limit: Size | None = None, kwargs: Mapping[str, Any] | None = None,
         flags: Sequence[str] = ()) -> reports.CostReport:
    """Estimates time, traffic and memory of a step on each device.

    Args:
      program: a function, what JAX made of it (Lowered, Compiled, Exported), text, or a path.
      args, kwargs: what the function is called with; jax.ShapeDtypeStruct will do.
      mesh: axis sizes by name, {"data": 4, "model": 8}; default: the program's own mesh.
      rules: shardings by pattern, {r"\\['wi'\\]$": (None, "model"), "param:0": ("data", None)}, or a file of them.
      chip: such as "tpu-v5p" or "h100"; default: gshard-cost's.
      limit: memory of a device. A peak above it is told in `failed_checks`; nothing is raised.
      flags: more flags of gshard-cost, as they are.

    >>> report = cost("samples/mlp.hlo", chip="tpu-v3", limit="2MiB")
    >>> report.fits, report.memory.peak_bytes
    (False, 4194304)
    >>> print(report.failed_checks[0].message)
    over the limit: 4 MiB a device, allowed are 2 MiB
    >>> [(each.kind, each.axes, each.count) for each in report.collectives]
    [('all-reduce', ('model',), 1)]
    """
    limits = [] if limit is None else ["--limit", str(limit)]
    return _estimate(_source(program, args, kwargs, mesh, rules), _cost_flags(chip, flags) + limits)


def _estimate(source: Source, flags: Sequence[str]) -> reports.CostReport:
    document = _programs.run("gshard-cost", ["-", "--json", *flags], source.data).json()
    return reports.cost_report(document, lambda form: _rendered(source, flags, form))


def _rendered(source: Source, flags: Sequence[str], form: str) -> str:
    if form != "html":
        more = ["--markdown"] if form == "markdown" else []
        return _programs.run("gshard-cost", ["-", *flags, *more], source.data).text
    with tempfile.TemporaryDirectory(prefix="gshard-") as folder:
        page = pathlib.Path(folder) / "page.html"
        _programs.run("gshard-cost", ["-", *flags, "--html", str(page)], source.data)
        return page.read_text(encoding="utf-8")


def check(program: Program, *args: Any, budget: None | Path | Mapping[str, Any] = None,
          mesh: Mesh | None = None, rules: Rules | None = None, chip: str | None = None,
          limit: Size | None = None, kwargs: Mapping[str, Any] | None = None,
          flags: Sequence[str] = ()) -> reports.CostReport:
    """The same estimate, held against a budget: `ok` and `failed_checks` of the report tell.

    Args:
      budget: a file that `gshard-cost --write-budget` wrote, or its keys: {"peak_bytes": 2**34, "collectives":
        {"all-gather": 0}}. Each is an upper bound, and each may be left out.

    >>> report = check("samples/mlp.hlo", budget={"collectives": {"all-reduce": 0}})
    >>> report.ok, report.failed_checks[0].key, report.failed_checks[0].value
    (False, 'collectives.all-reduce', 1.0)
    """
    source = _source(program, args, kwargs, mesh, rules)
    limits = [] if limit is None else ["--limit", str(limit)]
    with tempfile.TemporaryDirectory(prefix="gshard-") as folder:
        bounds = []
        if isinstance(budget, Mapping):
            file = pathlib.Path(folder) / "budget.json"
            file.write_text(json.dumps({"schema": "gshard.budget/1", **budget}), encoding="utf-8")
            bounds = ["--check", str(file)]
        elif budget is not None:
            bounds = ["--check", os.fspath(budget)]
        estimate = _cost_flags(chip, flags)
        document = _programs.run("gshard-cost", ["-", "--json", *estimate, *limits, *bounds], source.data).json()
        return reports.cost_report(document, lambda form: _rendered(source, [*estimate, *limits], form))


def run(program: Program, *args: Any, verify: bool | str = False, mesh: Mesh | None = None,
        rules: Rules | None = None, seed: int | None = None, inputs: Path | None = None,
        outputs: Path | None = None, memory_limit: Size | None = None,
        kwargs: Mapping[str, Any] | None = None, flags: Sequence[str] = ()) -> reports.RunReport:
    """Runs a step on all devices of the mesh, emulated on this machine.

    Args:
      verify: compare with the unpartitioned program, instruction by instruction; "outputs": only the results.
      seed: of random inputs, where `inputs`, a .npz file, has none.
      outputs: a .npz file that the results are written to.

    >>> result = run("samples/mlp.hlo", verify=True)
    >>> result.ok, result.devices, result.verify.status
    (True, 8, 'ok')
    """
    words = ["-", "--json"]
    if verify:
        words.append(f"--verify={'instructions' if verify is True else verify}")
    for flag, value in (("--seed", seed), ("--input", inputs), ("--output", outputs), ("--memory-limit", memory_limit)):
        if value is not None:
            words += [flag, str(value)]
    source = _source(program, args, kwargs, mesh, rules)
    return reports.run_report(_programs.run("gshard-run", [*words, *flags], source.data).json())


def explain(program: Program, name: str, *args: Any, mesh: Mesh | None = None, rules: Rules | None = None,
            kwargs: Mapping[str, Any] | None = None, flags: Sequence[str] = ()) -> reports.Explanation:
    """Says why a value has its sharding, or what became of a line of the user's program ("gpt.py:22").

    >>> why = explain("samples/mlp.hlo", "relu")
    >>> print(str(why).splitlines()[1])
      relu = [data, model]: from operand 'hidden' through maximum, level 1
    >>> why.steps[0].instruction, why.steps[0].sharding
    ('relu', '{devices=[2,4]<=[8]}')
    """
    source = _source(program, args, kwargs, mesh, rules)
    words = ["explain", "-", name, *flags]
    return reports.explanation(_programs.run("gshard-opt", [*words, "--json"], source.data).json(),
                               _programs.run("gshard-opt", words, source.data).text)


def partition(program: Program, *args: Any, mesh: Mesh | None = None, rules: Rules | None = None,
              kwargs: Mapping[str, Any] | None = None, flags: Sequence[str] = ()) -> reports.Partitioned:
    """Makes the program that each device runs.

    >>> device = partition("samples/mlp.hlo")
    >>> device.collectives[0].cause
    'y is to be [data, _], computed as [data, _] partial over model'
    >>> device.text.count(" all-reduce(")
    1
    """
    return reports.partitioned(*_with_report(_source(program, args, kwargs, mesh, rules), ["partition", "-", *flags]))


def pipeline(program: Program, *args: Any, stages: int, microbatches: int, schedule: str | None = None,
             mesh: Mesh | None = None, rules: Rules | None = None, chip: str | None = None,
             limit: Size | None = None, kwargs: Mapping[str, Any] | None = None,
             flags: Sequence[str] = ()) -> reports.Pipelined:
    """Cuts a training step into stages that work on micro-batches.

    Args:
      schedule: "gpipe", "1f1b", "interleaved", "zero-bubble" or "shift".

    >>> four = pipeline("samples/gpipe/step.hlo", stages=4, microbatches=8, schedule="gpipe")
    >>> four.schedule, four.microbatches, len(four.stages)
    ('gpipe', 8, 4)
    """
    words = ["pipeline", "-", "--stages", str(stages), "--microbatches", str(microbatches), *_cost_flags(chip, flags)]
    for flag, value in (("--schedule", schedule), ("--limit", limit)):
        if value is not None:
            words += [flag, str(value)]
    return reports.pipelined(*_with_report(_source(program, args, kwargs, mesh, rules), words))


def auto(program: Program, *args: Any, mesh: Mesh | None = None, devices: int | None = None,
         limit: Size | None = None, chip: str | None = None, kwargs: Mapping[str, Any] | None = None,
         flags: Sequence[str] = ()) -> reports.Plans:
    """Searches for the shardings with which a step takes the least time and fits.

    Args:
      mesh: axis sizes by name; or
      devices: their number, where the mesh is to be found too.
    """
    words = ["auto", "-", *_cost_flags(chip, flags)]
    if mesh is not None:
        words += ["--mesh", _inputs.mesh_text(mesh)]
    for flag, value in (("--devices", devices), ("--limit", limit)):
        if value is not None:
            words += [flag, str(value)]
    return reports.plans_of(*_with_report(read(program, args, kwargs), words))


def _with_report(source: Source, words: Sequence[str]) -> tuple[dict[str, Any], str]:
    """The JSON report of a transformation, and the program that it makes."""
    with tempfile.TemporaryDirectory(prefix="gshard-") as folder:
        file = pathlib.Path(folder) / "report.json"
        text = _programs.run("gshard-opt", [*words, "--report", str(file)], source.data).text
        return json.loads(file.read_text(encoding="utf-8")), text


def sweep(program: Program, *args: Any, mesh: None | str | Mapping[str, int | str] = None, devices: int | None = None,
          batch: int | str | None = None, rules: Rules | None = None, chip: str | None = None, limit: Size | None = None,
          kwargs: Mapping[str, Any] | None = None, flags: Sequence[str] = ()) -> reports.Sweep:
    """Estimates a step on many meshes.

    Args:
      mesh: sizes by name, each one size or a range of powers of two: {"data": "1..16", "model": 4}; default: the
        program's own.
      devices: only meshes of so many.
      batch: examples of a step, one size or several: "64,128" or "64..512".
      rules: shardings by pattern, or a file of them, as for `cost`.

    >>> meshes = sweep("samples/mlp.hlo", mesh="data=1..16,model=1..16", devices=16)
    >>> len(meshes.points), meshes.best.mesh
    (5, {'data': 16, 'model': 1})
    >>> sweep("samples/mlp.hlo", mesh="data=1..2,model=2", rules={"^wi$": (None, "model")}).points[1].devices
    4
    """
    words = ["sweep", "-", "--json", *_cost_flags(chip, flags)]
    if mesh is not None:
        words += ["--mesh", _inputs.mesh_text(mesh)]
    for flag, value in (("--devices", devices), ("--batch", batch), ("--limit", limit)):
        if value is not None:
            words += [flag, str(value)]
    if rules is not None:
        words += _inputs.rule_flags(rules)
    return reports.sweep_of(_programs.run("gshard-cost", words, read(program, args, kwargs).data).json())


def diff(before: Program, after: Program, *, chip: str | None = None, flags: Sequence[str] = ()) -> reports.Diff:
    """Compares the estimates of two programs. CostReports and what gshard-cost --json wrote go in as well.

    >>> change = diff("samples/mlp.hlo", cost("samples/mlp.hlo", chip="h100"), chip="h100")
    >>> change.step_time_s.ratio
    1.0
    """
    with tempfile.TemporaryDirectory(prefix="gshard-") as folder:
        files = []
        for name, program in (("before", before), ("after", after)):
            file = pathlib.Path(folder) / name
            is_report = isinstance(program, reports.CostReport)
            file.write_bytes(json.dumps(program.document).encode() if is_report else read(program).data)
            files.append(str(file))
        words = ["diff", *files, *_cost_flags(chip, flags)]
        return reports.diff_of(_programs.run("gshard-cost", [*words, "--json"]).json(),
                               _programs.run("gshard-cost", words).text)
