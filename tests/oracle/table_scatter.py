"""Elements that take others' places, or are combined with them; sums by number: indexing.h."""

import torch

from drafts import ALL, NUMBER, Draft, any_dim, any_shape, any_type, indices_of
from rows import Row, family
from values import FLOATING, Domain, Operand

REDUCTIONS = ["sum", "mean", "prod", "amin", "amax"]
FACTORS = Domain(-2, 2)


def targets(random, together, types, with_source, domain=None):
    shape = any_shape(random, least=1, empty=False, limit=20)
    dim = any_dim(random, shape)
    own = list(shape)
    own[dim] = random.randrange(6)
    type_name = any_type(random, types)
    domain = domain if type_name != "u8" else None
    inputs = [Operand(type_name, shape, domain), indices_of(random, shape[dim], [own[dim]] if together else own)]
    if with_source:
        inputs.append(Operand(type_name, own, domain))
    return Draft(inputs, {"dim": dim})


def copying(together):
    return lambda random: targets(random, together, ALL, True)


def filling(together):
    def sample(random):
        draft = targets(random, together, NUMBER, False)
        draft.attributes["value"] = float(random.randint(0, 9))
        return draft
    return sample


def one_by_one(together):
    """The last of several for one element: PyTorch leaves open which."""
    def function(x, a):
        result, indices = x[0], x[1].long()
        for k in range(x[2].shape[a["dim"]]):
            part = x[2].narrow(a["dim"], k, 1)
            if together:
                result = result.index_copy(a["dim"], indices.narrow(0, k, 1), part)
            else:
                result = result.scatter(a["dim"], indices.narrow(a["dim"], k, 1), part)
        return result if x[2].shape[a["dim"]] else x[0].clone()
    return function


def reducing(random):
    reduction = random.randrange(5)
    draft = targets(random, False, NUMBER, True, FACTORS if reduction == 2 else None)
    draft.attributes.update({"reduction": reduction, "include_self": random.randrange(2)})
    return draft


def reduced(x, a):
    """PyTorch's derivative of an extreme counts an element that is not included."""
    name, includes, a_, indices = REDUCTIONS[a["reduction"]], bool(a["include_self"]), x[0], x[1].long()
    if not includes and name.startswith("a") and a_.is_floating_point():
        hit = torch.zeros(a_.shape).scatter(a["dim"], indices, 1.0) != 0
        a_ = torch.where(hit, torch.tensor(float("inf" if name == "amin" else "-inf"), dtype=a_.dtype), a_)
        includes = True
    return a_.scatter_reduce(a["dim"], indices, x[2], name, include_self=includes)


def both_terms(x, _):
    return x[0].double().abs().sum() + x[2].double().abs().sum()


def segments(random):
    shape = any_shape(random, least=1, limit=20)
    count = random.randint(1, 6)
    return Draft([Operand(any_type(random, NUMBER), shape), indices_of(random, count, shape[:1])],
                 {"num_segments": count})


def summed(x, a):
    return torch.zeros([a["num_segments"], *x[0].shape[1:]], dtype=x[0].dtype).index_add(0, x[1], x[0])


def bins(random):
    count = random.randint(1, 6)
    return Draft([indices_of(random, count, [random.randrange(12)])], {"num_bins": count})


def weighted_bins(random):
    count, n = random.randint(1, 6), random.randrange(12)
    return Draft([indices_of(random, count, [n]), Operand(any_type(random, FLOATING), [n])], {"num_bins": count})


def weights_of_bins(x, a):
    return torch.zeros([a["num_bins"]], dtype=x[1].dtype).index_add(0, x[0], x[1])


def histogram(random):
    """Bounds and numbers with which PyTorch's own arithmetic is exact."""
    return Draft([Operand(any_type(random, NUMBER), any_shape(random, least=1))],
                 {"num_bins": random.choice([1, 2, 4, 8]), "low": -2.0, "high": 2.0})


def counted(x, a):
    return torch.histc(x[0].double().flatten(), a["num_bins"], a["low"], a["high"]).long()


family("scatters", [
    Row("scatter", copying(False), one_by_one(False)),
    Row("index_copy", copying(True), one_by_one(True)),
    Row("scatter_scalar", filling(False), lambda x, a: x[0].scatter(a["dim"], x[1].long(), a["value"])),
    Row("index_fill", filling(True), lambda x, a: x[0].index_fill(a["dim"], x[1].long(), a["value"])),
    Row("scatter_reduce", reducing, reduced, both_terms),
    Row("segment_sum", segments, summed, lambda x, _: x[0].double().abs().sum()),
    Row("bincount", bins, lambda x, a: torch.bincount(x[0], minlength=a["num_bins"])),
    Row("bincount_weighted", weighted_bins, weights_of_bins, lambda x, _: x[1].double().abs().sum()),
    Row("histogram", histogram, counted),
])
