"""gshard-run as its user meets it: progress on a terminal only, Ctrl-C, traces, dumps, verification, refusals.

usage: run_interface.py GSHARD_RUN, from the top of the checkout
"""
import ast
import json
import os
import pty
import re
import signal
import struct
import subprocess
import sys
import tempfile
import time
import zipfile

# A script that runs in the background has SIGINT ignored, and its children inherit that.
signal.signal(signal.SIGINT, signal.default_int_handler)

RUN = os.path.abspath(sys.argv[1])
OPT = os.path.join(os.path.dirname(RUN), "gshard-opt")
MLP = "samples/mlp.hlo"
LOOP = "samples/pipeline.hlo"
failures = []
checks = 0


def check(truth, what):
    global checks
    checks += 1
    if not truth:
        failures.append(what)
        print("FAIL", what)


def run(*args):
    return subprocess.run([RUN, *args], capture_output=True, text=True)


def repeats_for(seconds):
    """How often the perceptron's step runs in this time."""
    step = json.loads(run(MLP, "--json", "--repeat", "5").stdout)["step_time_s"]
    return str(max(2, int(seconds / step)))


def read_terminal(master):
    """All that is written to a terminal until it is closed."""
    text = b""
    while True:
        try:
            piece = os.read(master, 4096)
        except OSError:  # no writer any more
            return text.decode()
        if not piece:
            return text.decode()
        text += piece


def has_terminals():
    try:
        for end in pty.openpty():
            os.close(end)
    except OSError:
        return False
    return True


def progress_on_a_terminal():
    # How long a run takes and how evenly it goes on is the machine's affair: up to three runs, each longer.
    for seconds in (4, 8, 16):
        master, slave = pty.openpty()
        process = subprocess.Popen([RUN, MLP, "--repeat", repeats_for(seconds)], stdout=subprocess.PIPE, stderr=slave)
        os.close(slave)
        shown = read_terminal(master)
        out = process.stdout.read().decode()
        check(process.wait() == 0, "a run on a terminal ends with 0")
        lines = [line for line in shown.split("\r") if "%" in line]
        left = [int(m.group(1)) for line in lines if (m := re.search(r"(\d+) s left", line))]
        if len(lines) > 3 and left and left[0] >= left[-1]:
            break
    check(len(lines) > 3, f"the bar is drawn several times: {len(lines)}")
    form = re.compile(r"^run +\[#*\.*\] +\d+%( \d+ s left)?\x1b\[K$")
    check(all(form.match(line) for line in lines), f"the bar's form: {lines[:1]}")
    check(all(len(re.search(r"\[(.*)\]", line).group(1)) == 30 for line in lines), "the bar has 30 places")
    shares = [int(re.search(r"(\d+)%", line).group(1)) for line in lines]
    check(shares == sorted(shares) and shares[-1] > shares[0], "shares grow")
    check(left and left[0] >= left[-1], f"the remaining time shrinks: {left[:1]} {left[-1:]}")
    check(shown.endswith("\r\x1b[K"), "the bar is gone in the end")
    check("\x1b" not in out and "%" not in out, "nothing of it on standard output")


def progress_of_one_long_step():
    """A step that tells nothing while it runs, and phases after it: the line is there from the first second on."""
    with tempfile.TemporaryDirectory() as folder:
        size = 1024
        while True:  # a machine's pace is not known
            program = os.path.join(folder, "square.hlo")
            with open(program, "w") as file:
                file.write(f"HloModule square\nENTRY e {{\n  x = f32[{size},{size}] parameter(0), "
                           f"sharding={{devices=[2,1]<=[2]}}\n  ROOT y = f32[{size},{size}] dot(x, x), "
                           "lhs_contracting_dims={1}, rhs_contracting_dims={0}\n}\n")
            begin = time.monotonic()
            if run(program, "--threads", "1").returncode != 0 or time.monotonic() - begin > 1.5:
                break
            size *= 2
        master, slave = pty.openpty()
        process = subprocess.Popen([RUN, program, "--verify", "--threads", "1"], stdout=subprocess.PIPE, stderr=slave)
        os.close(slave)
        shown = read_terminal(master)
        process.stdout.read()
        check(process.wait() == 0, "a verified step ends with 0")
    phases = [m.group(1) for m in re.finditer(r"\r(\w+) +\[", shown)]
    # Where products have the same bits whatever their rows, as on some processors, the graph's own run is not needed.
    steps = phases.count("reference") + phases.count("verify")
    check("verify" in phases, f"every long phase is shown: {sorted(set(phases))}")
    check(steps > 3, f"also while a step takes long: {steps}")


def no_progress_elsewhere():
    result = run(MLP, "--repeat", repeats_for(2))
    check(result.returncode == 0 and result.stderr == "", f"nothing on a pipe: {result.stderr[:60]!r}")


def nothing_for_short_work():
    master, slave = pty.openpty()
    process = subprocess.Popen([RUN, LOOP], stdout=subprocess.DEVNULL, stderr=slave)
    os.close(slave)
    shown = read_terminal(master)
    process.wait()
    check("%" not in shown or json.loads(run(LOOP, "--json").stdout)["step_time_s"] > 0.5,
          "no bar for work of less than a second")


def interrupted(*flags):
    process = subprocess.Popen([RUN, MLP, "--repeat", "1000000", *flags], stdout=subprocess.PIPE,
                               stderr=subprocess.PIPE, text=True)
    time.sleep(2)
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=60)
    check(process.returncode == 130, f"Ctrl-C ends with 130: {process.returncode}")
    check(err == "gshard-run: interrupted\n", f"and says so: {err!r}")
    return out


def ctrl_c():
    out = interrupted()
    check(re.search(r"^step +\d", out, re.M) and "median of" in out, f"with what was measured: {out[:80]!r}")
    check("2.15 GFLOP" in out, f"of the last whole step: {out!r}")
    report = json.loads(interrupted("--json"))
    check(report["interrupted"] is True and len(report["step_times_s"]) > 0, "in JSON too")


def trace(directory):
    """Trace Event Format: https://docs.google.com/document/d/1CvAClvFfyA5R-PhYUmn5OOQtYMH4h6I0nSsKchNAySU"""
    for program, collectives in ((MLP, {"all-reduce"}), (LOOP, {"collective-permute"})):
        path = os.path.join(directory, "trace.json")
        result = run(program, "--trace", path, "--json", "--repeat", "2", "--threads", "2")
        check(result.returncode == 0, "a traced run ends with 0")
        step = json.loads(result.stdout)["step_times_s"][-1] * 1e6
        with open(path) as file:
            document = json.load(file)
        check(document["displayTimeUnit"] in ("ms", "ns"), "displayTimeUnit")
        events = document["traceEvents"]
        rows = {e["tid"]: e["args"]["name"] for e in events if e["ph"] == "M" and e["name"] == "thread_name"}
        check(rows == {0: "steps", 1: "worker 0", 2: "worker 1"}, f"rows: {rows}")
        check([e["args"]["name"] for e in events if e["name"] == "process_name"] == ["gshard-run"], "process_name")
        by_row = {tid: [] for tid in rows}
        for event in events:
            if event["ph"] == "M":
                check(event["pid"] == 0 and isinstance(event["args"]["name"], str), "metadata")
                continue
            good = (set(event) == {"ph", "pid", "tid", "name", "ts", "dur"} and event["ph"] == "X"
                    and event["pid"] == 0 and event["tid"] in rows and isinstance(event["name"], str)
                    and event["name"] != "" and event["ts"] >= 0 and event["dur"] >= 0)
            check(good, f"a complete event: {event}")
            by_row[event["tid"]].append((event["ts"], event["ts"] + event["dur"], event["name"]))
        last = 0
        for tid, spans in by_row.items():
            stack = []
            for begin, end, name in sorted(spans, key=lambda s: (s[0], -s[1])):
                while stack and stack[-1] <= begin + 0.002:  # as exact as the text is
                    stack.pop()
                check(not stack or end <= stack[-1] + 0.002, f"{name} of row {tid} lies inside what is around it")
                stack.append(end)
                last = max(last, end)
        check(last <= step * 1.05 + 1000, f"the last step only: {last} us of {step}")
        names = {name for _, _, name in by_row[0]}
        check("segment" in names, "segments are shown")
        for kind in collectives:
            check(any(name.startswith(kind) for name in names), f"{kind} is shown in {names}")


def read_npy(path):
    with open(path, "rb") as file:
        data = file.read()
    length, = struct.unpack("<H", data[8:10])
    header = ast.literal_eval(data[10:10 + length].decode())
    return header["descr"], header["shape"], data[10 + length:]


def dumps(directory):
    one, every = os.path.join(directory, "one.npy"), os.path.join(directory, "every.npy")
    output = os.path.join(directory, "out.npz")
    result = run(MLP, "--dump", f"y@7={one}", "--dump", f"y={every}", "--output", output)
    check(result.returncode == 0, f"dumps: {result.stderr}")
    kind, shape, data = read_npy(one)
    check((kind, shape) == ("<f4", (1024, 256)), f"one device's rows: {kind} {shape}")
    _, all_shape, all_data = read_npy(every)
    with zipfile.ZipFile(output) as file, file.open("o0.npy") as member:
        whole = member.read()
    check(all_shape == (2048, 256) and whole.endswith(all_data) and all_data[len(data):] == data,
          f"all rows, put together: {all_shape}")
    again = os.path.join(directory, "again.npz")
    result = run(MLP, "--output", again, "--output-names", "p7")
    check(result.returncode == 0, f"a name of a result: {result.stderr}")
    with zipfile.ZipFile(again) as file:
        check(file.namelist() == ["p7.npy"] and file.read("p7.npy") == whole, f"the result's name: {file.namelist()}")
    result = run(MLP, "--output", again, "--output-names", "p0,p1")
    check(result.returncode == 1 and "--output-names has 2 names, the program 1 result [E-RUN-NAMES]" in result.stderr, result.stderr)
    for words in (["--output-names", "p0"], ["--output", again, "--output-names", "a,,b"], ["--output", again, "--output-names", "a,a"]):
        check(run(MLP, *words).returncode == 2, f"{words}")
    device = os.path.join(directory, "device.hlo")
    partitioned = subprocess.run([OPT, "partition", MLP, "-o", device], capture_output=True, text=True)
    check(partitioned.returncode == 0, partitioned.stderr)
    result = run(device, "--dump", f"x={one}", "--dump", f"y={every}")
    check(result.returncode == 0 and read_npy(one)[1] == (2048, 256), "a parameter follows its record")
    check(read_npy(every)[1] == (8, 1024, 256), "a value whose layout nothing tells is stacked")
    before = time.time()
    for dump, message in (("y@8=" + one, "--dump y@8: there are 8 devices"), ("nosuch=" + one, "there is no instruction named nosuch"),
                          ("y=/nonexistent/y.npy", "cannot write '/nonexistent/y.npy'")):
        result = run(MLP, "--dump", dump, "--repeat", "1000000")
        check(result.returncode == 1 and message in result.stderr, f"{dump}: {result.stderr}")
    check(time.time() - before < 30, "refused before the run, not after it")
    check(run(MLP, "--dump", "y@seven=x").returncode == 2, "a device that is no number")


UNEVEN = """HloModule uneven
ENTRY main {
  x = f32[10] parameter(0), sharding={devices=[4]<=[4]}
  w = f32[16,3,5] parameter(1), sharding={devices=[1,4,1]<=[4]}
  y = f32[10] negate(x), sharding={devices=[4]<=[4]}
  v = f32[16,3,5] negate(w), sharding={devices=[1,4,1]<=[4]}
  ROOT out = (f32[10], f32[16,3,5]) tuple(y, v), sharding={{devices=[4]<=[4]}, {devices=[1,4,1]<=[4]}}
}
"""


def uneven_sizes(directory):
    """Whole arrays of a partitioned text are those of the graph, also where tiles stick out."""
    graph, device, old = (os.path.join(directory, name) for name in ("uneven.hlo", "uneven_device.hlo", "uneven_old.hlo"))
    output, dump = os.path.join(directory, "uneven.npz"), os.path.join(directory, "uneven.npy")
    with open(graph, "w") as file:
        file.write(UNEVEN)
    subprocess.run(f"{OPT} partition {graph} | {OPT} optimize - -o {device}", shell=True, check=True)
    with open(device) as file, open(old, "w") as copy:
        copy.write(re.sub(r',gshard\.(parameter|output)_shapes="[^"]*"', "", file.read()))

    def results(program, *flags):
        result = run(program, "--output", output, *flags)
        check(result.returncode == 0, f"{program}: {result.stderr}")
        found = []
        with zipfile.ZipFile(output) as archive:
            for name in ("o0.npy", "o1.npy"):
                with archive.open(name) as member, open(dump, "wb") as copy:
                    copy.write(member.read())
                found.append(read_npy(dump))
        return found, result.stderr

    whole, _ = results(graph)
    ours, note = results(device, "--dump", f"x={os.path.join(directory, 'x.npy')}")
    check(whole == ours and whole[0][1] == (10,) and whole[1][1] == (16, 3, 5), "the graph's arrays and the partitioned text's")
    check("padding" not in note, note)
    check(read_npy(os.path.join(directory, "x.npy"))[1] == (10,), "a parameter is dumped in its own size")
    padded, note = results(old)
    check(padded[0][1] == (12,) and padded[1][1] == (16, 4, 5), f"as large as the tiles: {[array[1] for array in padded]}")
    check("o0, o1 are written as large as the tiles are together, padding included" in note, note)
    with open(device) as file:
        text = file.read()
    with open(old, "w") as copy:
        copy.write(text.replace('(f32[10], f32[16,3,5])"', '(f32[13], f32[16,3,5])"'))
    check(text.count('(f32[10], f32[16,3,5])"') == 2, text)
    result = run(old)
    check(result.returncode == 1 and "is f32[13], of which f32[3] is no shard [E-RUN-RECORD]" in result.stderr, result.stderr)


def broken_program(directory, name, old, new):
    """The partitioned MLP with one mistake in it."""
    path = os.path.join(directory, name)
    text = subprocess.run([OPT, "partition", MLP, "--named"], capture_output=True, text=True).stdout
    check(text.count(old) == 1, f"{old} is there once: {text}")
    with open(path, "w") as file:
        file.write(text.replace(old, new))
    return path


def verify_partitioned(directory):
    good = broken_program(directory, "good.hlo", "%relu = ", "%relu = ")
    result = run(good, "--reference", MLP, "--json")
    check(result.returncode == 0, f"a right program: {result.stdout} {result.stderr}")
    verify = json.loads(result.stdout)["verify"]
    check(verify["status"] == "ok" and verify["instructions"]["compared"] >= 3, f"{verify}")
    for mistake, old, new, first in (
            ("group", "{'model'}, use_global", "{'data'}, use_global", "y"),
            ("reduction", "maximum(%hidden, %zeros)", "minimum(%hidden, %zeros)", "relu")):
        path = broken_program(directory, mistake + ".hlo", old, new)
        result = run(path, "--reference", MLP, "--json")
        check(result.returncode == 3, f"{mistake}: {result.stdout} {result.stderr}")
        verify = json.loads(result.stdout)["verify"]
        check(verify["status"] == "mismatch" and verify["instructions"]["first"]["instruction"] == first, f"{mistake}: {verify}")
        check(run(path, "--reference", MLP, "--verify=outputs").returncode == 3, f"{mistake}: outputs")
    check(run(good, "--verify").returncode == 1, "without the graph")
    check(run(MLP, "--reference", MLP).returncode == 1, "a reference for a program that is not partitioned")
    other = os.path.join(os.path.dirname(MLP), "moe_layer.hlo")
    result = run(good, "--reference", other)
    check(result.returncode == 1 and "error: " in result.stderr, f"another graph: {result.stderr}")


# Two of eight logits are equal but for the order in which they are summed up.
NEAR_TIE = """HloModule tie, num_partitions=8
pick {
  a = f32[] parameter(0)
  i = s32[] parameter(1)
  b = f32[] parameter(2)
  j = s32[] parameter(3)
  gt = pred[] compare(a, b), direction=GT
  v = f32[] select(gt, a, b)
  k = s32[] select(gt, i, j)
  ROOT t = (f32[], s32[]) tuple(v, k)
}
sum {
  x = f32[] parameter(0)
  y = f32[] parameter(1)
  ROOT s = f32[] add(x, y)
}
ENTRY main {
  x = f32[65536,8] parameter(0), sharding={devices=[8,1]<=[8]}
  z = f32[] constant(0)
  mirrored = f32[65536,8] reverse(x), dimensions={0,1}
  both = f32[65536,8] add(x, mirrored)
  logits = f32[8] reduce(both, z), dimensions={0}, to_apply=sum
  iota = s32[8] iota(), iota_dimension=0
  low = f32[] constant(-inf)
  no = s32[] constant(-1)
  best = (f32[], s32[]) reduce(logits, iota, low, no), dimensions={0}, to_apply=pick
  arg = s32[] get-tuple-element(best), index=1
  f = f32[] convert(arg)
  ROOT out = f32[] multiply(f, f)
}
"""


def near_ties(directory):
    path = os.path.join(directory, "tie.hlo")
    with open(path, "w") as file:
        file.write(NEAR_TIE)
    found = False
    for seed in range(20):
        result = run(path, "--verify", "--json", "--seed", str(seed))
        verify = json.loads(result.stdout)["verify"]
        check(result.returncode == 0 and verify["status"] in ("ok", "near-ties"), f"seed {seed}: {verify}")
        if verify["status"] == "ok":
            continue
        found = True
        tie, = verify["near_ties"]
        check(tie["instruction"] == "arg" and tie["opcode"] == "reduce", f"{tie}")
        mesh, other = tie["candidates"]
        check([mesh["index"][-1], other["index"][-1]] == [int(tie["value"]), int(tie["expected"])], f"{tie}")
        check(float(mesh["value"]) >= float(other["value"]) and float(mesh["expected"]) <= float(other["expected"]), f"{tie}")
        strict = run(path, "--verify=outputs", "--fail-on-near-ties", "--seed", str(seed))
        check(strict.returncode == 3 and "near tie      arg" in strict.stdout, f"{strict.stdout}")
        # A mistake behind the near tie is still one.
        wrong = os.path.join(directory, "wrong.hlo")
        text = subprocess.run([OPT, "partition", path], capture_output=True, text=True).stdout
        check(text.count(" multiply(") == 1, f"{text}")
        with open(wrong, "w") as file:
            file.write(text.replace(" multiply(", " subtract("))
        result = run(wrong, "--reference", path, "--json", "--seed", str(seed))
        verify = json.loads(result.stdout)["verify"]
        check(result.returncode == 3 and verify["status"] == "mismatch", f"{verify}")
        check(verify["near_ties"][0]["instruction"] == "arg" and verify["instructions"]["first"]["instruction"] == "out", f"{verify}")
        break
    check(found, "one of twenty seeds has a near tie")


def refusals(directory):
    for flags in ((), ("--verify",), ("--repeat", "3")):
        result = run(MLP, "--memory-limit", "1MiB", *flags)
        check(result.returncode == 3 and "more than the limit of 1 MiB" in result.stderr, f"limit: {result.stderr}")
        check(re.search(r"note: +2 MiB  x f32\[1024,256\], 2 that differ", result.stderr)
              and "gshard-cost" in result.stderr, f"what needs it, and what to do: {result.stderr}")
    check(run(MLP, "--memory-limit", "1GiB", "--verify").returncode == 0, "a limit that is kept")
    check(run(MLP, "--memory-limit", "much").returncode == 2, "a limit that is no size")
    path = os.path.join(directory, "nan.hlo")
    with open(path, "w") as file:
        file.write("HloModule m, num_partitions=2\nENTRY e {\n  x = f32[4] parameter(0), sharding={devices=[2]<=[2]}\n"
                   "  a = f32[4] abs(x), sharding={devices=[2]<=[2]}\n  n = f32[4] negate(a), sharding={devices=[2]<=[2]}\n"
                   "  ROOT bad = f32[4] sqrt(n), sharding={devices=[2]<=[2]}\n}\n")
    result = run(path, "--check-nan")
    check(result.returncode == 3 and "bad is NaN at [0] on device 0" in result.stderr, f"NaN: {result.stderr}")
    check(f"{path}:6:" in result.stderr, "where the NaN is made")
    check(run(path).returncode == 0, "without the check it is no error")
    with open(path, "w") as file:
        file.write("HloModule m, num_partitions=4\nENTRY e {\n  x = f32[5] parameter(0), sharding={devices=[4]<=[4]}\n"
                   "  a = f32[5] abs(x)\n  ROOT r = f32[5] sqrt(a), sharding={devices=[4]<=[4]}\n}\n")
    result = run(path, "--check-nan")
    check(result.returncode == 0, f"padding of uneven tiles is no finding: {result.stderr}")


def failures_as_json(directory):
    """docs/json.md: `error` beside `schema`."""
    path = os.path.join(directory, "bad.hlo")
    with open(path, "w") as file:
        file.write("HloModule m\nENTRY e { ROOT x = f32[4] parameter(0), foo=1 }\n")
    for args, code, status in ((("nosuch.hlo",), "E-IO-001", 1), ((path,), "E-PARSE", 1),
                               ((MLP, "--dump", "rel=x.npy"), "E-RUN-NAME", 1)):
        result = run(*args, "--json")
        report = json.loads(result.stdout)
        check(result.returncode == status and report["schema"] == "gshard.run/1", f"{args}: {result.returncode}")
        check(set(report) == {"schema", "error"} and report["error"]["code"].startswith(code), f"{args}: {report}")
    result = run(MLP, "--memory-limit", "1MiB", "--json")
    failed = json.loads(result.stdout)["failed_checks"]
    check(result.returncode == 3 and [each["check"] for each in failed] == ["memory-limit"], f"a check that failed: {failed}")
    report = json.loads(run(path, "--json").stdout)["error"]
    check(report["file"] == path and report["line"] == 2 and report["column"] > 0, f"the place: {report}")


def misspelt(directory):
    for args, hint in (((MLP, "--dump", "rel=x.npy"), "did you mean 'relu'?"), ((MLP, "--verfy"), "did you mean '--verify'?"),
                       ((MLP, "--check-nans"), "did you mean '--check-nan'?")):
        result = run(*args)
        check(result.returncode in (1, 2) and hint in result.stderr, f"{args}: {result.stderr}")
    path = os.path.join(directory, "x.npy")
    run(MLP, "--dump", f"x@0={path}")
    result = run(MLP, "--input", path)
    check(result.returncode == 1 and "numpy.savez" in result.stderr, f"a .npy is no .npz: {result.stderr}")


def run_with(variables, *args):
    environment = {name: value for name, value in os.environ.items() if name not in ("OPENBLAS_CORETYPE", "GSHARD_CPU")}
    return subprocess.run([RUN, *args], capture_output=True, text=True, env={**environment, **variables})


def machine(directory):
    """The processor and OpenBLAS's kernel are named; what the user chooses stays, and is told where it is slow."""
    path = os.path.join(directory, "small.hlo")
    with open(path, "w") as file:
        file.write("HloModule m, num_partitions=2\nENTRY e {\n x = f32[8,16] parameter(0), sharding={devices=[2,1]<=[2]}\n"
                   " w = f32[16,8] parameter(1)\n"
                   " ROOT y = f32[8,8] dot(x, w), lhs_contracting_dims={1}, rhs_contracting_dims={0}\n}\n")
    own = json.loads(run_with({}, path, "--json").stdout)["machine"]
    shown = f"{own['processor']}, {own['instruction_set']}; {own['blas']}, kernel {own['blas_kernel']}"
    version = run_with({}, "--version").stdout.splitlines()
    check(len(version) == 2 and version[1] == shown, f"--version: {version}, not {shown}")
    check(f"machine       {shown}\n" in run_with({}, path).stdout, "the report names the machine")
    sets = ["baseline", "avx", "avx2", "avx512", "avx512_vnni", "amx"]
    for name in sets:
        result = run_with({"GSHARD_CPU": name}, path, "--verify", "--json")
        if sets.index(name) > sets.index(own["instruction_set"]):
            check(result.returncode == 2 and "this processor does not offer" in result.stderr, f"GSHARD_CPU={name}: {result}")
            continue
        report = json.loads(result.stdout)
        check(report["verify"]["ok"] and report["machine"]["instruction_set"] == name, f"GSHARD_CPU={name}: {report['machine']}")
    result = run_with({"GSHARD_CPU": "mmx"}, path)
    check(result.returncode == 2 and "baseline, avx, avx2, avx512, avx512_vnni and amx" in result.stderr, f"GSHARD_CPU=mmx: {result}")
    if own["instruction_set"] == "baseline":
        return
    limited = json.loads(run_with({"GSHARD_CPU": "baseline"}, path, "--json").stdout)["machine"]
    check(limited["blas_kernel"] == "Prescott", f"OpenBLAS is limited, too: {limited}")
    chosen = run_with({"OPENBLAS_CORETYPE": "Prescott"}, path, "--verify", "--json")
    report = json.loads(chosen.stdout)
    check(report["verify"]["ok"] and report["machine"]["blas_kernel"] == "Prescott", f"the user's kernel: {report['machine']}")
    check("OPENBLAS_CORETYPE=Prescott: products take" in chosen.stderr and "[W-RUN-BLAS]" in chosen.stderr,
          f"the user's kernel is slow: {chosen.stderr}")
    chosen = run_with({"OPENBLAS_CORETYPE": own["blas_kernel"]}, path)
    check("W-RUN-BLAS" not in chosen.stderr, f"the user's kernel is the best: {chosen.stderr}")


def main():
    with tempfile.TemporaryDirectory() as directory:
        if has_terminals():
            progress_on_a_terminal()
            nothing_for_short_work()
            progress_of_one_long_step()
        else:
            print("SKIPPED: what is shown on a terminal (the machine gives out none)")
        no_progress_elsewhere()
        ctrl_c()
        trace(directory)
        dumps(directory)
        uneven_sizes(directory)
        verify_partitioned(directory)
        near_ties(directory)
        refusals(directory)
        failures_as_json(directory)
        misspelt(directory)
        machine(directory)
    print(f"{checks - len(failures)} passed, {len(failures)} failed")
    sys.exit(1 if failures else 0)


main()
