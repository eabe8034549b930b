#!/usr/bin/env python3
"""The transformer of examples/transformer_lm beside the same in PyTorch (bench/peers): the same initial weights, batches and
optimiser. Prints one JSON object per line. Called by script/bench.

    peers.py BUILD             all cases, seven turns of each: half an hour
    peers.py BUILD --quick     two turns
    peers.py BUILD --case tp   one case: operations, losses, one, tp, tp-alike, fsdp

The first two steps, which allocate, are not timed. In a turn weft and PyTorch run one after the other, so that both meet
the same machine; where PyTorch has several ways that users choose from, all of them run, and the fastest counts. least:
ratio of the best runs; median: of the medians.

PyTorch comes from a virtual environment outside the repository, which is made here if it does not exist (WEFT_PEERS_PYTHON: a
Python that has torch, safetensors and numpy instead).
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
PACKAGES = ["torch==2.15.0", "safetensors", "numpy"]

# One step of `speed` takes about a second: long against a call's overhead, and a run still takes seconds. On two hosts
# computing and communicating take about as long as each other at 1 Gbit/s: 16 exchanges of 4 MB of activations for tp, three
# times half of 48 MB of weights and gradients for fsdp.
SPEED = {"layers": 4, "width": 512, "heads": 8, "kv-heads": 4, "context": 256, "batch": 8, "steps": 6}
# Half as wide: on two hosts tensor parallelism computes about as long as it communicates.
ALIKE = {**SPEED, "width": 256, "steps": 8}
# Small, so that 100 steps take seconds.
LOSSES = {"layers": 3, "width": 128, "heads": 4, "kv-heads": 2, "context": 64, "batch": 8, "steps": 100}
# First steps, which no clock counts: they allocate.
UNTIMED = 2
SCHEDULE = {"seed": 3, "warmup": 20, "lr": 1e-3, "text": "/usr/share/common-licenses/GPL-3"}

# Name: sizes, weft's options, PyTorch's ways, hosts (0: one process with two threads).
CASES = {
    "losses": (LOSSES, [], [[]], 0),
    "one": (SPEED, [], [[]], 0),
    "tp": (SPEED, ["--mesh", "tp=2", "--parallel", "tp"], [["--parallel", "tp"], ["--parallel", "tp", "--whole-rows"]], 2),
    "tp-alike": (ALIKE, ["--mesh", "tp=2", "--parallel", "sequence"],
                 [["--parallel", "tp"], ["--parallel", "tp", "--whole-rows"]], 2),
    "fsdp": (SPEED, ["--mesh", "dp=2", "--parallel", "fsdp"],
             [["--parallel", "fsdp"], ["--parallel", "fsdp", "--keep-gathered"]], 2),
}


def find_python():
    """A Python with PyTorch, or None with a message."""
    given = os.environ.get("WEFT_PEERS_PYTHON")
    if given:
        return given
    cache = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
    folder = os.path.join(cache, "weft", "peers")
    python, done = os.path.join(folder, "bin", "python"), os.path.join(folder, "complete")
    if os.path.exists(done):
        return python
    print(f"weft: installing {' '.join(PACKAGES)} in {folder} (some minutes, once)", file=sys.stderr)
    made = subprocess.run([sys.executable, "-m", "venv", folder], check=False, stdout=sys.stderr).returncode == 0
    pip = [python, "-m", "pip", "install", "--quiet", "--retries", "1", "--timeout", "20", *PACKAGES]
    if not made or subprocess.run(pip, check=False, stdout=sys.stderr).returncode != 0:
        print("weft: skipped: PyTorch cannot be installed (is PyPI reachable?)", file=sys.stderr)
        return None
    open(done, "w").close()
    return python


def words(options):
    return [word for name, value in options.items() for word in ("--" + name, str(value))]


def last_object(command):
    result = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, check=False)
    objects = [line for line in result.stdout.splitlines() if line.startswith("{")]
    if result.returncode != 0 or not objects:
        sys.exit(f"bench: {' '.join(command)} ended with status {result.returncode}\n{result.stderr[-2000:]}")
    return json.loads(objects[-1])


class Bench:
    def __init__(self, arguments, python, folder):
        self.arguments, self.python, self.folder = arguments, python, folder
        self.program = os.path.join(arguments.build, "examples", "transformer_lm")

    def weights(self, sizes):
        """A file of initial weights."""
        path = os.path.join(self.folder, "-".join(str(value) for value in sizes.values()) + ".safetensors")
        if not os.path.exists(path):
            last_object([self.program, *words({**sizes, **SCHEDULE, "steps": 0, "save": path}), "--json"])
        return path

    def on_hosts(self, hosts, command):
        cluster = [os.path.join(HERE, "cluster"), "--name", self.arguments.cluster, "run", str(hosts)]
        return [*cluster, *command] if hosts else command

    def run_weft(self, sizes, options, hosts):
        fixed = {**sizes, **SCHEDULE, "load": self.weights(sizes), "validate": 0, "sample": 0, "untimed": UNTIMED}
        return last_object(self.on_hosts(hosts, [self.program, *words(fixed), *options, "--json"]))

    def run_torch(self, sizes, options, hosts):
        threads = 1 if hosts else 2
        fixed = {**sizes, **SCHEDULE, "load": self.weights(sizes), "threads": threads, "untimed": UNTIMED}
        train = [os.path.join(HERE, "peers", "train.py"), *words(fixed), *options]
        return last_object(self.on_hosts(hosts, ["env", f"OMP_NUM_THREADS={threads}", self.python, *train]))

    def compare(self, name):
        sizes, options, ways, hosts = CASES[name]
        ways = ways[:1] if self.arguments.quick else ways
        weft, torch, apart = [], [[] for _ in ways], 0.0
        for _ in range(1 if name == "losses" else self.arguments.turns):
            own = self.run_weft(sizes, options, hosts)
            weft.append(own["tokens_per_s"])
            for way, rates in zip(ways, torch):
                other = self.run_torch(sizes, way, hosts)
                rates.append(other["tokens_per_s"])
                apart = max([apart] + [abs(a - b) for a, b in zip(own["losses"], other["losses"])])
        found = {"case": name, "steps": sizes["steps"], "losses_apart": round(apart, 7)}
        if name != "losses":
            best = max(torch, key=statistics.median)
            found.update({
                "peer": " ".join(ways[torch.index(best)]) or "eager",
                "weft_tokens_per_s": round(statistics.median(weft), 1), "torch_tokens_per_s": round(statistics.median(best), 1),
                "median": round(statistics.median(weft) / statistics.median(best), 3),
                "least": round(max(weft) / max(best), 3), "turns": self.arguments.turns,
            })
        print(json.dumps({"bench": "peers", **found}), flush=True)

    def operations(self):
        program = os.path.join(HERE, "peers", "operations.py")
        subprocess.run([self.python, program, self.arguments.build, "--turns", str(self.arguments.turns)], check=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("build")
    parser.add_argument("--case", choices=["operations", *CASES])
    parser.add_argument("--turns", type=int, default=7)
    parser.add_argument("--quick", action="store_true", help="two turns, and one way of PyTorch's")
    parser.add_argument("--cluster", default="peers", help="name of the hosts' cluster")
    arguments = parser.parse_args()
    if arguments.quick:
        arguments.turns = 2
    python = find_python()
    if python is None:
        return
    with tempfile.TemporaryDirectory() as folder:
        bench = Bench(arguments, python, folder)
        for name in [arguments.case] if arguments.case else ["operations", *CASES]:
            if name == "operations":
                bench.operations()
            else:
                bench.compare(name)


if __name__ == "__main__":
    main()
