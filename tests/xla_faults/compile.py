"""What XLA makes of a program, on CPU: compile.py FILE [--without PASSES] prints its compiled text, for as many devices as FILE
says or its shardings name.

FILE is HLO text with XLA's own shardings, or StableHLO. Needs jaxlib. PASSES: names of XLA's passes to leave out, with commas.
"""
import argparse
import os
import re
import sys

import numpy as np

arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
arguments.add_argument("file")
arguments.add_argument("--without", default="")
given = arguments.parse_args()
text = open(given.file).read()
found = re.search(r"num_partitions\s*=\s*(\d+)", text)
replicas = re.search(r"replica_count\s*=\s*(\d+)", text)
# JAX's print as HLO text does not say how many there are.
lists = [np.prod([int(size) for size in sizes.split(",")]) for sizes in re.findall(r"<=\[([\d,]+)\]", text)]
partitions, replicas = int(found[1]) if found else int(max(lists, default=1)), int(replicas[1]) if replicas else 1
os.environ["XLA_FLAGS"] = f"--xla_force_host_platform_device_count={partitions * replicas}"
os.environ["JAX_PLATFORMS"] = "cpu"
os.environ["TF_CPP_MIN_LOG_LEVEL"] = "2"

import jax  # noqa: E402  # reads XLA_FLAGS
import jaxlib._jax as jaxlib_api  # noqa: E402
from jax._src.lib import xla_client  # noqa: E402

if text.lstrip().startswith(("HloModule", "//")):
    module = xla_client.hlo.hlo_module_from_text(text)
    computation = xla_client.XlaComputation(module.as_serialized_hlo_module_proto())
    text = jaxlib_api.mlir.xla_computation_to_mlir_module(computation)
options = xla_client.CompileOptions()
options.num_replicas, options.num_partitions = replicas, partitions
build = options.executable_build_options
build.num_replicas, build.num_partitions = replicas, partitions
build.use_spmd_partitioning = partitions > 1
build.use_shardy_partitioner = "sdy." in str(text)
build.debug_options.xla_disable_hlo_passes = given.without
options.device_assignment = xla_client.DeviceAssignment.create(
    np.arange(replicas * partitions).reshape(replicas, partitions))
devices = jax.devices()[:replicas * partitions]
program = devices[0].client.compile_and_load(text, jaxlib_api.DeviceList(tuple(devices)), options)
sys.stdout.write(program.hlo_modules()[0].to_string())
