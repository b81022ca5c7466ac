"""XLA through the jaxlib wheel: does its parser take a text, and what does its CPU backend compute.

Everything runs in this process; a caller that expects crashes runs it in a child (`in_child`).
"""
import multiprocessing
import os

os.environ.setdefault("JAX_PLATFORMS", "cpu")
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")


def module_of(text):
    """XLA's module of HLO text; raises with XLA's message where its parser refuses."""
    from jax._src.lib import xla_client
    return xla_client.hlo.hlo_module_from_text(text)


def parse_error(text):
    """None if XLA's parser takes the text, else its complaint and the place: the first two lines."""
    try:
        module_of(text)
        return None
    except Exception as error:  # jaxlib raises its own types
        return " ".join(str(error).strip().split("\n")[:2])[:300]


def without_shardings(text):
    """The text with every sharding= taken out, for a run on one device."""
    out, at = [], 0
    while True:
        start = text.find(", sharding={", at)
        if start < 0:
            return "".join(out) + text[at:]
        out.append(text[at:start])
        depth, i = 0, start + len(", sharding=")
        while True:
            depth += {"{": 1, "}": -1}.get(text[i], 0)
            i += 1
            if depth == 0:
                break
        at = i


def run(text, inputs):
    """Outputs (list of arrays) of the unpartitioned program on one CPU device."""
    import jax
    import numpy as np
    from jax._src.lib import xla_client
    import jaxlib._jax as jaxlib_api

    module = module_of(without_shardings(text))
    computation = xla_client.XlaComputation(module.as_serialized_hlo_module_proto())
    mlir = jaxlib_api.mlir.xla_computation_to_mlir_module(computation)
    device = jax.devices()[0]
    options = xla_client.CompileOptions()
    program = device.client.compile_and_load(mlir, jaxlib_api.DeviceList((device,)), options)
    buffers = [jax.device_put(x, device) for x in inputs]
    results = program.execute_sharded(buffers).disassemble_into_single_device_arrays()
    return [np.asarray(parts[0]) for parts in results]


def parameter_types(text):
    """(dims, numpy dtype) of each entry parameter."""
    import numpy as np
    from jax._src.lib import xla_client
    module = module_of(text)
    shape = xla_client.XlaComputation(module.as_serialized_hlo_module_proto()).program_shape()
    return [(tuple(s.dimensions()), np.dtype(s.numpy_dtype())) for s in shape.parameter_shapes()]


def in_child(function, *arguments):
    """function(*arguments) in a child process: ("ok", result), ("error", text) or ("crash", text)."""
    receiver, sender = multiprocessing.Pipe(duplex=False)
    child = multiprocessing.get_context("spawn").Process(target=_child, args=(sender, function, arguments))
    child.start()
    sender.close()
    try:
        outcome = receiver.recv()
    except EOFError:
        outcome = None
    child.join()
    return outcome or ("crash", f"exit code {child.exitcode}")


def _child(sender, function, arguments):
    try:
        sender.send(("ok", function(*arguments)))
    except Exception as error:
        sender.send(("error", f"{type(error).__name__}: {error}"))
