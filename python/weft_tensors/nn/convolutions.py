"""Convolutions of one, two and three dimensions."""
from __future__ import annotations

import math
from typing import Any, Union

from .. import functional
from .._core import Tensor
from .layers import uniform
from .module import Module

Sizes = Union[int, tuple[int, ...], list[int]]


def _sizes(given: Sizes, ndim: int) -> tuple[int, ...]:
    return (given,) * ndim if isinstance(given, int) else tuple(given)


class _Conv(Module):
    ndim = 0

    def __init__(self, in_channels: int, out_channels: int, kernel_size: Sizes, stride: Sizes = 1, padding: Union[Sizes, str] = 0,
                 dilation: Sizes = 1,
                 groups: int = 1, bias: bool = True, padding_mode: str = "zeros", *, device: Any = None, dtype: Any = None) -> None:
        super().__init__()
        if in_channels % groups or out_channels % groups:
            raise ValueError(f"groups: {groups} does not divide the channels, {in_channels} and {out_channels}")
        if padding_mode != "zeros":
            raise ValueError(f"padding_mode: {padding_mode!r} is not supported; functional.pad() has other modes")
        kernel = _sizes(kernel_size, self.ndim)
        self.options: dict[str, Any] = {"stride": stride, "padding": padding, "dilation": dilation, "groups": groups}
        bound = (in_channels // groups * math.prod(kernel)) ** -0.5
        self.weight = uniform(bound, out_channels, in_channels // groups, *kernel, dtype=dtype)
        self.register_parameter("bias", uniform(bound, out_channels, dtype=dtype) if bias else None)

    def forward(self, x: Tensor) -> Tensor:
        function: Any = (functional.conv1d, functional.conv2d, functional.conv3d)[self.ndim - 1]
        return function(x, self.weight, self.bias, **self.options)


class Conv1d(_Conv):
    """Convolution of [n, c, l] with a weight [out_channels, in_channels / groups, i]."""

    ndim = 1


class Conv2d(_Conv):
    """Convolution of [n, c, h, w] with a weight [out_channels, in_channels / groups, i, j]."""

    ndim = 2


class Conv3d(_Conv):
    """Convolution of [n, c, d, h, w] with a weight [out_channels, in_channels / groups, i, j, k]."""

    ndim = 3


class _ConvTranspose(Module):
    ndim = 0

    def __init__(self, in_channels: int, out_channels: int, kernel_size: Sizes, stride: Sizes = 1, padding: Sizes = 0,
                 output_padding: Sizes = 0,
                 groups: int = 1, bias: bool = True, dilation: Sizes = 1, *, device: Any = None, dtype: Any = None) -> None:
        super().__init__()
        if in_channels % groups or out_channels % groups:
            raise ValueError(f"groups: {groups} does not divide the channels, {in_channels} and {out_channels}")
        kernel = _sizes(kernel_size, self.ndim)
        self.options: dict[str, Any] = {"stride": stride, "padding": padding, "output_padding": output_padding, "groups": groups,
                                        "dilation": dilation}
        bound = (out_channels // groups * math.prod(kernel)) ** -0.5
        self.weight = uniform(bound, in_channels, out_channels // groups, *kernel, dtype=dtype)
        self.register_parameter("bias", uniform(bound, out_channels, dtype=dtype) if bias else None)

    def forward(self, x: Tensor) -> Tensor:
        function: Any = (functional.conv_transpose1d, functional.conv_transpose2d, functional.conv_transpose3d)[self.ndim - 1]
        return function(x, self.weight, self.bias, **self.options)


class ConvTranspose1d(_ConvTranspose):
    """Transposed convolution of [n, c, l] with a weight [in_channels, out_channels / groups, i]."""

    ndim = 1


class ConvTranspose2d(_ConvTranspose):
    """Transposed convolution of [n, c, h, w] with a weight [in_channels, out_channels / groups, i, j]."""

    ndim = 2


class ConvTranspose3d(_ConvTranspose):
    """Transposed convolution of [n, c, d, h, w] with a weight [in_channels, out_channels / groups, i, j, k]."""

    ndim = 3
