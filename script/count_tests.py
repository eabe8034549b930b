"""Counts cmocka's test cases in the logs of `meson test`; see script/test.

Usage: count_tests.py HOW=testlog.json...

Prints every program's counts beside cmocka's own and, last, one line alone: N passed, N failed[, N skipped].
A program of the suite `programs` is a case itself, by its exit status; any other one without a case has failed.
Exits with 1 when a case failed or none passed.
"""

import json
import re
import sys
from collections import Counter, defaultdict

# What `mpirun --tag-output` puts before each line: [job,rank]<stream>: and MPICH's `mpirun -prepend-rank`: [rank]
TAG = re.compile(r"^\[(?:\d+,)?(\d+)\](?:<std(?:out|err)>:| )")
# A process that wrote a part of a line when another one spoke: tags stand inside of lines then.
INNER_TAG = re.compile(r"(?<!^)(?=\[\d+,\d+\]<std(?:out|err)>:)", re.MULTILINE)
LINE = re.compile(r"\[\s*(RUN|OK|FAILED|SKIPPED|ERROR)\s*\] (.+?)\s*$")


def lines_of(test):
    return INNER_TAG.sub("\n", test.get("stdout", "") + "\n" + test.get("stderr", "")).splitlines()


def outcomes(test):
    """{(case, occurrence): "passed" | "failed" | "skipped"} of one run of a program, on all its processes."""
    counts = defaultdict(lambda: defaultdict(Counter))  # rank -> case -> what -> how often
    for line in lines_of(test):
        tag = TAG.match(line)
        found = LINE.search(line)
        if found:
            counts[tag.group(1) if tag else "0"][found.group(2)][found.group(1)] += 1
    result = {}
    for cases in counts.values():
        for case, what in cases.items():
            for occurrence in range(what["RUN"]):
                # A case that began and did not end well has failed: it may have ended the program.
                if occurrence < what["OK"]:
                    outcome = "passed"
                elif what["SKIPPED"] and not what["FAILED"] and not what["ERROR"]:
                    outcome = "skipped"
                else:
                    outcome = "failed"
                merge(result, (case, occurrence), outcome)
    if test["returncode"] != 0 and "failed" not in result.values():
        # A sanitizer's report at the end, a crash or a time-out outside of any case.
        result[("(the program itself)", 0)] = "failed"
    elif not result and "programs" in re.split("[:+]", test["name"].split(" / ")[0]):
        result[("(the program itself)", 0)] = "passed"
    elif not result:
        result[("(ran no test case)", 0)] = "failed"
    return result


def merge(result, key, outcome):
    """The worst of several runs counts."""
    order = ["skipped", "passed", "failed"]
    if key not in result or order.index(outcome) > order.index(result[key]):
        result[key] = outcome


def own_summary(test):
    """cmocka's own last lines, each once with the number of processes that printed it."""
    lines = Counter()
    for line in lines_of(test):
        line = TAG.sub("", line)
        if re.match(r"\[[ =A-Z]+\] \d+ test\(s\)( run|\.|,)", line):
            lines[line.replace(", listed below:", "")] += 1
    return [line + (f"   (x {count})" if count > 1 else "") for line, count in lines.items()]


def describe(tally):
    text = f"{tally['passed']} passed, {tally['failed']} failed"
    return text + (f", {tally['skipped']} skipped" if tally["skipped"] else "")


def main(arguments):
    total = {}
    for argument in arguments:
        how, path = argument.split("=", 1)
        print(f"\n{how}:")
        with open(path, encoding="utf-8") as log:
            tests = [json.loads(line) for line in log if line.strip()]
        for test in tests:
            name = test["name"].split(" / ")[-1]
            result = outcomes(test)
            print(f"  {name:30} {describe(Counter(result.values())):32} {test['duration']:7.2f} s")
            for line in own_summary(test):
                print(f"      {line}")
            for (case, occurrence), outcome in result.items():
                if outcome == "failed":
                    print(f"      FAILED  {case}")
                merge(total, (name, case, occurrence), outcome)
    tally = Counter(total.values())
    print()
    print(describe(tally))
    return 1 if tally["failed"] or not tally["passed"] else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
