#!/usr/bin/env python3
"""What a call of weft costs more in Python than in C: the same calls on the same tensors, in turns, in one world of one rank.

Usage: python_calls.py FOLDER [CASE...]        FOLDER: the build's bench folder; default: all cases

PYTHONPATH and WEFT_TENSORS_LIBRARY name the package and the library of that build (script/bench python-calls sets them). Prints a JSON
object per line: {"bench": "python-calls", "case": "add", "kind": "operator", "c_us": 1.4, "python_us": 2.1, "extra_us": 0.7}. Each
figure is the least of many batches, because other programs only ever add time. No tensor has data (a "fake" world): so no worker's
task comes between, and the call alone is measured, with the release of its result.
"""
import ctypes
import gc
import itertools
import json
import sys
import time
from pathlib import Path

import weft_tensors as wt

CALLS, BATCHES = 400, 150


def cases(a, b, matrix):
    """Name, kind, and the call."""
    return [
        ("add", "operator", lambda: a + b), ("mul", "operator", lambda: a * b), ("div", "operator", lambda: a / b),
        ("lt", "operator", lambda: a < b), ("neg", "operator", lambda: -a), ("add_scalar", "operator", lambda: a + 1.0),
        ("scale", "operator", lambda: a * 2), ("matmul", "operator", lambda: matrix @ b), ("select", "operator", lambda: a[1]),
        ("slice", "operator", lambda: a[1:3]),
        ("exp", "function", lambda: a.exp()), ("transpose", "function", lambda: a.transpose(0, 1)),
        ("unsqueeze", "function", lambda: a.unsqueeze(0)),
        ("softmax", "function", lambda: a.softmax(-1)), ("sum", "function", lambda: a.sum()), ("sum_dim", "function", lambda: a.sum(1)),
        ("arange", "function", lambda: wt.arange(10)),
        ("zeros", "shape", lambda: wt.zeros(3, 4)), ("randn", "shape", lambda: wt.randn(3, 4)),
        ("full", "shape", lambda: wt.full((3, 4), 2.5)),
        ("reshape", "shape", lambda: a.reshape(4, 3)), ("expand", "shape", lambda: a.expand(2, 3, 4)),
        ("permute", "shape", lambda: a.permute(1, 0)),
        ("sum_dims", "shape", lambda: a.sum((0, 1), keepdims=True)), ("cat", "shape", lambda: wt.cat([a, b])),
    ]


def in_python(call):
    """Microseconds of CALLS calls."""
    start = time.perf_counter()
    for _ in itertools.repeat(None, CALLS):
        call()
    return (time.perf_counter() - start) * 1e6


def nothing():
    """A call of Python: every case has one beside weft's."""


def main():
    folder, chosen = Path(sys.argv[1]), sys.argv[2:]
    library = ctypes.CDLL(str(next(each for each in folder.glob("libpython-calls.*") if each.is_file())))
    measure = library.python_calls_us
    measure.restype, measure.argtypes = ctypes.c_double, [ctypes.c_char_p, ctypes.c_void_p, ctypes.c_int]
    wt.init(kind="fake", fake_size=1)
    a, b, matrix = wt.zeros(3, 4), wt.zeros(3, 4), wt.zeros(2, 3)
    operands = (ctypes.c_void_p * 3)(*(each._as_parameter_ for each in (a, b, matrix)))
    gc.disable()
    empty_us = min(in_python(nothing) for _ in range(BATCHES)) / CALLS
    for name, kind, call in cases(a, b, matrix):
        if chosen and name not in chosen:
            continue
        c_us = python_us = float("inf")
        for _ in range(BATCHES):
            c_us = min(c_us, measure(name.encode(), operands, CALLS) / CALLS)
            python_us = min(python_us, in_python(call) / CALLS - empty_us)
        if c_us <= 0:
            sys.exit(f"{name}: the call failed in C")
        print(json.dumps({"bench": "python-calls", "case": name, "kind": kind, "c_us": round(c_us, 2), "python_us": round(python_us, 2),
                          "extra_us": round(python_us - c_us, 2)}), flush=True)


if __name__ == "__main__":
    main()
