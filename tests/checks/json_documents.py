"""docs/json.md is true: every key of every document is told in its section, and every key of its tables is printed.

usage: json_documents.py BIN_DIR, from the top of the checkout

Documents are made by the programs on small samples: with success, with each check that can fail (exit code 3: the same
keys, and the check), and of bad input (exit code 1: `error`).
"""
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile

BIN = os.path.abspath(sys.argv[1])
MLP, PIPELINE = "samples/mlp.hlo", "samples/pipeline.hlo"
DOC = pathlib.Path("docs/json.md").read_text()
WRONG = """HloModule wrong, num_partitions=2, frontend_attributes={gshard.num_partitions="2",gshard.output_shardings="{devices=[2]<=[2]}"}
ENTRY e {
  x = f32[2] parameter(0), sharding={devices=[2]<=[2]}
  ROOT y = f32[2] negate(x)
}
"""
passed = failed = 0
seen = {}  # schema -> paths of keys


def check(truth, what):
    global passed, failed
    passed, failed = passed + bool(truth), failed + (not truth)
    if not truth:
        print("FAIL", what)


def section(schema):
    at = DOC.find(f"## {schema}")
    check(at >= 0, f"docs/json.md has a section {schema}")
    return DOC[at:].split("\n## ")[0] if at >= 0 else ""


# Of keys that users or programs name: axes, kinds.
FREE = {"bytes_per_device", "collectives", "mesh"}


def keys_of(value, prefix=""):
    if isinstance(value, dict):
        for key, inner in value.items():
            yield prefix + key
            if key not in FREE or isinstance(inner, list):
                yield from keys_of(inner, prefix + key + ".")
    elif isinstance(value, list):
        for inner in value:
            yield from keys_of(inner, prefix)


def take(document, what):
    schema = document["schema"]
    check(list(document)[0] == "schema", f"{what}: the schema comes first")
    words = set(re.findall(r"[a-z_0-9]+", section(schema)))
    words |= set(re.findall(r"[a-z_]+", DOC.split("\n## ")[0]))  # what all have: error, failed_checks
    for path in sorted(set(keys_of(document))):
        check(path.split(".")[-1] in words, f"{what}: {schema} has {path}, which its section does not tell")
    seen.setdefault(schema, set()).update(keys_of(document))
    return document


def run(*words, code=0, file=None):
    done = subprocess.run([os.path.join(BIN, words[0]), *map(str, words[1:])], capture_output=True, text=True)
    what = " ".join(map(str, words))
    check(done.returncode == code, f"{what}: exit code {done.returncode} in place of {code}: {done.stderr}")
    text = pathlib.Path(file).read_text() if file and os.path.exists(file) else done.stdout
    try:
        return take(json.loads(text), what)
    except json.JSONDecodeError:
        check(False, f"{what}: no JSON: {text[:80]}")
        return {}


def same_shape(good, bad, checks, what):
    """Exit code 3: the keys of success, and the checks that failed."""
    check(set(good) == set(bad), f"{what}: keys differ: {set(good) ^ set(bad)}")
    check(good.get("failed_checks") == [], f"{what}: nothing fails without it")
    rows = bad.get("failed_checks") or []
    check([row["check"] for row in rows] == checks, f"{what}: {[row['check'] for row in rows]} in place of {checks}")
    for row in rows:
        check(list(row) == ["check", "message", "key", "value", "allowed"] and row["message"], f"{what}: {row}")


def is_error(document, what):
    check(list(document) == ["schema", "error"], f"{what}: only the error: {list(document)}")


with tempfile.TemporaryDirectory() as folder:
    wrong, whole, bad, budget = (os.path.join(folder, name) for name in ["wrong.hlo", "whole.hlo", "bad.hlo", "budget.json"])
    pathlib.Path(wrong).write_text(WRONG)
    pathlib.Path(whole).write_text("HloModule m, num_partitions=2\nENTRY e {\n  x = f32[4] parameter(0), sharding={devices=[2]<=[2]}\n"
                                   "  ROOT y = f32[4] sine(x)\n}\n")
    pathlib.Path(bad).write_text("HloModule m\nENTRY e {\n")
    nan = os.path.join(folder, "nan.hlo")
    pathlib.Path(nan).write_text("HloModule m\nENTRY e {\n  x = f32[4] parameter(0)\n  z = f32[4] subtract(x, x)\n"
                                 "  ROOT y = f32[4] divide(x, z)\n}\n")

    for program in ("gshard-opt", "gshard-cost", "gshard-run"):
        version = run(program, "--version", "--json")
        check(version == run(program, "--json", "--version") and version["program"] == program, f"{program}: {version}")

    good = run("gshard-run", MLP, "--json")
    same_shape(good, run("gshard-run", MLP, "--json", "--memory-limit", "1KiB", code=3), ["memory-limit"], "--memory-limit")
    same_shape(run("gshard-run", nan, "--json"), run("gshard-run", nan, "--json", "--check-nan", code=3), ["nan"], "--check-nan")
    good = run("gshard-run", MLP, "--verify", "--json")
    fails = run("gshard-run", wrong, "--reference", whole, "--json", code=3)
    same_shape(good, fails, ["verify"], "--reference")
    check(fails["verify"]["status"] == "mismatch", "a wrong program mismatches")
    unnamed = os.path.join(folder, "unnamed.hlo")  # no step is judged: both graphs run in f64
    pathlib.Path(unnamed).write_text(WRONG.replace("y =", "z ="))
    fails = run("gshard-run", unnamed, "--reference", whole, "--json", code=3)
    same_shape(good, fails, ["verify"], "--reference, other names")
    check(fails["verify"]["widened"]["outcome"] == "remains", "a wrong program is wrong in f64")
    normed = os.path.join("tests", "golden", "pipeline", "batch_norm.hlo")
    step, device = (os.path.join(folder, name) for name in ["step.hlo", "device.hlo"])
    pathlib.Path(step).write_text(pathlib.Path(normed).read_text().split("// -----")[0])
    for words in [["pipeline", step, "--stages", "2", "--microbatches", "4", "-o", device], ["partition", device, "-o", device]]:
        subprocess.run([os.path.join(BIN, "gshard-opt"), *words], check=True, capture_output=True)
    fails = run("gshard-run", device, "--reference", step, "--verify", "--json", code=3)
    check(fails["verify"]["status"] == "microbatch-sums", "sums over a micro-batch have a verdict of their own")
    run("gshard-run", nan, "--verify", "--json")  # on one device, which shows nothing: says so
    is_error(run("gshard-run", bad, "--json", code=1), "gshard-run")

    good = run("gshard-cost", MLP, "--json")
    over = run("gshard-cost", MLP, "--json", "--limit", "1KiB", code=3)
    same_shape(good, over, ["limit"], "--limit")
    check(over["failed_checks"][0]["value"] == over["memory"]["peak_bytes"], "the peak is over the limit")
    run("gshard-cost", PIPELINE, "--json", "--group-by", "([a-z]+)")
    beside = run("gshard-cost", "tests/golden/cost/as_xla.hlo", "--json")
    check({(row["kind"], row["xla_bytes_per_device"] > row["bytes_per_device"]) for row in beside["as_xla"]}
          == {("all-reduce", True), ("reduce-scatter", False)}, "XLA's collectives stand beside ours")
    check(run("gshard-cost", "tests/golden/cost/as_xla.hlo", "--json", "--as-xla")["as_xla"] == [],
          "with --as-xla there is nothing beside them")
    whole = os.path.join("tests", "golden", "cost", "as_xla_whole.hlo")
    here, there = (run("gshard-cost", whole, "--json", *flags)["xla_full_rematerializations"] for flags in ([], ["--as-xla"]))
    check([row["value"] for row in here] == ["negated"] and here[0]["whole_bytes"] == 64 * 64 * 4, "what XLA has whole is listed")
    check(here == there, "as of the program that is priced with --as-xla")
    run("gshard-cost", MLP, "--write-budget", budget, file=budget)
    tight = json.loads(pathlib.Path(budget).read_text())
    tight["peak_bytes"] = 1
    pathlib.Path(budget).write_text(json.dumps(tight))
    over = run("gshard-cost", MLP, "--json", "--check", budget, code=3)
    same_shape(good, over, ["budget"], "--check")
    check(over["failed_checks"][0]["key"] == "peak_bytes", "the bound that is broken")
    is_error(run("gshard-cost", bad, "--json", code=1), "gshard-cost")

    good = run("gshard-cost", "diff", MLP, PIPELINE, "--json")
    same_shape(good, run("gshard-cost", "diff", MLP, PIPELINE, "--json", "--check", "collectives==", code=3), ["diff"],
               "diff --check")
    is_error(run("gshard-cost", "diff", MLP, bad, "--json", code=1), "gshard-cost diff")
    found = os.path.join(folder, "auto.json")
    run("gshard-opt", "auto", MLP, "--mesh", "data=2,model=2", "--evaluations", "60", "-o", os.devnull, "--report", found, file=found)
    run("gshard-cost", "sweep", MLP, "--mesh", "data=2..4,model=2", "--json")
    batches = run("gshard-cost", "sweep", MLP, "--batch", "1024,2048", "--json")
    check([point["batch"] for point in batches["points"]] == [1024, 2048], "the batches that were asked for")
    is_error(run("gshard-cost", "sweep", bad, "--mesh", "data=2", "--json", code=1), "gshard-cost sweep")
    kept = os.path.join(folder, "remat.json")
    scan = pathlib.Path("tests", "golden", "remat", "report.hlo").read_text().split("// -----")[0]
    pathlib.Path(step).write_text(scan)
    report = run("gshard-opt", "remat", step, "--limit", "368KiB", "-o", os.devnull, "--report", kept, file=kept)
    check(report["fits"] and report["flops_per_device"] == sum(row["flops"] for row in report["recomputed"]), "FLOPs by line")
    for subcommand, name in [("explain", "y"), ("show", "y")]:
        run("gshard-opt", subcommand, MLP, name, "--json")
        is_error(run("gshard-opt", subcommand, MLP, "nosuch", "--json", code=1), f"gshard-opt {subcommand}")
        is_error(run("gshard-opt", subcommand, bad, name, "--json", code=1), f"gshard-opt {subcommand}")
    plan = os.path.join(folder, "plan.json")
    report = run("gshard-opt", "pipeline", step, "--stages", "2", "--microbatches", "4", "--schedule", "best", "--report", plan,
                 "-o", device, file=plan)
    check(0 <= report["bubble_fraction"] < 1 and report["stages"] == 2, "the bubble and the stages")
    taken = [row["schedule"] for row in report["tried"] if row["taken"]]
    check(taken == [report["schedule"]], f"one schedule is taken: {taken}")
    least = min(row["step_time_s"] for row in report["tried"] if "step_time_s" in row)
    check(report["step_time_s"] == least, "the cheapest, where all fit")
    cost = run("gshard-cost", device, "--json")
    check(cost["step_time_s"] == report["step_time_s"], "the report's step time is gshard-cost's")
    check(max(row["memory_bytes"] for row in report["stage"]) == cost["memory"]["peak_bytes"], "and so is its memory")
    run("gshard-opt", "check", PIPELINE, "--json")
    is_error(run("gshard-opt", "check", bad, "--json", code=1), "gshard-opt check")
    run("gshard-opt", "list-ops", "--json")
    run("gshard-opt", "list-passes", "--json")
    for flags in [["print", f"--time-passes={folder}/p.json"], ["propagate", "--report", f"{folder}/r.json"],
                  ["partition", "--report", f"{folder}/c.json"]]:
        run("gshard-opt", flags[0], MLP, "-o", os.devnull, *flags[1:], file=flags[-1].split("=")[-1])

# The first column of each table, and what is told to be in a list: keys that no command prints are no keys.
ONLY_SOMETIMES = {"ranks", "interrupted", "error", "pipeline"}
for schema, paths in seen.items():
    printed = {path.split(".")[-1] for path in paths}
    for row in re.findall(r"^\| (`[^|]*) \|", section(schema), re.M):
        for key in re.findall(r"`([a-z_.]+)(?:\[\])?`", row):
            if key.split(".")[0] in ONLY_SOMETIMES or key in ("verify.near_ties", "verify.ill_conditioned"):
                continue
            check(key.split(".")[-1] in printed, f"docs/json.md tells {schema} {key}, which nothing prints")
for schema in re.findall(r"^## (gshard\.\w+/\d+)", DOC, re.M):
    check(schema in seen or schema == "gshard.page/1", f"{schema} is printed by a command above")
print(f"{passed} passed, {failed} failed")
sys.exit(failed != 0 or passed == 0)
