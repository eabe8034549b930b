"""Layers that normalise."""
from __future__ import annotations

from typing import Any, Optional

from .. import functional
from .._core import Tensor
from ..array_api import full, ones, zeros
from .module import Module, Parameter


def _width(normalized_shape: Any) -> int:
    """The size of the last dimension: C normalises over that."""
    shape = (normalized_shape,) if isinstance(normalized_shape, int) else tuple(normalized_shape)
    if len(shape) != 1:
        raise ValueError(f"normalized_shape: {shape} has {len(shape)} dimensions; norms are over the last dimension")
    return shape[0]


class LayerNorm(Module):
    """Rows of mean 0 and variance 1, times a gain, plus a bias."""

    def __init__(self, normalized_shape: Any, eps: float = 1e-5, elementwise_affine: bool = True, bias: bool = True, *, device: Any = None,
                 dtype: Any = None) -> None:
        super().__init__()
        self.eps, width = eps, _width(normalized_shape)
        self.register_parameter("weight", Parameter(ones(width, dtype=dtype)) if elementwise_affine else None)
        self.register_parameter("bias", Parameter(zeros(width, dtype=dtype)) if elementwise_affine and bias else None)

    def forward(self, x: Tensor) -> Tensor:
        return functional.layer_norm(x, None, self.weight, self.bias, self.eps)


class RMSNorm(Module):
    """Rows of mean square 1, times a gain."""

    def __init__(self, normalized_shape: Any, eps: float = 1e-6, elementwise_affine: bool = True, *, device: Any = None,
                 dtype: Any = None) -> None:
        super().__init__()
        self.eps = eps
        self.register_parameter("weight", Parameter(ones(_width(normalized_shape), dtype=dtype)) if elementwise_affine else None)

    def forward(self, x: Tensor) -> Tensor:
        return functional.rms_norm(x, None, self.weight, self.eps)


class _Channels(Module):
    """A gain and a bias for each channel."""

    def __init__(self, channels: int, affine: bool, dtype: Any) -> None:
        super().__init__()
        self.register_parameter("weight", Parameter(ones(channels, dtype=dtype)) if affine else None)
        self.register_parameter("bias", Parameter(zeros(channels, dtype=dtype)) if affine else None)


class GroupNorm(_Channels):
    """Each sample's channels, in groups, with mean 0 and variance 1."""

    def __init__(self, num_groups: int, num_channels: int, eps: float = 1e-5, affine: bool = True, *, device: Any = None,
                 dtype: Any = None) -> None:
        if num_channels % num_groups:
            raise ValueError(f"num_channels: {num_channels} is no multiple of num_groups, {num_groups}")
        super().__init__(num_channels, affine, dtype)
        self.num_groups, self.eps = num_groups, eps

    def forward(self, x: Tensor) -> Tensor:
        return functional.group_norm(x, self.num_groups, self.weight, self.bias, self.eps)


class _BatchNorm(_Channels):
    """Channels of the whole batch, however it is sharded, with mean 0 and variance 1 while training; then with the running statistics."""

    dimensions: tuple[int, ...] = ()

    def __init__(self, num_features: int, eps: float = 1e-5, momentum: Optional[float] = 0.1, affine: bool = True,
                 track_running_stats: bool = True, *,
                 device: Any = None, dtype: Any = None) -> None:
        super().__init__(num_features, affine, dtype)
        if momentum is None:
            raise ValueError("momentum: a number is expected; None, a mean over all batches, is not supported")
        self.num_features, self.eps, self.momentum, self.tracks = num_features, eps, momentum, track_running_stats
        if track_running_stats:
            self.register_buffer("running_mean", zeros(num_features, dtype=dtype))
            self.register_buffer("running_var", ones(num_features, dtype=dtype))
            self.register_buffer("num_batches_tracked", full((), 0))

    def forward(self, x: Tensor) -> Tensor:
        if x.ndim not in self.dimensions:
            raise ValueError(f"{type(self).__name__}: {' or '.join(map(str, self.dimensions))} dimensions are expected, not {x.ndim}")
        if not self.tracks:
            return functional.batch_norm(x, None, None, self.weight, self.bias, True, self.momentum, self.eps)
        if self.training:
            self.num_batches_tracked.add_(1)
        return functional.batch_norm(x, self.running_mean, self.running_var, self.weight, self.bias, self.training, self.momentum, self.eps)


class BatchNorm1d(_BatchNorm):
    """Of [n, c] or [n, c, l]."""

    __doc__ = f"{_BatchNorm.__doc__} {__doc__}"
    dimensions = 2, 3


class BatchNorm2d(_BatchNorm):
    """Of [n, c, h, w]."""

    __doc__ = f"{_BatchNorm.__doc__} {__doc__}"
    dimensions = (4,)


class BatchNorm3d(_BatchNorm):
    """Of [n, c, d, h, w]."""

    __doc__ = f"{_BatchNorm.__doc__} {__doc__}"
    dimensions = (5,)


class _InstanceNorm(_Channels):
    """Each channel of each sample with mean 0 and variance 1, of this batch always."""

    def __init__(self, num_features: int, eps: float = 1e-5, momentum: float = 0.1, affine: bool = False, *, device: Any = None,
                 dtype: Any = None) -> None:
        super().__init__(num_features, affine, dtype)
        self.eps = eps

    def forward(self, x: Tensor) -> Tensor:
        return functional.instance_norm(x, weight=self.weight, bias=self.bias, eps=self.eps)


class InstanceNorm1d(_InstanceNorm):
    __doc__ = f"{_InstanceNorm.__doc__} Of [n, c, l]."


class InstanceNorm2d(_InstanceNorm):
    __doc__ = f"{_InstanceNorm.__doc__} Of [n, c, h, w]."


class InstanceNorm3d(_InstanceNorm):
    __doc__ = f"{_InstanceNorm.__doc__} Of [n, c, d, h, w]."
