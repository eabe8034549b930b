"""Prints outcomes as cmocka does: script/count_tests.py reads that. The world is the environment's: WEFT_RANKS, mpirun."""

import gc
import os

import pytest

import weft_tensors as wt


def pytest_sessionstart(session):
    wt.init()


def pytest_collection_modifyitems(items):
    """WEFT_TEST_PART, K/N: the K-th of N parts of the cases."""
    part, parts = map(int, os.environ.get("WEFT_TEST_PART", "1/1").split("/"))
    items[:] = items[part - 1::parts]


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item, call):
    outcome = yield
    report = outcome.get_result()
    if report.when == "call" or report.outcome != "passed":
        name = item.name
        if report.outcome == "skipped":
            say(f"{report.longrepr[2] if isinstance(report.longrepr, tuple) else report.longrepr}\n[  SKIPPED ] {name}")
        elif report.outcome == "failed":
            say(f"{report.longreprtext}\n[  FAILED  ] {name}")
        else:
            say(f"[       OK ] {name}")


def say(text):
    """In whole lines: mpirun puts what comes from several processes together as it comes."""
    print(text + "\n", end="", flush=True)


def pytest_report_teststatus(report, config):
    """No dots, which are parts of lines."""
    if report.when == "call" or report.outcome != "passed":
        return report.outcome, "", ""
    return "", "", ""


def pytest_runtest_setup(item):
    say(f"[ RUN      ] {item.name}")


def pytest_runtest_teardown(item):
    gc.collect()


def pytest_sessionfinish(session, exitstatus):
    say(f"[==========] {session.testscollected} test(s) run.")


@pytest.fixture
def mesh():
    """All ranks, in two dimensions where their number allows."""
    ranks = wt.world_size()
    return wt.Mesh((2, ranks // 2) if ranks % 2 == 0 else (1, ranks), ("dp", "tp"))


LAYOUTS = ["R,R", "S0,R", "R,S1", "S1,S0", "S0,S0"]
