"""The driver tests of numba-cuda, which its wheel brings: a line for each, with its outcome.

usage: numba_driver.py DIRECTORY MODULE..., where DIRECTORY is where pip installed it
"""
import site
import sys
import unittest
import warnings

site.addsitedir(sys.argv[1])
warnings.simplefilter("ignore")


class Outcomes(unittest.TestResult):
    """Keeps what became of each test; a subtest that fails fails its test."""

    def __init__(self):
        super().__init__()
        self.of = {}

    def note(self, test, outcome):
        test = getattr(test, "test_case", test)
        if self.of.get(test.id()) != "failed":
            self.of[test.id()] = outcome

    def addSuccess(self, test):
        self.note(test, "ok")

    def addFailure(self, test, err):
        self.note(test, "failed")

    def addError(self, test, err):
        self.note(test, "failed")

    def addSkip(self, test, reason):
        self.note(test, "skipped")

    def addExpectedFailure(self, test, err):
        self.note(test, "ok")

    def addUnexpectedSuccess(self, test):
        self.note(test, "failed")

    def addSubTest(self, test, subtest, err):
        if err is not None:
            self.note(test, "failed")


# Some tests start processes, which load this file.
if __name__ == "__main__":
    tests = unittest.defaultTestLoader.loadTestsFromNames(sys.argv[2:])
    outcomes = Outcomes()
    tests.run(outcomes)
    for name, outcome in sorted(outcomes.of.items()):
        print(outcome, name)
