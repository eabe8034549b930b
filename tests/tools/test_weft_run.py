"""weft-run: what it starts and when it gives up; a training run that loses a process twice, and ends as one that nobody disturbed.

usage: test_weft_run.py WEFT_RUN TRANSFORMER_LM TEXT MPIRUN
"""
import os
import signal
import subprocess
import sys
import tempfile
import time
import unittest
from pathlib import Path

import cases

WEFT_RUN, PROGRAM, TEXT, MPIRUN = (os.path.abspath(path) if path else "" for path in sys.argv[1:5])


class Folder(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)

    def begin(self, *words, **more):
        return subprocess.Popen([sys.executable, "-B", WEFT_RUN, *map(str, words)], cwd=self.folder, text=True, stdin=subprocess.DEVNULL,
                                stdout=subprocess.PIPE, stderr=subprocess.PIPE, **more)

    def run_it(self, *words, status=0):
        """(standard output, standard error)"""
        done = self.begin(*words)
        said = done.communicate(timeout=100)
        self.assertEqual(done.returncode, status, said)
        return said


class Starts(Folder):
    def test_success_is_not_repeated(self):
        out, err = self.run_it("--", "sh", "-c", "echo start $WEFTRUN_TRY")
        self.assertEqual(out, "start 1\n")
        self.assertEqual(err, "weft-run: start 1\n")

    def test_tries_without_progress_are_counted(self):
        out, err = self.run_it("--tries", 2, "--wait", 0, "--checkpoint", "c", "--", "sh", "-c", "echo $WEFTRUN_TRY; exit 7", status=7)
        self.assertEqual(out, "1\n2\n")
        self.assertIn("2 starts in a row have left no newer checkpoint", err)
        # A checkpoint at the third start: from there two more.
        script = '[ $WEFTRUN_TRY != 2 ] || touch c; echo "$WEFTRUN_TRY $*"; kill -9 $$'
        out, _ = self.run_it("--tries", 2, "--wait", 0, "--checkpoint", "[c]", "--", "sh", "-c", script, "sh", "--load", "{checkpoint}", "end",
                             status=137)
        self.assertEqual(out, "1 end\n2 end\n3 --load c end\n4 --load c end\n")

    def test_newest_checkpoint(self):
        for i, name in enumerate(("b.safetensors", "c.safetensors", "a.safetensors", "d.safetensors.tmp")):
            (self.folder / name).touch()
            os.utime(self.folder / name, (100 + i, 100 + i))
        out, _ = self.run_it("--checkpoint", "*.safetensors", "--", "echo", "--load={checkpoint}", "{checkpoint}")
        self.assertEqual(out, "--load=a.safetensors a.safetensors\n")

    def test_hosts_that_are_left(self):
        (self.folder / "hosts").write_text("one slots=2  # a comment\n\ntwo\nthree slots=4\n")
        script = 'echo {processes}; cat {hosts}; rm -f two; exit $((WEFTRUN_TRY < 2))'
        (self.folder / "two").touch()
        out, err = self.run_it("--hosts", "hosts", "--wait", 0, "--probe", "[ {host} != two ] || [ -e two ]", "--", "sh", "-c", script)
        self.assertEqual(out, "7\none slots=2\ntwo\nthree slots=4\n6\none slots=2\nthree slots=4\n")
        self.assertIn("weft-run: two does not answer", err)
        out, err = self.run_it("--hosts", "hosts", "--least", 7, "--probe", "[ {host} != two ]", "--", "echo", status=1)
        self.assertEqual(out, "")
        self.assertIn("6 processes are left, and --least is 7", err)

    def test_signals(self):
        for number, script in ((signal.SIGTERM, "trap 'echo ended; exit 3' TERM"), (signal.SIGINT, "trap 'echo ended; exit 3' INT"),
                               (signal.SIGUSR1, "trap 'echo ended; exit 0' USR1")):
            job = self.begin("--wait", 0, "--", "sh", "-c", f"{script}; echo ready; while :; do sleep 0.05; done")
            self.assertEqual(job.stdout.readline(), "ready\n")
            job.send_signal(number)
            out, err = job.communicate(timeout=60)
            self.assertEqual(out, "ended\n", (number, job.returncode, err))
            self.assertEqual(job.returncode, 0 if number == signal.SIGUSR1 else 128 + number)

    def test_what_a_start_leaves_is_ended(self):
        """A process that outlives its start, and one that SIGTERM does not end."""
        self.run_it("--tries", 1, "--", "sh", "-c", "sleep 1000 & echo $! > left; exit 1", status=1)
        left = Path("/proc") / (self.folder / "left").read_text().strip() / "stat"
        time.sleep(0.2)
        self.assertTrue(not left.exists() or " Z " in left.read_text())
        job = self.begin("--grace", 0.2, "--", "sh", "-c", "trap '' TERM; echo ready; while :; do sleep 0.05; done")
        self.assertEqual(job.stdout.readline(), "ready\n")
        job.terminate()
        job.communicate(timeout=60)
        self.assertEqual(job.returncode, 128 + signal.SIGTERM)

    def test_wrong_arguments(self):
        for words, says in ((["--tries", "0", "--", "true"], "--tries 0: a number from 1"), (["--trys", "1"], "no option --trys"), ([], "a command"),
                            (["--wait"], "--wait needs a value"), (["--wait", "nan", "--", "true"], "--wait nan"),
                            (["--", "echo", "{processes}"], "the command has {processes}"), (["--hosts", "none", "--", "true"], "No such file")):
            _, err = self.run_it(*words, status=2)
            self.assertIn(says, err)
        _, err = self.run_it("--wait", 0, "--", "no-such-program", status=127)
        self.assertIn("no-such-program: No such file", err)


@unittest.skipIf(PROGRAM == "", "the examples were not built")
class Training(Folder):
    """Interrupted by SIGKILL of one process after the first and the second checkpoint."""

    STEPS, INTERVAL = 60, 10

    def command(self, name, processes):
        launch = [MPIRUN, "--oversubscribe", "--bind-to", "none", "-n", "{processes}"] if processes > 1 else []
        return ["--checkpoint", f"{name}.safetensors", "--processes", processes, "--wait", 0, "--", *launch, PROGRAM, "--layers", 1, "--width", 32,
                "--heads", 2, "--kv-heads", 2, "--context", 16, "--batch", 4, "--mesh", "dp=2", "--steps", self.STEPS, "--validate", self.INTERVAL,
                "--sample", 0, "--text", TEXT, "--save", f"{name}.safetensors", "--curve", f"{name}.curve", "--load", "{checkpoint}"]

    def wait_for_newer(self, path, former, job):
        """The time of a checkpoint that has another than `former`."""
        for _ in range(4000):
            now = path.stat().st_mtime_ns if path.exists() else None
            if now not in (None, former):
                return now
            self.assertIsNone(job.poll(), "it has ended")
            time.sleep(0.005)
        self.fail("no checkpoint comes")

    def victim(self, job):
        """The last of the processes that run the program below weft-run."""
        below, found = [job.pid], []
        while below:
            process = below.pop()
            for task in Path(f"/proc/{process}/task").glob("*/children"):
                below += map(int, task.read_text().split())
            try:
                found += [process] if os.readlink(f"/proc/{process}/exe") == os.path.realpath(PROGRAM) else []
            except OSError:
                pass
        return max(found)

    def interrupted_twice(self, processes):
        name = f"on{processes}"
        self.run_it(*self.command("whole", processes))
        job, former = self.begin(*self.command(name, processes)), None
        for _ in range(2):
            former = self.wait_for_newer(self.folder / f"{name}.safetensors", former, job)
            os.kill(self.victim(job), signal.SIGKILL)
        _, err = job.communicate(timeout=100)
        self.assertEqual(job.returncode, 0, err)
        self.assertEqual(err.count("weft-run: start"), 5, err)  # three starts, two ends
        whole = (self.folder / "whole.curve").read_text().splitlines()
        rest = (self.folder / f"{name}.curve").read_text().splitlines()
        self.assertEqual(len(whole), self.STEPS)
        self.assertGreaterEqual(len(rest), self.INTERVAL)
        self.assertEqual(rest, whole[-len(rest):])
        # Weights, states of the optimiser and random numbers: the same bits.
        self.assertEqual((self.folder / f"{name}.safetensors").read_bytes(), (self.folder / "whole.safetensors").read_bytes())

    def test_one_process(self):
        self.interrupted_twice(1)

    @unittest.skipIf(MPIRUN == "", "no MPI")
    def test_two_processes(self):
        self.interrupted_twice(2)


if __name__ == "__main__":
    cases.main(Starts, Training)
