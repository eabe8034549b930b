"""Runs unittest's cases and says so as cmocka does: script/count_tests.py reads that."""

import sys
import unittest


class Result(unittest.TestResult):
    def startTest(self, test):
        super().startTest(test)
        print(f"[ RUN      ] {test._testMethodName}", flush=True)

    def addSuccess(self, test):
        super().addSuccess(test)
        print(f"[       OK ] {test._testMethodName}", flush=True)

    def addFailure(self, test, error):
        super().addFailure(test, error)
        self.complain(test, self.failures[-1][1])

    def addError(self, test, error):
        super().addError(test, error)
        self.complain(test, self.errors[-1][1])

    def addSubTest(self, test, subtest, error):
        super().addSubTest(test, subtest, error)
        if error is not None:
            print(self._exc_info_to_string(error, subtest), flush=True)
            self.complain(test, f"{subtest}\n")

    def addSkip(self, test, reason):
        super().addSkip(test, reason)
        print(f"{reason}\n[  SKIPPED ] {test._testMethodName}", flush=True)

    def complain(self, test, text):
        print(f"{text}[  FAILED  ] {getattr(test, '_testMethodName', test)}", flush=True)


def main(*classes):
    """Runs all cases of the classes; exits with 1 unless all pass."""
    suite = unittest.TestSuite(map(unittest.defaultTestLoader.loadTestsFromTestCase, classes))
    result = Result()
    print(f"[==========] Running {suite.countTestCases()} test(s).")
    suite.run(result)
    print(f"[==========] {result.testsRun} test(s) run.")
    sys.exit(0 if result.wasSuccessful() and result.testsRun > 0 else 1)
