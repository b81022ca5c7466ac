"""Per-device programs on XLA, one after another in a worker process with emulated devices (compare_with_xla.py)."""
import collections
import multiprocessing
import os

import xla

# text: of the per-device program; inputs: whole arrays; parameters, results: shardings by leaf.
# without: names of XLA passes to leave out.
Job = collections.namedtuple("Job", "text inputs parameters results devices without", defaults=("",))


def run(job):
    """[output][device] arrays."""
    import tiles

    layouts = [tiles.Tiles(text, job.devices) for text in job.parameters]
    inputs = [[layout.cut(value, d) for d in range(job.devices)] for layout, value in zip(layouts, job.inputs)]
    return xla.run_in_parts(job.devices, job.text, inputs, job.without)


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
