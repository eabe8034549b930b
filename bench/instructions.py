#!/usr/bin/env python3
"""Instructions of the calling thread for a call, counted by callgrind, which other programs do not disturb: the difference of two
runs of bench-instructions, one with 400 calls more. starpu_task_submit() is left out: what it does depends on
what the workers are doing.

Usage: instructions.py PROGRAM [CASE...]       eager, recorded, replayed, frozen; default: all

Prints a JSON object per line: {"bench": "instructions", "case": "eager", "ranks": 1, "instructions": 5777, "within": "weft_add"}.
Graphs are of 16 additions: the figure is for each of them.
"""

import json
import re
import subprocess
import sys
import tempfile
from pathlib import Path

CALLS_OF_A_GRAPH = 16
FEW, MANY = 100, 500
WITHIN = {"eager": "weft_add", "recorded": "weft_add", "replayed": "weft_graph_call", "frozen": "weft_graph_call"}


def count(program, case, ranks, calls):
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "callgrind"
        subprocess.run(["valgrind", "--tool=callgrind", "--fair-sched=yes", f"--toggle-collect={WITHIN[case]}",
                        "--toggle-collect=starpu_task_submit",
                        f"--callgrind-out-file={out}", program, case, str(ranks), str(calls)],
                       check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        text = "".join(path.read_text() for path in Path(folder).iterdir())
    return sum(int(total) for total in re.findall(r"^(?:summary|totals): (\d+)", text, re.MULTILINE)[:1])


def main():
    program = sys.argv[1]
    for case in sys.argv[2:] or WITHIN:
        for ranks in (1, 2):
            more = count(program, case, ranks, MANY) - count(program, case, ranks, FEW)
            each = more / (MANY - FEW) / (CALLS_OF_A_GRAPH if WITHIN[case] == "weft_graph_call" else 1)
            print(json.dumps({"bench": "instructions", "case": case, "ranks": ranks, "instructions": round(each),
                              "within": WITHIN[case]}), flush=True)


if __name__ == "__main__":
    main()
