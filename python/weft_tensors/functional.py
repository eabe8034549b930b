"""Functions under the names and with the argument orders of torch.nn.functional."""
from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Optional

from . import functions as _f
from ._core import Tensor, _lib, made, many, spread
from .functions import (cosine_similarity, elu, gelu_tanh, glu, hardsigmoid, hardswish, leaky_relu, linear, mish, normalize, one_hot,
                        prelu, relu, selu, sigmoid,
                        silu, softplus, tanh)
from .more_names import channel_shuffle, pixel_shuffle, pixel_unshuffle


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


def embedding(input: Tensor, weight: Tensor, padding_idx: Optional[int] = None) -> Tensor:
    """Rows of a table, chosen by whole numbers. The row of `padding_idx` gets no gradient."""
    rows = _f.embedding(weight, input)
    if padding_idx is None:
        return rows
    return _f.where((input == padding_idx % weight.shape[0]).unsqueeze(-1), rows.detach(), rows)


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


def batch_norm(input: Tensor, running_mean: Optional[Tensor], running_var: Optional[Tensor], weight: Optional[Tensor] = None,
               bias: Optional[Tensor] = None, training: bool = False, momentum: float = 0.1, eps: float = 1e-5) -> Tensor:
    """Channels of [n, c, ...] with mean 0 and variance 1, over the whole batch; without training, by the running statistics."""
    return _f.batch_norm(input, running_mean, running_var, weight, bias, training, momentum, eps)


def group_norm(input: Tensor, num_groups: int, weight: Optional[Tensor] = None, bias: Optional[Tensor] = None, eps: float = 1e-5) -> Tensor:
    """Groups of each sample's channels with mean 0 and variance 1."""
    return _f.group_norm(input, num_groups, weight, bias, eps)


def instance_norm(input: Tensor, running_mean: Optional[Tensor] = None, running_var: Optional[Tensor] = None,
                  weight: Optional[Tensor] = None,
                  bias: Optional[Tensor] = None, use_input_stats: bool = True, momentum: float = 0.1, eps: float = 1e-5) -> Tensor:
    """Each sample's channels with mean 0 and variance 1."""
    if not use_input_stats or running_mean is not None or running_var is not None:
        raise ValueError("instance_norm: running statistics are not supported")
    return _f.instance_norm(input, weight, bias, eps)


def dropout(input: Tensor, p: float = 0.5, training: bool = True) -> Tensor:
    """Zeros with probability p, the others scaled."""
    return _f.dropout(input, p, training)


def dropout2d(input: Tensor, p: float = 0.5, training: bool = True) -> Tensor:
    """Channels of [n, c, ...] that are zero with probability p, the others scaled."""
    return made(_lib.weft_dropout2d(input, p, training, None))


dropout1d = dropout3d = dropout2d
_SATURATED = -1.7580993408473766 # of selu() far below 0: what alpha_dropout() puts in place of elements


def alpha_dropout(input: Tensor, p: float = 0.5, training: bool = False) -> Tensor:
    """Elements that take selu()'s lowest value with probability p; then mean and variance become what they were."""
    return _alpha(input, p, dropout(_f.ones_like(input), p, training)) if training and p > 0 else input


def feature_alpha_dropout(input: Tensor, p: float = 0.5, training: bool = False) -> Tensor:
    """alpha_dropout() of whole channels of [n, c, ...]."""
    return _alpha(input, p, dropout2d(_f.ones_like(input), p, training)) if training and p > 0 else input


def _alpha(input: Tensor, p: float, kept: Tensor) -> Tensor:
    if p == 1:
        return input * 0
    scale = 1 / math.sqrt((1 - p) * (1 + p * _SATURATED ** 2))
    return _f.where(kept != 0, input, _f.full_like(input, _SATURATED)) * scale - scale * p * _SATURATED


# ---- activations that are made of others ----
def relu6(input: Tensor) -> Tensor:
    """Values clamped to 0 .. 6."""
    return input.clip(0.0, 6.0)


def hardtanh(input: Tensor, min_val: float = -1.0, max_val: float = 1.0) -> Tensor:
    """Values clamped to min_val .. max_val."""
    return input.clip(min_val, max_val)


def celu(input: Tensor, alpha: float = 1.0) -> Tensor:
    """x, or alpha (exp(x / alpha) - 1) if that is less than 0."""
    return _f.elu(input / alpha) * alpha


def softsign(input: Tensor) -> Tensor:
    """x / (1 + |x|)."""
    return input / (abs(input) + 1)


def tanhshrink(input: Tensor) -> Tensor:
    """x - tanh(x)."""
    return input - tanh(input)


def threshold(input: Tensor, threshold: float, value: float) -> Tensor:
    """x where it is above the threshold, elsewhere the value."""
    return _f.masked_fill(input, _f.logical_not(input > threshold), value)


def softmin(input: Tensor, dim: int = -1) -> Tensor:
    """softmax() of -x."""
    return _f.softmax(-input, dim)


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


# ---- images: [n, c, ...], or [c, ...] without a batch ----
def _with_batch(function: Any, input: Tensor, num_dims: int) -> Tensor:
    """function(input), of an input with a dimension of samples."""
    if input.ndim != num_dims + 1:
        return function(input)
    result = function(input.unsqueeze(0))
    return result.reshape(result.shape[1:])


def _same(input: Tensor, weight: Tensor, stride: Any, dilation: Any, num_dims: int) -> tuple[Tensor, list[int]]:
    """The input and the padding with which a convolution keeps the size. An odd number of zeros has one more at the end."""
    if any(each != 1 for each in many(stride)):
        raise ValueError("padding='same' needs stride 1")
    totals = [by * (size - 1) for by, size in zip(spread(dilation, num_dims, "dilation"), weight.shape[2:])]
    if any(total % 2 for total in totals):
        input = pad(input, [each for total in reversed(totals) for each in (0, total % 2)])
    return input, [total // 2 for total in totals]


def _convolution(num_dims: int) -> Any:
    made_by_c = (_f.conv1d, _f.conv2d, _f.conv3d)[num_dims - 1]

    def convolution(input: Tensor, weight: Tensor, bias: Optional[Tensor] = None, stride: Any = 1, padding: Any = 0, dilation: Any = 1,
                    groups: int = 1) -> Tensor:
        if isinstance(padding, str):
            if padding not in ("same", "valid"):
                raise ValueError(f"padding: {padding!r} is neither 'same' nor 'valid', and no number")
            input, padding = _same(input, weight, stride, dilation, num_dims) if padding == "same" else (input, 0)
        return _with_batch(lambda x: made_by_c(x, weight, bias, stride=stride, padding=padding, dilation=dilation, groups=groups), input,
                           num_dims)

    convolution.__name__ = convolution.__qualname__ = f"conv{num_dims}d"
    convolution.__doc__ = "Convolution of [n, c, ...] with a weight [o, c / groups, ...]. padding='same' keeps the size."
    return convolution


def _transposed(num_dims: int) -> Any:
    made_by_c = (_f.conv_transpose1d, _f.conv_transpose2d, _f.conv_transpose3d)[num_dims - 1]

    def transposed(input: Tensor, weight: Tensor, bias: Optional[Tensor] = None, stride: Any = 1, padding: Any = 0, output_padding: Any = 0,
                   groups: int = 1, dilation: Any = 1) -> Tensor:
        return _with_batch(lambda x: made_by_c(x, weight, bias, output_padding, stride=stride, padding=padding, dilation=dilation,
                                               groups=groups),
                           input, num_dims)

    transposed.__name__ = transposed.__qualname__ = f"conv_transpose{num_dims}d"
    transposed.__doc__ = "Transposed convolution of [n, c, ...] with a weight [c, o / groups, ...]."
    return transposed


def _max_pool(num_dims: int) -> Any:
    def max_pool(input: Tensor, kernel_size: Any, stride: Any = None, padding: Any = 0, dilation: Any = 1,
                 ceil_mode: bool = False) -> Tensor:
        options = {"kernel": kernel_size, "stride": kernel_size if stride is None else stride, "padding": padding, "dilation": dilation}
        given: dict[str, Any] = {name: spread(value, num_dims, name) + [0] * (3 - num_dims) for name, value in options.items()}
        return _with_batch(lambda x: _f.max_pool(x, num_dims, ceil_mode=ceil_mode, **given)[0], input, num_dims)

    max_pool.__name__ = max_pool.__qualname__ = f"max_pool{num_dims}d"
    max_pool.__doc__ = "The largest elements of windows of [n, c, ...]."
    return max_pool


def _avg_pool(num_dims: int) -> Any:
    def avg_pool(input: Tensor, kernel_size: Any, stride: Any = None, padding: Any = 0, ceil_mode: bool = False,
                 count_include_pad: bool = True,
                 divisor_override: Optional[int] = None) -> Tensor:
        options = {"kernel": kernel_size, "stride": kernel_size if stride is None else stride, "padding": padding}
        given: dict[str, Any] = {name: spread(value, num_dims, name) + [0] * (3 - num_dims) for name, value in options.items()}
        return _with_batch(lambda x: _f.avg_pool(x, num_dims, ceil_mode=ceil_mode, excludes_padding=not count_include_pad,
                                                 divisor=divisor_override or 0, **given), input, num_dims)

    avg_pool.__name__ = avg_pool.__qualname__ = f"avg_pool{num_dims}d"
    avg_pool.__doc__ = "The means of windows of [n, c, ...]."
    return avg_pool


def _adaptive(name: str, function: Any, num_dims: int) -> Any:
    def adaptive(input: Tensor, output_size: Any) -> Tensor:
        sizes = [-1 if each is None else each for each in spread(-1 if output_size is None else output_size, num_dims, "output_size")]
        return _with_batch(lambda x: function(x, sizes), input, num_dims)

    adaptive.__name__ = adaptive.__qualname__ = f"{name}{num_dims}d"
    adaptive.__doc__ = "Windows of [n, c, ...] as large as gives the sizes; None keeps one."
    return adaptive


conv1d, conv2d, conv3d = map(_convolution, (1, 2, 3))
conv_transpose1d, conv_transpose2d, conv_transpose3d = map(_transposed, (1, 2, 3))
max_pool1d, max_pool2d, max_pool3d = map(_max_pool, (1, 2, 3))
avg_pool1d, avg_pool2d, avg_pool3d = map(_avg_pool, (1, 2, 3))
adaptive_avg_pool1d, adaptive_avg_pool2d, adaptive_avg_pool3d = (_adaptive("adaptive_avg_pool", _f.adaptive_avg_pool, i) for i in (1, 2, 3))
adaptive_max_pool1d, adaptive_max_pool2d, adaptive_max_pool3d = (
    _adaptive("adaptive_max_pool", lambda x, sizes: _f.adaptive_max_pool(x, sizes)[0], i) for i in (1, 2, 3))


def interpolate(input: Tensor, size: Any = None, scale_factor: Any = None, mode: str = "nearest",
                align_corners: Optional[bool] = None) -> Tensor:
    """Images [n, c, ...] in another size: mode "nearest", "nearest-exact", "linear", "bilinear", "trilinear", "bicubic"."""
    num_dims = input.ndim - 2
    if (size is None) == (scale_factor is None):
        raise ValueError("interpolate: either size or scale_factor is expected")
    sizes = spread(size, num_dims, "size") if size is not None else [0] * num_dims
    scales = spread(scale_factor, num_dims, "scale_factor") if scale_factor is not None else [0.0] * num_dims
    own = "linear" if mode in ("bilinear", "trilinear") else mode
    return _f.interpolate(input, num_dims, mode=own, sizes=sizes + [0] * (3 - num_dims),
                          scale=[float(each) for each in scales] + [0.0] * (3 - num_dims),
                          align_corners=bool(align_corners))


def upsample_bilinear(input: Tensor, size: Any = None, scale_factor: Any = None) -> Tensor:
    """interpolate() by two straight lines, with the corners of both images alike."""
    return interpolate(input, size, scale_factor, "bilinear", True)


def upsample_nearest(input: Tensor, size: Any = None, scale_factor: Any = None) -> Tensor:
    """interpolate() by the nearest element."""
    return interpolate(input, size, scale_factor, "nearest")


def hardshrink(input: Tensor, lambd: float = 0.5) -> Tensor:
    """0 from -lambd to lambd, else the element."""
    return _f.masked_fill(input, _f.abs(input) <= lambd, 0)


def softshrink(input: Tensor, lambd: float = 0.5) -> Tensor:
    """Elements nearer to 0 by lambd, and 0 where they would pass it."""
    return input - input.clamp(-lambd, lambd)


# ---- losses ----
def _by_class(function: Any, input: Tensor, target: Tensor, reduction: str) -> Tensor:
    """function(logits [n, c], classes [n]) of [n, c, ...] and [n, ...], or of [c] and a class."""
    if input.ndim == 2:
        return function(input, target)
    if input.ndim < 2:
        return function(input.unsqueeze(0), target.unsqueeze(0)).reshape(())
    classes = input.shape[1]
    of_classes = target.ndim == input.ndim - 1
    rows = input.transpose(1, -1).reshape(-1, classes)
    others = target.transpose(1, -1) if target.ndim > 2 or not of_classes else target
    result = function(rows, others.reshape(-1) if of_classes else others.reshape(-1, classes))
    if reduction != "none":
        return result
    shape = list(input.shape)
    shape[1], shape[-1] = shape[-1], shape[1]
    result = result.reshape(shape[:-1])
    return result.transpose(1, -1) if result.ndim > 2 else result


def cross_entropy(input: Tensor, target: Tensor, weight: Optional[Tensor] = None, ignore_index: int = -100, reduction: str = "mean",
                  label_smoothing: float = 0.0) -> Tensor:
    """Cross entropy of logits [n, c] with classes [n], or with probabilities [n, c]; also of [n, c, ...]."""
    return _by_class(lambda logits, classes: _f.cross_entropy(logits, classes, reduction=reduction, ignore_index=ignore_index,
                                                              label_smoothing=label_smoothing, weight=weight), input, target, reduction)


def nll_loss(input: Tensor, target: Tensor, weight: Optional[Tensor] = None, ignore_index: int = -100, reduction: str = "mean") -> Tensor:
    """Minus the log-probabilities [n, c] of classes [n]; also of [n, c, ...]. With weights [c] of classes, the mean is over the weights."""
    if weight is None:
        return _by_class(lambda rows, classes: _f.nll(rows, classes, ignore_index, reduction), input, target, reduction)
    total = "sum" if reduction == "mean" else reduction
    result = _by_class(lambda rows, classes: _f.nll(rows * weight, classes, ignore_index, total), input, target, total)
    if reduction != "mean":
        return result
    counted = _f.where(target == ignore_index, _f.zeros_like(target), target).reshape(-1)
    weights = _f.where((target == ignore_index).reshape(-1), _f.zeros_like(counted).astype(weight.dtype), _f.index_select(weight, 0, counted))
    return result / weights.sum()


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
    """Kullback-Leibler divergence. reduction="batchmean" divides the sum by the number of rows."""
    if reduction == "batchmean":
        return _f.kl_div(input, target, log_target, "sum") / float(input.shape[0])
    return _f.kl_div(input, target, log_target, reduction)


def _reduced(losses: Tensor, reduction: str) -> Tensor:
    if reduction not in ("mean", "sum", "none"):
        raise ValueError(f"reduction: {reduction!r} is none of 'mean', 'sum', 'none'")
    return losses.mean() if reduction == "mean" else losses.sum() if reduction == "sum" else losses


def soft_margin_loss(input: Tensor, target: Tensor, reduction: str = "mean") -> Tensor:
    """log(1 + exp(-target input)), of targets 1 and -1."""
    return _reduced(-logsigmoid(target * input), reduction)


def margin_ranking_loss(input1: Tensor, input2: Tensor, target: Tensor, margin: float = 0.0, reduction: str = "mean") -> Tensor:
    """max(0, -target (input1 - input2) + margin)."""
    return _reduced(relu(-target * (input1 - input2) + float(margin)), reduction)


def cosine_embedding_loss(input1: Tensor, input2: Tensor, target: Tensor, margin: float = 0.0, reduction: str = "mean") -> Tensor:
    """1 - cos of the angle of rows for targets 1, max(0, cos - margin) for -1."""
    cosine = _f.cosine_similarity(input1, input2, -1)
    return _reduced(_f.where(target > 0, 1.0 - cosine, relu(cosine - float(margin))), reduction)


def pairwise_distance(x1: Tensor, x2: Tensor, p: float = 2.0, eps: float = 1e-6) -> Tensor:
    """The p-norm of x1 - x2 + eps over the last dimension."""
    difference = abs(x1 - x2 + float(eps))
    return difference.square().sum(-1).sqrt() if p == 2 else (difference ** float(p)).sum(-1) ** (1.0 / p)


def triplet_margin_loss(anchor: Tensor, positive: Tensor, negative: Tensor, margin: float = 1.0, p: float = 2.0, eps: float = 1e-6,
                        reduction: str = "mean") -> Tensor:
    """max(0, |anchor - positive| - |anchor - negative| + margin)."""
    return _reduced(relu(pairwise_distance(anchor, positive, p, eps) - pairwise_distance(anchor, negative, p, eps) + float(margin)),
                    reduction)


def poisson_nll_loss(input: Tensor, target: Tensor, log_input: bool = True, full: bool = False, eps: float = 1e-8,
                     reduction: str = "mean") -> Tensor:
    """Minus the log-likelihood of counts; `full` adds Stirling's approximation of log(target!)."""
    losses = _f.exp(input) - target * input if log_input else input - target * _f.log(input + float(eps))
    if full:
        stirling = target * _f.log(target) - target + _f.log(target * (2 * math.pi)) * 0.5
        losses = losses + _f.masked_fill(stirling, target <= 1, 0.0)
    return _reduced(losses, reduction)


def gaussian_nll_loss(input: Tensor, target: Tensor, var: Tensor, full: bool = False, eps: float = 1e-6, reduction: str = "mean") -> Tensor:
    """Minus the log-likelihood of normal distributions. Variances below eps count as eps, without a gradient."""
    var = var + (var.clip(eps) - var).detach()
    losses = (_f.log(var) + (input - target).square() / var) * 0.5
    return _reduced(losses + 0.5 * math.log(2 * math.pi) if full else losses, reduction)


__all__ = ["alpha_dropout", "feature_alpha_dropout", "channel_shuffle", "hardshrink", "pixel_shuffle", "pixel_unshuffle", "softshrink", "upsample_bilinear",
           "upsample_nearest", "adaptive_avg_pool1d", "adaptive_avg_pool2d", "adaptive_avg_pool3d", "adaptive_max_pool1d", "adaptive_max_pool2d",
           "adaptive_max_pool3d", "avg_pool1d", "avg_pool2d", "avg_pool3d", "batch_norm", "binary_cross_entropy",
           "binary_cross_entropy_with_logits", "celu", "conv1d", "conv2d", "conv3d", "conv_transpose1d", "conv_transpose2d",
           "conv_transpose3d", "cosine_embedding_loss", "cosine_similarity", "cross_entropy", "dropout", "dropout1d", "dropout2d",
           "dropout3d", "elu", "embedding", "gaussian_nll_loss", "gelu", "gelu_tanh", "glu", "group_norm", "hardsigmoid", "hardswish",
           "hardtanh", "huber_loss", "instance_norm", "interpolate", "kl_div", "l1_loss", "layer_norm", "leaky_relu", "linear",
           "log_softmax", "logsigmoid", "margin_ranking_loss", "max_pool1d", "max_pool2d", "max_pool3d", "mish", "mse_loss", "nll_loss",
           "normalize", "one_hot", "pad", "pairwise_distance", "poisson_nll_loss", "prelu", "relu", "relu6", "rms_norm",
           "scaled_dot_product_attention", "selu", "sigmoid", "silu", "smooth_l1_loss", "soft_margin_loss", "softmax", "softmin",
           "softplus", "softsign", "tanh", "tanhshrink", "threshold", "triplet_margin_loss"]
