"""The programs of examples/python, and what docs/python.md says that they print."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

import weft_tensors as wt

ROOT = Path(__file__).resolve().parents[2]


def run(name):
    alone = {key: value for key, value in os.environ.items() if not key.startswith(("OMPI_", "PMIX_", "PMI_", "MPI", "PRTE_", "WEFT_RANKS"))}
    done = subprocess.run([sys.executable, str(ROOT / "examples/python" / name)], env=alone, capture_output=True, text=True, timeout=200)
    assert done.returncode == 0 and done.stderr == "", done.stderr
    return done.stdout


@pytest.mark.skipif("wt.process_index() > 0", reason="process 0 does it")
class TestExamples:
    def test_quickstart(self):
        page = (ROOT / "docs/python.md").read_text(encoding="utf-8")
        assert run("quickstart.py") == re.search(r"^```\n(Tensor.*?)^```", page, re.MULTILINE | re.DOTALL)[1]

    def test_tutorial(self):
        lines = [line.rsplit(None, 1) for line in run("tutorial.py").splitlines()]
        numbers = [float(value) for _, value in lines]
        assert numbers[:3] == [16, 256, 1024] and numbers[5] < 1e-3 and numbers[7] < numbers[6] / 100 and numbers[8] < 1e-4

    def test_dtensor(self):
        assert re.fullmatch(r"Tensor\(f32\[1000, 88\] \[S0\] on 4\)\n(iteration \d: -?\d+\.\d+\n){3}", run("dtensor.py"))

    def test_ranks(self):
        assert len(run("ranks.py").splitlines()) == 8


def test_world():
    assert wt.world_size() >= 1
