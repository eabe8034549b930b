"""More functions of PyTorch that are a few calls of others: indices smaller than what they index, copies of views, matrices, and what
programs of images call."""
from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple, Optional, Union

from . import array_api as _a, functions as _f, linalg as _linalg, torch_names as _t
from ._core import Tensor, int8, int16, int64, uint8
from .arrays import cat, split
from .compositions import slice_scatter


# ---- indices smaller than what they index ----
def _part(x: Tensor, dim: int, index: Tensor, along: bool) -> Tensor:
    """What of x lies beside the indices: their sizes, but along `dim` (only where `along`)."""
    for d in range(index.ndim):
        if x.shape[d] > index.shape[d] and (along or d != dim % index.ndim):
            x = _t.narrow(x, d, 0, index.shape[d])
    return x


def _within(input: Tensor, part: Tensor) -> Tensor:
    """input with `part` at its beginning."""
    if part.shape == input.shape:
        return part
    d = max(d for d in range(input.ndim) if part.shape[d] < input.shape[d])
    return slice_scatter(input, _within(_t.narrow(input, d, 0, part.shape[d]), part), d, 0, part.shape[d])


def gather(input: Tensor, dim: int, index: Tensor) -> Tensor:
    """Elements of input by their indices along a dimension; in others there may be fewer indices than elements."""
    return _f.gather(input if input.ndim == 0 else _part(input, dim, index, False), dim, index)


def _scattering(function: Any, input: Tensor, dim: int, index: Tensor, src: Any) -> Tensor:
    if input.ndim == 0 or index.ndim != input.ndim:
        return function(input, dim, index, src)
    given = _part(src, dim, index, True) if isinstance(src, Tensor) else src
    return _within(input, function(_part(input, dim, index, False), dim, index, given))


def scatter_add(input: Tensor, dim: int, index: Tensor, src: Tensor) -> Tensor:
    """input with elements of src added at the indices along a dimension; in any there may be fewer indices than elements of src."""
    return _scattering(_f.scatter_add, input, dim, index, src)


def scatter(input: Tensor, dim: int, index: Tensor, src: Any = None, *, value: Any = None) -> Tensor:
    """input with elements of src, or one number, at the indices along a dimension; in any there may be fewer indices than elements of src."""
    return _scattering(_t.scatter, input, dim, index, src if value is None else value)


def kthvalue(input: Tensor, k: int, dim: int = -1, keepdim: bool = False) -> tuple[Tensor, Tensor]:
    """The k-th smallest elements along a dimension, counted from 1, and their indices."""
    if input.ndim == 0:
        return input.clone(), _a.zeros((), dtype=int64, mesh=input.mesh)
    values, indices = _f.topk(input, k, dim, False)
    last = [_t.narrow(each, dim, k - 1, 1) for each in (values, indices)]
    kept = last if keepdim else [_a.squeeze(each, dim) for each in last]
    return kept[0], kept[1]


def unravel_index(indices: Tensor, shape: Union[int, Sequence[int]]) -> tuple[Tensor, ...]:
    """The indices along each dimension of a tensor of this shape, from those in row-major order."""
    sizes, found = [shape] if isinstance(shape, int) else list(shape), []
    for size in reversed(sizes):
        found.append(indices % size)
        indices = indices // size
    return tuple(reversed(found))


def nonzero_static(input: Tensor, *, size: int, fill_value: int = -1) -> Tensor:
    """nonzero() in `size` rows: more are left out, and fewer are followed by rows of fill_value."""
    found = _f.nonzero(input)
    if found.shape[0] >= size:
        return _t.narrow(found, 0, 0, size)
    rest = _a.full((size - found.shape[0], input.ndim), fill_value, dtype=int64, mesh=input.mesh)
    return cat([found, rest], 0)


# ---- names for what there is ----
def constant_pad_nd(input: Tensor, pad: Sequence[int], value: float = 0.0) -> Tensor:
    """Elements added at both ends of the last dimensions: (before, after) of the last one first."""
    before, after = [0] * input.ndim, [0] * input.ndim
    for i in range(len(pad) // 2):
        before[-1 - i], after[-1 - i] = pad[2 * i], pad[2 * i + 1]
    return _f.pad(input, before, after, "constant", value)


def split_with_sizes(input: Tensor, split_sizes: Sequence[int], dim: int = 0) -> list[Tensor]:
    """Parts of these sizes."""
    return split(input, list(split_sizes), dim)


def split_with_sizes_copy(input: Tensor, split_sizes: Sequence[int], dim: int = 0) -> list[Tensor]:
    """Copies of parts of these sizes."""
    return [each.clone() for each in split_with_sizes(input, split_sizes, dim)]


def sum_to_size(input: Tensor, *size: Any) -> Tensor:
    """Summed to a shape that broadcasts to that of input."""
    return _f.sum_to(input, size[0] if len(size) == 1 and not isinstance(size[0], int) else size)


def resolve_conj(input: Tensor) -> Tensor:
    """input: conjugates are always computed."""
    return input


def resolve_neg(input: Tensor) -> Tensor:
    """input: signs are always computed."""
    return input


def native_dropout_backward(grad_output: Tensor, mask: Tensor, scale: float) -> Tensor:
    """The gradient of elements that a mask has kept, scaled."""
    return grad_output * mask * scale


def _copying(function: Any, name: str) -> Any:
    def copy(input: Tensor, *arguments: Any, **options: Any) -> Tensor:
        return function(input, *arguments, **options).clone()
    copy.__name__ = copy.__qualname__ = name
    copy.__doc__ = f"A copy of {name[:-5]}()."
    return copy


alias_copy = _copying(lambda input: input, "alias_copy")
diagonal_copy = _copying(_f.diagonal, "diagonal_copy")
expand_copy = _copying(_f.expand, "expand_copy")
narrow_copy = _copying(_t.narrow, "narrow_copy")
permute_copy = _copying(_f.permute, "permute_copy")
squeeze_copy = _copying(_a.squeeze, "squeeze_copy")
t_copy = _copying(lambda input: input if input.ndim < 2 else _f.transpose(input, 0, 1), "t_copy")
transpose_copy = _copying(_f.transpose, "transpose_copy")
unsqueeze_copy = _copying(_f.unsqueeze, "unsqueeze_copy")
view_copy = _copying(lambda input, *shape: input.reshape(*shape), "view_copy")


def byte(self: Tensor) -> Tensor:
    """As uint8."""
    return self.astype(uint8)


def char(self: Tensor) -> Tensor:
    """As int8."""
    return self.astype(int8)


def short(self: Tensor) -> Tensor:
    """As int16."""
    return self.astype(int16)


# ---- matrices ----
class SVD(NamedTuple):
    U: Tensor
    S: Tensor
    V: Tensor


def svd(input: Tensor, some: bool = True, compute_uv: bool = True) -> SVD:
    """Singular values and vectors, those on the right as columns: U diag(S) V^H."""
    if not compute_uv:
        raise ValueError("svd: compute_uv=False makes matrices of zeros: linalg.svdvals() has the values alone")
    u, s, vh = _linalg.svd(input, full_matrices=not some)
    v = _f.transpose(vh, -2, -1)
    return SVD(u, s, _f.conj(v) if v.is_complex() else v)


def pinverse(input: Tensor, rcond: float = 1e-15) -> Tensor:
    """The pseudoinverse."""
    return _linalg.pinv(input, rtol=rcond)


def logdet(input: Tensor) -> Tensor:
    """The logarithm of the determinant; NaN where that is below 0."""
    sign, logarithm = _linalg.slogdet(input)
    return _a.where(sign < 0, _a.full((), math.nan, dtype=logarithm.dtype, mesh=logarithm.mesh), logarithm)


# ---- differences ----
def gradient(input: Tensor, *, spacing: float = 1.0, dim: Any = None, edge_order: int = 1) -> list[Tensor]:
    """Differences of neighbours along dimensions, over the distance of these; at both ends one-sided ones, of the second order if asked
    for."""
    if edge_order not in (1, 2):
        raise ValueError(f"gradient: edge_order is {edge_order}, expected 1 or 2")
    dims = range(input.ndim) if dim is None else [dim] if isinstance(dim, int) else list(dim)
    return [_gradient(input, d % input.ndim, float(spacing), edge_order) for d in dims]


def _gradient(input: Tensor, dim: int, spacing: float, edge_order: int) -> Tensor:
    size = input.shape[dim]
    if size <= edge_order:
        raise ValueError(f"gradient: dimension {dim} has size {size}, expected at least {edge_order + 1}")
    at = lambda start, length: _t.narrow(input, dim, start, length) # noqa: E731
    middle = (at(2, size - 2) - at(0, size - 2)) * 0.5
    if edge_order == 1:
        first, last = at(1, 1) - at(0, 1), at(size - 1, 1) - at(size - 2, 1)
    else:
        first = at(1, 1) * 2 - at(0, 1) * 1.5 - at(2, 1) * 0.5
        last = at(size - 1, 1) * 1.5 - at(size - 2, 1) * 2 + at(size - 3, 1) * 0.5
    return cat([first, middle, last], dim) / spacing


# ---- images ----
def channel_shuffle(input: Tensor, groups: int) -> Tensor:
    """Channels of [n, c, ...]: the first of each group, then the second of each, and so on."""
    n, channels, *rest = input.shape
    if channels % groups:
        raise ValueError(f"channel_shuffle: {channels} channels are no {groups} groups")
    return _f.transpose(input.reshape(n, groups, channels // groups, *rest), 1, 2).reshape(input.shape)


def pixel_shuffle(input: Tensor, upscale_factor: int) -> Tensor:
    """Channels of [..., c r^2, h, w] become pixels of [..., c, h r, w r]."""
    r = upscale_factor
    *before, channels, height, width = input.shape
    if channels % (r * r):
        raise ValueError(f"pixel_shuffle: {channels} channels are not divisible by {r * r}")
    x = input.reshape(-1, channels // (r * r), r, r, height, width).permute(0, 1, 4, 2, 5, 3)
    return x.reshape(*before, channels // (r * r), height * r, width * r)


def pixel_unshuffle(input: Tensor, downscale_factor: int) -> Tensor:
    """The reverse of pixel_shuffle()."""
    r = downscale_factor
    *before, channels, height, width = input.shape
    if height % r or width % r:
        raise ValueError(f"pixel_unshuffle: {height} x {width} pixels are not divisible by {r}")
    x = input.reshape(-1, channels, height // r, r, width // r, r).permute(0, 1, 3, 5, 2, 4)
    return x.reshape(*before, channels * r * r, height // r, width // r)


for _method in (alias_copy, byte, char, diagonal_copy, expand_copy, gather, kthvalue, logdet, narrow_copy, permute_copy, pinverse, resolve_conj, resolve_neg,
                scatter, scatter_add, short, split_with_sizes, squeeze_copy, sum_to_size, svd, t_copy, transpose_copy,
                unsqueeze_copy, view_copy):
    setattr(Tensor, _method.__name__, _method)

conj_physical = _f.conj

__all__ = ["alias_copy", "channel_shuffle", "conj_physical", "constant_pad_nd", "diagonal_copy", "expand_copy", "gather", "gradient",
           "kthvalue", "logdet", "narrow_copy", "native_dropout_backward", "nonzero_static", "permute_copy", "pinverse", "pixel_shuffle", "pixel_unshuffle",
           "resolve_conj", "resolve_neg", "scatter", "scatter_add", "split_with_sizes", "split_with_sizes_copy", "squeeze_copy",
           "svd", "t_copy", "transpose_copy", "unravel_index", "unsqueeze_copy", "view_copy"]
