"""Attention and transformer layers. Projections are Linear modules, so that plans of parallel styles reach them by name."""
from __future__ import annotations

from collections.abc import Callable
from typing import Any, Optional, Union

from .. import functional
from .._core import Tensor, bool_
from ..array_api import arange, where
from . import init
from .containers import ModuleList
from .layers import Dropout, Linear
from .module import Module
from .norms import LayerNorm


class MultiheadAttention(Module):
    """Attention of several heads, with torch.nn.MultiheadAttention's arguments and masks: true in `attn_mask` and `key_padding_mask` hides
    a key. Its children are q_proj, k_proj, v_proj and out_proj. Returns the output, and the weights or None."""

    def __init__(self, embed_dim: int, num_heads: int, dropout: float = 0.0, bias: bool = True, kdim: Optional[int] = None,
                 vdim: Optional[int] = None,
                 batch_first: bool = False, *, device: Any = None, dtype: Any = None) -> None:
        super().__init__()
        if embed_dim % num_heads:
            raise ValueError(f"embed_dim: {embed_dim} is no multiple of num_heads, {num_heads}")
        self.embed_dim, self.num_heads, self.dropout, self.batch_first = embed_dim, num_heads, dropout, batch_first
        self.q_proj = Linear(embed_dim, embed_dim, bias, dtype=dtype)
        self.k_proj = Linear(embed_dim if kdim is None else kdim, embed_dim, bias, dtype=dtype)
        self.v_proj = Linear(embed_dim if vdim is None else vdim, embed_dim, bias, dtype=dtype)
        self.out_proj = Linear(embed_dim, embed_dim, bias, dtype=dtype)
        for each in (self.q_proj, self.k_proj, self.v_proj, self.out_proj):
            if each is not self.out_proj:
                init.xavier_uniform_(each.weight)
            if bias:
                init.zeros_(each.bias)

    def _computed(self, arguments: tuple[Any, ...], keywords: dict[str, Any]) -> Any:
        needed = keywords.get("need_weights", arguments[4] if len(arguments) > 4 else True)
        self.num_outputs = 2 if needed else 1
        results = super()._computed(arguments, keywords)
        return results if needed else (results, None)

    def forward(self, query: Tensor, key: Tensor, value: Tensor, key_padding_mask: Optional[Tensor] = None, need_weights: bool = True,
                attn_mask: Optional[Tensor] = None, average_attn_weights: bool = True, is_causal: bool = False) -> Any:
        one = query.ndim == 2 # no batch
        if one:
            query, key, value = [each.unsqueeze(0) for each in (query, key, value)]
        elif not self.batch_first:
            query, key, value = [each.transpose(0, 1) for each in (query, key, value)]
        padding = key_padding_mask.unsqueeze(0) if one and key_padding_mask is not None else key_padding_mask
        q, k, v = self._heads(self.q_proj(query)), self._heads(self.k_proj(key)), self._heads(self.v_proj(value))
        mask = self._mask(q, k, padding, attn_mask, is_causal and (need_weights or padding is not None or attn_mask is not None))
        dropout = self.dropout if self.training else 0.0
        weights = None
        if need_weights:
            scores = q @ k.mT * float(q.shape[-1] ** -0.5)
            weights = functional.softmax(scores if mask is None else scores + mask, dim=-1)
            mixed = functional.dropout(weights, dropout) @ v
        else:
            mixed = functional.scaled_dot_product_attention(q, k, v, mask, dropout, is_causal and mask is None)
        out = self.out_proj(mixed.transpose(1, 2).reshape(query.shape[0], query.shape[1], self.embed_dim))
        out = out.reshape(out.shape[1:]) if one else out if self.batch_first else out.transpose(0, 1)
        if weights is None:
            return out
        weights = weights.mean(dim=1) if average_attn_weights else weights
        return out, weights.reshape(weights.shape[1:]) if one else weights

    def _heads(self, x: Tensor) -> Tensor:
        return x.reshape(x.shape[0], x.shape[1], self.num_heads, -1).transpose(1, 2)

    def _mask(self, q: Tensor, k: Tensor, padding: Optional[Tensor], mask: Optional[Tensor], causal: bool) -> Optional[Tensor]:
        """What is added to the scores, [.., heads or 1, rows, keys]."""
        parts = []
        if mask is not None:
            parts.append(_added(mask if mask.ndim == 2 else mask.reshape(-1, self.num_heads, *mask.shape[1:]), q))
        if padding is not None:
            parts.append(_added(padding.reshape(padding.shape[0], 1, 1, padding.shape[1]), q))
        if causal:
            rows, keys = arange(q.shape[2], mesh=q.mesh), arange(k.shape[2], mesh=q.mesh)
            parts.append(_added(keys.unsqueeze(0) > rows.unsqueeze(1), q))
        return sum(parts[1:], parts[0]) if parts else None


def _added(mask: Tensor, like: Tensor) -> Tensor:
    """Minus infinity where a mask of truth values hides a key."""
    return where(mask, float("-inf"), 0.0).astype(like.dtype) if mask.dtype is bool_ else mask


class TransformerEncoderLayer(Module):
    """Self-attention and two Linear layers with an activation between them, each with dropout, a sum and a norm."""

    def __init__(self, d_model: int, nhead: int, dim_feedforward: int = 2048, dropout: float = 0.1,
                 activation: Union[str, Callable[[Tensor], Tensor]] = "relu", layer_norm_eps: float = 1e-5, batch_first: bool = False,
                 norm_first: bool = False, bias: bool = True, *, device: Any = None, dtype: Any = None) -> None:
        super().__init__()
        if activation not in ("relu", "gelu") and not callable(activation):
            raise ValueError(f"activation: {activation!r} is neither 'relu' nor 'gelu', and no function")
        self.settings = {"d_model": d_model, "nhead": nhead, "dim_feedforward": dim_feedforward, "dropout": dropout,
                         "activation": activation,
                         "layer_norm_eps": layer_norm_eps, "batch_first": batch_first, "norm_first": norm_first, "bias": bias,
                         "dtype": dtype}
        self.norm_first = norm_first
        known: dict[str, Any] = {"relu": functional.relu, "gelu": functional.gelu}
        self.activation = known[activation] if isinstance(activation, str) else activation
        self.self_attn = MultiheadAttention(d_model, nhead, dropout, bias, batch_first=batch_first, dtype=dtype)
        self.linear1 = Linear(d_model, dim_feedforward, bias, dtype=dtype)
        self.linear2 = Linear(dim_feedforward, d_model, bias, dtype=dtype)
        self.norm1, self.norm2 = (LayerNorm(d_model, layer_norm_eps, bias=bias, dtype=dtype) for _ in range(2))
        self.dropout, self.dropout1, self.dropout2 = Dropout(dropout), Dropout(dropout), Dropout(dropout)

    def forward(self, src: Tensor, src_mask: Optional[Tensor] = None, src_key_padding_mask: Optional[Tensor] = None,
                is_causal: bool = False) -> Tensor:
        def attend(x: Tensor) -> Tensor:
            return self.dropout1(self.self_attn(x, x, x, attn_mask=src_mask, key_padding_mask=src_key_padding_mask, need_weights=False,
                                                is_causal=is_causal)[0])

        if self.norm_first:
            x = src + attend(self.norm1(src))
            return x + self._feed(self.norm2(x))
        x = self.norm1(src + attend(src))
        return self.norm2(x + self._feed(x))

    def _feed(self, x: Tensor) -> Tensor:
        return self.dropout2(self.linear2(self.dropout(self.activation(self.linear1(x)))))


class TransformerEncoder(Module):
    """Layers with the settings and the first values of one TransformerEncoderLayer, one after another."""

    def __init__(self, encoder_layer: TransformerEncoderLayer, num_layers: int, norm: Optional[Module] = None) -> None:
        super().__init__()
        self.layers = ModuleList()
        for _ in range(num_layers):
            layer = type(encoder_layer)(**encoder_layer.settings)
            layer.load_state_dict(encoder_layer.state_dict())
            self.layers.append(layer)
        self.norm = norm

    def forward(self, src: Tensor, mask: Optional[Tensor] = None, src_key_padding_mask: Optional[Tensor] = None,
                is_causal: bool = False) -> Tensor:
        x = src
        for layer in self.layers:
            x = layer(x, src_mask=mask, src_key_padding_mask=src_key_padding_mask, is_causal=is_causal)
        return x if self.norm is None else self.norm(x)
