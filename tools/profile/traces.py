"""Reads what starpu_fxt_tool made of the traces of a weft program: tasks, and messages between processes.

Times are milliseconds; after align() they count from the same moment in all processes.
"""

import bisect
import math
import os
import re
from collections import defaultdict, namedtuple

# name: "matmul:h[3]"; operation: "matmul"; family: one of FAMILIES. start, end: of the kernel. parts: of a fused task, what it did.
Task = namedtuple("Task", "name operation family worker start end parts", defaults=[()])
# Of a fused task on a worker: calls of an operation, and their time. when: shortly before the task ends.
Part = namedtuple("Part", "when worker ms times operation")
# source, target: processes; *_rank: ranks. It is under way from start, when both sides have begun it, to end,
# when the receiver has it. sent, posted: when the sender and the receiver began it.
Message = namedtuple(
    "Message", "source target source_rank target_rank tag bytes tensor sent posted start end"
)
Clock = namedtuple("Clock", "process processes when monotonic realtime machine")
# when, receive, ended; the rest as in Message, peer being the other process.
Event = namedtuple("Event", "when receive ended peer tag source_rank target_rank bytes tensor")

FAMILIES = ("product", "other", "move", "fill")
TABLE = os.path.join(os.path.dirname(__file__), "..", "..", "codelets", "kernels.inc")



class Process:
    """One process: folder is where starpu_fxt_tool wrote; shift is added to its times to align them."""

    def __init__(self, folder):
        self.folder = folder
        self.shift = 0.0
        self.clock, self.events, self.pauses, parts = read_events(os.path.join(folder, "trace.rec"))
        self.tasks = add_parts(read_tasks(os.path.join(folder, "tasks.rec")), parts)
        self.workers = read_workers(os.path.join(folder, "paje.trace"))
        for worker in {task.worker for task in self.tasks} - set(self.workers):
            self.workers[worker] = f"worker {worker}"



class Malformed(Exception):
    """A trace that cannot be read; its text names file and line."""


def text_of(path):
    with open(path, encoding="utf-8", errors="replace") as file:
        return file.read()


def read_families():
    """{name of a performance model: family}, from the table of kernels; others are of the family "other"."""
    rows = re.findall(r"^WEFT_(?:TASK|VIEW)_KERNEL\((\w+), (\w+),", text_of(TABLE), re.MULTILINE)
    return {f"weft_{name}": color.lower() for name, color in rows}


FAMILY_OF_MODEL = read_families()


def number_of(word, kind, least=-math.inf):
    """A finite number; ValueError for anything else."""
    value = kind(word)
    if not math.isfinite(value) or abs(value) > 2**63 or value < least:
        raise ValueError(f"{word!r} is out of range")
    return value


def read_tasks(path):
    """The tasks that ran on a worker: StarPU's own, which have no kernel, are left out."""
    tasks, line = [], 1
    for paragraph in text_of(path).split("\n\n"):
        record = dict(words.split(": ", 1) for words in paragraph.split("\n") if ": " in words)
        try:
            if "StartTime" in record and "EndTime" in record and "WorkerId" in record:
                task = task_of(record)
                if task.worker >= 0:
                    tasks.append(task)
        except ValueError as error:
            raise Malformed(f"{path}:{line}: a task that cannot be read: {error}") from None
        line += paragraph.count("\n") + 2
    return sorted(tasks, key=lambda task: task.start)


def task_of(record):
    model, name = record.get("Model", ""), record.get("Name", "?")
    start, end = number_of(record["StartTime"], float), number_of(record["EndTime"], float)
    if end < start:
        raise ValueError(f"it ends at {end:g}, before it starts at {start:g}")
    return Task(
        name,
        re.split(r"[:\[@]", name, maxsplit=1)[0] if model.startswith("weft_") else name,
        FAMILY_OF_MODEL.get(model, "other"),
        number_of(record["WorkerId"], int),
        start,
        end,
    )


def read_events(path):
    """weft's events (src/runtime/trace.h has their form): the clock, or None, those of messages, the pauses (start, end) in which
    the recorder emptied its memory into the file, and all threads waited; and the parts of fused tasks."""
    pattern = re.compile(
        r"^E: ProgEvent\nN: (weft|fxt_start_flush|fxt_stop_flush) ?(.*)\n(?:[^NS\n].*\n)*S: (.*)$",
        re.MULTILINE,
    )
    clock, events, pauses, parts = None, [], [], []
    text = text_of(path)
    for match in pattern.finditer(text):
        words = match[2].split(" ", 7)
        try:
            when = number_of(match[3], float)
            if match[1] == "fxt_start_flush":
                pauses.append((when, when))
            elif match[1] == "fxt_stop_flush" and pauses:
                pauses[-1] = (pauses[-1][0], max(when, pauses[-1][0]))
            elif words[0] == "clock":
                numbers = [number_of(word, int, 0) for word in words[1:5]]
                clock = Clock(numbers[0], numbers[1], when, numbers[2] / 1e6, numbers[3] / 1e6, words[5])
            elif words[0] == "part":
                worker, ns, times = (number_of(word, int) for word in words[1:4])
                parts.append(Part(when, worker, ns / 1e6, times, words[4]))
            elif words[0] in ("send", "recv"):
                numbers = [number_of(word, int, 0) for word in words[2:7]]
                tensor = words[7] if len(words) > 7 else ""
                events.append(Event(when, words[0] == "recv", words[1] == "<", *numbers, tensor))
        except (ValueError, IndexError, TypeError) as error:
            line = text.count("\n", 0, match.start()) + 1
            raise Malformed(f"{path}:{line}: an event that cannot be read: {error}") from None
    return clock, events, pauses, parts


def add_parts(tasks, parts):
    """Each task with its parts: those that its worker wrote while it ran."""
    of_worker = defaultdict(list)
    for part in parts:
        of_worker[part.worker].append(part)
    for own in of_worker.values():
        own.sort(key=lambda part: part.when)
    found = []
    for task in tasks:
        own = of_worker.get(task.worker, [])
        first = bisect.bisect_left(own, task.start, key=lambda part: part.when)
        last = bisect.bisect_right(own, task.end, key=lambda part: part.when)
        found.append(task._replace(parts=tuple(own[first:last])))
    return found


def read_workers(path):
    """Worker numbers and names, from the containers of a Paje trace."""
    pattern = re.compile(r"^7\s+\S+\s+w([0-9]{1,6})\s+W\s+\S+\s+(.*)$", re.MULTILINE)
    return {int(match[1]): match[2].strip('" ') for match in pattern.finditer(text_of(path))}


def check_peers(processes):
    """Messages must be between processes that are there."""
    for process in processes:
        for event in process.events:
            if event.peer >= len(processes):
                raise Malformed(
                    f"{os.path.join(process.folder, 'trace.rec')}: a message with process {event.peer}, of "
                    f"{len(processes)} that there are: give the traces of all processes"
                )


# ---- one clock -------------------------------------------------------------------------------------------


def align(processes):
    """Sets the shifts: by the machine's clock where processes share one, else by the messages between them.

    Two clocks differ by half the difference between the shortest times that messages took in the one
    direction and in the other, by these clocks: what NTP does. It takes the link to be as quick in both
    directions."""
    for process in processes:
        if process.clock is not None:
            process.shift = process.clock.monotonic - process.clock.when
    machines = defaultdict(list)
    for index, process in enumerate(processes):
        machines[process.clock.machine if process.clock else index].append(index)
    groups = list(machines.values())
    if len(groups) > 1:
        for group in groups[1:]:
            by_realtime(processes, groups[0], group)
        by_messages(processes, groups)
    zero = min(process.shift for process in processes)
    for process in processes:
        process.shift -= zero


def by_realtime(processes, reference, group):
    """A first guess, which stays where no message says better."""
    base, own = processes[reference[0]].clock, processes[group[0]].clock
    if base is None or own is None:
        return
    difference = (own.realtime - base.realtime) - (own.monotonic - base.monotonic)
    for index in group:
        processes[index].shift += difference


def by_messages(processes, groups):
    """Aligns machine after machine with one that is aligned already, the pair with most messages first."""
    group_of = {index: number for number, group in enumerate(groups) for index in group}
    shortest, count = {}, defaultdict(int)
    for message in match_messages(processes)[0]:
        pair = group_of[message.source], group_of[message.target]
        if pair[0] != pair[1]:
            took = message.end - message.sent
            shortest[pair] = min(shortest.get(pair, took), took)
            count[frozenset(pair)] += 1
    done, added = {0}, {0: 0.0}
    while True:
        pairs = [
            (count[frozenset((a, b))], a, b)
            for a in done
            for b in range(len(groups))
            if b not in done and (a, b) in shortest and (b, a) in shortest
        ]
        if not pairs:
            return
        _, a, b = max(pairs)
        # By the present shifts, b's clock is ahead of a's by half of this difference.
        ahead = (shortest[a, b] - shortest[b, a]) / 2
        added[b] = added[a] - ahead
        done.add(b)
        for index in groups[b]:
            processes[index].shift += added[b]


# ---- messages --------------------------------------------------------------------------------------------


def match_messages(processes):
    """The messages, and how many events found no counterpart on the other side."""
    sides = defaultdict(list)  # (source, target, tag, receive, ended): events, the earliest first
    for index, process in enumerate(processes):
        for event in process.events:
            pair = (event.peer, index) if event.receive else (index, event.peer)
            sides[(*pair, event.tag, event.receive, event.ended)].append(event)
    messages, unmatched = [], 0
    for (source, target, tag, receive, ended), begun in sides.items():
        if ended:
            continue
        if not receive:
            unmatched += max(0, len(begun) - len(sides.get((source, target, tag, True, False), [])))
            continue
        sends = sides.get((source, target, tag, False, False), [])
        ends = sides.get((source, target, tag, True, True), [])
        unmatched += len(begun) - min(len(begun), len(sends), len(ends))
        for post, send, end in zip(begun, sends, ends):
            sent = send.when + processes[source].shift
            posted = post.when + processes[target].shift
            last = end.when + processes[target].shift
            messages.append(
                Message(
                    source,
                    target,
                    post.source_rank,
                    post.target_rank,
                    tag,
                    post.bytes,
                    post.tensor or send.tensor,
                    sent,
                    posted,
                    min(max(sent, posted), last),
                    last,
                )
            )
    return sorted(messages, key=lambda message: message.start), unmatched


def read_run(folders):
    """Processes in their order, aligned; their tasks; the messages; and how many of these lack a side."""
    processes = [Process(folder) for folder in folders]
    if all(process.clock for process in processes):
        processes.sort(key=lambda process: process.clock.process)
    check_peers(processes)
    align(processes)
    for process in processes:
        process.pauses = [(start + process.shift, end + process.shift) for start, end in process.pauses]
        process.tasks = [
            task._replace(start=task.start + process.shift, end=task.end + process.shift)
            for task in process.tasks
        ]
    messages, unmatched = match_messages(processes)
    return processes, messages, unmatched
