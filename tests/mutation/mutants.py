#!/usr/bin/env python3
"""Mutants of our own rules, and whether the tests see them.

    tests/mutation/mutants.py --list [--sample N] [--seed S]          what there is: FILE:LINE:COLUMN KIND
    tests/mutation/mutants.py --tree DIR [--sample N] [--seed S] [--within REGEX] [--only REGEX] [--suites N] [--log FILE]

A mutant is one small change of a rule: a dropped term, an operand or axis taken for its neighbour, off by one, a
wrong identity, a condition turned round. With --tree (a checkout that nobody else uses; it is changed, and restored)
all mutants of the sample are compiled into one build, each behind a question whether it is the one that the
environment variable GSHARD_MUTANT names (tests/mutation/mutant.h); those that do not compile are left out. Then the
tests run once a mutant, random programs, golden and unit tests, until something fails. Killed: a suite failed twice, or
used up its processor time. Undecided: what only ran out of time by the clock, which a busy machine does to any; it does
not count. Ends with the score and the survivors; docs/reliability.md says what is known of those.
"""
import argparse
import json
import os
import random
import re
import signal
import subprocess
import sys
import time

ROOMS = ["core/propagation", "core/propagation/ops", "core/partition/ops", "core/partition/plan",
         "core/partition/scope", "core/partition/layout", "backends/cpu/kernels", "backends/cpu/mesh"]
FILES = ["backends/cpu/run/collectives.cc", "ir/sharding_algebra.cc"]

# kind: (pattern, replacement), tried at every match.
KINDS = {
    "off by one: + 1": (r" \+ 1\b(?![.'\d])", ""),
    "off by one: - 1": (r" - 1\b(?![.'\d])", ""),
    "off by one: <": (r" < (?=[\w(])", " <= "),
    "off by one: <=": (r" <= ", " < "),
    "off by one: > 1": (r" > 1\b(?![.'\d])", " > 2"),
    "dropped term: +": (r" \+ (?!1\b)\w+(?:\.\w+)*\b(?![(\[<])", ""),
    "dropped term: -": (r" - (?!1\b)\w+(?:\.\w+)*\b(?![(\[<])", ""),
    "dropped factor": (r" \* (?!\d)\w+\b(?![(\[<*&.>])(?! \w+[;,)=])", ""),
    "dropped condition: &&": (r" && !?\w+(?:\.\w+\(\))?(?=[);])", ""),
    "dropped condition: ||": (r" \|\| !?\w+(?:\.\w+\(\))?(?=[);])", ""),
    "turned condition: if": (r"\bif \((?=[\w!])(?=[^;{}]*\) (?:\{|return|continue|break))", "if (!("),
    "turned condition: ==": (r" == ", " != "),
    "turned condition: &&": (r" && ", " || "),
    "wrong bound: min": (r"\bstd::min\b(?!_)", "std::max"),
    "wrong bound: max": (r"\bstd::max\b(?!_)", "std::min"),
    "wrong side: lhs": (r"\blhs\b", "rhs"),
    "wrong operand: 0": (r"\boperand\(0\)", "operand(1)"),
    "wrong operand: 1": (r"\boperand\(1\)", "operand(0)"),
    "wrong axis: rank - 1": (r"\brank\(?\)? - 1\b", "rank - 2"),
    "wrong axis: dim": (r"\bAt\(d\)", "At(d == 0 ? 0 : d - 1)"),
    "wrong identity: infinity": (r"-std::numeric_limits<(\w+)>::infinity\(\)", r"std::numeric_limits<\1>::lowest()"),
    "wrong identity: -0.0": (r"-0\.0\b", "1.0"),
    "wrong reduction: add": (r"\bOpcode::kAdd\b", "Opcode::kMaximum"),
    "wrong reduction: maximum": (r"\bOpcode::kMaximum\b", "Opcode::kMinimum"),
    "wrong answer: true": (r"\breturn true;", "return false;"),
    "wrong answer: false": (r"\breturn false;", "return true;"),
    "dropped step: continue": (r"\bcontinue;", ";"),
}
SKIPPED = re.compile(r"^\s*(//|#|static_assert|CheckInternal|using |template|case |constexpr char|const char|for )|E-[A-Z]+-|fmt::format")


def sources(top):
    for room in ROOMS:
        folder = os.path.join(top, room)
        for name in sorted(os.listdir(folder)):
            if name.endswith((".cc", "-inl.h")):
                yield os.path.join(room, name)
    yield from (file for file in FILES if os.path.exists(os.path.join(top, file)))


def mutate(line, kind, match):
    pattern, replacement = KINDS[kind]
    if kind == "turned condition: if":
        # To the parenthesis that closes the condition; None where it does not on this line.
        depth, at = 1, match.end()
        while at < len(line) and depth:
            depth += {"(": 1, ")": -1}.get(line[at], 0)
            at += 1
        condition = line[match.end():at - 1]
        return None if depth or ";" in condition or " = " in condition else (
            line[:match.start()] + f"if (!({condition}))" + line[at:])
    return line[:match.start()] + match.expand(replacement) + line[match.end():]


def mutants(top):
    """[(file, line number, column, kind, new line)]"""
    found = []
    for file in sources(top):
        with open(os.path.join(top, file)) as opened:
            for number, line in enumerate(opened.read().split("\n"), 1):
                code = line.split("//")[0]
                if SKIPPED.search(code) or '"' in code:
                    continue
                for kind, (pattern, _) in KINDS.items():
                    for match in re.finditer(pattern, code):
                        new = mutate(code, kind, match)
                        if new is not None and new != code:
                            found.append((file, number, match.start() + 1, kind, new))
    return found


# A statement's forms that can be asked which of two it is. Parts of statements of several lines are left alone.
CONDITION = re.compile(r"^(\s*(?:\} else )?(?:if|while) \()(.*)(\) \{)$")
DECLARATION = re.compile(r"^(\s*(?!return|constexpr|static|else)(?:const )?[\w:<>,*&]+(?: [\w:<>,*&]+)* [&*]?\w+ = )([^{].*)(;)$")


def balanced(text):
    return all(text.count(a) == text.count(b) for a, b in ("()", "[]", "{}"))


def either(before, old, new, after, number):
    """One line that is `new` where mutant `number` is asked for, else `old`; None where that can't be said."""
    for form in (CONDITION, DECLARATION):
        a, b = form.match(old), form.match(new)
        if a and b:
            if a[1] != b[1] or not balanced(a[2]) or not balanced(b[2]) or (form is CONDITION and re.search(r";| = ", a[2])):
                return None
            kind = "bool" if form is CONDITION else ""
            return f"{a[1]}gshard::IsMutant({number}) ? {kind}({b[2]}) : {kind}({a[2]}){a[3]}"
    begins = before.rstrip().endswith((";", "{", "}", ":")) or not before.strip()
    statement = old.rstrip()
    if not begins or not statement.endswith(";") or not balanced(old) or not balanced(new) or re.match(r"\s*else\b", after):
        return None
    if re.match(r"\s*(return\b|if \(|continue;|break;)", old):
        return f"{{ if (gshard::IsMutant({number})) {{ {new.strip()} }} {statement.strip()} }}"
    if re.match(r"\s*[\w.\->\[\]()*]+ (=|\+=|-=|\*=) |\s*[\w.\->:]+\(", old):
        return f"if (gshard::IsMutant({number})) {{ {new.strip()} }} else {{ {statement.strip()} }}"
    return None


def sample_of(found, count, seed):
    """As many of each kind as there are of all, in an order that does not favour large files."""
    rng, by_kind = random.Random(seed), {}
    for mutant in found:
        by_kind.setdefault(mutant[3], []).append(mutant)
    for group in by_kind.values():
        rng.shuffle(group)
    order, groups = [], sorted(by_kind.items())
    while groups and len(order) < count:
        groups = [(kind, group) for kind, group in groups if group]
        for _, group in groups:
            order.append(group.pop())
    return order[:count]


def run(command, cwd, seconds, memory_gb=64, wall=30):
    """(exit code, or None where it hangs, output). Each process ends after `seconds` of processor time, all that it
    started after `wall` times as long, since the machine may be busy."""
    with subprocess.Popen(f"ulimit -v {memory_gb * 1000000}; ulimit -t {seconds}; {command}", cwd=cwd, shell=True, text=True,
                          start_new_session=True,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT) as child:
        try:
            text = child.communicate(timeout=wall * seconds)[0]
            return child.returncode, text
        except subprocess.TimeoutExpired:
            os.killpg(child.pid, signal.SIGKILL)
            return None, "hangs"


# What kills most in the least time comes first: in all half a minute of one processor for a mutant that survives.
# Without the tests that read the clock, which a busy machine fails. In seconds of processor time a process.
SUITES = [
    ("random programs", "gshard_property --seeds 0:200 --jobs 1 --no-shrink --max-failures 1 --out {bin}/failures", 60),
    ("unit core", "gshard_unit_core --abort '~[clock]'", 60),
    ("golden", "gshard_golden {bin}/cmd tests/golden", 60),
    ("random programs", "gshard_property --seeds 200:2000 --jobs 1 --no-shrink --max-failures 1 --out {bin}/failures", 120),
    ("unit ir", "gshard_unit_ir --abort '~[clock]'", 60),
    ("unit backends", "gshard_unit_backends --abort '~[ranks]'", 120),
]
TOOLS = "gshard-opt gshard-cost gshard-run"
BIN = "build/ci"


def insert(tree, chosen, left_out):
    """Writes the files with all mutants but those in `left_out`; {(file, line number in the new text): mutant}."""
    placed, by_file = {}, {}
    for number, mutant in enumerate(chosen, 1):
        by_file.setdefault(mutant[0], []).append((number, mutant))
    for file, group in by_file.items():
        lines = subprocess.run(["git", "show", f"HEAD:{file}"], cwd=tree, capture_output=True, text=True, check=True).stdout.split("\n")
        original = list(lines)
        for number, mutant in group:
            at = mutant[1] - 1
            if number in left_out or lines[at] != original[at]:
                left_out.add(number)  # one mutant a line
                continue
            line = either(original[at - 1], original[at].split("//")[0].rstrip(), mutant[4].rstrip(), original[at + 1], number)
            if line is None:
                left_out.add(number)
                continue
            lines[at] = line
            placed[file, at + 2] = number
        lines.insert(0, '#include "tests/mutation/mutant.h"')
        text, path = "\n".join(lines), os.path.join(tree, file)
        with open(path) as opened:
            same = opened.read() == text
        if not same:
            with open(path, "w") as opened:
                opened.write(text)
    return placed


def build(tree, chosen, suites, jobs):
    """Numbers of the mutants that the build has. With the ci preset, so that ccache knows the files without a mutant."""
    left_out = set()
    run("cmake --preset ci", tree, 600)
    targets = " ".join([TOOLS, *dict.fromkeys(command.split()[0] for _, command, _ in suites)])
    while True:
        placed = insert(tree, chosen, left_out)
        code, log = run(f"ninja -C {BIN} -j{jobs} -k0 {targets}", tree, 7200)
        if code == 0:
            return sorted(placed.values())
        wrong = set()
        for file, line in re.findall(r"([\w./-]+):(\d+):\d+: (?:error|  required from|note)", log):
            name = os.path.relpath(os.path.join(tree, BIN, file), tree)
            wrong |= {number for (of, at), number in placed.items() if at == int(line) and name.endswith(of)}
        if not wrong:
            sys.exit("the build fails for another reason than a mutant:\n" + log[-3000:])
        print(f"{len(wrong)} mutants do not compile", flush=True)
        left_out |= wrong


def run_suite(tree, suite, memory_gb):
    _, command, seconds = suite
    return run(f"{BIN}/tests/" + command.format(bin=BIN), tree, seconds, memory_gb)


def outcome(tree, suite):
    """How a suite ends: "passes", "fails", "hangs" (no processor time left), or "late": by the clock only."""
    code, text = run_suite(tree, suite, 12)
    if code == 0:
        return "passes"
    if code is None or "(out of time)" in text:  # the golden runner's words
        return "late"
    return "hangs" if code in (-signal.SIGKILL, 128 + signal.SIGKILL, -signal.SIGXCPU, 128 + signal.SIGXCPU) else "fails"


def judge(tree, number, suites):
    """("killed", by what), ("survived", "") or ("undecided", which suite never ended)."""
    os.environ["GSHARD_MUTANT"] = str(number)
    late = ""
    for suite in suites:
        ended = outcome(tree, suite)
        if ended in ("fails", "late"):  # once more, so that no accident counts
            ended = outcome(tree, suite)
        if ended in ("fails", "hangs"):
            return "killed", suite[0] + (" (hangs)" if ended == "hangs" else "")
        if ended == "late":
            late = late or suite[0]
    return ("undecided", late) if late else ("survived", "")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--list", action="store_true")
    parser.add_argument("--tree")
    parser.add_argument("--sample", type=int, default=500)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--only", default="", help="of the sample, those whose FILE:LINE:COLUMN KIND match")
    parser.add_argument("--minutes", type=float, default=1e9, help="begin no mutant after so long")
    parser.add_argument("--within", default="", help="sample from the files whose names match")
    parser.add_argument("--suites", type=int, default=len(SUITES), help="so many of the suites, the cheap ones first")
    parser.add_argument("--jobs", type=int, default=2, help="compilers at a time")
    parser.add_argument("--log", help="file that gets a JSON line a mutant; those in it already are not tried again")
    options = parser.parse_args()
    top = options.tree or os.path.join(os.path.dirname(os.path.abspath(__file__)), "../..")
    if options.tree and run("git status --porcelain --untracked-files=no", top, 60)[1]:
        sys.exit("the tree has changes: mutants are put into what is committed")
    suites = SUITES[:options.suites]
    found = [m for m in mutants(top) if re.search(options.within, m[0])]
    chosen = sample_of(found, options.sample, options.seed)
    chosen = [m for m in chosen if re.search(options.only, f"{m[0]}:{m[1]}:{m[2]} {m[3]}")]
    if options.list or not options.tree:
        for file, number, column, kind, new in chosen:
            print(f"{file}:{number}:{column} {kind}: {new.strip()}")
        print(f"{len(found)} mutants, {len(chosen)} in the sample")
        return 0
    log, end, tally, survivors = {}, time.time() + 60 * options.minutes, {}, []
    if options.log and os.path.exists(options.log):
        with open(options.log) as opened:
            log = {entry["mutant"]: entry for entry in map(json.loads, opened)}
    try:
        numbers = build(top, chosen, suites, options.jobs)
    finally:
        run("git checkout -q -- .", top, 60)
    os.environ["GSHARD_MUTANT"] = "0"
    for suite in suites:  # without a mutant all must pass
        code, text = run_suite(top, suite, 64)
        if code != 0:
            sys.exit(f"{suite[0]} fails without a mutant:\n{text[-2000:]}")
    print(f"{len(numbers)} mutants in the build", flush=True)
    random.Random(options.seed).shuffle(numbers)
    for number in numbers:
        mutant = chosen[number - 1]
        name = f"{mutant[0]}:{mutant[1]}:{mutant[2]} {mutant[3]}"
        if name not in log:
            if time.time() > end:
                break
            verdict, by = judge(top, number, suites)
            log[name] = {"mutant": name, "code": mutant[4].strip(), "verdict": verdict, "by": by}
            if options.log:
                with open(options.log, "a") as opened:
                    opened.write(json.dumps(log[name]) + "\n")
            print(f"{verdict:10} {name}  {by}", flush=True)
        tally[log[name]["verdict"]] = tally.get(log[name]["verdict"], 0) + 1
        if log[name]["verdict"] == "survived":
            survivors.append(log[name])
    killed, tested = tally.get("killed", 0), tally.get("killed", 0) + len(survivors)
    print(f"{tested} mutants judged, {killed} killed ({100 * killed / max(1, tested):.0f} %), {tally.get('undecided', 0)} undecided")
    for entry in survivors:
        print(f"survived: {entry['mutant']}: {entry['code']}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
