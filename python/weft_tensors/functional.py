"""Functions under the names and with the argument orders of torch.nn.functional."""
from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Optional

from . import functions as _f
from ._core import Tensor
from .functions import (conv1d, conv2d, conv3d, cosine_similarity, elu, gelu_tanh, glu, hardsigmoid, hardswish, leaky_relu, linear, mish, normalize,
                        one_hot, prelu, relu, selu, sigmoid, silu, softplus, tanh)
from .functions import copy_ # noqa: F401


def gelu(input: Tensor, approximate: str = "none") -> Tensor:
    """x times the normal distribution function; approximate="tanh" by a formula."""
    if approximate not in ("none", "tanh"):
        raise ValueError(f"approximate: {approximate!r} is none of 'none', 'tanh'")
    return _f.gelu_tanh(input) if approximate == "tanh" else _f.gelu(input)


def softmax(input: Tensor, dim: int = -1) -> Tensor:
    """exp(x) over its sum along a dimension."""
    return _f.softmax(input, dim)


def log_softmax(input: Tensor, dim: int = -1) -> Tensor:
    """The logarithm of softmax()."""
    return _f.log_softmax(input, dim)


def embedding(input: Tensor, weight: Tensor) -> Tensor:
    """Rows of a table, chosen by whole numbers."""
    return _f.embedding(weight, input)


def layer_norm(input: Tensor, normalized_shape: Any = None, weight: Optional[Tensor] = None, bias: Optional[Tensor] = None,
               eps: float = 1e-5) -> Tensor:
    """Rows of mean 0 and variance 1, over the last dimension."""
    _last_dimension(input, normalized_shape)
    return _f.layer_norm(input, weight, bias, eps)


def rms_norm(input: Tensor, normalized_shape: Any = None, weight: Optional[Tensor] = None, eps: float = 1e-6) -> Tensor:
    """Rows of mean square 1, over the last dimension."""
    _last_dimension(input, normalized_shape)
    return _f.rms_norm(input, weight, eps)


def _last_dimension(input: Tensor, normalized_shape: Any) -> None:
    if normalized_shape is not None and tuple([normalized_shape] if isinstance(normalized_shape, int) else normalized_shape) != input.shape[-1:]:
        raise ValueError(f"normalized_shape: {normalized_shape} is not the last dimension, {input.shape[-1:]}")


def dropout(input: Tensor, p: float = 0.5, training: bool = True) -> Tensor:
    """Zeros with probability p, the others scaled."""
    return _f.dropout(input, p, training)


def scaled_dot_product_attention(query: Tensor, key: Tensor, value: Tensor, attn_mask: Optional[Tensor] = None, dropout_p: float = 0.0,
                                 is_causal: bool = False, scale: Optional[float] = None, enable_gqa: bool = False) -> Tensor:
    """softmax(query key^T scale + mask) value."""
    if scale == 0:
        raise ValueError("scale: 0 is no scale")
    return _f.attention(query, key, value, causal=is_causal, scale=scale or 0.0, mask=attn_mask, grouped_heads=enable_gqa, dropout=dropout_p)


def logsigmoid(input: Tensor) -> Tensor:
    """The logarithm of sigmoid(), without overflow."""
    return -_f.softplus(-input)


def pad(input: Tensor, pad: Sequence[int], mode: str = "constant", value: float = 0.0) -> Tensor:
    """Elements added at both ends of the last dimensions: (before, after) of the last one first."""
    if len(pad) % 2 or len(pad) > 2 * input.ndim:
        raise ValueError(f"pad: {len(pad)} numbers are no pairs for a tensor of {input.ndim} dimensions")
    before, after = [0] * input.ndim, [0] * input.ndim
    for i in range(len(pad) // 2):
        before[-1 - i], after[-1 - i] = pad[2 * i], pad[2 * i + 1]
    return _f.pad(input, before, after, mode, value)


def max_pool2d(input: Tensor, kernel_size: Any, stride: Any = None, padding: Any = 0, dilation: Any = 1, ceil_mode: bool = False) -> Tensor:
    """The largest elements of windows of [n, c, h, w]."""
    return _f.max_pool(input, 2, kernel=_pair(kernel_size), stride=_pair(kernel_size if stride is None else stride), padding=_pair(padding),
                       dilation=_pair(dilation), ceil_mode=ceil_mode)[0]


def avg_pool2d(input: Tensor, kernel_size: Any, stride: Any = None, padding: Any = 0, ceil_mode: bool = False,
               count_include_pad: bool = True) -> Tensor:
    """The means of windows of [n, c, h, w]."""
    return _f.avg_pool(input, 2, kernel=_pair(kernel_size), stride=_pair(kernel_size if stride is None else stride), padding=_pair(padding),
                       ceil_mode=ceil_mode, excludes_padding=not count_include_pad)


def _pair(given: Any) -> tuple[int, int]:
    return (given, given) if isinstance(given, int) else tuple(given)


def cross_entropy(input: Tensor, target: Tensor, weight: Optional[Tensor] = None, ignore_index: int = -100, reduction: str = "mean",
                  label_smoothing: float = 0.0) -> Tensor:
    """Cross entropy of logits [n, c] with classes [n]."""
    return _f.cross_entropy(input, target, reduction=reduction, ignore_index=ignore_index, label_smoothing=label_smoothing, weight=weight)


def nll_loss(input: Tensor, target: Tensor, ignore_index: int = -100, reduction: str = "mean") -> Tensor:
    """Minus the log-probabilities [n, c] of classes [n]."""
    return _f.nll(input, target, ignore_index, reduction)


def mse_loss(input: Tensor, target: Tensor, reduction: str = "mean") -> Tensor:
    """The square of the difference."""
    return _f.mse(input, target, reduction)


def l1_loss(input: Tensor, target: Tensor, reduction: str = "mean") -> Tensor:
    """The absolute difference."""
    return _f.l1(input, target, reduction)


def smooth_l1_loss(input: Tensor, target: Tensor, reduction: str = "mean", beta: float = 1.0) -> Tensor:
    """The square of small differences, the absolute value of large ones."""
    return _f.smooth_l1(input, target, beta, reduction)


def huber_loss(input: Tensor, target: Tensor, reduction: str = "mean", delta: float = 1.0) -> Tensor:
    """The square of small differences, the absolute value of large ones."""
    return _f.huber(input, target, delta, reduction)


def binary_cross_entropy(input: Tensor, target: Tensor, weight: Optional[Tensor] = None, reduction: str = "mean") -> Tensor:
    """Cross entropy of probabilities."""
    return _f.binary_cross_entropy(input, target, weight, reduction)


def binary_cross_entropy_with_logits(input: Tensor, target: Tensor, weight: Optional[Tensor] = None, reduction: str = "mean",
                                     pos_weight: Optional[Tensor] = None) -> Tensor:
    """Cross entropy of logits."""
    return _f.binary_cross_entropy_with_logits(input, target, weight, pos_weight, reduction)


def kl_div(input: Tensor, target: Tensor, reduction: str = "mean", log_target: bool = False) -> Tensor:
    """Kullback-Leibler divergence."""
    return _f.kl_div(input, target, log_target, reduction)


__all__ = ["avg_pool2d", "binary_cross_entropy", "binary_cross_entropy_with_logits", "conv1d", "conv2d", "conv3d", "cosine_similarity", "cross_entropy", "dropout", "elu",
           "embedding", "gelu", "gelu_tanh", "glu", "hardsigmoid", "hardswish", "huber_loss", "kl_div", "l1_loss", "layer_norm", "leaky_relu",
           "linear", "log_softmax", "logsigmoid", "max_pool2d", "mish", "mse_loss", "nll_loss", "normalize", "one_hot", "pad", "prelu", "relu", "rms_norm",
           "scaled_dot_product_attention", "selu", "sigmoid", "silu", "smooth_l1_loss", "softmax", "softplus", "tanh"]
