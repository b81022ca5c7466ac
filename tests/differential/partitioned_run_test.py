"""Our partitioned programs on XLA: every device computes its part of what the whole program computes.

The samples for 8 devices and random programs of gshard_property are partitioned by gshard-opt, run by XLA as they are
(partitioned.py), and compared, device by device and without padding, with gshard-run of the whole program on the same
inputs. Where the two differ, XLA's own run of the whole program decides. Padding of inputs is NaN or nonsense.
The samples run in every form that `optimize` gives them; of the random programs those in which it changes
collectives, and some others.
GSHARD_PARTITIONED_PROGRAMS=N random programs (default 340), from seed GSHARD_PARTITIONED_SEED (0).
"""
import collections
import concurrent.futures
import os
import re
import subprocess
import tempfile
import zlib

import numpy as np

import hlo_lines

import partitioned
import run_test
import samples
import tiles
import xla
from tally import Tally

DEVICES = 8
PROGRAMS = int(os.environ.get("GSHARD_PARTITIONED_PROGRAMS", "340"))
FIRST = int(os.environ.get("GSHARD_PARTITIONED_SEED", "0"))
WANTED = 300  # of 340: some use what XLA's CPU backend does not implement

# forms: of the per-device program.
Case = collections.namedtuple("Case", "name path noise inputs forms")
# annotate: passes before propagation; optimize: flags, None for the program as it was partitioned.
Form = collections.namedtuple("Form", "name annotate optimize")
PARTITIONED = Form("in parts", "", None)
OPTIMIZED = Form("optimized", "", ())
LOOPED = Form("with looped einsums", "", ("--windowed-einsum", "0"))
SAMPLE_FORMS = [
    PARTITIONED, OPTIMIZED, LOOPED,
    Form("with small collectives combined", "", ("--combine-threshold", "16KiB")),
    Form("with sharded weight updates", "weight-update-sharding", ()),
]
COLLECTIVE = re.compile(r" (all-\w+|reduce-scatter|collective-\w+)\(")


def tool(*command):
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        raise RuntimeError(f"{command[0]} {command[1]}: {done.stderr.strip()[:500]}")
    return done.stdout


def small_integers(types, seed):
    """Inputs whose sums are exact: gshard_property knows their size."""
    rng = np.random.default_rng(seed)
    inputs = []
    for dims, dtype in types:
        kind = dtype.kind
        if kind == "b":
            value = rng.integers(0, 2, dims)
        elif kind == "u" or dtype.name.startswith("uint"):
            value = rng.integers(0, 8 if dtype.name == "uint4" else 10, dims)
        elif kind == "i" or dtype.name.startswith("int"):
            value = rng.integers(-3, 8 if dtype.name == "int4" else 10, dims)
        else:
            value = rng.integers(-2, 4, dims)
            value = value + 1j * (1 - value) if kind == "c" else value
        inputs.append(np.asarray(value).astype(dtype))
    return inputs


def plain(array):
    """As .npz and comparisons take it."""
    if array.dtype.kind == "V" or array.dtype.name.startswith(("bfloat", "float8", "int4", "uint4", "int2", "uint2")):
        return array.astype(np.float64 if "float" in array.dtype.name else np.int64)
    return array


def entry_parameter_shardings(text):
    entry = text[text.index("\nENTRY "):]
    found = {}
    for line in entry.splitlines():
        number = re.search(r" parameter\((\d+)\)", line)
        if number:
            at = line.find("sharding={")
            found[int(number.group(1))] = line[at + len("sharding="):] if at >= 0 else "{replicated}"
    return [found[k] for k in range(len(found))]


def output_shardings(text):
    return tiles.leaves_of(re.search(r'gshard\.output_shardings="([^"]*)"', text).group(1))


def difference(got, want, allowed):
    with np.errstate(invalid="ignore", over="ignore"):
        off = np.abs(got.astype(np.complex128) - want.astype(np.complex128))
        same = (got == want) | (np.isnan(got.astype(np.complex128)) & np.isnan(want.astype(np.complex128)))
        return np.max(np.where(same, 0, np.where(np.isnan(off), np.inf, off)), initial=0.0) > allowed


def worst_device(outputs, expected, shardings, noise):
    """"" if every device has its part of every output."""
    if len(outputs) != len(expected):
        return f"{len(outputs)} outputs instead of {len(expected)}"
    for k, parts in enumerate(outputs):
        layout = tiles.Tiles(shardings[k] if k < len(shardings) else "{replicated}", DEVICES)
        for device, part in enumerate(parts):
            if layout.index[device] is None:
                continue
            want = plain(expected[k])[layout.box(device, expected[k].shape)]
            got = plain(part)[tuple(slice(0, n) for n in want.shape)]
            if difference(got, want, noise[k]):
                return f"output {k} differs on device {device}"
    return ""


class Suite:
    def __init__(self, work):
        self.work = work
        self.ours_differ = []
        self.faults_of_xla = collections.defaultdict(list)

    def base(self, case):
        return os.path.join(self.work, case.name.replace(" ", "_"))

    def whole_run(self, case, dtypes):
        """Outputs of gshard-run on one device."""
        base = self.base(case)
        if not os.path.exists(base + ".out.npz"):
            np.savez(base + ".npz", **{f"p{k}": self.stored(value) for k, value in enumerate(case.inputs)})
            tool("gshard-run", case.path, "--unpartitioned", "--input", base + ".npz", "--output", base + ".out.npz")
        loaded = np.load(base + ".out.npz")
        outputs = []
        for k, dtype in enumerate(dtypes):
            value = loaded[f"o{k}"]
            outputs.append(value.view(dtype) if value.dtype.kind == "V" else value.astype(dtype))
        return outputs

    @staticmethod
    def stored(value):
        if value.dtype.name in ("int4", "uint4"):
            return value.astype(value.dtype.name.replace("4", "8"))
        is_small_float = value.dtype.name.startswith(("bfloat", "float8"))
        return value.view(f"V{value.dtype.itemsize}") if is_small_float else value

    def per_device(self, case, form, propagated):
        """The text of one device; `propagated`: of the forms before, by what was done before propagation."""
        path = propagated.get(form.annotate)
        if path is None:
            path = propagated[form.annotate] = self.base(case) + f".{len(propagated)}.hlo"
            source = case.path
            if form.annotate:
                source = path + ".annotated"
                tool("gshard-opt", "optimize", "--passes", form.annotate, case.path, "-o", source)
            # In two steps, so that the output shardings in the header are tiles as well. As XLA would: what is free
            # beyond that meets faults of its CPU backend (a scan of one element needs a constant to start from).
            flags = hlo_lines.xla_defaults(open(source).read())
            tool("gshard-opt", "propagate", "--tiles", "--no-metadata", *flags, source, "-o", path)
        text = tool("gshard-opt", "partition", "--no-propagate", "--tiles", path)
        if form.optimize is None:
            return text
        partitioned_path = path + ".partitioned"
        with open(partitioned_path, "w") as out:
            out.write(text)
        return tool("gshard-opt", "optimize", "--tiles", "--verify-each", *form.optimize, partitioned_path)

    def check(self, case, worker):
        """[(form, kind, problem)]: kind is "agrees", "fails" or "impossible"."""
        found, texts, propagated = [], [], {}
        for form in case.forms:
            try:
                text = self.per_device(case, form, propagated)
            except RuntimeError as error:
                found.append((form, "fails", str(error)))
                continue
            if text in texts or texts and len(case.forms) == 2 and not self.is_worth_it(case, texts[0], text):
                continue
            texts.append(text)
            found.append((form, *self.check_text(case, text, worker)))
            if found[-1][1] == "impossible":
                break
        return found

    @staticmethod
    def is_worth_it(case, partitioned_text, optimized_text):
        """Of random programs: where collectives changed, and every fifth."""
        before, after = (collections.Counter(COLLECTIVE.findall(t)) for t in (partitioned_text, optimized_text))
        return before != after or zlib.crc32(case.name.encode()) % 5 == 0

    def check_text(self, case, text, worker):
        job = partitioned.Job(text, case.inputs, entry_parameter_shardings(text), output_shardings(text), DEVICES)
        status, outputs = worker.run(job)
        if status != "ok":
            return self.not_run(case, worker, outputs)
        noise = case.noise(outputs) if callable(case.noise) else case.noise
        try:
            ours = self.whole_run(case, [parts[0].dtype for parts in outputs])
        except RuntimeError as error:
            return "fails", str(error)
        problem = worst_device(outputs, ours, job.results, noise)
        if problem:
            status, whole = self.whole_by_xla(case, worker)
            if status == "ok" and not worst_device(outputs, whole, job.results, noise):
                self.ours_differ.append(case.name)
                return "agrees", ""
            for reason, other in self.without_known_faults(job):
                status, outputs = worker.run(other)
                if status == "ok" and not worst_device(outputs, ours, job.results, noise):
                    self.faults_of_xla[reason].append(case.name)
                    return "agrees", ""
        return ("fails", problem) if problem else ("agrees", "")

    @staticmethod
    def without_known_faults(job):
        """(fault of XLA, job that avoids it)."""
        # dynamic-slice(dynamic-slice(x, i), j) becomes one at i + j, also where j was clamped.
        yield "right without XLA's algebraic simplifier only", job._replace(without="algsimp")
        # Combined ones mix up the devices' parts where the gathered dim is not outermost in memory.
        separate = xla.uncombined(job.text, "all-gather")
        if separate != job.text:
            yield "right with one operand an all-gather only", job._replace(text=separate)

    def whole_by_xla(self, case, worker):
        text = xla.without_shardings(tool("gshard-opt", "print", "--no-metadata", case.path))
        text = re.sub(r"(HloModule [^\n]*?), num_partitions=\d+", r"\1", text)
        text = re.sub(r'custom-call\(([^)]*)\), custom_call_target="Sharding"', r"copy(\1)", text)
        status, outputs = worker.run(partitioned.Job(text, case.inputs, ["{replicated}"] * len(case.inputs), [], 1))
        return status, [parts[0] for parts in outputs] if status == "ok" else outputs

    def not_run(self, case, worker, problem):
        """What XLA cannot run whole it cannot run in parts either; some operations only its constant folding has not."""
        missing = re.search(r"UNIMPLEMENTED: ([a-z-]+)$", problem.strip())
        if missing and f" {missing.group(1)}(" in open(case.path).read():
            return "impossible", problem
        status, reason = self.whole_by_xla(case, worker)
        if status == "ok":
            return "fails", f"XLA runs it whole, but not in parts: {problem}"
        return "impossible", reason


def random_cases(work):
    folder = os.path.join(work, "programs")
    tool("gshard_property", "--write", folder, "--devices", str(DEVICES), "--seeds", f"{FIRST}:{FIRST + PROGRAMS}")
    for seed in range(FIRST, FIRST + PROGRAMS):
        path = os.path.join(folder, f"seed_{seed}.hlo")
        text = open(path).read()
        noise = [8 * float(x) for x in text.splitlines()[0].split(":")[1].split()]
        types = xla.parameter_types(text)
        forms = [PARTITIONED, LOOPED if seed % 2 else OPTIMIZED]
        yield Case(f"seed {seed}", path, noise, small_integers(types, seed), forms)


def sample_cases(work):
    runs = [(name, samples.path(name)) for name in samples.BY_HAND]
    for name, rules, meshes in samples.GENERATED:
        path = os.path.join(work, f"{rules}.annotated.hlo")
        problem = samples.annotate(name, rules, meshes[0], path)
        if problem:
            raise RuntimeError(problem)
        runs.append((rules, path))
    for name, path in runs:
        types = xla.parameter_types(tool("gshard-opt", "print", path))
        factor = 1e-2 if name in run_test.DECIDES else 1e-4
        scale = lambda outputs, factor=factor: [
            factor * float(np.max(np.abs(plain(parts[0])).astype(np.float64), initial=0)) for parts in outputs]
        yield Case(name, path, scale, run_test.random_inputs(types, seed=1), SAMPLE_FORMS)


def main():
    tally = Tally()
    impossible, forms = collections.Counter(), collections.Counter()
    agreed = 0
    with tempfile.TemporaryDirectory() as work:
        suite = Suite(work)
        cases = list(sample_cases(work)) + list(random_cases(work))
        workers = [partitioned.Worker(DEVICES, 120) for _ in range(2)]
        with concurrent.futures.ThreadPoolExecutor(2) as pool:
            free = list(workers)

            def check(case):
                worker = free.pop()
                try:
                    return suite.check(case, worker)
                finally:
                    free.append(worker)

            for case, found in zip(cases, pool.map(check, cases)):
                for form, kind, problem in found:
                    if kind == "impossible":
                        impossible[problem] += 1
                        continue
                    forms[form.name] += 1
                    agreed += kind == "agrees" and form is PARTITIONED
                    tally.check(f"{case.name} {form.name} on XLA (gshard_property --devices {DEVICES})", problem)
        for worker in workers:
            worker.close()
        for reason, count in impossible.most_common():
            print(f"not run by XLA, {count}: {reason}")
        if suite.ours_differ:
            print("whole runs of gshard-run and XLA differ, parts agree with XLA:", ", ".join(suite.ours_differ))
        for reason, names in suite.faults_of_xla.items():
            print(f"{reason}:", ", ".join(names))
        for form, count in forms.items():
            print(f"{count} {form}")
        if PROGRAMS >= WANTED:
            tally.check(f"{agreed} programs agree", "" if agreed >= WANTED else f"{WANTED} are wanted")
    tally.finish()


if __name__ == "__main__":
    main()
