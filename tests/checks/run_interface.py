"""gshard-run as its user meets it: progress on a terminal only, Ctrl-C, traces, dumps, refusals.

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

RUN = os.path.abspath(sys.argv[1])
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


def progress_on_a_terminal():
    master, slave = pty.openpty()
    process = subprocess.Popen([RUN, MLP, "--repeat", repeats_for(4)], stdout=subprocess.PIPE, stderr=slave)
    os.close(slave)
    shown = read_terminal(master)
    out = process.stdout.read().decode()
    check(process.wait() == 0, "a run on a terminal ends with 0")
    lines = [line for line in shown.split("\r") if "%" in line]
    check(len(lines) > 3, f"the bar is drawn several times: {len(lines)}")
    form = re.compile(r"^run +\[#*\.*\] +\d+%( \d+ s left)?\x1b\[K$")
    check(all(form.match(line) for line in lines), f"the bar's form: {lines[:1]}")
    check(all(len(re.search(r"\[(.*)\]", line).group(1)) == 30 for line in lines), "the bar has 30 places")
    shares = [int(re.search(r"(\d+)%", line).group(1)) for line in lines]
    check(shares == sorted(shares) and shares[-1] > shares[0], "shares grow")
    left = [int(m.group(1)) for line in lines if (m := re.search(r"(\d+) s left", line))]
    check(left and left[0] >= left[-1], f"the remaining time shrinks: {left[:1]} {left[-1:]}")
    check(shown.endswith("\r\x1b[K"), "the bar is gone in the end")
    check("\x1b" not in out and "%" not in out, "nothing of it on standard output")


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
    result = run(MLP, "--dump", f"y@7={one}", "--dump", f"y={every}")
    check(result.returncode == 0, f"dumps: {result.stderr}")
    kind, shape, data = read_npy(one)
    check(kind == "<f4" and len(data) == 4 * shape[0] * shape[1], f"one device's value: {kind} {shape}")
    _, all_shape, all_data = read_npy(every)
    check(all_shape == (8, *shape) and all_data[7 * len(data):] == data, f"all devices' values: {all_shape}")
    before = time.time()
    for dump, message in (("y@8=" + one, "--dump y@8: there are 8 devices"), ("nosuch=" + one, "there is no instruction named nosuch"),
                          ("y=/nonexistent/y.npy", "/nonexistent/y.npy: cannot be written")):
        result = run(MLP, "--dump", dump, "--repeat", "1000000")
        check(result.returncode == 1 and message in result.stderr, f"{dump}: {result.stderr}")
    check(time.time() - before < 30, "refused before the run, not after it")
    check(run(MLP, "--dump", "y@seven=x").returncode == 2, "a device that is no number")


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
                               ((MLP, "--memory-limit", "1MiB"), "E-RUN-MEMORY", 3),
                               ((MLP, "--dump", "rel=x.npy"), "E-RUN-NAME", 1)):
        result = run(*args, "--json")
        report = json.loads(result.stdout)
        check(result.returncode == status and report["schema"] == "gshard.run/1", f"{args}: {result.returncode}")
        check(set(report) == {"schema", "error"} and report["error"]["code"].startswith(code), f"{args}: {report}")
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


def main():
    with tempfile.TemporaryDirectory() as directory:
        progress_on_a_terminal()
        no_progress_elsewhere()
        nothing_for_short_work()
        ctrl_c()
        trace(directory)
        dumps(directory)
        refusals(directory)
        failures_as_json(directory)
        misspelt(directory)
    print(f"{checks - len(failures)} passed, {len(failures)} failed")
    sys.exit(1 if failures else 0)


main()
