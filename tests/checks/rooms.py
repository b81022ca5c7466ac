"""The rooms of the house: which folder may include which, as docs/architecture.md says and as the sources do.

usage: rooms.py [--print], from the top of the checkout   --print: every room's real includes

The table `| room | holds | may include |` of docs/architecture.md has a row for each folder with sources under ir/, core/,
backends/ and cmd/. Several names in the first column are one room; a name may also be one unit (`core/json`: json.h and json.cc).
An entry of the last column is a room, the last part of the name of a room in or beside this one, `room/*` (the room and all
below it), or `*` (all rooms in this one). The check fails on
  - a folder without a row, a row without sources
  - an #include that the row does not allow (told with file and line), an entry that no #include needs
  - a cycle between rooms
  - a room of more than 25 units (x.h and x.cc are one), but for `ir` and the `ops` folders, one file a family
  - a library included elsewhere than the table `| header | included by |` says
"""
import collections
import pathlib
import re
import sys

TREES = ["ir", "core", "backends", "cmd"]
DOCUMENT = pathlib.Path("docs/architecture.md")
MOST_UNITS = 25
INCLUDE = re.compile(r'^\s*#\s*include\s+(?:"([^"]+)"|<([^>]+)>)')


def sources():
    for tree in TREES:
        for path in sorted(pathlib.Path(tree).rglob("*")):
            if path.suffix in (".h", ".cc", ".def"):
                yield path


class Row:
    def __init__(self, names, entries, line):
        self.names, self.entries, self.line = names, entries, line


def table(first, last):
    """The rows of the table whose header is `| first | … | last |`."""
    rows, inside = [], False
    for number, line in enumerate(DOCUMENT.read_text().splitlines(), 1):
        cells = [cell.strip() for cell in line.strip().strip("|").split("|")]
        if line.startswith("|") and cells[0] == first and cells[-1] == last:
            inside = True
        elif not line.startswith("|"):
            inside = False
        elif inside and not set(cells[0]) <= set("-: "):
            rows.append(Row(re.findall(r"`([^`]+)`", cells[0]), re.findall(r"`([^`]+)`", cells[-1]), number))
    return rows


def parent(name):
    return str(pathlib.PurePath(name).parent)


class House:
    """The rooms as the table names them, and what their files include."""

    def __init__(self, rows):
        self.room_of_name = {name: row.names[0] for row in rows for name in row.names}
        self.units = collections.defaultdict(set)  # folder -> units
        self.edges = collections.defaultdict(dict)  # room -> included room -> "file:line" of the first
        self.libraries = collections.defaultdict(list)  # header -> [(file, line)]
        self.unnamed = []
        for path in sources():
            self.units[parent(path)].add(path.stem)
            self.read(path)

    def room(self, path):
        unit = str(pathlib.PurePath(path).with_suffix(""))
        return self.room_of_name.get(unit) or self.room_of_name.get(parent(path)) or parent(path)

    def read(self, path):
        room = self.room(path)
        self.edges[room]
        for number, line in enumerate(path.read_text().splitlines(), 1):
            match = INCLUDE.match(line)
            if not match:
                continue
            target = match.group(1) or match.group(2)
            if target.split("/")[0] not in TREES:
                self.libraries[target].append((str(path), number))
            elif not pathlib.Path(target).exists():
                self.unnamed.append(f"{path}:{number}: there is no '{target}'")
            elif self.room(target) != room:
                self.edges[room].setdefault(self.room(target), f"{path}:{number}")

    def meant(self, row, entry):
        """The rooms that an entry of a row stands for."""
        room = row.names[0]
        if entry == "*":
            return {name for name in self.edges if name.startswith(room + "/")}
        if entry.endswith("/*"):
            tree = entry[:-2]
            return {name for name in self.edges if name == tree or name.startswith(tree + "/")}
        for name in (entry, f"{room}/{entry}", f"{parent(room)}/{entry}"):
            if name in self.edges:
                return {name}
        return set()


def check_table(house, rows):
    for folder in sorted(house.units):
        if folder not in house.room_of_name:
            yield f"{DOCUMENT}: the table has no row for the room {folder}"
    for row in rows:
        where = f"{DOCUMENT}:{row.line}"
        for name in row.names:
            if name not in house.units and pathlib.PurePath(name).name not in house.units[parent(name)]:
                yield f"{where}: {name} has no sources"
        real, allowed = house.edges[row.names[0]], set()
        for entry in row.entries:
            meant = house.meant(row, entry)
            allowed |= meant
            if not meant & real.keys():
                yield f"{where}: {row.names[0]} may include {entry}, and no file does"
        for target, place in sorted(real.items()):
            if target not in allowed:
                yield f"{place}: {row.names[0]} includes {target}, which {where} does not allow"


def cycle(edges):
    """The rooms of one cycle, or none: depth first."""
    state, path = {}, []

    def visit(room):
        state[room] = "open"
        path.append(room)
        for target in sorted(edges.get(room, {})):
            if state.get(target) == "open":
                return path[path.index(target):] + [target]
            if target not in state:
                found = visit(target)
                if found:
                    return found
        path.pop()
        state[room] = "done"
        return None

    for room in sorted(edges):
        if room not in state:
            found = visit(room)
            if found:
                return found
    return None


def check_cycles(house):
    found = cycle(house.edges)
    if found:
        places = [house.edges[a][b] for a, b in zip(found, found[1:])]
        yield f"a cycle between rooms: {' -> '.join(found)} ({', '.join(places)})"


def check_sizes(house):
    for folder, units in sorted(house.units.items()):
        if len(units) > MOST_UNITS and folder != "ir" and not folder.endswith("/ops"):
            yield f"{folder} has {len(units)} units, more than {MOST_UNITS}: make rooms in it"


def check_libraries(house, rows):
    for row in rows:
        for header in row.names:
            places = [place for name, places in house.libraries.items() for place in places
                      if pathlib.PurePath(name).match(header)]
            for file, line in places:
                if not any(pathlib.PurePath(file).match(entry) for entry in row.entries):
                    yield f"{file}:{line}: <{header}> is for {', '.join(row.entries)} only"
            if not places:
                yield f"{DOCUMENT}:{row.line}: nothing includes <{header}>"


def main():
    rows, libraries = table("room", "may include"), table("header", "included by")
    house = House(rows)
    if "--print" in sys.argv:
        for room, targets in sorted(house.edges.items()):
            print(f"| `{room}` | {len(house.units[room])} | {', '.join(f'`{t}`' for t in sorted(targets)) or '–'} |")
        return 0
    checks = {
        "the tables are there": [] if rows and libraries else [f"{DOCUMENT} has no table of rooms or none of libraries"],
        "includes name files": house.unnamed,
        "the table equals the includes": list(check_table(house, rows)),
        "no cycle between rooms": list(check_cycles(house)),
        "no crowded room": list(check_sizes(house)),
        "libraries behind few files": list(check_libraries(house, libraries)),
    }
    for name, problems in checks.items():
        for problem in problems:
            print(f"FAIL {name}: {problem}")
    bad = sum(1 for problems in checks.values() if problems)
    print(f"{len(checks) - bad} passed, {bad} failed")
    return bad != 0


if __name__ == "__main__":
    sys.exit(main())
