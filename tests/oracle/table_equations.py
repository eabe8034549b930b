"""Sums of products by equations; medians, quantiles and covariances: products.h, reductions.h."""

import torch

from drafts import NUMBER, Draft, any_dim, any_shape, any_type
from rows import Row, family
from values import Operand

# The same list as in calls_equations.c.
EQUATIONS = ["ij,jk->ik", "ij,jk", "bij,bjk->bik", "ij->ji", "ii->i", "ii", "ij->", "i,j->ij", "ij,ij->ij", "ij,ij->",
             "ij,jk,kl->il", "bi,ij,bj->b", "...ij,...jk->...ik", "i...,i...->...", "abc,cd,bd->a", "iij,ji->i",
             "aij,bjk->abik", "ij,kl->ikjl", "ba,ca"]
WIDE = ["f64", "f32", "i64", "i32"]


def operands(random):
    number = random.randrange(len(EQUATIONS))
    terms = EQUATIONS[number].split("->")[0].split(",")
    sizes = {letter: random.randint(0 if random.randrange(8) == 0 else 1, 4) for letter in "abcdijkl"}
    rest = [random.randint(1, 3) for _ in range(2)]
    type_name = any_type(random, WIDE)
    inputs = []
    for term in terms:
        own = [size if random.randrange(3) else 1 for size in rest][random.randrange(3):]
        shape = []
        for letter in term.replace("...", "."):
            shape += own if letter == "." else [sizes[letter]]
        inputs.append(Operand(type_name, shape))
    return Draft(inputs, {"equation": number})


def einsum(x, a):
    return torch.einsum(EQUATIONS[a["equation"]], *x)


def magnitude(x, a):
    result = torch.einsum(EQUATIONS[a["equation"]], *(t.double().abs() for t in x))
    return result.max() if result.numel() else 0.0


def pairs(random):
    shape, count = any_shape(random, least=1, limit=20), 0
    count = random.randint(0, min(2, len(shape)))
    dims_a = random.sample(range(len(shape)), count)
    other = [random.randint(1, 3) for _ in range(random.randint(count, 3))]
    dims_b = random.sample(range(len(other)), count)
    for d, e in zip(dims_a, dims_b):
        other[e] = shape[d]
    type_name = any_type(random, WIDE)
    return Draft([Operand(type_name, shape), Operand(type_name, other)], {"dims": dims_a, "others": dims_b})


def tensordot(x, a):
    return torch.tensordot(x[0], x[1], (list(a["dims"]), list(a["others"])))


def tensordot_terms(x, a):
    result = tensordot([t.double().abs() for t in x], a)
    return result.max() if result.numel() else 0.0


def line(types, **more):
    def sample(random):
        shape = any_shape(random, least=1, empty=False)
        values = {"dim": any_dim(random, shape), "keepdim": random.randrange(2)}
        values.update({name: choose(random) for name, choose in more.items()})
        return Draft([Operand(any_type(random, types), shape)], values)
    return sample


def median(x, a):
    """PyTorch leaves the index open among equals; here it is that of a stable order."""
    size = x[0].shape[a["dim"]]
    index = torch.sort(x[0], dim=a["dim"], stable=True).indices.narrow(a["dim"], (size - 1) // 2, 1)
    own = torch.median(x[0], a["dim"], True).values
    values = torch.gather(x[0], a["dim"], index)
    assert torch.equal(own, values)
    return (values, index) if a["keepdim"] else (values.squeeze(a["dim"]), index.squeeze(a["dim"]))


WAYS = ["linear", "lower", "higher", "midpoint", "nearest"]


def quantile(x, a):
    return torch.quantile(x[0], a["q"], a["dim"], bool(a["keepdim"]), interpolation=WAYS[a["way"]])


def variables(random):
    shape = [random.randint(1, 4), random.randint(1, 6)] if random.randrange(3) else [random.randint(1, 6)]
    return Draft([Operand(any_type(random, ["f64", "f32"]), shape)], {"correction": random.randrange(2)})


def covariances(x, a):
    """PyTorch's has no dimensions of size 1."""
    return torch.cov(x[0], correction=a["correction"]).reshape([x[0].shape[0]] * 2 if x[0].dim() == 2 else [])


def squares(x, a):
    return (x[0].double().abs().amax() * 2) ** 2 * 2


family("equations", [
    Row("einsum", operands, einsum, magnitude),
    Row("tensordot", pairs, tensordot, tensordot_terms),
    Row("median", line(NUMBER), median),
    Row("quantile", line(["f64", "f32"], q=lambda r: r.choice([0.0, 0.125, 0.25, 0.5, 0.75, 1.0]),
                         way=lambda r: r.randrange(5)), quantile, lambda x, _: x[0].double().abs().amax()),
    Row("cov", variables, covariances, squares),
])
