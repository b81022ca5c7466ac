"""XLA's sharding-propagation, or another of its passes, over many graphs in one process.

Each text is compiled by the CPU client, or for a TPU, with the pass dumped. XLA's importer makes every instruction's name its
op_name, by which results are matched to the input. XLA dies on some inputs, so graphs run in a child process that is
started again after the one that killed it. Compiling for a TPU needs libtpu in Python and no TPU.
"""
import glob
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time

import shardings

# Slices of TPUs with so many devices, as libtpu names them.
TPU_SLICES = {2: "v5e:2x2", 4: "v5e:2x2", 8: "v5e:2x4", 16: "v5e:4x4", 32: "v5e:4x8", 64: "v5e:8x8", 128: "v5e:8x16", 256: "v5e:16x16"}


def dumped(folder, name):
    """[module before the pass, module after it], or None."""
    texts = []
    for when in ("before", "after"):
        files = sorted(glob.glob(os.path.join(folder, f"*{when}_{name}*.txt")))
        if not files:
            return None
        texts.append(open(files[0]).read())
    return texts if all(text.rstrip().endswith("}") for text in texts) else None


def _log_to(path):
    """What XLA writes on stderr goes to the file from here on."""
    log = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    os.dup2(log, 2)
    os.close(log)


def _worker(job_path, done_path, first):
    job = json.load(open(job_path))
    dump = job["dump"]
    os.environ["XLA_FLAGS"] = (f"--xla_force_host_platform_device_count={job['devices']} --xla_dump_to={dump} "
                               f"--xla_dump_hlo_as_text --xla_dump_hlo_pass_re={job['pass']} "
                               "--xla_dump_large_constants=true --xla_backend_optimization_level=0")
    os.environ["JAX_PLATFORMS"] = "cpu"
    os.environ["TF_CPP_MIN_LOG_LEVEL"] = "1" if job["logs"] else "3"
    # Without these libtpu looks for a TPU's host.
    os.environ.update(TPU_SKIP_MDS_QUERY="1", TPU_WORKER_HOSTNAMES="localhost", TPU_ACCELERATOR_TYPE="v5litepod-8",
                      ALLOW_MULTIPLE_LIBTPU_LOAD="1")
    import jax
    import numpy as np
    from jax._src.lib import xla_client
    import jaxlib._jax as api

    with open(done_path, "a") as done:
        for k in range(first, len(job["graphs"])):
            text = job["graphs"][k]
            shutil.rmtree(dump, ignore_errors=True)
            os.mkdir(dump)
            if job["logs"]:
                _log_to(os.path.join(job["logs"], str(k)))
            # Told once the dump of the graph before is gone: whoever waits takes what is there for this one's.
            done.write(json.dumps({"start": k}) + "\n")
            done.flush()
            error = ""
            try:
                header = text.split("\n", 1)[0]
                n = int(re.search(r"num_partitions=(\d+)", header).group(1))
                module = xla_client.hlo.hlo_module_from_text(text)
                computation = xla_client.XlaComputation(module.as_serialized_hlo_module_proto())
                mlir = api.mlir.xla_computation_to_mlir_module(computation)
                options = xla_client.CompileOptions()
                options.num_replicas, options.num_partitions = 1, n
                build = options.executable_build_options
                build.num_replicas, build.num_partitions = 1, n
                build.use_spmd_partitioning = True
                for key in ("output", "parameters"):
                    m = re.search(r"allow_spmd_sharding_propagation_to_%s=\{([^}]*)\}" % key, header)
                    if m:
                        setattr(build, "allow_spmd_sharding_propagation_to_" + key,
                                [x.strip() == "true" for x in m.group(1).split(",")])
                options.device_assignment = xla_client.DeviceAssignment.create(np.arange(n).reshape(1, n))
                if job["platform"] == "tpu":
                    compile_for_tpu(mlir, n, api, options)
                else:
                    devices = jax.devices()
                    devices[0].client.compile_and_load(mlir, api.DeviceList(tuple(devices[:n])), options)
            except Exception as e:
                error = str(e).strip().split("\n")[0][:400]
            out = dumped(dump, job["pass"])
            done.write(json.dumps({"k": k, "text": out, "error": "" if out else error or "no dump"}) + "\n")
            done.flush()


def compile_for_tpu(mlir, n, api, options):
    from jax._src.interpreters import mlir as jax_mlir
    from jax._src.lib.mlir import ir
    from jax.experimental import topologies

    devices = topologies.get_topology_desc(platform="tpu", topology_name=TPU_SLICES[n]).devices[:n]
    with jax_mlir.make_ir_context():
        devices[0].client.compile(ir.Module.parse(mlir), api.DeviceList(tuple(devices)), options)


def propagate(graphs, devices=16, timeout=None, platform="cpu"):
    """For each text: ([module before sharding-propagation, module after it], "") or (None, error)."""
    return run_pass("sharding-propagation", graphs, devices, timeout, platform)


def run_pass(name, graphs, devices=16, timeout=None, platform="cpu", logs=None):
    """For each text: ([module before the pass, module after it], "") or (None, error).

    `logs`: a folder where the warnings that XLA prints of text k are left in a file named k.

    The platform is "cpu" or "tpu"; `devices` are those that the CPU client has. A child that takes longer than `timeout` seconds is ended, and on the last graph one that has dumped what is
    needed: big modules are not compiled to the end.
    """
    results = [None] * len(graphs)
    with tempfile.TemporaryDirectory() as work:
        job, done = os.path.join(work, "job.json"), os.path.join(work, "done.jsonl")
        dump = os.path.join(work, "dump")
        os.mkdir(dump)
        json.dump({"graphs": graphs, "devices": devices, "dump": dump, "pass": name, "platform": platform, "logs": logs},
                  open(job, "w"))
        first = 0
        while first < len(graphs):
            open(done, "w").close()
            child = subprocess.Popen([sys.executable, os.path.abspath(__file__), job, done, str(first)],
                                     stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True,
                                     env=dict(os.environ, PYTHONPATH=os.pathsep.join(sys.path)))
            complaints = wait_for(child, done, len(graphs) - 1, timeout, lambda: dumped(dump, name))
            started = first
            for line in open(done):
                entry = json.loads(line)
                if "start" in entry:
                    started = entry["start"]
                else:
                    results[entry["k"]] = (entry["text"], entry["error"])
            if results[started] is None:
                tail = [x for x in complaints.split("\n") if "Check failed" in x or "F0" in x[:3]]
                out = dumped(dump, name)  # later passes may be what killed it
                why = "XLA died: " + (tail[0][:300] if tail else f"exit {child.returncode}")
                results[started] = (out, "" if out else why)
            first = started + 1
    return results


def wait_for(child, done, last, timeout, has_dumped):
    """What the child says on stderr; ends it after `timeout` seconds or once the last graph's dump is there."""
    start = time.monotonic()
    while True:
        try:
            return child.communicate(timeout=0.2)[1]
        except subprocess.TimeoutExpired:
            late = timeout is not None and time.monotonic() - start > timeout
            if late or json.dumps({"start": last}) in open(done).read().split("\n") and has_dumped():
                child.kill()
                return child.communicate()[1]


def results_by_name(before, after):
    """{instruction of `before`: its sharding in `after`}; copies that replaced Sharding calls count as those."""
    by_name, by_op_name = {}, {}
    for x in shardings.instructions(after):
        by_name[x.name] = x
        by_op_name.setdefault(x.op_name, []).append(x)
    result = {}
    for x in shardings.instructions(before):
        if x.name in by_name and by_name[x.name].opcode == x.opcode:
            result[x.name] = by_name[x.name].sharding
            continue
        copies = [y for y in by_op_name.get(x.op_name, []) if (x.opcode, y.opcode) == ("custom-call", "copy")]
        if x.op_name and len(copies) == 1:
            result[x.name] = copies[0].sharding
    return result


if __name__ == "__main__":
    _worker(sys.argv[1], sys.argv[2], int(sys.argv[3]))
