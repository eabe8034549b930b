"""Elements that truth values or several indices choose, extremes so far: indexing.h."""

import torch
from torch.distributed.tensor import DTensor

from drafts import ALL, NUMBER, Draft, any_shape, any_type, broadcast_partner, indices_of, of_domain
from rows import Row, family, of_tensors
from table_indexing import TIES, along
from values import Domain, Operand


def places(random, domain=Domain(-1, 1)):
    name = any_type(random, ALL)
    return Draft([Operand(name, any_shape(random), domain if name not in ("u8", "bool") else Domain(0, 1))])


def chosen(random):
    shape = any_shape(random)
    return Draft([Operand(any_type(random, ALL), shape), Operand("bool", broadcast_partner(random, shape))])


def several_indices(random):
    """Index tensors of one dimension, some of them broadcast; values that broadcast."""
    shape = any_shape(random, least=1, most=3, empty=False, limit=20)
    count, name = random.randint(1, len(shape)), any_type(random, NUMBER)
    n = random.randrange(6)
    indices = [indices_of(random, size, [1 if k and n and random.random() < 0.3 else n])
               for k, size in enumerate(shape[:count])]
    values = broadcast_partner(random, [n, *shape[count:]])
    return Draft([Operand(name, shape), Operand(name, values), *indices], {"accumulate": random.randrange(2)})


def put(x, a):
    """Without sums one index after the other: PyTorch leaves open which of several wins."""
    indices = tuple(i.long() for i in x[2:])
    if a["accumulate"] or isinstance(x[0], DTensor):
        return torch.index_put(x[0], indices, x[1], bool(a["accumulate"]))
    indices = torch.broadcast_tensors(*indices)
    n = indices[0].shape[0]
    values = x[1].expand([n, *x[0].shape[len(indices):]])
    result = x[0].clone()
    for k in range(n):
        result = torch.index_put(result, tuple(i[k:k + 1] for i in indices), values[k:k + 1])
    return result


def put_terms(x, _):
    return x[0].double().abs().sum() + x[1].double().abs().sum()


family("selections", [
    Row("cummax", along(ALL, TIES), lambda x, a: torch.cummax(x[0], a["dim"])),
    Row("cummin", along(ALL, TIES), lambda x, a: torch.cummin(x[0], a["dim"])),
    Row("nonzero", places, of_tensors(torch.nonzero)),
    Row("masked_select", chosen, of_tensors(torch.masked_select)),
    Row("index_put", several_indices, put, put_terms),
])
