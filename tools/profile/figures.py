"""How much of a window of time computing and communicating take, and how much of it they share.

Intervals are pairs (start, end).
"""


def union(intervals):
    """The same set of moments as intervals that are in order and do not touch."""
    merged = []
    for start, end in sorted(intervals):
        if merged and start <= merged[-1][1]:
            merged[-1][1] = max(merged[-1][1], end)
        elif end > start:
            merged.append([start, end])
    return [tuple(interval) for interval in merged]


def clip(intervals, start, end):
    return [(max(a, start), min(b, end)) for a, b in intervals if b > start and a < end]


def intersection(first, second):
    """Of two unions."""
    common, i, j = [], 0, 0
    while i < len(first) and j < len(second):
        start, end = max(first[i][0], second[j][0]), min(first[i][1], second[j][1])
        if start < end:
            common.append((start, end))
        if first[i][1] < second[j][1]:
            i += 1
        else:
            j += 1
    return common


def length(intervals):
    """Of a union."""
    return sum(end - start for start, end in intervals)


def busy(items, start, end):
    """The union of what has a start and an end, within the window."""
    return union(clip([(item.start, item.end) for item in items], start, end))


def shares(computing, communicating, moving, window):
    """Percentages of `window` milliseconds, from milliseconds and what both have in common."""
    both = length(intersection(computing, communicating))
    compute, communicate = length(computing), length(communicating)
    parts = {
        "computing": compute,
        "communicating": communicate,
        "both": both,
        "idle": window - (compute + communicate - both),
        "exposed": communicate - both,
        "moving": length(moving),
    }
    return {name: 100 * part / window if window > 0 else 0.0 for name, part in parts.items()}


def inside(items, start, end):
    return [item for item in items if item.end >= start and item.start <= end]


def of_process(index, process, messages, start, end):
    """computing: a worker runs a task; communicating: a message to or from the process is under way; moving:
    a worker copies or sums what ranks exchange, which is part of computing; exposed: communicating and not
    computing; recorder_ms: milliseconds in which the recorder held all threads up."""
    tasks = process.tasks
    mine = [message for message in messages if index in (message.source, message.target)]
    arriving = inside([message for message in mine if message.target == index], start, end)
    figures = {"process": index}
    figures.update(
        shares(
            busy(tasks, start, end),
            busy(mine, start, end),
            busy([task for task in tasks if task.family == "move"], start, end),
            end - start,
        )
    )
    figures["workers"] = [
        {
            "worker": worker,
            "busy": (
                100 * length(busy([t for t in tasks if t.worker == worker], start, end)) / (end - start)
                if end > start
                else 0.0
            ),
        }
        for worker in sorted(process.workers)
    ]
    figures["tasks"] = len(inside(tasks, start, end))
    figures["messages"] = len(arriving)
    figures["bytes"] = sum(message.bytes for message in arriving)
    figures["recorder_ms"] = length(union(clip(process.pauses, start, end)))
    return figures


def of_run(processes, messages, start, end):
    """Of each process, and of all: the mean of their shares, and the sums of their counts. Messages and bytes
    are counted at their receivers."""
    each = [of_process(index, process, messages, start, end) for index, process in enumerate(processes)]
    together = {}
    for name in ("computing", "communicating", "both", "idle", "exposed", "moving"):
        together[name] = sum(figures[name] for figures in each) / len(each)
    for name in ("tasks", "messages", "bytes"):
        together[name] = sum(figures[name] for figures in each)
    return {"window_ms": [start, end], "all": together, "processes": each}


def whole_window(processes, messages):
    """From the first task or message to the last one: without the start of the libraries."""
    items = [task for process in processes for task in process.tasks] + list(messages)
    if not items:
        return 0.0, 0.0
    return min(item.start for item in items), max(item.end for item in items)
