"""Vectors of norm 1, cosines, norms of matrices, gates, normalisation of channels: nn.h."""

import math

import torch
import torch.nn.functional as F

from drafts import Draft, any_dim, any_shape, any_type, broadcast_partner, with_edges
from rows import Row, family
from values import FLOATING, Domain, Operand

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


def channels(running=False, groups=False):
    def sample(random):
        shape = any_shape(random, least=2)
        shape[0], shape[1] = max(shape[0], 2), max(shape[1], 1)
        shape[2:] = [max(size, 2) for size in shape[2:]] if not running else shape[2:]
        type_name = any_type(random, FLOATING)
        values = {"gain": random.randrange(2), "bias": random.randrange(2), "epsilon": random.choice([1e-2, 0.125])}
        if groups:
            values["groups"] = random.choice([g for g in range(1, shape[1] + 1) if shape[1] % g == 0])
        vectors = [Operand(type_name, [shape[1]]) for _ in range(values["gain"] + values["bias"])]
        if running:
            vectors += [Operand(type_name, [shape[1]]), Operand(type_name, [shape[1]], Domain(8, 128, 64))]
        return Draft([Operand(type_name, shape), *vectors], values)
    return sample


def along(x, a):
    """Gain and bias, in shapes that broadcast."""
    rest, shape = list(x[1:]), [-1] + [1] * (x[0].dim() - 2)
    return [rest.pop(0).reshape(shape) if a[name] else None for name in ("gain", "bias")]


def shifted(result, x, a):
    gain, bias = along(x, a)
    result = result if gain is None else result * gain
    return (result if bias is None else result + bias).to(x[0].dtype)


def batch_norm(x, a):
    wide = x[0] if x[0].dtype == torch.float64 else x[0].float()
    mean, variance = (torch.full([x[0].shape[1]], value, dtype=wide.dtype) for value in (1.0, 2.0))
    result = F.batch_norm(wide, mean, variance, training=True, momentum=0.25, eps=a["epsilon"])
    return shifted(result, x, a), mean, variance


def batch_norm_alone(x, a):
    return shifted(F.batch_norm(x[0], None, None, training=True, eps=a["epsilon"]), x, a)


def batch_norm_of_running(x, a):
    """PyTorch's running statistics have no gradient."""
    mean, variance = (t.reshape([-1] + [1] * (x[0].dim() - 2)) for t in x[-2:])
    return shifted((x[0] - mean) * torch.rsqrt(variance + a["epsilon"]), x, a)


def group_norm(x, a):
    return shifted(F.group_norm(x[0], a["groups"], eps=a["epsilon"]), x, a)


def instance_norm(x, a):
    """PyTorch's wants positions, and more than one."""
    return shifted(F.group_norm(x[0], x[0].shape[1], eps=a["epsilon"]), x, a)


def normal_terms(x, a):
    return torch.tensor(16.0)


family("normalize", [
    Row("normalize", vectors, lambda x, a: F.normalize(x[0], a["p"], a["dim"], a["epsilon"])),
    Row("cosine_similarity", pairs, cosines, size_of),
    Row("matrix_norm", matrices, lambda x, a: torch.linalg.matrix_norm(x[0], KINDS[a["kind"]], keepdim=bool(a["keepdim"]))),
    Row("glu", even, lambda x, a: F.glu(x[0], a["dim"])),
    Row("prelu", slopes, lambda x, a: F.prelu(x[0], x[1])),
    Row("batch_norm", channels(), batch_norm, normal_terms),
    Row("batch_norm_alone", channels(), batch_norm_alone, normal_terms),
    Row("batch_norm_of_running", channels(running=True), batch_norm_of_running, normal_terms),
    Row("group_norm", channels(groups=True), group_norm, normal_terms),
    Row("instance_norm", channels(), instance_norm, normal_terms),
])
