"""Choices between values, bits, weights and fillings that are tensors: elementwise.h."""

import math

import torch

from drafts import ALL, NUMBER, Draft, any_shape, any_type, binary, broadcast_partner, ternary, unary, with_edges
from rows import Row, family, of_tensors
from table_core import HALVES, REAL, WHOLE, WIDE_RANGE, masked, sum_of_magnitudes
from values import FLOATING, INTEGER, Domain, Operand

TIES = [WHOLE, Domain(-3, 3)]


def bounds(random):
    """Of bit 0: least, bit 1: most. Bounds of the same shape and type are mostly not crossed."""
    shape, which = any_shape(random), random.randint(1, 3)
    name = any_type(random, NUMBER)
    inputs = [Operand(name, shape)]
    for _ in range(bin(which).count("1")):
        other = name if random.random() < 0.7 else any_type(random, NUMBER)
        inputs.append(with_edges(random, Operand(other, broadcast_partner(random, shape)), 0.1))
    return Draft(inputs, {"bounds": which})


def clamped(x, a):
    least = x[1] if a["bounds"] & 1 else None
    return torch.clamp(x[0], least, x[-1] if a["bounds"] & 2 else None)


def numbers(random, _):
    return {"nan": random.choice([0.0, 1.5, math.inf]), "posinf": random.choice([math.nan, 7.0, math.inf]),
            "neginf": random.choice([math.nan, -7.0])}


def without_nan(x, a):
    names = ("posinf", "neginf")
    return torch.nan_to_num(x[0], a["nan"], *(None if math.isnan(a[name]) else a[name] for name in names))


def masked_by_tensor(random):
    """The value has a's type: PyTorch refuses numbers that an integer type does not hold."""
    draft = masked(random)
    draft.attributes = {}
    draft.inputs.append(with_edges(random, Operand(draft.inputs[0].type, [])))
    return draft


def weighted(random):
    draft = ternary(FLOATING, one_type=True)(random)
    draft.inputs[2].domain = random.choice([Domain(0, 64, 64), REAL])
    return draft


def shifts(random):
    draft = binary(INTEGER, edges=False)(random)
    a, b = draft.inputs
    with_edges(random, a)
    b.domain = Domain(0, 9) if b.type == "u8" else random.choice([Domain(0, 9), Domain(-3, 70)])
    return draft


BITS = [*INTEGER, "bool"]

family("choices", [
    Row("fmax", binary(ALL, TIES, TIES), of_tensors(torch.fmax)),
    Row("fmin", binary(ALL, TIES, TIES), of_tensors(torch.fmin)),
    Row("copysign", binary(NUMBER, [REAL], [REAL], edges=False), of_tensors(torch.copysign)),
    Row("nan_to_num", unary(ALL, [REAL, WIDE_RANGE], attributes=numbers), without_nan, own_types=True),
    Row("frac", unary(FLOATING, [REAL, HALVES]), of_tensors(torch.frac)),
    Row("clamp_tensors", bounds, clamped),
    Row("lerp_tensor", weighted, of_tensors(torch.lerp), sum_of_magnitudes),
    Row("masked_fill_tensor", masked_by_tensor, lambda x, a: x[0].masked_fill(x[1], x[2])),
    *(Row(f"bitwise_{name}", binary(BITS), of_tensors(getattr(torch, f"bitwise_{name}")))
      for name in ("and", "or", "xor")),
    Row("bitwise_not", unary(BITS), of_tensors(torch.bitwise_not)),
    *(Row(f"bitwise_{name}_shift", shifts, of_tensors(getattr(torch, f"bitwise_{name}_shift")))
      for name in ("left", "right")),
])
