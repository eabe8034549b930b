"""Products and norms under the names of the array API standard's extension and of torch.linalg. Solvers and decompositions are not among
them."""
from __future__ import annotations

from typing import Any, Optional, Union

from . import functions as _f
from ._core import Axes, Tensor, many
from .array_api import matrix_transpose, roll, tensordot, vecdot
from .functions import matmul, outer

_KINDS = {"fro": "frobenius", "nuc": "nuclear", 1: "one", -1: "minus_one", 2: "two", -2: "minus_two", float("inf"): "infinity",
          float("-inf"): "minus_infinity"}


def vector_norm(x: Tensor, /, ord: float = 2, axis: Axes = None, keepdims: bool = False, *, dim: Axes = None,
                keepdim: Optional[bool] = None) -> Tensor:
    """(sum |x|^ord)^(1/ord) over dimensions, or over all; inf is the largest |x|, 0 the number of those that are not 0."""
    chosen, keep = axis if dim is None else dim, keepdims if keepdim is None else keepdim
    if ord == float("-inf"):
        return _f.min(abs(x), chosen, keep)
    if ord < 0:
        return _f.sum(abs(x) ** float(ord), chosen, keep) ** (1 / ord)
    return _f.norm(x, float(ord), chosen, keep)


def matrix_norm(x: Tensor, /, ord: Union[str, float] = "fro", keepdims: bool = False, *, keepdim: Optional[bool] = None) -> Tensor:
    """The norm of the matrices in the last two dimensions: "fro", "nuc", 1, -1, 2, -2, inf or -inf."""
    if ord not in _KINDS:
        raise ValueError(f"ord: {ord!r} is none of {', '.join(map(repr, _KINDS))}")
    return _f.matrix_norm(x, _KINDS[ord], keepdims if keepdim is None else keepdim) # type: ignore[index]


def norm(x: Tensor, ord: Any = None, dim: Axes = None, keepdim: bool = False) -> Tensor:
    """torch.linalg.norm(): of vectors along a dimension, of matrices in two, or of all elements as one vector."""
    if ord is None:
        return vector_norm(x, 2, dim, keepdim)
    if isinstance(ord, str) or dim is None and x.ndim == 2 or dim is not None and len(many(dim)) == 2:
        if dim is not None and [each % x.ndim for each in many(dim)] != [x.ndim - 2, x.ndim - 1]:
            raise ValueError(f"norm: matrices are in the last two dimensions, not in {dim}")
        return matrix_norm(x, ord, keepdim)
    return vector_norm(x, ord, dim, keepdim)


def cross(x1: Tensor, x2: Tensor, /, *, axis: int = -1, dim: Optional[int] = None) -> Tensor:
    """The cross product of vectors of three elements along a dimension."""
    axis = axis if dim is None else dim
    if x1.shape[axis] != 3 or x2.shape[axis] != 3:
        raise ValueError(f"cross: vectors of 3 elements are expected, not of {x1.shape[axis]} and {x2.shape[axis]}")
    return roll(x1, -1, axis) * roll(x2, 1, axis) - roll(x1, 1, axis) * roll(x2, -1, axis)


def diagonal(x: Tensor, /, *, offset: int = 0) -> Tensor:
    """The diagonals of the matrices in the last two dimensions."""
    return _f.diagonal(x, offset, -2, -1)


def trace(x: Tensor, /, *, offset: int = 0, dtype: Any = None) -> Tensor:
    """The sums of the diagonals."""
    return _f.sum(diagonal(x, offset=offset), -1, dtype=dtype)


def multi_dot(tensors: Any) -> Tensor:
    """The product of several matrices, from left to right."""
    result, *others = tensors
    for each in others:
        result = result @ each
    return result


def matrix_power(x: Tensor, n: int, /) -> Tensor:
    """A square matrix times itself, n times: n is at least 0."""
    if n < 0:
        raise ValueError(f"matrix_power: {n} is negative, and there is no inverse")
    from .array_api import eye
    result: Optional[Tensor] = None
    while n:
        result = (x if result is None else result @ x) if n & 1 else result
        n >>= 1
        x = x @ x if n else x
    if result is None:
        return _f.expand(eye(x.shape[-1], dtype=x.dtype, mesh=x.mesh), x.shape)
    return result


__all__ = ["cross", "diagonal", "matmul", "matrix_norm", "matrix_power", "matrix_transpose", "multi_dot", "norm", "outer", "tensordot",
           "trace",
           "vecdot", "vector_norm"]
