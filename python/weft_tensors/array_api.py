"""Names of the Python array API standard that differ from weft's, and the methods of Tensor."""
from __future__ import annotations

import builtins
from collections.abc import Sequence
from ctypes import c_int
from typing import Any, Optional, Union

import numpy

from . import _api, functions as _f
from ._core import (DTYPES, WITH_GRAD, Axes, DType, Mesh, Placements, Tensor, _lib, _scalar, axes, bool_, complex64, complex128, dtype_of,
                    float32, float64, int64, int64s, ints, made, many, operands, resolve, same_length)
from ._numbers import full_of_number, number_of
from .arrays import asarray, cat, chunk, split

pi, e, inf, nan, newaxis = numpy.pi, numpy.e, numpy.inf, numpy.nan, None


# ---- element by element ----
def clip(x: Tensor, /, min: Any = None, max: Any = None) -> Tensor:
    """Values below min become min, values above max become max; None is no limit, and neither is a number beyond x's type."""
    if isinstance(min, Tensor) or isinstance(max, Tensor):
        result = x if min is None else _f.maximum(*operands(x, min))
        return result if max is None else _f.minimum(*operands(result, max))
    if x.dtype.is_floating_point or not any(isinstance(each, (float, numpy.floating)) for each in (min, max)):
        return made(_lib.weft_clamp(x, -numpy.inf if min is None else min, numpy.inf if max is None else max))
    result = x if min is None else _f.maximum(x, _scalar(min, x))
    return result if max is None else _f.minimum(result, _scalar(max, x))


clamp = clip


def positive(x: Tensor, /) -> Tensor:
    """The same values."""
    return +x


def sign(x: Tensor, /) -> Tensor:
    """-1, 0 or 1; of complex numbers x / |x|, as sgn()."""
    return _f.sgn(x)


def signbit(x: Tensor, /) -> Tensor:
    """Whether the sign bit is set, of -0.0 too."""
    return _f.copysign(_f.ones_like(x), x) < 0


def astype(x: Tensor, dtype: Any, /, *, copy: bool = True, device: Any = None) -> Tensor:
    """The same values in another type."""
    return x.astype(dtype)


def bitwise_invert(x: Tensor, /) -> Tensor:
    """Each bit inverted; of truth values, the other one."""
    return ~x


add, subtract, multiply, divide = _f.add, _f.sub, _f.mul, _f.div
bitwise_and, bitwise_or, bitwise_xor = (lambda a, b: a & b), (lambda a, b: a | b), (lambda a, b: a ^ b)
acos, acosh, asin, asinh, atan, atanh = _f.acos, _f.acosh, _f.asin, _f.asinh, _f.atan, _f.atanh
equal, not_equal, less, less_equal, greater, greater_equal = _f.eq, _f.ne, _f.lt, _f.le, _f.gt, _f.ge
floor_divide, negative, permute_dims = _f.floor_div, _f.neg, _f.permute
copysign, hypot, logaddexp = _f.copysign, _f.hypot, _f.logaddexp


# ---- shapes ----
def concat(arrays: Sequence[Tensor], /, axis: Optional[int] = 0, *, dim: Optional[int] = None) -> Tensor:
    """The tensors one after another along a dimension; None flattens them first."""
    return cat(arrays, axis if dim is None else dim)


def stack(arrays: Sequence[Tensor], /, axis: int = 0, *, dim: Optional[int] = None) -> Tensor:
    """The tensors along a new dimension."""
    return _f.stack(arrays, axis if dim is None else dim)


def unstack(x: Tensor, /, *, axis: int = 0) -> list[Tensor]:
    """The slices along a dimension."""
    return [made(_lib.weft_select(x, axis, i)) for i in range(x.shape[axis])]


def expand_dims(x: Tensor, /, axis: int = 0) -> Tensor:
    """A new dimension of one element."""
    if not -x.ndim - 1 <= axis <= x.ndim:
        raise IndexError(f"axis: {axis} is out of range for {x.ndim} dimensions")
    return _f.unsqueeze(x, axis)


def _dimension(x: Tensor, axis: int) -> int:
    if not -x.ndim <= axis < x.ndim:
        raise IndexError(f"axis: {axis} is out of range for {x.ndim} dimensions")
    return axis % x.ndim


def squeeze(x: Tensor, /, axis: Axes = None, *, dim: Axes = None) -> Tensor:
    """Drops dimensions of one element: the given ones, or all."""
    chosen = axis if dim is None else dim
    if chosen is None:
        chosen = [i for i, size in enumerate(x.shape) if size == 1]
    for each in sorted({_dimension(x, each) for each in many(chosen)}, reverse=True):
        if x.shape[each] != 1:
            raise ValueError(f"squeeze: dimension {each} has size {x.shape[each]}")
        x = made(_lib.weft_squeeze(x, each))
    return x


def broadcast_to(x: Tensor, /, shape: Sequence[int]) -> Tensor:
    """The same values, repeated along dimensions of one element."""
    return _f.expand(x, tuple(shape))


def broadcast_arrays(*arrays: Tensor) -> list[Tensor]:
    """The tensors in one shape."""
    shape = numpy.broadcast_shapes(*[array.shape for array in arrays])
    return [array if array.shape == shape else _f.expand(array, shape) for array in arrays]


def flip(x: Tensor, /, axis: Axes = None, *, dims: Axes = None) -> Tensor:
    """The order of dimensions reversed; of all of them by default."""
    chosen = axis if dims is None else dims
    return _f.flip(x, tuple(range(x.ndim)) if chosen is None else many(chosen)) if x.ndim else x


def roll(x: Tensor, /, shift: Any = None, axis: Axes = None, *, dims: Axes = None, shifts: Any = None) -> Tensor:
    """Elements moved cyclically; without an axis, of the flattened tensor."""
    shift = shift if shifts is None else shifts
    chosen = axis if dims is None else dims
    if chosen is None:
        flat = _f.reshape(x, x.size)
        for by in many(shift):
            flat = _f.roll(flat, by, 0)
        return _f.reshape(flat, x.shape)
    dims_, by_ = many(chosen), many(shift)
    if len(dims_) == 1 or len(by_) == 1: # one for all
        dims_, by_ = dims_ * (len(by_) if len(dims_) == 1 else 1), by_ * (len(dims_) if len(by_) == 1 else 1)
    if len(dims_) != len(by_):
        raise ValueError(f"roll: {len(by_)} shifts for {len(dims_)} dimensions")
    for by, dim in zip(by_, dims_):
        x = _f.roll(x, by, dim)
    return x


def moveaxis(x: Tensor, source: Axes, destination: Axes, /) -> Tensor:
    """Dimensions moved to other positions."""
    come, go = ints(source), ints(destination)
    same_length(len(come), len(go), "destination")
    return made(_lib.weft_movedim(x, len(come), come, go))


def matrix_transpose(x: Tensor, /) -> Tensor:
    """The last two dimensions exchanged."""
    return x.mT


def repeat_axis(x: Tensor, count: int, axis: int) -> Tensor:
    return cat([x] * count, axis)


def tile(x: Tensor, repetitions: Sequence[int], /) -> Tensor:
    """The tensor repeated along each dimension."""
    counts = many(repetitions)
    counts = [1] * (x.ndim - len(counts)) + counts
    while x.ndim < len(counts):
        x = _f.unsqueeze(x, 0)
    for axis, count in enumerate(counts):
        if count != 1:
            x = cat([x] * count, axis) if count else made(_lib.weft_slice(x, axis, 0, 0, 1))
    return x


def tril(x: Tensor, /, *, k: int = 0, diagonal: Optional[int] = None) -> Tensor:
    """The part on and below a diagonal."""
    return _f.tril(x, k if diagonal is None else diagonal)


def triu(x: Tensor, /, *, k: int = 0, diagonal: Optional[int] = None) -> Tensor:
    """The part on and above a diagonal."""
    return _f.triu(x, k if diagonal is None else diagonal)


def meshgrid(*arrays: Tensor, indexing: str = "xy") -> list[Tensor]:
    """Coordinate arrays of a grid."""
    if indexing not in ("xy", "ij"):
        raise ValueError(f"indexing: {indexing!r} is none of 'xy', 'ij'")
    grids = []
    for i, array in enumerate(arrays):
        shape = [1] * len(arrays)
        shape[i] = array.size
        grids.append(_f.reshape(array, shape))
    grids = broadcast_arrays(*grids) if grids else []
    if indexing == "xy" and len(grids) > 1:
        grids = [_f.transpose(grid, 0, 1) for grid in grids]
    return grids


# ---- choosing ----
def take(x: Tensor, indices: Tensor, /, *, axis: Optional[int] = None) -> Tensor:
    """Slices along a dimension."""
    if axis is None:
        if x.ndim != 1:
            raise TypeError("take: axis may be left out for vectors alone")
        axis = 0
    entry: Any = (slice(None),) * _dimension(x, axis) + (indices,)
    return x[entry]


def take_along_axis(x: Tensor, indices: Tensor, /, *, axis: int = -1) -> Tensor:
    """Elements along a dimension, by indices of the same shape."""
    return _f.gather(x, axis, indices)


def argmax(x: Tensor, /, axis: Optional[int] = None, keepdims: bool = False, *, dim: Optional[int] = None, keepdim: Optional[bool] = None) -> Tensor:
    """The index of the largest element, along a dimension or of the flattened tensor."""
    return made(_lib.weft_argmax(x, axes(axis, dim), keepdims if keepdim is None else keepdim))


def argmin(x: Tensor, /, axis: Optional[int] = None, keepdims: bool = False, *, dim: Optional[int] = None, keepdim: Optional[bool] = None) -> Tensor:
    """The index of the smallest element, along a dimension or of the flattened tensor."""
    return made(_lib.weft_argmin(x, axes(axis, dim), keepdims if keepdim is None else keepdim))


def sort(x: Tensor, /, axis: int = -1, *, descending: bool = False, stable: bool = True, dim: Optional[int] = None) -> Any:
    """The elements in order along a dimension. With `dim`, PyTorch's function: values and indices."""
    if dim is not None:
        return _f.sort(x, dim, descending)
    return _f.sort(x, axis, descending)[0]


def argsort(x: Tensor, /, axis: int = -1, *, descending: bool = False, stable: bool = True, dim: Optional[int] = None) -> Tensor:
    """The indices that sort a dimension."""
    return _f.argsort(x, axis if dim is None else dim, descending)


def _extreme(plain: Any, with_indices: Any) -> Any:
    def extreme(x: Tensor, /, axis: Axes = None, keepdims: bool = False, *, dim: Optional[int] = None, keepdim: Optional[bool] = None) -> Any:
        keep = keepdims if keepdim is None else keepdim
        if dim is not None and axis is None:
            return with_indices(x, dim, keep)
        return plain(x, axis, keep, dim=dim)

    extreme.__name__ = extreme.__qualname__ = plain.__name__
    extreme.__doc__ = f"{plain.__doc__.rstrip()}\n\n    With `dim`, PyTorch's function: values and indices.\n    "
    return extreme


max, min = _extreme(_f.max, _f.max_with_indices), _extreme(_f.min, _f.min_with_indices)


def mean(x: Tensor, /, axis: Axes = None, keepdims: bool = False, *, dim: Axes = None, keepdim: Optional[bool] = None,
         dtype: Any = None) -> Tensor:
    """The mean; of whole numbers and truth values in float32."""
    x = x if dtype is None else x.astype(dtype)
    return _f.mean(x if x.dtype.is_floating_point or x.dtype.is_complex else x.astype(float32), axis, keepdims, dim=dim, keepdim=keepdim)


def nonzero(x: Tensor, /) -> tuple[Tensor, ...]:
    """The indices of elements that are not zero, one vector for each dimension. Waits."""
    found = _f.nonzero(x)
    return tuple(made(_lib.weft_select(found, 1, i)) for i in range(x.ndim))


def count_nonzero(x: Tensor, /, *, axis: Axes = None, keepdims: bool = False) -> Tensor:
    """How many elements are not zero."""
    return _f.sum((x if x.dtype is bool_ else x != 0).astype(int64), axis, keepdims)


# ---- reductions that the standard names otherwise ----
def var(x: Tensor, /, axis: Axes = None, correction: float = 0.0, keepdims: bool = False, *, dim: Axes = None,
        keepdim: Optional[bool] = None, unbiased: Optional[bool] = None) -> Tensor:
    """The variance. It divides by n - correction: by n, as NumPy and the standard do; PyTorch's default is correction=1, unbiased=True."""
    correction = correction if unbiased is None else float(unbiased)
    return _f.var(x, axis, correction, keepdims, dim=dim, keepdim=keepdim)


def std(x: Tensor, /, axis: Axes = None, correction: float = 0.0, keepdims: bool = False, *, dim: Axes = None,
        keepdim: Optional[bool] = None, unbiased: Optional[bool] = None) -> Tensor:
    """The standard deviation, with the correction of var()."""
    correction = correction if unbiased is None else float(unbiased)
    return _f.std(x, axis, correction, keepdims, dim=dim, keepdim=keepdim)


def cumsum(x: Tensor, /, axis: int = 0, *, dim: Optional[int] = None, dtype: Any = None) -> Tensor:
    """Sums of the elements so far along a dimension."""
    return _f.cumsum(x if dtype is None else x.astype(dtype), axis if dim is None else dim)


def cumprod(x: Tensor, /, axis: int = 0, *, dim: Optional[int] = None, dtype: Any = None) -> Tensor:
    """Products of the elements so far along a dimension."""
    return _f.cumprod(x if dtype is None else x.astype(dtype), axis if dim is None else dim)


def cumulative_sum(x: Tensor, /, *, axis: Optional[int] = None, dtype: Any = None, include_initial: bool = False) -> Tensor:
    """Sums of the elements so far along a dimension."""
    return _cumulative(_f.cumsum, 0, x, axis, dtype, include_initial)


def cumulative_prod(x: Tensor, /, *, axis: Optional[int] = None, dtype: Any = None, include_initial: bool = False) -> Tensor:
    """Products of the elements so far along a dimension."""
    return _cumulative(_f.cumprod, 1, x, axis, dtype, include_initial)


def _cumulative(function: Any, first: int, x: Tensor, axis: Optional[int], dtype: Any, include_initial: bool) -> Tensor:
    if axis is None:
        if x.ndim != 1:
            raise ValueError("axis may be left out for vectors alone")
        axis = 0
    result = function(x if dtype is None else x.astype(dtype), axis)
    if include_initial:
        shape = list(result.shape)
        shape[axis] = 1
        start = made(_lib.weft_full(result.dtype, first, len(shape), int64s(shape), _lib.weft_tensor_mesh(x), None))
        result = cat([start, result], axis)
    return result


def diff(x: Tensor, /, *, axis: int = -1, n: int = 1) -> Tensor:
    """Differences of neighbours along a dimension, n times."""
    for _ in range(n):
        length = x.shape[axis]
        x = _f.sub(made(_lib.weft_slice(x, axis, 1, builtins.max(length, 1), 1)), made(_lib.weft_slice(x, axis, 0, builtins.max(length - 1, 0), 1)))
    return x


# ---- products ----
def tensordot(x1: Tensor, x2: Tensor, /, *, axes: Union[int, Sequence[Sequence[int]]] = 2) -> Tensor:
    """Sums of products over dimensions of both."""
    if isinstance(axes, int):
        first, second = list(range(x1.ndim - axes, x1.ndim)), list(range(axes))
    else:
        first, second = list(axes[0]), list(axes[1])
    return _f.tensordot(x1, x2, first, second)


def vecdot(x1: Tensor, x2: Tensor, /, *, axis: int = -1) -> Tensor:
    """Sums of products along a dimension, of complex numbers with the first one's conjugate."""
    return _f.sum((_f.conj(x1) if x1.dtype.is_complex else x1) * x2, axis)


# ---- making ----
def arange(start: float, /, stop: Optional[float] = None, step: float = 1, *, dtype: Any = None, mesh: Optional[Mesh] = None,
           placements: Placements = None, device: Any = None, requires_grad: bool = False) -> Tensor:
    """start, start + step, ... below stop; arange(n) begins at 0. int64 of whole numbers, otherwise float32."""
    if stop is None:
        start, stop = 0, start
    if dtype is None:
        dtype = int64 if all(isinstance(each, (int, numpy.integer)) for each in (start, stop, step)) else float32
    if (stop <= start and step > 0) or (stop >= start and step < 0):
        return _f.empty(0, dtype=dtype_of(dtype), mesh=mesh, placements=placements, requires_grad=requires_grad)
    return _f.arange(start, stop, step, dtype=dtype_of(dtype), mesh=mesh, placements=placements, requires_grad=requires_grad)


def linspace(start: float, stop: float, /, num: int = 50, *, dtype: Any = None, endpoint: bool = True, mesh: Optional[Mesh] = None,
             placements: Placements = None, device: Any = None, requires_grad: bool = False, steps: Optional[int] = None) -> Tensor:
    """num (PyTorch: steps) evenly spaced numbers from start to stop."""
    num = num if steps is None else steps
    kind = dtype_of(dtype) if dtype is not None else complex64 if isinstance(start, complex) or isinstance(stop, complex) else float32
    if kind.is_complex:
        part = linspace(0.0, 1.0, num, dtype=float64 if kind is complex128 else float32, endpoint=endpoint, mesh=mesh,
                        placements=placements)
        made_of_it = (part * complex(stop - start) + complex(start)).astype(kind)
        made_of_it.requires_grad = requires_grad
        return made_of_it
    result = _f.linspace(start, stop, num if endpoint else num + 1, dtype=kind, mesh=mesh, placements=placements, requires_grad=requires_grad)
    return result if endpoint else made(_lib.weft_slice(result, 0, 0, num, 1))


def eye(n_rows: int, n_cols: Optional[int] = None, /, *, k: int = 0, dtype: Any = None, mesh: Optional[Mesh] = None, placements: Placements = None,
        device: Any = None, requires_grad: bool = False) -> Tensor:
    """A matrix with ones on a diagonal."""
    columns, kind = n_rows if n_cols is None else n_cols, dtype_of(dtype) if dtype is not None else float32
    if k == 0:
        return _f.eye(n_rows, columns, dtype=kind, mesh=mesh, placements=placements, requires_grad=requires_grad)
    row = _f.reshape(arange(n_rows, mesh=mesh), n_rows, 1)
    result = (row + k == _f.reshape(arange(columns, mesh=mesh), 1, columns)).astype(kind)
    result = result if placements is None else result.redistribute(placements, mesh)
    result.requires_grad = requires_grad
    return result


def _kind_of(value: Any) -> DType:
    if isinstance(value, (bool, numpy.bool_)):
        return bool_
    if isinstance(value, (int, numpy.integer)):
        return int64
    return complex64 if isinstance(value, (complex, numpy.complexfloating)) else float32


def full(shape: Any, fill_value: Any, *, dtype: Any = None, mesh: Optional[Mesh] = None, placements: Placements = None, device: Any = None,
         requires_grad: bool = False) -> Tensor:
    """One value everywhere: float32, int64, bool or complex64 by its kind, unless a type is given."""
    if dtype is None:
        dtype = float32 if type(fill_value) is float else _kind_of(fill_value)
    if type(fill_value) is float or type(fill_value) is int:
        kind, sizes = dtype_of(dtype), int64s(shape)
        mesh, array = resolve(mesh, placements)
        return made(full_of_number(kind | WITH_GRAD if requires_grad else kind, number_of(fill_value), len(sizes), sizes, mesh, array))
    return _f.full(fill_value, (shape,) if isinstance(shape, int) else tuple(shape), dtype=dtype_of(dtype), mesh=mesh, placements=placements,
                   requires_grad=requires_grad)


def _factory(function: Any) -> Any:
    call = getattr(_lib, f"weft_{function.__name__}")

    def factory(*shape: Any, dtype: Any = None, mesh: Optional[Mesh] = None, placements: Placements = None, device: Any = None,
                requires_grad: bool = False, device_mesh: Optional[Mesh] = None) -> Tensor:
        kind = float32 if dtype is None else dtype_of(dtype)
        sizes = int64s(shape)
        mesh, array = resolve(mesh if device_mesh is None else device_mesh, placements)
        return made(call(kind | WITH_GRAD if requires_grad else kind, len(sizes), sizes, mesh, array))

    factory.__name__ = factory.__qualname__ = function.__name__
    factory.__doc__ = function.__doc__
    return factory


empty, zeros, ones, rand, randn = map(_factory, (_f.empty, _f.zeros, _f.ones, _f.rand, _f.randn))


def randint(low: Any, high: Any = None, shape: Any = None, *, size: Any = None, dtype: Any = None, mesh: Optional[Mesh] = None,
            placements: Placements = None, device: Any = None, requires_grad: bool = False) -> Tensor:
    """Whole numbers from low to high - 1; randint(n, shape) and randint(n, shape=...) begin at 0."""
    if high is not None and not hasattr(high, "__index__"): # PyTorch's randint(high, size)
        high, shape = None, high
    low, high = (0, low) if high is None else (low, high)
    shape = () if shape is None and size is None else size if shape is None else shape
    kind = dtype_of(dtype) if dtype is not None else int64
    if kind.is_floating_point or kind.is_complex or requires_grad:
        raise ValueError("whole numbers have no gradients" if requires_grad else
                         f"dtype: whole numbers or truth values are expected, not {kind.name}")
    return _f.randint(low, high, (shape,) if isinstance(shape, int) else tuple(shape), dtype=kind, mesh=mesh, placements=placements)


def _like(function: Any) -> Any:
    def like(x: Tensor, /, *, dtype: Any = None, device: Any = None) -> Tensor:
        result = function(x)
        return result if dtype is None else result.astype(dtype)

    like.__name__ = like.__qualname__ = function.__name__
    like.__doc__ = function.__doc__
    return like


empty_like, zeros_like, ones_like, rand_like, randn_like = map(_like, (_f.empty_like, _f.zeros_like, _f.ones_like, _f.rand_like, _f.randn_like))


def full_like(x: Tensor, /, fill_value: float, *, dtype: Any = None, device: Any = None) -> Tensor:
    """One value everywhere, in the shape and layout of x."""
    return _f.full_like(x if dtype is None else x.astype(dtype), fill_value)


def where(condition: Tensor, x1: Any = None, x2: Any = None, /) -> Any:
    """x1 where the condition is true, x2 elsewhere. Without both, nonzero()."""
    if x1 is None and x2 is None:
        return nonzero(condition)
    if not isinstance(x1, Tensor) and not isinstance(x2, Tensor):
        like = condition.astype(int64 if all(isinstance(each, int) for each in (x1, x2)) else float32)
        x1 = _scalar(x1, like)
    return _f.where(condition, *operands(x1, x2))


# ---- types ----
def result_type(*arrays_and_dtypes: Any) -> DType:
    """The type that operations on these give."""
    kinds = [each.dtype if isinstance(each, Tensor) else dtype_of(each) for each in arrays_and_dtypes]
    found = made(_lib.weft_fake(kinds[0], 1, int64s(1), resolve(None, None)[0], None))
    for kind in kinds[1:]:
        found = made(_lib.weft_add(found, made(_lib.weft_fake(kind, 1, int64s(1), None, None)))) if kind is not found.dtype else found
    return found.dtype


def isdtype(dtype: DType, kind: Any) -> bool:
    """Whether a type is of a kind: "bool", "signed integer", "unsigned integer", "integral", "real floating", "complex floating", "numeric"."""
    if isinstance(kind, tuple):
        return any(isdtype(dtype, each) for each in kind)
    if isinstance(kind, DType):
        return dtype is kind
    signed, unsigned = ["int64", "int32", "int16", "int8"], ["uint64", "uint32", "uint16", "uint8"]
    sets = {"bool": ["bool"], "signed integer": signed, "unsigned integer": unsigned, "integral": signed + unsigned,
            "real floating": ["float64", "float32", "bfloat16", "float16"], "complex floating": ["complex64", "complex128"],
            "numeric": [each.name for each in DTYPES if each is not bool_ and not each.name.startswith("float8")]}
    if kind not in sets:
        raise ValueError(f"kind: {kind!r} is none of {', '.join(map(repr, sets))}")
    return dtype.name in sets[kind]


def can_cast(from_: Any, to: DType, /) -> bool:
    """Whether promotion may convert one type to another."""
    return result_type(from_, to) is dtype_of(to)


class _Info:
    """What the standard's functions ask a library."""

    def capabilities(self) -> dict[str, Any]:
        """Masks index, shapes may depend on values (which waits), and a tensor has so many dimensions."""
        return {"boolean indexing": True, "data-dependent shapes": True, "max dimensions": _api.MAX_DIMS}

    def default_device(self) -> str:
        """Where arrays come in and go out."""
        return "cpu"

    def devices(self) -> list[str]:
        """The only one that programs see: weft's scheduler chooses where tasks run."""
        return ["cpu"]

    def default_dtypes(self, *, device: Any = None) -> dict[str, DType]:
        """The types of numbers that come without one."""
        return {"real floating": float32, "complex floating": complex64, "integral": int64, "indexing": int64}

    def dtypes(self, *, device: Any = None, kind: Any = None) -> dict[str, DType]:
        """The element types, or those of a kind."""
        return {each.name: each for each in DTYPES if kind is None or isdtype(each, kind)}


def __array_namespace_info__() -> _Info: # noqa: N807
    """The standard's inquiries."""
    return _Info()


def finfo(type: Any, /) -> Any:
    """Limits of a floating type."""
    kind = type.dtype if isinstance(type, Tensor) else dtype_of(type)
    if kind.name == "bfloat16":
        import types
        return types.SimpleNamespace(bits=16, eps=2.0**-7, max=3.3895313892515355e38, min=-3.3895313892515355e38, smallest_normal=2.0**-126, dtype=kind)
    found = numpy.finfo(kind.numpy)
    import types
    return types.SimpleNamespace(bits=found.bits, eps=float(found.eps), max=float(found.max), min=float(found.min),
                                 smallest_normal=float(found.smallest_normal), dtype=kind)


def iinfo(type: Any, /) -> Any:
    """Limits of a type of whole numbers."""
    kind = type.dtype if isinstance(type, Tensor) else dtype_of(type)
    return numpy.iinfo(kind.numpy)


# ---- methods of Tensor ----
_METHODS = {name: getattr(_f, name) for name in (
    "sum prod any all norm logsumexp nansum nanmean exp log log1p expm1 sqrt rsqrt sin cos tan tanh sigmoid relu gelu silu abs neg "
    "square reciprocal floor ceil round trunc erf isnan isinf isfinite softmax log_softmax reshape permute transpose expand flatten "
    "unflatten unsqueeze gather scatter scatter_add index_select index_add index_copy index_fill masked_fill masked_select matmul dot "
    "topk add sub mul div pow maximum minimum eq ne lt le gt ge logical_and logical_or logical_xor logical_not diagonal trace nan_to_num "
    "median quantile add_ mul_ div_ copy_ fill_ uniform_ normal_ scatter_add_ index_add_ lerp").split()}
_METHODS.update({function.__name__: function for function in (argmax, argmin, argsort, clip, cumprod, cumsum, flip, max, mean, min, nonzero, roll, sign, sort,
                                                              squeeze, std, tril, triu, var, chunk, split)})


def clone(self: Tensor) -> Tensor:
    """A new tensor with the same values, through which gradients pass."""
    return made(_lib.weft_where(made(_lib.weft_full(bool_, 1, 0, None, _lib.weft_tensor_mesh(self), None)), self, self))


def zero_(self: Tensor) -> Tensor:
    """Sets all elements to 0."""
    return _f.fill_(self, 0.0)


def sub_(self: Tensor, b: Any) -> Tensor:
    """Subtracts in place."""
    return _f.add_(self, b, -1.0)


def clamp_(self: Tensor, min: Any = None, max: Any = None) -> Tensor:
    """clip() in place."""
    return _f.copy_(self, clip(self, min, max))


def masked_fill_(self: Tensor, mask: Tensor, value: float) -> Tensor:
    """masked_fill() in place."""
    return _f.copy_(self, _f.masked_fill(self, mask, value))


def repeat(self: Tensor, *repetitions: Any) -> Tensor:
    """The tensor repeated along each dimension, as torch.Tensor.repeat() and tile()."""
    return tile(self, repetitions[0] if len(repetitions) == 1 and hasattr(repetitions[0], "__len__") else repetitions)


def itself(self: Tensor) -> Tensor:
    """The tensor: it has no other memory to go to."""
    return self


_METHODS.update({"clone": clone, "copy": clone, "zero_": zero_, "sub_": sub_, "clamp": clip, "clamp_": clamp_, "masked_fill_": masked_fill_,
                 "repeat": repeat, "ravel": _f.flatten, "view": _f.reshape, "mm": _f.matmul, "unbind": unstack, "cpu": itself, "contiguous": itself,
                 "t": lambda self: self.T})
for _name, _function in _METHODS.items():
    setattr(Tensor, _name, _function)
bmm = mm = _f.matmul
concatenate = concat


def isclose(x1: Tensor, x2: Any, rtol: float = 1e-5, atol: float = 1e-8) -> Tensor:
    """Whether |x1 - x2| <= atol + rtol |x2|, for each element."""
    x1, x2 = operands(x1, x2)
    return abs(x1 - x2) <= abs(x2) * rtol + atol


del c_int, asarray
