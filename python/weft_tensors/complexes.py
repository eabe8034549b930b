"""Functions that C has for real numbers alone, made of others for complex ones."""
from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from . import array_api as _a, functions as _f
from ._core import Tensor


def _both(real: Callable[..., Tensor], of_complex: Callable[[Tensor], Tensor]) -> Any:
    """A function of real tensors by C, of complex ones by a formula."""
    def function(x: Tensor, /, *arguments: Any, **options: Any) -> Tensor:
        if isinstance(x, Tensor) and x.dtype.is_complex:
            return of_complex(x, *arguments, **options)
        return real(x, *arguments, **options)

    function.__name__ = function.__qualname__ = real.__name__
    function.__doc__ = f"{(real.__doc__ or '').rstrip()}\n\n    Of complex numbers too.\n    "
    return function


def _log1p(z: Tensor) -> Tensor:
    x, y = z.real, z.imag
    return _f.complex(_f.log1p(x * (x + 2.0) + y * y) * 0.5, _f.atan2(y, x + 1.0))


def _expm1(z: Tensor) -> Tensor:
    x, y = z.real, z.imag
    return _f.complex(_f.expm1(x) * _f.cos(y) - _f.square(_f.sin(y * 0.5)) * 2.0, _f.exp(x) * _f.sin(y))


def _asinh(z: Tensor) -> Tensor:
    return _f.log(z + _f.sqrt(z * z + 1.0))


def _atanh(z: Tensor) -> Tensor:
    return (_log1p(z) - _log1p(-z)) * 0.5


def _sign(z: Tensor) -> Tensor:
    size = abs(z)
    return z / _f.where(size == 0, _f.ones_like(size), size)


def _by_parts(function: Callable[..., Tensor]) -> Callable[..., Tensor]:
    def of_parts(z: Tensor, *arguments: Any, **options: Any) -> Tensor:
        return _f.complex(function(z.real, *arguments, **options), function(z.imag, *arguments, **options))

    return of_parts


def _var(z: Tensor, *arguments: Any, **options: Any) -> Tensor:
    return _a.var(z.real, *arguments, **options) + _a.var(z.imag, *arguments, **options)


sinh, cosh = _both(_f.sinh, lambda z: _f.sin(z * 1j) * -1j), _both(_f.cosh, lambda z: _f.cos(z * 1j))
tan = _both(_f.tan, lambda z: _f.tanh(z * 1j) * -1j)
asinh, acosh = _both(_f.asinh, _asinh), _both(_f.acosh, lambda z: _f.log(z + _f.sqrt(z + 1.0) * _f.sqrt(z - 1.0)))
atanh, atan = _both(_f.atanh, _atanh), _both(_f.atan, lambda z: _atanh(z * 1j) * -1j)
asin, acos = _both(_f.asin, lambda z: _asinh(z * 1j) * -1j), _both(_f.acos, lambda z: _asinh(z * 1j) * 1j + math.pi / 2)
log2 = _both(_f.log2, lambda z: _f.log(z) * (1 / math.log(2)))
log10 = _both(_f.log10, lambda z: _f.log(z) * (1 / math.log(10)))
log1p, expm1, sign = _both(_f.log1p, _log1p), _both(_f.expm1, _expm1), _both(_f.sign, _sign)
cumsum = _both(_a.cumsum, _by_parts(_a.cumsum))
cumulative_sum = _both(_a.cumulative_sum, _by_parts(_a.cumulative_sum))
var, std = _both(_a.var, _var), _both(_a.std, lambda z, *arguments, **options: _f.sqrt(_var(z, *arguments, **options)))

__all__ = ["acos", "acosh", "asin", "asinh", "atan", "atanh", "cosh", "cumsum", "cumulative_sum", "expm1", "log10", "log1p", "log2", "sign",
           "sinh", "std", "tan", "var"]
for _name in __all__:
    if hasattr(Tensor, _name):
        setattr(Tensor, _name, globals()[_name])
