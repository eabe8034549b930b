#!/usr/bin/env python3
"""Draws a timeline from the StarPU traces of a weft program on several processes; README.md tells how.

Usage: draw.py [--step N] [--steps N] FOLDER... >timeline.svg

Each FOLDER is one process, in order: what starpu_fxt_tool made of its trace (tasks.rec, trace.rec), with the
events of mpi_events.c in it. --step: the step of char_lm to begin with, --steps: how many to show.
"""

import argparse
import os
import sys
from collections import Counter, namedtuple

Task = namedtuple("Task", "name worker start end")  # seconds
Message = namedtuple("Message", "source target bytes start end")

# Operations that are drawn alike, in the order of the legend.
KINDS = [
    ("matrix products", "#4878a8", ["matmul"]),
    ("other operations", "#a8c4dc", None),
    ("sums over ranks, copies", "#e8a33d", ["reduce", "copy", "move"]),
    ("weights' steps", "#6aa56a", ["add_"]),
]
WIRE = "#c0504d"


def records(path):
    """The paragraphs of StarPU's .rec files, as dictionaries."""
    record = {}
    with open(path, encoding="utf-8", errors="replace") as file:
        for line in file:
            key, colon, value = line.strip().partition(": ")
            if colon and not key.startswith("#"):
                record[key] = value
            elif record:
                yield record
                record = {}
    if record:
        yield record


def read_process(folder):
    """Tasks, and message events (time, sign, kind, peer, tag, bytes), all on the machine's clock."""
    events, shift = [], None
    for record in records(os.path.join(folder, "trace.rec")):
        if record.get("E") != "ProgEvent":
            continue
        words, when = record["N"].split(), float(record["S"]) / 1e3
        if words[0] == "clock":
            shift = float(words[1]) - when
        elif words[0] in "<>":
            events.append(
                (when, words[0], words[1], int(words[2]), int(words[3]), int((words[4:] or [0])[0]))
            )
    if shift is None:
        sys.exit(f"{folder}: no event of mpi_events.c in trace.rec")
    tasks = [
        Task(
            r["Name"],
            int(r["WorkerId"]),
            float(r["StartTime"]) / 1e3 + shift,
            float(r["EndTime"]) / 1e3 + shift,
        )
        for r in records(os.path.join(folder, "tasks.rec"))
        if "StartTime" in r and "EndTime" in r and int(r.get("WorkerId", -1)) >= 0
    ]
    return sorted(tasks, key=lambda task: task.start), [(when + shift, *rest) for when, *rest in events]


def match_messages(events_of):
    """Messages are under way from when both sides have begun them until the receiver has them."""
    begun, ended = {}, {}
    for process, events in enumerate(events_of):
        for when, sign, kind, peer, tag, size in events:
            pair = (process, peer, tag) if kind == "send" else (peer, process, tag)
            if sign == ">":
                begun.setdefault(pair, {})[kind] = (when, size)
            elif kind == "recv":
                ended[pair] = when
    return [
        Message(
            source,
            target,
            sides["recv"][1],
            max(sides["send"][0], sides["recv"][0]),
            ended[source, target, tag],
        )
        for (source, target, tag), sides in begun.items()
        if len(sides) == 2 and (source, target, tag) in ended
    ]


def union(intervals):
    merged = []
    for start, end in sorted(intervals):
        if merged and start <= merged[-1][1]:
            merged[-1][1] = max(merged[-1][1], end)
        else:
            merged.append([start, end])
    return merged


def total(intervals, start, end):
    return sum(max(0, min(b, end) - max(a, start)) for a, b in union(intervals))


def color_of(task):
    for _, color, names in KINDS:
        if names is not None and task.name in names:
            return color
    return next(color for _, color, names in KINDS if names is None)


def task_bars(tasks, gap):
    """Bars of a lane; tasks of one color that follow each other within `gap` seconds are one."""
    groups = []
    for task in tasks:
        if groups and color_of(groups[-1][-1]) == color_of(task) and task.start - groups[-1][-1].end < gap:
            groups[-1].append(task)
        else:
            groups.append([task])
    for group in groups:
        names = ", ".join(f"{name} x {count}" for name, count in Counter(task.name for task in group).items())
        hint = f"{names}: {1e3 * (group[-1].end - group[0].start):.2f} ms"
        yield group[0].start, group[-1].end, 0, 1, color_of(group[0]), hint


class Drawing:
    """An SVG of a fixed width whose x axis is a window of time."""

    LEFT, WIDTH, RIGHT = 150, 760, 70

    def __init__(self, start, end):
        self.start, self.end = start, end
        self.parts, self.y = [], 0

    def x(self, when):
        return self.LEFT + self.WIDTH * (min(max(when, self.start), self.end) - self.start) / (
            self.end - self.start
        )

    def text(self, x, y, words, anchor="start", size=12, color="#555"):
        self.parts.append(
            f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" font-size="{size}" fill="{color}">'
            f"{words}</text>"
        )

    def bar(self, start, end, y, height, color, hint):
        x, right = self.x(start), self.x(end)
        if end > self.start and start < self.end:
            width = max(right - x, 0.25)
            self.parts.append(
                f'<rect x="{x:.2f}" y="{y:.1f}" width="{width:.2f}" height="{height:.1f}" fill="{color}">'
                f"<title>{hint}</title></rect>"
            )

    def lane(self, label, height, bars, busy):
        """bars: (start, end, row, rows, color, hint); busy: seconds."""
        self.text(self.LEFT - 10, self.y + height / 2 + 4, label, "end")
        self.parts.append(
            f'<rect x="{self.LEFT}" y="{self.y}" width="{self.WIDTH}" height="{height}" fill="#eee"/>'
        )
        for start, end, row, rows, color, hint in bars:
            self.bar(start, end, self.y + height * row / rows, height / rows, color, hint)
        percent = 100 * busy / (self.end - self.start)
        self.text(self.LEFT + self.WIDTH + 10, self.y + height / 2 + 4, f"{percent:.0f} %")
        self.y += height + 4

    def svg(self):
        width = self.LEFT + self.WIDTH + self.RIGHT
        return (
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {self.y:.0f}" '
            'font-family="sans-serif">\n'
            f'<rect width="{width}" height="{self.y:.0f}" fill="white"/>\n'
            + "\n".join(self.parts)
            + "\n</svg>\n"
        )


def rows_of(messages):
    """Each message with the first row that is free while it is under way."""
    free, placed = [], []
    for message in sorted(messages, key=lambda m: m.start):
        for row, until in enumerate(free):
            if until <= message.start:
                break
        else:
            row = len(free)
            free.append(0)
        free[row] = message.end
        placed.append((message, row))
    return placed, max(1, len(free))


def axis(drawing):
    milliseconds = 1e3 * (drawing.end - drawing.start)
    step = next(s for s in (1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 1e9) if milliseconds / s <= 12)
    for i in range(int(milliseconds / step) + 1):
        x = drawing.x(drawing.start + i * step / 1e3)
        drawing.parts.append(f'<path d="M{x:.1f} {drawing.y}v5" stroke="#888"/>')
        drawing.text(x, drawing.y + 18, f"{i * step:g}" + (" ms" if i == 0 else ""), "middle")
    drawing.y += 30


def legend(drawing):
    x = drawing.LEFT
    for label, color in [kind[:2] for kind in KINDS] + [("messages under way", WIRE)]:
        drawing.parts.append(f'<rect x="{x}" y="{drawing.y}" width="12" height="12" fill="{color}"/>')
        drawing.text(x + 17, drawing.y + 10, label)
        x += 30 + 7 * len(label)
    drawing.y += 24


def main():
    parser = argparse.ArgumentParser(usage=__doc__.split("\n\n")[1][7:])
    parser.add_argument("--step", type=int, default=3)
    parser.add_argument("--steps", type=int, default=1)
    parser.add_argument("folders", nargs="+")
    arguments = parser.parse_args()
    processes = [read_process(folder) for folder in arguments.folders]
    messages = match_messages([events for _, events in processes])

    # A step of char_lm begins with looking up its batch, here on the first process.
    begins = [task.start for task in processes[0][0] if task.name == "embedding"]
    first = arguments.step
    per_step = len(begins) // sum(task.name == "cross_entropy" for task in processes[0][0])
    drawing = Drawing(begins[first * per_step], begins[(first + arguments.steps) * per_step])
    window = drawing.end - drawing.start
    drawing.text(drawing.LEFT + drawing.WIDTH + 10, 12, "busy")
    drawing.y = 20
    for process, (tasks, _) in enumerate(processes):
        for worker in sorted({task.worker for task in tasks}):
            mine = [task for task in tasks if task.worker == worker]
            busy = total([(t.start, t.end) for t in mine], drawing.start, drawing.end)
            drawing.lane(f"host {process} computes", 34, task_bars(mine, window / 5000), busy)
        arriving = [
            m for m in messages if m.target == process and m.end > drawing.start and m.start < drawing.end
        ]
        placed, rows = rows_of(arriving)
        bars = [
            (m.start, m.end, row, rows, WIRE, f"{m.bytes} bytes: {1e3 * (m.end - m.start):.2f} ms")
            for m, row in placed
        ]
        busy = total([(m.start, m.end) for m in arriving], drawing.start, drawing.end)
        drawing.lane("receives", 26, bars, busy)
        drawing.y += 8
    axis(drawing)
    legend(drawing)
    sys.stdout.write(drawing.svg())


if __name__ == "__main__":
    main()
