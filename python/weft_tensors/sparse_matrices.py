"""Sparse matrices of rows that the processes have: products with dense tensors."""
from __future__ import annotations

import copy
from ctypes import c_void_p
from typing import Any, Optional, Sequence

import numpy

from . import _api, _library
from ._core import Mesh, Placements, Tensor, _handle, _lib, check, failure, made, resolve
from ._layouts import _placement, dtype_of
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


class SparseMatrix:
    """A sparse matrix of which each rank has some rows: PETSc's AIJ matrix.

        a = wt.SparseMatrix(rows, shape=(n, n))     # rows: a scipy.sparse.csr_array of this process's rows
        y = a @ x
        z = a.T @ y

    rows: this process's rows, with the attributes indptr, indices and data of scipy.sparse.csr_array, and columns numbered as those of
        the whole matrix; or a sequence of such objects, one for each rank of this process. data is used in place: change it only
        until then; indptr and indices are copied.
    shape: of the whole matrix. placements: how its rows lie; column_placements: how the vectors lie that it is multiplied with, None:
        as rows, or in chunks if the matrix is not square.

    Every process makes it, which waits for all. `values` is a tensor of the entries' values, whose gradient may be asked for.
    """

    def __init__(self, rows: Any, shape: Sequence[int], mesh: Optional[Mesh] = None, placements: Placements = "S0",
                 column_placements: Placements = None) -> None:
        mesh, of_rows = resolve(mesh, placements)
        _, of_columns = resolve(mesh, column_placements)
        each = list(rows) if isinstance(rows, (list, tuple)) else [rows]
        ranks = _library.local_ranks()
        if len(each) != ranks:
            raise ValueError(f"SparseMatrix: rows of {len(each)} ranks, and this process has {ranks}")
        wide = any(numpy.asarray(part).dtype != numpy.int32 for one in each for part in (one.indptr, one.indices))
        kind = numpy.int64 if wide else numpy.int32
        offsets = [numpy.ascontiguousarray(one.indptr, kind) for one in each]
        indices = [numpy.ascontiguousarray(one.indices, kind) for one in each]
        self.shape = int(shape[0]), int(shape[1])
        self._structure = _Structure(_lib.weft_sparse_create_csr(
            *self.shape, mesh, of_rows, of_columns, dtype_of(kind),
            (c_void_p * ranks)(*(one.ctypes.data for one in offsets)), (c_void_p * ranks)(*(one.ctypes.data for one in indices))))
        array = (_api.weft_placement * _lib.weft_mesh_ndim(mesh if mesh is not None else _lib.weft_mesh_current()))()
        check(_lib.weft_sparse_placements(self._structure.handle, array))
        self.values = from_local([one.data for one in each], mesh, tuple(map(_placement, array)), shape=(self.nnz,))
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
