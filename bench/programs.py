#!/usr/bin/env python3
"""Benchmarks that run programs: prints one JSON object per line. Called by script/bench.

    programs.py sched BUILD    bench-overlap, and examples/char_lm, on two hosts of bench/cluster, under weft's policy and StarPU's
    programs.py train BUILD    tokens per second of examples/char_lm: in one process, under mpirun, on two hosts
    programs.py auto BUILD     tokens per second of examples/transformer_lm with the layouts of --parallel auto, over those of each
                               style that is written by hand: on two hosts, and as two ranks of one process

What is compared alternates; medians of --repetitions runs (default 5).
"""

import argparse
import json
import os
import statistics
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
ON_HOSTS = [os.path.join(HERE, "cluster"), "run", "2"]
POLICIES = ["weft", "eager", "lws", "prio", "dmdas"]
# Large enough that a step is milliseconds on two hosts.
TRAINING = ["--mesh", "2x1", "--batch", "1024", "--hidden", "1024", "--steps", "30", "--sample", "0", "--json"]

# Captured steps of two models: sums of activations are smaller than those of gradients; larger.
TRANSFORMERS = {
    "wide": ["--width", "512", "--heads", "8", "--kv-heads", "8", "--layers", "2", "--context", "64", "--batch", "2"],
    "narrow": ["--width", "128", "--heads", "4", "--kv-heads", "4", "--layers", "2", "--context", "128", "--batch", "32"],
}
CAPTURED = ["--graph", "--steps", "24", "--untimed", "4", "--validate", "0", "--sample", "0", "--json"]
STYLES = {"dp": "dp=2", "fsdp": "dp=2", "tp": "tp=2", "sequence": "tp=2", "auto": "tp=2"}


def last_object(command, variables=None):
    """Runs a program; the last JSON object that it prints."""
    result = subprocess.run(
        command, env=dict(os.environ, **(variables or {})), stdout=subprocess.PIPE, text=True, check=False
    )
    objects = [line for line in result.stdout.splitlines() if line.startswith("{")]
    if result.returncode != 0 or not objects:
        sys.exit(f"bench: {' '.join(command)} ended with status {result.returncode}")
    return json.loads(objects[-1])


def sched(build, repetitions, only=None):
    overlap = ON_HOSTS + [os.path.join(build, "bench/bench-overlap")]
    char_lm = ON_HOSTS + [os.path.join(build, "examples/char_lm"), *TRAINING]
    for case in ("overlap", "char_lm"):
        if only not in (None, case):
            continue
        command, field = char_lm, "seconds"
        if case == "overlap":  # the same work for all, which takes about as long as its messages
            inner = last_object(overlap + ["--ratio", "1"])["inner"]
            command, field = overlap + ["--inner", str(inner)], "step_ms"
        times = {policy: [] for policy in POLICIES}
        for _ in range(repetitions):
            for policy in POLICIES:
                variables = {} if policy == "weft" else {"STARPU_SCHED": policy}
                value = last_object(command, variables)[field]
                times[policy].append(value if field == "step_ms" else 1e3 * value / 30)
        medians = {policy: statistics.median(values) for policy, values in times.items()}
        for policy, step_ms in medians.items():
            best_other = min(value for other, value in medians.items() if other != policy)
            show("sched", case=case, policy=policy, step_ms=round(step_ms, 2), least_ms=round(min(times[policy]), 2),
                 vs_best_other=round(step_ms / best_other, 3))


def train(build, repetitions, only=None):
    program = os.path.join(build, "examples/char_lm")
    small = [program, "--steps", "200", "--sample", "0", "--json"]
    mpirun = ["mpirun", "-n", "2"]
    cases = {
        "1 rank": small + ["--mesh", "1x1"],
        "2 ranks, one process": small + ["--mesh", "2x1"],
        "4 ranks, one process": small + ["--mesh", "2x2"],
        "2 processes, one host": mpirun + small + ["--mesh", "2x1"],
        "1 rank, batch 1024, hidden 1024": [program, *TRAINING, "--mesh", "1x1"],
        "2 hosts, batch 1024, hidden 1024": ON_HOSTS + [program, *TRAINING],
    }
    cases = {case: cases[case] for case in cases if only in (None, case)}
    found = {case: [] for case in cases}
    for _ in range(repetitions):
        for case, command in cases.items():
            one_worker = {"STARPU_NCPU": "1"} if "hidden" in case else {}
            found[case].append(last_object(command, one_worker)["tokens_per_s"])
    for case, values in found.items():
        show("train", case=case, tokens_per_s=round(statistics.median(values), 1))


def auto(build, repetitions, only=None):
    program = os.path.join(build, "examples/transformer_lm")
    for where, start in {"two hosts": ON_HOSTS, "one machine": []}.items():
        for model, sizes in TRANSFORMERS.items():
            case = f"{where}, {model}"
            if only not in (None, case):
                continue
            rates = {style: [] for style in STYLES}
            for _ in range(repetitions):
                for style, mesh in STYLES.items():
                    command = start + [program, "--mesh", mesh, "--parallel", style, *sizes, *CAPTURED]
                    rates[style].append(last_object(command)["tokens_per_s"])
            medians = {style: statistics.median(values) for style, values in rates.items()}
            best = max((style for style in STYLES if style != "auto"), key=medians.get)
            for style, rate in medians.items():
                show("auto", case=case, parallel=style, tokens_per_s=round(rate, 1), vs_best_by_hand=round(rate / medians[best], 3))


def show(name, **fields):
    print(json.dumps({"bench": name, **fields}), flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("benchmark", choices=["sched", "train", "auto"])
    parser.add_argument("build")
    parser.add_argument("--repetitions", type=int, default=5)
    parser.add_argument("--case", help="this one alone")
    arguments = parser.parse_args()
    {"sched": sched, "train": train, "auto": auto}[arguments.benchmark](arguments.build, arguments.repetitions, arguments.case)


if __name__ == "__main__":
    main()
