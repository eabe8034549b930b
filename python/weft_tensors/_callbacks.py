"""Functions of Python that the library calls."""
from __future__ import annotations

import ctypes
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from ctypes import POINTER, c_double, c_int, c_void_p
from typing import Any

from . import _api
from ._core import _handle
from ._library import at_end, check, kept, lib, raised, world

INVALID = int(_api.weft_status.ERR_INVALID)
GraphFunction = ctypes.CFUNCTYPE(c_int, c_void_p, POINTER(c_void_p), POINTER(c_double), POINTER(c_void_p))
OpaqueFunction = ctypes.CFUNCTYPE(c_int, c_void_p, POINTER(c_void_p), POINTER(c_void_p))
SegmentFunction = ctypes.CFUNCTYPE(c_int, c_void_p, c_int, POINTER(c_void_p), c_int, POINTER(c_void_p))
BackwardFunction = ctypes.CFUNCTYPE(c_int, c_void_p, POINTER(_api.weft_custom_request), POINTER(c_void_p))
ForwardFunction = ctypes.CFUNCTYPE(c_int, c_void_p, c_int, POINTER(c_void_p), c_int, POINTER(c_void_p), c_void_p)
ModuleFunction = ctypes.CFUNCTYPE(c_int, c_void_p, c_void_p, c_int, POINTER(c_void_p), c_void_p)
PartitionFunction = ctypes.CFUNCTYPE(c_int, ctypes.c_char_p, c_void_p, c_void_p, c_void_p)
GradHook = ctypes.CFUNCTYPE(c_int, c_void_p, c_void_p, c_void_p)
LocalFunction = ctypes.CFUNCTYPE(None, POINTER(_api.weft_local_call))


class Registry:
    """Python's objects by the numbers that C passes on as a context."""

    def __init__(self) -> None:
        self.objects: dict[int, Any] = {}
        self.last = 0
        at_end.append(self.objects.clear)

    def add(self, value: Any) -> int:
        self.last += 1
        self.objects[self.last] = value
        return self.last

    def __getitem__(self, key: int) -> Any:
        return self.objects[key]

    def drop(self, key: int) -> None:
        self.objects.pop(key, None)


@contextmanager
def inside() -> Iterator[None]:
    """While a function of Python runs: new tensors belong to a scope of C, so that Python takes references of its own."""
    world.scopes += 1
    try:
        yield
    finally:
        world.scopes -= 1


@contextmanager
def scope() -> Iterator[None]:
    """Around calls of C whose functions of Python run in no scope of C: what they make ends with it, unless Python has taken a reference."""
    check(lib.weft_scope_begin())
    try:
        with inside():
            yield
    finally:
        lib.weft_scope_end()


def hand_over(results: Any, outputs: Any) -> None:
    """Results for C, which live until C has taken them."""
    for i, each in enumerate([_handle(each) for each in results]):
        outputs[i] = each
    kept.extend(results)


def guarded(function: Callable[[], None]) -> int:
    """Runs a function for C: an exception becomes a status, and is raised where Python called C."""
    try:
        with inside():
            function()
    except BaseException as error: # KeyboardInterrupt too
        raised.append(error)
        return INVALID
    return 0
