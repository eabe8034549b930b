"""NumPy on each rank's part, as tasks: a histogram of numbers that no process has in full.

    python ranks.py
    mpirun -n 3 python ranks.py
"""
import numpy as np

import weft_tensors as wt

wt.init(ranks=6)
bins = np.linspace(-4, 4, 9)


def count(part):
    """Runs on a worker for each rank: gets the rank's rows as an array, and returns its addend of the result."""
    return np.histogram(part, bins)[0]


numbers = wt.randn(600000, placements="S0")
counts = wt.local_map(count, [numbers], [((8,), "int64", "P")])   # "P": the ranks' arrays are addends
counts = counts.numpy()
if wt.first_rank() == 0:
    for low, number in zip(bins, counts):
        print(f"{low:5.1f} {'#' * int(60 * number / counts.max())}")
