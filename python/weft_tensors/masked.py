"""Reductions of the elements where a mask is true, under the names of torch.masked. Without elements a sum is 0, a product 1, a mean NaN."""
from __future__ import annotations

import math
from typing import Any, Optional

from . import array_api as _a, functions as _f
from ._core import Axes, Tensor


def _filled(input: Tensor, mask: Optional[Tensor], value: float) -> Tensor:
    return input if mask is None else _f.masked_fill(input, _f.logical_not(mask), value)


def _least(input: Tensor) -> float:
    return -math.inf if input.dtype.is_floating_point else int(_a.iinfo(input.dtype).min)


def _most(input: Tensor) -> float:
    return math.inf if input.dtype.is_floating_point else int(_a.iinfo(input.dtype).max)


def sum(input: Tensor, dim: Axes = None, *, keepdim: bool = False, mask: Optional[Tensor] = None) -> Tensor: # noqa: A001
    """Sums."""
    return _f.sum(_filled(input, mask, 0), dim, keepdim)


def prod(input: Tensor, dim: Axes = None, *, keepdim: bool = False, mask: Optional[Tensor] = None) -> Tensor:
    """Products."""
    return _f.prod(_filled(input, mask, 1), dim, keepdim)


def amax(input: Tensor, dim: Axes = None, *, keepdim: bool = False, mask: Optional[Tensor] = None) -> Tensor:
    """The largest elements."""
    return _f.max(_filled(input, mask, _least(input)), dim, keepdim)


def amin(input: Tensor, dim: Axes = None, *, keepdim: bool = False, mask: Optional[Tensor] = None) -> Tensor:
    """The smallest elements."""
    return _f.min(_filled(input, mask, _most(input)), dim, keepdim)


def argmax(input: Tensor, dim: Optional[int] = None, *, keepdim: bool = False, mask: Optional[Tensor] = None) -> Tensor:
    """Where the largest elements are."""
    return _a.argmax(_filled(input, mask, _least(input)), dim, keepdim)


def argmin(input: Tensor, dim: Optional[int] = None, *, keepdim: bool = False, mask: Optional[Tensor] = None) -> Tensor:
    """Where the smallest elements are."""
    return _a.argmin(_filled(input, mask, _most(input)), dim, keepdim)


def _count(input: Tensor, dim: Axes, keepdim: bool, mask: Optional[Tensor]) -> Tensor:
    there = _a.full_like(input, 1) if mask is None else _f.mul(mask, _a.full_like(input, 1))
    return _f.sum(there, dim, keepdim)


def mean(input: Tensor, dim: Axes = None, *, keepdim: bool = False, mask: Optional[Tensor] = None) -> Tensor:
    """Means."""
    return sum(input, dim, keepdim=keepdim, mask=mask) / _count(input, dim, keepdim, mask)


def var(input: Tensor, dim: Axes = None, unbiased: bool = True, *, keepdim: bool = False, mask: Optional[Tensor] = None) -> Tensor:
    """Variances; of samples, if unbiased."""
    centred = input - mean(input, dim, keepdim=True, mask=mask)
    count = _count(input, dim, keepdim, mask) - (1 if unbiased else 0)
    return sum(centred * centred, dim, keepdim=keepdim, mask=mask) / _a.clip(count, 0, None)


def std(input: Tensor, dim: Axes = None, unbiased: bool = True, *, keepdim: bool = False, mask: Optional[Tensor] = None) -> Tensor:
    """Standard deviations."""
    return var(input, dim, unbiased, keepdim=keepdim, mask=mask).sqrt()


def norm(input: Tensor, ord: float = 2.0, dim: Axes = None, *, keepdim: bool = False, mask: Optional[Tensor] = None) -> Tensor: # noqa: A002
    """Norms."""
    return _f.norm(_filled(input, mask, 0), ord, dim, keepdim)


def logsumexp(input: Tensor, dim: Axes, *, keepdim: bool = False, mask: Optional[Tensor] = None) -> Tensor:
    """Logarithms of sums of exponentials."""
    return _f.logsumexp(_filled(input, mask, -math.inf), dim, keepdim)


def softmax(input: Tensor, dim: int, *, mask: Optional[Tensor] = None) -> Tensor:
    """Shares of exponentials, 0 where the mask is false."""
    return _f.softmax(_filled(input, mask, -math.inf), dim)


def log_softmax(input: Tensor, dim: int, *, mask: Optional[Tensor] = None) -> Tensor:
    """The logarithms of softmax()."""
    return _f.log_softmax(_filled(input, mask, -math.inf), dim)


def softmin(input: Tensor, dim: int, *, mask: Optional[Tensor] = None) -> Tensor:
    """softmax() of the negative."""
    return softmax(-input, dim, mask=mask)


def normalize(input: Tensor, ord: float, dim: int, *, eps: float = 1e-12, mask: Optional[Tensor] = None) -> Tensor: # noqa: A002
    """Divided by norms, which count as eps at least."""
    return _filled(input, mask, 0) / _a.clip(norm(input, ord, dim, keepdim=True, mask=mask), eps, None)


def cumsum(input: Tensor, dim: int, *, mask: Optional[Tensor] = None) -> Tensor:
    """Running sums."""
    return _a.cumsum(_filled(input, mask, 0), dim)


def cumprod(input: Tensor, dim: int, *, mask: Optional[Tensor] = None) -> Tensor:
    """Running products."""
    return _a.cumprod(_filled(input, mask, 1), dim)


def logaddexp(input: Tensor, other: Tensor, *, input_mask: Any = None, other_mask: Any = None) -> Tensor:
    """log(exp(a) + exp(b)) of those that the masks leave."""
    return _f.logaddexp(_filled(input, input_mask, -math.inf), _filled(other, other_mask, -math.inf))
