"""Tables of the papers: what gshard-cost says of each row beside what was measured.

    python3 samples/papers/tables.py dense|measured|gshard|remat|scaling|shardings|wide|gpipe [--only REGEX] [--programs DIR]

Needs JAX (../gen/requirements.txt) and gshard-cost on the PATH. Programs are made once and kept in
DIR (build/papers). Nothing is allocated: only shapes are traced.
"""

import argparse
import json
import pathlib
import re
import statistics
import subprocess
import sys
import textwrap

import implied

HERE = pathlib.Path(__file__).resolve().parent
PARTS = ("dot", "attention", "movement", "other", "exposed_communication")


def program(directory, table, row):
    """The row's program; made if it is not there."""
    path = directory / (re.sub(r"[^A-Za-z0-9]+", "_", f"{table}_{row['name']}").strip("_") + ".hlo")
    if not path.exists():
        directory.mkdir(parents=True, exist_ok=True)
        made = subprocess.run([sys.executable, HERE / "make.py", table, row["name"], "-o", path],
                              check=False)
        if made.returncode:
            path.unlink(missing_ok=True)
            sys.exit(made.returncode)
    return path


def model_flops(row):
    """6 FLOPs a weight and token, and the attention's 12 L S N D."""
    weights = row["model"] * row["head_dim"] * 2 * (row["heads"] + row["keys"])
    weights += row["model"] * row["hidden"] * (3 if row["gated"] else 2)
    weights = row["layers"] * weights + 2 * row["vocabulary"] * row["model"]
    attention = 12 * row["layers"] * row["sequence"] * row["heads"] * row["head_dim"]
    return row["batch"] * row["sequence"] * (6 * weights + attention)


def measured_seconds(row):
    """Seconds of a step as measured; None where nobody published any."""
    devices = 1
    for size in row["mesh"].values():
        devices *= size
    if "step_s" in row:
        return row["step_s"]
    if "tokens_per_s" in row:
        return row["batch"] * row["sequence"] / row["tokens_per_s"]
    if "tokens_per_s_device" in row:
        return row["batch"] * row["sequence"] / (row["tokens_per_s_device"] * devices)
    if "model_tflops_per_s_device" in row:
        return model_flops(row) / (row["model_tflops_per_s_device"] * 1e12 * devices)
    return None


def fitted(path, row):
    """The row's program made to fit its memory limit, the best there is if that cannot be."""
    if "limit" not in row:
        return path
    fits = path.with_suffix(".fits.hlo")
    run = subprocess.run(["gshard-opt", "remat", path, "--limit", row["limit"], "-o", fits],
                         check=False, capture_output=True, text=True)
    if run.returncode not in (0, 3):
        sys.exit(run.stderr)
    return fits


def cost(path, row):
    run = subprocess.run(["gshard-cost", path, "--chip", row["chip"], "--stack", row.get("stack", "jax"), "--json"], check=False,
                         capture_output=True, text=True)
    if run.returncode:
        sys.exit(run.stderr)
    return json.loads(run.stdout)


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    tables = json.loads((HERE / "configs.json").read_text())["tables"]
    parser.add_argument("table", choices=[*tables, "scaling", "gpipe"])
    parser.add_argument("--only", default="", help="rows whose name matches")
    parser.add_argument("--programs", type=pathlib.Path, default=pathlib.Path("build/papers"))
    arguments = parser.parse_args()
    if arguments.table == "gpipe":
        import gpipe_tables
        gpipe_tables.main(arguments.programs)
        return
    if arguments.table == "scaling":
        import scaling
        scaling.main(tables["layer"]["rows"], tables["memory"]["rows"],
                     lambda table, row: program(arguments.programs, table, row))
        return
    table = tables[arguments.table]
    print(f"{arguments.table}: {table['source']}\n")
    print(f"{'row':36} {'chip':9} {'devices':>7} {'measured':>9} {'gshard':>9} {'ratio':>6}   "
          + " ".join(f"{part.split('_')[0]:>9}" for part in PARTS)
          + f" {'MFU':>6} {'HFU':>6} {'again':>6} {'(time)':>6} {'peak':>10}")
    judged = []
    for row in table["rows"]:
        if not re.search(arguments.only, row["name"]):
            continue
        report = cost(fitted(program(arguments.programs, arguments.table, row), row), row)
        seconds, real = report["step_time_s"], measured_seconds(row)
        if real is not None and "variant" not in row:
            judged.append((row["name"], report, real))
        print(f"{row['name']:36} {row['chip']:9} {report['devices']:7} "
              + (f"{real:7.3f} s" if real else "        -") + f" {seconds:7.3f} s "
              + (f"{seconds / real:6.3f}" if real else "     -") + "   "
              + " ".join(f"{report['breakdown'][part + '_s'] / seconds:8.1%} " for part in PARTS)
              + f"{report['mfu']:6.1%} {report['hfu']:6.1%} "
              + f"{report['recompute_flops_per_device'] / report['flops_per_device']:6.1%} "
              + f"{report['recompute_s'] / seconds:6.1%} "
              + f"{report['memory']['peak_bytes'] / 2**30:6.1f} GiB"
              + (f"   paper: {row['recomputed']:.0%} of cycles" if "recomputed" in row else ""))
    if judged:
        ratios = [report["step_time_s"] / real for _, report, real in judged]
        print(f"\nratio: median {statistics.median(ratios):.3f}, from {min(ratios):.3f} to "
              f"{max(ratios):.3f}")
    if len(judged) > 1 and all(report["overlap"] == "none" for _, report, _ in judged):
        implied.print_table(judged)
    if "note" in table and not arguments.only:
        print("\n" + textwrap.fill(table["note"], 120))


if __name__ == "__main__":
    main()
