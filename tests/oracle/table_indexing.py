"""Places and orders: indexing.h."""

import math

import torch
import torch.nn.functional as F
from torch.distributed.tensor import DTensor

from drafts import (ALL, NUMBER, Draft, any_dim, any_shape, any_type, indices_of, of_domain, reduction,
                    with_edges)
from rows import Row, family
from table_core import terms
from values import DEFAULT, FLOATING, Domain, Operand

TIES = [Domain(-3, 3), Domain(-240, 240, 64)]
FACTORS = [Domain(-2, 2), Domain(32, 96, 64)]


def numbers(x):
    """PyTorch finds no largest truth value."""
    return x.to(torch.uint8) if x.dtype == torch.bool else x


def place(name, all_of_it):
    def function(x, a):
        if all_of_it:
            return getattr(torch, name)(numbers(x[0]))
        return getattr(torch, name)(numbers(x[0]), dim=a["dim"], keepdim=bool(a["keepdim"]))
    return function


def with_indices(name):
    """PyTorch's argmax and argmin are the first among equals on the CPU; its max and min with indices leave that open
    but for dense tensors of one thread, so indices are those of argmax and argmin."""
    def function(x, a):
        keepdim = bool(a["keepdim"])
        if isinstance(x[0], DTensor):
            return getattr(torch, name)(x[0], a["dim"], keepdim)
        values = getattr(torch, name)(x[0], a["dim"], keepdim).values
        return values, getattr(torch, "arg" + name)(numbers(x[0]), dim=a["dim"], keepdim=keepdim)
    return function


def along(types, domains=(), edges=0.2, attributes=None):
    def sample(random):
        type_name, shape = any_type(random, types), any_shape(random, least=1)
        operand = with_edges(random, of_domain(random, type_name, domains, shape=shape), edges)
        values = {"dim": any_dim(random, shape)}
        values.update(attributes(random, shape, values["dim"]) if attributes else {})
        return Draft([operand], values)
    return sample


def cumulative_terms(x, a):
    return terms(x, {"dim": a["dim"]})


def lookup(random):
    shape = any_shape(random, least=1, empty=False)
    dim = any_dim(random, shape)
    count = random.randrange(7)
    inputs = [Operand(any_type(random, ALL), shape), indices_of(random, shape[dim], [count])]
    return Draft(inputs, {"dim": dim})


def elements(random):
    shape = any_shape(random, least=1, empty=False)
    dim = any_dim(random, shape)
    own = list(shape)
    own[dim] = random.randrange(5)
    return Draft([Operand(any_type(random, ALL), shape), indices_of(random, shape[dim], own)], {"dim": dim})


def scattering(whole_parts, in_place):
    def sample(random):
        shape = any_shape(random, least=1, empty=False, limit=20)
        dim = any_dim(random, shape)
        own = list(shape)
        own[dim] = random.randrange(6)
        type_name = any_type(random, NUMBER)
        indices = indices_of(random, shape[dim], [own[dim]] if whole_parts else own)
        target = Operand(type_name, shape, may_be_partial=not in_place)
        return Draft([target, indices, Operand(type_name, own)],
                     {"dim": dim})
    return sample


def scattered_terms(x, _):
    return x[0].double().abs().sum() + x[2].double().abs().sum()


def classes(random):
    indices = indices_of(random, 6, any_shape(random, most=2, limit=10))
    return Draft([indices], {"num_classes": random.randint(6, 8)})


def wide_order(x, a):
    return torch.sort(x[0], dim=a["dim"], descending=bool(a["descending"]), stable=True)


def direction(random, shape, dim):
    return {"descending": random.randrange(2)}


def best(random):
    shape = any_shape(random, least=1)
    dim, type_name = any_dim(random, shape), any_type(random, ALL)
    values = {"dim": dim, "k": random.randint(0, shape[dim]), "largest": random.randrange(2)}
    return Draft([of_domain(random, type_name, TIES, shape=shape)], values)


def topk(x, a):
    """The first among equals: of dense tensors by a stable order, for PyTorch's own leaves it open."""
    if isinstance(x[0], DTensor):
        return torch.topk(x[0], a["k"], a["dim"], bool(a["largest"]))
    values, indices = torch.sort(x[0], dim=a["dim"], descending=bool(a["largest"]), stable=True)
    return values.narrow(a["dim"], 0, a["k"]), indices.narrow(a["dim"], 0, a["k"])


family("places", [
    Row("argmax", reduction(ALL, "dim", domains=TIES, empty=False), place("argmax", False)),
    Row("argmin", reduction(ALL, "dim", domains=TIES, empty=False), place("argmin", False)),
    Row("argmax_all", reduction(ALL, "all", domains=TIES, empty=False), place("argmax", True)),
    Row("argmin_all", reduction(ALL, "all", domains=TIES, empty=False), place("argmin", True)),
    Row("cumsum", along(ALL), lambda x, a: x[0].cumsum(a["dim"]), cumulative_terms),
    Row("cumprod", along(ALL, FACTORS, 0), lambda x, a: x[0].cumprod(a["dim"])),
    Row("index_select", lookup, lambda x, a: torch.index_select(x[0], a["dim"], x[1])),
    Row("gather", elements, lambda x, a: torch.gather(x[0], a["dim"], x[1].long())),
    Row("scatter_add", scattering(False, False), lambda x, a: x[0].scatter_add(a["dim"], x[1].long(), x[2]),
        scattered_terms),
    Row("scatter_add_inplace", scattering(False, True), lambda x, a: x[0].scatter_add_(a["dim"], x[1].long(), x[2]),
        scattered_terms),
    Row("index_add", scattering(True, False), lambda x, a: x[0].index_add(a["dim"], x[1], x[2]),
        scattered_terms),
    Row("index_add_inplace", scattering(True, True), lambda x, a: x[0].index_add_(a["dim"], x[1], x[2]),
        scattered_terms),
    Row("one_hot", classes, lambda x, a: F.one_hot(x[0].long(), a["num_classes"])),
    Row("sort", along(ALL, TIES, attributes=direction), wide_order),
    Row("argsort", along(ALL, TIES, attributes=direction), lambda x, a: wide_order(x, a)[1]),
    Row("topk", best, topk),
    Row("max_with_indices", reduction(ALL, "dim", domains=TIES, empty=False), with_indices("max")),
    Row("min_with_indices", reduction(ALL, "dim", domains=TIES, empty=False), with_indices("min")),
])
