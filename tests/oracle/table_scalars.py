"""Calls along a dimension of scalars, which PyTorch takes for vectors of one element: reductions.h, indexing.h, shapes.h, nn.h."""

import torch
import torch.nn.functional as F

from drafts import ALL, INDEX, NUMBER, Draft, any_type
from rows import Row, family
from table_scatter import reduced
from values import FLOATING, Domain, Operand

CASES = 6  # of each operation


def any_end(random):
    return random.choice([0, -1])


def scalar(types, keepdim=False, domain=None, **values):
    """Draws each attribute from its choices."""
    def sample(random):
        attributes = {"dim": any_end(random), **{name: random.choice(choices) for name, choices in values.items()}}
        if keepdim:
            attributes["keepdim"] = random.randrange(2)
        return Draft([Operand(any_type(random, types), [], domain)], attributes)
    return sample


def order_of_none(*names):
    return lambda random: Draft([Operand(any_type(random, ALL), [])], {name: any_end(random) for name in names})


def any_length(random, lengths):
    """None: of a scalar."""
    length = random.choice(lengths)
    return [] if length is None else [length]


def looked_up(lengths):
    def sample(random):
        indices = Operand(random.choice(INDEX), any_length(random, lengths), Domain(0, 0))
        return Draft([Operand(any_type(random, ALL), []), indices], {"dim": any_end(random)})
    return sample


def scattered(types, lengths, in_place=False, with_source=True, **values):
    """The source may be a scalar beside one index."""
    def sample(random):
        type_name, own = any_type(random, types), any_length(random, lengths)
        inputs = [Operand(type_name, [], may_be_partial=not in_place), Operand(random.choice(INDEX), own, Domain(0, 0))]
        if with_source:
            inputs.append(Operand(type_name, own))
        return Draft(inputs, {"dim": any_end(random), **{name: random.choice(choices) for name, choices in values.items()}})
    return sample


def magnitudes(x, _):
    return sum(t.double().abs().sum() for t in x)


def largest(x):
    """PyTorch finds no largest truth value."""
    return x.to(torch.uint8) if x.dtype == torch.bool else x


def reduction_of(name):
    return lambda x, a: getattr(torch, name)(x[0], a["dim"], keepdim=bool(a["keepdim"]))


def index_of(name):
    return lambda x, a: getattr(torch, name)(largest(x[0]), a["dim"], keepdim=bool(a["keepdim"]))


def spread(name):
    return lambda x, a: getattr(torch, name)(x[0], a["dim"], correction=a["correction"], keepdim=bool(a["keepdim"]))


def truth(name):
    return lambda x, a: getattr(torch, name)(x[0], a["dim"], keepdim=bool(a["keepdim"])).bool()


def with_index(name):
    return lambda x, a: tuple(getattr(torch, name)(x[0], a["dim"]))


ANY_LENGTH = [None, 1, 2, 3, 0]
ONE = [None, 1]
ROWS = [
    *(Row(name, scalar(types, True), reduction_of(name), magnitudes) for name, types in [
        ("sum", ALL), ("prod", ALL), ("mean", FLOATING), ("logsumexp", FLOATING), ("nansum", NUMBER),
        ("nanmean", FLOATING)]),
    *(Row(name, scalar(ALL, True), lambda x, a, name=name: getattr(torch, "a" + name)(x[0], a["dim"], bool(a["keepdim"])))
      for name in ("max", "min")),
    *(Row(name, scalar(ALL, True), truth(name)) for name in ("any", "all")),
    *(Row(name, scalar(FLOATING, True, correction=[0.0, 0.5]), spread(name), magnitudes) for name in ("var", "std")),
    Row("norm", scalar(FLOATING, True, p=[0.0, 1.0, 2.0, 3.0]),
        lambda x, a: torch.linalg.vector_norm(x[0], a["p"], a["dim"], bool(a["keepdim"]))),
    *(Row(name, scalar(ALL, True), index_of(name)) for name in ("argmax", "argmin")),
    *(Row(name + "_with_indices", scalar(ALL, True),
          lambda x, a, name=name: tuple(getattr(torch, name)(x[0], a["dim"], bool(a["keepdim"])))) for name in ("max", "min")),
    Row("cumsum", scalar(ALL), lambda x, a: x[0].cumsum(a["dim"]), magnitudes),
    Row("cumprod", scalar(ALL), lambda x, a: x[0].cumprod(a["dim"])),
    Row("sort", scalar(ALL, descending=[0, 1]), with_index("sort")),
    Row("argsort", scalar(ALL, descending=[0, 1]), lambda x, a: x[0].argsort(a["dim"])),
    Row("topk", scalar(NUMBER, k=[0, 1], largest=[0, 1]), lambda x, a: tuple(x[0].topk(a["k"], a["dim"], bool(a["largest"])))),
    Row("squeeze", scalar(ALL), lambda x, a: x[0].squeeze(a["dim"])),
    Row("transpose", order_of_none("dim0", "dim1"), lambda x, a: x[0].transpose(a["dim0"], a["dim1"])),
    Row("movedim", order_of_none("from", "to"), lambda x, a: x[0].movedim(a["from"], a["to"])),
    Row("flip", lambda random: Draft([Operand(any_type(random, ALL), [])], {"dims": [any_end(random)]}),
        lambda x, a: x[0].flip(a["dims"])),
    Row("softmax", scalar(FLOATING), lambda x, a: F.softmax(x[0], a["dim"])),
    Row("log_softmax", scalar(FLOATING), lambda x, a: F.log_softmax(x[0], a["dim"])),
    Row("normalize", scalar(FLOATING, p=[1.0, 2.0], epsilon=[0.0625]),
        lambda x, a: F.normalize(x[0], a["p"], a["dim"], a["epsilon"])),
    Row("index_select", looked_up(ONE), lambda x, a: torch.index_select(x[0], a["dim"], x[1])),
    Row("gather", looked_up(ANY_LENGTH), lambda x, a: torch.gather(x[0], a["dim"], x[1].long())),
    Row("scatter_add", scattered(NUMBER, ANY_LENGTH), lambda x, a: x[0].scatter_add(a["dim"], x[1].long(), x[2]), magnitudes),
    Row("scatter_add_inplace", scattered(NUMBER, ANY_LENGTH, True),
        lambda x, a: x[0].scatter_add_(a["dim"], x[1].long(), x[2]), magnitudes),
    Row("index_add", scattered(NUMBER, [None]), lambda x, a: x[0].index_add(a["dim"], x[1], x[2]), magnitudes),
    Row("index_add_inplace", scattered(NUMBER, [None], True), lambda x, a: x[0].index_add_(a["dim"], x[1], x[2]), magnitudes),
    Row("scatter", scattered(ALL, ONE), lambda x, a: x[0].scatter(a["dim"], x[1].long(), x[2])),
    Row("index_copy", scattered(ALL, ONE), lambda x, a: x[0].index_copy(a["dim"], x[1].long(), x[2])),
    Row("scatter_scalar", scattered(NUMBER, ANY_LENGTH, with_source=False, value=[0.0, 3.0]),
        lambda x, a: x[0].scatter(a["dim"], x[1].long(), a["value"])),
    Row("index_fill", scattered(NUMBER, ANY_LENGTH, with_source=False, value=[0.0, 3.0]),
        lambda x, a: x[0].index_fill(a["dim"], x[1].long(), a["value"])),
    Row("scatter_reduce", scattered(NUMBER, ANY_LENGTH, reduction=[0, 1, 3, 4], include_self=[0, 1]), reduced, magnitudes),
]
for row in ROWS:
    row.cases = CASES

family("scalars", ROWS)
