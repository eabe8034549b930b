"""Layers of products, tables and dropout."""
from __future__ import annotations

from typing import Any, Optional

from .. import functional
from .._core import Tensor
from ..array_api import randn, zeros
from ..autograd import no_grad
from ..functions import einsum, uniform_
from .module import Module, Parameter


def uniform(bound: float, *shape: int, dtype: Any = None) -> Parameter:
    """A parameter with values between -bound and bound."""
    return Parameter(uniform_(zeros(*shape, dtype=dtype), -bound, bound))


class Linear(Module):
    """x W + b, with W [in_features, out_features] and b [out_features]: the transpose of PyTorch's weight."""

    def __init__(self, in_features: int, out_features: int, bias: bool = True, *, device: Any = None, dtype: Any = None) -> None:
        super().__init__()
        bound = in_features ** -0.5 if in_features else 0.0
        self.in_features, self.out_features = in_features, out_features
        self.weight = uniform(bound, in_features, out_features, dtype=dtype)
        self.register_parameter("bias", uniform(bound, out_features, dtype=dtype) if bias else None)

    def forward(self, x: Tensor) -> Tensor:
        product, bias = x @ self.weight, self.bias
        return product if bias is None else product + bias


class Bilinear(Module):
    """x1 W[o] x2 + b[o] for each output o, with W [out_features, in1_features, in2_features]."""

    def __init__(self, in1_features: int, in2_features: int, out_features: int, bias: bool = True, *, device: Any = None,
                 dtype: Any = None) -> None:
        super().__init__()
        bound = in1_features ** -0.5
        self.weight = uniform(bound, out_features, in1_features, in2_features, dtype=dtype)
        self.register_parameter("bias", uniform(bound, out_features, dtype=dtype) if bias else None)

    def forward(self, x1: Tensor, x2: Tensor) -> Tensor:
        first, second = x1.reshape(-1, x1.shape[-1]), x2.reshape(-1, x2.shape[-1])
        result = (einsum("ni,oij->noj", first, self.weight) * second.unsqueeze(1)).sum(-1).reshape(*x1.shape[:-1], self.weight.shape[0])
        bias = self.bias
        return result if bias is None else result + bias


class Embedding(Module):
    """Rows of a table [num_embeddings, embedding_dim], chosen by whole numbers. The row of `padding_idx` is 0, and stays so: it gets no
    gradient."""

    def __init__(self, num_embeddings: int, embedding_dim: int, padding_idx: Optional[int] = None, *, device: Any = None,
                 dtype: Any = None) -> None:
        super().__init__()
        if padding_idx is not None and not -num_embeddings <= padding_idx < num_embeddings:
            raise ValueError(f"padding_idx: {padding_idx} is no row of {num_embeddings}")
        self.num_embeddings, self.embedding_dim = num_embeddings, embedding_dim
        self.padding_idx = padding_idx % num_embeddings if padding_idx is not None else None
        self.weight = Parameter(randn(num_embeddings, embedding_dim, dtype=dtype))
        if padding_idx is not None:
            with no_grad():
                self.weight[padding_idx] = 0

    def forward(self, indices: Tensor) -> Tensor:
        return functional.embedding(indices, self.weight, self.padding_idx)


class _Dropout(Module):
    def __init__(self, p: float = 0.5, inplace: bool = False) -> None:
        super().__init__()
        if not 0 <= p <= 1:
            raise ValueError(f"p: {p} is no probability")
        self.p = p


class Dropout(_Dropout):
    """Zeros with probability p while training."""

    def forward(self, x: Tensor) -> Tensor:
        return functional.dropout(x, self.p, self.training)


class Dropout2d(_Dropout):
    """Channels of [n, c, ...] that are zero with probability p while training."""

    def forward(self, x: Tensor) -> Tensor:
        return functional.dropout2d(x, self.p, self.training)


class Dropout1d(Dropout2d):
    """Dropout2d under the name for [n, c, l]."""


class Dropout3d(Dropout2d):
    """Dropout2d under the name for [n, c, d, h, w]."""


class CosineSimilarity(Module):
    """The cosine of the angle between vectors along a dimension."""

    def __init__(self, dim: int = 1, eps: float = 1e-8) -> None:
        super().__init__()
        self.dim, self.eps = dim, eps

    def forward(self, x1: Tensor, x2: Tensor) -> Tensor:
        return functional.cosine_similarity(x1, x2, self.dim, self.eps)
