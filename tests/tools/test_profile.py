"""script/profile on a real program: what weft counted must be what the timeline shows.

Arguments: script/profile, the program of profile_program.c, mpirun.
"""

import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import unittest
import xml.etree.ElementTree as ElementTree

import cases

script, program, mpirun = map(os.path.abspath, sys.argv[1:4])


class Profile:
    """One run: its figures, what the program counted in all its processes, and the folder with the
    results."""

    def __init__(self, folder, *command):
        self.folder = folder
        done = subprocess.run(
            [script, "--output", folder, "--json", *command], stdout=subprocess.PIPE, text=True, timeout=100
        )
        if done.returncode != 0:
            raise AssertionError(f"script/profile ended with status {done.returncode}: {done.stdout}")
        counted = re.findall(r"counted (\d+) (\d+) (\d+)", done.stdout)
        self.counted = [[int(number) for number in each] for each in counted]
        self.figures = json.loads(done.stdout.strip().split("\n")[-1])

    def text(self, name):
        with open(os.path.join(self.folder, name), encoding="utf-8") as file:
            return file.read()

    def total(self):
        return [sum(each) for each in zip(*self.counted)]

    def page(self):
        """What the page draws."""
        return json.loads(re.search(r'id="data">(.*?)</script>', self.text("timeline.html"), re.DOTALL)[1])


class RunTest(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()

    def tearDown(self):
        self.folder.cleanup()

    def profile(self, *command):
        return Profile(os.path.join(self.folder.name, "out"), *command)

    def check(self, profile, processes):
        """All tasks and all messages, in the figures, in the page and in StarPU's files."""
        tasks, messages, size = profile.total()
        together = profile.figures["all"]
        self.assertEqual(len(profile.counted), processes)
        self.assertEqual(len(profile.figures["processes"]), processes)
        self.assertGreater(tasks, 0)
        self.assertEqual(
            [together["tasks"], together["messages"], together["bytes"]], [tasks, messages, size]
        )
        self.assertEqual(profile.figures["unmatched_messages"], 0)
        for figures in profile.figures["processes"]:
            whole = figures["computing"] + figures["communicating"] - figures["both"] + figures["idle"]
            self.assertAlmostEqual(whole, 100, places=6)
        page = profile.page()
        bars = {kind: 0 for kind in page["kinds"]}
        for lane in page["lanes"]:
            for kind in lane["kind"]:
                bars[page["kinds"][kind]] += 1
        self.assertEqual(sum(bars.values()) - bars["in"] - bars["out"], tasks)
        self.assertEqual((bars["in"], bars["out"]), (messages, messages))
        self.assertEqual(
            ElementTree.fromstring(profile.text("timeline.svg")).tag, "{http://www.w3.org/2000/svg}svg"
        )
        self.assertEqual(len(re.findall("^StartTime: ", profile.text("tasks.rec"), re.MULTILINE)), tasks)
        for name in ("dag.dot", "trace.rec", "distrib.data"):
            self.assertIn("matmul", profile.text(name))
        return page

    def test_one_process(self):
        profile = self.profile(program, "4")
        page = self.check(profile, 1)
        self.assertEqual(profile.total()[1], 0)
        # The operation, the tensor's name, the panel, the rank; spaces and quotes would break StarPU's files.
        self.assertTrue(
            any(re.fullmatch(r"add_inplace:a__weight_(\[\d+\])?@3", name) for name in page["names"]), page["names"]
        )
        self.assertTrue(any(re.fullmatch(r"reduce:gradient(\[\d+\])?@0", name) for name in page["names"]))

    def test_two_processes(self):
        profile = self.profile(mpirun, "-n", "2", program, "2")
        page = self.check(profile, 2)
        self.assertGreater(profile.total()[1], 0)
        for figures, counted in zip(profile.figures["processes"], sorted(profile.counted)):
            self.assertEqual(figures["messages"], counted[1])
        labels = {page["names"][name] for lane in page["lanes"] if lane["detail"] for name in lane["name"]}
        self.assertIn("y", labels)
        self.assertIn("gradient", labels)
        links = [
            line for line in profile.text("paje.trace").split("\n") if "\tWeftMessage\tMPIroot\t" in line
        ]
        self.assertEqual(len(links), 2 * profile.total()[1])

    def test_a_captured_graph(self):
        profile = self.profile(mpirun, "-n", "2", program, "2", "graph")
        page = self.check(profile, 2)
        runs = re.findall(r"^Iteration: (\d+)", profile.text("process-0/tasks.rec"), re.MULTILINE)
        self.assertEqual(set(runs), {"1", "2", "3", "4"})
        self.assertIn("GFlop: ", profile.text("process-0/tasks.rec"))
        self.assertRegex(profile.text("process-0/data.rec"), r"Coordinates: \d+ [01]")
        parts = {part for lane in page["lanes"] for part in lane["detail"] or [] if part.startswith("scale ")}
        self.assertTrue(any(re.fullmatch(r"scale [\d.]+ ms.*\ngelu [\d.]+ ms.*", part) for part in parts), parts)
        labels = {page["names"][name] for lane in page["lanes"] if lane["detail"] for name in lane["name"]}
        self.assertLessEqual({"matmul", "matmul_ex"}, labels)

    def test_models_know_flops(self):
        display = shutil.which("starpu_perfmodel_display")
        if display is None:
            self.skipTest("this StarPU has no starpu_perfmodel_display")
        models = {**os.environ, "STARPU_PERF_MODEL_DIR": self.folder.name, "STARPU_CALIBRATE": "1"}
        subprocess.run([program, "2"], env=models, stdout=subprocess.PIPE, check=True, timeout=100)
        text = subprocess.run([display, "-s", "weft_matmul"], env=models, stdout=subprocess.PIPE, text=True, check=True).stdout
        flops = {float(line.split()[2]) for line in text.split("\n") if re.match("[0-9a-f]{8}\t", line)}
        self.assertTrue(flops, text)
        for each in flops:  # a panel of rows, 256 or 384 numbers each, by 384 or 256 columns; seven digits are shown
            rows = each / (2 * 256 * 384)
            self.assertAlmostEqual(rows / max(1, round(rows)), 1, delta=1e-6, msg=text)

    def test_a_narrower_window_again(self):
        first = self.profile(program, "2")
        start, end = first.figures["window_ms"]
        middle = (start + end) / 2
        again = self.profile("--again", "--from", str(start), "--to", str(middle))
        self.assertEqual(again.figures["window_ms"], [start, middle])
        self.assertLess(again.figures["all"]["tasks"], first.figures["all"]["tasks"])

    def test_a_program_that_fails(self):
        done = subprocess.run(
            [script, "--output", self.folder.name, "false"], stderr=subprocess.PIPE, text=True, timeout=100
        )
        self.assertEqual(done.returncode, 1)
        self.assertIn("no profile", done.stderr)


cases.main(RunTest)
