"""What gshard-opt propagate prints in Shardy's mode, as lists of mesh axes by dim."""
import re


def dims_of(text):
    """[["a"], []] of `[{"a"}, {}, ..]` or `[{'a'}, {?}]`: the first list in the text."""
    start = text.index("[{") if "[{" in text else text.find("[]")
    if start < 0 or text.startswith("[]", start):
        return []
    return [[re.sub("[\"' ]", "", axis) for axis in dim.split(",") if axis.strip() not in ("", "?")]
            for dim in re.findall(r"\{([^}]*)\}", text[start:text.index("]", start)])]


def attribute(line, start):
    """The text in braces that begins at `start`."""
    depth = 0
    for i in range(start, len(line)):
        depth += {"{": 1, "}": -1}.get(line[i], 0)
        if depth == 0:
            return line[start:i + 1]
    return line[start:]


def values_of(text):
    """{name: dims} of HLO text: arg0, res0; v17: every array that came from the operation of that name, [(shape, dims)].
    None for what is whole."""
    found = {}
    in_entry = False
    for line in text.split("\n"):
        in_entry = in_entry or line.startswith("ENTRY ")
        match = re.match(r"\s+(ROOT )?%\S+ = (\(.*?\)|\w+\[([\d,]*)\]\S*) ([\w-]+)\((\d*)", line)
        if not match:
            continue
        start = line.find(" sharding={")
        sharding = attribute(line, start + 10) if start >= 0 else ""
        dims = dims_of(re.sub(r"mesh\[[^\]]*\], ", "", sharding)) if sharding and not sharding.startswith("{{") else None
        if match[4] == "parameter" and in_entry:
            found.setdefault(f"arg{match[5]}", dims)
        if match[1] and in_entry:
            parts = re.findall(r"\{mesh\[[^\]]*\], (\[.*?\])[,}]|(\{replicated\})", sharding) if sharding.startswith("{{") else None
            for i, (part, _) in enumerate(parts or []):
                found[f"res{i}"] = dims_of(part) if part else None
            if parts is None:
                found["res0"] = dims
        name = re.search(r'op_name="(?:[^"]*/)?(v\d+)"', line)
        if name and match[3] is not None:
            shape = tuple(int(n) for n in match[3].split(",") if n)
            found.setdefault(name[1], []).append((shape, dims))
    return found


def same(a, b):
    return (a if a and any(a) else None) == (b if b and any(b) else None)
