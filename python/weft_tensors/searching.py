"""unique, searchsorted, repeat: made of sorts, sums and indices, so that they run on any layout and any number of processes."""
from __future__ import annotations

from typing import Any, NamedTuple, Optional, Union

from . import functions as _f
from ._core import Tensor, bool_, int64, tensor
from .array_api import arange, cat, cumsum, nonzero, ones, result_type, zeros


# ---- places in sorted values ----
def searchsorted(x1: Tensor, x2: Any, /, *, side: str = "left", right: bool = False, sorter: Optional[Tensor] = None) -> Tensor:
    """Where values would be inserted into sorted ones: before equal ones, or after them with side="right" or right=True. Of several
    dimensions the last one of `x1` is sorted, and the others are x2's; one sorted vector takes values of any shape. NaN is the largest."""
    if side not in ("left", "right"):
        raise ValueError(f"side: {side!r} is neither 'left' nor 'right'")
    tensor(x1, "x1")
    x1 = x1 if sorter is None else _f.gather(x1, -1, sorter)
    if not isinstance(x2, Tensor):
        return searchsorted(x1, _f.full(x2, (1,), dtype=x1.dtype, mesh=x1.mesh), side=side, right=right).reshape(())
    if x1.ndim == 0 or x1.ndim > 1 and x1.shape[:-1] != x2.shape[:-1]:
        raise ValueError(f"searchsorted: sorted values of shape {x1.shape} do not suit values of shape {x2.shape}")
    shape = x2.shape
    places = _merged(x1, _f.reshape(x2, -1) if x1.ndim == 1 else x2, right or side == "right")
    return _f.reshape(places, shape) if x1.ndim == 1 and len(shape) != 1 else places


def _merged(x1: Tensor, x2: Tensor, right: bool) -> Tensor:
    """A stable sort of both together: the place of a value is the number of x1's elements before it. Of equal ones those come first that
    are first in the list."""
    n, m = x1.shape[-1], x2.shape[-1]
    kind = result_type(x1, x2)
    x1, x2 = x1.astype(kind), x2.astype(kind)
    order = _f.argsort(cat([x1, x2] if right else [x2, x1], -1), -1)
    of_x1 = order < n if right else order >= m
    counts = cumsum(of_x1.astype(int64), -1)
    places = _f.scatter(counts, -1, order, counts)
    return places[..., n:] if right else places[..., :m]


def bucketize(input: Any, boundaries: Tensor, *, right: bool = False) -> Tensor:
    """The number of the interval between boundaries that each value is in."""
    return searchsorted(boundaries, input, right=right)


def isin(elements: Tensor, test_elements: Tensor, *, assume_unique: bool = False, invert: bool = False) -> Tensor:
    """Whether each element is among others."""
    among = _f.sort(_f.reshape(test_elements, -1), -1, False)[0]
    if not among.size:
        return _f.full(invert, elements.shape, dtype=bool_, mesh=elements.mesh)
    found = searchsorted(among, elements, side="right") > searchsorted(among, elements)
    return ~found if invert else found


# ---- distinct values: their number depends on the values, so these wait ----
class UniqueAll(NamedTuple):
    """What unique_all() returns."""

    values: Tensor
    indices: Tensor
    inverse_indices: Tensor
    counts: Tensor


class UniqueCounts(NamedTuple):
    """What unique_counts() returns."""

    values: Tensor
    counts: Tensor


class UniqueInverse(NamedTuple):
    """What unique_inverse() returns."""

    values: Tensor
    inverse_indices: Tensor


class _Runs:
    """The runs of equal neighbours in a vector."""

    def __init__(self, vector: Tensor) -> None:
        self.vector, self.size = vector, vector.shape[0]
        begins = ones(1, dtype=bool_, mesh=vector.mesh)
        self.begins = cat([begins, vector[1:] != vector[:-1]], 0) if self.size else zeros(0, dtype=bool_, mesh=vector.mesh)

    def values(self) -> Tensor:
        return _f.masked_select(self.vector, self.begins)

    def numbers(self) -> Tensor:
        """Of each element, the number of its run."""
        return cumsum(self.begins.astype(int64), 0) - 1

    def counts(self) -> Tensor:
        first = nonzero(self.begins)[0]
        return cat([first[1:], _f.full(self.size, (1,), dtype=int64, mesh=self.vector.mesh)], 0) - first if self.size else first


def _sorted(x: Tensor) -> tuple[_Runs, Tensor]:
    """The runs of all elements in order, and where each was. NaN differs from NaN."""
    values, order = _f.sort(_f.reshape(tensor(x, "x"), -1), 0, False)
    return _Runs(values), order


def _back(numbers: Tensor, order: Tensor, shape: tuple[int, ...]) -> Tensor:
    return _f.reshape(_f.scatter(numbers, 0, order, numbers), shape)


def unique_values(x: Tensor, /) -> Tensor:
    """The distinct values, in order. Waits."""
    return _sorted(x)[0].values()


def unique_counts(x: Tensor, /) -> UniqueCounts:
    """The distinct values, and how often each occurs. Waits."""
    runs, _ = _sorted(x)
    return UniqueCounts(runs.values(), runs.counts())


def unique_inverse(x: Tensor, /) -> UniqueInverse:
    """The distinct values, and of each element which of them it is. Waits."""
    runs, order = _sorted(x)
    return UniqueInverse(runs.values(), _back(runs.numbers(), order, x.shape))


def unique_all(x: Tensor, /) -> UniqueAll:
    """The distinct values, where each occurs first in the flattened tensor, which of them each element is, and how often each occurs.
    Waits."""
    runs, order = _sorted(x)
    return UniqueAll(runs.values(), _f.masked_select(order, runs.begins), _back(runs.numbers(), order, x.shape), runs.counts())


def _chosen(values: Tensor, inverse: Any, counts: Any) -> Any:
    found = [values, *(each() for each in (inverse, counts) if each is not None)]
    return tuple(found) if len(found) > 1 else values


def unique(input: Tensor, sorted: bool = True, return_inverse: bool = False, return_counts: bool = False, dim: Optional[int] = None) -> Any:
    """PyTorch's: the distinct values of the whole tensor, in order, and, if asked for, unique_inverse()'s and unique_counts()'s. Waits."""
    if dim is not None:
        raise ValueError("unique: distinct slices along dim are not supported; without dim, the values of the whole tensor are taken")
    runs, order = _sorted(input)
    return _chosen(runs.values(), (lambda: _back(runs.numbers(), order, input.shape)) if return_inverse else None,
                   runs.counts if return_counts else None)


def unique_consecutive(input: Tensor, return_inverse: bool = False, return_counts: bool = False, dim: Optional[int] = None) -> Any:
    """The first of each run of equal neighbours in the flattened tensor; which run each element is in, how long each is. Waits."""
    if dim is not None:
        raise ValueError("unique_consecutive: slices along dim are not supported")
    runs = _Runs(_f.reshape(tensor(input, "input"), -1))
    return _chosen(runs.values(), (lambda: _f.reshape(runs.numbers(), input.shape)) if return_inverse else None,
                   runs.counts if return_counts else None)


# ---- repetitions ----
def repeat_interleave(input: Tensor, repeats: Union[int, Tensor], dim: Optional[int] = None, *,
                      output_size: Optional[int] = None) -> Tensor:
    """Each slice along a dimension `repeats` times, one after the other; without `dim`, each element of the flattened tensor. A tensor of
    numbers has one for each slice; their sum is waited for, unless it is given as output_size."""
    tensor(input, "input")
    if dim is None:
        input, dim = _f.reshape(input, -1), 0
    dim = range(input.ndim)[dim]
    shape = input.shape
    if not isinstance(repeats, Tensor):
        if repeats < 0:
            raise ValueError(f"repeats: {repeats} is negative")
        wide = _f.expand(_f.unsqueeze(input, dim + 1), *shape[:dim + 1], repeats, *shape[dim + 1:])
        return _f.reshape(wide, *shape[:dim], shape[dim] * repeats, *shape[dim + 1:])
    if repeats.size == 1:
        repeats = _f.expand(_f.reshape(repeats, 1), shape[dim])
    if repeats.shape != (shape[dim],):
        raise ValueError(f"repeats: shape {repeats.shape} is not ({shape[dim]},), one for each slice")
    ends = cumsum(repeats, 0)
    total = output_size if output_size is not None else int(ends[-1].item()) if shape[dim] else 0
    chosen = searchsorted(ends, arange(total, mesh=input.mesh), side="right")
    return _f.index_select(input, dim, chosen)


def repeat(x: Tensor, repeats: Union[int, Tensor], /, *, axis: Optional[int] = None) -> Tensor:
    """The standard's name of repeat_interleave()."""
    return repeat_interleave(x, repeats, axis)


__all__ = ["bucketize", "isin", "repeat", "repeat_interleave", "searchsorted", "unique", "unique_all", "unique_consecutive",
           "unique_counts", "unique_inverse",
           "unique_values"]
