"""DLPack from Python, with ctypes alone: arrays to and from an installed copy of the library.

Argument: build.json of this folder's meson.build. NumPy of any Python on this machine is used, and PyTorch where
WEFT_TEST_PYTHON names a Python that has it.
"""

import os
import subprocess
import sys
import unittest
from pathlib import Path

import cases
from installed import Installed

weft = Installed(sys.argv[1])
program = weft.prefix / "share" / "doc" / "weft" / "examples" / "python" / "dlpack_arrays.py"


def python_with(package):
    """A Python that has the package; None: there is none."""
    for python in (os.environ.get("WEFT_TEST_PYTHON"), sys.executable, "/usr/bin/python3"):
        if python and Path(python).exists() and subprocess.run([python, "-c", f"import {package}"], capture_output=True).returncode == 0:
            return python
    return None


class Dlpack(unittest.TestCase):
    def check(self, python, *arguments):
        library = weft.libraries / "libweft.so"
        text = weft.run([python, program, library, *arguments])
        self.assertEqual(text.count("as expected"), 2, text)

    def test_ctypes(self):
        self.check(sys.executable)

    def test_numpy(self):
        python = python_with("numpy")
        if python is None:
            self.skipTest("no Python here has NumPy (python3-numpy)")
        self.check(python, "numpy")

    def test_torch(self):
        python = python_with("torch")
        if python is None:
            self.skipTest("no Python here has PyTorch (WEFT_TEST_PYTHON)")
        self.check(python, "torch")


if __name__ == "__main__":
    cases.main(Dlpack)
