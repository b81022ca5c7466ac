#!/usr/bin/env python3
"""Damaged programs through a command: it must end by itself, or at Ctrl-C, with an exit code that is meant.

    mutated_programs.py build/asan/cmd/gshard-run --seconds 120 [--seed 1] [--out DIR] FILE.hlo ..

Takes the cases of the given files (split at `// -----`), damages each a little (numbers, lines, shapes, words, length)
and runs the command on it. A signal, an internal error (exit 4), a report of a sanitizer, memory beyond --memory-mib and a
run that neither ends in time nor within seconds of Ctrl-C are failures; their inputs stay in DIR. Ends with
"N passed, N failed".
"""
import argparse
import os
import random
import re
import resource
import signal
import subprocess
import sys
import tempfile
import time

NUMBERS = ["0", "1", "-1", "2", "3", "7", "8", "64", "255", "4294967296", "2147483647", "9223372036854775807",
           "-9223372036854775808", "99999999999999999999", "1000000000000", "0.5", "1e400", "nan", "?", ""]
TYPES = ["f32", "bf16", "f16", "f64", "s32", "u32", "s64", "u64", "pred", "s8", "u8", "s4", "u4", "c64", "c128", "s16",
         "u16", "f8e4m3fn", "f8e5m2", "token", "opaque", "s2", "s1"]
NUMBER = re.compile(r"(?<![\w.%])-?\d+(?:\.\d+)?")
TYPE = re.compile(r"\b(?:" + "|".join(TYPES) + r")(?=\[)")
SHAPE = re.compile(r"\b\w+\[[\d,<=]*\](?:\{[\d,]*\})?")
WORD = re.compile(r"(?<=[ (,])%?[A-Za-z_][\w.-]*")


def replace_at(text, match, new):
    return text[:match.start()] + new + text[match.end():]


def pick(rng, pattern, text):
    matches = list(pattern.finditer(text))
    return rng.choice(matches) if matches else None


def change_number(rng, text):
    at = pick(rng, NUMBER, text)
    if not at:
        return text
    value = at.group()
    near = []
    if value.lstrip("-").isdigit():
        near = [str(int(value) + 1), str(int(value) - 1), str(int(value) * 2), str(int(value) // 2)]
    return replace_at(text, at, rng.choice(near * 4 + NUMBERS))


def change_type(rng, text):
    at = pick(rng, TYPE, text)
    return replace_at(text, at, rng.choice(TYPES)) if at else text


def change_all_of_a_type(rng, text):
    at = pick(rng, TYPE, text)
    return re.sub(r"\b" + at.group() + r"(?=\[)", rng.choice(TYPES), text) if at else text


def change_all_of_a_dim(rng, text):
    at = pick(rng, re.compile(r"(?<=[\[,])\d+(?=[\],])"), text)
    new = rng.choice(["0", "1", "2", "3", "5", "17", "100", "1000003", "1000000000000"])
    return re.sub(r"(?<=[\[,])" + at.group() + r"(?=[\],])", new, text) if at else text


def swap(rng, text, pattern):
    one, two = pick(rng, pattern, text), pick(rng, pattern, text)
    if not one or not two or one.start() == two.start():
        return text
    if one.start() > two.start():
        one, two = two, one
    return (text[:one.start()] + two.group() + text[one.end():two.start()] + one.group() + text[two.end():])


def edit_lines(rng, text):
    lines = text.split("\n")
    at = rng.randrange(len(lines))
    kind = rng.randrange(4)
    if kind == 0:
        del lines[at]
    elif kind == 1:
        lines.insert(at, rng.choice(lines))
    elif kind == 2:
        other = rng.randrange(len(lines))
        lines[at], lines[other] = lines[other], lines[at]
    else:
        lines[at] = lines[at].replace("ROOT ", "")
    return "\n".join(lines)


def cut_off(rng, text):
    return text[:rng.randrange(len(text) + 1)]


def change_character(rng, text):
    if not text:
        return text
    at = rng.randrange(len(text))
    return text[:at] + rng.choice("(){}[],=<>-%/*\"'\\ \n\0\x80aZ09") + text[at + rng.randrange(2):]


def drop_attribute(rng, text):
    at = pick(rng, re.compile(r", [\w-]+=(?:\{[^{}\n]*\}|[^ ,{}\n]+)"), text)
    return replace_at(text, at, "") if at else text


MUTATIONS = [(change_number, 8), (change_type, 2), (change_all_of_a_type, 4), (change_all_of_a_dim, 5),
             (lambda r, t: swap(r, t, SHAPE), 2), (lambda r, t: swap(r, t, WORD), 4), (lambda r, t: swap(r, t, NUMBER), 2),
             (edit_lines, 2), (cut_off, 1), (change_character, 1), (drop_attribute, 3)]


def mutate(rng, text):
    for _ in range(rng.choice([1, 1, 1, 2, 2, 3, 5])):
        text = rng.choices([m for m, _ in MUTATIONS], [w for _, w in MUTATIONS])[0](rng, text)
    return text


def arguments(rng):
    """For gshard-run; other commands get --args."""
    args = ["--threads", rng.choice(["1", "2", "4"])]
    if rng.random() < 0.5:
        args += ["--num-partitions", rng.choice(["1", "2", "3", "4", "8", "8", "16", "64"])]
    args += rng.choice([[], ["--verify"], ["--verify"], ["--verify=outputs"], ["--check-nan"], ["--unpartitioned"], ["--json"]])
    return args


def run(command, seconds, limit_kib):
    """(exit code or negative signal, standard error, peak memory in KiB, what went wrong or '')."""
    with tempfile.TemporaryFile() as err:
        process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=err)
        begin, interrupted, wrong, peak = time.time(), 0.0, "", 0
        while True:
            pid, status, used = os.wait4(process.pid, os.WNOHANG)
            if pid:
                process.returncode = os.waitstatus_to_exitcode(status)
                peak = used.ru_maxrss
                break
            now = time.time()
            try:
                with open(f"/proc/{process.pid}/statm") as statm:
                    resident = int(statm.read().split()[1]) * 4
            except (OSError, IndexError):
                resident = 0
            if limit_kib and resident > limit_kib:
                wrong = f"memory: {resident >> 10} MiB"
                process.kill()
            elif interrupted and now - interrupted > 10:
                wrong = "does not end at Ctrl-C"
                process.kill()
            elif not interrupted and now - begin > seconds:
                interrupted = now
                process.send_signal(signal.SIGINT)
            time.sleep(0.002 if now - begin < 0.2 else 0.02)
        err.seek(0)
        return process.returncode, err.read().decode(errors="replace"), peak, wrong, bool(interrupted)


def fault_of(code, err, wrong):
    if wrong:
        return wrong
    if "Sanitizer" in err or "runtime error:" in err:
        return "sanitizer: " + next(l for l in err.split("\n") if "Sanitizer" in l or "runtime error:" in l)[:200]
    if code < 0:
        return f"signal {-code}"
    if code == 4:
        return "internal error: " + err.split("\n")[0][:200]
    if code not in (0, 1, 2, 3, 130):
        return f"exit code {code}"
    if code in (1, 2) and not err.strip():
        return f"exit code {code} without a word"
    return ""


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("command")
    parser.add_argument("files", nargs="+")
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--each", type=float, default=10, help="seconds of one run before Ctrl-C")
    parser.add_argument("--memory-mib", type=int, default=2048)
    parser.add_argument("--out", default="failures")
    parser.add_argument("--args", help="arguments instead of those of gshard-run")
    options = parser.parse_args()
    cases = []
    for file in options.files:
        with open(file, errors="replace") as opened:
            text = opened.read()
        cases += [c for c in re.split(r"^// -----\n", text, flags=re.M) if c.strip()]
    rng = random.Random(options.seed)
    passed = failed = slow = valid = 0
    kinds = {}
    end = time.time() + options.seconds
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "case.hlo")
        while time.time() < end:
            text = mutate(rng, rng.choice(cases))
            with open(path, "w", errors="surrogateescape") as case:
                case.write(text)
            args = options.args.split() if options.args is not None else arguments(rng)
            code, err, peak, wrong, interrupted = run([options.command, path, *args], options.each, options.memory_mib << 10)
            slow += interrupted
            valid += code == 0
            fault = fault_of(code, err, wrong)
            if not fault:
                passed += 1
                continue
            failed += 1
            kind = re.sub(r"\d+", "N", fault)[:100]
            kinds[kind] = kinds.get(kind, 0) + 1
            if kinds[kind] <= 5:
                os.makedirs(options.out, exist_ok=True)
                stem = os.path.join(options.out, f"{options.seed}_{failed}")
                with open(stem + ".hlo", "w", errors="surrogateescape") as kept:
                    kept.write(text)
                with open(stem + ".txt", "w", errors="surrogateescape") as kept:
                    kept.write(f"{fault}\n{' '.join(args)}\n{err}")
                print(f"FAIL {stem}.hlo {' '.join(args)}: {fault}", flush=True)
    for kind, count in sorted(kinds.items(), key=lambda item: -item[1]):
        print(f"{count:6} {kind}")
    print(f"{valid} ran to the end, {slow} were interrupted")
    print(f"{passed} passed, {failed} failed")
    return failed > 0


if __name__ == "__main__":
    sys.exit(main())
