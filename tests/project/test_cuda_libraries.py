"""A program on a machine without a device maps none of CUDA's large libraries, though weft was built with CUDA: neither when it starts,
nor with a product. CUDA's runtime, of 0.7 MB, is linked.

Argument: the program mapped.c.
"""

import os
import re
import subprocess
import sys
import unittest

import cases

PROGRAM = sys.argv[1]
LARGE = re.compile(r"/lib(cublas|cublasLt|cudnn\w*|cusolver\w*|cusparse|nvJitLink|nccl|curand|cufft)\.so")


class Libraries(unittest.TestCase):
    def setUp(self):
        # None, where there are some.
        environment = {**os.environ, "CUDA_VISIBLE_DEVICES": ""}
        for name in ("WEFT_DEVICES", "LD_PRELOAD"):
            environment.pop(name, None)
        done = subprocess.run([PROGRAM], stdout=subprocess.PIPE, text=True, env=environment, timeout=120)
        self.assertEqual(done.returncode, 0, f"{PROGRAM} failed")
        self.mapped = [line.split(" ", 1) for line in done.stdout.splitlines() if line.startswith(("start ", "end "))]

    def test_that_libraries_are_seen(self):
        for when in ("start", "end"):
            files = " ".join(file for moment, file in self.mapped if moment == when)
            for name in ("libweft.so", "libstarpu", "libcudart.so"):
                self.assertIn(name, files, when)

    def test_none_of_the_large_ones_is_mapped(self):
        large = [f"{when}: {file}" for when, file in self.mapped if LARGE.search(file)]
        self.assertEqual(large, [], "the StarPU that script/bootstrap builds links none of them; readelf -d tells what libstarpu-1.4.so and "
                                    "libweft.so need")


cases.main(Libraries)
