"""Counts named checks and ends with the line every runner here ends with."""
import sys


class Tally:
    def __init__(self):
        self.passed = 0
        self.failed = 0

    def check(self, name, problem):
        """One test: passed if `problem` is empty."""
        if problem:
            self.failed += 1
            print(f"FAILED {name}: {problem}", flush=True)
        else:
            self.passed += 1

    def finish(self):
        print(f"{self.passed} passed, {self.failed} failed")
        sys.exit(1 if self.failed else 0)
