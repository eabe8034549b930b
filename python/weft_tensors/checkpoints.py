"""Checkpoints: every process writes and reads its own parts, whatever the layouts then and now."""
from __future__ import annotations

import ctypes
from ctypes import byref, c_char_p
from typing import Any, Optional

import numpy

from . import _api
from ._core import Tensor, _lib, bool_, check, failure, float64, int64, tensors
from ._library import settle_tensor
from .arrays import asarray


class _State:
    """What a state holds: tensors by name, and what is read into other things than tensors."""

    def __init__(self, state: Any) -> None:
        self.names: list[str] = []
        self.values: list[Tensor] = []
        self.numbers: list[tuple[dict[Any, Any], Any, Any, Tensor]] = []
        self.objects: list[tuple[Any, dict[Any, Any]]] = []
        self._add("", {}, None, state)

    def _add(self, name: str, holder: dict[Any, Any], key: Any, value: Any) -> bool:
        """Adds what is at a name; whether there are numbers, which the holder gets again when they are read."""
        if isinstance(value, Tensor):
            self._tensor(name, value)
            return False
        if isinstance(value, str) or value is None: # settings of the program
            return False
        if _is_number(value) or isinstance(value, (list, tuple)) and value and all(map(_is_number, value)):
            given = asarray(value, dtype=_kind_of(value))
            self._tensor(name, given)
            self.numbers.append((holder, key, value, given))
            return True
        inside = value.state_dict() if hasattr(value, "state_dict") else value
        if not isinstance(inside, dict):
            raise TypeError(f"state: {name or 'it'} is a {type(value).__name__}; a tensor, a number, numbers, a dict, or an object "
                            "with state_dict() is expected")
        found = [self._add(f"{name}.{each}" if name else str(each), inside, each, what) for each, what in list(inside.items())]
        if inside is not value and hasattr(value, "load_state_dict") and (any(found) or hasattr(value, "steps")):
            self.objects.append((value, inside))
        return any(found)

    def _tensor(self, name: str, value: Tensor) -> None:
        self.names.append(name)
        self.values.append(value)

    def loaded(self) -> None:
        """Hands on what was read: numbers to the dicts that have them, and to objects that are more than their tensors."""
        for holder, key, value, tensor in self.numbers:
            read = tensor.tolist() if tensor.ndim else tensor.item()
            holder[key] = tuple(read) if isinstance(value, tuple) else read
        for value, inside in self.objects:
            value.load_state_dict(inside)


def _is_number(value: Any) -> bool:
    return isinstance(value, (bool, int, float, numpy.integer, numpy.floating, numpy.bool_))


def _kind_of(value: Any) -> Any:
    """int64, unless there is a fraction."""
    values = value if isinstance(value, (list, tuple)) else [value]
    if all(isinstance(each, (bool, numpy.bool_)) for each in values):
        return bool_
    return float64 if any(isinstance(each, (float, numpy.floating)) for each in values) else int64


def _settle(values: list[Tensor]) -> None:
    for value in values:
        settle_tensor(value)


def _names(names: list[str]) -> Any:
    return (c_char_p * max(len(names), 1))(*[name.encode() for name in names])


def _options(metadata: Optional[dict[str, str]], random_states: bool, max_file_bytes: int) -> tuple[Any, Any]:
    entries = metadata or {}
    if not all(isinstance(each, str) for pair in entries.items() for each in pair):
        raise TypeError("metadata: texts by name are expected")
    keys, values = _names(list(entries)), _names(list(entries.values()))
    options = _api.weft_checkpoint_options(ctypes.sizeof(_api.weft_checkpoint_options), len(entries), ctypes.cast(keys, ctypes.c_void_p),
                                           ctypes.cast(values, ctypes.c_void_p), random_states, max_file_bytes)
    return options, (keys, values)


def save_checkpoint(path: Any, state: Any, *, metadata: Optional[dict[str, str]] = None, random_states: bool = False,
                    max_file_bytes: int = 0) -> None:
    """Saves tensors by name in one file of safetensors: of a dict, an object with state_dict() (modules, optimisers, schedulers), or a dict
    of such objects. Numbers and lists of numbers become tensors; texts are not saved. A path that ends in ".index.json" is the index of
    several files, each with at most max_file_bytes of tensors. Waits; all processes call it."""
    given = _State(state)
    names, values = given.names, given.values
    options, _keep = _options(metadata, random_states, max_file_bytes)
    _settle(values)
    check(_lib.weft_checkpoint_save(str(path).encode(), len(names), _names(names), tensors(values), byref(options)))


class Saving:
    """A save that goes on in the background."""

    def __init__(self, handle: int) -> None:
        self._handle: Optional[int] = handle

    def done(self) -> bool:
        """Whether it has ended. The tensors may change before that."""
        if self._handle is None:
            return True
        ended = ctypes.c_bool()
        check(_lib.weft_checkpoint_test(self._handle, byref(ended)))
        return ended.value

    def wait(self) -> None:
        """Waits until the file is complete; raises an error of the save."""
        if self._handle is None:
            return
        handle, self._handle = self._handle, None
        check(_lib.weft_checkpoint_wait(handle))


def save_checkpoint_async(path: Any, state: Any, *, metadata: Optional[dict[str, str]] = None, random_states: bool = False,
                          max_file_bytes: int = 0) -> Saving:
    """save_checkpoint() in the background, with the values of now."""
    given = _State(state)
    names, values = given.names, given.values
    options, _keep = _options(metadata, random_states, max_file_bytes)
    handle = _lib.weft_checkpoint_save_async(str(path).encode(), len(names), _names(names), tensors(values), byref(options))
    if not handle:
        raise failure()
    return Saving(handle)


def load_checkpoint(path: Any, state: Any) -> Any:
    """Reads tensors by name into those of `state`, in their layouts: {"model": model, "optimizer": optimizer, "epoch": 0}. Numbers replace
    those of the dict. Returns the state. Tensors of the file that `state` lacks are ignored. Waits; all processes call it."""
    given = _State(state)
    names, values = given.names, given.values
    _settle(values)
    check(_lib.weft_checkpoint_load(str(path).encode(), len(names), _names(names), tensors(values)))
    given.loaded()
    return state


def save_hdf5(path: Any, state: Any, *, compression: int = 0, chunk_bytes: int = 0) -> None:
    """save_checkpoint() as datasets of an HDF5 file: in chunks of at most chunk_bytes, compressed by gzip of a level from 1 to 9."""
    given = _State(state)
    names, values = given.names, given.values
    options = _api.weft_hdf5_options(ctypes.sizeof(_api.weft_hdf5_options), compression, chunk_bytes)
    _settle(values)
    check(_lib.weft_hdf5_save_ex(str(path).encode(), len(names), _names(names), tensors(values), byref(options)))


def load_hdf5(path: Any, state: Any) -> None:
    """load_checkpoint() from datasets of an HDF5 file."""
    given = _State(state)
    names, values = given.names, given.values
    _settle(values)
    check(_lib.weft_hdf5_load(str(path).encode(), len(names), _names(names), tensors(values)))
    given.loaded()


def save_zarr(path: Any, state: Any, *, codec: Optional[str] = None, level: int = 0, chunk_bytes: int = 0) -> None:
    """save_checkpoint() as arrays of a Zarr store, version 3: in chunks of at most chunk_bytes, compressed by "zstd" or "gzip"."""
    given = _State(state)
    names, values = given.names, given.values
    options = _api.weft_zarr_options(ctypes.sizeof(_api.weft_zarr_options), None if codec is None else codec.encode(), level, chunk_bytes)
    _settle(values)
    check(_lib.weft_zarr_save(str(path).encode(), len(names), _names(names), tensors(values), byref(options)))


def load_zarr(path: Any, state: Any) -> None:
    """load_checkpoint() from arrays of a Zarr store, version 3."""
    given = _State(state)
    names, values = given.names, given.values
    _settle(values)
    check(_lib.weft_zarr_load(str(path).encode(), len(names), _names(names), tensors(values)))
    given.loaded()


def checkpoint_contents(path: Any) -> dict[str, tuple[str, tuple[int, ...]]]:
    """The file's tensors: their types and shapes by name. Every process reads."""
    handle = _lib.weft_checkpoint_open(str(path).encode())
    if not handle:
        raise failure()
    try:
        found = {}
        for index in range(_lib.weft_checkpoint_num_tensors(handle)):
            entry = _api.weft_checkpoint_entry()
            check(_lib.weft_checkpoint_tensor(handle, index, byref(entry)))
            found[entry.name.decode()] = entry.file_dtype.decode(), tuple(entry.shape[:entry.ndim])
        return found
    finally:
        check(_lib.weft_checkpoint_close(handle))


__all__ = ["Saving", "checkpoint_contents", "load_checkpoint", "load_hdf5", "load_zarr", "save_checkpoint",
           "save_checkpoint_async", "save_hdf5", "save_zarr"]
