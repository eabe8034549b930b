"""The expressions of elementwise.inc, read by nvcc: each becomes a CUDA kernel for each type of arithmetic. The example of
docs/gpu.md compiles.

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
TYPES = {"FLOATING": ("double", "float"), "NUMBER": ("double", "float", "int64_t"), "TRUTH": ("double", "float", "int64_t"),
         "WHOLE": ("int64_t",)}


def expected():
    with open(os.path.join(root, "codelets", "elementwise.inc"), encoding="utf-8") as file:
        rows = re.findall(r"^WEFT_(FLOATING|NUMBER|TRUTH|WHOLE)\((\w+),", file.read(), re.MULTILINE)
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

    def test_example_of_the_page_compiles(self):
        with open(os.path.join(root, "docs", "gpu.md"), encoding="utf-8") as file:
            section = file.read().split("## Own operations")[1].split("\n## ")[0]
        code = "\n".join(line for line in section.splitlines() if line.startswith("    ") or line == "")
        with tempfile.TemporaryDirectory() as folder:
            source = os.path.join(folder, "example.cu")
            with open(source, "w", encoding="utf-8") as file:
                file.write("#include <weft/operation.h>\n" + code)
            done = subprocess.run(
                [nvcc, "-std=c++17", "-Werror", "all-warnings", "--ptx", "-I", os.path.join(root, "include"), "-o",
                 os.path.join(folder, "example.ptx"), source],
                stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, cwd=folder)
            self.assertEqual(done.returncode, 0, done.stdout)


cases.main(Nvcc)
