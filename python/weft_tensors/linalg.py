"""Linear algebra under the names of the array API standard's extension and of torch.linalg: products, norms, and the solvers and
decompositions of batches of matrices. A singular matrix is reported by the next function that waits."""
from __future__ import annotations

from ctypes import byref, c_void_p
from typing import Any, NamedTuple, Optional, Union

from . import functions as _f
from ._core import Axes, Tensor, _lib, made, many, tensor
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


# ---- solvers ----
def cholesky(x: Tensor, /, *, upper: bool = False) -> Tensor:
    """L with x = L L^H, or U with x = U^H U."""
    return made(_lib.weft_cholesky(tensor(x, "x"), upper), "weft_cholesky")


def cholesky_solve(b: Tensor, factor: Tensor, upper: bool = False) -> Tensor:
    """Solves with the factor of cholesky()."""
    return made(_lib.weft_cholesky_solve(tensor(b, "b"), tensor(factor, "factor"), upper), "weft_cholesky_solve")


def solve_triangular(a: Tensor, b: Tensor, /, *, upper: bool, left: bool = True, unitriangular: bool = False) -> Tensor:
    """Solves a x = b with triangular a, or x a = b."""
    return made(_lib.weft_triangular_solve(tensor(a, "a"), tensor(b, "b"), upper, left, unitriangular), "weft_triangular_solve")


def solve(a: Tensor, b: Tensor, /) -> Tensor:
    """Solves a x = b; a b of one dimension is a vector, others are matrices."""
    return made(_lib.weft_solve(tensor(a, "a"), tensor(b, "b")), "weft_solve")


class LUFactorResult(NamedTuple):
    """What lu_factor() returns."""

    LU: Tensor
    pivots: Tensor


def lu_factor(x: Tensor, /) -> LUFactorResult:
    """L below and U in the upper triangle of one tensor, and the row that each row is exchanged with, from 0 on."""
    second = c_void_p()
    lu_ = made(_lib.weft_lu_factor(tensor(x, "x"), byref(second)), "weft_lu_factor")
    return LUFactorResult(lu_, made(second.value, "weft_lu_factor"))


def lu_solve(LU: Tensor, pivots: Tensor, b: Tensor, *, adjoint: bool = False) -> Tensor:
    """Solves a x = b, or a^H x = b, by what lu_factor() has returned for a."""
    return made(_lib.weft_lu_solve(tensor(LU, "LU"), tensor(pivots, "pivots"), tensor(b, "b"), adjoint), "weft_lu_solve")


class LUResult(NamedTuple):
    """What lu() returns."""

    P: Tensor
    L: Tensor
    U: Tensor


def lu(x: Tensor, /) -> LUResult:
    """P, L and U with x = P L U."""
    lower, upper = c_void_p(), c_void_p()
    p = made(_lib.weft_lu(tensor(x, "x"), byref(lower), byref(upper)), "weft_lu")
    return LUResult(p, made(lower.value, "weft_lu"), made(upper.value, "weft_lu"))


def inv(x: Tensor, /) -> Tensor:
    """The inverse."""
    return made(_lib.weft_inverse(tensor(x, "x")), "weft_inverse")


def pinv(x: Tensor, /, *, rtol: Optional[float] = None) -> Tensor:
    """The pseudo-inverse."""
    return made(_lib.weft_pinv(tensor(x, "x"), -1.0 if rtol is None else rtol), "weft_pinv")


def lstsq(a: Tensor, b: Tensor, rcond: Optional[float] = None) -> Tensor:
    """The x of least |a x - b|, alone."""
    return made(_lib.weft_lstsq(tensor(a, "a"), tensor(b, "b"), -1.0 if rcond is None else rcond), "weft_lstsq")


def det(x: Tensor, /) -> Tensor:
    """The determinant."""
    return made(_lib.weft_det(tensor(x, "x")), "weft_det")


class SlogdetResult(NamedTuple):
    """What slogdet() returns."""

    sign: Tensor
    logabsdet: Tensor


def slogdet(x: Tensor, /) -> SlogdetResult:
    """The determinant's sign, and the logarithm of its size."""
    second = c_void_p()
    sign = made(_lib.weft_slogdet(tensor(x, "x"), byref(second)), "weft_slogdet")
    return SlogdetResult(sign, made(second.value, "weft_slogdet"))


# ---- decompositions ----
class QRResult(NamedTuple):
    """What qr() returns."""

    Q: Tensor
    R: Tensor


def qr(x: Tensor, /, *, mode: str = "reduced") -> QRResult:
    """Orthonormal columns, all of them in the mode 'complete', and an upper triangle."""
    if mode not in ("reduced", "complete"):
        raise ValueError(f"mode: {mode!r} is neither 'reduced' nor 'complete'")
    name = "weft_qr" if mode == "reduced" else "weft_qr_complete"
    second = c_void_p()
    q = made(getattr(_lib, name)(tensor(x, "x"), byref(second)), name)
    return QRResult(q, made(second.value, name))


class EighResult(NamedTuple):
    """What eigh() returns."""

    eigenvalues: Tensor
    eigenvectors: Tensor


def _upper(uplo: str) -> bool:
    if uplo not in ("L", "U"):
        raise ValueError(f"UPLO: {uplo!r} is neither 'L' nor 'U'")
    return uplo == "U"


def eigh(x: Tensor, /, UPLO: str = "L") -> EighResult:
    """Eigenvalues of a Hermitian matrix, ascending, and eigenvectors, in columns."""
    second = c_void_p()
    values = made(_lib.weft_eigh(tensor(x, "x"), _upper(UPLO), byref(second)), "weft_eigh")
    return EighResult(values, made(second.value, "weft_eigh"))


class EigResult(NamedTuple):
    """What eig() returns."""

    eigenvalues: Tensor
    eigenvectors: Tensor


def eig(x: Tensor, /) -> EigResult:
    """Eigenvalues of any square matrix, complex and in no order, and eigenvectors, in columns."""
    second = c_void_p()
    values = made(_lib.weft_eig(tensor(x, "x"), byref(second)), "weft_eig")
    return EigResult(values, made(second.value, "weft_eig"))


def eigvals(x: Tensor, /) -> Tensor:
    """The eigenvalues alone."""
    return made(_lib.weft_eig(tensor(x, "x"), None), "weft_eig")


def eigvalsh(x: Tensor, /, UPLO: str = "L") -> Tensor:
    """The eigenvalues alone."""
    return made(_lib.weft_eigh(tensor(x, "x"), _upper(UPLO), None), "weft_eigh")


class SVDResult(NamedTuple):
    """What svd() returns."""

    U: Tensor
    S: Tensor
    Vh: Tensor


def svd(x: Tensor, /, *, full_matrices: bool = True) -> SVDResult:
    """Singular values, descending, and vectors; full_matrices only of square matrices."""
    if full_matrices and tensor(x, "x").ndim > 1 and x.shape[-1] != x.shape[-2]:
        raise ValueError(f"svd: of {x.shape[-2]} rows and {x.shape[-1]} columns only full_matrices=False is computed")
    u, vh = c_void_p(), c_void_p()
    s = made(_lib.weft_svd(tensor(x, "x"), byref(u), byref(vh)), "weft_svd")
    return SVDResult(made(u.value, "weft_svd"), s, made(vh.value, "weft_svd"))


def svdvals(x: Tensor, /) -> Tensor:
    """The singular values alone."""
    return made(_lib.weft_svd(tensor(x, "x"), None, None), "weft_svd")


def cond(x: Tensor, p: Any = None) -> Tensor:
    """The largest singular value divided by the smallest (-2: the reverse), or the product of the norms of a square matrix and of its
    inverse."""
    if p is None or p in (2, -2):
        largest_over_smallest = made(_lib.weft_cond(tensor(x, "x")), "weft_cond")
        return 1 / largest_over_smallest if p == -2 else largest_over_smallest
    return matrix_norm(x, p) * matrix_norm(inv(x), p)


def matrix_rank(x: Tensor, *, atol: float = 0.0, rtol: Optional[float] = None) -> Tensor:
    """How many singular values are above atol and above rtol times the largest one. rtol: the larger size of the matrix times the
    precision of the type, or 0 if atol is above 0."""
    if atol == 0:
        return made(_lib.weft_matrix_rank(tensor(x, "x"), -1.0 if rtol is None else rtol), "weft_matrix_rank")
    values = svdvals(x)
    least = values[..., :1] * (rtol or 0)
    return _f.sum((values > least) & (values > atol), -1)


# ---- functions of matrices ----
def matrix_power(x: Tensor, n: int, /) -> Tensor:
    """A square matrix times itself, n times; the inverse's power for a negative n."""
    return made(_lib.weft_matrix_power(tensor(x, "x"), n), "weft_matrix_power")


def matrix_exp(x: Tensor, /) -> Tensor:
    """The exponential of a square matrix."""
    return made(_lib.weft_matrix_exp(tensor(x, "x")), "weft_matrix_exp")


__all__ = ["cholesky", "cholesky_solve", "cond", "cross", "det", "diagonal", "eig", "eigh", "eigvals", "eigvalsh", "inv", "lstsq", "lu", "lu_factor", "lu_solve",
           "matmul", "matrix_exp", "matrix_norm", "matrix_power", "matrix_rank", "matrix_transpose", "multi_dot", "norm", "outer", "pinv", "qr",
           "slogdet", "solve", "solve_triangular", "svd", "svdvals", "tensordot", "trace", "vecdot", "vector_norm"]
