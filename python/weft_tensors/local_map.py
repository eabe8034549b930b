"""Functions of Python on the shards of each rank, as tasks."""
from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence
from ctypes import byref, c_int64, c_void_p
from typing import Any, Optional

import numpy

from . import _api, _library
from ._callbacks import LocalFunction
from ._core import DTYPES, Mesh, Placements, Tensor, _lib, _placement_array, check, dtype_of, int64s, made, tensors

_kept: list[Any] = []
_library.when_settled.append(_kept.clear)


def _view(local: Any) -> Any:
    shape = tuple(local.extent[:local.ndim])
    dtype = DTYPES[local.dtype]
    kind = dtype.memory
    if not local.count:
        return numpy.empty(shape, kind)
    return numpy.frombuffer((ctypes.c_char * (local.count * kind.itemsize)).from_address(local.data), kind).reshape(shape)


def local_map(function: Callable[..., Any], inputs: Sequence[Tensor], outputs: Sequence[tuple[Any, ...]], *, mesh: Optional[Mesh] = None,
              in_placements: Optional[Sequence[Placements]] = None, name: str = "local_map", by_rows: bool = False,
              whole_inputs: Sequence[int] = ()) -> Any:
    """Calls function(*shards) once for each hosted rank, as a task on a worker thread, and makes tensors of what it returns.

    inputs: tensors, of which the function gets the shards as NumPy arrays to read (bfloat16 as uint16).
    outputs: (shape, dtype, placements) of each result: the shape of the whole tensor. The function returns an array for each, of its
        rank's part.
    in_placements: the layout in which each input is wanted; otherwise its own.
    by_rows: calls the function for some rows (indices of dimension 0) at a time. All outputs, and all inputs but those whose numbers
        whole_inputs lists, must have as many rows, cut alike; the function gets the same rows of each and returns them.
    An exception in the function is an error of the next call that waits. The function must not call weft.
    """
    inputs = [inputs] if isinstance(inputs, Tensor) else list(inputs)
    count = len(inputs)
    chosen = mesh if mesh is not None else inputs[0].mesh if inputs else None
    ndim = chosen.ndim if chosen is not None else _lib.weft_mesh_ndim(_lib.weft_mesh_current())
    descriptions = (_api.weft_local_output * max(len(outputs), 1))()
    keep: list[Any] = []
    for slot, (shape, dtype, placements) in zip(descriptions, outputs):
        sizes, array = int64s(shape), _placement_array(placements, ndim)
        slot.dtype, slot.ndim = dtype_of(dtype), len(sizes)
        slot.shape = ctypes.cast(sizes if not hasattr(sizes, "count") else sizes._as_parameter_, c_void_p)
        slot.placements = ctypes.cast(array, c_void_p) if array is not None else None
        keep.append((sizes, array))

    def run(call: Any) -> None:
        try:
            given = ctypes.cast(call.contents.inputs, ctypes.POINTER(_api.weft_local_tensor))
            made_here = ctypes.cast(call.contents.outputs, ctypes.POINTER(_api.weft_local_tensor))
            views = [_view(given[i]) for i in range(call.contents.num_inputs)]
            for view in views:
                view.flags.writeable = False
            results = function(*views)
            results = results if isinstance(results, (tuple, list)) else (results,)
            if len(results) != call.contents.num_outputs:
                raise ValueError(f"{len(results)} arrays were returned, {call.contents.num_outputs} are expected")
            for i, result in enumerate(results):
                target = _view(made_here[i])
                if numpy.shape(result) != target.shape:
                    raise ValueError(f"output {i} has shape {numpy.shape(result)}, its rank's part has {target.shape}")
                target[...] = result
        except BaseException as error: # it must not leave a task
            _fail(call, f"{type(error).__name__}: {error}")

    callback = LocalFunction(run)
    placements_of_inputs = None
    if in_placements is not None:
        arrays = [_placement_array(each, ndim) for each in in_placements]
        placements_of_inputs = (c_void_p * max(count, 1))(*[ctypes.cast(array, c_void_p).value if array is not None else None for array in arrays])
        keep.append(arrays)
    whole = (ctypes.c_bool * max(count, 1))(*[i in whole_inputs for i in range(count)]) if by_rows else None
    options = _api.weft_local_map_options(name=name.encode(), mesh=chosen._as_parameter_ if chosen is not None else None,
                                          in_placements=ctypes.cast(placements_of_inputs, c_void_p) if placements_of_inputs else None,
                                          by_rows=by_rows, whole_inputs=ctypes.cast(whole, c_void_p) if by_rows else None,
                                          size=ctypes.sizeof(_api.weft_local_map_options))
    _kept.append((callback, keep)) # until its tasks have run
    found = (c_void_p * max(len(outputs), 1))()
    check(_lib.weft_local_map(ctypes.cast(callback, c_void_p), count, tensors(inputs), len(outputs), descriptions, byref(options), found))
    results = [made(handle) for handle in found[:len(outputs)]]
    return results[0] if len(results) == 1 else tuple(results)


def _fail(call: Any, text: str) -> None:
    """What weft_kernel_fail() does: the first error of a task is kept."""
    if call.contents.error:
        error = _api.weft_kernel_error.from_address(call.contents.error)
        if not error.status:
            error.message = text.encode(errors="replace")[:_api.KERNEL_MESSAGE - 1]
            error.problem = 0
            error.status = _api.weft_status.ERR_INVALID


__all__ = ["local_map"]
del c_int64
