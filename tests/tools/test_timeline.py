"""The timeline's figures, alignment, matching and drawing on traces made by hand. Argument: tools/profile."""

import contextlib
import importlib.util
import io
import json
import os
import random
import re
import subprocess
import sys
import tempfile
import unittest
import unittest.mock
import xml.etree.ElementTree as ElementTree

import cases

tool = os.path.abspath(sys.argv[1])
sys.path.insert(0, tool)
import drawing  # noqa: E402
import figures  # noqa: E402
import traces  # noqa: E402

specification = importlib.util.spec_from_file_location("program", os.path.join(tool, "__main__.py"))
program = importlib.util.module_from_spec(specification)
specification.loader.exec_module(program)

PAJE = """%EventDef PajeDefineLinkType 5
%\tAlias string
%\tType string
%\tStartContainerType string
%\tEndContainerType string
%\tName string
%EndEventDef
%EventDef PajeCreateContainer 7
%\tTime date
%\tAlias string
%\tType string
%\tContainer string
%\tName string
%EndEventDef
%EventDef PajeStartLink 18
%\tTime date
%\tType string
%\tContainer string
%\tValue string
%\tStartContainer string
%\tKey string
%EndEventDef
%EventDef PajeEndLink 19
%\tTime date
%\tType string
%\tContainer string
%\tValue string
%\tEndContainer string
%\tKey string
%EndEventDef
7\t0.0\tMPIroot\tMPIP\t0\troot
7\t0.0\tp\tP\tMPIroot\tprogram
7\t1.0\tw0\tW\tp\tCPU0
"""


def write_process(folder, tasks, events, clock):
    """tasks: (name, codelet, worker, start, end); events: (when, text); clock: the event's text after its
    time 0."""
    os.makedirs(folder)
    with open(os.path.join(folder, "tasks.rec"), "w") as file:
        for number, (name, model, worker, start, end) in enumerate(tasks, 1):
            file.write(f"Name: {name}\nModel: {model}\nJobId: {number}\nWorkerId: {worker}\n")
            file.write(f"StartTime: {start}\nEndTime: {end}\nMPIRank: -1\n\n")
        file.write("Name: _starpu_sync_task\nJobId: 99\nDependsOn: 1 2\nSubmitTime: 1.0\nMPIRank: -1\n\n")
    with open(os.path.join(folder, "trace.rec"), "w") as file:
        file.write("E: SetState\nN: Idle\nC: Other\nW: 0\nT: 5\nS: 0.5\n\n")
        for when, text in [(0.0, clock), *events]:
            file.write(f"E: ProgEvent\nN: weft {text}\nC: Program\nW: -1\nT: 0\nS: {when}\n\n")
    with open(os.path.join(folder, "paje.trace"), "w") as file:
        file.write(PAJE)
    with open(os.path.join(folder, "dag.dot"), "w") as file:
        file.write('digraph G {\n\trankdir=LR;\nsubgraph cluster_0 {\n\t "task_1"->"task_2"\n}\n}\n')
    with open(os.path.join(folder, "distrib.data"), "w") as file:
        file.writelines(f"{name}\t0\t8\t0\t{end - start}\n" for name, _, _, start, end in tasks)


def message_events(sender, receiver, begun, ended, tag=0, size=1000, name="h"):
    """The events of one message: (of the sender, of the receiver). begun, ended: pairs, sender's and
    receiver's."""
    about = f"{tag} {sender} {receiver} {size} {name}"
    return (
        [(begun[0], f"send > {receiver} {about}"), (ended[0], f"send < {receiver} {about}")],
        [(begun[1], f"recv > {sender} {about}"), (ended[1], f"recv < {sender} {about}")],
    )


class Arithmetic(unittest.TestCase):
    def test_union_joins_what_touches(self):
        self.assertEqual(figures.union([(5, 6), (1, 2), (2, 3), (1.5, 2.5), (4, 4)]), [(1, 3), (5, 6)])
        self.assertEqual(figures.union([]), [])

    def test_sets_of_moments_against_a_bitmap(self):
        dice = random.Random(1)
        for _ in range(200):
            sets = []
            for _ in range(2):
                starts = [dice.randrange(60) for _ in range(dice.randrange(8))]
                sets.append([(start, start + dice.randrange(12)) for start in starts])
            maps = [{m for start, end in each for m in range(start, end)} for each in sets]
            unions = [figures.union(each) for each in sets]
            self.assertEqual([figures.length(each) for each in unions], [len(each) for each in maps])
            common = figures.intersection(*unions)
            self.assertEqual(figures.length(common), len(maps[0] & maps[1]))
            clipped = figures.clip(common, 10, 40)
            self.assertEqual(figures.length(clipped), len(maps[0] & maps[1] & set(range(10, 40))))

    def test_ticks_are_round_and_few(self):
        for span in (0.003, 0.9, 7, 12, 13, 999, 1e5):
            step = drawing.tick(span)
            self.assertLessEqual(span / step, 12)
            self.assertGreater(span / step, 12 / 2.5 - 1e-9)


class Timeline(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()

    def tearDown(self):
        self.folder.cleanup()

    def place(self, index):
        return os.path.join(self.folder.name, str(index))

    def two_processes(self):
        """On a common clock: process 0 computes 10-30 and 40-60 (20-30 on both workers), process 1 computes
        35-45. One message to 1 is begun at 20 and 25, and there at 50; another to 0 takes 55 to 60."""
        sent, received = message_events(0, 1, begun=(20, 15), ended=(28, 40))
        back_received, back_sent = [], []
        back_sent, back_received = message_events(
            1, 0, begun=(45, 40), ended=(51, 60), tag=7, size=24, name="a b"
        )
        write_process(
            self.place(0),
            [
                ("matmul:h[0]", "weft_matmul", 0, 10, 30),
                ("add", "weft_add", 1, 20, 30),
                ("reduce:h[1]", "weft_reduce", 0, 40, 60),
            ],
            sent + back_received,
            "clock 0 2 1000000000 5000000000 machine",
        )
        # Its trace began 10 ms later: its times are 10 less.
        write_process(
            self.place(1),
            [("gelu@1", "weft_gelu", 0, 25, 35)],
            received + back_sent,
            "clock 1 2 1010000000 5010000000 machine",
        )

    def run_tool(self, *arguments):
        done = subprocess.run(
            [
                sys.executable,
                tool,
                "--output",
                self.folder.name,
                "--json",
                *arguments,
                self.place(0),
                self.place(1),
            ],
            check=True,
            stdout=subprocess.PIPE,
            text=True,
            timeout=60,
        )
        return json.loads(done.stdout)

    def test_figures_of_two_processes(self):
        self.two_processes()
        result = self.run_tool("--from", "0", "--to", "100")
        # Process 0 computes 10-30, 40-60; messages: 25-50, and 55-60.
        first, second = result["processes"]
        self.assertEqual(
            {
                name: round(first[name], 6)
                for name in ("computing", "communicating", "both", "idle", "exposed", "moving")
            },
            {"computing": 40, "communicating": 30, "both": 20, "idle": 50, "exposed": 10, "moving": 20},
        )
        self.assertEqual([round(worker["busy"], 6) for worker in first["workers"]], [40, 10])
        self.assertEqual([first[name] for name in ("tasks", "messages", "bytes")], [3, 1, 24])
        # Process 1 computes 35-45.
        self.assertEqual(
            {
                name: round(second[name], 6)
                for name in ("computing", "communicating", "both", "idle", "exposed", "moving")
            },
            {"computing": 10, "communicating": 30, "both": 10, "idle": 70, "exposed": 20, "moving": 0},
        )
        self.assertEqual(round(result["all"]["both"], 6), 15)
        self.assertEqual([result["all"][name] for name in ("tasks", "messages", "bytes")], [4, 2, 1024])
        self.assertEqual(result["unmatched_messages"], 0)

    def test_the_window_is_that_of_the_work_unless_given(self):
        self.two_processes()
        self.assertEqual(self.run_tool()["window_ms"], [10, 60])
        narrow = self.run_tool("--from", "25", "--to", "35")
        self.assertEqual(narrow["processes"][0]["computing"], 50)
        self.assertEqual(narrow["processes"][0]["exposed"], 50)
        self.assertEqual(narrow["processes"][1]["exposed"], 100)

    def test_pauses_of_the_recorder(self):
        self.two_processes()
        with open(os.path.join(self.place(1), "trace.rec"), "a") as file:
            for when, name in ((20, "fxt_start_flush"), (24, "fxt_stop_flush")):
                file.write(f"E: ProgEvent\nN: {name}\nC: Program\nW: -1\nT: 0\nS: {when}\n\n")
        result = self.run_tool("--from", "32", "--to", "60")
        self.assertEqual([own["recorder_ms"] for own in result["processes"]], [0, 2])

    def test_messages_keep_peer_bytes_and_tensor(self):
        self.two_processes()
        _, messages, unmatched = traces.read_run([self.place(1), self.place(0)])
        self.assertEqual(unmatched, 0)
        there, back = messages
        self.assertEqual(
            (there.source, there.target, there.bytes, there.tensor, there.start, there.end),
            (0, 1, 1000, "h", 25, 50),
        )
        self.assertEqual(
            (back.source, back.target, back.tag, back.bytes, back.tensor, back.start, back.end),
            (1, 0, 7, 24, "a b", 55, 60),
        )

    def test_a_message_without_its_other_side_is_counted(self):
        sent, _ = message_events(0, 1, begun=(20, 15), ended=(28, 40))
        clock = "clock {} 2 1000000000 5000000000 machine"
        write_process(self.place(0), [("add", "weft_add", 0, 1, 2)], sent, clock.format(0))
        write_process(self.place(1), [("add", "weft_add", 0, 1, 2)], [], clock.format(1))
        result = self.run_tool()
        self.assertEqual((result["unmatched_messages"], result["all"]["messages"]), (1, 0))

    def test_clocks_of_two_machines_are_aligned_by_messages(self):
        # Process 1's clock is 500 ms ahead, and its machine's calendar 3 s wrong. Messages take 2 ms at
        # least.
        ahead, events = 500.0, ([], [])
        dice = random.Random(2)
        for tag in range(40):
            for source in (0, 1):
                begun, took = dice.uniform(0, 100), 2 + (dice.uniform(0, 9) if tag else 0)
                offsets = (0, ahead)
                sent, received = message_events(
                    source,
                    1 - source,
                    begun=(begun + offsets[source], begun + offsets[1 - source] - 1),
                    ended=(begun + offsets[source] + 1, begun + took + offsets[1 - source]),
                    tag=tag,
                )
                events[source].extend(sent)
                events[1 - source].extend(received)
        write_process(
            self.place(0), [("add", "weft_add", 0, 50, 51)], events[0], "clock 0 2 7000000 9000000 here"
        )
        write_process(
            self.place(1),
            [("add", "weft_add", 0, 50 + ahead, 51 + ahead)],
            events[1],
            "clock 1 2 123456789 3009000000 there",
        )
        processes, _, _ = traces.read_run([self.place(0), self.place(1)])
        self.assertAlmostEqual(processes[0].tasks[0].start, processes[1].tasks[0].start, places=6)

    def test_files_of_starpu_are_merged(self):
        self.two_processes()
        self.run_tool("--merge")
        with open(os.path.join(self.folder.name, "tasks.rec")) as file:
            text = file.read()
        self.assertEqual(len(re.findall("^Name: ", text, re.MULTILINE)), 6)
        self.assertIn("Name: gelu@1\nModel: weft_gelu\nJobId: 1_1\nWorkerId: 0\nStartTime: 35.000000\n", text)
        self.assertIn("DependsOn: 1_1 1_2\n", text)
        with open(os.path.join(self.folder.name, "paje.trace")) as file:
            lines = file.read().split("\n")
        self.assertIn("7\t11.000000000\t1_w0\tW\t1_p\t1_CPU0", lines)
        self.assertEqual(sum("\tMPIroot\tMPIP\t" in line for line in lines), 1)
        self.assertEqual(sum(line.startswith("18\t") for line in lines), 2)
        times = [float(line.split("\t")[1]) for line in lines if re.match(r"(7|18|19)\t", line)]
        self.assertEqual(times, sorted(times))
        with open(os.path.join(self.folder.name, "dag.dot")) as file:
            self.assertIn('"1_task_1"->"1_task_2"', file.read())
        with open(os.path.join(self.folder.name, "distrib.data")) as file:
            self.assertEqual([line.split("\t")[0] for line in file], ["matmul", "add", "reduce", "gelu"])

    def test_a_hundred_thousand_tasks(self):
        tasks = [
            ("add:[%d]" % (i % 7), "weft_add", 0, 1 + i * 0.01, 1 + i * 0.01 + 0.008) for i in range(100000)
        ]
        for index in (0, 1):
            write_process(self.place(index), tasks, [], f"clock {index} 2 1000000000 5000000000 machine")
        self.assertEqual(self.run_tool()["all"]["tasks"], 200000)
        picture = os.path.join(self.folder.name, "timeline.svg")
        self.assertLess(os.path.getsize(picture), 1 << 20)
        self.assertEqual(ElementTree.parse(picture).getroot().tag, "{http://www.w3.org/2000/svg}svg")

    # ---- traces that are not as they should be ----

    def run_inside(self):
        """What the tool says when it gives up, or None. Any other exception is a traceback of the program."""
        given = [tool, "--output", self.folder.name, "--merge", "--json", self.place(0), self.place(1)]
        quiet = io.StringIO()
        with unittest.mock.patch.object(sys, "argv", given), contextlib.redirect_stdout(quiet):
            with contextlib.redirect_stderr(quiet):
                try:
                    program.main()
                except SystemExit as end:
                    return str(end.code)
        return None

    def test_malformed_traces_end_with_a_message(self):
        random_numbers = random.Random(11)
        words = [b"nan", b"inf", b"-1", b"1e400", b"99999999999999999999", b"x", b"", b"\n\n", b"\xff\xfe\0"]
        names = ["tasks.rec", "trace.rec", "paje.trace", "dag.dot", "distrib.data"]
        refused = 0
        for number in range(400):
            with tempfile.TemporaryDirectory() as folder, unittest.mock.patch.object(
                self.folder, "name", folder
            ):
                self.two_processes()
                path = os.path.join(self.place(number % 2), names[number // 2 % len(names)])
                with open(path, "rb") as file:
                    content = file.read()
                place = random_numbers.randrange(len(content) + 1)
                kind = number // 10 % 8
                numbers = list(re.finditer(rb"-?[0-9][0-9.]*", content))
                if kind == 0:
                    content = content[:place]
                elif kind == 1:
                    content = b"" if number % 20 < 10 else random_numbers.randbytes(500)
                elif kind == 2:
                    content = content[:place] + bytes([random_numbers.randrange(256)]) + content[place + 1 :]
                elif kind == 3:
                    parts = content.split(b"\n\n")
                    content = b"\n\n".join(parts + random_numbers.choices(parts, k=3))
                elif kind == 4:
                    content = content[:place] + content[random_numbers.randrange(len(content) + 1) :]
                elif kind < 7 and numbers:
                    match = random_numbers.choice(numbers)
                    content = content[: match.start()] + random_numbers.choice(words) + content[match.end() :]
                if kind == 7:
                    os.remove(path)
                else:
                    with open(path, "wb") as file:
                        file.write(content)
                said = self.run_inside()
                if said is not None:
                    refused += 1
                    self.assertIn("weft profile: ", said)
                    self.assertNotIn("Traceback", said)
        self.assertGreater(refused, 50)

    def test_messages_name_file_and_line(self):
        self.two_processes()
        path = os.path.join(self.place(1), "tasks.rec")
        with open(path) as file:
            text = file.read()
        with open(path, "w") as file:
            file.write("\n\n" + text.replace("StartTime: 25", "StartTime: soon"))
        self.assertIn(f"weft profile: {path}:3: a task that cannot be read", self.run_inside())
        os.remove(path)
        self.assertEqual(self.run_inside(), f"weft profile: {path}: No such file or directory")


class Predicted(unittest.TestCase):
    """Timelines of predictions, drawn by the same program."""

    def draw(self, text):
        """(What it says when it gives up, figures, page)."""
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "prediction.json")
            with open(path, "w") as file:
                file.write(text)
            command = [sys.executable, tool, "--output", folder, "--json", "--predicted", path]
            done = subprocess.run(command, capture_output=True, text=True, check=False)
            if done.returncode != 0:
                return done.stderr, None, None
            with open(os.path.join(folder, "timeline.html")) as file:
                return None, json.loads(done.stdout), file.read()

    def prediction(self):
        return {
            "weft-timeline": 1,
            "processes": [
                {"process": 0, "workers": 2, "tasks": [["matmul", "product", 0, 0, 10], ["add", "other", 1, 5, 10]]},
                {"process": 3, "workers": 2, "tasks": [["gelu", "other", 0, 15, 20]]},
            ],
            "messages": [[0, 1, 1000, "h", 5, 15]],
        }

    def test_figures_and_page(self):
        said, found, page = self.draw(json.dumps(self.prediction()))
        self.assertIsNone(said)
        self.assertEqual(found["window_ms"], [0, 20])
        self.assertEqual([own["tasks"] for own in found["processes"]], [2, 1])
        self.assertEqual([own["bytes"] for own in found["processes"]], [0, 1000])
        self.assertAlmostEqual(found["processes"][0]["computing"], 50)
        self.assertAlmostEqual(found["processes"][0]["both"], 25)
        self.assertAlmostEqual(found["processes"][1]["exposed"], 50)
        self.assertIn("matmul", page)

    def test_other_files_are_refused(self):
        for wrong in ("", "[]", "{}", '{"weft-timeline": 2}'):
            said, _, _ = self.draw(wrong)
            self.assertIn("weft profile: ", said)
            self.assertNotIn("Traceback", said)
        for key, value in [("messages", [[0, 2, 1, "", 0, 1]]), ("processes", [{"process": 0}]), ("messages", 3)]:
            broken = dict(self.prediction())
            broken[key] = value
            said, _, _ = self.draw(json.dumps(broken))
            self.assertIn("no timeline of a prediction", said)


cases.main(Arithmetic, Timeline, Predicted)
