"""gshard-cost as scripts use it: JSON keys and sums, limits and exit codes, errors. No figure of the time model.

usage: cost_interface.py BIN_DIR, from the top of the checkout
"""
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile

BIN = os.path.abspath(sys.argv[1])
COST, OPT, RUN = (os.path.join(BIN, name) for name in ("gshard-cost", "gshard-opt", "gshard-run"))
MLP = "samples/mlp.hlo"
CHIP = {"name": "mine", "peak_flops": {"bf16": 1e14, "f32": 3e13}, "hbm_bytes": 1.7e10, "hbm_bytes_per_s": 8e11,
        "link_bytes_per_s": 5e10, "link_latency_s": 1e-6}
passed = failed = 0


def check(truth, what):
    global passed, failed
    passed, failed = passed + bool(truth), failed + (not truth)
    if not truth:
        print("FAIL", what)


def run(*words, text=None, program=COST):
    done = subprocess.run([program, *map(str, words)], input=text, capture_output=True, text=True)
    return done.returncode, done.stdout, done.stderr


def report(*words, text=None):
    code, out, err = run(*words, "--json", text=text)
    check(code == 0, f"{words}: exit code {code}: {err}")
    return json.loads(out) if code == 0 else {}


def close(a, b):
    return abs(a - b) <= 1e-9 * max(abs(a), abs(b), 1e-30)


def check_document(document):
    """What holds of every gshard.cost/1, whatever the model says."""
    keys = list(document)
    check(keys[0] == "schema" and document["schema"] == "gshard.cost/1", "the schema comes first")
    for key in ["devices", "chip", "step_time_s", "compute_time_s", "exposed_communication_s", "flops_per_device",
                "useful_flops_per_device", "mfu", "hfu", "hbm_bytes_per_device", "memory", "collectives"]:
        check(key in document, f"there is {key}")
    for key in ["peak_bytes", "argument_bytes", "output_bytes", "temp_bytes", "at_peak"]:
        check(key in document["memory"], f"there is memory.{key}")
    for key in ["kind", "axes", "count", "bytes_per_device", "time_s", "cause"]:
        check(all(key in entry for entry in document["collectives"]), f"there is collectives[].{key}")
    memory = document["memory"]
    check(memory["peak_bytes"] >= memory["argument_bytes"] > 0, "arguments are alive at the peak")
    if document.get("breakdown"):
        check(close(sum(document["breakdown"].values()), document["step_time_s"]), "the breakdown adds up to the step time")
    for rows in ["by_opcode", "by_source", "by_group"]:
        if document.get(rows):
            check(close(sum(row["time_s"] for row in document[rows]), document["step_time_s"]), f"{rows} adds up to the step time")


def check_documented(document):
    text = pathlib.Path("docs/json.md").read_text()
    section = text[text.index("## gshard.cost/1"):].split("\n## ")[0]
    words = set(re.findall(r"[a-z_]+", section))
    for key in document:
        check(key in words or key == "schema", f"docs/json.md tells {key}")
    for key in ["memory", "breakdown"]:
        for inner in document.get(key, {}):
            check(inner in words, f"docs/json.md tells {key}.{inner}")


def check_json():
    document = report(MLP)
    check_document(document)
    check_documented(document)
    check(document["devices"] == 8 and document["chip"] == "tpu-v3", "devices of the module, the default chip")
    [reduce] = document["collectives"]
    check(reduce["kind"] == "all-reduce" and reduce["axes"] == ["model"] and reduce["count"] == 1, "one all-reduce over model")
    check(reduce["bytes_per_device"] == 2 * 3 / 4 * 1024 * 256 * 4, "a ring all-reduce sends 2(g-1)/g of its bytes")
    check(reduce["cause"].startswith("y is to be [data, _]"), "its cause is told")
    check(report(MLP, "--chip", "tpu-v4")["chip"] == "tpu-v4", "another chip")
    # The program of one device, from the pipe, costs the same.
    partitioned = run("partition", MLP, program=OPT)[1]
    again = report("-", text=partitioned)
    for key in ["devices", "step_time_s", "flops_per_device", "memory", "collectives"]:
        same = {k: v for k, v in again[key].items() if k != "at_peak"} if key == "memory" else again[key]
        want = {k: v for k, v in document[key].items() if k != "at_peak"} if key == "memory" else document[key]
        check(same == want, f"{key} of the partitioned text is that of the graph")
    with tempfile.TemporaryDirectory() as folder:
        file = pathlib.Path(folder, "report.json")
        code, out, _ = run(MLP, "--json", "-o", file)
        check(code == 0 and out == "" and json.loads(file.read_text()) == document, "-o writes the same document")
        chip = pathlib.Path(folder, "chip.json")
        chip.write_text(json.dumps(CHIP))
        check(report(MLP, "--chip-file", chip)["chip"] == "mine", "a chip of one's own")
        check_chip_errors(chip)
    code, _, err = run(MLP, "-o", "/nowhere/report.json", "--json")
    check(code == 1 and "/nowhere/report.json" in err, "a report that cannot be written")


def check_chip_errors(chip):
    for text, why in [("{", "parse error"), ("[]", "chip.json"), (json.dumps({"name": 3}), "chip.json"),
                      (json.dumps(CHIP | {"hbm_bytes_per_s": 0}), "chip.json"), (json.dumps(CHIP | {"peak_flops": {}}), "chip.json"),
                      (json.dumps({k: v for k, v in CHIP.items() if k != "hbm_bytes"}), "hbm_bytes")]:
        chip.write_text(text)
        code, out, err = run(MLP, "--chip-file", chip)
        check(code == 1 and out == "" and "error: " in err and why in err, f"chip file {text}: {code} {err}")
    chip.unlink()
    code, _, err = run(MLP, "--chip-file", chip)
    check(code == 1 and "cannot open" in err, "a chip file that is not there")


def check_limits():
    peak = report(MLP)["memory"]["peak_bytes"]
    for limit, code in [(peak, 0), (peak - 1, 3), ("1KiB", 3), ("1TiB", 0)]:
        got, out, err = run(MLP, "--limit", limit, "--json")
        check(got == code, f"--limit {limit} of {peak}: exit code {got}")
        check(json.loads(out)["memory"]["peak_bytes"] == peak, "the report is complete whatever the limit")
        check(("over the limit" in err) == (code == 3), f"--limit {limit}: {err}")


def check_errors():
    for words, flag in [(["--chip", "tpu-v0"], "--chip"), (["--limit", "much"], "--limit"), (["--limit", "-1"], "--limit"),
                        (["-n", "0"], "--num-partitions"), (["--partitioned", "perhaps"], "--partitioned"),
                        (["--bogus"], "--bogus"), (["--limit"], "--limit")]:
        code, out, err = run(MLP, *words)
        check(code == 2 and out == "" and flag in err and "--help" in err, f"{words}: {code} {err}")
    check(run()[0] == 2 and "IN is required" in run()[2], "no input")
    check("did you mean '--chip'" in run(MLP, "--chp", "tpu-v3")[2], "a misspelt flag is recognised")
    for text, line in [("HloModule m\nENTRY e {\n  ROOT x = f32[8] ad(y)\n}\n", 3), ("", 1), ("HloModule m\n", 2),
                       ("HloModule m\nENTRY e {\n  x = f32[4] parameter(0)\n  ROOT y = f32[5] negate(x)\n}\n", 4)]:
        code, out, err = run("-", "--json", text=text)
        check(code == 1 and "error: " in err, f"bad input: {code} {err}")
        error = json.loads(out)
        check(error["schema"] == "gshard.cost/1" and set(error) == {"schema", "error"}, "errors are documents too")
        check(error["error"].get("line", 1) == line and error["error"]["code"].startswith("E-"), f"{text!r} is located: {out}")
    check(run("no_such_file.hlo")[0] == 1, "a file that is not there")


def check_devices():
    text = "HloModule m\nENTRY e {\n  x = f32[64,64] parameter(0)\n  ROOT y = f32[64,64] negate(x)\n}\n"
    check(report("-", text=text)["devices"] == 1, "one device where nothing tells more")
    check(report("-", "-n", "4", text=text)["devices"] == 4, "-n says how many")
    one = report("-", text=text)
    check(one["collectives"] == [] and one["exposed_communication_s"] == 0, "one device sends nothing")


def check_run_agrees():
    """gshard-run tells the very figures of gshard-cost beside those of its own schedule."""
    loop = """HloModule m, num_partitions=4
add { a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT s = f32[] add(a, b) }
body { p = (s32[], f32[8,64]) parameter(0)
  i = s32[] get-tuple-element(p), index=0
  one = s32[] constant(1)
  next = s32[] add(i, one)
  x = f32[8,64] get-tuple-element(p), index=1
  zero = f32[] constant(0)
  sum = f32[64] reduce(x, zero), dimensions={0}, to_apply=add
  rows = f32[8,64] broadcast(sum), dimensions={1}
  ROOT r = (s32[], f32[8,64]) tuple(next, rows) }
condition { p = (s32[], f32[8,64]) parameter(0)
  i = s32[] get-tuple-element(p), index=0
  three = s32[] constant(3)
  ROOT c = pred[] compare(i, three), direction=LT }
double { v = f32[8,64] parameter(0)
  ROOT d = f32[8,64] add(v, v) }
ENTRY e {
  x = f32[8,64] parameter(0), sharding={devices=[4,1]<=[4]}
  twice = f32[8,64] call(x), to_apply=double
  start = s32[] constant(0)
  init = (s32[], f32[8,64]) tuple(start, twice)
  while = (s32[], f32[8,64]) while(init), condition=condition, body=body
  ROOT y = f32[8,64] get-tuple-element(while), index=1
}
"""
    for words, text in [([MLP], None), (["-"], loop), (["-", "-n", "1"], "HloModule m\nENTRY e {\n  x = f32[64] parameter(0)\n"
                        "  ROOT y = f32[64] tanh(x)\n}\n")]:
        cost = report(*words, text=text)
        code, out, err = run(*words, "--json", text=text, program=RUN)
        model = json.loads(out)["per_device"]["model"] if code == 0 else err
        check(model == {"peak_bytes": cost["memory"]["peak_bytes"], "flops": cost["flops_per_device"]},
              f"gshard-run tells gshard-cost's figures of {words}: {model}")
        code, out, err = run(*words, text=text, program=RUN)
        check("gshard-cost   " in out, f"in its text, too: {out}{err}")


check_json()
check_run_agrees()
check_limits()
check_errors()
check_devices()
print(f"{passed} passed, {failed} failed")
sys.exit(failed != 0)
