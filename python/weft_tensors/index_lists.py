"""Rows that each rank names by their indices, brought to it and back."""
from __future__ import annotations

from ctypes import c_int64, c_void_p
from typing import Any, Optional

import numpy

from . import _library
from ._core import Mesh, Placements, Tensor, _handle, _lib, check, failure, made, resolve


class IndexList:
    """Rows that the ranks name, each of which then travels once to each rank that names it: PETSc's VecScatter.

        ghosts = wt.IndexList([17, 18, 40], size=n)     # a process with one rank; every process makes the list
        needed = ghosts.gather(x)                       # each rank's rows, in the order of its indices
        sums = ghosts.scatter_add(values)               # the reverse: rows with the same index are added

    indices: of this process's rank, or a sequence of such arrays, one for each of its ranks.
    size: rows of the tensors that it will be used with. placements: how their dimension 0 lies.
    """

    def __init__(self, indices: Any, size: int, mesh: Optional[Mesh] = None, placements: Placements = "S0") -> None:
        self.handle: Optional[int] = None
        mesh, array_of_placements = resolve(mesh, placements)
        ranks = _library.local_ranks()
        each = [indices] if ranks == 1 and numpy.ndim(indices[0] if len(indices) else 0) == 0 else list(indices)
        if len(each) != ranks:
            raise ValueError(f"IndexList: indices of {len(each)} ranks, and this process has {ranks}")
        arrays = [numpy.asarray(one, numpy.int64).reshape(-1) for one in each]
        together = numpy.ascontiguousarray(numpy.concatenate(arrays))
        counts = (c_int64 * ranks)(*(len(array) for array in arrays))
        self.size, self.mesh, self.epoch = size, mesh, _library.world.epoch
        self.handle = _lib.weft_index_list_create(size, mesh, array_of_placements, counts, together.ctypes.data_as(c_void_p))
        if not self.handle:
            raise failure()

    def __del__(self) -> None:
        if self.handle:
            _library.end(self.epoch, _lib.weft_index_list_destroy, self.handle)

    def __len__(self) -> int:
        return int(_lib.weft_index_list_count(self.handle))

    def gather(self, x: Tensor) -> Tensor:
        """The rows that the ranks name: [len(list), ...], each rank with its own."""
        return made(_lib.weft_index_list_gather(self.handle, _handle(x)))

    def scatter_add(self, values: Tensor) -> Tensor:
        """The sums of the rows with the same index: [size, ...]; 0 where no rank names the row."""
        return made(_lib.weft_index_list_scatter_add(self.handle, _handle(values)))


__all__ = ["IndexList"]
