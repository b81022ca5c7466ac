"""`gshard-opt reduce` on 30 seeded faults: each program comes down to at most 20 instructions in under two minutes.

  tests/verification/reduce_faults.py [--faults N] [--seed S] [--corpus DIR] [--only NAME] [--keep DIR]

A fault is a partitioner that is wrong, and always in the same way: what `gshard-opt partition` prints is damaged wherever one
rule says so. Half of the faults give wrong numbers: a collective left out or with other groups, a slice or a table of offsets
that is shifted, operands the wrong way round, another constant (the damages of inject_faults.py, at every instruction of the same
opcode whose operand has the same opcode); a program shows it if `gshard-run damaged --reference program --verify` exits
with 3. The other half ends the partitioner: it cannot bear two opcodes, one of which reads the other's result, in what it makes;
these are of programs that are too large to run, too. Programs: those of the samples and of the corpus that have 500 to 5,000
instructions. gshard-opt and gshard-run are taken from PATH.
"""
import argparse
import collections
import glob
import json
import os
import random
import re
import resource
import shlex
import subprocess
import sys
import tempfile
import time

import inject_faults  # it makes the next two known
import hlo_lines
import samples

LEAST, MOST, SMALL, SECONDS = 500, 5000, 20, 120
MOST_FLOPS = 120e9  # of the whole program on all devices, so that running it takes seconds
DAMAGES = {each.__name__: each for each in inject_faults.FAULTS}


def instructions(text):
    return sum(1 for line in text.split("\n") if hlo_lines.INSTRUCTION.match(line))


# --- A rule that damages what the partitioner prints.

def rule_of(damage, program, i):
    """What line `i` has in common with others that the same wrong code would have made."""
    line = program.lines[i]
    rule = {"damage": damage, "opcode": line.opcode, "type": line.shape.split("[")[0]}
    if line.opcode == "constant":
        users = program.users[line.name]
        rule["neighbour"] = program.by_name[users[0]].opcode if users else ""
        if damage == "change_constant":
            rule["value"] = line.operands
    else:
        rule["neighbour"] = program.by_name[inject_faults.operands_of(line)[0]].opcode
    return rule


def damaged(program, rule):
    """The program's text with each instruction damaged that the rule is of; None where there is none."""
    lines, count = program.lines, 0
    alike = [i for i, line in lines.items() if line.opcode == rule["opcode"] and rule_of(rule["damage"], program, i) == rule]
    for i in alike:
        program.lines = {i: lines[i]}  # the damage is to be this line's
        made = DAMAGES[rule["damage"]](program, random.Random(0))
        if made:
            program.text = made[1].split("\n")
            count += 1
    return "\n".join(program.text) if count else None


def gives_wrong_numbers(path, rule):
    text = damaged(inject_faults.Program("candidate", path), rule)
    if text is None:
        return False
    with tempfile.NamedTemporaryFile("w", suffix=".hlo") as file:
        file.write(text)
        file.flush()
        done = inject_faults.run("gshard-run", file.name, "--reference", path, "--verify")
        return done.returncode == 3


# --- A pair of opcodes that ends it.

def pairs_of(text):
    """(producer, user) opcodes, in order."""
    opcode = {}
    for text_line in text.split("\n"):
        match = hlo_lines.INSTRUCTION.match(text_line)
        call = match and re.search(r"[\])}] ([a-z-]+)\(", text_line)
        if not call:
            continue
        opcode[match.group(2)] = call.group(1)
        for operand in re.findall(r"%([^ ,()]+)", text_line[call.end():].split("),")[0]):
            if operand in opcode:
                yield opcode[operand], call.group(1)


def ends_the_partitioner(path, rule):
    done = inject_faults.run("gshard-opt", "partition", path)
    return done.returncode == 0 and (rule["producer"], rule["user"]) in pairs_of(done.stdout)


def shows(path, rule):
    return gives_wrong_numbers(path, rule) if "damage" in rule else ends_the_partitioner(path, rule)


# --- The faults, drawn.

def whole_programs(folder, corpus):
    """name -> file, of the programs that have the right size."""
    files = {}
    for name, rules, meshes in samples.GENERATED:
        out = os.path.join(folder, rules + ".hlo")
        problem = samples.annotate(name, rules, meshes[0], out)
        if problem:
            sys.exit(f"{name}: {problem}")
        files[rules] = out
    for path in sorted(glob.glob(os.path.join(corpus, "*.hlo"))):
        files[os.path.basename(path)[:-4]] = path
    right = {}
    for name, path in files.items():
        done = inject_faults.run("gshard-opt", "print", path)
        if done.returncode == 0 and LEAST <= instructions(done.stdout) <= MOST:
            right[name] = path
    return right


def can_run(path):
    """Is it small enough to be run some hundred times, and does it run?"""
    cost = inject_faults.run("gshard-cost", path, "--json")
    if cost.returncode or (report := json.loads(cost.stdout))["flops_per_device"] * report["devices"] > MOST_FLOPS:
        return False
    return inject_faults.run("gshard-run", path, "--verify").returncode == 0


def wrong_numbers(rng, files, count):
    """`count` (name, rule) of faults that show, no two alike."""
    names = [name for name, path in files.items() if can_run(path)]
    programs, found, tries = {}, [], 0
    while names and len(found) < count and tries < 50 * count:
        name, damage, tries = rng.choice(names), rng.choice(sorted(DAMAGES)), tries + 1
        if name not in programs:
            programs[name] = inject_faults.Program(name, files[name])
        made = DAMAGES[damage](programs[name], rng)
        if not made:
            continue
        fault = (name, rule_of(damage, programs[name], made[0]))
        if fault not in found and shows(files[name], fault[1]):
            found.append(fault)
    return found


def endings(rng, files, count):
    """The same of pairs: of each program in turn, of pairs that occur there and are not of every program."""
    of_program = {}
    for name, path in files.items():
        done = inject_faults.run("gshard-opt", "partition", path)
        if done.returncode == 0:
            of_program[name] = collections.Counter(pairs_of(done.stdout))
    everyday = {"parameter", "constant", "tuple", "get-tuple-element"}
    found, taken = [], set()
    while of_program and len(found) < count:
        for name, pairs in of_program.items():
            left = sorted(pair for pair in pairs if not everyday & set(pair) and pair not in taken)
            if left and len(found) < count:
                pair = rng.choice(left)
                taken.add(pair)
                found.append((name, {"producer": pair[0], "user": pair[1]}))
        if not any(set(pairs) - taken for pairs in of_program.values()):
            break
    return found


def processor_seconds():
    """Of all commands that have ended."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def reduce(path, rule, out):
    """(instructions before, after, tests, seconds, seconds of processors), or what went wrong."""
    command = " ".join(map(shlex.quote, (sys.executable, os.path.abspath(__file__), "--shows", json.dumps(rule)))) + " {}"
    start, processor = time.monotonic(), processor_seconds()
    done = inject_faults.run("gshard-opt", "reduce", path, "--test", command, "-o", out)
    seconds, processor = time.monotonic() - start, processor_seconds() - processor
    if done.returncode:
        return done.stderr.strip()
    if not shows(out, rule):
        return "the result does not show the fault"
    counts = re.search(r"(\d+) instructions of (\d+), by (\d+) tests", done.stderr)
    return int(counts.group(2)), int(counts.group(1)), int(counts.group(3)), seconds, processor


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--faults", type=int, default=30)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--corpus", default=os.environ.get("GSHARD_CORPUS", os.path.join(samples.ROOT, "..", "shared", "corpus")))
    parser.add_argument("--only", default="", help="programs whose name has this in it")
    parser.add_argument("--keep", default="", help="a folder for the reduced programs")
    parser.add_argument("--shows", nargs=2, metavar=("RULE", "FILE"), help="the test itself: exit code 0 if the file shows the fault")
    options = parser.parse_args()
    if options.shows:
        sys.exit(0 if shows(options.shows[1], json.loads(options.shows[0])) else 1)
    rng = random.Random(options.seed)
    with tempfile.TemporaryDirectory() as folder:
        files = whole_programs(folder, options.corpus)
        faults = wrong_numbers(rng, files, options.faults // 2)
        faults += endings(rng, files, options.faults - len(faults))
        passed = 0
        keep = options.keep or folder
        os.makedirs(keep, exist_ok=True)
        for k, (name, rule) in enumerate(faults):
            if options.only not in name:
                continue
            what = f"{k}: {name}: {' '.join(map(str, rule.values()))}"
            result = reduce(files[name], rule, os.path.join(keep, f"{k}_{name}.small.hlo"))
            if isinstance(result, str):
                print(f"FAIL {what}: {result}", flush=True)
                continue
            before, after, tests, seconds, processor = result
            good = after <= SMALL and seconds < SECONDS
            passed += good
            print(f"{'ok' if good else 'FAIL'} {what}: {after} of {before} by {tests} tests in {seconds:.1f} s, "
                  f"{processor:.1f} s of processor time", flush=True)
        chosen = sum(options.only in name for name, _ in faults)
    print(f"{passed} passed, {chosen - passed} failed")
    sys.exit(passed < chosen or not chosen)


if __name__ == "__main__":
    main()
