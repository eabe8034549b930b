"""Layers that change the size of images."""
from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Optional, Union

from .. import functional
from .._core import Tensor
from .module import Module


def _layer(name: str, function: Any, doc: str, *settings: str, **defaults: Any) -> Any:
    """A module class that calls function(x, **settings): the settings have no defaults."""
    names = list(settings) + list(defaults)

    def __init__(self: Any, *values: Any, **keywords: Any) -> None:
        Module.__init__(self)
        if len(values) > len(names):
            raise TypeError(f"{name} takes at most {len(names)} arguments: {', '.join(names)}")
        given = {**dict(zip(names, values)), **keywords}
        if set(given) - set(names) or set(settings) - set(given):
            raise TypeError(f"{name} takes {', '.join(names)}; {', '.join(settings) or 'none'} must be given, and "
                            f"{', '.join(given) or 'nothing'} was")
        self.options = {**defaults, **given}

    def forward(self: Any, x: Tensor) -> Tensor:
        return function(x, **self.options)

    return type(name, (Module,), {"__init__": __init__, "forward": forward, "__doc__": doc, "__module__": __name__})


_MAX: dict[str, Any] = {"stride": None, "padding": 0, "dilation": 1, "ceil_mode": False}
_MEAN: dict[str, Any] = {"stride": None, "padding": 0, "ceil_mode": False, "count_include_pad": True}
MaxPool1d = _layer("MaxPool1d", functional.max_pool1d, "The largest elements of windows of [n, c, l].", "kernel_size", **_MAX)
MaxPool2d = _layer("MaxPool2d", functional.max_pool2d, "The largest elements of windows of [n, c, h, w].", "kernel_size", **_MAX)
MaxPool3d = _layer("MaxPool3d", functional.max_pool3d, "The largest elements of windows of [n, c, d, h, w].", "kernel_size", **_MAX)
AvgPool1d = _layer("AvgPool1d", functional.avg_pool1d, "The means of windows of [n, c, l].", "kernel_size", **_MEAN)
AvgPool2d = _layer("AvgPool2d", functional.avg_pool2d, "The means of windows of [n, c, h, w].", "kernel_size", **_MEAN,
                   divisor_override=None)
AvgPool3d = _layer("AvgPool3d", functional.avg_pool3d, "The means of windows of [n, c, d, h, w].", "kernel_size", **_MEAN,
                   divisor_override=None)
AdaptiveAvgPool1d = _layer("AdaptiveAvgPool1d", functional.adaptive_avg_pool1d, "Means that give [n, c, l] a size.", "output_size")
AdaptiveAvgPool2d = _layer("AdaptiveAvgPool2d", functional.adaptive_avg_pool2d, "Means that give [n, c, h, w] a size.", "output_size")
AdaptiveAvgPool3d = _layer("AdaptiveAvgPool3d", functional.adaptive_avg_pool3d, "Means that give [n, c, d, h, w] a size.", "output_size")
AdaptiveMaxPool1d = _layer("AdaptiveMaxPool1d", functional.adaptive_max_pool1d, "Largest elements that give [n, c, l] a size.",
                           "output_size")
AdaptiveMaxPool2d = _layer("AdaptiveMaxPool2d", functional.adaptive_max_pool2d, "Largest elements that give [n, c, h, w] a size.",
                           "output_size")
AdaptiveMaxPool3d = _layer("AdaptiveMaxPool3d", functional.adaptive_max_pool3d, "Largest elements that give [n, c, d, h, w] a size.",
                           "output_size")


class Upsample(Module):
    """functional.interpolate() as a module."""

    def __init__(self, size: Any = None, scale_factor: Any = None, mode: str = "nearest", align_corners: Optional[bool] = None) -> None:
        super().__init__()
        self.options = {"size": size, "scale_factor": scale_factor, "mode": mode, "align_corners": align_corners}

    def forward(self, x: Tensor) -> Tensor:
        return functional.interpolate(x, **self.options)


class ZeroPad2d(Module):
    """Zeros around images: (left, right, top, bottom), or one number."""

    def __init__(self, padding: Union[int, Sequence[int]]) -> None:
        super().__init__()
        self.padding = (padding,) * 4 if isinstance(padding, int) else tuple(padding)

    def forward(self, x: Tensor) -> Tensor:
        return functional.pad(x, self.padding)
