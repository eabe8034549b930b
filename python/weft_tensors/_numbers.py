"""Numbers beside tensors, as C takes them."""
from __future__ import annotations

import ctypes
import math
from ctypes import c_void_p
from typing import Any

from . import _api
from ._layouts import DTYPES, bool_, float64, int64, uint64
from ._library import lib as _lib


class _Number(ctypes.Structure):
    """weft_scalar without from_param(), which is a call of Python."""

    _fields_ = _api.weft_scalar._fields_


def with_number(name: str) -> Any:
    """A function of a tensor and a number: of the library, or, by its name, again with arguments that number_of() makes."""
    function = _lib[name]
    function.restype, function.argtypes = c_void_p, [c_void_p, _Number]
    return function


full_of_number = _lib["weft_full"] # (dtype, number, ndim, shape, mesh, placements)
full_of_number.restype, full_of_number.argtypes = c_void_p, [ctypes.c_int, _Number, ctypes.c_int, c_void_p, c_void_p, c_void_p]
_floats: dict[float, _Number] = {}
_wholes: dict[int, _Number] = {}
KEPT: dict[type, dict[Any, _Number]] = {float: _floats, int: _wholes}
FLOATING = frozenset(int(each) for each in DTYPES if each.is_floating_point or each.is_complex)
_F64, _I64, _U64, BOOL = int(float64), int(int64), int(uint64), int(bool_)
# A number is subtracted from these, not its negative added, which may be out of their range.
UNNEGATED = frozenset(int(each) for each in DTYPES if each.name.startswith("uint") or each.name in ("int8", "int16"))


def number_of(value: Any) -> _Number:
    """A number for C. Those that programs repeat are kept."""
    if type(value) is int:
        found = _wholes.get(value)
        if found is None:
            found = (_Number(_I64, 0.0, 0.0, value) if -2**63 <= value < 2**63 else
                     _Number(_U64, float(value), 0.0, value - 2**64) if 0 < value < 2**64 else _Number(_F64, _nearest(value), 0.0, 0))
            if len(_wholes) < 1000:
                _wholes[value] = found
        return found
    found = _floats.get(value)
    if found is None:
        found = _Number(_F64, value, 0.0, 0)
        if value and len(_floats) < 1000: # -0.0 and 0.0 are one key
            _floats[value] = found
    return found


def _nearest(value: int) -> float:
    try:
        return float(value)
    except OverflowError:
        return math.inf if value > 0 else -math.inf
