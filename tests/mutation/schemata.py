"""Mutant schemata: statements that are what they were, or one of their mutants, as a run is asked for.

A statement is read to its end, over as many lines as it has. A mutant is one change of it (KINDS), and its schema the
statement with a choice between both, made by gshard::IsMutant (mutant.h) at run time. No schema can be written for
what is decided when it is compiled (constexpr, templates' heads, the preprocessor), for initialisers in braces, and
for statements that hold other statements, but for the conditions of `if`, `while` and `for`.
"""
import re

# kind: (pattern, replacement), tried at every match.
KINDS = {
    "off by one: + 1": (r" \+ 1\b(?![.'\d])", ""),
    "off by one: - 1": (r" - 1\b(?![.'\d])", ""),
    "off by one: <": (r" < (?=[\w(])", " <= "),
    "off by one: <=": (r" <= ", " < "),
    "off by one: > 1": (r" > 1\b(?![.'\d])", " > 2"),
    "dropped term: +": (r" \+ (?!1\b)\w+(?:\.\w+)*\b(?![.(\[<]|->|::)", ""),
    "dropped term: -": (r" - (?!1\b)\w+(?:\.\w+)*\b(?![.(\[<]|->|::)", ""),
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
    "wrong axis: rank - 1": (r"\b(rank(?:\(\))?) - 1\b", r"\1 - 2"),
    "wrong axis: dim": (r"\bAt\(d\)", "At(d == 0 ? 0 : d - 1)"),
    "wrong identity: infinity": (r"-std::numeric_limits<(\w+)>::infinity\(\)", r"std::numeric_limits<\1>::lowest()"),
    "wrong identity: -0.0": (r"-0\.0\b", "1.0"),
    "wrong reduction: add": (r"\bOpcode::kAdd\b", "Opcode::kMaximum"),
    "wrong reduction: maximum": (r"\bOpcode::kMaximum\b", "Opcode::kMinimum"),
    "wrong answer: true": (r"\breturn true;", "return false;"),
    "wrong answer: false": (r"\breturn false;", "return true;"),
    "dropped step: continue": (r"\bcontinue;", "{}"),
}
# No rules: messages, checks of what cannot be, declarations that hold no expression.
SKIPPED = re.compile(r"^(static_assert|CheckInternal|using |template|case |constexpr|const char)|E-[A-Z]+-|fmt::format|\"")
# A longer one is a table or a body.
MOST_LINES = 12


class Statement:
    """`text`: the lines `first` to `last` (from 0) without comments, joined by blanks."""

    def __init__(self, first, codes):
        self.first, self.last = first, codes[-1][0]
        self.text, self.starts = "", []
        for number, code in codes:
            self.text += " " if self.text else ""
            self.starts.append((len(self.text), number))
            self.text += code.strip()

    def line_of(self, position):
        """The line, from 0, of a character of the text."""
        return [number for start, number in self.starts if start <= position][-1]


def statements(source):
    found, codes = [], []
    for number, line in enumerate(source.split("\n")):
        code = line.split("//")[0].strip()
        if code.startswith("#"):
            codes = []
        elif code:
            codes.append((number, code))
            if code.endswith((";", "{", "}", ":")):
                found.append(Statement(codes[0][0], codes))
                codes = []
    return found


class Mutant:
    """`name`: FILE:LINE:COLUMN KIND, the column that of the statement's text; `old` and `new`: the statement's texts;
    `before`: that of the statement before it; `schema`: function of the mutant's number, or None where none can be
    written."""

    def __init__(self, file, statement, kind, position, new, before, schema):
        self.file, self.statement, self.kind, self.new, self.schema = file, statement, kind, new, schema
        self.before = before
        self.name = f"{file}:{statement.line_of(position) + 1}:{position + 1} {kind}"
        self.old = statement.text

    def change(self):
        """What differs, with some of the text around it."""
        a, b = self.old, self.new
        left = next((i for i, (x, y) in enumerate(zip(a, b)) if x != y), min(len(a), len(b)))
        left = max(0, a.rfind(" ", 0, max(0, left - 20)))
        return f"{a[left:left + 60]} -> {b[left:left + 60]}"


def changed(text, kind, match):
    """The text with a match of its kind's pattern replaced."""
    if kind == "turned condition: if":
        depth, at = 1, match.end()  # to the parenthesis that closes the condition
        while at < len(text) and depth:
            depth += {"(": 1, ")": -1}.get(text[at], 0)
            at += 1
        condition = text[match.end():at - 1]
        return text if depth or ";" in condition or " = " in condition else (
            text[:match.start()] + f"if (!({condition}))" + text[at:])
    return text[:match.start()] + match.expand(KINDS[kind][1]) + text[match.end():]


def mutants(file, source):
    """Every mutant of a file's text."""
    found, all_of_file = [], statements(source)
    for i, statement in enumerate(all_of_file):
        if SKIPPED.search(statement.text) or statement.last - statement.first >= MOST_LINES:
            continue
        before = all_of_file[i - 1].text if i > 0 else ""
        after = all_of_file[i + 1].text if i + 1 < len(all_of_file) else ""
        for kind, (pattern, _) in KINDS.items():
            for match in re.finditer(pattern, statement.text):
                new = changed(statement.text, kind, match)
                if new != statement.text:
                    found.append(Mutant(file, statement, kind, match.start(), new, before, schema(statement.text, new, after)))
    return found


def balanced(text):
    return all(text.count(a) == text.count(b) for a, b in ("()", "[]", "{}"))


# Three groups each: the expression that is chosen, and what stays before and after it.
CONDITION = re.compile(r"^((?:\} else )?(?:if|while) \()([^;]*)(\) \{)$")
LOOP_CONDITION = re.compile(r"^(for \([^;]*; )([^;]+)(; [^;]*\) \{)$")
DECLARATION = re.compile(r"^((?!return|constexpr|static|else|for)(?:const )?[\w:<>,*&]+(?: [\w:<>,*&]+)* [&*]?\w+ = )([^{].*)(;)$")
LOOP_START = re.compile(r"^(for \([\w:<>]+ \w+ = )([^;,]+)(; [^;]*; [^;]*\) \{)$")
# A whole body on one line: of a short function or of a lambda.
BODY = re.compile(r"^(.*\) (?:const |noexcept |override |-> [\w:]+ )*\{ )(return [^;]*;)( \}.*)$")
SIMPLE = re.compile(r"^(return\b|(if|while|for) \(|continue;|break;|[\w.\->\[\]()*]+ (=|[-+*/|&]=) |"
                    r"[\w.\->]+\[[^\]]*\](\.\w+)* (=|[-+*/|&]=) |[\w.\->:]+(<[\w, ]+>)?\()")


def schema(old, new, after):
    """function(number) -> the text that is `new` where mutant `number` is asked for, else `old`; None where there is none.
    `after`: the statement that follows."""
    for form in (CONDITION, LOOP_CONDITION, DECLARATION, LOOP_START):
        a, b = form.match(old), form.match(new)
        if not a or not b or a[1] != b[1] or a[3] != b[3] or re.search(r";| = ", a[2]):
            continue
        if not balanced(a[2]) or not balanced(b[2]):
            return None
        truth = "bool" if form in (CONDITION, LOOP_CONDITION) else ""
        return lambda number: f"{a[1]}gshard::IsMutant({number}) ? {truth}({b[2]}) : {truth}({a[2]}){a[3]}"
    if not balanced(old) or not balanced(new) or re.match(r"else\b", after):
        return None
    a, b = BODY.match(old), BODY.match(new)
    if a and b and a[1] == b[1] and a[3] == b[3]:
        return lambda number: f"{a[1]}if (gshard::IsMutant({number})) {{ {b[2]} }} else {{ {a[2]} }}{a[3]}"
    if not old.endswith(";") or not SIMPLE.match(old):
        return None
    return lambda number: f"if (gshard::IsMutant({number})) {{ {new} }} else {{ {old} }}"


def with_schemata(source, numbered):
    """The text of a file with the schemata of {number: mutant}, of which no two share a statement, and {line: number}. All
    lines stay where they are but for one more at the top."""
    lines, placed = source.split("\n"), {}
    for number, mutant in numbered.items():
        of = mutant.statement
        lines[of.first:of.last + 1] = [mutant.schema(number)] + [""] * (of.last - of.first)
        placed[of.first + 2] = number
    return "\n".join(['#include "tests/mutation/mutant.h"', *lines]), placed
