#!/usr/bin/env python3
"""Instructions of the calling thread for a call, counted by callgrind, which other programs do not disturb: the difference of two
runs of bench-instructions, one with 400 calls more. starpu_task_submit() is left out: what it does depends on
what the workers are doing.

Usage: instructions.py PROGRAM [CASE...]       eager, matmul, recorded, replayed, frozen; default: all

Prints a JSON object per line: {"bench": "instructions", "case": "eager", "ranks": 1, "instructions": 3232, "files": 20,
"within": "weft_add"}. Graphs are of 16 additions: the figure is for each of them. files: weft's, functions of which each
call enters.
"""

import json
import re
import subprocess
import sys
import tempfile
from pathlib import Path

CALLS_OF_A_GRAPH = 16
FEW, MANY = 100, 500
WITHIN = {"eager": "weft_add", "matmul": "weft_matmul", "recorded": "weft_add", "replayed": "weft_graph_call", "frozen": "weft_graph_call"}


def costs_of(text):
    """{file of weft's sources: instructions in functions that it defines}, of a file of callgrind's."""
    names, costs, file, inclusive = {}, {}, "", False
    for line in text.splitlines():
        entry = re.match(r"(c?f[li])=\((\d+)\)(?: (.*))?$", line)
        if entry:
            if entry[3]:
                names[entry[2]] = entry[3]
            if entry[1] == "fl":
                file = names.get(entry[2], "")
        elif line.startswith("calls="):
            inclusive = True  # the next line is the cost of what is called
        elif re.match(r"[-+*\d]\S* \d+$", line):
            if not inclusive and "/src/" in file and "/build" in file:
                costs[file] = costs.get(file, 0) + int(line.split()[1])
            inclusive = False
    return costs


def count(program, case, ranks, calls):
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "callgrind"
        subprocess.run(["valgrind", "--tool=callgrind", "--fair-sched=yes", f"--toggle-collect={WITHIN[case]}",
                        "--toggle-collect=starpu_task_submit",
                        f"--callgrind-out-file={out}", program, case, str(ranks), str(calls)],
                       check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        text = "".join(path.read_text() for path in Path(folder).iterdir())
    total = int(re.search(r"^(?:summary|totals): (\d+)", text, re.MULTILINE)[1])
    return total, costs_of(text)


def main():
    program = sys.argv[1]
    for case in sys.argv[2:] or WITHIN:
        for ranks in (1, 2):
            few, in_few = count(program, case, ranks, FEW)
            many, in_many = count(program, case, ranks, MANY)
            files = [file for file, cost in in_many.items() if cost - in_few.get(file, 0) >= MANY - FEW]
            each = (many - few) / (MANY - FEW) / (CALLS_OF_A_GRAPH if WITHIN[case] == "weft_graph_call" else 1)
            print(json.dumps({"bench": "instructions", "case": case, "ranks": ranks, "instructions": round(each),
                              "files": len(files), "within": WITHIN[case]}), flush=True)


if __name__ == "__main__":
    main()
