"""What the programs answer, as plain objects.

Each has the figures that are asked for most as fields, with the unit in the name, and all of them in `document`, the JSON
document as docs/json.md tells it. Fields that a newer program adds are in `document` before they are here.
"""

from __future__ import annotations

import html
import pathlib
import tempfile
import webbrowser
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import Any, Callable, TypeVar

Row = TypeVar("Row")
Document = Mapping[str, Any]


def _row(kind: type[Row], values: Document) -> Row:
    """An object of `kind` with those of the values that it has fields for."""
    names = {each.name for each in fields(kind)}  # type: ignore[arg-type]
    return kind(**{name: values[name] for name in names if name in values})


def _rows(kind: type[Row], values: Any) -> tuple[Row, ...]:
    return tuple(_row(kind, value) for value in values or ())


def size_text(value: float) -> str:
    """Bytes for people.

    >>> size_text(3670016)
    '3.50 MiB'
    """
    units = ["B", "KiB", "MiB", "GiB", "TiB"]
    while value >= 1024 and len(units) > 1:
        value, units = value / 1024, units[1:]
    return f"{value:.0f} B" if units[0] == "B" else f"{value:.2f} {units[0]}"


def time_text(value: float) -> str:
    """Seconds for people.

    >>> time_text(0.0023816)
    '2.38 ms'
    """
    for unit, seconds in (("s", 1.0), ("ms", 1e-3)):
        if value >= seconds:
            return f"{value / seconds:.2f} {unit}"
    return f"{value * 1e6:.2f} us"


def _table(rows: Sequence[tuple[str, ...]]) -> str:
    widths = [max(map(len, column)) for column in zip(*rows)]
    return "\n".join("  ".join(cell.ljust(width) for cell, width in zip(row, widths)).rstrip() for row in rows)


def _mesh(axes: Mapping[str, int]) -> str:
    return ",".join(f"{name}={size}" for name, size in axes.items())


@dataclass(frozen=True)
class FailedCheck:
    """A limit or a bound that does not hold."""

    check: str  #: "limit", "budget", "verify" and so on
    message: str
    key: str = ""  #: of the budget's bound
    value: float | None = None
    allowed: float | None = None


@dataclass(frozen=True)
class Finding:
    """Something wrong, or perhaps wrong, with a program's communication."""

    severity: str  #: "error" or "warning"
    code: str
    message: str
    instruction: str = ""
    file: str = ""
    line: int = 0
    hint: str = ""


@dataclass(frozen=True)
class Tensor:
    """What is alive at the memory peak."""

    name: str
    bytes: int
    shape: str = ""  #: on a device
    global_shape: str = ""
    sharding: str = ""
    op_name: str = ""
    source: str = ""
    free_axes: str = ""  #: mesh axes along which there are only copies of it


@dataclass(frozen=True)
class Memory:
    """Memory of a device, in bytes."""

    peak_bytes: int
    argument_bytes: int
    output_bytes: int
    temp_bytes: int
    at_peak: tuple[Tensor, ...] = ()  #: largest first, fragmentation last
    fragmentation_bytes: int = 0  #: of the temporaries: free, in pieces too small for another value


@dataclass(frozen=True)
class Collective:
    """The collectives of one kind over the same mesh axes."""

    kind: str
    count: int  #: executions in a step
    bytes_per_device: float  #: that a device sends in a step
    axes: tuple[str, ...] = ()
    time_s: float = 0.0
    exposed_s: float = 0.0  #: of it, while the compute units wait
    cause: str = ""


@dataclass(frozen=True)
class CostReport:
    """What a step costs on each device.

    A notebook shows it as the page that `show` opens; `print` shows the text of gshard-cost.
    """

    module: str
    devices: int
    chip: str
    fits: bool  #: into the limit, or into the chip's memory where none was given
    memory_limit_bytes: int
    step_time_s: float
    compute_time_s: float
    exposed_communication_s: float
    mfu: float
    flops_per_device: float
    hbm_bytes_per_device: float
    memory: Memory
    collectives: tuple[Collective, ...]
    findings: tuple[Finding, ...]
    failed_checks: tuple[FailedCheck, ...]
    document: Document = field(repr=False, compare=False)
    _render: Callable[[str], str] = field(repr=False, compare=False)

    @property
    def ok(self) -> bool:
        """No limit or budget is exceeded, and no collective deadlocks."""
        return not self.failed_checks and not any(finding.severity == "error" for finding in self.findings)

    def __str__(self) -> str:
        return self._render("text").rstrip("\n")

    def markdown(self) -> str:
        """The report for a comment on a change."""
        return self._render("markdown")

    def page(self) -> str:
        """The report as one HTML page that needs no network."""
        return self._render("html")

    def show(self) -> pathlib.Path:
        """Opens the page in a browser; returns its file, which stays until the system clears its temporary files."""
        with tempfile.NamedTemporaryFile("w", suffix=".html", prefix="gshard-", delete=False, encoding="utf-8") as file:
            file.write(self.page())
        webbrowser.open(pathlib.Path(file.name).as_uri())
        return pathlib.Path(file.name)

    def _repr_html_(self) -> str:
        page = html.escape(self.page(), quote=True)
        return f'<iframe srcdoc="{page}" style="width: 100%; height: 640px; border: 0"></iframe>'


def cost_report(document: Document, render: Callable[[str], str]) -> CostReport:
    """Of a document of gshard.cost/1; `render` makes "text", "markdown" or "html" of the same program."""
    memory = document["memory"]
    names = {each.name for each in fields(CostReport)}
    plain = {name: value for name, value in document.items() if name in names}
    plain.update(
        memory=Memory(memory["peak_bytes"], memory["argument_bytes"], memory["output_bytes"], memory["temp_bytes"],
                      _rows(Tensor, memory["at_peak"]), memory.get("fragmentation_bytes", 0)),
        collectives=_collectives(document["collectives"]), findings=_rows(Finding, document.get("findings")),
        failed_checks=_rows(FailedCheck, document.get("failed_checks")))
    return CostReport(**plain, document=document, _render=render)


def _collectives(values: Any) -> tuple[Collective, ...]:
    return tuple(_row(Collective, {**value, "axes": tuple(value.get("axes", ())), "count": round(value["count"])})
                 for value in values)


@dataclass(frozen=True)
class Verification:
    """The emulated mesh against the unpartitioned program."""

    ok: bool
    status: str  #: "ok", "near-ties", "ill-conditioned", "microbatch-sums" or "mismatch"
    max_abs_error: float = 0.0
    max_rel_error: float = 0.0
    worst: str = ""  #: the output with the largest error
    outputs: int = 0


@dataclass(frozen=True)
class RunReport:
    """One run on an emulated mesh."""

    devices: int
    threads: int
    step_time_s: float | None  #: of the emulation on this machine, not of real devices
    peak_memory_bytes: int | None
    flops: float | None
    collectives: tuple[Collective, ...]
    verify: Verification | None
    failed_checks: tuple[FailedCheck, ...]
    document: Document = field(repr=False, compare=False)

    @property
    def ok(self) -> bool:
        """Every check that was asked for holds."""
        return not self.failed_checks

    def __str__(self) -> str:
        lines = [f"{self.devices} devices on {self.threads} threads"]
        if self.step_time_s is not None:
            lines[0] += f": a step of the emulation in {time_text(self.step_time_s)}"
        lines += [f"{each.kind}: {each.count} x, {size_text(each.bytes_per_device)} sent per device" for each in self.collectives]
        if self.verify is not None:
            lines.append(f"verify: {self.verify.status}, {self.verify.outputs} outputs, largest error "
                         f"{self.verify.max_abs_error:.3g} ({self.verify.max_rel_error:.3g} relative, {self.verify.worst})")
        return "\n".join(lines + [each.message for each in self.failed_checks])


def run_report(document: Document) -> RunReport:
    """Of a document of gshard.run/1."""
    verify = document.get("verify")
    return RunReport(document["devices"], document["threads"], document.get("step_time_s"),
                     document.get("peak_memory_bytes"), document.get("flops"),
                     _collectives(document.get("collectives") or ()),
                     _row(Verification, {**verify, "outputs": _count(verify.get("outputs"))}) if verify else None,
                     _rows(FailedCheck, document.get("failed_checks")), document)


def _count(outputs: Any) -> int:
    return outputs if isinstance(outputs, int) else len(outputs or ())


@dataclass(frozen=True)
class Step:
    """One step on the way on which a value got its sharding."""

    instruction: str
    sharding: str
    reason: str
    source: str = ""
    place: str = ""


@dataclass(frozen=True)
class Explanation:
    """Why a value is sharded as it is; `print` shows it as gshard-opt explain does."""

    instruction: str
    steps: tuple[Step, ...]  #: of all leaves of its shape, the present sharding of each first
    text: str = field(repr=False)
    document: Document = field(repr=False, compare=False)

    def __str__(self) -> str:
        return self.text.rstrip("\n")


def explanation(document: Document, text: str) -> Explanation:
    """Of a document of gshard.explain/1, and of the same in words."""
    steps = [step for leaf in document.get("leaves", ()) for step in leaf.get("steps", ())]
    name = document.get("instruction") or document.get("source") or ""
    return Explanation(name, _rows(Step, steps), text, document)


@dataclass(frozen=True)
class Partitioned:
    """The program of one device, and what it sends."""

    text: str = field(repr=False)
    devices: int
    bytes_per_device: float
    collectives: tuple[Collective, ...]  #: most bytes first
    full_rematerializations: tuple[Document, ...]
    document: Document = field(repr=False, compare=False)

    def __str__(self) -> str:
        return self.text


def partitioned(document: Document, text: str) -> Partitioned:
    """Of a document of gshard.collectives/1, and of the program."""
    return Partitioned(text, document["devices"], document["bytes_per_device"], _collectives(document["collectives"]),
                       tuple(document["full_rematerializations"]), document)


@dataclass(frozen=True)
class Stage:
    """A stage of a pipeline."""

    name: str
    device: int
    layers: int
    forward_flops: float
    backward_flops: float
    time_s: float
    weight_bytes: int
    memory_bytes: int


@dataclass(frozen=True)
class Pipelined:
    """A training step in stages and micro-batches."""

    text: str = field(repr=False)
    schedule: str
    stages: tuple[Stage, ...]
    microbatches: int
    bubble_fraction: float
    recompute_fraction: float
    imbalance: float
    document: Document = field(repr=False, compare=False)

    def __str__(self) -> str:
        return self.text


def pipelined(document: Document, text: str) -> Pipelined:
    """Of a document of gshard.pipeline/1, and of the program."""
    return Pipelined(text, document["schedule"], _rows(Stage, document["stage"]), document["microbatches"],
                     document["bubble_fraction"], document["recompute_fraction"], document["imbalance"], document)


@dataclass(frozen=True)
class Point:
    """A mesh, and what a step costs on it."""

    mesh: Mapping[str, int]
    devices: int
    step_time_s: float
    peak_bytes: int
    mfu: float
    fits: bool
    pareto: bool  #: no other point is better in time or memory without being worse in the other
    stages: int | None = None
    microbatches: int | None = None
    schedule: str | None = None
    batch: int | None = None  #: examples of a step, where batches are swept
    step_time_per_example_s: float | None = None


@dataclass(frozen=True)
class Sweep:
    """The same program on many meshes, in the order of the ranges."""

    module: str
    chip: str
    memory_limit_bytes: int
    points: tuple[Point, ...]
    document: Document = field(repr=False, compare=False)

    @property
    def best(self) -> Point | None:
        """The fastest point that fits, by the time of an example where batches are swept; None if none does."""
        return min((point for point in self.points if point.fits),
                   key=lambda point: point.step_time_per_example_s or point.step_time_s, default=None)

    def __str__(self) -> str:
        best = self.best
        rows = [("", "mesh", "devices", "step time", "MFU", "peak memory", "")]
        for point in self.points:
            more = [f"batch {point.batch}"] if point.batch is not None else []
            more += [f"{point.stages} stages, {point.microbatches} micro-batches, {point.schedule}"] if point.stages else []
            rows.append(("*" if point is best else "", _mesh(point.mesh), str(point.devices), time_text(point.step_time_s),
                         f"{100 * point.mfu:.1f}%", size_text(point.peak_bytes) + ("" if point.fits else " does not fit"),
                         ", ".join(more)))
        return f"{self.module}: {len(self.points)} points on {self.chip} of {size_text(self.memory_limit_bytes)}\n{_table(rows)}"


def sweep_of(document: Document) -> Sweep:
    """Of a document of gshard.sweep/1."""
    return Sweep(document["module"], document["chip"], document["memory_limit_bytes"], _rows(Point, document["points"]),
                 document)


@dataclass(frozen=True)
class Change:
    """A figure before and after."""

    before: float
    after: float

    @property
    def ratio(self) -> float:
        """After by before; infinite where there was nothing."""
        if self.before == 0:
            return 1.0 if self.after == 0 else float("inf")
        return self.after / self.before


@dataclass(frozen=True)
class Diff:
    """What changed from one program to another; `print` shows it as gshard-cost diff does."""

    step_time_s: Change
    peak_bytes: Change
    flops_per_device: Change
    mfu: Change
    text: str = field(repr=False)
    document: Document = field(repr=False, compare=False)

    def __str__(self) -> str:
        return self.text.rstrip("\n")


def diff_of(document: Document, text: str) -> Diff:
    """Of a document of gshard.diff/1, and of the same in words."""
    change = {name: _row(Change, document[name]) for name in ("step_time_s", "peak_bytes", "flops_per_device", "mfu")}
    return Diff(**change, text=text, document=document)


@dataclass(frozen=True)
class Plan:
    """A way to shard a program, found by a search."""

    mesh: Mapping[str, int]
    step_time_s: float
    peak_bytes: int
    fits: bool
    mfu: float = 0.0
    rules: tuple[str, ...] = ()


@dataclass(frozen=True)
class Plans:
    """What a search for shardings found: `text` is the program with those of the best plan."""

    text: str = field(repr=False)
    plans: tuple[Plan, ...]  #: those that fit first, best first
    document: Document = field(repr=False, compare=False)

    @property
    def best(self) -> Plan | None:
        """The best plan that fits; None if none does."""
        return next((plan for plan in self.plans if plan.fits), None)

    def __str__(self) -> str:
        rows = [("mesh", "step time", "MFU", "peak memory", "rules")]
        for plan in self.plans:
            rows.append((_mesh(plan.mesh), time_text(plan.step_time_s), f"{100 * plan.mfu:.1f}%",
                         size_text(plan.peak_bytes) + ("" if plan.fits else " does not fit"), str(len(plan.rules))))
        return "\n".join([_table(rows), *(["rules of the best:", *self.best.rules] if self.best is not None else [])])


def plans_of(document: Document, text: str) -> Plans:
    """Of a document of gshard.auto/1, and of the program with the shardings of the best plan."""
    rows = tuple(_row(Plan, {**plan, "rules": tuple(plan.get("rules", ()))}) for plan in document["plans"])
    return Plans(text, rows, document)
