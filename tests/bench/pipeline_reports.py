"""`gshard-opt pipeline --report` beside gshard-cost of the program it prints: memory and time of each stage, of 12 models.

Nine kinds of networks of tests/differential/pipeline_models.py and three of samples/papers at true size, four schedules in turn.
Fails where one stage's memory or time a micro-batch differs by more than 2 %.

usage: pipeline_reports.py [MODEL ...]    needs the built programs on PATH, and JAX
"""
import json
import pathlib
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
for folder in ("samples/papers", "tests/differential", "tests/bench"):
    sys.path.insert(0, str(ROOT / folder))
import gpipe  # noqa: E402
import pipeline_bubbles  # noqa: E402
import pipeline_models  # noqa: E402

MODELS = {name: lambda name=name: pipeline_models.make(name)[1] for name in pipeline_models.MODELS}
MODELS |= {"gpipe 26": lambda: gpipe.transformer(26), "conformer 16": lambda: gpipe.conformer(16),
           "wide dense 16": lambda: pipeline_bubbles.dense(16, 8)}
SCHEDULES = ("gpipe", "1f1b", "interleaved", "zero-bubble")
STAGES, MICROBATCHES = 4, 8


def difference(program, schedule, work):
    """The largest relative difference of memory and of time over the stages."""
    report, out = work / "report.json", work / "pipelined.hlo"
    subprocess.run(["gshard-opt", "pipeline", program, "--stages", str(STAGES), "--microbatches", str(MICROBATCHES), "--schedule",
                    schedule, "--report", report, "-o", out], check=True, stderr=subprocess.DEVNULL)
    cost = json.loads(subprocess.run(["gshard-cost", out, "--json"], check=True, capture_output=True, text=True).stdout)
    of_device = {device: stage for stage in cost["pipeline"]["stages"] for device in stage["devices"]}
    memory = time = 0.0
    for stage in json.loads(report.read_text())["stage"]:
        priced = of_device[stage["device"]]
        memory = max(memory, abs(stage["memory_bytes"] / priced["peak_bytes"] - 1))
        time = max(time, abs(stage["device_time_s"] * MICROBATCHES / priced["busy_s"] - 1))
    return memory, time


def main():
    failed = 0
    print(f"{'model':14} {'schedule':12} {'memory':>8} {'time':>8}   largest difference of a stage")
    with tempfile.TemporaryDirectory() as name:
        work = pathlib.Path(name)
        for i, (model, text) in enumerate(MODELS.items()):
            if sys.argv[1:] and model not in sys.argv[1:]:
                continue
            (work / "step.hlo").write_text(text())
            memory, time = difference(work / "step.hlo", SCHEDULES[i % len(SCHEDULES)], work)
            fails = max(memory, time) > .02
            failed += fails
            print(f"{model:14} {SCHEDULES[i % len(SCHEDULES)]:12} {memory:8.2%} {time:8.2%} {'!' if fails else ''}", flush=True)
    print(f"{failed} of {len(MODELS)} differ by more than 2 %")
    return failed != 0


if __name__ == "__main__":
    sys.exit(main())
