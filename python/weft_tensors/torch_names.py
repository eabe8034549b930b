"""Functions that PyTorch has besides those of the array API standard, and methods of Tensor."""
from __future__ import annotations

import builtins
import math
from collections.abc import Sequence
from typing import Any, Optional, Union

from . import array_api as _a, functions as _f, searching as _s
from ._core import Axes, Mesh, Placements, Tensor, _lib, bool_, made, many, tensor
from .arrays import asarray
from .autograd import no_grad


# ---- what a thing is ----
def is_tensor(obj: Any) -> bool:
    """Whether it is a Tensor."""
    return isinstance(obj, Tensor)


def is_complex(input: Tensor) -> bool:
    """Whether its type is complex."""
    return input.dtype.is_complex


def is_floating_point(input: Tensor) -> bool:
    """Whether its type is floating."""
    return input.dtype.is_floating_point


def numel(input: Tensor) -> int:
    """The number of elements."""
    return input.numel()


def as_tensor(data: Any, dtype: Any = None, device: Any = None) -> Tensor:
    """asarray()."""
    return asarray(data, dtype=dtype)


# ---- reductions ----
def amax(input: Tensor, dim: Axes = None, keepdim: bool = False) -> Tensor:
    """The largest elements over dimensions."""
    return _f.max(input, dim, keepdim)


def amin(input: Tensor, dim: Axes = None, keepdim: bool = False) -> Tensor:
    """The smallest elements over dimensions."""
    return _f.min(input, dim, keepdim)


def aminmax(input: Tensor, *, dim: Optional[int] = None, keepdim: bool = False) -> tuple[Tensor, Tensor]:
    """amin() and amax()."""
    return amin(input, dim, keepdim), amax(input, dim, keepdim)


def std_mean(input: Tensor, dim: Axes = None, *, correction: float = 1.0, keepdim: bool = False) -> tuple[Tensor, Tensor]:
    """The standard deviation (of a sample, as PyTorch's) and the mean."""
    return _a.std(input, dim, correction, keepdim), _a.mean(input, dim, keepdim)


def var_mean(input: Tensor, dim: Axes = None, *, correction: float = 1.0, keepdim: bool = False) -> tuple[Tensor, Tensor]:
    """The variance (of a sample, as PyTorch's) and the mean."""
    return _a.var(input, dim, correction, keepdim), _a.mean(input, dim, keepdim)


def median(input: Tensor, dim: Optional[int] = None, keepdim: bool = False) -> Any:
    """The middle value: of two, the smaller one. Along a dimension its index, too; without one, of the flattened tensor."""
    if dim is None:
        return _f.median(_f.reshape(tensor(input, "input"), -1), 0)[0]
    return _f.median(input, dim, keepdim)


def bincount(input: Tensor, num_bins: Any = None, weights: Optional[Tensor] = None, *, minlength: int = 0) -> Tensor:
    """How often each of the numbers 0, 1, ... occurs, or the sum of the weights that are there. Waits for the largest one, unless num_bins
    says how many there are."""
    if isinstance(num_bins, Tensor): # PyTorch's order
        num_bins, weights = None, num_bins
    if num_bins is None:
        num_bins = builtins.max(minlength, int(_f.max(input).item()) + 1 if input.numel() else 0)
    return _f.bincount(input, num_bins, weights)


def histc(input: Tensor, bins: int = 100, min: float = 0.0, max: float = 0.0) -> Tensor:
    """How many elements are in each of equal intervals from min to max; of the smallest and the largest element if both are equal, which
    waits."""
    if min == max:
        min, max = _f.min(input).item(), _f.max(input).item()
        min, max = (min - 1, max + 1) if min == max else (min, max)
    return _f.histogram(input, bins, min, max).astype(input.dtype)


def quantile(input: Tensor, q: float, dim: Optional[int] = None, keepdim: bool = False, *, interpolation: str = "linear",
             way: Optional[str] = None) -> Tensor:
    """The value below which a part q of the elements is, along a dimension or of the flattened tensor. `way`: weft's name of PyTorch's
    interpolation, between elements: "linear", "lower", "higher", "midpoint", "nearest"."""
    interpolation = interpolation if way is None else way
    if dim is None:
        return _f.quantile(_f.reshape(tensor(input, "input"), -1), q, 0, way=interpolation)
    return _f.quantile(input, q, dim, keepdim, interpolation)


def round(input: Tensor, *, decimals: int = 0) -> Tensor: # noqa: A001
    """The nearest whole numbers, or numbers with so many decimals; halves go to the even one."""
    if not decimals:
        return _f.round(input)
    factor = 10.0**decimals
    return _f.round(input * factor) / factor


# ---- shapes ----
def ravel(input: Tensor) -> Tensor:
    """The elements as a vector."""
    return _f.reshape(input, -1)


def movedim(input: Tensor, source: Axes, destination: Axes) -> Tensor:
    """Dimensions moved to other positions."""
    return _a.moveaxis(input, source, destination)


def swapaxes(input: Tensor, axis0: int, axis1: int) -> Tensor:
    """Two dimensions exchanged."""
    return _f.transpose(input, axis0, axis1)


def select(input: Tensor, dim: int, index: int) -> Tensor:
    """One index of a dimension, which is removed."""
    return made(_lib.weft_select(tensor(input, "input"), dim, index))


def narrow(input: Tensor, dim: int, start: int, length: int) -> Tensor:
    """`length` indices of a dimension from `start` on."""
    size = input.shape[dim]
    start = start + size if start < 0 else start
    if not 0 <= start <= start + length <= size:
        raise IndexError(f"narrow: {start} to {start + length} is not within dimension {dim} of size {size}")
    return made(_lib.weft_slice(input, dim, start, start + length, 1))


def hstack(tensors: Sequence[Tensor]) -> Tensor:
    """The tensors side by side: along dimension 1, vectors along dimension 0."""
    given = [_f.reshape(each, 1) if each.ndim == 0 else each for each in tensors]
    return _a.cat(given, 0 if given[0].ndim == 1 else 1)


def vstack(tensors: Sequence[Tensor]) -> Tensor:
    """The tensors one below the other; a vector is a row."""
    return _a.cat([_f.reshape(each, 1, -1) if each.ndim < 2 else each for each in tensors], 0)


def fliplr(input: Tensor) -> Tensor:
    """The columns in reverse."""
    return _f.flip(input, [1])


def flipud(input: Tensor) -> Tensor:
    """The rows in reverse."""
    return _f.flip(input, [0])


def diag(input: Tensor, diagonal: int = 0) -> Tensor:
    """A vector as the diagonal of a matrix, or the diagonal of a matrix."""
    if input.ndim == 2:
        return _f.diagonal(input, diagonal)
    if input.ndim != 1:
        raise ValueError(f"diag: a vector or a matrix is expected, not {input.ndim} dimensions")
    size = input.shape[0] + abs(diagonal)
    before, after = (abs(diagonal), 0) if diagonal > 0 else (0, abs(diagonal))
    columns = _f.pad(input, [before], [after], "constant", 0.0)
    return _f.where(_a.eye(size, k=diagonal, dtype=bool_, mesh=input.mesh), _f.unsqueeze(columns, 0),
                    _f.full(0, (), dtype=input.dtype, mesh=input.mesh))


def argwhere(input: Tensor) -> Tensor:
    """The indices of elements that are not zero, a row each. Waits."""
    return _f.nonzero(input)


def scatter(input: Tensor, dim: int, index: Tensor, src: Any = None, *, value: Any = None) -> Tensor:
    """`input` with elements of `src`, or one number, at the indices along a dimension."""
    given = src if value is None else value
    if isinstance(given, Tensor):
        return _f.scatter(input, dim, index, given)
    return made(_lib.weft_scatter_scalar(tensor(input, "input"), dim, tensor(index, "index"), given))


# ---- products ----
def inner(input: Tensor, other: Tensor) -> Tensor:
    """Sums of products over the last dimension of both."""
    if input.ndim == 0 or other.ndim == 0:
        return input * other
    return _f.tensordot(input, other, [-1], [-1])


def vdot(input: Tensor, other: Tensor) -> Tensor:
    """The dot product of vectors, the first one's conjugate."""
    return _f.dot(_f.conj(input), other)


def mv(input: Tensor, vec: Tensor) -> Tensor:
    """A matrix times a vector."""
    return _f.matmul(input, vec)


def trapezoid(y: Tensor, x: Optional[Tensor] = None, *, dx: float = 1.0, dim: int = -1) -> Tensor:
    """The integral of samples by the trapezoidal rule."""
    length = y.shape[dim]
    pairs = made(_lib.weft_slice(y, dim, 1, max(length, 1), 1)) + made(_lib.weft_slice(y, dim, 0, max(length - 1, 0), 1))
    if x is None:
        return _f.sum(pairs, dim) * (dx / 2)
    steps = _a.diff(x, axis=-1 if x.ndim == 1 else dim)
    shape = [1] * y.ndim
    shape[dim] = steps.shape[0] if x.ndim == 1 else 1
    return _f.sum(pairs * (_f.reshape(steps, shape) if x.ndim == 1 else steps), dim) * 0.5


def deg2rad(input: Tensor) -> Tensor:
    """Degrees as radians."""
    return input * (math.pi / 180)


def rad2deg(input: Tensor) -> Tensor:
    """Radians as degrees."""
    return input * (180 / math.pi)


# ---- random numbers ----
def normal(mean: Union[float, Tensor], std: Union[float, Tensor], size: Any = None, *, dtype: Any = None, mesh: Optional[Mesh] = None,
           placements: Placements = None) -> Tensor:
    """Normally distributed numbers. Tensors say a mean and a deviation for each."""
    if isinstance(mean, Tensor) or isinstance(std, Tensor):
        like: Any = mean + std
        return _f.randn_like(like) * std + mean
    if size is None:
        raise TypeError("normal: size is needed, unless mean or std is a tensor")
    return _a.randn(*many(size), dtype=dtype, mesh=mesh, placements=placements) * float(std) + float(mean)


def multinomial(input: Tensor, num_samples: int, replacement: bool = False) -> Tensor:
    """Indices along the last dimension, chosen with probabilities in proportion to its numbers."""
    shape = input.shape
    if not 1 <= len(shape) <= 2:
        raise ValueError(f"multinomial: one or two dimensions are expected, not {len(shape)}")
    if not replacement:
        if num_samples > shape[-1]:
            raise ValueError(f"num_samples: {num_samples} of {shape[-1]} cannot be chosen without replacement")
        noise = -_f.log(-_f.log(_f.rand_like(input).clip(1e-38)))
        return _f.topk(_f.log(input) + noise, num_samples)[1]
    sums = _f.cumsum(input, -1)
    points = _a.rand(*shape[:-1], num_samples, dtype=input.dtype,
                     mesh=input.mesh) * made(_lib.weft_slice(sums, -1, shape[-1] - 1, shape[-1], 1))
    return _s.searchsorted(sums, points, right=True).clip(None, shape[-1] - 1)


# ---- methods ----
def exponential_(self: Tensor, lambd: float = 1.0) -> Tensor:
    """Exponentially distributed numbers, in place."""
    with no_grad():
        return _f.copy_(self, -_f.log1p(-_f.rand_like(self)) / float(lambd))


def bernoulli_(self: Tensor, p: float = 0.5) -> Tensor:
    """1 with probability p, otherwise 0, in place."""
    with no_grad():
        return _f.copy_(self, (_a.rand(*self.shape, mesh=self.mesh) < p).astype(self.dtype))


def _new(function: Any) -> Any:
    def new(self: Tensor, *size: Any, dtype: Any = None, device: Any = None, requires_grad: bool = False) -> Tensor:
        return function(*size, dtype=self.dtype if dtype is None else dtype, mesh=self.mesh, requires_grad=requires_grad)

    new.__name__ = new.__qualname__ = f"new_{function.__name__}"
    new.__doc__ = f"{function.__name__}() of this tensor's type and mesh."
    return new


def new_full(self: Tensor, size: Any, fill_value: float, *, dtype: Any = None, device: Any = None, requires_grad: bool = False) -> Tensor:
    """full() of this tensor's type and mesh."""
    return _a.full(size, fill_value, dtype=self.dtype if dtype is None else dtype, mesh=self.mesh, requires_grad=requires_grad)


def new_tensor(self: Tensor, data: Any, *, dtype: Any = None, device: Any = None, requires_grad: bool = False) -> Tensor:
    """asarray() of this tensor's type and mesh."""
    return asarray(data, dtype=self.dtype if dtype is None else dtype, mesh=self.mesh, requires_grad=requires_grad)


def _in_place(name: str, function: Any) -> Any:
    def changed(self: Tensor, *arguments: Any, **options: Any) -> Tensor:
        return _f.copy_(self, function(self, *arguments, **options))

    changed.__name__ = changed.__qualname__ = name
    changed.__doc__ = f"{name.rstrip('_')}() in place."
    return changed


_IN_PLACE = {f"{name}_": getattr(_f, name) for name in (
    "abs ceil cos erf exp expm1 floor log log1p neg pow reciprocal relu round rsqrt sigmoid sin sqrt square tan tanh tril triu trunc "
    "addcmul addcdiv index_copy index_fill index_put lerp logical_not nan_to_num").split()}
_METHODS: dict[str, Any] = {name: getattr(_f, name) for name in (
    "acos acosh addcdiv addcmul addmm angle asin asinh atan atan2 atanh bernoulli conj copysign cosh cov cummax cummin digamma erfc "
    "erfinv exp2 fmax fmin fmod frac hypot index_put lgamma log10 log2 logaddexp one_hot outer remainder rms_norm "
    "scatter_reduce sgn sinh where xlogy").split()}
_METHODS.update({each.__name__: each for each in (
    amax, amin, aminmax, argwhere, bernoulli_, bincount, diag, exponential_, histc, inner, is_complex, is_floating_point, median, movedim,
    multinomial, mv, narrow, new_full, new_tensor, ravel, select, swapaxes, vdot)})
_METHODS.update({name: getattr(_s, name) for name in ("bucketize", "isin", "repeat_interleave", "unique", "unique_consecutive")})
_METHODS.update({name: _in_place(name, function) for name, function in _IN_PLACE.items()})
_METHODS.update({
    "new_empty": _new(_a.empty), "new_zeros": _new(_a.zeros), "new_ones": _new(_a.ones), "broadcast_to": _a.broadcast_to,
    "where": lambda self, condition, other: _a.where(condition, self, other), "moveaxis": _a.moveaxis, "bmm": _f.matmul,
    "count_nonzero": lambda self, dim=None: _a.count_nonzero(self, axis=dim),
    "diff": lambda self, n=1, dim=-1: _a.diff(self, axis=dim, n=n),
    "tile": lambda self, *dims: _a.tile(self, many(dims[0] if len(dims) == 1 else dims)), "floor_divide": _f.floor_div,
    "expand_as": lambda self, other: _f.expand(self, other.shape), "reshape_as": lambda self, other: _f.reshape(self, other.shape),
    "view_as": lambda self, other: _f.reshape(self, other.shape), "type": lambda self, dtype: self.to(dtype), "type_as": lambda self,
    other: self.astype(other.dtype),
    "element_size": lambda self: self.dtype.itemsize, "nelement": lambda self: self.numel(), "ndimension": lambda self: self.ndim,
    "is_contiguous": lambda self: True, "cuda": lambda self, device=None: self})
for _name, _function in _METHODS.items():
    if _name not in vars(Tensor):
        setattr(Tensor, _name, _function)
Tensor.scatter, Tensor.scatter_ = scatter, _in_place("scatter_", scatter) # type: ignore[method-assign, assignment]
Tensor.quantile, Tensor.round = quantile, round # type: ignore[method-assign, assignment]
Tensor.median = median # type: ignore[method-assign, assignment]

broadcast_tensors, take_along_dim, unbind, swapdims = _a.broadcast_arrays, _a.take_along_axis, _a.unstack, swapaxes
clone = Tensor.clone

__all__ = ["amax", "amin", "aminmax", "argwhere", "as_tensor", "bincount", "broadcast_tensors", "clone", "deg2rad", "diag", "fliplr",
           "flipud", "histc", "hstack", "inner", "is_complex",
           "is_floating_point", "is_tensor", "median", "movedim", "multinomial", "mv", "narrow", "normal", "numel", "quantile", "rad2deg",
           "ravel", "round", "scatter",
           "select", "std_mean", "swapaxes",
           "swapdims", "take_along_dim", "trapezoid", "unbind", "var_mean", "vdot", "vstack"]
