"""Runs `gshard-opt auto --devices 4` on a small step over nodes of two devices, behind a slow network and on one pod, and every command
of the report: what it prints must cost what the report says."""
import json
import os
import pathlib
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "differential"))
import tally  # noqa: E402

LAYERS, WIDTH, ROWS = 8, 512, 1024
SLOW = {"base": "h100", "name": "slow", "network": [
    {"kind": "switch", "name": "node", "devices": 2, "bytes_per_s": 4e11, "efficiency": .8, "latency_s": 3e-6},
    {"kind": "switch", "name": "between", "devices": 64, "bytes_per_s": 2e9, "efficiency": .9, "latency_s": 1e-5}]}
SEARCH = ["--devices", "4", "--evaluations", "200", "--time-limit", "10s"]


def step_text():
    """Residual layers h + tanh(h a) b with their weights stacked, the sum of squares, and a step of gradient descent."""
    wide, narrow = f"[{WIDTH},{4 * WIDTH}]", f"[{4 * WIDTH},{WIDTH}]"
    rows, inner = f"f32[{ROWS},{WIDTH}]", f"f32[{ROWS},{4 * WIDTH}]"
    lines = ["HloModule step, input_output_alias={ {1}: (1, {}, may-alias), {2}: (2, {}, may-alias) }",
             "sum { a = f32[] parameter(0)  b = f32[] parameter(1)  ROOT s = f32[] add(a, b) }", "ENTRY e {", f"  h0 = {rows} parameter(0)",
             f"  a = {stack(wide)} parameter(1)", f"  b = {stack(narrow)} parameter(2)"]
    for i in range(LAYERS):
        for name, shape in (("a", wide), ("b", narrow)):
            ends = ", ".join(f"[0:{size}]" for size in shape[1:-1].split(","))
            lines += [f"  c{name}{i} = f32[1,{shape[1:]} slice({name}), slice={{[{i}:{i + 1}], {ends}}}",
                      f"  {name}{i} = f32{shape} reshape(c{name}{i})"]
        lines += [f"  d{i} = {inner} dot(h{i}, a{i}), lhs_contracting_dims={{1}}, rhs_contracting_dims={{0}}", f"  t{i} = {inner} tanh(d{i})",
                  f"  e{i} = {rows} dot(t{i}, b{i}), lhs_contracting_dims={{1}}, rhs_contracting_dims={{0}}",
                  f"  h{i + 1} = {rows} add(h{i}, e{i})"]
    lines += ["  zero = f32[] constant(0)", f"  squares = {rows} multiply(h{LAYERS}, h{LAYERS})",
              "  loss = f32[] reduce(squares, zero), dimensions={0,1}, to_apply=sum", "  one = f32[] constant(1)",
              f"  ones = {inner} broadcast(one), dimensions={{}}", "  rate = f32[] constant(1e-6)", f"  g{LAYERS} = {rows} add(h{LAYERS}, h{LAYERS})"]
    for i in reversed(range(LAYERS)):
        lines += [f"  k{i} = {inner} dot(g{i + 1}, b{i}), lhs_contracting_dims={{1}}, rhs_contracting_dims={{1}}",
                  f"  q{i} = {inner} multiply(t{i}, t{i})", f"  p{i} = {inner} subtract(ones, q{i})", f"  v{i} = {inner} multiply(k{i}, p{i})",
                  f"  m{i} = f32{narrow} dot(t{i}, g{i + 1}), lhs_contracting_dims={{0}}, rhs_contracting_dims={{0}}",
                  f"  n{i} = f32{wide} dot(h{i}, v{i}), lhs_contracting_dims={{0}}, rhs_contracting_dims={{0}}",
                  f"  ra{i} = f32[1,{wide[1:]} reshape(n{i})", f"  rb{i} = f32[1,{narrow[1:]} reshape(m{i})",
                  f"  y{i} = {rows} dot(v{i}, a{i}), lhs_contracting_dims={{1}}, rhs_contracting_dims={{1}}",
                  f"  g{i} = {rows} add(g{i + 1}, y{i})"]
    for name, shape in (("a", wide), ("b", narrow)):
        parts = ", ".join(f"r{name}{i}" for i in range(LAYERS))
        lines += [f"  all{name} = {stack(shape)} concatenate({parts}), dimensions={{0}}", f"  rates{name} = {stack(shape)} broadcast(rate), dimensions={{}}",
                  f"  step{name} = {stack(shape)} multiply(all{name}, rates{name})", f"  new{name} = {stack(shape)} subtract({name}, step{name})"]
    lines += [f"  ROOT r = (f32[], {stack(wide)}, {stack(narrow)}) tuple(loss, newa, newb)", "}"]
    return "\n".join(lines) + "\n"


def stack(shape):
    return f"f32[{LAYERS},{shape[1:]}"


def run(*command, code=0, **more):
    done = subprocess.run(command, capture_output=True, text=True, check=False, **more)
    if done.returncode != code:
        raise RuntimeError(f"{' '.join(command)}: {done.returncode}, {done.stderr[-500:]}")
    return done.stdout


def check_commands(results, name, folder, report, chip):
    for i, plan in enumerate(report["plans"]):
        text = run("sh", str(folder / "plans" / f"{i + 1}.sh"))
        cost = json.loads(run("gshard-cost", "-", *chip, "--json", input=text))
        said = (plan["step_time_s"], plan["peak_bytes"])
        found = (cost["step_time_s"], cost["memory"]["peak_bytes"])
        results.check(f"{name}, row {i + 1}: the command's program", "" if said == found else f"{said} in the report, {found} by its command")


def main():
    results = tally.Tally()
    with tempfile.TemporaryDirectory() as scratch:
        folder = pathlib.Path(scratch)
        step, chip_file, report_file, out = (str(folder / name) for name in ("step.hlo", "slow.json", "report.json", "out.hlo"))
        (folder / "step.hlo").write_text(step_text())
        (folder / "slow.json").write_text(json.dumps(SLOW))

        def auto(chip, *more):
            run("gshard-opt", "auto", step, *SEARCH, *chip, *more, "--report", report_file, "-o", out, "--write-plans",
                str(folder / "plans"))
            return json.loads(pathlib.Path(report_file).read_text())

        # Whole copies of the weights do not fit, and sums between the nodes are slow.
        slow, limit = ["--chip-file", chip_file], ["--limit", "80MiB"]
        report = auto(slow, *limit)
        best = report["plans"][0]
        results.check("a slow network between nodes: the best plan has stages", "" if best["stages"] > 1 else json.dumps(best))
        results.check("stages are an axis of the mesh",
                      "" if best["mesh"].get("stage") == best["stages"] else json.dumps(best["mesh"]))
        check_commands(results, "slow network", folder, report, slow)
        device = str(folder / "device.hlo")
        run("gshard-opt", "partition", out, "-o", device)
        verified = subprocess.run(["gshard-run", device, "--reference", step, "--verify=outputs"], capture_output=True, text=True,
                                  check=False)
        results.check("the best plan computes what the step does", "" if verified.returncode == 0 else verified.stderr[-500:])
        first = pathlib.Path(out).read_bytes()
        auto(slow, *limit, "--threads", "1")
        results.check("the same with one thread", "" if first == pathlib.Path(out).read_bytes() else "another program")

        report = auto(slow, "--stages", "off")
        results.check("--stages off: none", "" if all(plan["stages"] == 1 for plan in report["plans"]) else "there are stages")
        report = auto(slow, *limit, "--stages", "4", "--microbatches", "8", "--schedule", "gpipe")
        asked = [plan for plan in report["plans"] if plan["stages"] > 1]
        wrong = [plan for plan in asked if (plan["stages"], plan["microbatches"], plan["schedule"]) != (4, 8, "gpipe")]
        results.check("only pipelines that were asked for", "" if asked and not wrong else json.dumps(wrong or report["plans"])[:500])
        pod = auto(["--chip", "tpu-v5p"])
        results.check("one pod: the best plan has no stages", "" if pod["plans"][0]["stages"] == 1 else json.dumps(pod["plans"][0]))
    return results.finish()


if __name__ == "__main__":
    sys.exit(main())
