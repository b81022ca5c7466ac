"""gshard: will a sharded program fit, what does it cost, and does it compute the same?

Five lines from a JAX function to an answer:

    import gshard, jax
    lowered = jax.jit(step).lower(*args)
    report = gshard.cost(lowered, mesh={"data": 4, "model": 8}, rules={r"\\['wi'\\]$": (None, "model")}, chip="tpu-v5p")
    print(report.fits, report.memory.peak_bytes, report.step_time_s)
    report.show()

Everything is computed by three programs, gshard-opt, gshard-cost and gshard-run, which the wheel has inside; this package
calls them and reads their JSON. It imports neither numpy nor jax.
"""

from ._inputs import with_dims
from .errors import GshardError, InputError, InternalError, ProgramNotFound, UsageError
from .questions import auto, check, cost, diff, explain, partition, pipeline, run, sweep
from .reports import (
                      Change,
                      Collective,
                      CostReport,
                      Diff,
                      Explanation,
                      FailedCheck,
                      Finding,
                      Memory,
                      Partitioned,
                      Pipelined,
                      Plan,
                      Plans,
                      Point,
                      RunReport,
                      Stage,
                      Step,
                      Sweep,
                      Tensor,
                      Verification,
)

__version__ = "0.1.0"

__all__ = [
                      "Change",
                      "Collective",
                      "CostReport",
                      "Diff",
                      "Explanation",
                      "FailedCheck",
                      "Finding",
                      "GshardError",
                      "InputError",
                      "InternalError",
                      "Memory",
                      "Partitioned",
                      "Pipelined",
                      "Plan",
                      "Plans",
                      "Point",
                      "ProgramNotFound",
                      "RunReport",
                      "Stage",
                      "Step",
                      "Sweep",
                      "Tensor",
                      "UsageError",
                      "Verification",
                      "auto",
                      "check",
                      "cost",
                      "diff",
                      "explain",
                      "partition",
                      "pipeline",
                      "run",
                      "sweep",
                      "with_dims",
]
