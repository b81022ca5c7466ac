"""Assertions for tests of one's own model; with pytest they are fixtures as well.

    def test_step_fits(assert_fits):
        assert_fits(jax.jit(step).lower(*args), chip="tpu-v5p")
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from . import questions, reports
from ._inputs import Program


def assert_fits(program: Program, *args: Any, chip: str | None = None, limit: questions.Size | None = None,
                **options: Any) -> reports.CostReport:
    """Fails if the memory peak of a device is over `limit`, or over the chip's memory; names the largest tensors.

    >>> assert_fits("samples/mlp.hlo", chip="tpu-v3").fits
    True
    >>> assert_fits("samples/mlp.hlo", limit="3MiB")  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    AssertionError: mlp does not fit: the peak of 4.00 MiB is over 3.00 MiB...
    """
    __tracebackhide__ = True  # pytest shows the test's own line then
    report = questions.cost(program, *args, chip=chip, limit=limit, **options)
    if report.fits:
        return report
    rows = "".join(f"\n  {reports.size_text(tensor.bytes)}  {tensor.name} {tensor.shape}{_free(tensor)}"
                   for tensor in report.memory.at_peak[:5])
    raise AssertionError(f"{report.module} does not fit: the peak of {reports.size_text(report.memory.peak_bytes)} is over "
                         f"{reports.size_text(report.memory_limit_bytes)} of a device; alive at the peak are{rows}")


def assert_collectives(program: Program, counts: Mapping[str, int], *args: Any, exact: bool = True,
                       **options: Any) -> reports.CostReport:
    """Fails if a step does not execute as many collectives of each kind as `counts` says.

    Args:
      counts: by kind, {"all-reduce": 2}; kinds that it does not name are to be absent.
      exact: False: fewer are right as well.

    >>> report = assert_collectives("samples/mlp.hlo", {"all-reduce": 1})
    >>> assert_collectives("samples/mlp.hlo", {})
    Traceback (most recent call last):
    AssertionError: mlp has other collectives than it should:
      all-reduce: 1, should be 0 (over model: y is to be [data, _], computed as [data, _] partial over model)
    """
    __tracebackhide__ = True
    report = questions.cost(program, *args, **options)
    found: dict[str, int] = {}
    for each in report.collectives:
        found[each.kind] = found.get(each.kind, 0) + each.count
    wrong = ""
    for kind in sorted({*found, *counts}):
        has, wanted = found.get(kind, 0), counts.get(kind, 0)
        if has > wanted or (exact and has != wanted):
            causes = "; ".join(f"over {'+'.join(each.axes)}: {each.cause}" for each in report.collectives
                               if each.kind == kind and each.cause)
            wrong += f"\n  {kind}: {has}, should be {wanted}" + (f" ({causes})" if causes else "")
    if wrong:
        raise AssertionError(f"{report.module} has other collectives than it should:{wrong}")
    return report


def assert_verifies(program: Program, *args: Any, **options: Any) -> reports.RunReport:
    """Fails if the emulated mesh computes something else than the unpartitioned program.

    >>> assert_verifies("samples/mlp.hlo").verify.status
    'ok'
    """
    __tracebackhide__ = True
    report = questions.run(program, *args, **{"verify": True, **options})
    if not report.ok:
        raise AssertionError("; ".join(failed.message for failed in report.failed_checks))
    return report


def _free(tensor: reports.Tensor) -> str:
    return f", replicated though {tensor.free_axes} was free" if tensor.free_axes else ""
