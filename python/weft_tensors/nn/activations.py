"""Activations as modules."""
from __future__ import annotations

from typing import Any

from .. import functional
from .._core import Tensor
from ..array_api import full
from .module import Module, Parameter
from .pooling import _layer


def _activation(name: str, function: Any, in_place: bool = False, **defaults: Any) -> Any:
    """PyTorch's in-place variants are accepted: results are values here."""
    made = function if not in_place else lambda x, inplace=False, **options: function(x, **options)
    return _layer(name, made, f"functional.{function.__name__}() as a module.", **defaults, **({"inplace": False} if in_place else {}))


ReLU, ReLU6 = _activation("ReLU", functional.relu, True), _activation("ReLU6", functional.relu6, True)
SiLU, Mish = _activation("SiLU", functional.silu, True), _activation("Mish", functional.mish, True)
SELU, Hardswish = _activation("SELU", functional.selu, True), _activation("Hardswish", functional.hardswish, True)
Hardsigmoid = _activation("Hardsigmoid", functional.hardsigmoid, True)
ELU, CELU = _activation("ELU", functional.elu, True, alpha=1.0), _activation("CELU", functional.celu, True, alpha=1.0)
LeakyReLU = _activation("LeakyReLU", lambda x, negative_slope: functional.leaky_relu(x, negative_slope), True, negative_slope=0.01)
LeakyReLU.__doc__ = "functional.leaky_relu() as a module."
Hardtanh = _activation("Hardtanh", functional.hardtanh, True, min_val=-1.0, max_val=1.0)
Threshold = _layer("Threshold", lambda x, threshold, value, inplace: functional.threshold(x, threshold, value),
                   "functional.threshold() as a module.", "threshold", "value", inplace=False)
GELU = _activation("GELU", functional.gelu, approximate="none")
Tanh, Sigmoid = _activation("Tanh", functional.tanh), _activation("Sigmoid", functional.sigmoid)
LogSigmoid = _activation("LogSigmoid", functional.logsigmoid)
Softsign, Tanhshrink = _activation("Softsign", functional.softsign), _activation("Tanhshrink", functional.tanhshrink)
Softplus = _activation("Softplus", functional.softplus, beta=1.0, threshold=20.0)
GLU = _activation("GLU", functional.glu, dim=-1)
Softmax, LogSoftmax = _activation("Softmax", functional.softmax, dim=-1), _activation("LogSoftmax", functional.log_softmax, dim=-1)
Softmin = _activation("Softmin", functional.softmin, dim=-1)


class PReLU(Module):
    """Negative values times a parameter, for all channels of [n, c, ...] or each."""

    def __init__(self, num_parameters: int = 1, init: float = 0.25, *, device: Any = None, dtype: Any = None) -> None:
        super().__init__()
        self.weight = Parameter(full((num_parameters,), init, dtype=dtype))

    def forward(self, x: Tensor) -> Tensor:
        return functional.prelu(x, self.weight)
