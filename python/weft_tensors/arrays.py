"""Arrays in and out: NumPy, DLPack, shards of each process, lists."""
from __future__ import annotations

import ctypes
from collections.abc import Sequence
from ctypes import byref, c_char_p, c_int64, c_void_p, py_object
from typing import Any, Optional

import numpy

from . import _api, _library
from ._core import (WITH_GRAD, DType, Mesh, Placements, Tensor, _lib, _placement_array, bool_, check, choose, dtype_of, failure, float32,
                    int64, int64s, made, operands, resolve)
from ._core import tensors as handles

# ---- DLPack ----
_python = ctypes.pythonapi
_capsule_new = ctypes.PYFUNCTYPE(py_object, c_void_p, c_char_p, c_void_p)(("PyCapsule_New", _python))
_capsule_is = ctypes.PYFUNCTYPE(ctypes.c_int, py_object, c_char_p)(("PyCapsule_IsValid", _python))
_capsule_pointer = ctypes.PYFUNCTYPE(c_void_p, py_object, c_char_p)(("PyCapsule_GetPointer", _python))
_capsule_rename = ctypes.PYFUNCTYPE(ctypes.c_int, py_object, c_char_p)(("PyCapsule_SetName", _python))
_capsule_is_raw = ctypes.PYFUNCTYPE(ctypes.c_int, c_void_p, c_char_p)(("PyCapsule_IsValid", _python))
_capsule_pointer_raw = ctypes.PYFUNCTYPE(c_void_p, c_void_p, c_char_p)(("PyCapsule_GetPointer", _python))
# A capsule's name must live as long as the capsule.
_NAMES = {b"dltensor_versioned": b"used_dltensor_versioned", b"dltensor": b"used_dltensor"}
# DLPack's types of devices, and the number of the one CPU.
_CPU, _CUDA = (1, 0), 2
# Its flag of a tensor that is the consumer's own.
_IS_COPIED = 2


class _Versioned(ctypes.Structure):
    """The beginning of DLManagedTensorVersioned, before the tensor."""

    _fields_ = [("major", ctypes.c_uint32), ("minor", ctypes.c_uint32), ("context", c_void_p), ("deleter", ctypes.CFUNCTYPE(None, c_void_p)),
                ("flags", ctypes.c_uint64)]


class _Unversioned(ctypes.Structure):
    """DLManagedTensor: the tensor of 48 bytes, its context and the deleter."""

    _fields_ = [("tensor", ctypes.c_char * 48), ("context", c_void_p), ("deleter", ctypes.CFUNCTYPE(None, c_void_p))]


@ctypes.PYFUNCTYPE(None, c_void_p)
def _end_untaken(capsule: int) -> None:
    """A capsule that nobody took ends its managed tensor."""
    for name, kind in ((b"dltensor_versioned", _Versioned), (b"dltensor", _Unversioned)):
        if _capsule_is_raw(capsule, name):
            managed = _capsule_pointer_raw(capsule, name)
            kind.from_address(managed).deleter(managed)


def export(tensor: Tensor, local_rank: int, max_version: Any = None, copy: Optional[bool] = None, on_device: bool = False) -> Any:
    """A capsule of a hosted rank's shard."""
    versioned = max_version is not None and max_version[0] >= 1
    function = _lib.weft_to_dlpack if versioned else _lib.weft_to_dlpack_unversioned
    if copy and on_device:
        tensor = tensor.clone() # only the capsule keeps its memory
    _library.settle_tensor(tensor)
    managed = function(tensor, local_rank, _api.ON_DEVICE if on_device else _api.COPY if copy else 0)
    if not managed:
        raise failure()
    if copy and on_device and versioned:
        _Versioned.from_address(managed).flags = _IS_COPIED
    return _capsule_new(managed, b"dltensor_versioned" if versioned else b"dltensor", ctypes.cast(_end_untaken, c_void_p))


def export_to(device: Optional[tuple[int, int]], tensor: Tensor, local_rank: int, max_version: Any, copy: Optional[bool]) -> Any:
    """A capsule of a shard in the memory that __dlpack__() is asked for: of the CPU, or of a CUDA device."""
    if device is None or tuple(device) == _CPU:
        return export(tensor, local_rank, max_version, copy)
    if device[0] != _CUDA:
        raise BufferError(f"dl_device: a shard lies on no device of DLPack's type {device[0]}")
    capsule = export(tensor, local_rank, max_version, copy, on_device=True)
    place = _device_of(capsule)
    if place not in (tuple(device), _CPU): # that is one without elements
        del capsule # its end calls Python, which would not be possible while an exception is on its way
        raise BufferError(f"dl_device: the shard is on CUDA's device {place[1]}, not on {device[1]}")
    return capsule


class OnDevice:
    """Tensor.on_device()."""

    def __init__(self, tensor: Tensor, local_rank: int) -> None:
        self.tensor, self.local_rank = tensor, local_rank
        self.first: Any = None # the capsule that told the device, until the consumer has one: the shard stays there

    def __dlpack_device__(self) -> tuple[int, int]:
        self.first = self.first or export(self.tensor, self.local_rank, on_device=True)
        return _device_of(self.first)

    def __dlpack__(self, *, stream: Any = None, max_version: Any = None, dl_device: Any = None, copy: Optional[bool] = None) -> Any:
        # The values are there when this returns, so the consumer's stream has nothing to wait for.
        try:
            if dl_device is None:
                return export(self.tensor, self.local_rank, max_version, copy, on_device=True)
            return export_to(dl_device, self.tensor, self.local_rank, max_version, copy)
        finally:
            self.first = None

    def __del__(self) -> None:
        self.first = None # here no exception is on its way, as may be when the object ends


class _Shard:
    """A shard as numpy.from_dlpack() takes it."""

    def __init__(self, tensor: Tensor, local_rank: int) -> None:
        self.tensor, self.local_rank = tensor, local_rank

    def __dlpack_device__(self) -> tuple[int, int]:
        return 1, 0

    def __dlpack__(self, *, stream: Any = None, max_version: Any = None, dl_device: Any = None, copy: Optional[bool] = None) -> Any:
        return export(self.tensor, self.local_rank, max_version, copy)


def to_dlpack_array(tensor: Tensor, local_rank: int) -> Any:
    if tensor.dtype.numpy is None:
        shape = tensor._local_extent(local_rank)
        array: Any = numpy.empty(shape, tensor.dtype.memory)
        check(_lib.weft_local_to_host(tensor, local_rank, array.ctypes.data, array.nbytes))
    else:
        array = numpy.from_dlpack(_Shard(tensor, local_rank))
    array.flags.writeable = False
    return array


class Access:
    """A shard's memory, lent to the program between `with` and the end of its block."""

    def __init__(self, tensor: Tensor, local_rank: int, mode: str) -> None:
        modes = {"r": _api.weft_access.READ, "w": _api.weft_access.WRITE, "r+": _api.weft_access.READ_WRITE}
        if mode not in modes:
            raise ValueError(f"mode: {mode!r} is none of 'r', 'w', 'r+'")
        self.tensor, self.local_rank, self.mode = tensor, local_rank, modes[mode]

    def __enter__(self) -> Any:
        _library.settle_tensor(self.tensor)
        extent = self.tensor._local_extent(self.local_rank)
        address = _lib.weft_local_acquire(self.tensor, self.local_rank, self.mode)
        if not address and _lib.weft_last_status():
            raise failure()
        dtype = self.tensor.dtype
        kind = dtype.memory
        count = int(numpy.prod(extent, dtype=numpy.int64))
        if not count:
            return numpy.empty(extent, kind)
        memory: Any = (ctypes.c_char * (count * kind.itemsize)).from_address(address)
        array = numpy.frombuffer(memory, kind).reshape(extent)
        array.flags.writeable = self.mode != _api.weft_access.READ
        return array

    def __exit__(self, *error: object) -> None:
        check(_lib.weft_local_release(self.tensor, self.local_rank))


def from_dlpack(x: Any, /, *, mesh: Optional[Mesh] = None, placements: Placements = None, shape: Optional[Sequence[int]] = None,
                device: Any = None, copy: Optional[bool] = None, strided: bool = False, requires_grad: bool = False) -> Tensor:
    """A tensor on the memory of arrays that other libraries made: this process's shards, without a copy unless `copy` is set.

    x: an object with __dlpack__(), or a sequence of one for each rank that this process hosts.
    shape: the shape of the whole tensor; otherwise that of the array, if it is not sharded.
    strided: as in from_local().
    """
    return from_local(x, mesh, placements, shape=shape, copy=bool(copy), strided=strided, requires_grad=requires_grad)


def _managed(array: Any) -> tuple[Any, bytes, int]:
    """The capsule of an array, its name, and the managed tensor in it."""
    try:
        capsule = array.__dlpack__(max_version=(1, 0))
    except TypeError: # an older producer
        capsule = array.__dlpack__()
    return capsule, *_in_capsule(capsule)


def _in_capsule(capsule: Any) -> tuple[bytes, int]:
    """Its name, and the managed tensor in it."""
    for name in _NAMES:
        if _capsule_is(capsule, name):
            return name, _capsule_pointer(capsule, name)
    raise TypeError("__dlpack__() returned no capsule of a tensor that nobody has taken")


def _tensor_in(managed: int, name: bytes) -> int:
    """The address of a managed tensor's DLTensor: {data, {device type, id}, ndim, {code, bits, lanes}, shape, strides, offset}."""
    return managed + (ctypes.sizeof(_Versioned) if name == b"dltensor_versioned" else 0)


def _device_of(capsule: Any) -> tuple[int, int]:
    name, managed = _in_capsule(capsule)
    return tuple((ctypes.c_int32 * 2).from_address(_tensor_in(managed, name) + 8)) # type: ignore[return-value]


def _dtype_and_shape(managed: int, name: bytes) -> tuple[DType, tuple[int, ...]]:
    base = _tensor_in(managed, name)
    ndim = ctypes.c_int32.from_address(base + 16).value
    code, bits = ctypes.c_uint8.from_address(base + 20).value, ctypes.c_uint8.from_address(base + 21).value
    shape = (c_int64 * ndim).from_address(c_void_p.from_address(base + 24).value or 0) if ndim else ()
    names = {(2, 64): "float64", (2, 32): "float32", (4, 16): "bfloat16", (2, 16): "float16", (0, 64): "int64", (0, 32): "int32",
             (1, 8): "uint8", (6, 8): "bool", (5, 64): "complex64", (5, 128): "complex128", (0, 8): "int8", (0, 16): "int16",
             (1, 16): "uint16", (1, 32): "uint32", (1, 64): "uint64", (10, 8): "float8_e4m3fn", (12, 8): "float8_e5m2"}
    if (code, bits) not in names:
        raise TypeError(f"weft has no element type of DLPack's code {code} with {bits} bits")
    return dtype_of(names[code, bits]), tuple(shape)


def from_local(locals: Any, mesh: Optional[Mesh] = None, placements: Placements = None, *, shape: Optional[Sequence[int]] = None,
               dtype: Any = None, copy: bool = False, check_ranks: bool = False, strided: bool = False,
               requires_grad: bool = False) -> Tensor:
    """A tensor of the shards that this process has: NumPy arrays, PyTorch tensors, or others with __dlpack__().

    locals: one array, or a sequence of one for each rank that this process hosts; None for a rank outside the mesh. A process that has
        None alone names dtype and shape.
    shape: the shape of the whole tensor. Without it, the processes add up the sizes of their shards, which waits for them.
    copy: copy the memory before the call returns. Otherwise the tensor uses it in place: change it only through access() until
        the tensor is gone and wait() has returned.
    check_ranks: compare shapes and types of all processes, and give replicas the first one's values. Waits.
    strided: use the memory in place also where rows have gaps, equally wide everywhere, as those of a[1:-1, 1:-1] have. Operations
        read a copy and write changes back; those of local_map() and access() too cannot work in it. All processes set it. Waits.
    """
    if isinstance(locals, (list, tuple)) and (not locals or hasattr(locals[0], "__dlpack__") or locals[0] is None):
        arrays = list(locals)
    else:
        arrays = [locals]
    mesh, array_of_placements = resolve(mesh, placements)
    if len(arrays) != _lib.weft_local_ranks():
        raise ValueError(f"locals: {len(arrays)} are given, but this process hosts {_lib.weft_local_ranks()} ranks")
    arrays = [numpy.ascontiguousarray(each) if copy and isinstance(each, numpy.ndarray) and not each.flags.c_contiguous else each for each in arrays]
    taken = [_managed(each) if each is not None else None for each in arrays]
    known = [_dtype_and_shape(each[2], each[1]) if each else None for each in taken]
    first = next((each for each in known if each), None)
    if first is None and (dtype is None or shape is None):
        raise TypeError("locals: at least one array is needed, or dtype and shape")
    kind = first[0] if first else dtype_of(dtype)
    flags = (_api.COPY if copy else 0) | (_api.CHECK_RANKS if check_ranks else 0) | (_api.STRIDES if strided else 0)
    kinds = {each[1] for each in taken if each} or {b"dltensor_versioned"}
    if len(kinds) > 1:
        raise TypeError("locals: arrays of libraries with different versions of DLPack")
    if not copy and len({id(each) for each in arrays if each is not None}) < sum(each is not None for each in arrays):
        raise ValueError("locals: two ranks would write to one array; copy=True gives each memory of its own")
    if shape is None:
        assert first is not None
        if any(each and len(each[1]) != len(first[1]) for each in known):
            raise ValueError("locals: the arrays have different numbers of dimensions")
        whole = _whole_shape(mesh, array_of_placements, [each[1] if each else (0,) * len(first[1]) for each in known], first[1])
    else:
        whole = int64s(shape)
    take = _lib.weft_from_dlpack if kinds == {b"dltensor_versioned"} else _lib.weft_from_dlpack_unversioned
    pointers = (c_void_p * len(taken))(*[each[2] if each else None for each in taken])
    given = kind | WITH_GRAD if requires_grad else kind
    tensor = made(take(given, len(whole), whole, pointers, mesh, array_of_placements, flags))
    for each in filter(None, taken):
        _capsule_rename(each[0], _NAMES[each[1]])
    return tensor


def _whole_shape(mesh: Optional[Mesh], placements: Any, shapes: list[tuple[int, ...]], first: tuple[int, ...]) -> Any:
    """The shape of the tensor whose shards have these shapes, which the processes exchange."""
    handle = mesh._as_parameter_ if mesh is not None else _lib.weft_mesh_current()
    slots = placements[:_lib.weft_mesh_ndim(handle)] if placements is not None else []
    if all(each.kind != _api.weft_placement_kind.SHARD for each in slots):
        return int64s(first)
    # weft_from_local_ex() adds them up, of shards of one byte an element.
    sizes = (c_int64 * max(1, len(shapes) * len(first)))(*[size for shape in shapes for size in shape])
    options = _api.weft_from_local_options(ctypes.sizeof(_api.weft_from_local_options), None, ctypes.cast(sizes, c_void_p), None, _api.COPY)
    memory = numpy.zeros(max(1, max(int(numpy.prod(shape)) for shape in shapes)), numpy.uint8)
    pointers = (c_void_p * len(shapes))(*[memory.ctypes.data] * len(shapes))
    probe = made(_lib.weft_from_local_ex(_api.weft_dtype.U8, len(first), pointers, mesh, placements, byref(options)))
    return int64s(probe.shape)


# ---- whole arrays ----
def asarray(obj: Any, /, *, dtype: Any = None, mesh: Optional[Mesh] = None, placements: Placements = None, device: Any = None,
            copy: Optional[bool] = None, requires_grad: bool = False) -> Tensor:
    """A tensor of a number, of nested lists, or of an array that every process has in full. The values of the process that hosts
    the mesh's first rank count. With several processes it waits until they have been read; from_local() does not."""
    if isinstance(obj, Tensor):
        tensor = obj if dtype is None else obj.astype(dtype)
        if placements is not None or mesh is not None:
            tensor = tensor.redistribute(placements, mesh)
        return tensor.clone() if copy and tensor is obj else tensor
    if dtype is None and not hasattr(obj, "dtype"):
        array = numpy.asarray(obj)
        narrower = {"float64": numpy.float32, "complex128": numpy.complex64}.get(array.dtype.name)
        array = array.astype(narrower) if narrower is not None else array
    else:
        array = numpy.asarray(obj)
    wanted = dtype_of(dtype) if dtype is not None else dtype_of(array.dtype)
    if wanted.numpy is None and array.dtype.name != wanted.name:
        made_array = distribute(numpy.asarray(array, numpy.float32), mesh, placements).astype(wanted)
        made_array.requires_grad = requires_grad
        return made_array
    if wanted.numpy is not None and array.dtype != wanted.numpy:
        array = array.astype(wanted.numpy)
    return distribute(array, mesh, placements, requires_grad=requires_grad)


def distribute(array: Any, mesh: Optional[Mesh] = None, placements: Placements = None, *, shape: Optional[Sequence[int]] = None,
               dtype: Any = None, requires_grad: bool = False) -> Tensor:
    """A tensor of an array that one process has: the one that hosts the first rank of the mesh. The others may pass None, with the
    array's shape and dtype. With several processes it waits until the array has been read."""
    mesh, array_of_placements = resolve(mesh, placements)
    if array is not None and _lib.weft_num_processes() == 1 and not _has_runs(array_of_placements):
        array = numpy.asarray(array)
        if shape is not None and tuple(shape) != array.shape:
            raise ValueError(f"shape: {tuple(shape)} is not the array's, {array.shape}")
        return _from_whole(array, mesh, array_of_placements, requires_grad)
    if array is None:
        if shape is None or dtype is None:
            raise TypeError("distribute(None) needs shape and dtype")
        kind, sizes, address = dtype_of(dtype), int64s(shape), None
    else:
        array = numpy.asarray(array)
        array = array if array.flags.c_contiguous else array.copy()
        kind, sizes, address = dtype_of(array.dtype), int64s(array.shape), array.ctypes.data
        if shape is not None and tuple(shape) != array.shape:
            raise ValueError(f"shape: {tuple(shape)} is not the array's, {array.shape}")
    return made(_lib.weft_distribute(kind | WITH_GRAD if requires_grad else kind, len(sizes), sizes, address, mesh, array_of_placements))


def own_parts(array: Any, mesh: Optional[Mesh] = None, placements: Placements = None) -> Tensor:
    """A tensor of arrays that all processes have, which should be equal: each rank takes its part of its process's own, and nothing is sent."""
    mesh, array_of_placements = resolve(mesh, placements)
    if _has_runs(array_of_placements):
        raise ValueError("placements: parts of cyclic and zigzag cuts are taken of one process's array alone")
    return _from_whole(numpy.asarray(array), mesh, array_of_placements, False)


def _has_runs(placements: Any) -> bool:
    runs = (_api.weft_cut_kind.CYCLIC, _api.weft_cut_kind.ZIGZAG)
    return placements is not None and any(each.kind == _api.weft_placement_kind.SHARD and (each.cut in runs or each.period > 0)
                                          for each in placements)


def _from_whole(array: Any, mesh: Optional[Mesh], placements: Any, requires_grad: bool) -> Tensor:
    """Each rank's part is copied right here, from its process's own array, so that nothing waits for tasks that are under way."""
    kind, sizes = dtype_of(array.dtype), int64s(array.shape)
    offset, extent = (c_int64 * _api.MAX_DIMS)(), (c_int64 * _api.MAX_DIMS)()
    parts = []
    for i in range(_lib.weft_local_ranks()):
        check(_lib.weft_shard_box(mesh, placements, len(sizes), sizes, _lib.weft_first_rank() + i, offset, extent))
        parts.append(numpy.ascontiguousarray(array[tuple(slice(offset[i], offset[i] + extent[i]) for i in range(array.ndim))]))
    given = kind | WITH_GRAD if requires_grad else kind
    return made(_lib.weft_from_local(given, len(sizes), sizes, (c_void_p * max(len(parts), 1))(*[part.ctypes.data for part in parts]), mesh, placements, _api.COPY))


def from_numpy(array: Any, **options: Any) -> Tensor:
    """asarray() of a NumPy array: a copy, in any layout. from_local() uses an array's memory in place."""
    return asarray(numpy.asarray(array), **options)


tensor = asarray


# ---- comparisons that give an answer ----
def array_equal(a: Tensor, b: Tensor) -> bool:
    """Whether shapes, types and all values are equal: one answer on all processes. Waits; all processes must call it."""
    _library.settle_tensor(a)
    _library.settle_tensor(b)
    result = ctypes.c_bool()
    check(_lib.weft_equal(a, b, byref(result)))
    return result.value


def allclose(a: Tensor, b: Tensor, rtol: float = 1e-5, atol: float = 1e-8, equal_nan: bool = False) -> bool:
    """Whether |a - b| <= atol + rtol |b| everywhere: one answer on all processes. Waits; all processes must call it."""
    a, b = operands(a, b)
    if a.dtype.is_complex or b.dtype.is_complex:
        return _complex_allclose(a, b, rtol, atol, equal_nan)
    _library.settle_tensor(a)
    _library.settle_tensor(b)
    result = ctypes.c_bool()
    check(_lib.weft_allclose(a, b, rtol, atol, equal_nan, byref(result)))
    return result.value


def _complex_allclose(a: Tensor, b: Tensor, rtol: float, atol: float, equal_nan: bool) -> bool:
    near = abs(a - b) <= abs(b) * rtol + atol
    near = near | (a == b) # infinities
    if equal_nan:
        near = near | (a != a) & (b != b)
    return bool(near.all().item())


# ---- functions with several results, or with arguments that have no counterpart in C ----
def split(a: Tensor, sizes: Any, dim: int = 0) -> list[Tensor]:
    """Consecutive parts along a dimension: of the given sizes, or of one size (the last may be smaller)."""
    length = a.shape[dim]
    if not hasattr(sizes, "__len__"):
        if sizes < 1:
            raise ValueError(f"sizes: {sizes} is less than 1")
        sizes = [min(sizes, length - start) for start in range(0, length, sizes)] or [0]
    outputs = (c_void_p * max(len(sizes), 1))()
    check(_lib.weft_split(a, len(sizes), int64s(sizes), dim, outputs))
    return [made(handle) for handle in outputs[:len(sizes)]]


def chunk(a: Tensor, chunks: int, dim: int = 0) -> list[Tensor]:
    """At most `chunks` parts along a dimension, as torch.chunk."""
    outputs = (c_void_p * max(chunks, 1))()
    count = _lib.weft_chunk(a, chunks, dim, outputs)
    if not count and _lib.weft_last_status():
        raise failure()
    return [made(handle) for handle in outputs[:count]]


def cat(tensors: Sequence[Tensor], dim: Optional[int] = 0) -> Tensor:
    """The tensors one after another along a dimension; None flattens them first."""
    if dim is None:
        given = list(tensors)
        tensors, dim = [made(_lib.weft_flatten(each, 0, -1)) if each.ndim else made(_lib.weft_reshape(each, 1,
                                                                                                      int64s(1))) for each in given], 0
    found = handles(tensors)
    return made(_lib.weft_cat(len(found), found, dim))


def from_boxes(boxes: Sequence[tuple[Sequence[int], Any]], shape: Sequence[int], mesh: Optional[Mesh] = None, placements: Placements = None,
               *, dtype: Any = None) -> Tensor:
    """A tensor of boxes that the processes have, cut in any way: (offset, NumPy array) each. Together they cover the tensor. Waits."""
    mesh, array_of_placements = resolve(mesh, placements)
    arrays = [numpy.ascontiguousarray(array) for _, array in boxes]
    if dtype is None and not arrays:
        raise TypeError("a process without boxes needs dtype")
    kind, sizes = dtype_of(dtype if dtype is not None else arrays[0].dtype), int64s(shape)
    for array in arrays:
        if dtype_of(array.dtype) is not kind:
            raise TypeError(f"boxes of {array.dtype} and of {kind.name}")
    arrays = [array.reshape(numpy.shape(given)) for array, (_, given) in zip(arrays, boxes)] # ascontiguousarray() makes scalars vectors
    on_arrays = made(_lib.weft_from_boxes(kind, len(sizes), sizes, len(arrays), _boxes([(offset, array) for (offset, _), array in zip(boxes, arrays)], len(sizes)), mesh, array_of_placements))
    result = made(_lib.weft_detach(on_arrays)) # C may use an array in place: the tensor gets memory of its own
    del on_arrays
    _library.wait()
    return result


def to_boxes(tensor: Tensor, boxes: Sequence[tuple[Sequence[int], Any]]) -> None:
    """Fills boxes of this process, cut in any way: (offset, contiguous NumPy array to write) each. Waits; all processes call it."""
    for _, array in boxes:
        if not array.flags.c_contiguous or not array.flags.writeable or dtype_of(array.dtype) is not tensor.dtype:
            raise ValueError(f"boxes: contiguous arrays of {tensor.dtype.name} that can be written to are needed")
    check(_lib.weft_to_boxes(tensor, len(boxes), _boxes(boxes, tensor.ndim)))
    _library.wait()


def _boxes(boxes: Sequence[tuple[Sequence[int], Any]], ndim: int) -> Any:
    for number, (offset, array) in enumerate(boxes):
        if len(offset) != ndim or array.ndim != ndim:
            raise ValueError(f"boxes[{number}]: an offset of {len(offset)} and an array of {array.ndim} dimensions, of a tensor of {ndim}")
    found = (_api.weft_subarray * max(len(boxes), 1))()
    for mine, (offset, array) in zip(found, boxes):
        mine.box.offset[:len(offset)], mine.box.extent[:array.ndim] = list(offset), list(array.shape)
        mine.data = array.ctypes.data
    return found


def local_shape(shape: Sequence[int], mesh: Optional[Mesh] = None, placements: Placements = None, rank: Optional[int] = None) -> Any:
    """Offset and extent of the box that a rank (this process's first one) holds of a tensor of this shape and layout."""
    mesh, array_of_placements = resolve(mesh, placements)
    sizes, offset, extent = int64s(shape), (c_int64 * _api.MAX_DIMS)(), (c_int64 * _api.MAX_DIMS)()
    check(_lib.weft_shard_box(mesh, array_of_placements, len(sizes), sizes, _lib.weft_first_rank() if rank is None else rank, offset, extent))
    return tuple(offset[:len(sizes)]), tuple(extent[:len(sizes)])


def uniform_bernoulli(p: float, shape: Sequence[int], *, dtype: Any = None, mesh: Optional[Mesh] = None, placements: Placements = None) -> Tensor:
    """1 with probability p, otherwise 0."""
    mesh, array_of_placements = resolve(mesh, placements)
    sizes = int64s(shape)
    return made(_lib.weft_bernoulli_scalar(dtype_of(dtype) if dtype is not None else float32, p, len(sizes), sizes, mesh, array_of_placements))


__all__ = [name for name in dir() if not name.startswith("_")]
del choose, int64, _placement_array
