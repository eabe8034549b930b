"""The transformer of examples/transformer_lm in PyTorch: plain modules, weights and batches of the same bits."""

import math
from dataclasses import dataclass

import numpy
import torch
import torch.nn.functional as F
from safetensors import safe_open
from torch import nn

VOCABULARY = 256


@dataclass
class Sizes:
    layers: int
    width: int
    heads: int
    kv_heads: int
    context: int

    @property
    def head(self):
        return self.width // self.heads

    @property
    def hidden(self):
        return 64 * math.ceil(8 * self.width / 3 / 64)


def rotary_table(sizes):
    """Cosines and sines [context, head / 2], theta 10000."""
    steps = torch.arange(0, sizes.head, 2, dtype=torch.float64) / sizes.head
    angles = torch.outer(torch.arange(sizes.context, dtype=torch.float64), 10000.0 ** -steps)
    return angles.cos().float(), angles.sin().float()


def rotate(x, cosine, sine):
    """x [batch, position, heads, head]: dimension d is rotated with d + head / 2."""
    first, second = x.chunk(2, -1)
    cosine, sine = cosine[:, None], sine[:, None]
    return torch.cat((first * cosine - second * sine, second * cosine + first * sine), -1)


class Attention(nn.Module):
    def __init__(self, sizes):
        super().__init__()
        self.head = sizes.head
        self.wq = nn.Linear(sizes.width, sizes.heads * sizes.head, bias=False)
        self.wk = nn.Linear(sizes.width, sizes.kv_heads * sizes.head, bias=False)
        self.wv = nn.Linear(sizes.width, sizes.kv_heads * sizes.head, bias=False)
        self.wo = nn.Linear(sizes.heads * sizes.head, sizes.width, bias=False)

    def forward(self, x, cosine, sine):
        # The number of heads follows from the projections: a rank of a tensor-parallel mesh has a part of them.
        q, k, v = (w(x).unflatten(-1, (-1, self.head)) for w in (self.wq, self.wk, self.wv))
        q, k, v = rotate(q, cosine, sine).transpose(1, 2), rotate(k, cosine, sine).transpose(1, 2), v.transpose(1, 2)
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=q.shape[1] != k.shape[1])
        return self.wo(y.transpose(1, 2).flatten(-2))


class FeedForward(nn.Module):
    def __init__(self, sizes):
        super().__init__()
        self.w1 = nn.Linear(sizes.width, sizes.hidden, bias=False)
        self.w2 = nn.Linear(sizes.hidden, sizes.width, bias=False)
        self.w3 = nn.Linear(sizes.width, sizes.hidden, bias=False)

    def forward(self, x):
        return self.w2(F.silu(self.w1(x)) * self.w3(x))


class Layer(nn.Module):
    def __init__(self, sizes):
        super().__init__()
        self.attention_norm = nn.RMSNorm(sizes.width, eps=1e-5)
        self.attention = Attention(sizes)
        self.mlp_norm = nn.RMSNorm(sizes.width, eps=1e-5)
        self.mlp = FeedForward(sizes)

    def forward(self, x, cosine, sine):
        x = x + self.attention(self.attention_norm(x), cosine, sine)
        return x + self.mlp(self.mlp_norm(x))


class Transformer(nn.Module):
    def __init__(self, sizes, tie=False):
        super().__init__()
        self.embed = nn.Embedding(VOCABULARY, sizes.width)
        self.layers = nn.ModuleList(Layer(sizes) for _ in range(sizes.layers))
        self.norm = nn.RMSNorm(sizes.width, eps=1e-5)
        self.head = nn.Linear(sizes.width, VOCABULARY, bias=False)
        if tie:
            self.head.weight = self.embed.weight
        cosine, sine = rotary_table(sizes)
        self.register_buffer("cosine", cosine, persistent=False)
        self.register_buffer("sine", sine, persistent=False)

    def forward(self, tokens):
        x = self.embed(tokens)
        for layer in self.layers:
            x = layer(x, self.cosine, self.sine)
        return self.head(self.norm(x))


def load_weights(model, path):
    """Matrices are [in, out] in the file, and [out, in] in nn.Linear."""
    with safe_open(path, "pt") as file, torch.no_grad():
        for name, parameter in model.named_parameters():
            value = file.get_tensor(name)
            turned = parameter.ndim == 2 and name != "embed.weight"
            parameter.copy_(value.T if turned else value)


MASK = (1 << 64) - 1


def splitmix64(x):
    z = (x + 0x9E3779B97F4A7C15) & MASK
    z = ((z ^ z >> 30) * 0xBF58476D1CE4E5B9) & MASK
    z = ((z ^ z >> 27) * 0x94D049BB133111EB) & MASK
    return z ^ z >> 31


class Batches:
    """Bytes of a text and the bytes that follow; the last tenth of the text is for validation."""

    def __init__(self, path, seed, batch, context):
        text = numpy.fromfile(path, dtype=numpy.uint8)
        self.text = text[: len(text) - len(text) // 10]
        self.seed, self.batch, self.context = seed, batch, context

    def rows(self, step, first, count):
        """Tokens and targets [count, context] of rows first .. first + count - 1 of a step's batch."""
        starts = [
            splitmix64((self.seed * 2**32 + step * self.batch + row) & MASK) % (len(self.text) - self.context - 1)
            for row in range(first, first + count)
        ]
        windows = numpy.stack([self.text[start : start + self.context + 1] for start in starts]).astype(numpy.int64)
        windows = torch.from_numpy(windows)
        return windows[:, :-1].contiguous(), windows[:, 1:].contiguous()


def rate_of(step, steps, rate, warmup):
    if step < warmup:
        return rate * (step + 1) / warmup
    return rate * (0.1 + 0.9 * (1 + math.cos(math.pi * (step - warmup) / (steps - warmup))) / 2)
