"""The expressions of elementwise.inc, read by nvcc: each becomes a CUDA kernel for each type of arithmetic.

Arguments: nvcc, the root of the sources.
"""

import os
import re
import subprocess
import sys
import tempfile
import unittest

import cases

nvcc, root = os.path.abspath(sys.argv[1]), os.path.abspath(sys.argv[2])
TYPES = {"FLOATING": ("double", "float"), "NUMBER": ("double", "float", "int64_t"), "TRUTH": ("double", "float", "int64_t")}


def expected():
    with open(os.path.join(root, "codelets", "elementwise.inc"), encoding="utf-8") as file:
        rows = re.findall(r"^WEFT_(FLOATING|NUMBER|TRUTH)\((\w+),", file.read(), re.MULTILINE)
    return {f"{name}_{each}" for kind, name in rows for each in TYPES[kind]}


class Nvcc(unittest.TestCase):
    def test_every_expression_is_a_kernel(self):
        with tempfile.TemporaryDirectory() as folder:
            output = os.path.join(folder, "elementwise.ptx")
            done = subprocess.run(
                [nvcc, "-std=c++17", "-fmad=false", "-Werror", "all-warnings", "--ptx", "-I", root, "-I", os.path.join(root, "include"),
                 "-o", output, os.path.join(root, "codelets", "cuda", "elementwise.cu")],
                stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, cwd=folder)
            self.assertEqual(done.returncode, 0, done.stdout)
            with open(output, encoding="utf-8") as file:
                # Mangled names say how long each part is.
                found = re.findall(r"\.entry \w*15run_elementwise\w*?11expressions(\d+)(\w+)", file.read())
                entries = [rest[:int(length)] for length, rest in found]
        self.assertGreater(len(expected()), 200)
        self.assertEqual(set(entries), expected())


cases.main(Nvcc)
