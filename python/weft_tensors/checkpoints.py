"""Checkpoints: every process writes and reads its own parts, whatever the layouts then and now."""
from __future__ import annotations

import ctypes
from ctypes import byref, c_char_p
from typing import Any, Optional

from . import _api
from ._core import Tensor, _lib, check, failure, tensors
from ._library import settle_tensor


def _named(state: Any) -> tuple[list[str], list[Tensor]]:
    """Names and tensors of a state: tensors by name, objects with state_dict(), and dicts of both, whose names are joined by dots."""
    names: list[str] = []
    values: list[Tensor] = []

    def add(prefix: str, value: Any) -> None:
        if isinstance(value, Tensor):
            names.append(prefix)
            values.append(value)
            return
        inside = value.state_dict() if hasattr(value, "state_dict") else value
        if not isinstance(inside, dict):
            raise TypeError(f"state: {prefix or 'it'} is a {type(value).__name__}; a tensor, a dict or an object with state_dict() is expected")
        for name, each in inside.items():
            add(f"{prefix}.{name}" if prefix else str(name), each)

    add("", state)
    return names, values


def _loaded(prefix: str, state: Any, found: dict[str, Tensor]) -> None:
    """Tells objects that are more than their tensors (optimisers count steps) what was read."""
    if isinstance(state, Tensor):
        return
    if hasattr(state, "state_dict"):
        if hasattr(state, "steps") and hasattr(state, "load_state_dict"):
            start = f"{prefix}." if prefix else ""
            state.load_state_dict({name[len(start):]: tensor for name, tensor in found.items() if name.startswith(start)})
    else:
        for name, each in state.items():
            _loaded(f"{prefix}.{name}" if prefix else str(name), each, found)


def _settle(values: list[Tensor]) -> None:
    for value in values:
        settle_tensor(value)


def _names(names: list[str]) -> Any:
    return (c_char_p * max(len(names), 1))(*[name.encode() for name in names])


def _options(metadata: Optional[dict[str, str]], random_states: bool) -> tuple[Any, Any]:
    entries = metadata or {}
    if not all(isinstance(each, str) for pair in entries.items() for each in pair):
        raise TypeError("metadata: texts by name are expected")
    keys, values = _names(list(entries)), _names(list(entries.values()))
    options = _api.weft_checkpoint_options(ctypes.sizeof(_api.weft_checkpoint_options), len(entries), ctypes.cast(keys, ctypes.c_void_p),
                                           ctypes.cast(values, ctypes.c_void_p), random_states)
    return options, (keys, values)


def save_checkpoint(path: Any, state: Any, *, metadata: Optional[dict[str, str]] = None, random_states: bool = False) -> None:
    """Saves tensors by name in one file of safetensors: of a dict, an object with state_dict() (modules, optimisers), or a dict of such
    objects. Waits; all processes call it."""
    names, values = _named(state)
    options, _keep = _options(metadata, random_states)
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


def save_checkpoint_async(path: Any, state: Any, *, metadata: Optional[dict[str, str]] = None, random_states: bool = False) -> Saving:
    """save_checkpoint() in the background, with the values of now."""
    names, values = _named(state)
    options, _keep = _options(metadata, random_states)
    handle = _lib.weft_checkpoint_save_async(str(path).encode(), len(names), _names(names), tensors(values), byref(options))
    if not handle:
        raise failure()
    return Saving(handle)


def load_checkpoint(path: Any, state: Any) -> None:
    """Reads tensors by name into those of `state`, in their layouts: {"model": model, "optimizer": optimizer}. Tensors of the file that
    `state` lacks are ignored. Waits; all processes call it."""
    names, values = _named(state)
    _settle(values)
    check(_lib.weft_checkpoint_load(str(path).encode(), len(names), _names(names), tensors(values)))
    _loaded("", state, dict(zip(names, values)))


def save_hdf5(path: Any, state: Any) -> None:
    """save_checkpoint() as datasets of an HDF5 file."""
    names, values = _named(state)
    _settle(values)
    check(_lib.weft_hdf5_save(str(path).encode(), len(names), _names(names), tensors(values)))


def load_hdf5(path: Any, state: Any) -> None:
    """load_checkpoint() from datasets of an HDF5 file."""
    names, values = _named(state)
    _settle(values)
    check(_lib.weft_hdf5_load(str(path).encode(), len(names), _names(names), tensors(values)))


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


__all__ = ["Saving", "checkpoint_contents", "load_checkpoint", "load_hdf5", "save_checkpoint", "save_checkpoint_async", "save_hdf5"]
