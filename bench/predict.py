#!/usr/bin/env python3
"""Predicted against measured steps on hosts of bench/cluster: char_lm, transformer_lm and bench-overlap.

    bench/predict.py BUILD [--turns N] [--hosts N]...

In each run process 0 predicts the steps from its third one on (WEFT_PREDICT: kernels timed there, one by one, while nothing
else runs; links as weft measured them before, with messages of its own). The steps after that are measured. The machine has
to be idle. Programs take turns; one JSON object per line: medians of all turns, and the error of the prediction."""

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
CORES = len(os.sched_getaffinity(0))

# Name, program, arguments with {hosts}, steps that follow each other without a wait.
PROGRAMS = [
    ("char_lm", "examples/char_lm",
     "--graph --mesh {hosts}x1 --batch 1024 --hidden 1024 --steps 30 --sample 0 --json", 4),
    ("transformer_lm tp", "examples/transformer_lm",
     "--graph --mesh tp={hosts} --parallel tp --heads {hosts} --kv-heads {hosts} --width 256 --steps 24 --untimed 6 "
     "--validate 0 --sample 0 --json", 4),
    ("transformer_lm fsdp", "examples/transformer_lm",
     "--graph --mesh dp={hosts} --parallel fsdp --width 256 --steps 24 --untimed 6 --validate 0 --sample 0 --json", 4),
    ("overlap", "bench/bench-overlap", "--graph 1 --inner 1024 --repetitions 9", 1),
]


def measured_ms(name, text, predicting_s):
    last = json.loads(text.strip().splitlines()[-1])
    if name == "overlap":
        return last["step_ms"]
    steps = last["steps"] - (6 if name.startswith("transformer") else 0)
    seconds = last["seconds"] - (predicting_s if name == "char_lm" else 0)
    return 1e3 * seconds / steps


def run(build, hosts, name, program, arguments, runs):
    """(predicted, measured) in milliseconds."""
    with tempfile.TemporaryDirectory() as folder:
        results = os.path.join(folder, "prediction")
        sharing = max(1, hosts // CORES)
        environment = dict(os.environ)
        environment["WEFT_PREDICT"] = f"json,to={results},run=3,runs={runs},hosts={hosts},cores=1,sharing={sharing}"
        command = [os.path.join(HERE, "cluster"), "--name", "predict", "run", str(hosts), os.path.join(build, program),
                   *arguments.format(hosts=hosts).split()]
        done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=600, check=False)
        if done.returncode != 0:
            sys.exit(f"bench/predict.py: {' '.join(command)} ended with {done.returncode}:\n{done.stderr[-2000:]}")
        with open(results, encoding="utf-8") as file:
            prediction = json.loads(file.readline())
    return prediction["step_us"] * 1e-3, measured_ms(name, done.stdout, prediction["took_us"] * 1e-6)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("build")
    parser.add_argument("--turns", type=int, default=5)
    parser.add_argument("--hosts", type=int, action="append")
    given = parser.parse_args()
    for hosts in given.hosts or [2, 4]:
        found = {name: [] for name, *_ in PROGRAMS}
        for _ in range(given.turns):
            for name, program, arguments, runs in PROGRAMS:
                found[name].append(run(given.build, hosts, name, program, arguments, runs))
        for name, pairs in found.items():
            predicted = statistics.median(p for p, _ in pairs)
            measured = statistics.median(m for _, m in pairs)
            print(json.dumps({
                "bench": "predict", "case": name, "hosts": hosts, "predicted_ms": round(predicted, 2),
                "measured_ms": round(measured, 2), "error": round(predicted / measured - 1, 3),
                "measured_from": round(min(m for _, m in pairs), 2), "measured_to": round(max(m for _, m in pairs), 2),
            }), flush=True)


if __name__ == "__main__":
    main()
