#!/usr/bin/env python3
"""Runs a job, and after a failure runs it again from its newest checkpoint, on the processes that are left.

usage: weft-run [OPTION...] -- COMMAND...

  --checkpoint PATTERN   files of checkpoints (may be repeated; * and ? as in the shell, in quotes)
  --tries N              give up after N starts in a row that have left no newer checkpoint (3)
  --wait SECONDS         before a start after a failure (1)
  --processes N          the number of processes
  --hosts FILE           hosts in lines "name slots=N" instead: before each start those that answer are counted
  --probe COMMAND        how to ask a host, named {host} in it (ssh -o BatchMode=yes -o ConnectTimeout=10 {host} true)
  --least N              give up if fewer processes are left (1)
  --grace SECONDS        what a job has to end after SIGTERM (10)

In COMMAND these words and parts of words are replaced at each start:

  {processes}            the number of processes that are left
  {hosts}                a file of the hosts that are left, in the form that was given
  {checkpoint}           the newest checkpoint; words with it are left out while there is none, and --option before them too

For example

  weft-run --checkpoint model.safetensors --processes 4 -- mpirun -n {processes} \\
      transformer_lm --mesh dp={processes} --save model.safetensors --load {checkpoint}
  weft-run --checkpoint 'run/*.safetensors' --hosts hosts -- mpirun --hostfile {hosts} -n {processes} ./program {checkpoint}

The environment of COMMAND has WEFTRUN_TRY, the number of this start, from 1. SIGINT and SIGTERM go to the job, which is then not
started again; SIGUSR1 goes to the job. The status is that of the last start, 128 + N after signal N, or 2 for wrong arguments.
"""
import glob
import os
import shlex
import signal
import subprocess
import sys
import tempfile
import time

DEFAULTS = {"checkpoint": [], "tries": 3, "wait": 1.0, "processes": None, "hosts": None, "least": 1, "grace": 10.0,
            "probe": "ssh -o BatchMode=yes -o ConnectTimeout=10 {host} true"}
WHOLE = {"tries", "processes", "least"}


def say(text):
    print(f"weft-run: {text}", file=sys.stderr, flush=True)


def refuse(text):
    say(f"{text} (try --help)")
    sys.exit(2)


# ---- arguments -------------------------------------------------------------------------------------------------------


def number(name, text):
    try:
        value = int(text) if name in WHOLE else float(text)
    except ValueError:
        value = -1
    if value < (1 if name in WHOLE else 0) or value != value or value == float("inf"):
        refuse(f"--{name} {text}: a number from {1 if name in WHOLE else 0} is expected")
    return value


def read_arguments(words):
    """The options, and the command after them."""
    options = {**DEFAULTS, "checkpoint": []}
    while words and words[0].startswith("--") and words[0] != "--":
        name, has_value, value = words[0][2:].partition("=")
        words = words[1:]
        if name == "help":
            print(__doc__.strip())
            sys.exit(0)
        if name not in DEFAULTS:
            refuse(f"there is no option --{name}")
        if not has_value:
            if not words:
                refuse(f"--{name} needs a value")
            value, words = words[0], words[1:]
        if name == "checkpoint":
            options["checkpoint"].append(value)
        else:
            options[name] = value if name in ("hosts", "probe") else number(name, value)
    words = words[1:] if words[:1] == ["--"] else words
    if not words:
        refuse("a command is expected")
    return options, words


# ---- what is left ----------------------------------------------------------------------------------------------------


def slots_of(line):
    for word in line.split()[1:]:
        if word.startswith("slots=") and word[6:].isdigit():
            return int(word[6:])
    return 1


def read_hosts(path):
    """Lines with a host, without comments."""
    try:
        with open(path, encoding="utf-8") as file:
            lines = [line.partition("#")[0].strip() for line in file]
    except OSError as error:
        refuse(f"--hosts {path}: {error.strerror}")
    return [line for line in lines if line]


def answering(hosts, probe):
    """The hosts whose probe ends with status 0; all are asked at once."""
    asked = [(line, subprocess.Popen(probe.replace("{host}", shlex.quote(line.split()[0])), shell=True, stdin=subprocess.DEVNULL,
                                     stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)) for line in hosts]
    left = [line for line, probing in asked if probing.wait() == 0]
    for line in hosts:
        if line not in left:
            say(f"{line.split()[0]} does not answer")
    return left


def newest(patterns):
    """(time, path) of the newest checkpoint; weft replaces files by rename(), so each is whole. None: there is none."""
    found = []
    for path in {path for pattern in patterns for path in glob.glob(pattern)}:
        try:
            found.append((os.stat(path).st_mtime_ns, path))
        except OSError:
            pass  # it has been replaced or removed since
    return max(found, default=None)


def command_of(words, values):
    """The command with the values of {names}; a word without a value goes, with the option before it."""
    command = []
    for word in words:
        missing = [name for name, value in values.items() if value is None and f"{{{name}}}" in word]
        if missing:
            if command and command[-1].startswith("-") and "=" not in command[-1]:
                command.pop()
            continue
        for name, value in values.items():
            word = word.replace(f"{{{name}}}", str(value))
        command.append(word)
    return command


# ---- the job ---------------------------------------------------------------------------------------------------------


class Job:
    """One start at a time, in a group of processes of its own, which ends with it."""

    def __init__(self, grace):
        self.grace, self.ended_by = grace, None
        self.signals = []  # that have come, and which the job has not got
        for each in (signal.SIGINT, signal.SIGTERM, signal.SIGUSR1):
            signal.signal(each, self.note)

    def note(self, number, _frame):
        self.signals.append(number)
        if number != signal.SIGUSR1:
            self.ended_by = number

    def run(self, command, attempt):
        try:
            child = subprocess.Popen(command, start_new_session=True, env={**os.environ, "WEFTRUN_TRY": str(attempt)})
        except OSError as error:
            say(f"{command[0]}: {error.strerror}")
            return 127
        deadline = None
        while child.poll() is None and (deadline is None or time.monotonic() < deadline):
            while self.signals:
                child.send_signal(self.signals.pop(0))
            if self.ended_by is not None and deadline is None:
                deadline = time.monotonic() + self.grace
            time.sleep(0.05)
        try:
            os.killpg(child.pid, signal.SIGKILL)  # what a failed start has left behind
        except OSError:
            pass
        status = child.wait()
        return 128 - status if status < 0 else status


def sleep(job, seconds):
    until = time.monotonic() + seconds
    while job.ended_by is None and time.monotonic() < until:
        time.sleep(0.05)


def start(job, options, words, hosts, attempt, folder):
    """One start; its status, None: too few processes are left."""
    processes, file = options["processes"], None
    if hosts is not None:
        left = answering(hosts, options["probe"])
        processes, file = sum(map(slots_of, left)), os.path.join(folder, "hosts")
        with open(file, "w", encoding="utf-8") as out:
            out.writelines(line + "\n" for line in left)
    if processes is not None and processes < options["least"]:
        say(f"{processes} processes are left, and --least is {options['least']}")
        return None
    checkpoint = newest(options["checkpoint"])
    values = {"processes": processes, "hosts": file, "checkpoint": checkpoint and checkpoint[1]}
    for name in ("processes", "hosts"):
        if values[name] is None and any(f"{{{name}}}" in word for word in words):
            refuse(f"the command has {{{name}}}, and there is no --hosts{' or --processes' if name == 'processes' else ''}")
    say(f"start {attempt}{'' if processes is None else f', {processes} processes'}"
        f"{f', from {checkpoint[1]}' if checkpoint else ''}")
    return job.run(command_of(words, values), attempt)


def main():
    options, words = read_arguments(sys.argv[1:])
    hosts = None if options["hosts"] is None else read_hosts(options["hosts"])
    job, attempt, without_progress, status = Job(options["grace"]), 0, 0, 1
    with tempfile.TemporaryDirectory(prefix="weft-run-") as folder:
        while job.ended_by is None:
            attempt += 1
            before = newest(options["checkpoint"])
            given = start(job, options, words, hosts, attempt, folder)
            if given is None:
                break
            status = given
            if status == 0 or job.ended_by is not None:
                break
            without_progress = without_progress + 1 if newest(options["checkpoint"]) == before else 0
            say(f"start {attempt} ended with status {status}")
            if without_progress >= options["tries"]:
                say(f"{without_progress} starts in a row have left no newer checkpoint: no more")
                break
            sleep(job, options["wait"])
    sys.exit(128 + job.ended_by if job.ended_by is not None and status != 0 else status)


if __name__ == "__main__":
    main()
