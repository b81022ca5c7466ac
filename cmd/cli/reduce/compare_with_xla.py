"""Do gshard-run and XLA, through jaxlib, give different values for a program? `gshard-opt reduce --differs-from-xla` asks it.

usage: compare_with_xla.py GSHARD_OPT GSHARD_RUN FILE [--input FILE.npz] [--rtol X]
       compare_with_xla.py --check: is there a jaxlib?

Exit code 0: yes; 1: no; 2: one of them does not run it. One line tells more. docs/reduce.md has the rule. gshard-opt carries
this file; the differential tests import it for its calls of XLA.
"""
import argparse
import json
import os
import re
import subprocess
import sys
import tempfile

YES, NO, NOTHING_TO_COMPARE = 0, 1, 2
MOST_DEVICES = 64  # that XLA emulates here
# Share of its largest magnitude that an output may be off by, as gshard-run --verify has it.
TOLERANCES = ((r"f4|f8", 0.25), (r"f16|bf16", 2e-2), (r"f32|c64", 1e-4), (r"f64|c128", 1e-9))


def module_of(text):
    """XLA's module of HLO text; raises with XLA's message where its parser refuses."""
    from jax._src.lib import xla_client
    return xla_client.hlo.hlo_module_from_text(text)


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


def parameter_types(text):
    """(dims, numpy dtype) of each entry parameter."""
    import numpy as np
    from jax._src.lib import xla_client
    module = module_of(text)
    shape = xla_client.XlaComputation(module.as_serialized_hlo_module_proto()).program_shape()
    return [(tuple(s.dimensions()), np.dtype(s.numpy_dtype())) for s in shape.parameter_shapes()]


def run(text, inputs):
    """Outputs (list of arrays) of the unpartitioned program on one CPU device."""
    return [parts[0] for parts in run_on(1, without_shardings(text), inputs)]


def run_on(devices, text, inputs):
    """[output][device] arrays of a program whose parameters and results each device has whole."""
    import jax
    import numpy as np
    from jax._src.lib import xla_client
    import jaxlib._jax as jaxlib_api

    module = module_of(text)
    computation = xla_client.XlaComputation(module.as_serialized_hlo_module_proto())
    mlir = jaxlib_api.mlir.xla_computation_to_mlir_module(computation)
    chosen = jax.devices()[:devices]
    options = xla_client.CompileOptions()
    place = chosen[0]
    if devices > 1:
        options.num_partitions = options.executable_build_options.num_partitions = devices
        options.executable_build_options.use_spmd_partitioning = True
        options.device_assignment = xla_client.DeviceAssignment.create(np.arange(devices).reshape(1, devices))
        place = jax.sharding.NamedSharding(jax.sharding.Mesh(np.array(chosen), ("d",)), jax.sharding.PartitionSpec())
    program = chosen[0].client.compile_and_load(mlir, jaxlib_api.DeviceList(tuple(chosen)), options)
    results = program.execute_sharded([jax.device_put(x, place) for x in inputs])
    return [[np.asarray(part) for part in parts] for parts in results.disassemble_into_single_device_arrays()]


# --- Programs that are partitioned already. XLA's client takes no program of N partitions that it has not partitioned itself, so
# the program runs as N replicas of one partition: partition-id becomes replica-id, and collectives without a channel join replicas.

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


def run_in_parts(devices, text, inputs, without=""):
    """[output][device] arrays of a device's program, for inputs [parameter][device]. `without`: names of XLA's passes to leave out."""
    import jax
    import numpy as np
    import jaxlib._jax as jaxlib_api
    from jax._src.lib import xla_client

    module = module_of(without_shardings(as_replicas(text)))
    computation = xla_client.XlaComputation(module.as_serialized_hlo_module_proto())
    mlir = jaxlib_api.mlir.xla_computation_to_mlir_module(computation)
    options = xla_client.CompileOptions()
    options.num_replicas, options.num_partitions = devices, 1
    options.executable_build_options.num_replicas = devices
    options.executable_build_options.num_partitions = 1
    if without:
        options.executable_build_options.debug_options.xla_disable_hlo_passes = without
    options.device_assignment = xla_client.DeviceAssignment.create(np.arange(devices).reshape(devices, 1))
    chosen = jax.devices()[:devices]
    program = chosen[0].client.compile_and_load(mlir, jaxlib_api.DeviceList(tuple(chosen)), options)
    mesh = jax.sharding.Mesh(np.array(chosen), ("d",))
    arguments = []
    for parts in inputs:
        shape = parts[0].shape
        spec = jax.sharding.PartitionSpec("d") if shape else jax.sharding.PartitionSpec()
        arguments.append(jax.make_array_from_single_device_arrays(
            (shape[0] * devices,) + shape[1:] if shape else (), jax.sharding.NamedSharding(mesh, spec),
            [jax.device_put(part, device) for part, device in zip(parts, chosen)]))
    outputs = program.execute_sharded(arguments).disassemble_into_single_device_arrays()
    return [[np.asarray(part) for part in output] for output in outputs]


# --- The text of a program, as gshard-opt prints it for XLA.

def shape_at(text, start):
    """Index just past the shape that begins at `start`."""
    depth = 0
    for i in range(start, len(text)):
        depth += (text[i] in "({[") - (text[i] in ")}]")
        if depth == 0 and text[i] == " ":
            return i
    return len(text)


class Line:
    """An instruction."""

    def __init__(self, text):
        found = re.match(r"\s+(ROOT )?%?([\w.-]+) = ", text)
        end = shape_at(text, found.end())
        self.is_root, self.name, self.shape, self.call = bool(found[1]), found[2], text[found.end():end], text[end + 1:]
        number = re.match(r"parameter\((\d+)\)", self.call)
        self.parameter = int(number[1]) if number else None


def entry_of(text):
    """(what is before the entry's instructions, its Lines, what is behind them)."""
    begin = text.index("\n", text.index("\nENTRY ") + 1) + 1
    end = text.index("\n}", begin)
    return text[:begin], [Line(line) for line in text[begin:end].split("\n")], text[end:]


def parameters_of(text):
    """Names of the entry's parameters; None if one is a tuple."""
    lines = [line for line in entry_of(text)[1] if line.parameter is not None]
    if any(line.shape.startswith("(") for line in lines):
        return None
    return [line.name for line in sorted(lines, key=lambda line: line.parameter)]


def results_of(text):
    """Names of what the results are; None if one is a tuple or a token."""
    root = next(line for line in entry_of(text)[1] if line.is_root)
    if not root.shape.startswith("("):
        return [root.name]
    if not root.call.startswith("tuple(") or root.shape.count("(") > 1:
        return None
    return re.findall(r"%([\w.-]+)", root.call[:root.call.index(")")])


def whole_at_the_ends(text):
    """The program with whole parameters and results on each device, spread behind and before; None where it cannot be said."""
    before, lines, behind = entry_of(text)
    before = re.sub(r", allow_spmd_sharding_propagation_to_(parameters|output)=\{[^}]*\}", "", before)
    made = []
    for line in lines:
        if line.parameter is not None:
            sharding = line.call.find("sharding=")
            made.append(f"  %whole.{line.name} = {line.shape} parameter({line.parameter}), sharding={{replicated}}")
            made.append(f"  %{line.name} = {line.shape} copy(%whole.{line.name})" + (f", {line.call[sharding:]}" if sharding >= 0 else ""))
        else:
            made.append(f"  %{line.name} = {line.shape} {line.call}")
        if line.is_root:
            root = line
    if not root.shape.startswith("("):
        made.append(f"  ROOT %whole.root = {root.shape} copy(%{root.name}), sharding={{replicated}}")
        return before + "\n".join(made) + behind
    shapes = re.findall(r"[\w]+\[[^\]]*\](?:\{[^}]*\})?", re.sub(r"/\*.*?\*/", "", root.shape))
    if not shapes or root.shape.count("(") > 1:
        return None
    for k, shape in enumerate(shapes):
        made.append(f"  %part.{k}.root = {shape} get-tuple-element(%{root.name}), index={k}")
        made.append(f"  %whole.{k}.root = {shape} copy(%part.{k}.root), sharding={{replicated}}")
    results = ", ".join(f"%whole.{k}.root" for k in range(len(shapes)))
    replicated = ", ".join(["{replicated}"] * len(shapes))
    made.append(f"  ROOT %whole.root = {root.shape} tuple({results}), sharding={{{replicated}}}")
    return before + "\n".join(made) + behind


# --- The comparison.

class NothingToCompare(Exception):
    pass


def tolerance_of(text):
    """By the coarsest floating type in the program."""
    return next((share for types, share in TOLERANCES if re.search(rf"\b({types})\w*\[", text)), 0.0)


def difference(got, want, rtol):
    """(largest error, largest magnitude of `want`, do they differ by more than is allowed)."""
    import numpy as np
    if got.shape != want.shape:
        return np.inf, 0.0, True
    if want.dtype.name.startswith(("int", "uint", "bool")):
        count = int(np.count_nonzero(got != want))
        return float(count), 1.0, count > 0
    got, want = got.astype(np.complex128), want.astype(np.complex128)
    with np.errstate(invalid="ignore", over="ignore"):
        same = (got == want) | (np.isnan(got) & np.isnan(want))
        off = np.where(same, 0.0, np.abs(got - want))
    worst = float(np.max(np.where(np.isnan(off), np.inf, off), initial=0.0))
    scale = float(np.max(np.abs(want[np.isfinite(want)]), initial=0.0))
    return worst, scale, worst > rtol * scale


def call(*command):
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        words = (done.stderr or done.stdout).strip().split("\n")
        raise NothingToCompare(f"{os.path.basename(command[0])} ends with {done.returncode}: {words[0][:300]}")
    return done.stdout


def compare(given):
    text = call(given.opt, "print", "--tiles", given.file)  # XLA's partitioner aborts on some shardings by name
    if re.search(r"replica_count=(?!1\b)", text.split("\n", 1)[0]):
        raise NothingToCompare("of a program with replicas every one has results of its own")
    names = parameters_of(text)
    if names is None:
        raise NothingToCompare("a parameter is a tuple")
    with tempfile.TemporaryDirectory() as folder:
        run = Run(given, folder)
        ours = run.whole(names)
        # Read when jax is imported.
        os.environ["JAX_PLATFORMS"], os.environ["JAX_ENABLE_X64"], os.environ["TF_CPP_MIN_LOG_LEVEL"] = "cpu", "1", "3"
        os.environ["XLA_FLAGS"] = (f"--xla_force_host_platform_device_count={run.devices} --xla_allow_excess_precision=false "
                                   + os.environ.get("XLA_FLAGS", ""))
        rtol = tolerance_of(text) if given.rtol is None else given.rtol
        if run.is_partitioned:
            return compare_parts(run, text, names, rtol)
        devices = run.devices
        spread = whole_at_the_ends(text) if 1 < devices <= MOST_DEVICES and "xla.sdy." not in text else None
        if spread is None:
            devices = 1
            spread = re.sub(r"(HloModule .*?), num_partitions=\d+", r"\1", without_shardings(text), count=1)
        results = of_xla(lambda: run_on(devices, spread, [as_type(run.value(name), dtype)
                                                          for name, (_, dtype) in zip(names, parameter_types(text))]))
        return told(results, lambda k, device: ours[k], devices, rtol)


class Run:
    """What gshard-run makes of a program."""

    def __init__(self, given, folder):
        self.given, self.folder, self.files = given, folder, {}
        self.devices, self.is_partitioned = 1, False

    def whole(self, names):
        """The outputs, put together; value() has those of `names` then."""
        import numpy as np
        out = os.path.join(self.folder, "out.npz")
        report = self.call([(name, None) for name in names], "--output", out)
        self.devices, self.is_partitioned = report["devices"], report["devices"] > 1 and not report["propagation"]
        loaded = np.load(out)
        return [loaded[f"o{k}"] for k in range(len(loaded))]

    def call(self, values, *flags):
        """Runs it so that value() has those of [(name, device or None)]."""
        command = [self.given.run, self.given.file, "--json", *flags]
        for name, device in values:
            file = self.files[name, device] = os.path.join(self.folder, f"{len(self.files)}.npy")
            command += ["--dump", f"{name}={file}" if device is None else f"{name}@{device}={file}"]
        return json.loads(call(*command, *(["--input", self.given.input] if self.given.input else [])))

    def value(self, name, device=None):
        import numpy as np
        return np.load(self.files[name, device])


def compare_parts(run, text, names, rtol):
    """Of a program that is partitioned already: each device's results, for its part of the inputs."""
    results = results_of(text)
    if results is None:
        raise NothingToCompare("a result is a tuple")
    if run.devices > MOST_DEVICES:
        raise NothingToCompare(f"it is for {run.devices} devices already, XLA emulates {MOST_DEVICES} here")
    run.call([(name, device) for name in dict.fromkeys(names + results) for device in range(run.devices)])
    types = [dtype for _, dtype in parameter_types(text)]
    inputs = [[as_type(run.value(name, device), dtype) for device in range(run.devices)] for name, dtype in zip(names, types)]
    return told(of_xla(lambda: run_in_parts(run.devices, text, inputs)), lambda k, device: run.value(results[k], device),
                run.devices, rtol)


def of_xla(run):
    try:
        return run()
    except Exception as error:  # jaxlib raises its own types
        raise NothingToCompare(f"XLA does not run it: {' '.join(str(error).split())[:300]}") from error


def as_type(array, dtype):
    """Types that NumPy does not know are raw bytes in files."""
    return array.view(dtype) if array.dtype.kind == "V" else array.astype(dtype)


def told(results, ours, devices, rtol):
    """(YES or NO, a line) for [output][device] of XLA and ours(output, device)."""
    where = "1 device" if devices == 1 else f"{devices} devices"
    worst = (0.0, "all outputs are equal")
    for k, parts in enumerate(results):
        for device, part in enumerate(parts):
            error, scale, differs = difference(part, as_type(ours(k, device), part.dtype), rtol)
            line = f"o{k} is off by {error:.3g} where values are up to {scale:.3g}; {rtol:.3g} of these is allowed"
            if differs:
                return YES, f"XLA on {where} differs: on device {device} {line}"
            worst = max(worst, (error, line))
    return NO, f"XLA on {where} agrees: {worst[1]}"


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--check", action="store_true")
    parser.add_argument("--input")
    parser.add_argument("--rtol", type=float)
    parser.add_argument("opt", nargs="?")
    parser.add_argument("run", nargs="?")
    parser.add_argument("file", nargs="?")
    given = parser.parse_args()
    try:
        if given.check:
            import jax  # noqa: F401
            import jaxlib._jax  # noqa: F401
            return YES
        code, line = compare(given)
    except ImportError as error:
        code, line = NOTHING_TO_COMPARE, str(error)
    except NothingToCompare as error:
        code, line = NOTHING_TO_COMPARE, str(error)
    print(line)
    return code


if __name__ == "__main__":
    sys.exit(main())
