#!/usr/bin/env python3
"""One process of a workload on XLA's CPU backend, a device a process: distributed.py NAME RANK RANKS PORT STEPS

`ranks.py xla` starts them. Prints a JSON line: seconds and processor seconds a step, the first left out.
"""
import json
import os
import sys
import time


def main():
    name, rank, ranks, port, steps = sys.argv[1], *map(int, sys.argv[2:])
    os.environ["JAX_PLATFORMS"] = "cpu"
    import jax
    import numpy as np
    jax.config.update("jax_cpu_collectives_implementation", "gloo")
    jax.distributed.initialize(f"localhost:{port}", ranks, rank)
    from workloads import Case
    case = Case(name, ranks, is_abstract=False)

    def make(shape, sharding):
        block = lambda index: np.full([len(range(*s.indices(n))) for s, n in zip(index, shape.shape)], 0.01,
                                      dtype=shape.dtype)
        return jax.make_array_from_callback(shape.shape, sharding, block)

    arguments = [jax.tree.map(make, shape, sharding) for shape, sharding in zip(case.shapes, case.shardings)]
    compiled = case.jitted.lower(*case.shapes).compile()
    times, processor = [], []
    for _ in range(steps + 1):
        start, processor_start = time.perf_counter(), time.process_time()
        result = jax.block_until_ready(compiled(*arguments))
        times.append(time.perf_counter() - start)
        processor.append(time.process_time() - processor_start)
        if isinstance(result, tuple):
            arguments[0] = result[0]  # donated
    print(json.dumps({"times_s": times[1:], "processor_s": processor[1:]}), flush=True)


if __name__ == "__main__":
    main()
