"""t[...] and t[...] = value."""
from __future__ import annotations

from ctypes import c_int, c_int64, c_void_p
from typing import Any, Optional

import numpy

from ._core import Tensor, _lib, _scalar, bool_, done, made, operands


_select, _size = _lib.weft_select, _lib.weft_tensor_size


def get(a: Tensor, index: Any) -> Tensor:
    """A new value: basic indices are views where memory allows, and gradients pass through them."""
    kind = type(index)
    if kind is int and -2**63 <= index < 2**63:
        handle = _select(a._as_parameter_, 0, index)
        if handle is not None:
            return made(handle)
        _lib.weft_clear_error() # an IndexError follows
    elif kind is slice:
        size = _size(a._as_parameter_, 0)
        start, stop, step = index.indices(size)
        if step > 0 and stop - start not in (0, size):
            return made(_lib.weft_slice(a._as_parameter_, 0, start, max(start, stop), step))
        _lib.weft_clear_error() # without dimensions there is no size
    if isinstance(index, Tensor):
        return _by_tensor(a, 0, index)
    entries = _expand(a, index if isinstance(index, tuple) else (index,))
    if sum(isinstance(entry, Tensor) for entry in entries) > 1:
        return _by_tensors(a, entries)
    dim, result = 0, a
    for entry in entries:
        if entry is None:
            result, dim = made(_lib.weft_unsqueeze(result, dim)), dim + 1
        elif isinstance(entry, slice):
            result, dim = _slice(result, dim, entry), dim + 1
        elif isinstance(entry, Tensor):
            before = result.ndim
            taken = entry.ndim if entry.dtype is bool_ else 1
            result = _by_tensor(result, dim, entry)
            dim += result.ndim - before + taken
        else:
            result = made(_lib.weft_select(result, dim, _position(entry, result.shape, dim)))
    return alias(a) if result is a else result


def alias(a: Tensor) -> Tensor:
    """Another tensor with the same values, which share memory until one of the two is written to."""
    if a.ndim == 0:
        return made(_lib.weft_squeeze(made(_lib.weft_unsqueeze(a, 0)), 0))
    return made(_lib.weft_squeeze(made(_lib.weft_unsqueeze(a, a.ndim)), a.ndim))


def _by_tensors(a: Tensor, entries: list[Any]) -> Tensor:
    """Several tensors of indices are taken together, index by index: those of neighbouring dimensions."""
    if None in entries:
        raise IndexError("new dimensions beside several tensors of indices are not supported: index twice")
    dims = [i for i, each in enumerate(entries) if isinstance(each, Tensor)]
    if dims != list(range(dims[0], dims[-1] + 1)) or any(entries[i].dtype is bool_ for i in dims):
        raise IndexError("several tensors of indices are of whole numbers, and for neighbouring dimensions")
    shape, flat, valid = a.shape, None, None
    for i in dims:
        index = _from_the_end(entries[i], shape[i])
        inside = made(_lib.weft_logical_and(made(_lib.weft_ge(index, _scalar(0, index))), made(_lib.weft_lt(index, _scalar(shape[i], index)))))
        flat = index if flat is None else made(_lib.weft_add(made(_lib.weft_scale(flat, shape[i])), index))
        valid = inside if valid is None else made(_lib.weft_logical_and(valid, inside))
    joined = made(_lib.weft_flatten(a, dims[0], dims[-1]))
    flat = made(_lib.weft_where(valid, flat, _scalar(joined.shape[dims[0]], flat))) # beyond the end: C reports it
    return get(joined, tuple(entries[:dims[0]]) + (flat,) + tuple(entries[dims[-1] + 1:]))


def _position(index: Any, shape: tuple[int, ...], dim: int) -> int:
    if dim >= len(shape):
        raise IndexError(f"too many indices for a tensor of {len(shape)} dimensions")
    position = index.__index__()
    if not -shape[dim] <= position < shape[dim]:
        raise IndexError(f"index {position} is out of range for dimension {dim} of size {shape[dim]}")
    return position


def _expand(a: Tensor, index: tuple[Any, ...]) -> list[Any]:
    """One entry for each dimension, and None for new ones; arrays and lists are tensors."""
    entries: list[Any] = []
    for each in index:
        if each is None or each is Ellipsis or isinstance(each, (slice, Tensor)):
            entries.append(each)
        elif hasattr(each, "__index__") and not isinstance(each, (bool, numpy.bool_, numpy.ndarray)):
            entries.append(each)
        elif isinstance(each, (list, numpy.ndarray)):
            from .arrays import asarray
            array = numpy.asarray(each)
            if array.dtype != bool and not numpy.issubdtype(array.dtype, numpy.integer) and array.size:
                raise IndexError(f"{array.dtype} numbers are no indices")
            entries.append(asarray(array if array.dtype == bool else array.astype(numpy.int64), mesh=a.mesh))
        else:
            raise IndexError(f"{each!r} is no index: whole numbers, slices, ..., None, and tensors of whole or truth values are")
    if sum(each is Ellipsis for each in entries) > 1:
        raise IndexError("an index has one ... at most")
    used = sum(each.ndim if isinstance(each, Tensor) and each.dtype is bool_ else 1 for each in entries
               if each is not None and each is not Ellipsis)
    if used > a.ndim:
        raise IndexError(f"too many indices for a tensor of {a.ndim} dimensions: {used}")
    whole = [slice(None)] * (a.ndim - used)
    at = next((i for i, each in enumerate(entries) if each is Ellipsis), None)
    return entries + whole if at is None else entries[:at] + whole + entries[at + 1:]


def _slice(a: Tensor, dim: int, entry: slice) -> Tensor:
    start, stop, step = entry.indices(a.shape[dim])
    if step < 0:
        count = len(range(start, stop, step))
        first = start + (count - 1) * step
        flipped = made(_lib.weft_slice(a, dim, first, start + 1, -step) if count else _lib.weft_slice(a, dim, 0, 0, 1))
        return made(_lib.weft_flip(flipped, 1, (c_int * 1)(dim)))
    stop = max(stop, start)
    if step == 1:
        return a if (start, stop) == (0, a.shape[dim]) else made(_lib.weft_slice(a, dim, start, stop, 1))
    return made(_lib.weft_slice(a, dim, start, stop, step))


def _by_tensor(a: Tensor, dim: int, index: Tensor) -> Tensor:
    if index.dtype is bool_:
        shape = a.shape
        if index.shape != shape[dim:dim + index.ndim]:
            raise IndexError(f"the truth values have shape {index.shape}, the indexed dimensions {shape[dim:dim + index.ndim]}")
        if dim == 0 and index.ndim == a.ndim:
            return made(_lib.weft_masked_select(a, index))
        if index.ndim != 1:
            raise IndexError("truth values index one dimension, or all")
        found = made(_lib.weft_nonzero(index))
        return made(_lib.weft_index_select(a, dim, made(_lib.weft_select(found, 1, 0))))
    if index.dtype.is_floating_point:
        raise IndexError("floating numbers are no indices")
    flat = index if index.ndim == 1 else made(_lib.weft_reshape(index, 1, (c_int64 * 1)(index.size)))
    result = made(_lib.weft_index_select(a, dim, _from_the_end(flat, a.shape[dim])))
    if index.ndim == 1:
        return result
    sizes = index.shape
    if not sizes:
        return made(_lib.weft_squeeze(result, dim))
    return made(_lib.weft_unflatten(result, dim, len(sizes), (c_int64 * len(sizes))(*sizes)))


def _from_the_end(indices: Tensor, size: int) -> Tensor:
    """-1 is the last; what is out of range C reports."""
    return made(_lib.weft_where(made(_lib.weft_lt(indices, _scalar(0, indices))), made(_lib.weft_add_scalar(indices, size)), indices))


def put(a: Tensor, index: Any, value: Any) -> None:
    """Changes elements in place; the value broadcasts."""
    entries = _expand(a, index if isinstance(index, tuple) else (index,))
    arrays = [each for each in entries if isinstance(each, Tensor)]
    if not arrays:
        _put_box(a, entries, value)
        return
    if len(arrays) == 1 and arrays[0].dtype is bool_ and entries[0] is arrays[0] and all(each == slice(None) for each in entries[1:]):
        _put_mask(a, arrays[0], value)
        return
    _put_tensors(a, entries, value)


def _put_mask(a: Tensor, mask: Tensor, value: Any) -> None:
    shape = a.shape
    if mask.shape != shape[:mask.ndim]:
        raise IndexError(f"the truth values have shape {mask.shape}, the tensor {shape}")
    _, value = operands(a, value)
    if value.ndim > a.ndim - mask.ndim: # a value for each that is true: their number is asked for
        found = made(_lib.weft_nonzero(mask))
        indices = [made(_lib.weft_select(found, 1, i)) for i in range(mask.ndim)]
        _put_by_indices(a, indices, value)
        return
    for _ in range(a.ndim - mask.ndim):
        mask = made(_lib.weft_unsqueeze(mask, -1))
    done(_lib.weft_copy_inplace(a, made(_lib.weft_where(mask, value, a))))


def _put_tensors(a: Tensor, entries: list[Any], value: Any) -> None:
    """Tensors of indices, which broadcast together, and slices and numbers beside one of them."""
    arrays = [i for i, each in enumerate(entries) if isinstance(each, Tensor)]
    if None in entries or any(entries[i].dtype is bool_ for i in arrays):
        raise IndexError("an assignment takes tensors of truth values alone, and no new dimensions beside tensors of indices")
    last = arrays[-1] + 1
    if arrays == list(range(last)):
        _put_by_indices(a, [entries[i] for i in arrays], value, entries[last:])
        return
    if len(arrays) > 1:
        raise IndexError("an assignment takes several tensors of indices for the first dimensions alone")
    # One, behind slices or numbers: each of the dimensions up to it gets indices along a dimension of its own.
    from .array_api import arange
    shape, mesh, own = a.shape, a.mesh, entries[arrays[0]]
    kept = [each for each in entries[:last] if not hasattr(each, "__index__") or isinstance(each, Tensor)]
    ndims = sum(each.ndim if isinstance(each, Tensor) else 1 for each in kept)
    indices, at = [], 0
    for dim, each in enumerate(entries[:last]):
        if each is own:
            form = [1] * at + list(own.shape) + [1] * (ndims - at - own.ndim)
            indices.append(made(_lib.weft_reshape(own, len(form), (c_int64 * max(len(form), 1))(*form))))
            at += own.ndim
        elif isinstance(each, slice):
            start, stop, step = each.indices(shape[dim])
            chosen = arange(start, stop, step, mesh=mesh)
            form = [1] * at + [chosen.size] + [1] * (ndims - at - 1)
            indices.append(made(_lib.weft_reshape(chosen, len(form), (c_int64 * len(form))(*form))))
            at += 1
        else:
            position = _position(each, shape, dim) % shape[dim]
            indices.append(arange(position, position + 1, mesh=mesh))
    _put_by_indices(a, indices, value, entries[last:])


def _put_by_indices(a: Tensor, indices: list[Tensor], value: Any, rest: Any = ()) -> None:
    if any(each != slice(None) for each in rest):
        raise IndexError("an assignment takes no slices or numbers after a tensor of indices")
    _, value = operands(a, value)
    value = value if value.dtype is a.dtype else value.astype(a.dtype)
    indices = [_from_the_end(each, size) for each, size in zip(indices, a.shape)]
    changed = made(_lib.weft_index_put(a, len(indices), (c_void_p * len(indices))(*[each._as_parameter_ for each in indices]), value, False))
    done(_lib.weft_copy_inplace(a, changed))


def _put_box(a: Tensor, entries: list[Any], value: Any) -> None:
    """Of numbers and slices: the value in its place of a tensor as large as `a`, which is copied where a mask says so."""
    shape = a.shape
    starts, stops, steps, sizes = [], [], [], []
    kept: list[Optional[int]] = []
    dim = 0
    for entry in entries:
        if entry is None:
            sizes.append(1)
            continue
        if isinstance(entry, slice):
            start, stop, step = entry.indices(shape[dim])
            count = len(range(start, stop, step))
            sizes.append(count)
            kept.append(len(sizes) - 1)
        else:
            start, step, count = _position(entry, shape, dim) % shape[dim], 1, 1
            kept.append(None)
        starts.append(start)
        stops.append(count)
        steps.append(step)
        dim += 1
    if 0 in stops:
        return
    _, value = operands(a, value)
    value = value if value.dtype is a.dtype else value.astype(a.dtype)
    # The value as large as the box, with a dimension of one where a number indexes.
    given = value.shape
    while len(given) > len(sizes) and given[0] == 1:
        given = given[1:]
    if given != value.shape:
        value = made(_lib.weft_reshape(value, len(given), (c_int64 * max(len(given), 1))(*given)))
    if given != tuple(sizes):
        value = made(_lib.weft_expand(value, len(sizes), (c_int64 * max(len(sizes), 1))(*sizes)))
    if sizes != stops:
        value = made(_lib.weft_reshape(value, len(stops), (c_int64 * max(len(stops), 1))(*stops)))
    if all(start == 0 and step == 1 and count == size for start, step, count, size in zip(starts, steps, stops, shape)):
        done(_lib.weft_copy_inplace(a, value))
        return
    mask = made(_lib.weft_full(bool_, 1, len(stops), (c_int64 * max(len(stops), 1))(*stops), _lib.weft_tensor_mesh(a), None))
    for dim, (start, step, count) in enumerate(zip(starts, steps, stops)):
        if step < 0:
            value = made(_lib.weft_flip(value, 1, (c_int * 1)(dim)))
            start, step = start + (count - 1) * step, -step
        if step > 1:
            value, mask = _spread(value, dim, step), _spread(mask, dim, step)
        extent = (count - 1) * step + 1
        before, after = [0] * len(shape), [0] * len(shape)
        before[dim], after[dim] = start, shape[dim] - start - extent
        if any(before) or any(after):
            value, mask = _pad(value, before, after), _pad(mask, before, after)
    done(_lib.weft_copy_inplace(a, made(_lib.weft_where(mask, value, a))))


def _spread(a: Tensor, dim: int, step: int) -> Tensor:
    """Zeros between the elements of a dimension: step - 1 of them."""
    wide = made(_lib.weft_unsqueeze(a, dim + 1))
    before, after = [0] * wide.ndim, [0] * wide.ndim
    after[dim + 1] = step - 1
    wide = _pad(wide, before, after)
    flat = made(_lib.weft_flatten(wide, dim, dim + 1))
    return made(_lib.weft_slice(flat, dim, 0, flat.shape[dim] - step + 1, 1))


def _pad(a: Tensor, before: list[int], after: list[int]) -> Tensor:
    kind = c_int64 * max(len(before), 1)
    return made(_lib.weft_pad(a, 0, 0, len(before), kind(*before), kind(*after)))

