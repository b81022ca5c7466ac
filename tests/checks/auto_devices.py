"""Runs `gshard-opt auto --devices` on two steps over nodes of devices, behind a slow network and on one pod: which plans have stages,
what every row's command prints, which must cost what the report says, and that no point of `gshard-cost sweep` is faster."""
import json
import os
import pathlib
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "differential"))
import tally  # noqa: E402

ROOT = pathlib.Path(__file__).resolve().parents[2]
SEARCH = ["--evaluations", "200", "--time-limit", "10s"]
# What the search tells of times within a thousandth as one.
SAME_TIME = 1.001
# Plans of the step of step_text by hand, for sweep.
BY_HAND = {"data": ["param:0=data,_"], "tensor": ["param:0=data,_", "param:1=_,_,model", "param:2=_,model,_"],
           "FSDP and tensor": ["param:0=data,_", "param:1=_,data,model", "param:2=_,model,data"]}


def slow_network(in_node):
    """A chip file: nodes of so many devices, and 2 GB/s for each between them."""
    return {"base": "h100", "name": "slow", "network": [
        {"kind": "switch", "name": "node", "devices": in_node, "bytes_per_s": 4e11, "efficiency": .8, "latency_s": 3e-6},
        {"kind": "switch", "name": "between", "devices": 64, "bytes_per_s": 2e9, "efficiency": .9, "latency_s": 1e-5}]}


def step_text(layers, width, rows_in_all):
    """Residual layers h + tanh(h a) b with their weights stacked, the sum of squares, and a step of gradient descent."""
    wide, narrow = f"[{width},{4 * width}]", f"[{4 * width},{width}]"
    rows, inner = f"f32[{rows_in_all},{width}]", f"f32[{rows_in_all},{4 * width}]"
    lines = ["HloModule step, input_output_alias={ {1}: (1, {}, may-alias), {2}: (2, {}, may-alias) }",
             "sum { a = f32[] parameter(0)  b = f32[] parameter(1)  ROOT s = f32[] add(a, b) }", "ENTRY e {", f"  h0 = {rows} parameter(0)",
             f"  a = {stack(layers, wide)} parameter(1)", f"  b = {stack(layers, narrow)} parameter(2)"]
    for i in range(layers):
        for name, shape in (("a", wide), ("b", narrow)):
            ends = ", ".join(f"[0:{size}]" for size in shape[1:-1].split(","))
            lines += [f"  c{name}{i} = f32[1,{shape[1:]} slice({name}), slice={{[{i}:{i + 1}], {ends}}}",
                      f"  {name}{i} = f32{shape} reshape(c{name}{i})"]
        lines += [f"  d{i} = {inner} dot(h{i}, a{i}), lhs_contracting_dims={{1}}, rhs_contracting_dims={{0}}", f"  t{i} = {inner} tanh(d{i})",
                  f"  e{i} = {rows} dot(t{i}, b{i}), lhs_contracting_dims={{1}}, rhs_contracting_dims={{0}}",
                  f"  h{i + 1} = {rows} add(h{i}, e{i})"]
    lines += ["  zero = f32[] constant(0)", f"  squares = {rows} multiply(h{layers}, h{layers})",
              "  loss = f32[] reduce(squares, zero), dimensions={0,1}, to_apply=sum", "  one = f32[] constant(1)",
              f"  ones = {inner} broadcast(one), dimensions={{}}", "  rate = f32[] constant(1e-6)", f"  g{layers} = {rows} add(h{layers}, h{layers})"]
    for i in reversed(range(layers)):
        lines += [f"  k{i} = {inner} dot(g{i + 1}, b{i}), lhs_contracting_dims={{1}}, rhs_contracting_dims={{1}}",
                  f"  q{i} = {inner} multiply(t{i}, t{i})", f"  p{i} = {inner} subtract(ones, q{i})", f"  v{i} = {inner} multiply(k{i}, p{i})",
                  f"  m{i} = f32{narrow} dot(t{i}, g{i + 1}), lhs_contracting_dims={{0}}, rhs_contracting_dims={{0}}",
                  f"  n{i} = f32{wide} dot(h{i}, v{i}), lhs_contracting_dims={{0}}, rhs_contracting_dims={{0}}",
                  f"  ra{i} = f32[1,{wide[1:]} reshape(n{i})", f"  rb{i} = f32[1,{narrow[1:]} reshape(m{i})",
                  f"  y{i} = {rows} dot(v{i}, a{i}), lhs_contracting_dims={{1}}, rhs_contracting_dims={{1}}",
                  f"  g{i} = {rows} add(g{i + 1}, y{i})"]
    for name, shape in (("a", wide), ("b", narrow)):
        parts = ", ".join(f"r{name}{i}" for i in range(layers))
        lines += [f"  all{name} = {stack(layers, shape)} concatenate({parts}), dimensions={{0}}", f"  rates{name} = {stack(layers, shape)} broadcast(rate), dimensions={{}}",
                  f"  step{name} = {stack(layers, shape)} multiply(all{name}, rates{name})", f"  new{name} = {stack(layers, shape)} subtract({name}, step{name})"]
    lines += [f"  ROOT r = (f32[], {stack(layers, wide)}, {stack(layers, narrow)}) tuple(loss, newa, newb)", "}"]
    return "\n".join(lines) + "\n"


def stack(layers, shape):
    return f"f32[{layers},{shape[1:]}"


def run(*command, code=0, **more):
    done = subprocess.run(command, capture_output=True, text=True, check=False, **more)
    if done.returncode != code:
        raise RuntimeError(f"{' '.join(command)}: {done.returncode}, {done.stderr[-500:]}")
    return done.stdout


class Case:
    """One step on so many devices of one chip."""

    def __init__(self, results, name, folder, step, devices, chip):
        self.results, self.name, self.folder, self.step, self.devices, self.chip = results, name, folder, step, devices, chip
        self.out = folder / "out.hlo"

    def check(self, what, wrong):
        self.results.check(f"{self.name}: {what}", wrong)

    def auto(self, *more):
        report = self.folder / "report.json"
        run("gshard-opt", "auto", self.step, "--devices", str(self.devices), *SEARCH, *self.chip, *more, "--report", str(report), "-o",
            str(self.out), "--write-plans", str(self.folder / "plans"))
        return json.loads(report.read_text())

    def check_commands(self, report):
        for i, plan in enumerate(report["plans"]):
            text = run("sh", str(self.folder / "plans" / f"{i + 1}.sh"))
            cost = json.loads(run("gshard-cost", "-", *self.chip, "--json", input=text))
            said = (plan["step_time_s"], plan["peak_bytes"])
            found = (cost["step_time_s"], cost["memory"]["peak_bytes"])
            self.check(f"the program of row {i + 1}'s command", "" if said == found else f"{said} in the report, {found} by its command")

    def check_stages(self, report):
        best = report["plans"][0]
        self.check("the best plan has stages", "" if best["stages"] > 1 else json.dumps(best))
        self.check("stages are an axis of the mesh", "" if best["mesh"].get("stage") == best["stages"] else json.dumps(best["mesh"]))

    def check_sweep(self, report, by_hand, *more):
        """Plans by hand over every mesh of so many devices, without stages and with."""
        best = report["plans"][0]["step_time_s"]
        meshes = ["--mesh", f"data=1..{self.devices},model=1..{self.devices}", "--devices", str(self.devices)]
        stages = ["--stages", f"2..{min(16, self.devices)}", "--microbatches", "8..32", "--schedule", "gpipe,1f1b"]
        for name, rules in by_hand.items():
            shards = [word for rule in rules for word in ("--shard", rule)]
            for kind, flags in (("", []), (" with stages", stages)):
                table = json.loads(run("gshard-cost", "sweep", self.step, "--json", *meshes, *self.chip, *more, *shards, *flags, codes=(0, 3)))
                points = [point for point in table["points"] if point.get("step_time_s")]
                faster = [point for point in points if point["fits"] and point["step_time_s"] * SAME_TIME < best]
                self.check(f"no point of a sweep of {name}{kind} that fits is faster",
                           json.dumps(faster[0]) if faster else "" if points else "no point has a price")


def run(*command, codes=(0,), **more):
    done = subprocess.run(command, capture_output=True, text=True, check=False, **more)
    if done.returncode not in codes:
        raise RuntimeError(f"{' '.join(command)}: {done.returncode}, {done.stderr[-500:]}")
    return done.stdout


def check_small_nodes(results, folder, step):
    """Two nodes of two devices: what the flags ask for, what the plan computes, the same for any number of threads."""
    (folder / "slow.json").write_text(json.dumps(slow_network(2)))
    case = Case(results, "4 devices, a slow network", folder, step, 4, ["--chip-file", str(folder / "slow.json")])
    # Whole copies of the weights do not fit, and sums between the nodes are slow.
    limit = ["--limit", "80MiB"]
    report = case.auto(*limit)
    case.check_stages(report)
    case.check_commands(report)
    case.check_sweep(report, BY_HAND, *limit)
    device = str(folder / "device.hlo")
    run("gshard-opt", "partition", str(case.out), "-o", device)
    verified = subprocess.run(["gshard-run", device, "--reference", step, "--verify=outputs"], capture_output=True, text=True, check=False)
    case.check("the best plan computes what the step does", "" if verified.returncode == 0 else verified.stderr[-500:])
    first = case.out.read_bytes()
    case.auto(*limit, "--threads", "1")
    case.check("the same with one thread", "" if first == case.out.read_bytes() else "another program")
    report = case.auto("--stages", "off")
    case.check("--stages off: none", "" if all(plan["stages"] == 1 for plan in report["plans"]) else "there are stages")
    report = case.auto(*limit, "--stages", "4", "--microbatches", "8", "--schedule", "gpipe")
    asked = [plan for plan in report["plans"] if plan["stages"] > 1]
    wrong = [plan for plan in asked if (plan["stages"], plan["microbatches"], plan["schedule"]) != (4, 8, "gpipe")]
    case.check("only pipelines that were asked for", "" if asked and not wrong else json.dumps(wrong or report["plans"])[:500])


def check_large_nodes(results, folder, step):
    """Eight nodes of eight devices, and a pod of as many."""
    (folder / "slow.json").write_text(json.dumps(slow_network(8)))
    limit = ["--limit", "80MiB"]
    case = Case(results, "64 devices, a slow network", folder, step, 64, ["--chip-file", str(folder / "slow.json")])
    report = case.auto(*limit)
    case.check_stages(report)
    case.check_commands(report)
    case.check_sweep(report, BY_HAND, *limit)
    case = Case(results, "64 devices, one pod", folder, step, 64, ["--chip", "tpu-v5p"])
    report = case.auto(*limit)
    case.check("the best plan has no stages", "" if report["plans"][0]["stages"] == 1 else json.dumps(report["plans"][0]))
    case.check_commands(report)
    case.check_sweep(report, BY_HAND, *limit)


def check_transformer(results, folder):
    """A Transformer's step whose layers are a loop."""
    (folder / "slow.json").write_text(json.dumps(slow_network(8)))
    by_hand = {"data": ["batch\\['(tokens|targets)'\\]=data,_"]}
    case = Case(results, "a Transformer, 16 devices", folder, str(ROOT / "samples/gpipe/step.hlo"), 16, ["--chip-file", str(folder / "slow.json")])
    report = case.auto("--limit", "30MiB")
    case.check_commands(report)
    case.check_sweep(report, by_hand, "--limit", "30MiB")


def main():
    results = tally.Tally()
    with tempfile.TemporaryDirectory() as scratch:
        folder = pathlib.Path(scratch)
        small, large = folder / "small.hlo", folder / "large.hlo"
        small.write_text(step_text(8, 512, 1024))
        large.write_text(step_text(16, 1024, 2048))
        check_small_nodes(results, folder, str(small))
        check_large_nodes(results, folder, str(large))
        check_transformer(results, folder)
    return results.finish()


if __name__ == "__main__":
    sys.exit(main())
