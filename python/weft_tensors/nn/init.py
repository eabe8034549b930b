"""Initial values of parameters, in place and without recording, with torch.nn.init's names. Each returns its tensor."""
from __future__ import annotations

import math
from typing import Any

from .. import functions as _f
from .._core import Tensor
from ..array_api import eye
from ..autograd import no_grad


def uniform_(tensor: Tensor, a: float = 0.0, b: float = 1.0) -> Tensor:
    """Values between a and b."""
    with no_grad():
        return _f.uniform_(tensor, a, b)


def normal_(tensor: Tensor, mean: float = 0.0, std: float = 1.0) -> Tensor:
    """Normally distributed values."""
    with no_grad():
        return _f.normal_(tensor, mean, std)


def trunc_normal_(tensor: Tensor, mean: float = 0.0, std: float = 1.0, a: float = -2.0, b: float = 2.0) -> Tensor:
    """Normally distributed values of the interval from a to b."""
    low, high = (math.erf((each - mean) / std / math.sqrt(2)) for each in (a, b))
    with no_grad():
        _f.uniform_(tensor, low, high)
        values = _f.erfinv(tensor) * (std * math.sqrt(2)) + mean
        return _f.copy_(tensor, values.clip(a, b))


def constant_(tensor: Tensor, val: float) -> Tensor:
    """One value."""
    with no_grad():
        return _f.fill_(tensor, val)


def ones_(tensor: Tensor) -> Tensor:
    """Ones."""
    return constant_(tensor, 1.0)


def zeros_(tensor: Tensor) -> Tensor:
    """Zeros."""
    return constant_(tensor, 0.0)


def eye_(tensor: Tensor) -> Tensor:
    """The identity matrix."""
    with no_grad():
        return _f.copy_(tensor, eye(*tensor.shape, dtype=tensor.dtype, mesh=tensor.mesh))


def _fans(tensor: Tensor, linear: bool) -> tuple[int, int]:
    """Inputs and outputs of a weight [out, in, ...]; of a Linear's, which is [in, out] here, if `linear`."""
    shape = tensor.shape
    if len(shape) < 2:
        raise ValueError(f"a weight of two dimensions or more is expected, not {len(shape)}")
    field = math.prod(shape[2:])
    return (shape[0], shape[1]) if linear else (shape[1] * field, shape[0] * field)


def calculate_gain(nonlinearity: str, param: Any = None) -> float:
    """The factor that keeps the variance through an activation."""
    if nonlinearity == "leaky_relu":
        return math.sqrt(2 / (1 + (0.01 if param is None else param) ** 2))
    gains = {"tanh": 5 / 3, "relu": math.sqrt(2), "selu": 0.75, "linear": 1.0, "sigmoid": 1.0, "conv1d": 1.0, "conv2d": 1.0, "conv3d": 1.0}
    if nonlinearity not in gains:
        raise ValueError(f"nonlinearity: {nonlinearity!r} is none of {', '.join(map(repr, [*gains, 'leaky_relu']))}")
    return gains[nonlinearity]


def xavier_uniform_(tensor: Tensor, gain: float = 1.0) -> Tensor:
    """Values between -a and a, with a = gain sqrt(6 / (inputs + outputs))."""
    bound = gain * math.sqrt(6 / sum(_fans(tensor, tensor.ndim == 2)))
    return uniform_(tensor, -bound, bound)


def xavier_normal_(tensor: Tensor, gain: float = 1.0) -> Tensor:
    """Normally distributed values with deviation gain sqrt(2 / (inputs + outputs))."""
    return normal_(tensor, 0.0, gain * math.sqrt(2 / sum(_fans(tensor, tensor.ndim == 2))))


def _kaiming(tensor: Tensor, a: float, mode: str, nonlinearity: str) -> float:
    if mode not in ("fan_in", "fan_out"):
        raise ValueError(f"mode: {mode!r} is none of 'fan_in', 'fan_out'")
    return calculate_gain(nonlinearity, a) / math.sqrt(_fans(tensor, tensor.ndim == 2)[mode == "fan_out"])


def kaiming_uniform_(tensor: Tensor, a: float = 0.0, mode: str = "fan_in", nonlinearity: str = "leaky_relu") -> Tensor:
    """Values between -b and b, with b = gain sqrt(3 / inputs). A matrix is taken for a Linear's weight, [in, out]."""
    bound = math.sqrt(3) * _kaiming(tensor, a, mode, nonlinearity)
    return uniform_(tensor, -bound, bound)


def kaiming_normal_(tensor: Tensor, a: float = 0.0, mode: str = "fan_in", nonlinearity: str = "leaky_relu") -> Tensor:
    """Normally distributed values with deviation gain / sqrt(inputs). A matrix is taken for a Linear's weight, [in, out]."""
    return normal_(tensor, 0.0, _kaiming(tensor, a, mode, nonlinearity))
