"""Row D2 of what weft must do, in a recorded trace: the consumer's first task starts before the last message has come.

Arguments: script/profile, the program of withheld_program.c, mpirun.
"""

import json
import os
import re
import subprocess
import sys
import tempfile
import unittest

import cases

script, program, mpirun = map(os.path.abspath, sys.argv[1:4])


class TraceTest(unittest.TestCase):
    def record(self, processes):
        """The lanes of the first process: (label, [(name, start, end), ...]); times in microseconds."""
        with tempfile.TemporaryDirectory() as folder:
            out = os.path.join(folder, "out")
            done = subprocess.run(
                [script, "--output", out, "--json", mpirun, "-n", str(processes), program],
                stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, timeout=150,
            )
            self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
            with open(os.path.join(out, "timeline.html"), encoding="utf-8") as file:
                page = json.loads(re.search(r'id="data">(.*?)</script>', file.read(), re.DOTALL)[1])
        lanes = []
        for lane in page["lanes"]:
            bars = zip(lane["name"], lane["start"], lane["length"], lane["kind"])
            lanes.append((lane["label"], [(page["names"][n], s, s + l, page["kinds"][k]) for n, s, l, k in bars]))
        return lanes

    def test_d2_first_task_before_last_message(self):
        """Process 0: its tasks of "consume" that need other ranks' rows, and the messages that bring them."""
        lanes = self.record(2)
        of_first = []
        for label, bars in lanes:
            if "process 1" in label:
                break
            of_first += bars
        received = sorted(end for _, _, end, kind in of_first if kind == "in")
        consumed = sorted(start for name, start, _, kind in of_first if name.startswith("consume") and kind != "in")
        self.assertEqual(len(consumed), 4, lanes)
        self.assertGreater(len(received), 1)
        self.assertLess(consumed[0], received[-1])
        # Three rows do not need the last message, one of them another message.
        self.assertLess(consumed[2], received[-1])
        self.assertGreaterEqual(consumed[3], received[-1])


cases.main(TraceTest)
