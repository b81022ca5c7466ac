"""What a reader can hold in mind: files below 800 lines, functions up to 80 and 7 parameters, prose of 130 characters a line.

usage: sizes.py [--list N], from the top of the checkout   --list: all functions of N lines and more

A function is what clang-format lays out as one: a line that ends with `{` and holds `)`, outside of other functions, up to the
`}` of its indentation. The longer ones that there are have their names in LONG.
"""
import pathlib
import re
import sys

MOST_LINES, MOST_FUNCTION, MOST_PARAMETERS, MOST_PROSE = 800, 80, 7, 130
FOLDERS = ["ir", "core", "backends", "cmd", "tests"]
NOT_A_FUNCTION = re.compile(r"^\s*(namespace|class|struct|enum|union|extern|#|//|if|for|while|switch|else|do|case|default|\}|return)\b|^\s*[}\]]")
# Longer ones: one case after another, which reads no better in parts.
LONG = {
    "ir/parser_attributes.cc: ModuleParser::ParseRow",
    "ir/printer_attributes.cc: ModulePrinter::PrintValue",
    "core/autodiff/ops/elementwise.cc: UnaryAdjoint",
    "backends/cpu/plan/lowering.cc: LowerInstruction",
    "backends/cpu/elementwise/elementwise_lowering.cc: ElementwiseProgram::AddCallUpTo",
    "tests/property/magnitude.cc: BoundOf",
    "tests/reference/reference.cc: EvaluateReference",
}


def before(lines, number):
    """The line in front of that one, but for comments."""
    while number > 1 and lines[number - 1].lstrip().startswith("//"):
        number -= 1
    return lines[number - 1]


def parameters(signature):
    """How many a function has; its signature begins with its first parenthesis."""
    count, depth = 0, 0
    for at, c in enumerate(signature):
        depth += (c in "(<[{") - (c in ")]}" or (c == ">" and signature[at - 1] != "-"))
        if depth == 0:
            return count + 1 if signature[1:at].strip() else 0
        count += c == "," and depth == 1
    return count + 1


def functions(lines):
    """(name, first line, number of lines, number of parameters) of each."""
    number = 0
    while number < len(lines):
        line = lines[number]
        if line.endswith("{") and not NOT_A_FUNCTION.match(line):
            # The signature may have begun some lines above.
            start = number
            while start > 0 and number - start < 20 and (
                    lines[start].lstrip().startswith((":", ",")) or before(lines, start).endswith((",", "("))
                    or "".join(lines[start:number + 1]).count(")") > "".join(lines[start:number + 1]).count("(")):
                start -= 1
            signature = " ".join(lines[start:number + 1])
            indent = len(lines[start]) - len(lines[start].lstrip())
            if "(" in signature and not NOT_A_FUNCTION.match(lines[start]) and " = {" not in signature:
                end = number + 1
                while end < len(lines) and not re.match(r"^ {%d}\}" % indent, lines[end]):
                    end += 1
                name = re.search(r"([\w:~]+|TEST_CASE\(\"[^\"]*\")\(", signature)
                title = re.search(r"TEST_CASE\(\"([^\"]*)\"", signature)
                yield (title.group(1) if title else name.group(1) if name else signature.strip()), start + 1, \
                    end - start + 1, parameters(signature[name.end() - 1:]) if name and not title else 0
                number = end
        number += 1


def main():
    least = int(sys.argv[2]) if sys.argv[1:2] == ["--list"] else None
    found, problems = [], []
    for folder in FOLDERS:
        for path in sorted(pathlib.Path(folder).rglob("*")):
            if path.suffix not in (".cc", ".h"):
                continue
            lines = path.read_text().splitlines()
            if len(lines) >= MOST_LINES:
                problems.append(f"{path} has {len(lines)} lines")
            for name, line, count, taken in functions(lines):
                found.append((count, f"{path}:{line}: {name}"))
                key = f"{path}: {name}"
                if count > MOST_FUNCTION and key not in LONG and not str(path).startswith("tests/unit"):
                    problems.append(f"{path}:{line}: {name} has {count} lines")
                if taken > MOST_PARAMETERS:
                    problems.append(f"{path}:{line}: {name} has {taken} parameters")
    if least is not None:
        for count, what in sorted(found, reverse=True):
            if count >= least:
                print(count, what)
        return 0
    for path in [*sorted(pathlib.Path("docs").glob("*.md")), *sorted(pathlib.Path(".").glob("*.md"))]:
        code = False
        for number, line in enumerate(path.read_text().splitlines(), 1):
            code ^= line.startswith("```")
            if len(line) > MOST_PROSE and not code and not line.startswith("|"):
                problems.append(f"{path}:{number} has {len(line)} characters")
    for problem in problems:
        print("FAIL", problem)
    print(f"{len(found) - len(problems)} passed, {len(problems)} failed")
    return bool(problems)


if __name__ == "__main__":
    sys.exit(main())
