"""Reads the timeline of a prediction (weft_predict_options.timeline) as if it were that of a run."""

import json

import traces


class Process:
    """As traces.Process, of a simulated process."""

    def __init__(self, number, workers, tasks):
        self.number = number
        self.workers = {worker: f"worker {worker}" for worker in range(workers)}
        self.tasks = sorted(tasks, key=lambda task: task.start)
        self.pauses = []


def task_of(row, workers):
    name, family, worker, start, end = row
    if family not in traces.FAMILIES or not 0 <= worker < workers or not end >= start >= 0:
        raise ValueError(f"a task that cannot be: {row}")
    return traces.Task(str(name), str(name), family, worker, float(start), float(end))


def message_of(row, number, processes):
    source, target, count, tensor, start, end = row
    if not (0 <= source < processes and 0 <= target < processes and end >= start >= 0):
        raise ValueError(f"a message that cannot be: {row}")
    # Ranks and tags of a simulation are not those of one process, which stands for others.
    return traces.Message(source, target, source, target, number, int(count), str(tensor), start, start, start, end)


def read(path):
    """Processes and messages, in milliseconds from the beginning of the first run."""
    with open(path, encoding="utf-8") as file:
        try:
            text = json.load(file)
            if text["weft-timeline"] != 1:
                raise ValueError(f"version {text['weft-timeline']}, expected 1")
            processes = [
                Process(own["process"], own["workers"], [task_of(row, own["workers"]) for row in own["tasks"]])
                for own in text["processes"]
            ]
            messages = [message_of(row, i, len(processes)) for i, row in enumerate(text["messages"])]
        except (ValueError, LookupError, TypeError) as error:
            raise traces.Malformed(f"{path}: no timeline of a prediction: {error}") from None
    return processes, sorted(messages, key=lambda message: message.start)
