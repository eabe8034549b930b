"""Losses as modules."""
from __future__ import annotations

from typing import Any, Optional

from .. import functional
from .._core import Tensor
from .module import Module


def _loss(name: str, function: Any, doc: str, **defaults: Any) -> Any:
    """A module class that calls function(*tensors, **settings); the settings are keywords."""
    settings = {**defaults, "reduction": "mean"}

    def __init__(self: Any, **keywords: Any) -> None:
        Module.__init__(self)
        if set(keywords) - set(settings):
            further = ", ".join(sorted(set(keywords) - set(settings)))
            raise TypeError(f"{name} takes {', '.join(f'{each}=' for each in settings)}, not {further}")
        self.options = {**settings, **keywords}

    def forward(self: Any, *tensors: Tensor) -> Tensor:
        return function(*tensors, **self.options)

    return type(name, (Module,), {"__init__": __init__, "forward": forward, "__doc__": doc, "__module__": __name__})


MSELoss = _loss("MSELoss", functional.mse_loss, "The square of the difference.")
L1Loss = _loss("L1Loss", functional.l1_loss, "The absolute difference.")
SmoothL1Loss = _loss("SmoothL1Loss", functional.smooth_l1_loss, "The square of small differences, the absolute value of large ones.",
                     beta=1.0)
HuberLoss = _loss("HuberLoss", functional.huber_loss, "The square of small differences, the absolute value of large ones.", delta=1.0)
KLDivLoss = _loss("KLDivLoss", functional.kl_div, "Kullback-Leibler divergence of log-probabilities.", log_target=False)
SoftMarginLoss = _loss("SoftMarginLoss", functional.soft_margin_loss, "log(1 + exp(-target input)), of targets 1 and -1.")
MarginRankingLoss = _loss("MarginRankingLoss", functional.margin_ranking_loss, "max(0, -target (x1 - x2) + margin).", margin=0.0)
CosineEmbeddingLoss = _loss("CosineEmbeddingLoss", functional.cosine_embedding_loss, "1 - cos for targets 1, max(0, cos - margin) for -1.",
                            margin=0.0)
TripletMarginLoss = _loss("TripletMarginLoss", functional.triplet_margin_loss,
                          "max(0, |anchor - positive| - |anchor - negative| + margin).", margin=1.0, p=2.0,
                          eps=1e-6)
PoissonNLLLoss = _loss("PoissonNLLLoss", functional.poisson_nll_loss, "Minus the log-likelihood of counts.", log_input=True, full=False,
                       eps=1e-8)
GaussianNLLLoss = _loss("GaussianNLLLoss", functional.gaussian_nll_loss,
                        "Minus the log-likelihood of normal distributions: (input, target, variance).", full=False,
                        eps=1e-6)


class _Weighted(Module):
    """A loss whose weights are buffers: distributed with the module, and saved with it."""

    def __init__(self, weight: Optional[Tensor], **options: Any) -> None:
        super().__init__()
        self.options = options
        self.register_buffer("weight", weight)


class CrossEntropyLoss(_Weighted):
    """Cross entropy of logits [n, c] with classes [n], or [n, c, ...] with [n, ...]."""

    def __init__(self, weight: Optional[Tensor] = None, *, ignore_index: int = -100, reduction: str = "mean",
                 label_smoothing: float = 0.0) -> None:
        super().__init__(weight, ignore_index=ignore_index, reduction=reduction, label_smoothing=label_smoothing)

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        return functional.cross_entropy(input, target, self.weight, **self.options)


class NLLLoss(Module):
    """Minus the log-probabilities [n, c] of classes [n]."""

    def __init__(self, *, ignore_index: int = -100, reduction: str = "mean") -> None:
        super().__init__()
        self.options: dict[str, Any] = {"ignore_index": ignore_index, "reduction": reduction}

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        return functional.nll_loss(input, target, **self.options)


class BCELoss(_Weighted):
    """Cross entropy of probabilities."""

    def __init__(self, weight: Optional[Tensor] = None, *, reduction: str = "mean") -> None:
        super().__init__(weight, reduction=reduction)

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        return functional.binary_cross_entropy(input, target, self.weight, **self.options)


class BCEWithLogitsLoss(_Weighted):
    """Cross entropy of logits."""

    def __init__(self, weight: Optional[Tensor] = None, *, reduction: str = "mean", pos_weight: Optional[Tensor] = None) -> None:
        super().__init__(weight, reduction=reduction)
        self.register_buffer("pos_weight", pos_weight)

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        return functional.binary_cross_entropy_with_logits(input, target, self.weight, pos_weight=self.pos_weight, **self.options)
