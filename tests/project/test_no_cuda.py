"""A library that was built without CUDA has nothing of it: no symbol, no library that it needs.

Arguments: the shared library, the static one.
"""

import re
import subprocess
import sys
import unittest

import cases

shared, static = sys.argv[1:3]
OF_CUDA = re.compile(r"^(cuda|cublas|cudnn|nccl|cu[A-Z]|lib(cuda|cublas|nccl))")


def words(*command):
    return subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout.split()


class NoCuda(unittest.TestCase):
    def test_symbols(self):
        symbols = [word.split("@")[0] for word in words("nm", "--format=posix", static)]
        self.assertIn("weft_init", symbols)
        self.assertEqual([symbol for symbol in symbols if OF_CUDA.search(symbol)], [])

    def test_needed_libraries(self):
        needed = re.findall(r"NEEDED.*\[(.*)\]", subprocess.run(["readelf", "-d", shared], check=True, stdout=subprocess.PIPE, text=True).stdout)
        self.assertTrue(any("starpu" in name for name in needed))
        self.assertEqual([name for name in needed if OF_CUDA.search(name)], [])


cases.main(NoCuda)
