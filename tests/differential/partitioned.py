"""Per-device programs on XLA, one after another in a worker process with emulated devices.

XLA's client takes no program of N partitions that it has not partitioned itself, so the program runs as N replicas of
one partition: partition-id becomes replica-id, and collectives without a channel join replicas.
"""
import collections
import multiprocessing
import os
import re

# text: of the per-device program; inputs: whole arrays; parameters, results: shardings by leaf.
# without: names of XLA passes to leave out.
Job = collections.namedtuple("Job", "text inputs parameters results devices without", defaults=("",))


def as_replicas(text):
    text = re.sub(r", (channel_id=\d+|use_global_device_ids=true)", "", text)
    text = re.sub(r"(HloModule .*?), num_partitions=\d+", r"\1", text)
    # XLA's importer takes reduce-scatters of one operand only.
    return uncombined(text, "reduce-scatter").replace(" partition-id(", " replica-id(")


def uncombined(text, opcode):
    """The text with collectives of several operands as one for each operand."""
    def one_by_one(combined):
        indent, root, name, shapes, operands, attributes = combined.groups()
        parts = [f"{indent}%{name}.part{k} = {shape} {opcode}({operand}){attributes}"
                 for k, (shape, operand) in enumerate(zip(shapes.split(", "), operands.split(", ")))]
        results = ", ".join(f"%{name}.part{k}" for k in range(len(parts)))
        return "\n".join(parts + [f"{indent}{root or ''}%{name} = ({shapes}) tuple({results})"])

    combined = rf"^( *)(ROOT )?%(\S+) = \((.*?\])\) {opcode}\((.*?)\)(, .*)$"
    return re.sub(combined, one_by_one, re.sub(r"/\*.*?\*/", "", text), flags=re.M)


def run(job):
    """[output][device] arrays."""
    import jax
    import numpy as np
    import jaxlib._jax as jaxlib_api
    from jax._src.lib import xla_client

    import tiles
    import xla

    n = job.devices
    module = xla.module_of(xla.without_shardings(as_replicas(job.text)))
    computation = xla_client.XlaComputation(module.as_serialized_hlo_module_proto())
    mlir = jaxlib_api.mlir.xla_computation_to_mlir_module(computation)
    options = xla_client.CompileOptions()
    options.num_replicas, options.num_partitions = n, 1
    options.executable_build_options.num_replicas = n
    options.executable_build_options.num_partitions = 1
    options.executable_build_options.debug_options.xla_disable_hlo_passes = job.without
    options.device_assignment = xla_client.DeviceAssignment.create(np.arange(n).reshape(n, 1))
    devices = jax.devices()[:n]
    program = devices[0].client.compile_and_load(mlir, jaxlib_api.DeviceList(tuple(devices)), options)
    mesh = jax.sharding.Mesh(np.array(devices), ("d",))
    arguments = []
    for value, text in zip(job.inputs, job.parameters):
        layout = tiles.Tiles(text, n)
        parts = [layout.cut(value, d) for d in range(n)]
        shape = parts[0].shape
        spec = jax.sharding.PartitionSpec("d") if shape else jax.sharding.PartitionSpec()
        arguments.append(jax.make_array_from_single_device_arrays(
            (shape[0] * n,) + shape[1:] if shape else (), jax.sharding.NamedSharding(mesh, spec),
            [jax.device_put(part, device) for part, device in zip(parts, devices)]))
    outputs = program.execute_sharded(arguments).disassemble_into_single_device_arrays()
    return [[np.asarray(part) for part in output] for output in outputs]


def _work(receiver, sender, devices):
    os.environ["JAX_ENABLE_X64"] = "1"
    os.environ["XLA_FLAGS"] = (f"--xla_force_host_platform_device_count={devices} "
                               "--xla_allow_excess_precision=false --xla_cpu_parallel_codegen_split_count=1")
    while True:
        job = receiver.recv()
        if job is None:
            return
        try:
            sender.send(("ok", run(job)))
        except Exception as error:
            sender.send(("error", f"{type(error).__name__}: {' '.join(str(error).split())[:300]}"))


class Worker:
    """A process that runs jobs; a new one after a crash or a hang."""

    def __init__(self, devices, seconds):
        self.devices, self.seconds, self.child = devices, seconds, None

    def _start(self):
        context = multiprocessing.get_context("spawn")
        jobs, self.jobs = context.Pipe(duplex=False)
        self.results, results = context.Pipe(duplex=False)
        self.child = context.Process(target=_work, args=(jobs, results, self.devices), daemon=True)
        self.child.start()
        jobs.close()
        results.close()

    def run(self, job):
        """("ok", [output][device]), ("error", text) or ("crash", text)."""
        if self.child is None:
            self._start()
        self.jobs.send(job)
        try:
            if self.results.poll(self.seconds):
                return self.results.recv()
            problem = f"no result after {self.seconds} s"
        except EOFError:
            self.child.join()
            problem = f"exit code {self.child.exitcode}"
        self.close()
        return "crash", problem

    def close(self):
        if self.child is not None:
            self.child.kill()
            self.child.join()
            self.child = None
