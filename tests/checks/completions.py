"""Completions and manual pages say what --help says, and the shells and mandoc take them.

usage: completions.py BIN_DIR, from the top of the checkout
"""
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

BIN = pathlib.Path(sys.argv[1]).resolve()
PROGRAMS = ["gshard-opt", "gshard-cost", "gshard-run"]
passed = failed = 0


def check(truth, what):
    global passed, failed
    passed, failed = passed + bool(truth), failed + (not truth)
    if not truth:
        print("FAIL", what)


def output(*words):
    done = subprocess.run([str(BIN / words[0]), *words[1:]], capture_output=True, text=True, stdin=subprocess.DEVNULL)
    check(done.returncode == 0, f"{words}: {done.stderr}")
    return done.stdout


def subcommands(program):
    found = re.search(r"^Subcommands:\n((?:  .*\n)*)", output(program, "--help"), re.M)
    return re.findall(r"^  ([a-z][a-z-]*)\b", found.group(1), re.M) if found else []


def flags(*command):
    """Long names of the flags in a command's help."""
    return set(re.findall(r"^  (?:-\w,)?(--[a-z-]+)", output(*command, "--help"), re.M))


def bash(script, program, line):
    """What bash offers at the end of a line."""
    words = line.split(" ")
    # As readline cuts a line: an equals sign is a word of its own.
    cut = [part for word in words for part in (re.split(r"(=)", word) if "=" in word else [word]) if part or not word]
    code = (f'source {script}; COMP_WORDS=({" ".join(repr(word) for word in cut)}); COMP_CWORD={len(cut) - 1}; '
            f'compopt() {{ :; }}; _{program.replace("-", "_")}; printf "%s\\n" "${{COMPREPLY[@]}}"')
    done = subprocess.run(["bash", "-c", code], capture_output=True, text=True)
    check(done.returncode == 0 and not done.stderr, f"{line}: {done.stderr}")
    return set(done.stdout.split())


def completions(program, folder):
    scripts = {}
    for shell in ("bash", "zsh", "fish"):
        scripts[shell] = folder / f"{program}.{shell}"
        scripts[shell].write_text(output(program, "--completions", shell))
        if shutil.which(shell):
            done = subprocess.run([shell, "-n", scripts[shell]], capture_output=True, text=True)
            check(done.returncode == 0, f"{shell} takes the completions of {program}: {done.stderr}")
    done = subprocess.run(["bash", "-c", f"source {scripts['bash']}; complete -p {program}"], capture_output=True, text=True)
    check(f"-F _{program.replace('-', '_')} {program}" in done.stdout, f"complete -p {program}: {done.stdout}{done.stderr}")
    commands = subcommands(program)
    check(bash(scripts["bash"], program, f"{program} ") >= set(commands), f"{program}: subcommands are offered")
    for command in [(), *((each,) for each in commands)]:
        expected = flags(program, *command)
        line = " ".join([program, *command, "--"])
        check({each for each in bash(scripts["bash"], program, line) if each.startswith("--")} == expected,
              f"{line}: {expected ^ bash(scripts['bash'], program, line)}")
        for shell in ("zsh", "fish"):
            text = scripts[shell].read_text()
            for flag in expected:
                check((flag if shell == "zsh" else f"-l {flag[2:]} ") in text.replace("\n", " "), f"{shell}: {program} {command} {flag}")
    return scripts["bash"]


def fish(script, line):
    done = subprocess.run(["fish", "--no-config", "-c", f"source {script}; complete -C {line!r}"], capture_output=True, text=True)
    return {each.split("\t")[0] for each in done.stdout.splitlines()}


def values(folder):
    """Values of flags, behind a blank and behind an equals sign."""
    cost, opt, run = (folder / f"gshard-{name}.bash" for name in ("cost", "opt", "run"))
    for line, expected in (("gshard-cost x.hlo --chip tpu-v5", {"tpu-v5e", "tpu-v5p"}), ("gshard-cost x.hlo --chip=h", {"h100", "h200"}),
                           ("gshard-cost x.hlo --overlap ", {"none", "xla", "perfect"}), ("gshard-cost x.hlo --check ", set()),
                           ("gshard-cost x.hlo --lim", {"--limit"})):
        check(bash(cost, "gshard-cost", line) == expected, f"{line}: {bash(cost, 'gshard-cost', line)}")
    check(bash(opt, "gshard-opt", "gshard-opt print x --format ") == {"hlo", "stablehlo"}, "gshard-opt print --format")
    check(bash(opt, "gshard-opt", "gshard-opt pri") == {"print"}, "gshard-opt pri")
    check(bash(run, "gshard-run", "gshard-run x.hlo --verify=o") == {"outputs"}, "gshard-run --verify=o")
    if shutil.which("fish"):
        check(fish(folder / "gshard-cost.fish", "gshard-cost --chip tpu-v5") == {"tpu-v5e", "tpu-v5p"}, "fish: values")
        check("--format" in fish(folder / "gshard-opt.fish", "gshard-opt print --f"), "fish: flags of a subcommand")


def manual(program, folder):
    page = folder / f"{program}.1"
    page.write_text(output(program, "--manual"))
    text = page.read_text()
    for command in [(), *((each,) for each in subcommands(program))]:
        for flag in flags(program, *command):
            check(re.search(rf"Fl {re.escape(flag[1:])}( |$)", text, re.M), f"{program}.1: {command} {flag}")
    if shutil.which("mandoc"):
        done = subprocess.run(["mandoc", "-T", "lint", page], capture_output=True, text=True)
        # It looks for pages that are installed, and for a system's own name of an operating system.
        told = [line for line in done.stdout.splitlines() if "STYLE: referenced manual not found" not in line]
        check(not told, f"{program}.1: {told[:5]}")


def main():
    with tempfile.TemporaryDirectory() as folder:
        for program in PROGRAMS:
            completions(program, pathlib.Path(folder))
            manual(program, pathlib.Path(folder))
        values(pathlib.Path(folder))
    print(f"{passed} passed, {failed} failed")
    sys.exit(failed > 0)


main()
