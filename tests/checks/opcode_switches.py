"""Every switch on opcodes says why it need not know all of them, or knows all of them.

usage: opcode_switches.py [--list], from the top of the checkout   --list: all that have a default, with the reasons

What is true of an operation by its nature is a column of ir/opcodes.def, asked for through ir/op_traits.h: a list of opcodes in
an analysis is told of no new one. A switch on opcodes outside of ir/ and of the folders `ops`, which hold a rule an opcode, is
therefore either exhaustive (without `default:`, so that the compiler names what is missing) or gives its reason as a comment on
its first line or on that of its `default:`.
"""
import pathlib
import re
import sys

FOLDERS = ["core", "backends", "cmd"]
SWITCH = re.compile(r"\bswitch \(")


def block(text, at):
    """The end of the block whose `{` is the first one from there."""
    depth, i = 0, text.index("{", at)
    while True:
        if text[i] == "'" and text[i + 2] == "'":  # '{'
            i += 3
            continue
        if text[i] == '"':
            i += 1
            while text[i] != '"':
                i += 2 if text[i] == "\\" else 1
        depth += {"{": 1, "}": -1}.get(text[i], 0)
        i += 1
        if depth == 0:
            return i


def own_cases(body):
    """The body of a switch without the bodies of switches in it."""
    out, at = "", 0
    for inner in SWITCH.finditer(body):
        if inner.start() < at:
            continue
        out += body[at:inner.start()]
        at = block(body, inner.start())
    return out + body[at:]


def main():
    listing = sys.argv[1:] == ["--list"]
    count, missing = 0, []
    for folder in FOLDERS:
        for path in sorted(pathlib.Path(folder).rglob("*")):
            if path.suffix not in (".cc", ".h") or "ops" in path.parts:
                continue
            text = path.read_text()
            for switch in SWITCH.finditer(text):
                opening = text.index("{", switch.end())
                body = own_cases(text[opening + 1:block(text, opening) - 1])
                if "case Opcode::" not in body:
                    continue
                default = re.search(r"default:[ \t]*(//[ \t]*\S.*)?$", body, re.M)
                if default is None:
                    continue
                count += 1
                first = re.match(r"{[ \t]*(//[ \t]*\S.*)$", text[opening:], re.M)
                reason = default.group(1) or (first.group(1) if first else None)
                place = f"{path}:{text.count(chr(10), 0, switch.start()) + 1}"
                if reason is None:
                    missing.append(place)
                elif listing:
                    print(f"{place}: {reason[2:].strip()}")
    for place in missing:
        print(f"{place}: a switch on opcodes with a `default:` that does not say why: ask ir/op_traits.h, list all opcodes, or give "
              "the reason behind `default:`")
    print(f"{count} switches on opcodes have a default, {len(missing)} of them without a reason")
    sys.exit(1 if missing else 0)


if __name__ == "__main__":
    main()
