"""Vectors of norm 1, cosines, norms of matrices, gates: nn.h."""

import math

import torch
import torch.nn.functional as F

from drafts import Draft, any_dim, any_shape, any_type, broadcast_partner, with_edges
from rows import Row, family
from values import FLOATING, Operand

KINDS = ["fro", 1, -1, math.inf, -math.inf]


def vectors(random):
    shape = any_shape(random, least=1)
    values = {"dim": any_dim(random, shape), "p": random.choice([1.0, 2.0, 2.0, 3.0, math.inf]),
              "epsilon": random.choice([1e-12, 0.5])}
    if values["p"] == math.inf:
        shape[values["dim"]] = max(shape[values["dim"]], 1)
    return Draft([Operand(any_type(random, FLOATING), shape)], values)


def pairs(random):
    shape = any_shape(random, least=1)
    type_name, shapes = any_type(random, FLOATING), [shape, broadcast_partner(random, shape)]
    random.shuffle(shapes)
    values = {"dim": any_dim(random, shape), "epsilon": random.choice([1e-8, 0.5])}
    return Draft([Operand(type_name, s) for s in shapes], values)


def matrices(random):
    shape = any_shape(random, least=2)
    kind = random.randrange(5)
    if kind > 0:
        shape[-1], shape[-2] = max(shape[-1], 1), max(shape[-2], 1)
    return Draft([with_edges(random, Operand(any_type(random, FLOATING), shape), 0.1)],
                 {"kind": kind, "keepdim": random.randrange(2)})


def even(random):
    shape = any_shape(random, least=1)
    dim = any_dim(random, shape)
    shape[dim] = 2 * ((shape[dim] + 1) // 2)
    return Draft([with_edges(random, Operand(any_type(random, FLOATING), shape), 0.1)], {"dim": dim})


def slopes(random):
    shape = any_shape(random)
    type_name = any_type(random, FLOATING)
    size = shape[1] if len(shape) > 1 and random.random() < 0.7 else 1
    return Draft([with_edges(random, Operand(type_name, shape), 0.2), Operand(type_name, [size])])


def cosines(x, a):
    """PyTorch counts the dimension in the broadcast shape."""
    return F.cosine_similarity(x[0], x[1], a["dim"], a["epsilon"])


def size_of(x, _):
    """Of sums of that many products of numbers of at most 1."""
    return torch.tensor(2.0)


family("normalize", [
    Row("normalize", vectors, lambda x, a: F.normalize(x[0], a["p"], a["dim"], a["epsilon"])),
    Row("cosine_similarity", pairs, cosines, size_of),
    Row("matrix_norm", matrices, lambda x, a: torch.linalg.matrix_norm(x[0], KINDS[a["kind"]], keepdim=bool(a["keepdim"]))),
    Row("glu", even, lambda x, a: F.glu(x[0], a["dim"])),
    Row("prelu", slopes, lambda x, a: F.prelu(x[0], x[1])),
])
