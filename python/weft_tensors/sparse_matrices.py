"""Sparse matrices of rows that the processes have: products with dense tensors."""
from __future__ import annotations

import copy
from ctypes import c_void_p
from typing import Any, Optional, Sequence

import numpy

from . import _api, _library
from ._core import Mesh, Placements, Tensor, _handle, _lib, check, failure, made, resolve
from ._layouts import _placement, dtype_of, int64s
from .arrays import from_local


class _Structure:
    """The handle of C, which several matrices share."""

    def __init__(self, handle: Optional[int]) -> None:
        if not handle:
            raise failure()
        self.handle, self.epoch = handle, _library.world.epoch

    def __del__(self) -> None:
        if hasattr(self, "handle"):
            _library.end(self.epoch, _lib.weft_sparse_destroy, self.handle)


def _arrays(rows: Any, ranks: int, num_rows: int, mesh: Any, placements: Any) -> tuple[Any, list[Any], list[Any], list[Any]]:
    """The type of the offsets and columns, and the arrays of each rank: None for those outside the mesh."""
    each = list(rows) if isinstance(rows, (list, tuple)) else [rows]
    if len(each) != ranks:
        raise ValueError(f"SparseMatrix: rows of {len(each)} ranks, and this process has {ranks}")
    wide = any(numpy.asarray(part).dtype != numpy.int32 for one in each if one is not None for part in (one.indptr, one.indices))
    kind = numpy.int64 if wide else numpy.int32
    offsets = [None if one is None else numpy.ascontiguousarray(one.indptr, kind) for one in each]
    indices = [None if one is None else numpy.ascontiguousarray(one.indices, kind) for one in each]
    data = [None if one is None else one.data for one in each]
    size, offset, extent = int64s([num_rows]), int64s([0]), int64s([0])
    for i, begins in enumerate(offsets):
        if begins is None:
            continue
        check(_lib.weft_shard_box(mesh, placements, 1, size, _lib.weft_first_rank() + i, offset, extent))
        if len(begins) != extent[0] + 1 or not len(indices[i]) == len(data[i]) == begins[-1]:
            end = begins[-1] if len(begins) > 0 else None
            raise ValueError(f"SparseMatrix: the arrays of rank {_lib.weft_first_rank() + i} have {len(begins)}, {len(indices[i])} and "
                             f"{len(data[i])} elements; it has {extent[0]} rows, and indptr ends with {end}")
    return kind, offsets, indices, data


class SparseMatrix:
    """A sparse matrix of which each rank has some rows: PETSc's AIJ matrix.

        a = wt.SparseMatrix(rows, shape=(n, n))     # rows: a scipy.sparse.csr_array of this process's rows
        y = a @ x
        z = a.T @ y

    Keep it until the backward pass: without it ranks no longer know which elements others need.

    rows: this process's rows, with the attributes indptr, indices and data of scipy.sparse.csr_array, and columns numbered as those of
        the whole matrix; or a sequence of such objects, one for each rank of this process, None for ranks outside the mesh. data is used
        in place, so each object needs its own: change it only until then; indptr and indices are copied.
    shape: of the whole matrix. placements: how its rows lie; column_placements: how the vectors lie that it is multiplied with, None:
        as rows, or in chunks if the matrix is not square.

    Every process makes it, which waits for all. `values` is a tensor of the entries' values, whose gradient may be asked for.
    """

    def __init__(self, rows: Any, shape: Sequence[int], mesh: Optional[Mesh] = None, placements: Placements = "S0",
                 column_placements: Placements = None) -> None:
        mesh, of_rows = resolve(mesh, placements)
        _, of_columns = resolve(mesh, column_placements)
        self.shape = int(shape[0]), int(shape[1])
        ranks, wrong = _library.local_ranks(), None
        kind, offsets, indices, data = numpy.int32, [None] * ranks, [None] * ranks, [None] * ranks
        try:
            kind, offsets, indices, data = _arrays(rows, ranks, self.shape[0], mesh, of_rows)
        except Exception as error:  # the other processes wait for this one, which refuses the call below
            wrong = error
        given = [(c_void_p * ranks)(*(None if one is None else one.ctypes.data for one in each)) if wrong is None else None
                 for each in (offsets, indices)]
        handle = _lib.weft_sparse_create_csr(*self.shape, mesh, of_rows, of_columns, dtype_of(kind), *given)
        if wrong is not None:
            failure()  # this error is the one to tell
            raise wrong
        self._structure = _Structure(handle)
        array = (_api.weft_placement * _lib.weft_mesh_ndim(mesh if mesh is not None else _lib.weft_mesh_current()))()
        check(_lib.weft_sparse_placements(self._structure.handle, array))
        self.values = from_local(data, mesh, tuple(map(_placement, array)), shape=(self.nnz,))
        self._transposed = False

    @property
    def nnz(self) -> int:
        """The number of entries of all ranks."""
        return int(_lib.weft_sparse_nnz(self._structure.handle))

    @property
    def T(self) -> SparseMatrix:
        """The transpose, with the same values; complex ones are not conjugated."""
        other = copy.copy(self)
        other._transposed, other.shape = not self._transposed, self.shape[::-1]
        return other

    def with_values(self, values: Tensor) -> SparseMatrix:
        """A matrix with the same structure and other values, in their order."""
        other = copy.copy(self)
        other.values = values
        return other

    def __matmul__(self, x: Tensor) -> Tensor:
        return made(_lib.weft_sparse_matmul(self._structure.handle, _handle(self.values), _handle(x), self._transposed))

    def to_dense(self) -> Tensor:
        """The whole matrix with its zeros; each rank has its rows."""
        dense = made(_lib.weft_sparse_to_dense(self._structure.handle, _handle(self.values)))
        return dense.mT if self._transposed else dense


__all__ = ["SparseMatrix"]
