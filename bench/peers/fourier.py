#!/usr/bin/env python3
"""Complex transforms in double precision of weft's Python package beside mpi4py-fft's, in turn, one rank per process:
`mpirun -n 2 python3 bench/peers/fourier.py 4096x4096 256x256x256` prints one JSON object for each shape, with the ratio of the medians.

Needs mpi4py and mpi4py-fft, and WEFT_TENSORS_LIBRARY with weft's shared library. mpi4py-fft plans with FFTW_MEASURE, its default. Both
leave the result in the layout of their own."""

import json
import statistics
import sys
import time

import numpy as np
from mpi4py import MPI
from mpi4py_fft import PFFT, newDistArray

import weft_tensors as wt
from weft_tensors import fft

REPETITIONS = 7


def timed(function):
    MPI.COMM_WORLD.Barrier()
    start = time.perf_counter()
    function()
    return MPI.COMM_WORLD.allreduce(time.perf_counter() - start, MPI.MAX)


def measure(shape):
    plan = PFFT(MPI.COMM_WORLD, shape, dtype=np.complex128)
    values = newDistArray(plan, False)
    values[...] = 1
    result = newDistArray(plan, True)
    mesh = wt.Mesh([MPI.COMM_WORLD.size])
    tensor = wt.ones(shape, dtype="complex128", mesh=mesh, placements=[wt.Shard(0)])

    def ours():
        fft.fftn(tensor)
        wt.wait()

    def theirs():
        plan.forward(values, result, normalize=False)

    times = [(timed(ours), timed(theirs)) for _ in range(REPETITIONS + 1)][1:]
    own, other = (statistics.median(column) for column in zip(*times))
    if MPI.COMM_WORLD.rank == 0:
        print(json.dumps({"bench": "fourier_python", "shape": shape, "processes": MPI.COMM_WORLD.size, "ms": round(own * 1e3, 1),
                          "mpi4py_fft_ms": round(other * 1e3, 1), "vs_mpi4py_fft": round(own / other, 3)}), flush=True)


wt.init(comm=MPI.COMM_WORLD)
for text in sys.argv[1:] or ["4096x4096"]:
    measure([int(size) for size in text.split("x")])
