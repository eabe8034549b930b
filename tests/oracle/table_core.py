"""Elementwise operations, reductions, look-ups, losses, reshaping."""

import math

import torch
import torch.nn.functional as F
from torch.distributed.tensor import DTensor

from drafts import (ALL, NUMBER, WIDE, Draft, any_shape, any_size, any_type, binary, in_place, indices_of,
                    number, pair, reduction, ternary, unary)
from rows import Row, family, of_tensors
from values import FLOATING, INTEGER, TYPES, Domain, Operand

aten = torch.ops.aten

# ---- elementwise ----------------------------------------------------------------------------------------

NONZERO = Domain(1, 9)
WIDE_RANGE = Domain(-240, 240, 4)
SMALL = Domain(-240, 240, 1024)
REAL = Domain(-240, 240, 64)
POSITIVE = Domain(0, 240, 64)
HALVES = Domain(-240, 240, 2)
UNIT = Domain(-64, 64, 64)
WHOLE = Domain(-9, 9)


def largest(x):
    """The largest finite magnitude."""
    x = x.double().abs()
    x = x[x.isfinite()]
    return x.amax() if x.numel() else x.new_zeros(())


def sum_of_magnitudes(inputs, attributes):
    """Of a + factor * b and the like."""
    factor = max([1.0] + [abs(value) for value in attributes.values()])
    return factor * sum(largest(x) for x in inputs)


def conversion(random):
    """What is out of range is not asked for: PyTorch leaves it to the machine."""
    from_type, to_type = any_type(random, ALL), random.choice(ALL)
    domain = random.choice([POSITIVE, Domain(0, 240)] if to_type == "u8" else [REAL, WIDE_RANGE])
    operand = Operand(from_type, any_shape(random), domain if from_type in FLOATING else None)
    return Draft([operand], {"type": to_type})


def masked(random):
    shape = any_shape(random)
    type_name = any_type(random, ALL)
    values = [0.0, 1.0] if type_name == "bool" else [0.0, 7.0] if type_name == "u8" else [0.0, -3.0, 7.0]
    values += [0.7, -math.inf] if type_name in FLOATING else []
    mask = shape if random.random() < 0.6 else shape[random.randint(0, len(shape)):]
    return Draft([Operand(type_name, shape), Operand("bool", mask)], {"value": random.choice(values)})


def exponent(random, type_name):
    negative = [-1.0, 0.5, -2.5] if type_name in FLOATING else []
    return {"exponent": random.choice([0.0, 1.0, 2.0, 3.0] + negative)}


family("arithmetic", [
    Row("add", binary(ALL), of_tensors(torch.add)),
    Row("sub", binary(NUMBER), of_tensors(torch.sub)),
    Row("mul", binary(ALL), of_tensors(torch.mul)),
    Row("div", binary(ALL), of_tensors(torch.div)),
    Row("floor_div", binary(NUMBER, [REAL, WIDE_RANGE], [REAL, WHOLE], whole_second=NONZERO),
        of_tensors(torch.floor_divide)),
    Row("remainder", binary(NUMBER, [REAL, WIDE_RANGE], [REAL, WHOLE], whole_second=NONZERO),
        of_tensors(torch.remainder)),
    Row("fmod", binary(NUMBER, [REAL, WIDE_RANGE], [REAL, WHOLE], whole_second=NONZERO),
        of_tensors(torch.fmod)),
    Row("pow", binary(NUMBER, [POSITIVE, WHOLE], [REAL, Domain(-4, 5)], whole_second=Domain(0, 6)),
        of_tensors(torch.pow)),
    Row("maximum", binary(ALL), of_tensors(torch.maximum)),
    Row("minimum", binary(ALL), of_tensors(torch.minimum)),
    Row("atan2", binary(ALL), of_tensors(torch.atan2)),
    Row("hypot", binary(FLOATING, [REAL, WIDE_RANGE], [REAL, SMALL]), of_tensors(torch.hypot)),
    Row("logaddexp", binary(FLOATING, [REAL, WIDE_RANGE], [REAL]), of_tensors(torch.logaddexp)),
    Row("xlogy", binary(ALL, [REAL], [POSITIVE]), of_tensors(torch.xlogy)),
    Row("scale", unary(NUMBER, attributes=number("factor", 0.0, 1.0, -3.0, 7.0, 0.5, -1.25, 0.7)),
        lambda x, a: x[0] * a["factor"] if x[0].is_floating_point() else x[0] * int(a["factor"])),
    Row("add_scalar", unary(NUMBER, attributes=number("addend", 0.0, -2.0, 5.0, 0.375, 0.7)),
        lambda x, a: x[0] + a["addend"] if x[0].is_floating_point() else x[0] + int(a["addend"]),
        sum_of_magnitudes),
    Row("pow_scalar", unary(NUMBER, [REAL, POSITIVE], attributes=exponent),
        lambda x, a: torch.pow(x[0], a["exponent"] if x[0].is_floating_point() else int(a["exponent"]))),
    Row("clamp", unary(NUMBER, attributes=lambda random, type_name: random.choice([
        {"least": -1.0, "most": 2.0}, {"least": 0.0, "most": 6.0}, {"least": -math.inf, "most": 1.0},
        {"least": 1.0, "most": math.inf}, {"least": 3.0, "most": 1.0}])),
        lambda x, a: torch.clamp(x[0], *(None if math.isinf(v) else v if x[0].is_floating_point() else int(v)
                                         for v in (a["least"], a["most"])))),
    Row("add_scaled", binary(NUMBER, edges=False, attributes=number("factor", 0.0, 1.0, -2.0, 3.0)),
        lambda x, a: torch.add(x[0], x[1], alpha=a["factor"] if any(t.is_floating_point() for t in x)
                               else int(a["factor"])), sum_of_magnitudes),
    Row("addcmul", ternary(NUMBER, number("factor", 1.0, -2.0, 3.0)),
        lambda x, a: torch.addcmul(*x, value=a["factor"] if any(t.is_floating_point() for t in x)
                                   else int(a["factor"])), lambda x, a: torch.tensor(60.0)),
    Row("addcdiv", ternary(FLOATING, number("factor", 1.0, -2.0, 0.7)),
        lambda x, a: torch.addcdiv(*x, value=a["factor"]), lambda x, a: torch.addcdiv(
            x[0].abs(), x[1].abs(), x[2].abs(), value=abs(a["factor"])).nan_to_num(0, 0, 0).amax()
        if all(t.numel() for t in x) else torch.tensor(0.0)),
    Row("lerp", pair(FLOATING, attributes=number("weight", 0.0, 0.25, 0.5, 0.7, 1.0, -1.0)),
        lambda x, a: torch.lerp(x[0], x[1], a["weight"]), sum_of_magnitudes),
    Row("to_type", conversion,
        lambda x, a: x[0].to(TYPES[a["type"]]), own_types=True),
    Row("where", ternary(ALL, first_types=["bool"]), of_tensors(torch.where)),
    Row("masked_fill", masked, lambda x, a: x[0].masked_fill(
        x[1], a["value"] if x[0].is_floating_point() else int(a["value"]))),
])


def compared_number(random, _):
    return {"value": random.choice([0.0, 1.0, -3.0, 2.5, -0.5, 1.1, 1e300, math.inf, math.nan])}


def comparison_with_number(name):
    """PyTorch converts integers to f32 for a number that is not whole."""
    return lambda x, a: getattr(torch, name)(x[0] if x[0].is_floating_point() else x[0].double(), a["value"])


family("comparisons", [
    *(Row(name, binary(ALL, [WHOLE, REAL], [WHOLE]), of_tensors(getattr(torch, name)))
      for name in ("eq", "ne", "lt", "le", "gt", "ge")),
    *(Row(name + "_scalar", unary(ALL, [WHOLE, REAL], attributes=compared_number), comparison_with_number(name),
          own_types=True)
      for name in ("eq", "ne", "lt", "le", "gt", "ge")),
    *(Row(name, binary(ALL, [WHOLE], [Domain(-1, 1)]), of_tensors(getattr(torch, name)))
      for name in ("logical_and", "logical_or", "logical_xor")),
    *(Row(name, unary(ALL, [WHOLE, Domain(-1, 1)]), of_tensors(getattr(torch, name)))
      for name in ("logical_not", "isnan", "isinf", "isfinite")),
])

UNARY = {
    "neg": (NUMBER, [REAL], torch.neg), "abs": (NUMBER, [REAL], torch.abs),
    "sign": (NUMBER, [REAL], torch.sign),
    "square": (NUMBER, [REAL], torch.square), "reciprocal": (ALL, [REAL], torch.reciprocal),
    "sqrt": (ALL, [REAL, POSITIVE], torch.sqrt), "rsqrt": (ALL, [REAL, POSITIVE], torch.rsqrt),
    "exp": (ALL, [REAL, WIDE_RANGE], torch.exp), "expm1": (ALL, [REAL, SMALL, WIDE_RANGE], torch.expm1),
    "log": (ALL, [REAL, POSITIVE], torch.log), "log1p": (ALL, [Domain(-63, 240, 64), SMALL], torch.log1p),
    "log2": (ALL, [REAL, POSITIVE], torch.log2), "log10": (ALL, [REAL, POSITIVE], torch.log10),
    "sin": (ALL, [REAL, WIDE_RANGE], torch.sin), "cos": (ALL, [REAL, WIDE_RANGE], torch.cos),
    "tan": (ALL, [REAL, SMALL], torch.tan), "atan": (ALL, [REAL, WIDE_RANGE], torch.atan),
    "asin": (ALL, [REAL, UNIT], torch.asin), "acos": (ALL, [REAL, UNIT], torch.acos),
    "sinh": (ALL, [REAL, SMALL], torch.sinh), "cosh": (ALL, [REAL, SMALL], torch.cosh),
    "exp2": (ALL, [REAL, WIDE_RANGE], torch.exp2), "erfc": (ALL, [REAL, SMALL], torch.erfc),
    "asinh": (ALL, [REAL, SMALL, WIDE_RANGE], torch.asinh), "acosh": (ALL, [Domain(64, 240, 64), REAL], torch.acosh),
    "atanh": (ALL, [REAL, UNIT], torch.atanh),
    "tanh": (ALL, [REAL, SMALL, WIDE_RANGE], torch.tanh),
    "erfinv": (ALL, [UNIT, REAL], torch.erfinv), "lgamma": (ALL, [REAL, WIDE_RANGE], torch.lgamma),
    "digamma": (ALL, [REAL, WIDE_RANGE], torch.digamma),
    "erf": (ALL, [REAL, SMALL], torch.erf), "floor": (NUMBER, [REAL, HALVES], torch.floor),
    "ceil": (NUMBER, [REAL, HALVES], torch.ceil), "trunc": (NUMBER, [REAL, HALVES], torch.trunc),
    "round": (NUMBER, [REAL, HALVES], torch.round), "sigmoid": (ALL, [REAL, WIDE_RANGE], torch.sigmoid),
    "silu": (FLOATING, [REAL, WIDE_RANGE], F.silu), "relu": (NUMBER, [REAL], torch.relu),
    "gelu": (FLOATING, [REAL, WIDE_RANGE], F.gelu), "softplus": (FLOATING, [REAL, WIDE_RANGE], F.softplus),
    "hardswish": (FLOATING, [REAL, WIDE_RANGE], F.hardswish),
    "gelu_tanh": (FLOATING, [REAL, SMALL], lambda x: F.gelu(x, approximate="tanh")),
    "mish": (FLOATING, [REAL, WIDE_RANGE], F.mish), "selu": (FLOATING, [REAL, SMALL, WIDE_RANGE], F.selu),
    "hardsigmoid": (FLOATING, [REAL, WIDE_RANGE], F.hardsigmoid),
}



def input_magnitude(inputs, _):
    """Of functions that subtract what is nearly equal: their errors are small beside the input, not the
    output."""
    return largest(inputs[0])


def softplus_numbers(random, _):
    return {"beta": random.choice([1.0, 0.5, 2.0, 0.25]), "threshold": random.choice([20.0, 1.0, 5.0])}


def near_zeros(inputs, _):
    """Of functions whose errors are small beside 1 near their zeros."""
    return torch.tensor(1.0)


CANCELLING = {"gelu": input_magnitude, "gelu_tanh": input_magnitude, "digamma": near_zeros, "lgamma": near_zeros}

POSITIVE_REAL = Domain(1, 240, 64)


def trigamma(x):
    """PyTorch's own is right to nine digits, and 6.6e32 at negative integers, where this one is infinite."""
    wide = x.double()
    rest = wide - wide.round()
    positive = torch.special.zeta(2.0, torch.where(wide < 0, 1 - wide, wide))
    result = torch.where(wide < 0, (math.pi / torch.sin(math.pi * rest)).square() - positive, positive)
    return result.to(x.dtype if x.is_floating_point() else torch.float32)


def polygamma(x, a):
    if isinstance(x[0], DTensor) or a["n"] == 0:
        return torch.polygamma(int(a["n"]), x[0])
    return trigamma(x[0])


family("functions", [
    *(Row(name, unary(types, domains), of_tensors(function), CANCELLING.get(name))
      for name, (types, domains, function) in UNARY.items()),
    Row("polygamma", unary(ALL, [POSITIVE_REAL, REAL], attributes=number("n", 0.0, 1.0)), polygamma),
    Row("leaky_relu", unary(FLOATING, attributes=number("slope", 0.0, 0.01, 0.25, -0.5)),
        lambda x, a: F.leaky_relu(x[0], a["slope"])),
    Row("softplus_ex", unary(FLOATING, [REAL, WIDE_RANGE], attributes=softplus_numbers),
        lambda x, a: F.softplus(x[0], a["beta"], a["threshold"])),
    Row("elu", unary(FLOATING, [REAL, SMALL, WIDE_RANGE], attributes=number("alpha", 1.0, 0.25, 2.0)),
        lambda x, a: F.elu(x[0], a["alpha"])),
])


def wide(function):
    """PyTorch computes some of these in f32, with errors of many units: here in f64, rounded once."""
    def computed(x):
        return function(x.double()).to(x.dtype if x.is_floating_point() else torch.float32)
    return computed


def bessel(order, name):
    """PyTorch's own are right to eleven digits, and NaN at infinity, where these are 0: here by Bessel's integral, which
    converges exponentially, and the largest numbers of a type by the leading term."""
    def function(x):
        if isinstance(x, DTensor):
            return getattr(torch.special, name)(x)
        angles = torch.arange(1024, dtype=torch.float64) * (math.pi / 512)
        values = torch.cos(order * angles - x.double().unsqueeze(-1) * torch.sin(angles)).mean(-1)
        far = (2 / (math.pi * x.abs())).sqrt() * torch.cos(x.abs() - (order / 2 + 0.25) * math.pi) * (x.sign() if order else 1)
        return torch.where(x.isinf(), 0.0, torch.where(x.abs() > 500, far, values))
    return function


SPECIAL = {
    "i0": ([REAL, SMALL], torch.special.i0), "i0e": ([REAL, WIDE_RANGE], torch.special.i0e),
    "i1": ([REAL, SMALL], torch.special.i1), "i1e": ([REAL, WIDE_RANGE], torch.special.i1e),
    "bessel_j0": ([REAL], bessel(0, "bessel_j0")), "bessel_j1": ([REAL], bessel(1, "bessel_j1")),
    "ndtr": ([REAL, SMALL], torch.special.ndtr), "ndtri": ([Domain(1, 63, 64)], torch.special.ndtri),
    "log_ndtr": ([REAL, WIDE_RANGE], torch.special.log_ndtr), "entr": ([REAL, UNIT], torch.special.entr),
    "logit": ([Domain(1, 63, 64), UNIT], torch.special.logit), "sinc": ([REAL], torch.special.sinc),
}

family("special", [
    *(Row(name, unary(FLOATING if name.startswith("bessel") else ALL, domains), of_tensors(wide(function)), near_zeros)
      for name, (domains, function) in SPECIAL.items()),
    Row("xlog1py", binary(ALL, [REAL], [POSITIVE], whole_second=Domain(0, 9)), of_tensors(torch.special.xlog1py)),
    Row("logaddexp2", binary(FLOATING, [REAL, WIDE_RANGE], [REAL]), of_tensors(torch.logaddexp2)),
    Row("zeta", pair(["f32", "f64"], [Domain(65, 640, 64)]), lambda x, a: torch.special.zeta(*x)),
    Row("heaviside", binary(NUMBER, [WHOLE, REAL], [REAL]), lambda x, a: torch.heaviside(*(t.to(torch.result_type(*x)) for t in x))),
    Row("gcd", binary(INTEGER, [WHOLE], [WHOLE]), of_tensors(torch.gcd)),
    Row("lcm", binary(INTEGER, [WHOLE], [WHOLE]), of_tensors(torch.lcm)),
])


def power_gradient(inputs, attributes):
    gradient, x = inputs
    exponent = attributes["exponent"]
    return torch.zeros_like(gradient) if exponent == 0 else gradient * (exponent * x.pow(exponent - 1))


def elu_gradient(inputs, attributes):
    """PyTorch's elu_backward() of a vector of doubles gives NaN where its input is NaN; of all other types, and
    of single doubles, it passes the gradient."""
    gradient, x = inputs
    if isinstance(x, DTensor):
        return aten.elu_backward(gradient, attributes["alpha"], 1, 1, False, x)
    return torch.where(x <= 0, gradient * attributes["alpha"] * x.exp(), gradient)


def both_magnitudes(inputs, _):
    return largest(inputs[0]) * max(largest(inputs[1]), 1)


family("gradients", [
    Row("relu_backward", pair(FLOATING, edges=True), lambda x, a: aten.threshold_backward(x[0], x[1], 0)),
    Row("gelu_backward", pair(FLOATING, [REAL, WIDE_RANGE]), lambda x, a: aten.gelu_backward(x[0], x[1]),
        both_magnitudes),
    Row("silu_backward", pair(FLOATING, [REAL, WIDE_RANGE]), lambda x, a: aten.silu_backward(x[0], x[1]),
        both_magnitudes),
    Row("leaky_relu_backward", pair(FLOATING, edges=True, attributes=number("slope", 0.0, 0.01, 0.25)),
        lambda x, a: aten.leaky_relu_backward(x[0], x[1], a["slope"], False)),
    Row("elu_backward",
        pair(FLOATING, [REAL, WIDE_RANGE], edges=True, attributes=number("alpha", 1.0, 0.25, 2.0)),
        elu_gradient),
    Row("tanh_backward", pair(FLOATING, [Domain(-64, 64, 64)]),
        lambda x, a: aten.tanh_backward(x[0], x[1]), both_magnitudes),
    Row("sigmoid_backward", pair(FLOATING, [Domain(0, 64, 64)]),
        lambda x, a: aten.sigmoid_backward(x[0], x[1])),
    Row("pow_scalar_backward",
        pair(FLOATING, [POSITIVE, REAL], attributes=number("exponent", 0.0, 1.0, 2.0, 3.0, 0.5)),
        power_gradient),
])

SUMS = ("P", "P(avg)")
family("in_place", [
    Row("copy_inplace", in_place(ALL, SUMS + ("P(max)", "P(min)")), lambda x, a: x[0].copy_(x[1]),
        own_types=True),
    Row("add_inplace", in_place(NUMBER, SUMS, number("alpha", 1.0, -2.0, 3.0)),
        lambda x, a: x[0].add_(x[1], alpha=a["alpha"] if x[0].is_floating_point() else int(a["alpha"])),
        sum_of_magnitudes),
    Row("mul_inplace", in_place(ALL, SUMS, jointly=False), lambda x, a: x[0].mul_(x[1])),
    Row("div_inplace", in_place(FLOATING), lambda x, a: x[0].div_(x[1])),
    Row("scale_inplace", in_place(NUMBER, SUMS, number("factor", 0.0, 1.0, -3.0, 0.5, 0.7), with_other=False),
        lambda x, a: x[0].mul_(a["factor"] if x[0].is_floating_point() else int(a["factor"]))),
    Row("fill_inplace", in_place(ALL, (), number("value", 0.0, 1.0, 0.7), with_other=False),
        lambda x, a: x[0].fill_(a["value"])),
    Row("lerp_inplace", in_place(FLOATING, SUMS, number("weight", 0.0, 0.25, 0.7, 1.0)),
        lambda x, a: x[0].lerp_(x[1].to(x[0].dtype), a["weight"]), sum_of_magnitudes),
])

# ---- reductions -----------------------------------------------------------------------------------------


def dims_of(x, a):
    if "dim" in a:
        return (a["dim"],)
    return tuple(a["dims"]) if a.get("dims") else tuple(range(x.dim()))


def over(function):
    """function(x, dims, keepdim) on what the attributes say."""
    return lambda x, a: function(x[0], dims_of(x[0], a), bool(a.get("keepdim", 0)))


def product_over(x, dims, keepdim):
    if x.dim() == 0 or len(dims) == x.dim() and not keepdim:
        return x.prod()
    for dim in sorted(d % x.dim() for d in dims):
        x = x.prod(dim, keepdim=True)
    for dim in sorted((d % x.dim() for d in dims), reverse=True):
        x = x if keepdim else x.squeeze(dim)
    return x


def truth(function):
    def reduce(x, dims, keepdim):
        result = function(x, dims, keepdim) if x.dim() else function(x)
        return result if result.dtype == torch.bool else result.bool()
    return reduce


def terms(x, a):
    """Of sums: what the magnitudes add up to."""
    total = x[0].double().abs().nan_to_num(0, 0, 0).sum(dims_of(x[0], a))
    return total.amax() if total.numel() else total.sum()


def average_terms(x, a):
    count = math.prod(x[0].shape[d] for d in dims_of(x[0], a))
    return terms(x, a) / max(count, 1)


def mean_square(x, a):
    """The mean is rounded: where all values are equal that is all there is."""
    return average_terms([x[0].double().square()], a)


def variance(x, a):
    return torch.var(x[0], dims_of(x[0], a), correction=a["correction"], keepdim=bool(a.get("keepdim", 0)))


def deviation(x, a):
    return torch.std(x[0], dims_of(x[0], a), correction=a["correction"], keepdim=bool(a.get("keepdim", 0)))


def log_of_sum(x, dims, keepdim):
    return torch.logsumexp(x, dims if x.dim() else 0, keepdim)


def largest_terms(x, a):
    """The mean's divisor depends on the values."""
    return largest(x[0])


def norm(x, a):
    return torch.linalg.vector_norm(x[0], a["p"], dims_of(x[0], a), bool(a.get("keepdim", 0)))


REDUCTIONS = {
    "sum": (ALL, True, over(lambda x, d, k: x.sum(d, keepdim=k)), terms, None),
    "prod": (ALL, True, over(product_over), None, None),
    "mean": (FLOATING, True, over(lambda x, d, k: x.mean(d, keepdim=k)), average_terms, None),
    "max": (ALL, False, over(lambda x, d, k: x.amax(d, keepdim=k)), None, None),
    "min": (ALL, False, over(lambda x, d, k: x.amin(d, keepdim=k)), None, None),
    "any": (ALL, True, over(truth(torch.any)), None, None),
    "all": (ALL, True, over(truth(torch.all)), None, None),
    "norm": (FLOATING, False, norm, None, number("p", 0.0, 1.0, 2.0, 2.0, 3.0, 0.5, math.inf)),
    "var": (FLOATING, True, variance, mean_square, number("correction", 0.0, 1.0, 1.0, 0.5)),
    "std": (FLOATING, True, deviation, lambda x, a: largest(x[0]), number("correction", 0.0, 1.0, 1.0, 0.5)),
    "logsumexp": (ALL, True, over(log_of_sum), lambda x, a: largest(x[0]) + 4, None),
    "nansum": (NUMBER, True, over(lambda x, d, k: x.nansum(d, keepdim=k)), terms, None),
    "nanmean": (FLOATING, True, over(lambda x, d, k: x.nanmean(d, keepdim=k)), largest_terms, None),
}
FORMS = {"dim": "", "over": "_over", "all": "_all"}
TRUTHS = [Domain(-1, 1), Domain(0, 0), Domain(1, 9)]
REDUCED = {"any": TRUTHS, "all": TRUTHS, "prod": [Domain(-3, 3), Domain(32, 96, 64)]}

family("reductions", [
    Row(name + suffix, reduction(types, form, attributes, REDUCED.get(name, ()), empty,
                                 0 if name in ("norm", "var", "std") else 0.2),
        function, magnitude)
    for name, (types, empty, function, magnitude, attributes) in REDUCTIONS.items()
    for form, suffix in FORMS.items()
])

# ---- look-ups, losses, shapes ---------------------------------------------------------------------------


def transposed(x, wanted):
    return x.transpose(-1, -2) if wanted else x


def matmul(x, a):
    return torch.matmul(transposed(x[0], a.get("transpose_a")), transposed(x[1], a.get("transpose_b")))


def matmul_terms(x, a):
    result = matmul([t.double().abs() for t in x], a)
    return result.amax() if result.numel() else result.sum()


def lookup(random):
    rows, width, shape = any_size(random) or 1, any_size(random, 4), any_shape(random, 0, 3, 14)
    return Draft([Operand(any_type(random, WIDE), [rows, width]), indices_of(random, rows, shape)])


def lookup_gradient(random):
    rows, width, shape = any_size(random) or 1, any_size(random, 4), any_shape(random, 0, 3, 14)
    return Draft([Operand(any_type(random, WIDE), shape + [width]), indices_of(random, rows, shape)],
                 {"num_rows": rows})


def loss(with_gradient):
    def sample(random):
        rows, classes = any_size(random), random.randint(1, 7)
        type_name = any_type(random, WIDE)
        inputs = [Operand(type_name, [rows, classes]), indices_of(random, classes, [rows])]
        if with_gradient and random.random() < 0.6:
            inputs.append(Operand(type_name, []))
        return Draft(inputs)
    return sample


def loss_gradient(x, _):
    logits = x[0].detach().requires_grad_()
    F.cross_entropy(logits, x[1].long()).backward(x[2] if len(x) > 2 else None)
    return logits.grad


def loss_gradient_magnitude(x, _):
    return x[2].abs() if len(x) > 2 else torch.tensor(1.0)


family("lookups", [
    Row("embedding", lookup, lambda x, a: F.embedding(x[1], x[0])),
    Row("embedding_backward", lookup_gradient,
        lambda x, a: aten.embedding_dense_backward(x[0], x[1], a["num_rows"], -1, False),
        lambda x, a: x[0].abs().sum()),
    Row("cross_entropy", loss(False), lambda x, a: F.cross_entropy(x[0], x[1].long()),
        lambda x, a: torch.tensor(8.0)),
    Row("cross_entropy_backward", loss(True), loss_gradient, loss_gradient_magnitude),
])


def split(random, count):
    """A random shape of so many elements."""
    if count == 0:
        return [random.randrange(4), 0]
    shape = []
    while count > 1 and len(shape) < 4:
        factor = random.choice([f for f in range(2, count + 1) if count % f == 0])
        shape.append(1 if random.random() < 0.2 else factor)
        count //= shape[-1]
    return shape + ([count] if count > 1 or random.random() < 0.3 else [])


def reshaping(random):
    shape = any_shape(random)
    count = math.prod(shape)
    new = split(random, count)
    if len(shape) > 1 and random.random() < 0.4:
        at = random.randrange(len(shape) - 1)
        new = shape[:at] + [shape[at] * shape[at + 1]] + shape[at + 2:]
    if new and count > 0 and random.random() < 0.4:
        new[random.randrange(len(new))] = -1
    return Draft([Operand(any_type(random, ALL), shape)], {"shape": new})


family("shapes", [
    Row("reshape", reshaping, lambda x, a: x[0].reshape(a["shape"])),
])
