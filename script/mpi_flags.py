"""The MPI that weft is built with, as its wrapper compiler tells: meson.build reads what this prints.

Usage: mpi_flags.py BUILD-FOLDER NAME COMPILER...

NAME is -Dmpi_compiler's value, "" for none; COMPILER the C compiler of the build if it compiles MPI programs by itself
(CC=mpicc, or Cray's cc). Without either: $MPICC, else the wrapper of the last configuration, else mpicc.

Prints lines "KEY<tab>VALUE": compiler (its path), launcher (the mpirun beside it), and one line for each compile and link flag.
Exits with 1 where there is no such compiler, or it does not tell its flags; the reason is on standard error.
"""

import os
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

# "-show" is MPICH's, Intel's, MVAPICH's and Open MPI's.
SHOW = "-show"


def flags_of(command):
    """The flags that a wrapper adds, or None if it does not tell."""
    shown = subprocess.run([*command, SHOW], capture_output=True, text=True, stdin=subprocess.DEVNULL)
    if shown.returncode != 0 or not shown.stdout.strip():
        return None
    return shlex.split(shown.stdout.splitlines()[0])


def sort(words):
    """[compile flags], [link flags] of a wrapper's whole command line. What is neither is the compiler itself, and how it
    optimises."""
    compile_flags, link_flags = [], []
    waiting = iter(words)
    for word in waiting:
        if word in ("-I", "-isystem", "-D"):
            compile_flags.append(word + next(waiting, ""))
        elif word in ("-L", "-l"):
            link_flags.append(word + next(waiting, ""))
        elif word == "-Xlinker":
            link_flags.append("-Wl," + next(waiting, ""))
        elif word.startswith(("-I", "-D", "-isystem")):
            compile_flags.append(word)
        elif word.startswith(("-L", "-l", "-Wl,")) or re.search(r"\.(a|so)(\.\d+)*$", word):
            link_flags.append(word)
        elif word == "-pthread":
            compile_flags.append(word)
            link_flags.append(word)
    # -Xlinker -rpath -Xlinker DIR: one flag, or else the order could be lost.
    joined = []
    for flag in link_flags:
        if joined and joined[-1] in ("-Wl,-rpath", "-Wl,--rpath", "-Wl,-R") and flag.startswith("-Wl,"):
            joined[-1] += "," + flag.removeprefix("-Wl,")
        else:
            joined.append(flag)
    return compile_flags, joined


def launcher_beside(compiler):
    """mpirun.mpich beside mpicc.mpich, mpirun beside mpicc or mpiicx; else the first in PATH; "" where there is none."""
    path = Path(compiler)
    for program in ("mpirun", "mpiexec"):
        name = re.sub(r"mpi(icc|icx|gcc|clang|cc)", program, path.name)
        if name != path.name and (path.parent / name).exists():
            return str(path.parent / name)
    for program in ("mpirun", "mpiexec"):
        if (path.parent / program).exists():
            return str(path.parent / program)
    return shutil.which("mpirun") or shutil.which("mpiexec") or ""


def choose(build_folder, name):
    """The name of the wrapper. $MPICC is kept in a file: a build that ninja configures again does not know it any more."""
    kept = Path(build_folder) / "mpi_compiler"
    if not name and os.environ.get("MPICC"):
        kept.write_text(os.environ["MPICC"] + "\n")
    return name or (kept.read_text().strip() if kept.exists() else "mpicc")


def main(build_folder, name, *compiler):
    command = list(compiler) or shlex.split(choose(build_folder, name))
    path = shutil.which(command[-1])
    if path is None:
        sys.exit(f"there is no {command[-1]}")
    words = flags_of(command)
    if words is None and not compiler:
        sys.exit(f"{path} {SHOW} does not tell its flags")
    compile_flags, link_flags = sort(words or [])
    print("compiler", path, sep="\t")
    print("launcher", launcher_beside(path), sep="\t")
    for flag in compile_flags:
        print("compile", flag, sep="\t")
    for flag in link_flags:
        print("link", flag, sep="\t")


if __name__ == "__main__":
    main(*sys.argv[1:])
