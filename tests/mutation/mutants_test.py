#!/usr/bin/env python3
"""What mutants.py makes of suites that fail, hang, or are late: no accident of a busy machine counts as a kill. And what
schemata.py writes: a program that has all mutants of itself, asked for one, does what that mutant's own source does."""
import os
import subprocess
import sys
import tempfile
import unittest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import mutants  # noqa: E402
import schemata  # noqa: E402

HERE = os.path.dirname(os.path.abspath(__file__))
TOP = os.path.join(HERE, "../..")


class Judge(unittest.TestCase):
    def judge(self, lanes=1, **ends):
        """Of a mutant, where the runs of a test end with these (exit code, output) one after the other; the tests in order of
        their time."""
        real = mutants.run
        mutants.run = lambda command, tree, seconds, memory, wall, stop, GSHARD_MUTANT: ends[command].pop(0)
        try:
            verdict = mutants.judge(".", 1, {name: second for second, name in enumerate(ends)}, lanes)
        finally:
            mutants.run = real
        self.assertTrue(all(not left for left in ends.values()), "runs that were not made")
        return verdict

    def test_passing_is_surviving(self):
        self.assertEqual(self.judge(golden=[(0, "")], unit=[(0, "")]), ("survived", ""))

    def test_no_test_is_surviving(self):
        self.assertEqual(self.judge(lanes=2), ("survived", ""))

    def test_failing_twice_kills(self):
        self.assertEqual(self.judge(golden=[(1, ""), (1, "")], unit=[]), ("killed", "golden"))

    def test_an_accident_is_no_kill(self):
        self.assertEqual(self.judge(golden=[(1, ""), (0, "")], unit=[(0, "")]), ("survived", ""))

    def test_time_by_the_clock_is_no_kill(self):
        late = (1, "exit code 124 instead of 0 (out of time)")
        self.assertEqual(self.judge(golden=[late, late], unit=[(0, "")]), ("undecided", "golden"))
        self.assertEqual(self.judge(golden=[(None, "hangs"), late], unit=[(1, ""), (1, "")]), ("killed", "unit"))
        self.assertEqual(self.judge(lanes=2, golden=[late, late], unit=[(0, "")]), ("undecided", "golden"))

    def test_processor_time_kills(self):
        self.assertEqual(self.judge(golden=[(137, "")], unit=[]), ("killed", "golden (hangs)"))
        self.assertEqual(self.judge(golden=[(0, "")], unit=[(-9, "")]), ("killed", "unit (hangs)"))

    def test_processor_time_is_limited(self):
        self.assertEqual(mutants.run("while :; do :; done", ".", 1)[0], -9)

    def test_one_lane_ends_the_other(self):
        """A test that would run for a minute is ended where another one has failed, and does not count."""
        with tempfile.TemporaryDirectory() as folder:
            self.assertEqual(mutants.judge(folder, 1, {"sleep 60; touch ended": 1, "exit 1": 2}, 2), ("killed", "exit 1"))
            self.assertEqual(os.listdir(folder), [])

    def test_a_run_is_of_one_mutant(self):
        self.assertEqual(mutants.judge(".", 7, {"test $GSHARD_MUTANT = 7": 1}), ("survived", ""))
        self.assertEqual(mutants.judge(".", 7, {"test $GSHARD_MUTANT != 7": 1})[0], "killed")


# Every form that a schema can have; prints one line a mutant that differs from the others.
PROGRAM = """#include <algorithm>
#include <cstdint>
#include <cstdio>
int64_t Size(int64_t a) { return a + 1; }
// One statement on three lines,
int64_t Of(int64_t a, int64_t b) {
  return 100 * a +
         // with a comment within it,
         10 * b + a;
}
int main() {
  int64_t sum = 7 - 1;
  const int64_t least = std::min(sum, int64_t{3});
  for (int64_t i = 0; i < 4; ++i) {
    if (i == 2) continue;
    sum += i * sum;
    if (i > 1 && sum > 20) {
      sum += 1000;
    } else if (i <= 1) {
      sum += 5;
    }
  }
  int64_t list[3] = {1, 2, 3};
  list[1] = Size(2) - 1;
  const auto twice = [&](int64_t x) { return x + least; };
  while (list[0] < 9) list[0] += list[2] * sum;
  std::printf("%d %d %d %d %d\\n", int(sum), int(list[0]), int(list[1]), int(twice(least)), int(Of(sum, least)));
}
"""


class Schemata(unittest.TestCase):
    def output(self, folder, name, source, number=0):
        """Of a program, compiled under this name unless it is there."""
        path = os.path.join(folder, name)
        if not os.path.exists(path):
            with open(path + ".cc", "w") as opened:
                opened.write(source)
            subprocess.run(["g++", "-std=c++20", "-I", TOP, "-o", path, path + ".cc"], check=True)
        return mutants.run(path, folder, 5, GSHARD_MUTANT=str(number))

    def test_each_mutant_is_its_own_source(self):
        found = schemata.mutants("program.cc", PROGRAM)
        self.assertTrue(all(mutant.schema for mutant in found))
        one_each = {mutant.statement.first: mutant for mutant in found if "wrong" not in mutant.kind}
        numbered = dict(enumerate(one_each.values(), 1))
        self.assertGreaterEqual(len(numbered), 10)
        lines, differ = PROGRAM.split("\n"), 0
        with tempfile.TemporaryDirectory() as folder:
            with_all, _ = schemata.with_schemata(PROGRAM, numbered)
            plain = self.output(folder, "plain", PROGRAM)
            self.assertEqual(plain, self.output(folder, "all", with_all))
            for number, mutant in numbered.items():
                of = mutant.statement
                alone = lines[:of.first] + [mutant.new] + lines[of.last + 1:]
                expected = self.output(folder, f"alone{number}", "\n".join(alone))
                self.assertEqual(expected, self.output(folder, "all", with_all, number), mutant.name)
                differ += expected != plain
        self.assertGreaterEqual(differ, len(numbered) - 2)  # few of them change nothing

    def test_what_a_run_reaches(self):
        """The mutants whose statements are run, and no others."""
        source = "#include <cstdio>\nint F(int a) { return a + 1; }\nint G(int a) {\n  return a - 1;\n}\nint main() { return F(-1); }\n"
        found = schemata.mutants("x.cc", source)
        self.assertEqual([mutant.kind for mutant in found], ["off by one: + 1", "off by one: - 1"])
        with tempfile.TemporaryDirectory() as folder:
            text, _ = schemata.with_schemata(source, {4: found[0], 5: found[1]})
            told = os.path.join(folder, "told")
            self.output(folder, "all", text)
            self.assertEqual(mutants.run("./all", folder, 5, GSHARD_MUTANTS_REACHED=told)[0], 0)
            with open(told) as opened:
                self.assertEqual(opened.read().split(), ["4"])

    def test_no_schema_where_none_can_be_written(self):
        for source in ("constexpr int kSize = 4 + 1;", "  int a = 4 - b, c = 3;", "Piece piece{first, last - 1};",
                       "f([&] {", "template <int n = m - 1>", "#define SIZE(a) a + 1"):
            self.assertTrue(all(mutant.schema is None for mutant in schemata.mutants("x.cc", source)), source)

    def test_lines_stay_where_they_are(self):
        mutant = next(m for m in schemata.mutants("x.cc", PROGRAM) if m.statement.last > m.statement.first)
        text, placed = schemata.with_schemata(PROGRAM, {1: mutant})
        self.assertEqual(len(text.split("\n")), len(PROGRAM.split("\n")) + 1)
        self.assertIn("IsMutant(1)", text.split("\n")[next(iter(placed)) - 1])

    def test_sample_of_our_rules(self):
        """From every area, no statement twice, the same for the same seed."""
        found = mutants.all_mutants(TOP)
        sample = mutants.sample_of(found, 200, 7)
        self.assertEqual(len(sample), 200)
        for area in mutants.AREAS:
            self.assertEqual(sum(mutants.area_of(mutant.file) == area for mutant in sample), 40)
        self.assertEqual(len({(mutant.file, mutant.statement.first) for mutant in sample}), 200)
        self.assertEqual([m.name for m in sample], [m.name for m in mutants.sample_of(found, 200, 7)])

    def test_a_sample_is_carried_to_later_sources(self):
        """By its statements, wherever they are; what is gone gives its place to what was drawn next."""
        before = "  g();\n  int a = b + 1;\n  int c = d - 1;\n  h();\n  int a = b + 1;\n  int e = f + 1;\n"
        after = "\n  h();\n  int a = b + 1;\n  int e = f + 1;\n  g();\n  int a = b + 1;\n"
        file = "core/propagation/x.cc"
        then, now = (schemata.mutants(file, source) for source in (before, after))
        kept, replaced = mutants.carried(then, then, now, 3)
        self.assertEqual(({n: m.name for n, m in kept.items()}, replaced),
                         ({1: f"{file}:6:10 off by one: + 1", 2: f"{file}:4:10 off by one: + 1",
                           3: f"{file}:3:10 off by one: + 1"}, [2]))


if __name__ == "__main__":
    unittest.main()
