#!/usr/bin/env python3
"""What mutants.py makes of suites that fail, hang, or are late: no accident of a busy machine counts as a kill."""
import os
import sys
import unittest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import mutants  # noqa: E402

GOLDEN = ("golden", "gshard_golden", 60)
UNIT = ("unit core", "gshard_unit_core", 60)


class Judge(unittest.TestCase):
    def judge(self, **ends):
        """Of a mutant, where the runs of a suite end with these (exit code, output) one after the other."""
        mutants.run_suite = lambda tree, suite, memory: ends[suite[0].split()[0]].pop(0)
        verdict = mutants.judge(".", 1, [GOLDEN, UNIT])
        self.assertTrue(all(not left for left in ends.values()), "runs that were not made")
        return verdict

    def test_passing_is_surviving(self):
        self.assertEqual(self.judge(golden=[(0, "")], unit=[(0, "")]), ("survived", ""))

    def test_failing_twice_kills(self):
        self.assertEqual(self.judge(golden=[(1, ""), (1, "")], unit=[]), ("killed", "golden"))

    def test_an_accident_is_no_kill(self):
        self.assertEqual(self.judge(golden=[(1, ""), (0, "")], unit=[(0, "")]), ("survived", ""))

    def test_time_by_the_clock_is_no_kill(self):
        late = (1, "exit code 124 instead of 0 (out of time)")
        self.assertEqual(self.judge(golden=[late, late], unit=[(0, "")]), ("undecided", "golden"))
        self.assertEqual(self.judge(golden=[(None, "hangs"), late], unit=[(1, ""), (1, "")]), ("killed", "unit core"))

    def test_processor_time_kills(self):
        self.assertEqual(self.judge(golden=[(137, "")], unit=[]), ("killed", "golden (hangs)"))
        self.assertEqual(self.judge(golden=[(0, "")], unit=[(-9, "")]), ("killed", "unit core (hangs)"))

    def test_processor_time_is_limited(self):
        self.assertEqual(mutants.run("while :; do :; done", ".", 1)[0], -9)


if __name__ == "__main__":
    unittest.main()
