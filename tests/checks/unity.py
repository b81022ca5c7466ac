"""Names that meet in a batch of the release build: files of one or more folders are compiled together (CMakeLists.txt,
gshard_batch), so two of them must not define the same thing in their anonymous namespaces, nor may one hide a function of ir/
that another calls. Says it in a second; the release build takes minutes.

usage: unity.py, from the top of the checkout

A definition is a line without indentation inside `namespace {`: a constant, a type, or a function with its parameters' types.
"""
import pathlib
import re
import sys

LARGEST = 40000  # bytes of a file that is still compiled in a batch, as in CMakeLists.txt
TYPE = re.compile(r"^(?:class|struct|enum(?: class)?|union) (\w+)(?: final)?(?: :[^:].*)? ?\{")
ALIAS = re.compile(r"^using (\w+) = (.*);")
CONSTANT = re.compile(r"^(?:constexpr|const|static|thread_local|inline)\b[^()]*?\b(\w+)(?:\[\w*\])*(?: =|\{|;)")
FUNCTION = re.compile(r"^[\w:<>,&*\[\] ]+?[ &*](\w+)\((.*?)\)(?: const)?(?: noexcept)? \{")


def parameter_types(text):
    """`const Shape* shape, int64_t n = 0` -> ('const Shape*', 'int64_t')."""
    parts, depth, part = [], 0, ""
    for c in text:
        depth += (c in "<([{") - (c in ">)]}")
        if c == "," and depth == 0:
            parts.append(part)
            part = ""
        else:
            part += c
    parts.append(part)
    types = []
    for part in parts:
        part = re.sub(r"=.*", "", part).strip()
        types.append(re.sub(r"\s*\b\w+$", "", part) if re.search(r"[\w>&*] *[&* ]\w+$", part) else part)
    return tuple(types)


def further_declarators(text):
    """`= 512, kNear = {1, 2}, kWindow = 64 << 10;  // bytes` -> kNear, kWindow."""
    depth, names = 0, []
    for i, c in enumerate(text):
        depth += (c in "([{") - (c in ")]}")
        if c == ";" and depth == 0:
            break
        if c == "," and depth == 0 and (match := re.match(r"[ *&]*(\w+) *[={;,]", text[i + 1:])):
            names.append(match.group(1))
    return names


def definitions(path):
    """(what two files must not share, line, what they may share it for) of each definition in anonymous namespaces."""
    lines = path.read_text().splitlines()
    anonymous = False
    for number, line in enumerate(lines):
        if line == "namespace {":
            anonymous = True
        elif line == "}  // namespace":
            anonymous = False
        if not anonymous or not line or line[0] in " /#}":
            continue
        joined = line
        for more in lines[number + 1:number + 12]:
            if joined.count("(") <= joined.count(")") and joined.rstrip().endswith(("{", ";", "}")):
                break
            joined += " " + more.strip()
        joined = re.sub(r"^template <.*?> ", "", joined)
        if enumerators := re.match(r"^enum (?!class)[^{]*\{(.*)\}", joined):
            for name in re.findall(r"\bk\w+", re.sub(r"=[^,]*", "", enumerators.group(1))):
                yield (name, None), number + 1, path
        for pattern in (TYPE, ALIAS, FUNCTION, CONSTANT):
            if match := pattern.match(joined):
                name = match.group(1)
                types = parameter_types(match.group(2)) if pattern is FUNCTION else None
                # The same alias may stand twice.
                yield (name, types), number + 1, match.group(2) if pattern is ALIAS else path
                if pattern is CONSTANT:
                    for further in further_declarators(joined[match.start(1) + len(name):]):
                        yield (further, None), number + 1, path
                break


def batches():
    """The folders whose files are batched, batch by batch: `gshard_batch(target pattern.. [MOST_BYTES n])`."""
    for listed in sorted(pathlib.Path(".").glob("*/CMakeLists.txt")) + sorted(pathlib.Path(".").glob("*/*/CMakeLists.txt")):
        for match in re.finditer(r"gshard_batch\(\w+ ([^)]*)\)", listed.read_text()):
            folders = []
            for pattern in re.sub(r" MOST_BYTES \d+", "", match.group(1)).split():
                folder, files = (listed.parent / pattern).parent, (listed.parent / pattern).name
                if files != "*.cc" or not any(folder.glob(files)):
                    raise SystemExit(f"{listed}: no sources of a batch are found by {pattern}\n0 passed, 1 failed")
                folders.append(folder)
            yield folders


def types_of_headers(folder):
    """Types of a folder that all of a batch may see, with their headers: of that name something else hides the type from the files
    behind it, or is ambiguous there."""
    return {match.group(1): header for header in sorted(folder.glob("*.h"))
            for match in re.finditer(r"^(?:class|struct|enum class) (\w+)(?: final)? (?::|\{)", header.read_text(), re.M)}


def functions_of_headers(folder):
    """Free functions of a folder, with their headers."""
    found = {}
    for header in sorted(folder.glob("*.h")):
        for match in re.finditer(r"^(?:inline |constexpr )*[A-Za-z_][\w:<>*&, ]*?[ &*](\w+)\([^;{]*[;{]", header.read_text(), re.M):
            found.setdefault(match.group(1), header)
    return found


def hidden_functions(paths, functions):
    """A function in one file's anonymous namespace hides that of a header from all files behind it, whatever its parameters."""
    hiding = {key[0]: (path, line) for path in paths for key, line, _ in definitions(path) if key[0] in functions and key[1] is not None}
    for name, (path, line) in hiding.items():
        for other in paths[paths.index(path) + 1:]:
            defines = any(key[0] == name for key, _, _ in definitions(other))
            if not defines and re.search(rf"(?<![\w.:>]){name}\(", other.read_text()):
                yield f"{path}:{line}: {name} hides that of {functions[name]}, which {other} calls"


def main():
    problems, count, types_of_ir = [], 0, types_of_headers(pathlib.Path("ir"))
    functions_of_ir = functions_of_headers(pathlib.Path("ir"))
    for folders in batches():
        seen, types = {}, dict(types_of_ir)
        for folder in folders:
            types.update(types_of_headers(folder))
        paths = sorted(path for folder in folders for path in folder.glob("*.cc") if path.stat().st_size <= LARGEST)
        problems += hidden_functions(paths, functions_of_ir)
        for path in paths:
            for key, line, same in definitions(path):
                count += 1
                if key[0] in types:
                    problems.append(f"{path}:{line}: {key[0]} is a type of {types[key[0]]}, too")
                if key in seen and seen[key][0] != path and seen[key][2] != same:
                    problems.append(f"{path}:{line}: {key[0]} is also defined in {seen[key][0]}:{seen[key][1]}")
                seen.setdefault(key, (path, line, same))
    for problem in problems:
        print("FAIL", problem)
    print(f"{count - len(problems)} passed, {len(problems)} failed")
    return bool(problems)


if __name__ == "__main__":
    sys.exit(main())
