"""Distributed tensors in Python: a product, a change of layout, a gradient.

    python quickstart.py                       # four ranks in this process
    mpirun -n 4 python quickstart.py           # one rank in each of four processes
"""
import numpy as np

import weft_tensors as wt

wt.init(ranks=4)
mesh = wt.Mesh((2, 2), ("dp", "tp"))                     # four ranks in two dimensions

x = wt.asarray(np.arange(48.0).reshape(8, 6), mesh=mesh, placements="S0,R")  # rows over dp
w = wt.ones(6, 4, dtype="float64", mesh=mesh, placements="R,S1", requires_grad=True)  # columns over tp

y = x @ w                                                # each rank multiplies its tile
z = y.redistribute("S1,S0")                              # any layout to any layout
loss = (z * z).mean()
loss.backward()                                          # nothing has waited so far

if wt.first_rank() == 0:
    print(x)                                             # what it is; local, and without waiting
    print(y)
    print(z.sharding(), end="")                          # which rank holds what
value, gradient = loss.item(), w.grad.numpy()            # these wait; all processes call them
if wt.first_rank() == 0:
    print("loss", value)
    print("gradient", gradient[0, 0])
