"""Elementwise operations of inputs of different types, of which some have no dimensions: PyTorch converts
them to one type first. Their values change then: real ones have more bits than 16-bit types, whole ones are
negative or beyond the range of narrower types."""

import torch

from drafts import ALL, CATEGORY, NUMBER, Draft, any_shape, any_type, number, pair, unary
from rows import Row, family, of_tensors
from values import FLOATING, Domain, Operand

DOMAINS = {
    "f64": [Domain(-4095, 4095, 1024), Domain(-200000, 200000, 128)],
    "f32": [Domain(-4095, 4095, 1024), Domain(-200000, 200000, 128)],
    "bf16": [Domain(-240, 240, 64), Domain(-240, 240)],
    "f16": [Domain(-1900, 1900, 512), Domain(-1900, 1900, 4)],
    "i64": [Domain(-9, 9), Domain(-2000, 2000), Domain(2**31 - 9, 2**31 + 9), Domain(-2**32 - 9, -2**32 + 9)],
    "i32": [Domain(-9, 9), Domain(-2000, 2000), Domain(2**31 - 90, 2**31 - 20)],
    "u8": [Domain(0, 9), Domain(0, 255)],
    "bool": [Domain(0, 1)],
}
# Types, and those of which values are not the same in them: of one category where they have no dimensions alone.
WIDER = {
    "bf16": ["f32", "f64", "f16", "i64", "i32"], "f16": ["f32", "f64", "bf16", "i64", "i32"],
    "i32": ["i64"], "u8": ["i64", "i32"],
}
# Values of a type and of wider ones, many of which are the same when these have been converted.
NEAR = {
    "bf16": (Domain(128, 136, 8), Domain(16384, 17408, 1024), Domain(250, 256), Domain(250, 262)),
    "f16": (Domain(1024, 1040, 64), Domain(16384, 16640, 1024), Domain(2040, 2048), Domain(2040, 2052)),
    "i32": (Domain(-4, 4), Domain(2**32 - 4, 2**32 + 4)),
    "u8": (Domain(0, 8), Domain(256, 264), Domain(248, 255), Domain(-8, -1)),
}
# Not 0 in any type that they are converted to.
DIVISORS = [Domain(1, 9), Domain(-9, -1), Domain(257, 265), Domain(-300, -290)]
EXPONENTS = [Domain(0, 6), Domain(256, 260)]
BASES = [Domain(-9, 9), Domain(1, 9)]
SMALL = [Domain(-240, 240, 64)]


def operand(random, type_name, shape, domains=None):
    if type_name == "bool":
        domains = None
    if type_name == "u8" and domains:
        domains = [d for d in domains if d.low >= 0 and d.high < 256] or [Domain(1, 9)]
    return Operand(type_name, shape, random.choice(domains or DOMAINS[type_name]))


def forms(random, count):
    """Shapes that broadcast to one: all of it, its last dimension, a single element, no dimensions."""
    shape = any_shape(random, least=1, limit=14)
    shapes = [random.choice([shape, shape[-1:], [1], [], []]) for _ in range(count)]
    if random.random() < 0.9:
        shapes[random.randrange(count)] = shape
    return shapes


def several_types(random, types, count):
    names = [any_type(random, types) for _ in range(count)]
    while len(set(names)) == 1 and random.random() < 0.9:
        names[random.randrange(count)] = random.choice(types)
    return names


def wider_pair(random, types):
    """Two types, of which the second one's values change."""
    return random.choice([(narrow, wide) for narrow in WIDER for wide in WIDER[narrow]
                          if narrow in types and wide in types])


def near_domains(random, narrow, wide):
    """Of a type and of a wider one. The addends of a Partial tensor might not be exact there."""
    near = NEAR[narrow]
    if CATEGORY[narrow] > CATEGORY[wide]:
        return near[2:]
    if narrow == "bf16" and wide == "f16":
        return near[0], Domain(1024, 1088, 64)
    if narrow == "f16" and wide == "bf16":
        return Domain(0, 3), Domain(-200, 200, 2**10)
    return near[:2] if len(near) == 2 or CATEGORY[narrow] == 2 or random.random() < 0.5 else near[2:]


def narrowed(random, types, domains):
    """A full input, and one that is converted to its type. `domains`: those that may not be chosen freely."""
    narrow, wide = wider_pair(random, types)
    shape = any_shape(random, least=1, limit=14)
    own_category = CATEGORY[narrow] == CATEGORY[wide]
    inputs = [operand(random, narrow, shape), operand(random, wide, [] if own_category else random.choice(
        [shape, shape[-1:], [1], []]))]
    if random.random() < 0.6:
        for x, domain in zip(inputs, near_domains(random, narrow, wide)):
            x.domain, x.may_be_partial = domain, False
    if random.random() < 0.5:
        inputs.reverse()
    for x, own in zip(inputs, domains):
        of_type = own[CATEGORY[x.type] == 2]
        if of_type:
            replaced = operand(random, x.type, x.shape, of_type)
            x.domain, x.may_be_partial = replaced.domain, True
    return inputs


def mixed(types, count=2, whole_first=None, whole_second=None, real=None, attributes=None):
    """`whole_first`, `whole_second`: domains of integers; `real`: of all floating inputs."""
    domains = [(whole_first if i == 0 else whole_second, real) for i in range(count)]
    def sample(random):
        if count == 2 and random.random() < 0.75:
            inputs = narrowed(random, types, domains)
        else:
            inputs = [operand(random, name, shape, own[name in FLOATING]) for name, shape, own in
                      zip(several_types(random, types, count), forms(random, count), domains)]
        return Draft(inputs, attributes(random, inputs[0].type) if attributes else {})
    return sample


def choice(random):
    shapes, names = forms(random, 3), several_types(random, ALL, 2)
    inputs = [operand(random, name, shape) for name, shape in zip(["bool", *names], shapes)]
    return Draft(inputs)


def in_place(types, attributes=None):
    def sample(random):
        if random.random() < 0.6:
            target, other = wider_pair(random, types)
            shape = any_shape(random, least=1, limit=14)
            inputs = [operand(random, target, shape), operand(random, other, random.choice([shape, [], []]))]
        else:
            target = any_type(random, types)
            shape = any_shape(random, least=1, limit=14)
            fitting = [name for name in types if CATEGORY[name] <= CATEGORY[target]]
            inputs = [operand(random, target, shape),
                      operand(random, random.choice(fitting), random.choice([shape, shape[-1:], [1], []]))]
        inputs[0].may_be_partial = False
        return Draft(inputs, attributes(random, target) if attributes else {})
    return sample


def real_factor(x, a, name):
    """A number of the type of the result."""
    return a[name] if any(t.is_floating_point() for t in x) else int(a[name])


def products(x, a):
    """What the terms of sums may be as large as."""
    sizes = [float(t.double().abs().amax()) if t.numel() else 0.0 for t in x]
    product = 1.0
    for size in sizes[1:]:
        product *= size
    return torch.tensor(max(abs(v) for v in [1.0, *a.values()]) * (product + sum(sizes)))


def lerp(x, a):
    """PyTorch refuses different types."""
    common = torch.result_type(x[0], x[1])
    return torch.lerp(x[0].to(common), x[1].to(common), a["weight"])


FACTORS = number("factor", 1.0, -2.0, 3.0)
WEIGHTS = number("weight", 0.0, 0.25, 0.75, 1.0)
BOTH = {"converts": (0, 1)}
# Not exact in 16 bits, which exponents are rounded to.
EXPONENT = number("exponent", 0.7, -1.3, 2.3, 1.7, 0.1)
NARROW = ["bf16", "f16"]


def power_gradient(x, a):
    base = x[1].detach().requires_grad_()
    base.pow(a["exponent"]).backward(x[0])
    return base.grad

family("mixed", [
    Row("add", mixed(ALL), of_tensors(torch.add), **BOTH),
    Row("sub", mixed(NUMBER), of_tensors(torch.sub), **BOTH),
    Row("mul", mixed(ALL), of_tensors(torch.mul), exact_scalar=True, **BOTH),
    Row("div", mixed(ALL), of_tensors(torch.div), exact_scalar=True, floating=True, **BOTH),
    Row("floor_div", mixed(NUMBER, whole_second=DIVISORS), of_tensors(torch.floor_divide),
        compares_own=False, **BOTH),
    Row("remainder", mixed(NUMBER, whole_second=DIVISORS), of_tensors(torch.remainder), **BOTH),
    Row("fmod", mixed(NUMBER, whole_second=DIVISORS), of_tensors(torch.fmod), **BOTH),
    Row("pow", mixed(NUMBER, whole_first=BASES, whole_second=EXPONENTS, real=SMALL), of_tensors(torch.pow),
        **BOTH),
    Row("maximum", mixed(ALL), of_tensors(torch.maximum), **BOTH),
    Row("minimum", mixed(ALL), of_tensors(torch.minimum), **BOTH),
    Row("atan2", mixed(ALL), of_tensors(torch.atan2), floating=True, **BOTH),
    Row("hypot", mixed(FLOATING), of_tensors(torch.hypot), **BOTH),
    Row("logaddexp", mixed(FLOATING), of_tensors(torch.logaddexp), **BOTH),
    *(Row(name, mixed(ALL), of_tensors(getattr(torch, name)), **BOTH)
      for name in ("eq", "ne", "lt", "le", "gt", "ge", "logical_and", "logical_or", "logical_xor")),
    Row("add_scaled", mixed(NUMBER, attributes=FACTORS),
        lambda x, a: torch.add(x[0], x[1], alpha=real_factor(x, a, "factor")), products, **BOTH),
    Row("lerp", mixed(FLOATING, attributes=WEIGHTS), lerp, products, **BOTH),
    Row("addcmul", mixed(NUMBER, 3, attributes=FACTORS),
        lambda x, a: torch.addcmul(*x, value=real_factor(x, a, "factor")), products, converts=(0, 1, 2)),
    Row("addcdiv", mixed(FLOATING, 3, real=SMALL, attributes=FACTORS),
        lambda x, a: torch.addcdiv(*x, value=a["factor"]), lambda x, a: torch.addcdiv(
            x[0].double().abs(), x[1].double().abs(), x[2].double().abs(),
            value=abs(a["factor"])).nan_to_num(0, 0, 0).sum(), converts=(0, 1, 2)),
    Row("where", choice, of_tensors(torch.where), converts=(1, 2)),
    Row("pow_scalar", unary(NARROW, [Domain(1, 240, 64), Domain(1, 240)], attributes=EXPONENT, edges=False),
        lambda x, a: torch.pow(x[0], a["exponent"]), own_types=True),
    Row("pow_scalar_backward", pair(NARROW, [Domain(1, 240, 64)], attributes=EXPONENT), power_gradient,
        lambda x, a: products([x[0], x[1].double().pow(a["exponent"] - 1)], a), own_types=True),
    Row("copy_inplace", in_place(ALL), lambda x, a: x[0].copy_(x[1]), own_types=True),
    Row("add_inplace", in_place(NUMBER, number("alpha", 1.0, -2.0, 3.0)),
        lambda x, a: x[0].add_(x[1], alpha=real_factor(x, a, "alpha")), products, **BOTH),
    Row("mul_inplace", in_place(ALL), lambda x, a: x[0].mul_(x[1]), exact_scalar=True, **BOTH),
    Row("div_inplace", in_place(FLOATING), lambda x, a: x[0].div_(x[1]), exact_scalar=True, **BOTH),
    Row("lerp_inplace", in_place(FLOATING, WEIGHTS),
        lambda x, a: x[0].copy_(lerp(x, a)) if x[0].dtype != x[1].dtype else x[0].lerp_(x[1], a["weight"]),
        products, **BOTH),
])
