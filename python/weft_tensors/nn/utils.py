"""torch.nn.utils: gradients of several parameters together."""
from __future__ import annotations

import ctypes
from collections.abc import Iterable
from ctypes import c_void_p
from typing import Union

from .._core import Tensor, _lib, check, made, tensors
from ..array_api import cat, clip, zeros
from ..autograd import no_grad
from ..functions import copy_, reshape


def _gradients(parameters: Union[Tensor, Iterable[Tensor]]) -> list[Tensor]:
    found = [parameter.grad for parameter in ([parameters] if isinstance(parameters, Tensor) else parameters)]
    return [gradient for gradient in found if gradient is not None]


def clip_grad_norm_(parameters: Union[Tensor, Iterable[Tensor]], max_norm: float, norm_type: float = 2.0) -> Tensor:
    """Scales the gradients of parameters so that their joint norm is at most max_norm; returns the norm before, without waiting."""
    given = _gradients(parameters)
    if not given:
        return zeros(())
    total = c_void_p()
    check(_lib.weft_clip_grad_norm(len(given), tensors(given), max_norm, norm_type, ctypes.byref(total)))
    return made(total.value)


def clip_grad_value_(parameters: Union[Tensor, Iterable[Tensor]], clip_value: float) -> None:
    """Clips each number of the gradients to -clip_value .. clip_value."""
    with no_grad():
        for gradient in _gradients(parameters):
            copy_(gradient, clip(gradient, -clip_value, clip_value))


def parameters_to_vector(parameters: Iterable[Tensor]) -> Tensor:
    """All parameters in one vector, through which gradients pass."""
    return cat([reshape(parameter, -1) for parameter in parameters])
