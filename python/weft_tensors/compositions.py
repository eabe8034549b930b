"""Functions of PyTorch that are a few calls of others: they have gradients, and any layout, because those do."""
from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Optional, Union

from . import array_api as _a, functions as _f
from ._core import Tensor, bool_, float64, int64
from .arrays import asarray, cat, split
from .autograd import no_grad
from .torch_names import narrow


# ---- products, added to something ----
def baddbmm(input: Tensor, batch1: Tensor, batch2: Tensor, *, beta: float = 1, alpha: float = 1) -> Tensor:
    """beta input + alpha batch1 @ batch2; without beta the input does not count, even if it is NaN."""
    product = _scaled(_f.matmul(batch1, batch2), alpha)
    return product if beta == 0 else _scaled(input, beta) + product


def addbmm(input: Tensor, batch1: Tensor, batch2: Tensor, *, beta: float = 1, alpha: float = 1) -> Tensor:
    """baddbmm() with the sum of the products over the batch."""
    product = _scaled(_f.einsum("bij,bjk->ik", batch1, batch2), alpha)
    return product if beta == 0 else _scaled(input, beta) + product


def addmv(input: Tensor, mat: Tensor, vec: Tensor, *, beta: float = 1, alpha: float = 1) -> Tensor:
    """beta input + alpha mat @ vec."""
    product = _scaled(_f.matmul(mat, vec), alpha)
    return product if beta == 0 else _scaled(input, beta) + product


def addr(input: Tensor, vec1: Tensor, vec2: Tensor, *, beta: float = 1, alpha: float = 1) -> Tensor:
    """beta input + alpha vec1 vec2^T."""
    product = _scaled(_f.outer(vec1, vec2), alpha)
    return product if beta == 0 else _scaled(input, beta) + product


def kron(input: Tensor, other: Tensor) -> Tensor:
    """Kronecker's product."""
    ndim = max(input.ndim, other.ndim)
    a, b = (_led(each, ndim) for each in (input, other))
    left = a.reshape([size for each in a.shape for size in (each, 1)])
    right = b.reshape([size for each in b.shape for size in (1, each)])
    return (left * right).reshape([m * n for m, n in zip(a.shape, b.shape)])


def _scaled(x: Tensor, by: float) -> Tensor:
    return x if by == 1 else x * by


def _led(x: Tensor, ndim: int) -> Tensor:
    return x.reshape([1] * (ndim - x.ndim) + list(x.shape)) if x.ndim < ndim else x


# ---- shapes ----
def atleast_1d(*tensors: Tensor) -> Any:
    """With one dimension at least."""
    return _each(tensors, lambda x: _led(x, 1))


def atleast_2d(*tensors: Tensor) -> Any:
    """With two dimensions at least, new ones before."""
    return _each(tensors, lambda x: _led(x, 2))


def atleast_3d(*tensors: Tensor) -> Any:
    """With three dimensions at least: one before, one behind."""
    return _each(tensors, lambda x: x if x.ndim > 2 else _a.expand_dims(_led(x, 2), -1))


def _each(tensors: Sequence[Any], function: Any) -> Any:
    given = tensors[0] if len(tensors) == 1 and not isinstance(tensors[0], Tensor) else tensors
    made = tuple(function(each) for each in given)
    return made[0] if len(made) == 1 and given is tensors else made


def column_stack(tensors: Sequence[Tensor]) -> Tensor:
    """Side by side; lines become columns."""
    return cat([each.reshape(-1, 1) if each.ndim < 2 else each for each in tensors], 1)


def dstack(tensors: Sequence[Tensor]) -> Tensor:
    """One behind the other, along the third dimension."""
    return cat(list(atleast_3d(*tensors)) if len(tensors) > 1 else [atleast_3d(tensors[0])], 2)


def tensor_split(input: Tensor, indices_or_sections: Union[int, Sequence[int]], dim: int = 0) -> list[Tensor]:
    """In so many parts, the first ones larger by one where needed; or before these indices."""
    size = input.shape[dim]
    if isinstance(indices_or_sections, int):
        least, more = divmod(size, indices_or_sections)
        return split(input, [least + (i < more) for i in range(indices_or_sections)], dim)
    ends = [min(max(each + size if each < 0 else each, 0), size) for each in indices_or_sections] + [size]
    starts = [0, *ends[:-1]]
    return [narrow(input, dim, start, max(0, end - start)) for start, end in zip(starts, ends)]


def hsplit(input: Tensor, indices_or_sections: Union[int, Sequence[int]]) -> list[Tensor]:
    """tensor_split() along the columns, or of a line."""
    return tensor_split(input, indices_or_sections, 0 if input.ndim == 1 else 1)


def vsplit(input: Tensor, indices_or_sections: Union[int, Sequence[int]]) -> list[Tensor]:
    """tensor_split() along the rows."""
    return tensor_split(input, indices_or_sections, 0)


def dsplit(input: Tensor, indices_or_sections: Union[int, Sequence[int]]) -> list[Tensor]:
    """tensor_split() along the third dimension."""
    return tensor_split(input, indices_or_sections, 2)


def rot90(input: Tensor, k: int = 1, dims: Sequence[int] = (0, 1)) -> Tensor:
    """Turned by k quarters, from the first of two dimensions to the second."""
    first, second = dims
    turned = _a.flip(input, (first, second)) if k % 4 == 2 else input
    if k % 2 == 0:
        return turned
    swapped = _f.transpose(input, first, second)
    return _a.flip(swapped, first if k % 4 == 1 else second)


# ---- diagonals and blocks ----
def diag_embed(input: Tensor, offset: int = 0, dim1: int = -2, dim2: int = -1) -> Tensor:
    """Matrices with the last dimension as a diagonal, their dimensions at dim1 and dim2."""
    before = [*input.shape[:-1], abs(offset)]
    gap = _a.zeros(before, dtype=input.dtype, mesh=input.mesh)
    rows = input if offset == 0 else cat([input, gap] if offset > 0 else [gap, input], -1)
    size = rows.shape[-1]
    here = _a.eye(size, size, k=offset, dtype=bool_, mesh=input.mesh)
    made = _a.where(here, _a.expand_dims(rows, -1), _a.zeros((), dtype=input.dtype, mesh=input.mesh))
    return _a.moveaxis(made, (-2, -1), (dim1, dim2))


def diagflat(input: Tensor, offset: int = 0) -> Tensor:
    """A matrix with all elements as a diagonal."""
    return diag_embed(input.reshape(-1), offset)


def block_diag(*tensors: Tensor) -> Tensor:
    """Matrices as the blocks on a diagonal of zeros; lines are rows."""
    blocks = [_led(each, 2) for each in tensors]
    width, column, rows = sum(each.shape[1] for each in blocks), 0, []
    for each in blocks:
        sides = [_a.zeros((each.shape[0], size), dtype=each.dtype, mesh=each.mesh) for size in (column, width - column - each.shape[1])]
        rows.append(cat([sides[0], each, sides[1]], 1))
        column += each.shape[1]
    return cat(rows, 0)


def _places(input: Tensor, start: int, stop: int, step: int = 1) -> Tensor:
    return _a.arange(start, stop, step, dtype=int64, mesh=input.mesh)


def slice_scatter(input: Tensor, src: Tensor, dim: int = 0, start: Optional[int] = None, end: Optional[int] = None, step: int = 1) -> Tensor:
    """With src in place of a slice."""
    first, last, step = slice(start, end, step).indices(input.shape[dim])
    return _f.index_copy(input, dim, _places(input, first, max(first, last), step), src.astype(input.dtype))


def select_scatter(input: Tensor, src: Tensor, dim: int, index: int) -> Tensor:
    """With src in place of what has this index."""
    place = index + input.shape[dim] if index < 0 else index
    return slice_scatter(input, _a.expand_dims(src, dim), dim, place, place + 1)


def diagonal_scatter(input: Tensor, src: Tensor, offset: int = 0, dim1: int = 0, dim2: int = 1) -> Tensor:
    """With src in place of a diagonal."""
    last = _a.moveaxis(input, (dim1, dim2), (-2, -1))
    rows, columns = last.shape[-2:]
    here = _a.eye(rows, columns, k=offset, dtype=bool_, mesh=input.mesh)
    length = src.shape[-1]
    column = cat([_a.zeros([*src.shape[:-1], max(0, -offset)], dtype=src.dtype, mesh=src.mesh), src,
                  _a.zeros([*src.shape[:-1], rows - length - max(0, -offset)], dtype=src.dtype, mesh=src.mesh)], -1)
    return _a.moveaxis(_a.where(here, _a.expand_dims(column, -1).astype(input.dtype), last), (-2, -1), (dim1, dim2))


def tril_indices(row: int, col: int, offset: int = 0) -> Tensor:
    """Rows and columns of a lower triangle."""
    places = [(i, j) for i in range(row) for j in range(min(col, max(0, i + offset + 1)))]
    return asarray([[i for i, _ in places], [j for _, j in places]], dtype=int64)


def triu_indices(row: int, col: int, offset: int = 0) -> Tensor:
    """Rows and columns of an upper triangle."""
    places = [(i, j) for i in range(row) for j in range(max(0, i + offset), col)]
    return asarray([[i for i, _ in places], [j for _, j in places]], dtype=int64)


def cartesian_prod(*tensors: Tensor) -> Tensor:
    """All combinations of elements of lines, a row each."""
    if len(tensors) == 1:
        return tensors[0]
    return _a.stack([each.reshape(-1) for each in _a.meshgrid(*tensors, indexing="ij")], -1)


# ---- element by element ----
def clamp_max(input: Tensor, max: Any) -> Tensor:
    """Not above max."""
    return _a.clip(input, None, max)


def clamp_min(input: Tensor, min: Any) -> Tensor:
    """Not below min."""
    return _a.clip(input, min, None)


def float_power(input: Tensor, exponent: Any) -> Tensor:
    """The power in double precision."""
    return _f.pow(input.astype(float64), exponent.astype(float64) if isinstance(exponent, Tensor) else exponent)


def rsub(input: Tensor, other: Any, *, alpha: float = 1) -> Tensor:
    """other - alpha input."""
    return other - _scaled(input, alpha)


def ldexp(input: Tensor, other: Tensor) -> Tensor:
    """input 2^other."""
    return input * _f.exp2(other)


def isposinf(input: Tensor) -> Tensor:
    """Whether elements are infinite and above 0."""
    return _f.isinf(input) & (input > 0)


def isneginf(input: Tensor) -> Tensor:
    """Whether elements are infinite and below 0."""
    return _f.isinf(input) & (input < 0)


def mvlgamma(input: Tensor, p: int) -> Tensor:
    """The logarithm of the gamma function of dimension p."""
    total = _f.lgamma(input) + p * (p - 1) / 4 * math.log(math.pi)
    for i in range(1, p):
        total = total + _f.lgamma(input - i / 2)
    return total


def logspace(start: float, end: float, steps: int, base: float = 10.0, **options: Any) -> Tensor:
    """Powers of base, their exponents evenly spaced."""
    return _f.exp2(_a.linspace(start, end, steps, **options) * math.log2(base))


# ---- reductions ----
def dist(input: Tensor, other: Tensor, p: float = 2.0) -> Tensor:
    """The p-norm of a difference."""
    return _f.norm((input - other).reshape(-1), p=p)


def trapz(y: Tensor, x: Optional[Tensor] = None, *, dx: float = 1.0, dim: int = -1) -> Tensor:
    """The integral by trapezoids."""
    return _trapezoids(y, x, dx, dim).sum(dim)


def cumulative_trapezoid(y: Tensor, x: Optional[Tensor] = None, *, dx: float = 1.0, dim: int = -1) -> Tensor:
    """The integral by trapezoids up to each point but the first."""
    return _a.cumsum(_trapezoids(y, x, dx, dim), dim)


def _trapezoids(y: Tensor, x: Optional[Tensor], dx: float, dim: int) -> Tensor:
    size = y.shape[dim]
    middle = (narrow(y, dim, 1, size - 1) + narrow(y, dim, 0, size - 1)) * 0.5
    if x is None:
        return middle * dx
    steps = _a.diff(x, axis=-1 if x.ndim == 1 else dim)
    if x.ndim == 1 and y.ndim > 1:
        steps = steps.reshape([-1 if d == dim % y.ndim else 1 for d in range(y.ndim)])
    return middle * steps


def cdist(x1: Tensor, x2: Tensor, p: float = 2.0) -> Tensor:
    """Distances of all rows of x1 and x2."""
    return _f.norm(_a.expand_dims(x1, -2) - _a.expand_dims(x2, -3), p, -1)


def corrcoef(input: Tensor) -> Tensor:
    """Correlations of rows."""
    covariance = _f.cov(input)
    if covariance.ndim == 0:
        return covariance / covariance
    scale = _f.diagonal(covariance).sqrt()
    return covariance / _a.expand_dims(scale, 1) / _a.expand_dims(scale, 0)


# ---- random numbers, in place ----
def log_normal_(self: Tensor, mean: float = 1.0, std: float = 2.0) -> Tensor:
    """Numbers whose logarithms are normally distributed, in place."""
    with no_grad():
        return _f.copy_(self, _f.exp(_f.randn_like(self) * std + mean))


def geometric_(self: Tensor, p: float) -> Tensor:
    """Numbers of trials up to the first success, in place."""
    with no_grad():
        trials = _f.ceil(_f.log1p(-_a.rand(*self.shape, dtype=float64, mesh=self.mesh)) / math.log1p(-p))
        return _f.copy_(self, _a.clip(trials, 1, None))


def cauchy_(self: Tensor, median: float = 0.0, sigma: float = 1.0) -> Tensor:
    """Numbers of Cauchy's distribution, in place."""
    with no_grad():
        return _f.copy_(self, _f.tan((_f.rand_like(self) - 0.5) * math.pi) * sigma + median)


sgn, true_divide, msort = _f.sign, _a.divide, lambda input: _f.sort(input, 0)[0]
_METHODS = (addbmm, addmv, addr, baddbmm, block_diag, clamp_max, clamp_min, corrcoef, cauchy_, diag_embed, diagflat, diagonal_scatter, dist, dsplit,
            float_power, geometric_, hsplit, isneginf, isposinf, kron, ldexp, log_normal_, mvlgamma, rot90, select_scatter, slice_scatter,
            tensor_split, vsplit)
for _method in _METHODS:
    setattr(Tensor, _method.__name__, _method)

__all__ = ["addbmm", "addmv", "addr", "atleast_1d", "atleast_2d", "atleast_3d", "baddbmm", "block_diag", "cartesian_prod", "cdist", "clamp_max",
           "clamp_min", "column_stack", "corrcoef", "cumulative_trapezoid", "diag_embed", "diagflat", "diagonal_scatter", "dist", "dsplit", "dstack",
           "float_power", "hsplit", "isneginf", "isposinf", "kron", "ldexp", "logspace", "msort", "mvlgamma", "rot90", "rsub", "select_scatter", "sgn",
           "slice_scatter", "tensor_split", "trapz", "tril_indices", "triu_indices", "true_divide", "vsplit"]
