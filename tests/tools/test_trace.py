"""In a recorded trace: the consumer's first task starts before the last message has
come; the messages of a gradient's reduction run while the backward pass computes.

Arguments: script/profile, the programs of withheld_program.c and overlap_program.c, mpirun.
"""

import json
import os
import re
import subprocess
import sys
import tempfile
import unittest

import cases

script, withheld, overlap, mpirun = map(os.path.abspath, sys.argv[1:5])


class TraceTest(unittest.TestCase):
    def record(self, program, processes):
        """All lanes: (label, [(name, start, end, kind), ...]); times in microseconds."""
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

    def record_first(self, program):
        """All lanes of two processes, and the bars of the first one."""
        lanes, of_first = self.record(program, 2), []
        for label, bars in lanes:
            if "process 1" in label:
                break
            of_first += bars
        return lanes, of_first

    def test_d2_first_task_before_last_message(self):
        """Process 0: its tasks of "consume" that need other ranks' rows, and the messages that bring them."""
        lanes, of_first = self.record_first(withheld)
        received = sorted(end for _, _, end, kind in of_first if kind == "in")
        consumed = sorted(start for name, start, _, kind in of_first if name.startswith("consume") and kind != "in")
        self.assertEqual(len(consumed), 4, lanes)
        self.assertGreater(len(received), 1)
        self.assertLess(consumed[0], received[-1])
        # Three rows do not need the last message, one of them another message.
        self.assertLess(consumed[2], received[-1])
        self.assertGreaterEqual(consumed[3], received[-1])

    def test_d3_reduction_under_the_backward_pass(self):
        """The task that reads the reduced gradient runs before a task of the backward pass ends, which waits for it; so does a
        message of the process after its own forward pass has come to the last layer. (Those of a faster process come earlier.)"""
        lanes, of_first = self.record_first(overlap)
        tasks = {name: [(start, end) for found, start, end, kind in of_first if found.startswith(name) and kind != "in"]
                 for name in ("pass_rows", "mark_reduced", "await_reduction")}
        for name, found in tasks.items():
            self.assertGreater(len(found), 0, (name, lanes))
        forward_ends = min(end for _, end in tasks["pass_rows"])
        backward_ends = max(end for _, end in tasks["await_reduction"])
        reads = min(start for start, _ in tasks["mark_reduced"])
        messages = [(start, end) for _, start, end, kind in of_first
                    if kind in ("in", "out") and forward_ends <= end <= backward_ends]
        self.assertGreater(len(messages), 0, lanes)
        self.assertLess(reads, backward_ends)


cases.main(TraceTest)
