"""Gradients, beside the rows of the other tables: which have none, functions that PyTorch can differentiate where a
row's own cannot, and named cases for the places where conventions matter."""

import math

import torch
import torch.nn.functional as F

from drafts import WIDE, Draft, any_type, binary
from table_losses import (LOGS, binary_cross_entropy, binary_cross_entropy_with_logits, classes_draft, cross_entropy_by_parts,
                          drafted, one_of, weighted)
from table_core import trigamma
from table_nn import cross_entropy, loss_draft, mse, nll
from table_products import convolved, repeated_heads
from values import Domain, Operand

INF, NAN = math.inf, math.nan

# Rows whose outputs nothing depends on, or that are no functions.
WITHOUT = {
    *("bitwise_and bitwise_or bitwise_xor bitwise_not bitwise_left_shift bitwise_right_shift".split()),
    "nonzero", "polygamma",
    *("eq_scalar ne_scalar lt_scalar le_scalar gt_scalar ge_scalar".split()),
    *("eq ne lt le gt ge logical_and logical_or logical_xor logical_not isnan isinf isfinite".split()),
    *("any any_over any_all all all_over all_all".split()),
    *("argmax argmin argmax_all argmin_all argsort one_hot bincount histogram".split()),
    "floor_div",
    *("zeta heaviside gcd lcm bessel_j0 bessel_j1".split()),  # steps, or not known to PyTorch
    *("i0e i1e sinc".split()),  # PyTorch subtracts what is nearly equal, in the type of its input; likewise
    *("sgd adam adamw optimizer clip_grad_norm".split()),  # steps
    "batch_norm",  # changes running statistics; batch_norm_alone does not
}

# ---- functions ------------------------------------------------------------------------------------------


def gradient_function(function, given=None, first=None):
    """The gradients of function(inputs, attributes), themselves differentiable. `given`: the number of the output's
    gradient among the inputs, or ones if there are not so many; `first`: of the inputs before it."""
    def gradients(x, a):
        others = [t for i, t in enumerate(x) if i != given]
        variables = [t if t.requires_grad or not t.is_floating_point() else t.detach().requires_grad_() for t in others]
        result = function(variables, a)
        seed = x[given] if len(x) > given else torch.ones_like(result)
        wanted = [t for t in variables if t.is_floating_point()][:first]
        return torch.autograd.grad(result, wanted, seed, create_graph=True)
    return gradients


def loss_of_rows(x, a):
    return F.cross_entropy(x[0], x[1].long())


def norm_gradients(name):
    def function(x, a):
        gradients = list(gradient_function(lambda y, b: standardized(y, b, name), 0)(x, a))
        if name == "layer" and a["gain"]:
            lost = x[0].dim() - x[2].dim()
            gradients.append(x[0].sum(tuple(range(lost))) if lost else x[0].clone())
        return gradients
    return function


def standardized(x, a, name):
    """As normalized(); PyTorch's layer_norm() has no second derivative where it has a bias but no gain."""
    rest = list(x[1:])
    gain = rest.pop(0) if a["gain"] else None
    bias = rest.pop(0) if a["bias"] else None
    own = gain if gain is not None else bias
    dims = tuple(range(-(own.dim() if own is not None else 1), 0))
    centred = x[0] - x[0].mean(dims, keepdim=True) if name == "layer" else x[0]
    result = centred * torch.rsqrt(centred.square().mean(dims, keepdim=True) + a["epsilon"])
    result = result * gain if gain is not None else result
    return result + bias if bias is not None else result


def silu_gradient(x, _):
    """PyTorch's has no derivative."""
    part = torch.sigmoid(x[1])
    return x[0] * part * (1 + x[1] * (1 - part))


def scores(x, a):
    scale = a["scale"] or 1 / math.sqrt(x[0].shape[-1])
    result = scale * x[0] @ x[1].transpose(-2, -1)
    if len(x) > 3:
        result = result + x[3]
    if a["causal"]:
        result = result.masked_fill(torch.ones(result.shape[-2:]).tril() == 0, -INF)
    return result


def attention(x, a):
    """PyTorch's has no second derivative but for some backends."""
    return torch.softmax(scores(x, a), -1) @ x[2]


def convolution_gradient(of_input):
    def function(x, a):
        asked = torch.zeros(a["shape"], dtype=x[1].dtype, requires_grad=True)
        result = convolved((asked, x[1]) if of_input else (x[1], asked), a)
        return torch.autograd.grad(result, asked, x[0], create_graph=True)
    return function


def angle(x, a):
    """PyTorch's derivative by one of f32 squares the other as u8."""
    return torch.atan2(*(t if t.is_floating_point() else t.to(torch.float32) for t in x))


def binary_cross_entropy_inside(x, a):
    """PyTorch's second derivative adds 1e-12 to its factors."""
    if bool((x[0].min() if x[0].numel() else 1) < 0.01):
        return binary_cross_entropy(x, a)
    return weighted(-x[1] * torch.log(x[0]) - (1 - x[1]) * torch.log1p(-x[0]), x, a)


def cosines(x, a):
    """PyTorch's derivative passes through the norm where it is bounded by epsilon."""
    x = torch.broadcast_tensors(*x)
    units = [t / t.norm(2, a["dim"], True).clamp_min(a["epsilon"]) for t in x]
    return (units[0] * units[1]).sum(a["dim"])


class Digamma(torch.autograd.Function):
    """PyTorch's own derivative is right to nine digits."""

    @staticmethod
    def forward(context, x):
        context.save_for_backward(x)
        return torch.digamma(x)

    @staticmethod
    def backward(context, gradient):
        return gradient * trigamma(context.saved_tensors[0])


class Lgamma(torch.autograd.Function):
    @staticmethod
    def forward(context, x):
        context.save_for_backward(x)
        return torch.lgamma(x)

    @staticmethod
    def backward(context, gradient):
        return gradient * Digamma.apply(context.saved_tensors[0])


def floating(x):
    return x if x.is_floating_point() else x.float()


FUNCTIONS = {
    "digamma": lambda x, a: Digamma.apply(floating(x[0])),
    "lgamma": lambda x, a: Lgamma.apply(floating(x[0])),
    "atan2": angle,
    "cosine_similarity": cosines,
    "binary_cross_entropy": binary_cross_entropy_inside,
    "hardsigmoid": lambda x, a: F.relu6(x[0] + 3) / 6,  # PyTorch's gradient has 1 / 6 in single precision
    "cross_entropy_backward": gradient_function(loss_of_rows, 2),
    "cross_entropy_ex_backward": gradient_function(cross_entropy, 2),
    "cross_entropy_backward_with_log_sums": gradient_function(cross_entropy, 2),
    "nll_backward": gradient_function(nll, 2),
    "mse_backward": gradient_function(mse, 2, 1),
    "binary_cross_entropy_with_logits": binary_cross_entropy_with_logits,
    "weighted_cross_entropy": cross_entropy_by_parts,
    "soft_cross_entropy": cross_entropy_by_parts,
    **{name + "_cross_entropy_backward": lambda x, a: gradient_function(cross_entropy_by_parts, 2 + a["weight"], 1)(x, a)
       for name in ("weighted", "soft")},
    "embedding": lambda x, a: x[0][x[1].long()],  # PyTorch's fails for second derivatives of nothing
    "layer_norm": lambda x, a: standardized(x, a, "layer"),
    "rms_norm": lambda x, a: standardized(x, a, "rms"),
    "silu_backward": silu_gradient,
    "layer_norm_backward": norm_gradients("layer"),
    "rms_norm_backward": norm_gradients("rms"),
    "attention": attention,
    "attention_with_log_sums": lambda x, a: (attention(x, a), torch.logsumexp(scores(x, a), -1)),
    "attention_grouped": lambda x, a: attention(repeated_heads(x), a),
    "attention_grouped_with_log_sums": lambda x, a: (attention(repeated_heads(x), a), torch.logsumexp(scores(repeated_heads(x), a), -1)),
    "attention_backward": gradient_function(attention, 0, 3),
    "attention_backward_with_log_sums": gradient_function(attention, 0, 3),
    **{f"conv{n}d_backward_{name}": convolution_gradient(name == "input")
       for n in (1, 2) for name in ("input", "weight")},
}

# ---- drafts ---------------------------------------------------------------------------------------------


def narrow_conversion(random):
    """Between floating types."""
    return Draft([Operand(any_type(random, WIDE), [random.randint(1, 6), 3])], {"type": random.choice(WIDE)})


# What the magnitudes of terms are multiplied by: scores and statistics are sums as well, and so is digamma near its zeros.
MARGINS = {name: 4 for name in ("lgamma", "attention", "attention_with_log_sums", "attention_backward",
                                "attention_backward_with_log_sums", "attention_grouped",
                                "attention_grouped_with_log_sums", "layer_norm_backward", "rms_norm_backward",
                                "rotary", "rotary_backward", "cosine_similarity", "normalize", "batch_norm_alone",
                                "batch_norm_of_running", "group_norm", "instance_norm")}
# Without types of 16 bits: sums of logarithms are f32 here.
NOT_NARROW = {"attention_with_log_sums", "attention_grouped_with_log_sums"}
# Without empty tensors: PyTorch's mean of no rows is NaN, and so is what it is multiplied by.
FILLED = {"weighted_cross_entropy_backward", "soft_cross_entropy_backward", "cross_entropy_backward", "cross_entropy_ex_backward",
          "cross_entropy_backward_with_log_sums", "nll_backward", "mse_backward"}

def counting_all(sample):
    """Losses of rows that are all ignored are 0 / 0; PyTorch's second derivatives then NaN, here 0."""
    def counting(random):
        draft = sample(random)
        draft.attributes["ignore_index"] = -100
        return draft
    return counting


POSITIVE = Domain(8, 240, 64)
INSIDE = Domain(4, 60, 64)


def kl_draft(random):
    """The derivative by a target of 0 is -infinity; PyTorch's is NaN."""
    logs = random.randrange(2)
    return drafted(LOGS, LOGS if logs else INSIDE, log_target=one_of(logs))(random)


def pairs_of_vectors(random):
    """Repeated, but not along the vectors: numbers that are all equal have a gradient of 0, but for rounding."""
    shape = [random.randint(1, 4), random.randint(2, 5), random.randint(1, 3)]
    other = [random.choice([size, 1]) if d != 1 else size for d, size in enumerate(shape)]
    type_name = any_type(random, WIDE)
    return Draft([Operand(type_name, shape), Operand(type_name, other)],
                 {"dim": random.choice([1, -2]), "epsilon": random.choice([1e-8, 0.5])})


SAMPLES = {"to_type": narrow_conversion, "cosine_similarity": pairs_of_vectors,
           "weighted_cross_entropy": counting_all(classes_draft(False, False)),
           "weighted_cross_entropy_backward": counting_all(classes_draft(False, True)),
           "binary_cross_entropy": drafted(INSIDE, INSIDE, weight=one_of(0, 1)), "kl_div": kl_draft}


def longer_line(random):
    """Two elements' standard deviation is linear: its second derivative is what rounding leaves."""
    return Draft([Operand(any_type(random, WIDE), [random.randint(1, 4), random.randint(3, 7)])],
                 {"correction": random.choice([0.0, 1.0]), "dim": 1, "keepdim": random.randrange(2)})


SECOND_SAMPLES = {
    "std": longer_line,
    "cross_entropy_ex": counting_all(loss_draft(True, False)),
    "cross_entropy_with_log_sums": counting_all(loss_draft(True, False)),
    "nll": counting_all(loss_draft(False, False, True)),
    "pow": binary(WIDE, [POSITIVE]),  # at 0 some of PyTorch's are NaN
}
SECOND_FILLED = {"cross_entropy", "cross_entropy_ex", "cross_entropy_with_log_sums", "nll", "weighted_cross_entropy", "soft_cross_entropy"}  # 0 where PyTorch's are NaN
# ---- named cases ----------------------------------------------------------------------------------------


def literal(*values, shape=None, type="f64"):
    return Operand(type, list(shape) if shape else [len(values)], literal=list(values), may_be_partial=False)


def whole(*values, shape=None):
    return literal(*values, shape=shape, type="i64")


def reduced(values, shape, dim, **more):
    return [literal(*values, shape=shape)], {"dim": dim, "keepdim": 0, **more}


# Two rows: ties, and none.
TIES = [3.0, 1.0, 3.0, 3.0, -1.0, -1.0, 2.0, 0.5]
ZEROS = [0.0, 2.0, 3.0, 4.0, 0.0, 5.0, 0.0, 2.0, 1.0, 2.0, 3.0, -4.0]
LOGITS = [0.5, -1.0, 2.0, 0.25, 0.25, 0.25, -3.0, 1.0, 1.5]
EDGES = [-INF, -1.0, -0.0, 0.0, 1.0, INF, NAN]
PAIRS = [literal(2.0, 1.0, -3.0, 0.0, -0.0, 5.0), literal(2.0, 2.0, -3.0, 0.0, 0.0, NAN)]
INFINITIES = [literal(INF, -INF, INF, -INF, 1.0, -1.0, INF), literal(INF, -INF, 1.0, 2.0, INF, -INF, -INF)]
ORIGIN = [literal(0.0, 0.0, -0.0, 1.0, -2.0), literal(0.0, -0.0, 0.0, 0.0, 0.0)]


def at_edges(*names, edges=EDGES, **attributes):
    return {name: [("edges", [literal(*edges)], attributes)] for name in names}


NAMED = {
    **at_edges("abs", "relu", "sqrt", "rsqrt", "reciprocal", "square", "sign", "exp", "log", "log1p", "log2", "log10",
               "tanh", "sigmoid", "silu", "gelu", "softplus", "hardswish", "exp2", "expm1", "erf", "erfc", "floor",
               "atan", "asin", "acos", "erfinv", "sinh", "cosh", "asinh", "acosh", "atanh", "gelu_tanh", "mish", "selu"),
    "hardswish": [("corners", [literal(-3.0, 3.0, -2.5, 0.0, 4.0, -4.0)], {})],
    "hardsigmoid": [("corners", [literal(-3.0, 3.0, -2.5, 0.0, 4.0, -4.0)], {})],
    "softplus_ex": [("threshold", [literal(2.0, 2.5, 1.5, -30.0, 0.0)], {"beta": 0.5, "threshold": 1.0})],
    "softplus": [("threshold", [literal(20.0, 20.5, 19.5, -30.0, 0.0)], {})],
    "leaky_relu": [("zero", [literal(*EDGES)], {"slope": 0.25}), ("negative slope", [literal(*EDGES)], {"slope": -0.5})],
    "elu": [("zero", [literal(*EDGES)], {"alpha": 0.25})],
    "clamp": [("bounds", [literal(-1.0, 2.0, 0.0, -1.5, 2.5, NAN)], {"least": -1.0, "most": 2.0}),
              ("crossed", [literal(1.0, 2.0, 3.0, 0.0)], {"least": 3.0, "most": 1.0}),
              ("one side", [literal(-INF, 1.0, INF)], {"least": -INF, "most": 1.0})],
    "fmax": [("ties", PAIRS, {}), ("NaN", [literal(NAN, 1.0, NAN, 2.0), literal(1.0, NAN, NAN, 3.0)], {})],
    "fmin": [("ties", PAIRS, {}), ("NaN", [literal(NAN, 1.0, NAN, 2.0), literal(1.0, NAN, NAN, 3.0)], {})],
    "nan_to_num": [("edges", [literal(*EDGES)], {"nan": 1.0, "posinf": 2.0, "neginf": -2.0})],
    "copysign": [("zeros", [literal(0.0, -0.0, 1.0, -2.0), literal(1.0, -1.0, -0.0, 0.0)], {})],
    "clamp_tensors": [("least ties", PAIRS, {"bounds": 1}), ("most ties", PAIRS, {"bounds": 2}),
                      ("ties", [literal(1.0, 0.0, 2.0, 1.0, 0.0, 2.0, 2.0, 1.5, NAN),
                                literal(0.0, 0.0, 0.0, 1.0, 1.0, 1.0, 2.0, 2.0, 0.0),
                                literal(2.0, 2.0, 2.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0)], {"bounds": 3})],
    "maximum": [("ties", PAIRS, {})],
    "minimum": [("ties", PAIRS, {})],
    "atan2": [("origin", ORIGIN, {}), ("infinities", INFINITIES, {})],
    "hypot": [("origin", ORIGIN, {}), ("infinities", INFINITIES, {})],
    "logaddexp": [("infinities", INFINITIES, {}),
                  ("far apart", [literal(1000.0, -1000.0, 0.0), literal(-1000.0, 1000.0, 0.0)], {})],
    "pow": [("zeros", [literal(0.0, 0.0, 0.0, 0.0, 2.0, -2.0), literal(0.0, 1.0, 2.0, 0.5, 0.0, 0.0)], {}),
            ("negative base", [literal(-2.0, -2.0, -1.0), literal(2.0, 3.0, 0.0)], {})],
    "pow_scalar": [("zero to " + str(e), [literal(0.0, *([-0.0] if e != 0.5 else []), 2.0, -2.0)], {"exponent": e})
                   for e in (0.0, 1.0, 2.0, 0.5, -1.0)],
    "div": [("by zero", [literal(1.0, 0.0, -1.0), literal(0.0, 0.0, 2.0)], {}),
            ("broadcast", [literal(*range(1, 7), shape=(2, 3)), literal(4.0, shape=(1,))], {})],
    "remainder": [("multiples", [literal(6.0, -6.0, 5.0, -5.0), literal(3.0, 3.0, -3.0, 3.0)], {})],
    "fmod": [("multiples", [literal(6.0, -6.0, 5.0, -5.0), literal(3.0, 3.0, -3.0, 3.0)], {})],
    "where": [("not taken", [literal(1, 0, 1, 0, type="bool"), literal(1.0, NAN, 2.0, INF),
                             literal(NAN, 3.0, INF, 4.0)], {})],
    "masked_fill": [("filled", [literal(NAN, 1.0, INF), literal(1, 0, 1, type="bool")], {"value": 7.0})],
    **{name: [("ties", *reduced(TIES, (2, 4), 1))] for name in
       ("max", "min", "max_with_indices", "min_with_indices")},
    "max_all": [("ties", [literal(*TIES)], {})],
    "min_all": [("ties", [literal(*TIES)], {})],
    "max_over": [("ties", [literal(*TIES, shape=(2, 4))], {"dims": [0, 1], "keepdim": 0})],
    "min_over": [("ties", [literal(*TIES, shape=(2, 4))], {"dims": [1], "keepdim": 1})],
    "prod": [("zeros", *reduced(ZEROS, (3, 4), 1)), ("along zeros", *reduced(ZEROS, (3, 4), 0))],
    "prod_all": [("a zero", [literal(0.0, 2.0, 3.0)], {}), ("zeros", [literal(0.0, 2.0, 0.0)], {})],
    "prod_over": [("zeros", [literal(*ZEROS, shape=(3, 4))], {"dims": [0, 1], "keepdim": 0})],
    "cumprod": [("zeros", [literal(*ZEROS, shape=(3, 4))], {"dim": 1}),
                ("zeros across", [literal(*ZEROS, shape=(3, 4))], {"dim": 0})],
    **{"norm": [(f"zero p {p}", *reduced([0.0, 0.0, 0.0, 1.0, -2.0, 0.0], (2, 3), 1, p=p))
                for p in (0.0, 0.5, 1.0, 2.0, 3.0, INF)]
       + [("ties infinite p", *reduced([2.0, -2.0, 1.0, 0.0, 3.0, 3.0], (2, 3), 1, p=INF))]},
    "norm_all": [("zero", [literal(0.0, 0.0)], {"p": 2.0})],
    "var": [("equal", *reduced([2.0, 2.0, 2.0, 1.0, 2.0, 3.0], (2, 3), 1, correction=1.0)),
            ("one element", *reduced([2.0, 3.0], (2, 1), 1, correction=1.0))],
    "std": [("equal", *reduced([0.1, 0.1, 0.1, 1.0, 2.0, 3.0], (2, 3), 1, correction=1.0)),
            ("one element", *reduced([2.0, 3.0], (2, 1), 1, correction=1.0))],
    "logsumexp": [("infinities", *reduced([INF, 1.0, 2.0, -INF, 1.0, -INF, 1000.0, -1000.0, 999.0], (3, 3), 1))],
    "nansum": [("NaN", *reduced([NAN, 1.0, 2.0, NAN, NAN, NAN], (2, 3), 1))],
    "nanmean": [("NaN", *reduced([NAN, 1.0, 2.0, 3.0, NAN, 4.0], (2, 3), 1))],
    "max_pool": [("ties", [literal(*TIES, shape=(1, 2, 4))],
                  {"dims": 1, "kernel": [3], "stride": [1], "padding": [1], "dilation": [1], "ceil": 0}),
                 ("NaN and infinities", [literal(NAN, 1.0, NAN, -INF, -INF, -INF, INF, 2.0, shape=(1, 1, 8))],
                  {"dims": 1, "kernel": [2], "stride": [2], "padding": [0], "dilation": [1], "ceil": 0})],
    "adaptive_max_pool": [("ties", [literal(*TIES, shape=(1, 2, 4))], {"sizes": [3]})],
    "sort": [("ties", [literal(*TIES, shape=(2, 4))], {"dim": 1, "descending": 0}),
             ("ties descending", [literal(*TIES, shape=(2, 4))], {"dim": 1, "descending": 1})],
    "topk": [("ties", [literal(*TIES, shape=(2, 4))], {"dim": 1, "k": 2, "largest": 1})],
    **{name: [("minus infinity", [literal(0.0, -INF, 1.0, -INF, -INF, 2.0, shape=(2, 3))], {"dim": 1}),
              ("all minus infinity", [literal(-INF, -INF, 1.0, 2.0, shape=(2, 2))], {"dim": 1}),
              ("large", [literal(1000.0, -1000.0, 999.0, -3.0, shape=(2, 2))], {"dim": 1})]
       for name in ("softmax", "log_softmax")},
    "cross_entropy": [("large", [literal(1000.0, -1000.0, 0.0, 5.0, shape=(2, 2)), whole(1, 0)], {})],
    **{name: [
        (f"ignored reduction {r} smoothing {s}", [literal(*LOGITS, shape=(3, 3)), whole(1, 2, 1)],
         {"reduction": r, "ignore_index": 1, "label_smoothing": s}) for r in range(3) for s in (0.0, 0.25)]
       + [("all ignored", [literal(*LOGITS, shape=(3, 3)), whole(1, 1, 1)],
           {"reduction": r, "ignore_index": 1, "label_smoothing": 0.0}) for r in (0, 1)]
       + [("minus infinity", [literal(0.0, -INF, 1.0, 2.0, shape=(2, 2)), whole(0, 1)],
           {"reduction": 1, "ignore_index": -100, "label_smoothing": 0.0})]
       for name in ("cross_entropy_ex", "cross_entropy_with_log_sums")},
    "weighted_cross_entropy": [
        (f"ignored reduction {r} smoothing {s}", [literal(*LOGITS, shape=(3, 3)), whole(1, 2, 1), literal(0.5, 2.0, 1.5)],
         {"reduction": r, "ignore_index": 1, "label_smoothing": s, "weight": 1}) for r in range(3) for s in (0.0, 0.25)],
    "soft_cross_entropy": [
        (f"infinite reduction {r}", [literal(0.0, -INF, 1.0, 2.0, shape=(2, 2)), literal(0.0, 1.0, 0.5, 0.5, shape=(2, 2))],
         {"reduction": r, "ignore_index": -100, "label_smoothing": 0.0, "weight": 0}) for r in (1, 2)],
    **{name: [("ends", [literal(0.0, 1.0, 0.0, 1.0, 0.5, 1e-14), literal(0.0, 1.0, 1.0, 0.0, 0.0, 1.0)],
               {"reduction": 1, "weight": 0})] for name in ["binary_cross_entropy"]},
    "binary_cross_entropy_with_logits": [
        ("edges", [literal(INF, -INF, INF, -INF, NAN, 1000.0, -1000.0), literal(0.5, 0.5, 1.0, 0.0, 0.5, 1.0, 1.0)],
         {"reduction": 2, "weight": 0, "pos_weight": 0})],
    "huber": [("bends", [literal(0.0, 0.5, 1.0, -0.5, -2.0, INF, NAN), literal(0.0, 0.0, 0.25, 0.0, 1.0, 0.0, 0.0)],
               {"reduction": 2, "delta": 0.5})],
    "smooth_l1": [("bends", [literal(0.0, 0.5, 1.0, -0.5, -2.0, INF, NAN), literal(0.0, 0.0, 0.25, 0.0, 1.0, 0.0, 0.0)],
                   {"reduction": 2, "beta": b}) for b in (0.0, 0.5)],
    "l1": [("equal", [literal(0.0, 0.5, INF, -0.5, NAN), literal(0.0, 0.5, 0.25, 0.0, 1.0)], {"reduction": 2})],
    "normalize": [("zero", [literal(0.0, 0.0, 0.0, 1.0, -2.0, 0.0, shape=(2, 3))], {"dim": 1, "p": p, "epsilon": 0.5})
                  for p in (1.0, 2.0, INF)],
    "matrix_norm": [("zeros and ties", [literal(0.0, 0.0, 0.0, 0.0, 1.0, -2.0, -2.0, 1.0, shape=(2, 2, 2))],
                     {"kind": k, "keepdim": 0}) for k in range(5)],
    "prelu": [("zeros", [literal(*EDGES), literal(0.25)], {})],
    "nll": [(f"ignored reduction {r}", [literal(*LOGITS, shape=(3, 3)), whole(1, 2, 1)],
             {"reduction": r, "ignore_index": 1}) for r in range(3)],
    "embedding": [("repeated", [literal(*range(8), shape=(4, 2)), whole(1, 1, 3, 1, 0)], {})],
    "index_add": [("repeated", [literal(*range(6), shape=(3, 2)), whole(2, 2, 0, 2), literal(*range(8), shape=(4, 2))],
                   {"dim": 0})],
    "scatter_add": [("repeated", [literal(*range(6), shape=(3, 2)), whole(2, 1, 2, 1, 2, 1, shape=(3, 2)),
                                  literal(*range(6), shape=(3, 2))], {"dim": 0})],
    "scatter_reduce": [(f"zeros and ties {name} {includes}",
                        [literal(0.0, 0.0, 2.0, 0.0, 1.0, 1.0), whole(0, 0, 2, 2, 3, 3, 3),
                         literal(0.0, 3.0, 0.0, -2.0, 1.0, 1.0, -1.0)],
                        {"dim": 0, "reduction": reduction, "include_self": includes})
                       for reduction, name in enumerate(("sum", "mean", "prod", "min", "max")) for includes in (0, 1)],
    "scatter": [("repeated", [literal(*range(6), shape=(3, 2)), whole(2, 1, 2, 1, 2, 1, shape=(3, 2)),
                              literal(*range(6), shape=(3, 2))], {"dim": 0})],
    "gather": [("repeated", [literal(*range(6), shape=(3, 2)), whole(2, 1, 2, 1, 2, 1, shape=(3, 2))], {"dim": 0})],
    "index_select": [("repeated", [literal(*range(6), shape=(3, 2)), whole(2, 2, 0, 2)], {"dim": 0})],
    "layer_norm": [("equal rows", [literal(2.0, 2.0, 2.0, 1.0, 2.0, 4.0, shape=(2, 3))],
                    {"gain": 0, "bias": 0, "epsilon": 1e-5})],
    "rms_norm": [("zero rows", [literal(0.0, 0.0, 1.0, 2.0, shape=(2, 2))], {"gain": 0, "bias": 0, "epsilon": 1e-5})],
}

# Named cases, or rows, without second derivatives: where PyTorch's are NaN, here 0; where they are not exact.
SECOND_NOT_NAMED = {"binary_cross_entropy", "normalize", "matrix_norm", "prelu", "pow", "logaddexp", "norm", "norm_all", "cross_entropy_ex",
                    "cross_entropy_with_log_sums", "atan2"}

# ---- second derivatives ---------------------------------------------------------------------------------

SECOND = set("""
xlogy erfinv lgamma cummax cummin index_put masked_select
fmax fmin nan_to_num frac clamp_tensors lerp_tensor masked_fill_tensor
add sub mul div pow maximum minimum atan2 hypot logaddexp scale pow_scalar clamp addcmul addcdiv lerp where to_type
masked_fill square reciprocal sqrt rsqrt exp exp2 expm1 asinh acosh atanh gelu_tanh mish selu hardsigmoid softplus_ex log log1p log2 log10 sin cos tan tanh asin acos atan sinh cosh
abs erf erfc sigmoid silu relu gelu softplus hardswish leaky_relu elu
mul_inplace add_inplace div_inplace sum mean prod max min norm var norm_all var_all prod_all prod_over
std logsumexp nansum nanmean
l1 huber smooth_l1 binary_cross_entropy binary_cross_entropy_with_logits kl_div
weighted_cross_entropy soft_cross_entropy normalize cosine_similarity matrix_norm glu prelu batch_norm_alone batch_norm_of_running group_norm
instance_norm embedding cross_entropy cross_entropy_ex cross_entropy_with_log_sums nll mse reshape transpose expand slice flip roll cat stack split tril
max_with_indices cumsum cumprod index_select gather scatter_add index_add sort topk
einsum tensordot median quantile cov
scatter index_copy scatter_scalar index_fill scatter_reduce segment_sum bincount_weighted
matmul matmul_ex dot outer addmm linear conv3d conv2d conv1d conv_transpose3d conv_transpose2d conv_transpose1d attention attention_with_log_sums attention_grouped
max_pool avg_pool adaptive_max_pool adaptive_avg_pool interpolate_nearest interpolate
softmax log_softmax layer_norm rms_norm dropout_backward rotary
""".split())
