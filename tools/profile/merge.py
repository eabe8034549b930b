"""Makes one paje.trace, dag.dot, tasks.rec, trace.rec and distrib.data of those of several processes.

starpu_fxt_tool can read several traces at once, but aligns them by events that libstarpumpi alone writes, and
without these it takes the order of the processes from memory it has not set. So it is run for each process,
and what it wrote is put together here, on the common clock. Containers, tasks and keys get the process in
front, as starpu_fxt_tool would have done: "1_w0"."""

import heapq
import os
import re


def merge_all(processes, messages, folder):
    operation_of = {task.name: task.operation for process in processes for task in process.tasks}
    for name, merge in (("tasks.rec", merge_tasks), ("dag.dot", merge_dag)):
        with open(os.path.join(folder, name), "w", encoding="utf-8") as out:
            merge(processes, out)
    with open(os.path.join(folder, "paje.trace"), "w", encoding="utf-8") as out:
        merge_paje(processes, messages, out)
    for name, merge in (("trace.rec", merge_states), ("distrib.data", merge_distribution)):
        with open(os.path.join(folder, name), "w", encoding="utf-8") as out:
            merge(processes, operation_of, out)


def open_of(process, name):
    return open(os.path.join(process.folder, name), encoding="utf-8", errors="replace")


def prefix_of(processes, index):
    return f"{index}_" if len(processes) > 1 else ""


# ---- tasks.rec, dag.dot ----------------------------------------------------------------------------------


def merge_tasks(processes, out):
    for index, process in enumerate(processes):
        prefix = prefix_of(processes, index)
        with open_of(process, "tasks.rec") as file:
            for line in file:
                key, colon, value = line.rstrip("\n").partition(": ")
                if key in ("JobId", "DependsOn", "SyncWith") and prefix:
                    value = " ".join(prefix + word for word in value.split())
                elif key.endswith("Time") and colon:
                    value = f"{float(value) + process.shift:.6f}"
                elif key == "MPIRank" and prefix:
                    value = str(index)
                out.write(f"{key}{colon}{value}\n")


def merge_dag(processes, out):
    out.write("digraph G {\n\tcolor=white\n\trankdir=LR;\n")
    for index, process in enumerate(processes):
        prefix = prefix_of(processes, index)
        with open_of(process, "dag.dot") as file:
            lines = file.read().split("\n")
        first = next((i for i, line in enumerate(lines) if line.startswith("subgraph")), 0)
        last = max((i for i, line in enumerate(lines) if line.strip() == "}"), default=len(lines))
        for line in lines[first:last]:
            line = re.sub(r'"((?:task|tag|sync)_\w+)"', lambda match: f'"{prefix}{match[1]}"', line)
            out.write(re.sub(r"^subgraph cluster_\w+", f"subgraph cluster_{index}", line) + "\n")
    out.write("}\n")


# ---- paje.trace ------------------------------------------------------------------------------------------

# Fields that name a container or a pair of events, which are different ones in each process.
OWN = {"Container", "StartContainer", "EndContainer", "Key"}
OWN_OF_CONTAINERS = {"PajeCreateContainer": {"Alias", "Name"}, "PajeDestroyContainer": {"Name"}}
COMMON = {"0", "MPIroot", "root"}
WORD = re.compile(r'"[^"]*"|\S+')
LINK = "WeftMessage"


def read_definitions(file):
    """The events that a Paje file has: number: (name, {field: type}). Leaves the file after them."""
    kinds, current = {}, None
    while True:
        place = file.tell()
        line = file.readline()
        if not line.startswith("%"):
            file.seek(place)
            return kinds
        words = line[1:].split()
        if words[0] == "EventDef":
            current = words[2]
            kinds[current] = (words[1], {})
        elif words[0] != "EndEventDef":
            kinds[current][1][words[0]] = words[1]


def definitions_text(kinds):
    for number, (name, fields) in kinds.items():
        yield f"%EventDef\t{name}\t{number}\n"
        yield from (f"%\t{field}\t{kind}\n" for field, kind in fields.items())
        yield "%EndEventDef\n"


def paje_lines(process, prefix):
    """(time, line) of a process: types and values have time None, events the common time."""
    with open_of(process, "paje.trace") as file:
        kinds = read_definitions(file)
        own = {number: OWN | OWN_OF_CONTAINERS.get(name, set()) for number, (name, _) in kinds.items()}
        while line := file.readline():
            words = WORD.findall(line)
            if not words or words[0] not in kinds:
                continue
            fields = kinds[words[0]][1]
            if "Time" not in fields:
                yield None, "\t".join(words)
                continue
            when = 0.0
            for i, field in enumerate(fields, 1):
                if i >= len(words):
                    break
                if field == "Time":
                    when = float(words[i])
                    # What is at 0 is there before all else; the rest counts from the process's own start.
                    when += process.shift if when > 0 else 0
                    words[i] = f"{when:.9f}"
                elif prefix and field in own[words[0]] and words[i] not in COMMON:
                    words[i] = quoted_prefix(prefix, words[i])
            yield when, "\t".join(words)


def quoted_prefix(prefix, word):
    return f'"{prefix}{word[1:]}' if word.startswith('"') else prefix + word


def link_lines(processes, messages, kinds):
    """Messages as links from process to process."""
    number_of = {name: number for number, (name, _) in reversed(kinds.items())}
    if "PajeStartLink" not in number_of or "PajeEndLink" not in number_of:
        return
    for key, m in enumerate(messages):
        value = f'"{m.tensor or "message"}, {m.bytes} bytes"'
        for name, field, when, process in (
            ("PajeStartLink", "StartContainer", m.start, m.source),
            ("PajeEndLink", "EndContainer", m.end, m.target),
        ):
            number = number_of[name]
            values = {
                "Time": f"{when:.9f}",
                "Type": LINK,
                "Container": "MPIroot",
                "Value": value,
                field: f"{prefix_of(processes, process)}p",
                "Key": f"weft_{key}",
            }
            words = [values.get(each, '""') for each in kinds[number][1]]
            yield when, "\t".join([number, *words])


def merge_paje(processes, messages, out):
    with open_of(processes[0], "paje.trace") as file:
        kinds = read_definitions(file)
    out.writelines(definitions_text(kinds))
    said, events = set(), []
    for index, process in enumerate(processes):
        mine = []
        for when, line in paje_lines(process, prefix_of(processes, index)):
            if when is not None:
                mine.append((when, line))
            elif line not in said:
                said.add(line)
                out.write(line + "\n")
        # MPIroot is made once.
        events.append([pair for pair in mine if index == 0 or "\tMPIroot\tMPIP\t" not in pair[1]])
    link = next((number for number, (name, _) in kinds.items() if name == "PajeDefineLinkType"), None)
    if messages and link is not None:
        out.write(f'{link}\t{LINK}\tMPIP\tP\tP\t"weft message"\n')
        events.append(list(link_lines(processes, messages, kinds)))
    for pairs in events:
        pairs.sort(key=lambda pair: pair[0])
    for _, line in heapq.merge(*events, key=lambda pair: pair[0]):
        out.write(line + "\n")


# ---- trace.rec, distrib.data -----------------------------------------------------------------------------


def merge_states(processes, operation_of, out):
    """With the operations alone as names, so that starpu_trace_state_stats has one line for each. Workers,
    and the threads of each program, which all are number -1, stay apart."""
    for index, process in enumerate(processes):
        with open_of(process, "trace.rec") as file:
            for line in file:
                if line.startswith("N: "):
                    name = line[3:-1]
                    line = f"N: {operation_of.get(name, name)}\n"
                elif line.startswith("W: "):
                    worker = int(line[3:])
                    line = f"W: {worker + 1000 * index if worker >= 0 else worker - index}\n"
                elif line.startswith("S: "):
                    line = f"S: {float(line[3:]) + process.shift:.6f}\n"
                out.write(line)


def merge_distribution(processes, operation_of, out):
    """With the operations alone as names: what starpu_codelet_profile is asked for."""
    for process in processes:
        with open_of(process, "distrib.data") as file:
            for line in file:
                name, tab, rest = line.partition("\t")
                out.write(operation_of.get(name, name) + tab + rest)
