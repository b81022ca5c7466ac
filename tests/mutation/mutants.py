#!/usr/bin/env python3
"""Mutants of our own rules, and whether the tests see them.

    tests/mutation/mutants.py --list [--sample N] [--seed S]          what there is: FILE:LINE:COLUMN KIND
    tests/mutation/mutants.py --tree DIR --log FILE [--sample N] [--seed S] [--within REGEX] [--only REGEX] [--xla FILE]
    tests/mutation/mutants.py --summary FILE                          score and survivors of a log

A mutant is one small change of a rule: a dropped term, an operand or axis taken for its neighbour, off by one, a
wrong identity, a condition turned round (KINDS in schemata.py). With --tree (a clone that nobody else uses; it is
changed, and restored) all mutants of the sample are compiled into one build, each behind a question whether it is the
one that the environment variable GSHARD_MUTANT names (mutant.h); those that do not compile are left out.

Then every test runs without a mutant, must pass, and tells which mutants it reaches (FILE.reached): golden files, unit
tests by source file, random programs by 20 seeds, what is decided for them by 100, and with --xla what XLA said of
propagation (xla_answers.py). A mutant is judged by the tests that reach it, the quickest first, two at a time, until
one fails. Killed: a test failed twice, or used up its processor time. Undecided: what only ran out of time by the clock,
which a busy machine does to any; it does not count. Ends with the score and the survivors; docs/reliability.md says what
is known of those.

The sample takes as many mutants of each area, and in an area as many of each kind, as there are of all. With --drawn-at
COMMIT it is what was drawn from the sources of then, so that later tests are judged by the mutants that asked for them:
each where its statement is now; one whose statement is gone or has changed gives its place to the next that was drawn.
"""
import argparse
import concurrent.futures
import fcntl
import json
import os
import random
import re
import resource
import signal
import subprocess
import sys
import tempfile
import threading
import time

from schemata import KINDS, mutants, with_schemata

# area: its sources. The first area that names a file has it.
AREAS = {
    "collectives": r"backends/cpu/run/(collectives|rank_reduction)\.cc|backends/cpu/mesh/|core/partition/ops/collectives\.cc|"
                   r"ir/(device_groups|replica_groups|named_groups)\.cc|ir/ops/collectives_shape\.cc",
    "propagation": r"core/propagation/",
    "partition": r"core/partition/",
    "kernels": r"backends/cpu/(kernels|ops)/",
    "shapes": r"ir/ops/\w+_shape\.cc|ir/ops/shape_rules\.cc|ir/(sharding_(algebra|merge|reshape)|shape_inference|"
              r"tile_assignment|shape)\.cc",
}
TARGETS = "gshard-opt gshard-cost gshard-run gshard_golden gshard_property gshard_unit_core gshard_unit_backends gshard_unit_ir"
BIN = "build/ci"
HERE = os.path.dirname(os.path.abspath(__file__))
# Random programs: the last seed, on one rank and on three, and so many seeds a test.
SEEDS, SEEDS_OF_RANKS, SEEDS_OF_TEST = 600, 60, 20
# XLA's answers in so many tests.
XLA_PARTS = 60
# Unit tests that run under valgrind as well, as tests/sanitizers/run.sh has them: reads and writes beyond what is there.
MEMCHECK = [("ir", "shape_inference_test"), ("backends", "kernel_choice_test"), ("backends", "collectives_test")]
# What a test may take: seconds of processor time a process, and address space, which is not memory.
LEAST_SECONDS, TIMES_WITHOUT_MUTANT, MEMORY_GB = 10, 10, 20


def area_of(file):
    return next((area for area, files in AREAS.items() if re.match(files, file)), None)


def sources(top):
    for room in ("core", "backends", "ir"):
        for folder, _, names in sorted(os.walk(os.path.join(top, room))):
            for name in sorted(names):
                file = os.path.relpath(os.path.join(folder, name), top)
                if name.endswith((".cc", "-inl.h")) and area_of(file):
                    yield file


def all_mutants(top):
    found = []
    for file in sources(top):
        with open(os.path.join(top, file)) as opened:
            found += mutants(file, opened.read())
    return found


def sample_of(found, count, seed):
    """At most one of a statement, from each area and each kind in turn."""
    rng, groups = random.Random(seed), {area: {kind: [] for kind in KINDS} for area in AREAS}
    for mutant in found:
        if mutant.schema:
            groups[area_of(mutant.file)][mutant.kind].append(mutant)
    turns = {}
    for area, by_kind in groups.items():
        kinds = sorted(by_kind)
        for kind in kinds:
            rng.shuffle(by_kind[kind])
        rng.shuffle(kinds)
        most = max(map(len, by_kind.values()))
        turns[area] = [by_kind[kind][i] for i in range(most) for kind in kinds if i < len(by_kind[kind])]
    order, taken = [], set()
    while len(order) < count and any(turns.values()):
        for turn in turns.values():
            while turn:
                mutant = turn.pop(0)
                place = (mutant.file, mutant.statement.first)
                if place not in taken:
                    taken.add(place)
                    order.append(mutant)
                    break
    return order[:count]


def carried(drawn, then, found, count):
    """Of the mutants `drawn` from `then`, the first `count`, each under its number there as the mutant of `found` that makes
    the same change of the same statement behind the same one. In place of one that no longer can be made: the next of its
    area that was drawn after these. The second result: numbers of those."""
    def changes(of):
        seen, keys = {}, {}
        for mutant in of:
            change = (mutant.file, mutant.before, mutant.old, mutant.kind, mutant.new)
            seen[change] = seen.get(change, 0) + 1  # both may stand in a file several times
            keys[mutant.name] = change + (seen[change],)
        return keys
    key_then, now = changes(then), changes(found)
    by_key = {now[mutant.name]: mutant for mutant in found}
    left = [by_key.get(key_then[mutant.name]) for mutant in drawn]
    kept = dict(enumerate(left[:count], 1))
    replaced = [number for number, mutant in kept.items() if mutant is None]
    spare = [mutant for mutant in left[count:] if mutant]
    for number in replaced:
        kept[number] = next(mutant for mutant in spare if area_of(mutant.file) == area_of(drawn[number - 1].file))
        spare.remove(kept[number])
    return kept, replaced


def sample_at(top, commit, found, count, seed):
    """{number: mutant} of the sample drawn from a commit's sources."""
    with tempfile.TemporaryDirectory() as folder:
        code, text = run(f"git archive {commit} core backends ir | tar -x -C {folder}", top, 60)
        if code != 0:
            sys.exit(text)
        then = all_mutants(folder)
    kept, replaced = carried(sample_of(then, 2 * count, seed), then, found, count)
    print(f"{len(replaced)} of the {count} drawn at {commit} can no longer be made; others in their places: "
          f"{', '.join(map(str, replaced)) or 'none'}")
    return kept


def run(command, cwd, seconds, memory_gb=64, wall=30, stop=None, **environment):
    """(exit code, or None where it hangs or `stop` was set, output). Each process ends after `seconds` of processor time,
    all that it started after `wall` times as long, since the machine may be busy."""
    with subprocess.Popen(f"ulimit -v {memory_gb * 1000000}; ulimit -t {seconds}; {command}", cwd=cwd, shell=True, text=True,
                          errors="replace", start_new_session=True, env={**os.environ, **environment},
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT) as child:
        end = time.time() + wall * seconds
        while True:
            try:
                text = child.communicate(timeout=0.2)[0]
                return child.returncode, text
            except subprocess.TimeoutExpired:
                if time.time() > end or (stop and stop.is_set()):
                    os.killpg(child.pid, signal.SIGKILL)
                    return None, "hangs"


def all_tests(tree, xla):
    """Commands. Without the unit tests that read the clock, which a busy machine fails."""
    commands = []
    for folder, _, names in sorted(os.walk(os.path.join(tree, "tests/golden"))):
        commands += [f"{BIN}/tests/gshard_golden --abort {BIN}/cmd {os.path.relpath(os.path.join(folder, name), tree)}"
                     for name in sorted(names)]
    for room in ("core", "ir", "backends"):
        files = {name[:-3] for _, _, names in os.walk(os.path.join(tree, "tests/unit", room)) for name in names}
        commands += [f"{BIN}/tests/gshard_unit_{room} --abort -# '[#{name}]~[clock]~[ranks]'" for name in sorted(files)
                     if name.endswith("_test")]
    commands += [f"valgrind -q --error-exitcode=9 {BIN}/tests/gshard_unit_{room} --abort -# '[#{name}]'"
                 for room, name in MEMCHECK]
    programs = f"{BIN}/tests/gshard_property --jobs 1 --no-shrink --max-failures 1 --out {BIN}/failures"
    for options, end in (("", SEEDS), (" --ranks 3", SEEDS_OF_RANKS)):
        commands += [f"{programs}{options} --seeds {seed}:{seed + SEEDS_OF_TEST}" for seed in range(0, end, SEEDS_OF_TEST)]
    commands += [f"{BIN}/tests/gshard_property --decisions tests/data/random_decisions.txt --seeds {seed}:{seed + 100}"
                 for seed in range(0, 2000, 100)]
    if xla:
        commands += [f"GSHARD_OPT={BIN}/cmd/gshard-opt {sys.executable} {HERE}/xla_answers.py check {xla} {part}/{XLA_PARTS}"
                     for part in range(XLA_PARTS)]
    return commands


def seconds_of_children():
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def record_reached(tree, tests, kept):
    """Adds {test: (seconds, numbers of the mutants it reaches)} to `kept`, of those that it lacks; all must pass."""
    for test in tests:
        if test in kept:
            continue
        with tempfile.NamedTemporaryFile("r") as told:
            before = seconds_of_children()
            code, text = run(test, tree, 600, MEMORY_GB, GSHARD_MUTANT="0", GSHARD_MUTANTS_REACHED=told.name)
            if code != 0:
                sys.exit(f"fails without a mutant: {test}\n{text[-2000:]}")
            kept[test] = (seconds_of_children() - before, sorted({int(line) for line in told.read().split()}))


def insert(tree, chosen, left_out):
    """Writes the files with all mutants but those in `left_out`; {(file, line number in the new text): mutant's number}."""
    placed, by_file = {}, {}
    for number, mutant in chosen.items():
        by_file.setdefault(mutant.file, {})[number] = mutant
    for file, numbered in by_file.items():
        source = subprocess.run(["git", "show", f"HEAD:{file}"], cwd=tree, capture_output=True, text=True, check=True).stdout
        kept = {number: mutant for number, mutant in numbered.items() if number not in left_out}
        text, lines = with_schemata(source, kept)
        placed.update({(file, line): number for line, number in lines.items()})
        path = os.path.join(tree, file)
        with open(path) as opened:
            same = opened.read() == text
        if not same:
            with open(path, "w") as opened:
                opened.write(text)
    return placed


def build(tree, chosen, jobs):
    """Numbers of the mutants that the build has. With the ci preset, so that ccache knows the files without a mutant."""
    left_out = set()
    run("cmake --preset ci", tree, 600)
    while True:
        placed = insert(tree, chosen, left_out)
        code, log = run(f"ninja -C {BIN} -j{jobs} -k0 {TARGETS}", tree, 7200)
        if code == 0:
            return sorted(placed.values())
        wrong = set()
        for file, line in re.findall(r"([\w./-]+):(\d+):\d+: +(?:error|required|note)", log):
            name = os.path.relpath(os.path.join(tree, BIN, file), tree)
            wrong |= {number for (of, at), number in placed.items() if at == int(line) and name.endswith(of)}
        if not wrong:
            sys.exit("the build fails for another reason than a mutant:\n" + log[-3000:])
        for number in sorted(wrong):
            print(f"does not compile: {chosen[number].name}: {chosen[number].change()}", flush=True)
        left_out |= wrong


def outcome(tree, test, seconds, mutant, stop):
    """How a test ends: "passes", "fails", "hangs" (no processor time left), or "late": by the clock only."""
    limit = int(LEAST_SECONDS + TIMES_WITHOUT_MUTANT * seconds)
    code, text = run(test, tree, limit, MEMORY_GB, wall=6, stop=stop, GSHARD_MUTANT=str(mutant))
    if code == 0:
        return "passes"
    if code is None or "(out of time)" in text:  # the golden runner's words
        return "late"
    return "hangs" if code in (-signal.SIGKILL, 128 + signal.SIGKILL, -signal.SIGXCPU, 128 + signal.SIGXCPU) else "fails"


def judge_lane(tree, mutant, tests, stop):
    """("killed", by what), ("survived", "") or ("undecided", which test never ended), of {test: seconds}."""
    late = ""
    for test, seconds in tests.items():
        if stop.is_set():
            break
        ended = outcome(tree, test, seconds, mutant, stop)
        if ended in ("fails", "late") and not stop.is_set():  # once more, so that no accident counts
            ended = outcome(tree, test, seconds, mutant, stop)
        if stop.is_set():
            break
        if ended in ("fails", "hangs"):
            stop.set()
            return "killed", test + (" (hangs)" if ended == "hangs" else "")
        if ended == "late":
            late = late or test
    return ("undecided", late) if late else ("survived", "")


def quickest(tests, budget):
    """The quickest of {test: seconds}, of so many seconds in all."""
    kept, spent = {}, 0
    for test, seconds in sorted(tests.items(), key=lambda entry: entry[1]):
        spent += seconds
        if spent > budget:
            break
        kept[test] = seconds
    return kept


def judge(tree, mutant, tests, lanes=2):
    """As judge_lane, so many tests at a time, the quickest first: the first that kills ends them all."""
    stop, order = threading.Event(), list(quickest(tests, float("inf")).items())
    with concurrent.futures.ThreadPoolExecutor(lanes) as pool:
        verdicts = list(pool.map(lambda k: judge_lane(tree, mutant, dict(order[k::lanes]), stop), range(lanes)))
    for wanted in ("killed", "undecided"):
        for verdict in verdicts:
            if verdict[0] == wanted:
                return verdict
    return "survived", ""


def read_log(path):
    if not path or not os.path.exists(path):
        return {}
    with open(path) as opened:
        return {entry["mutant"]: entry for entry in map(json.loads, opened)}  # a later line replaces an earlier one


def print_summary(entries):
    def score(of):
        killed, survived = (sum(entry["verdict"] == verdict for entry in of) for verdict in ("killed", "survived"))
        return f"{killed + survived} judged, {killed} killed ({100 * killed / max(1, killed + survived):.1f} %)"
    for area in AREAS:
        print(f"{area}: {score([entry for entry in entries if area_of(entry['mutant'].split(':')[0]) == area])}")
    for entry in entries:
        if entry["verdict"] != "killed":
            print(f"{entry['verdict']}, {entry['tests']} tests reach it: {entry['mutant']}: {entry['code']}")
    print(f"{score(entries)}, {sum(entry['verdict'] == 'undecided' for entry in entries)} undecided")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--list", action="store_true")
    parser.add_argument("--tree")
    parser.add_argument("--summary")
    parser.add_argument("--sample", type=int, default=300)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--drawn-at", metavar="COMMIT", help="the sample of this commit's sources, not of --within")
    parser.add_argument("--only", default="", help="of the sample, those whose FILE:LINE:COLUMN KIND match")
    parser.add_argument("--within", default="", help="sample from the files whose names match")
    parser.add_argument("--minutes", type=float, default=1e9, help="begin no mutant after so long")
    parser.add_argument("--jobs", type=int, default=2, help="compilers at a time")
    parser.add_argument("--lock", help="file that is locked while it builds, as by flock(1)")
    parser.add_argument("--build-only", action="store_true", help="end when the tree is built")
    parser.add_argument("--built", action="store_true", help="the tree was built by an earlier run with this --log")
    parser.add_argument("--log", help="file that gets a JSON line a mutant: what is killed in it, or was judged with no smaller "
                        "--budget, is not tried again; remove FILE.reached where tests have changed")
    parser.add_argument("--budget", type=float, default=float("inf"),
                        help="a first look: only the quickest tests, of so many seconds in all, judge a mutant")
    parser.add_argument("--tests", default="", help="only those whose commands match: a second look, by what was written since")
    parser.add_argument("--xla", help="what `xla_answers.py record` wrote")
    options = parser.parse_args()
    if options.summary:
        print_summary(list(read_log(options.summary).values()))
        return 0
    top = options.tree or os.path.join(HERE, "../..")
    if options.tree and run("git status --porcelain --untracked-files=no", top, 60)[1]:
        sys.exit("the tree has changes: mutants are put into what is committed")
    found = [mutant for mutant in all_mutants(top) if re.search(options.within, mutant.file)]
    sample = (sample_at(top, options.drawn_at, found, options.sample, options.seed) if options.drawn_at else
              dict(enumerate(sample_of(found, options.sample, options.seed), 1)))
    chosen = {number: mutant for number, mutant in sample.items() if re.search(options.only, mutant.name)}
    print(f"{len(found)} mutants, {sum(mutant.schema is None for mutant in found)} of them without a schema; "
          f"{len(chosen)} in the sample of seed {options.seed}", flush=True)
    if options.list or not options.tree:
        for mutant in chosen.values():
            print(f"{mutant.name}: {mutant.change()}")
        return 0
    judge_sample(top, chosen, options)
    return 0


def built_mutants(top, chosen, options):
    """Numbers of the mutants that the tree's build has."""
    built = (options.log or "mutants") + ".built"
    if options.built:
        with open(built) as opened:
            return [number for number in json.load(opened) if number in chosen]
    with open(options.lock or os.devnull, "a") as lock:
        if options.lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
        try:
            numbers = build(top, chosen, options.jobs)
        finally:
            run("git checkout -q -- .", top, 60)
    if options.log:
        with open(built, "w") as opened:
            json.dump(numbers, opened)
    return numbers


def reached_by_tests(top, options):
    path = (options.log or "mutants") + ".reached"
    kept = {}
    if options.built and os.path.exists(path):
        with open(path) as opened:
            kept = json.load(opened)
    tests = [test for test in all_tests(top, options.xla) if re.search(options.tests, test)]
    try:
        record_reached(top, tests, kept)
    finally:
        if options.log:
            with open(path, "w") as opened:
                json.dump(kept, opened)
    return {test: (kept[test][0], set(kept[test][1])) for test in tests}


def judge_sample(top, chosen, options):
    end, log, entries = time.time() + 60 * options.minutes, read_log(options.log), []
    numbers = built_mutants(top, chosen, options)
    print(f"{len(numbers)} mutants in the build", flush=True)
    if options.build_only:
        return
    reached = reached_by_tests(top, options)
    print(f"{len(reached)} tests pass without a mutant in {sum(seconds for seconds, _ in reached.values()):.0f} s", flush=True)
    random.Random(options.seed).shuffle(numbers)
    for number in numbers:
        mutant = chosen[number]
        known = log.get(mutant.name)
        if known is None or known["verdict"] != "killed" and known.get("budget", 2) < options.budget:
            if time.time() > end:
                break
            begin = time.time()
            tests = {test: seconds for test, (seconds, numbers_there) in reached.items() if number in numbers_there}
            verdict, by = judge(top, number, quickest(tests, options.budget))
            log[mutant.name] = {"mutant": mutant.name, "number": number, "code": mutant.change(), "verdict": verdict, "by": by,
                                "tests": len(tests), "budget": options.budget}
            if options.log:
                with open(options.log, "a") as opened:
                    opened.write(json.dumps(log[mutant.name]) + "\n")
            print(f"{verdict:10} {mutant.name}  {by}  of {len(tests)} tests, {time.time() - begin:.0f} s", flush=True)
        entries.append(log[mutant.name])
    print_summary(entries)


if __name__ == "__main__":
    sys.exit(main())
