"""What CI systems are told: annotations, summaries, JUnit, SARIF, conditions on a change; samples/ci's commands run.

usage: ci_output.py BIN_DIR, from the top of the checkout. Where the packages xmlschema and jsonschema are, files are held against
schemas, too (tests/data/junit.parts.xsd, sarif.parts.json).
"""
import json
import os
import pathlib
import re
import shlex
import subprocess
import sys
import tempfile
import xml.etree.ElementTree as xml

try:
    import jsonschema
    import xmlschema
except ImportError:
    print("SKIPPED: the schemas of SARIF and JUnit (packages jsonschema, xmlschema)")
    jsonschema = xmlschema = None

BIN = os.path.abspath(sys.argv[1])
SAMPLES = pathlib.Path("samples").resolve()
passed = failed = 0

# A sum over a split dim, with lines of the user's program, one of which has all that a path may have.
STEP = """HloModule step, num_partitions=4, meshes={m=['x'=4]}
ENTRY main {
  a = f32[1024,4096] parameter(0), sharding={@m, [{}, {'x'}]}, metadata={op_name="a" source_file="/w/my model,1.py" source_line=3}
  b = f32[4096,1024] parameter(1), sharding={@m, [{'x'}, {}]}, metadata={op_name="b" source_file="/w/my model,1.py" source_line=4}
  ROOT c = f32[1024,1024] dot(a, b), lhs_contracting_dims={1}, rhs_contracting_dims={0}, sharding={@m, replicated}, metadata={op_name="jit(f)/dot" source_file="/w/my model,1.py" source_line=12}
}
"""
DEADLOCK = """HloModule d, num_partitions=2
add { x = f32[] parameter(0)
  y = f32[] parameter(1)
  ROOT s = f32[] add(x, y) }
yes { x = f32[4] parameter(0)
  ROOT r = f32[4] all-reduce(x), channel_id=1, replica_groups={{0,1}}, use_global_device_ids=true, to_apply=add }
no { x = f32[4] parameter(0)
  ROOT n = f32[4] negate(x) }
ENTRY main {
  x = f32[4] parameter(0)
  id = u32[] partition-id()
  zero = u32[] constant(0)
  first = pred[] compare(id, zero), direction=EQ
  ROOT c = f32[4] conditional(first, x, x), true_computation=yes, false_computation=no
}
"""
WRONG = """HloModule wrong, num_partitions=2, frontend_attributes={gshard.num_partitions="2",gshard.output_shardings="{devices=[2]<=[2]}"}
ENTRY e {
  x = f32[2] parameter(0), sharding={devices=[2]<=[2]}
  ROOT y = f32[2] negate(x)
}
"""
RIGHT = "HloModule right\nENTRY e {\n  x = f32[4] parameter(0)\n  ROOT y = f32[4] abs(x)\n}\n"


def check(truth, what):
    global passed, failed
    passed, failed = passed + bool(truth), failed + (not truth)
    if not truth:
        print("FAIL", what)


def run(*words, code=0, **environment):
    done = subprocess.run([os.path.join(BIN, words[0]), *map(str, words[1:])], capture_output=True, text=True,
                          env={**os.environ, **environment})
    check(done.returncode == code, f"{' '.join(map(str, words))}: exit code {done.returncode} in place of {code}: {done.stderr}")
    return done


def unescaped(text):
    for escape, char in (("%3A", ":"), ("%2C", ","), ("%0A", "\n"), ("%0D", "\r"), ("%25", "%")):
        text = text.replace(escape, char)
    return text


def annotations(text):
    """(kind, properties, message) of each workflow command, read as GitHub's runner does."""
    for line in text.splitlines():
        found = re.fullmatch(r"::(error|warning) ([^:]*)::(.*)", line)
        if found:
            properties = dict(each.split("=", 1) for each in found.group(2).split(","))
            yield found.group(1), {key: unescaped(value) for key, value in properties.items()}, unescaped(found.group(3))


def junit(path):
    """The suite's cases by name; the counts are true."""
    root = xml.parse(path).getroot()
    if xmlschema is not None:
        problem = next(iter(xmlschema.XMLSchema("tests/data/junit.parts.xsd").iter_errors(str(path))), None)
        check(problem is None, f"{path}: {problem}")
    check(root.tag == "testsuites" and len(root) == 1 and root[0].tag == "testsuite", f"{path}: one suite")
    cases = {case.get("name"): case for case in root[0].findall("testcase")}
    failures = sum(case.find("failure") is not None for case in cases.values())
    for element in (root, root[0]):
        check((element.get("tests"), element.get("failures")) == (str(len(cases)), str(failures)), f"{path}: counts")
    return cases


def sarif(path):
    """The results; what the schema requires is there, and indices name their rules."""
    document = json.loads(pathlib.Path(path).read_text())
    if jsonschema is not None:
        problem = next(jsonschema.Draft7Validator(json.loads(pathlib.Path("tests/data/sarif.parts.json").read_text())).iter_errors(document), None)
        check(problem is None, f"{path}: {problem}")
    check(document["version"] == "2.1.0" and document["$schema"].endswith("sarif-2.1.0.json"), f"{path}: version")
    [only] = document["runs"]
    driver = only["tool"]["driver"]
    check(driver["name"] and driver["version"], f"{path}: the tool")
    for result in only["results"]:
        check(driver["rules"][result["ruleIndex"]]["id"] == result["ruleId"], f"{path}: {result['ruleId']} is a rule")
        check(result["level"] in ("error", "warning") and result["message"]["text"], f"{path}: {result}")
        for location in result.get("locations", ()):
            uri = location["physicalLocation"]["artifactLocation"]["uri"]
            check(re.fullmatch(r"[A-Za-z0-9/._~%:-]+", uri), f"{path}: {uri} is a URI")
    return only["results"]


def budgets(work):
    step, budget, summary = work / "step.hlo", work / "budget.json", work / "summary.md"
    summary.write_text("what another step wrote\n")
    budget.write_text(json.dumps({"schema": "gshard.budget/1", "peak_bytes": 2**20, "step_time_s": 1e-9,
                                  "collectives": {"all-reduce": 0, "all-gather": 5}, "bytes_per_device": {"x": 0}}))
    done = run("gshard-cost", step, "--check", budget, "--limit", "1MiB", "--github", "--junit", work / "a.xml", "--sarif",
               work / "a.sarif", "--json", code=3, GITHUB_WORKSPACE="/w", GITHUB_STEP_SUMMARY=str(summary))
    check(len(json.loads(done.stdout)["failed_checks"]) == 5, "standard output is the report alone")
    told = {properties["title"]: (kind, properties, message) for kind, properties, message in annotations(done.stderr)}
    check(set(told) == {f"gshard-cost: {name}" for name in
                        ("limit", "step_time_s", "peak_bytes", "bytes_per_device.x", "collectives.all-reduce")}, str(set(told)))
    for name, line in (("limit", "3"), ("peak_bytes", "3"), ("step_time_s", "12"), ("collectives.all-reduce", "12")):
        kind, properties, message = told[f"gshard-cost: {name}"]
        check((kind, properties["file"], properties["line"]) == ("error", "my model,1.py", line), f"{name}: {properties}")
    check("a f32[1024,1024]" in told["gshard-cost: limit"][2], "the tensor is named")
    text = summary.read_text()
    check(text.startswith("what another step wrote\n### gshard-cost") and "5 of 6 checks failed" in text, "the summary is added to")
    check("| collectives.all-gather" in text and "my model,1.py:12" in text, "the summary has all checks and places")
    cases = junit(work / "a.xml")
    check(len(cases) == 6 and cases["collectives.all-gather"].find("failure") is None, "one case a bound")
    check("allowed are 1 MiB" in cases["peak_bytes"].find("failure").get("message"), "the failure tells figures")
    results = sarif(work / "a.sarif")
    check(len(results) == 5, "SARIF has what failed")
    place = results[0]["locations"][0]["physicalLocation"]
    check(place["artifactLocation"] == {"uri": "my%20model%2C1.py", "uriBaseId": "%SRCROOT%"}, str(place))
    check(place["region"] == {"startLine": 3}, str(place))
    good = run("gshard-cost", step, "--limit", "1GiB", "--github", "--sarif", work / "b.sarif", GITHUB_STEP_SUMMARY=str(summary))
    check(not list(annotations(good.stderr)) and not sarif(work / "b.sarif"), "nothing is told where nothing failed")
    check(summary.read_text().count("### gshard-cost") == 2, "but in the summary")


def many(work):
    """Ten are shown by GitHub; eight are written."""
    budget = {"schema": "gshard.budget/1", "peak_bytes": 1, "step_time_s": 0, "bytes_per_device": {"x": 0, "y": 0, "z": 0, "*": 0},
              "collectives": {"all-reduce": 0, "*": 0}}
    axes = "HloModule many, num_partitions=8, meshes={m=['x'=2,'y'=2,'z'=2]}\nENTRY main {\n"
    text = axes + ("  a = f32[8,4096] parameter(0), sharding={@m, [{}, {'x', 'y', 'z'}]}\n"
                   "  b = f32[4096,8] parameter(1), sharding={@m, [{'x', 'y', 'z'}, {}]}\n"
                   "  ROOT c = f32[8,8] dot(a, b), lhs_contracting_dims={1}, rhs_contracting_dims={0}, sharding={@m, replicated}\n}\n")
    (work / "many.hlo").write_text(text)
    (work / "many.json").write_text(json.dumps(budget))
    done = run("gshard-cost", work / "many.hlo", "--check", work / "many.json", "--limit", "1B", "--github", code=3,
               GITHUB_WORKSPACE=str(work), GITHUB_STEP_SUMMARY="")
    told = list(annotations(done.stderr))
    failed_checks = 9
    check(len(told) == 8 and f"has {failed_checks - 8} more" in told[-1][2], f"{len(told)} annotations, {told[-1:]}")
    check(all(properties["file"] == "many.hlo" for _, properties, _ in told), "without a line it is the file")


def communication(work):
    deadlock = work / "deadlock.hlo"
    done = run("gshard-opt", "check", deadlock, "--github", "--junit", work / "c.xml", "--sarif", work / "c.sarif", code=1,
               GITHUB_WORKSPACE=str(work))
    [(kind, properties, message)] = annotations(done.stderr)
    check((kind, properties["file"], properties["line"]) == ("error", "deadlock.hlo", "6"), str(properties))
    check("\nmove it" in message, "the hint is in the message")
    [case] = junit(work / "c.xml").values()
    check(case.find("failure").get("type") == "E-RUN-DEADLOCK", "the code is the type")
    check([each["ruleId"] for each in sarif(work / "c.sarif")] == ["E-RUN-DEADLOCK"], "and the rule")
    run("gshard-opt", "check", SAMPLES / "mlp.hlo", "--junit", work / "d.xml")
    check("cannot deadlock" not in "".join(junit(work / "d.xml")) and len(junit(work / "d.xml")) == 1, "a case that passed")


def verification(work):
    done = run("gshard-run", work / "wrong.hlo", "--reference", work / "right.hlo", "--github", "--junit", work / "e.xml", "--sarif",
               work / "e.sarif", code=3)
    check({kind for kind, _, _ in annotations(done.stderr)} == {"error"}, "a wrong result is an error")
    cases = junit(work / "e.xml")
    check(set(cases) == {"verify", "output o0"}, str(set(cases)))
    check({each["ruleId"] for each in sarif(work / "e.sarif")} == {"verify"}, "one rule")
    run("gshard-run", SAMPLES / "mlp.hlo", "--verify", "--junit", work / "f.xml")
    [case] = junit(work / "f.xml").values()
    check(case.get("name") == "output o0" and len(case) == 0, "a case an output")


def conditions(work):
    small, large = work / "small.json", work / "large.hlo"
    small.write_text(run("gshard-cost", work / "step.hlo", "--json").stdout)
    large.write_text(STEP.replace("1024", "2048"))
    same = "step_time<+2%,peak<+1%,collectives==,traffic<+0,mfu>=,temporaries<=,collectives.all-gather<+2%,collectives<=+0"
    done = run("gshard-cost", "diff", small, work / "step.hlo", "--check", same, "--json", "--junit", work / "g.xml")
    check(json.loads(done.stdout)["failed_checks"] == [] and len(junit(work / "g.xml")) == 8, "nothing has changed")
    for condition, holds in (("step_time<+2%", False), ("peak<+1%", False), ("peak<+900%", True), ("peak<+1GiB", True),
                             ("peak<+1KiB", False), ("peak<=1GiB", True), ("peak<1MB", False), ("collectives==", True),
                             ("collectives.all-reduce==1", True), ("collectives.all-reduce==2", False), ("traffic<=", False),
                             ("traffic.x>", None), ("traffic.x>+0", True), ("step_time<1s", True), ("step_time<1us", False),
                             ("flops>=+100%", True), ("mfu>0%", True), ("mfu<=100%", True), ("peak<-10%", False)):
        if holds is None:
            continue
        done = run("gshard-cost", "diff", small, large, "--check", condition, "--json", code=0 if holds else 3)
        rows = json.loads(done.stdout)["failed_checks"]
        check([row["key"] for row in rows] == ([] if holds else [condition]), f"{condition}: {rows}")
    done = run("gshard-cost", "diff", small, large, "--check", "peak<+1%", "--github", code=3, GITHUB_WORKSPACE="/w")
    [(_, properties, message)] = annotations(done.stderr)
    check(properties["file"] == "my model,1.py" and "before" in message, str(properties))
    for wrong, hint in (("stepp_time<+2%", "did you mean 'step_time'"), ("peak", "a relation is missing"), ("peak<", "a bound is missing"),
                        ("peak=+1%", "equal is written =="), ("peak<+1ms", "is no unit"), ("peak<5%", "write +5%"), ("", None),
                        ("peak<+x", "no number"), ("traffic.x>", "a bound is missing"), ("step_time.x<1s", "no figure"), ("peak<+1%,", "relation")):
        if hint:
            done = run("gshard-cost", "diff", small, large, "--check", wrong, code=2)
            check(hint in done.stderr, f"{wrong}: {done.stderr}")


def samples(work):
    """Each command of samples/ci runs, on a small step, with the exit code that it should have."""
    (work / "budget.json").write_text(json.dumps({"schema": "gshard.budget/1", "collectives": {"all-reduce": 1}}))
    for name in ("base.mlir", "step.mlir"):
        (work / name).write_text(STEP)
    count = 0
    for file in sorted((SAMPLES / "ci").iterdir()):
        for command in re.findall(r"^\s*(?:run: |- )(gshard-\S+ .*)$", file.read_text(), flags=re.M):
            count += 1
            words = shlex.split(command)
            done = subprocess.run([os.path.join(BIN, words[0]), *words[1:]], cwd=work, capture_output=True, text=True)
            check(done.returncode == 0, f"{file.name}: {command}: {done.stderr}")
            for flag, value in zip(words, words[1:]):
                if flag == "--junit":
                    junit(work / value)
    check(count == 8, f"{count} commands in samples/ci")


def main():
    with tempfile.TemporaryDirectory() as folder:
        work = pathlib.Path(folder)
        for name, text in (("step", STEP), ("deadlock", DEADLOCK), ("wrong", WRONG), ("right", RIGHT)):
            (work / f"{name}.hlo").write_text(text)
        for part in (budgets, many, communication, verification, conditions, samples):
            part(work)
    print(f"{passed} passed, {failed} failed")
    sys.exit(failed > 0)


main()
