"""Products, convolutions, attention: products.h."""

import math

import torch
import torch.nn.functional as F
from torch.distributed.tensor import DTensor, Replicate, distribute_tensor

from drafts import Draft, any_size, any_type
from rows import Row, family, of_tensors
from table_core import matmul, matmul_terms
from values import FLOATING, INTEGER, Operand

TYPES = FLOATING + INTEGER


def sizes(random, n, limit=40):
    """n sizes of which any two together are few elements."""
    while True:
        drawn = [any_size(random, 6) for _ in range(n)]
        if max(a * b for i, a in enumerate(drawn) for b in drawn[:i] + [1]) <= limit:
            return drawn


def batches(random):
    """Batch dimensions of both operands, which broadcast."""
    batch = [random.randint(1, 3) for _ in range(random.choice([0, 0, 1, 1, 2]))]
    first, second = list(batch), list(batch)
    for own in (first, second):
        for d in range(len(own)):
            own[d] = 1 if random.random() < 0.25 else own[d]
    if random.random() < 0.3:
        second = second[random.randint(0, len(second)):]
    elif random.random() < 0.3:
        first = first[random.randint(0, len(first)):]
    return first, second


def general_product(transposes):
    def sample(random):
        m, n, k = sizes(random, 3, 16)
        first, second = batches(random)
        values = {}
        if transposes:
            values = {"transpose_a": random.randrange(2), "transpose_b": random.randrange(2)}
        first += [k, m] if values.get("transpose_a") else [m, k]
        second += [n, k] if values.get("transpose_b") else [k, n]
        if not transposes and random.random() < 0.25:
            first = [k]
        elif not transposes and random.random() < 0.25:
            second = [k]
        type_name = any_type(random, TYPES)
        return Draft([Operand(type_name, first), Operand(type_name, second)], values)
    return sample


def vectors(equal):
    def sample(random):
        m, n = sizes(random, 2)
        type_name = any_type(random, TYPES)
        return Draft([Operand(type_name, [m]), Operand(type_name, [m if equal else n])])
    return sample


def addition(random):
    m, n, k = sizes(random, 3)
    type_name = any_type(random, TYPES)
    own = random.choice([[m, n], [n], [1, n], [m, 1], []])
    factors = [0.0, 1.0, 2.0] if type_name == "u8" else [0.0, 1.0, -2.0, 3.0]
    return Draft([Operand(type_name, own), Operand(type_name, [m, k]), Operand(type_name, [k, n])],
                 {"beta": random.choice(factors), "alpha": random.choice(factors)})


def addmm(x, a):
    beta, alpha = (v if x[0].is_floating_point() else int(v) for v in (a["beta"], a["alpha"]))
    return torch.addmm(x[0], x[1], x[2], beta=beta, alpha=alpha)


def addmm_terms(x, a):
    result = addmm([t.double().abs() for t in x], {name: abs(value) for name, value in a.items()})
    return result.amax() if result.numel() else result.sum()


def layer(random):
    n, k = sizes(random, 2, 16)
    leading = [any_size(random, 4) for _ in range(random.randint(0, 2))]
    type_name = any_type(random, FLOATING)
    bias = [Operand(type_name, [n])] if random.random() < 0.6 else []
    return Draft([Operand(type_name, leading + [k]), Operand(type_name, [n, k]), *bias])


def convolution(dims, gradient=None):
    """Inputs [n, c, ...], weights [o, c / groups, ...] and a bias; or the output's gradient in place of one
    of them."""
    def sample(random):
        while True:
            groups, n = random.choice([1, 1, 2]), random.randint(0 if random.random() < 0.1 else 1, 3)
            channels, features = groups * random.randint(1, 2), groups * random.randint(1, 2)
            values = {"stride": [random.randint(1, 2) for _ in range(dims)],
                      "padding": [random.randint(0, 1) for _ in range(dims)],
                      "dilation": [random.randint(1, 2) for _ in range(dims)], "groups": groups}
            image = [random.randint(2, 4 if dims == 3 else 6) for _ in range(dims)]
            window = [random.randint(1, 3) for _ in range(dims)]
            after = [(i + 2 * p - d * (w - 1) - 1) // s + 1 for i, p, d, w, s in zip(
                image, values["padding"], values["dilation"], window, values["stride"])]
            sizes = [n * channels * math.prod(image), n * features * math.prod(max(a, 0) for a in after)]
            if min(after) > 0 and max(sizes) <= (100 if dims == 3 else 60):
                break
        shapes = {"x": [n, channels] + image, "weight": [features, channels // groups] + window,
                  "gradient": [n, features] + after}
        type_name = any_type(random, FLOATING)
        if gradient:
            values["shape"] = shapes[gradient]
            names = ["gradient", "weight" if gradient == "x" else "x"]
        else:
            names = ["x", "weight"]
        inputs = [Operand(type_name, shapes[name]) for name in names]
        if not gradient and random.random() < 0.5:
            inputs.append(Operand(type_name, [features]))
        return Draft(inputs, values)
    return sample


def transposed(dims):
    """Inputs [n, c, ...], weights [c, o / groups, ...] and a bias."""
    def sample(random):
        while True:
            groups, n = random.choice([1, 1, 2]), random.randint(0 if random.random() < 0.1 else 1, 3)
            channels, features = groups * random.randint(1, 2), random.randint(1, 2)
            stride = [random.randint(1, 3) for _ in range(dims)]
            values = {"stride": stride, "padding": [random.randint(0, 1) for _ in range(dims)],
                      "dilation": [random.randint(1, 2) for _ in range(dims)], "groups": groups,
                      "output_padding": [random.randrange(s) for s in stride]}
            image = [random.randint(1, 4) for _ in range(dims)]
            window = [random.randint(1, 3) for _ in range(dims)]
            after = [(i - 1) * s - 2 * p + d * (w - 1) + 1 + m for i, s, p, d, w, m in zip(
                image, stride, values["padding"], values["dilation"], window, values["output_padding"])]
            sizes = [n * channels * math.prod(image), n * features * groups * math.prod(max(a, 0) for a in after)]
            if min(after) > 0 and max(sizes) <= (100 if dims == 3 else 60):
                break
        type_name = any_type(random, FLOATING)
        inputs = [Operand(type_name, [n, channels] + image), Operand(type_name, [channels, features] + window)]
        if random.random() < 0.5:
            inputs.append(Operand(type_name, [features * groups]))
        return Draft(inputs, values)
    return sample


def conv_transposed(x, a):
    function = (F.conv_transpose1d, F.conv_transpose2d, F.conv_transpose3d)[x[0].dim() - 3]
    return function(x[0], x[1], x[2] if len(x) > 2 else None, a["stride"], a["padding"], a["output_padding"], a["groups"],
                    a["dilation"])


def convolved(x, a):
    function = (F.conv1d, F.conv2d, F.conv3d)[x[0].dim() - 3]
    return function(x[0], x[1], x[2] if len(x) > 2 else None, a["stride"], a["padding"], a["dilation"],
                    a["groups"])


def convolution_gradient(of_input):
    """By PyTorch's derivative, of an input or of weights that do not matter."""
    def function(x, a):
        gradient, other = x
        asked = torch.zeros(a["shape"], dtype=other.dtype)
        if isinstance(other, DTensor):
            asked = distribute_tensor(asked, other.device_mesh, [Replicate()] * other.device_mesh.ndim)
        asked.requires_grad_()
        pair = (asked, other) if of_input else (other, asked)
        convolved(pair, a).backward(gradient)
        return asked.grad
    return function


def terms_of(function):
    """The same of magnitudes: what the terms add up to."""
    def terms(x, a):
        result = function([t.double().abs() for t in x], a)
        return result.amax() if result.numel() else result.sum()
    return terms


def attention_draft(random):
    s, t, e, f = (random.randint(1, 4) for _ in range(4))
    batch = [random.randint(1, 3) for _ in range(random.randint(0, 2))]
    type_name = any_type(random, FLOATING)
    values = {"causal": random.randrange(2), "scale": random.choice([0.0, 0.5])}
    inputs = [Operand(type_name, batch + own) for own in ([s, e], [t, e], [t, f])]
    if not values["causal"] and random.random() < 0.4:
        inputs.append(Operand(type_name, [s, t]))
    return Draft(inputs, values)


def attention(x, a):
    if isinstance(x[0], DTensor):
        # It fails halfway through what it has changed for a while, and nothing works afterwards.
        raise NotImplementedError("not asked: attention leaves PyTorch's distributed tensors unusable")
    return F.scaled_dot_product_attention(x[0], x[1], x[2], attn_mask=x[3] if len(x) > 3 else None,
                                          is_causal=bool(a["causal"]), scale=a["scale"] or None)


def grouped_draft(random):
    """Several heads of q for each of k and v."""
    s, t, e, f = (random.randint(1, 3) for _ in range(4))
    batch = [random.randint(1, 2)] if random.random() < 0.5 else []
    shared, group = random.choice([(1, 2), (2, 2), (2, 1), (2, 3), (1, 4), (3, 2)])
    type_name = any_type(random, FLOATING)
    inputs = [Operand(type_name, [*batch, *own]) for own in ([shared * group, s, e], [shared, t, e], [shared, t, f])]
    values = {"causal": random.randrange(2), "scale": random.choice([0.0, 0.5])}
    if not values["causal"] and random.random() < 0.5:
        inputs.append(Operand(type_name, random.choice([[s, t], [shared * group, s, t], [1, s, t], [*batch, 1, s, t]])))
    return Draft(inputs, values)


def repeated_heads(x):
    """As PyTorch's enable_gqa, which takes four dimensions alone."""
    times = x[0].shape[-3] // x[1].shape[-3]
    return [x[0], *(t.repeat_interleave(times, -3) for t in x[1:3]), *x[3:]]


def attention_grouped(x, a):
    return attention(repeated_heads(x), a)


def attention_with_log_sums(x, a):
    result = attention(x, a)
    scale = a["scale"] or 1 / math.sqrt(x[0].shape[-1])
    scores = scale * x[0] @ x[1].transpose(-2, -1)
    if len(x) > 3:
        scores = scores + x[3]
    if a["causal"]:
        scores = scores.masked_fill(torch.ones(scores.shape[-2:]).tril() == 0, -math.inf)
    sums = torch.logsumexp(scores, -1)
    return result, sums if sums.dtype == torch.float64 else sums.float()


def grouped_with_log_sums(x, a):
    return attention_with_log_sums(repeated_heads(x), a)


def attention_gradient_draft(random):
    """The gradient first. Half of them with the same placements of q, k and v: the sequence is sharded in all."""
    draft = attention_draft(random)
    q, _, v = draft.inputs[:3]
    if random.random() < 0.5:
        draft.inputs[1].like = draft.inputs[2].like = 1
    draft.inputs.insert(0, Operand(q.type, [*q.shape[:-1], v.shape[-1]]))
    return draft


def attention_gradients(x, a):
    leaves = [t.detach().clone().requires_grad_() for t in x[1:4]]
    attention([*leaves, *x[4:]], a).backward(x[0])
    return [leaf.grad for leaf in leaves]


def attention_gradient_terms(x, a):
    """The gradient with all values and once more with the result, times scores' other side; and scores are sums
    as well."""
    gradient, q, k, v = (t.double().abs() for t in x[:4])
    rows, length = gradient.shape[-2], gradient.shape[-1]
    slopes = 2 * length * gradient.amax() * v.amax()
    return 4 * torch.stack([slopes * k.amax(), rows * slopes * q.amax(), rows * gradient.amax()]).amax()


input_gradient, weight_gradient = convolution_gradient(True), convolution_gradient(False)

family("products", [
    Row("matmul", general_product(False), matmul, matmul_terms),
    Row("matmul_ex", general_product(True), matmul, matmul_terms),
    Row("dot", vectors(True), of_tensors(torch.dot), lambda x, a: x[0].double().abs() @ x[1].double().abs()),
    Row("outer", vectors(False), of_tensors(torch.outer)),
    Row("addmm", addition, addmm, addmm_terms),
    Row("linear", layer, of_tensors(F.linear), terms_of(of_tensors(F.linear))),
    Row("conv2d", convolution(2), convolved, terms_of(convolved)),
    Row("conv1d", convolution(1), convolved, terms_of(convolved)),
    Row("conv2d_backward_input", convolution(2, "x"), input_gradient, terms_of(input_gradient)),
    Row("conv2d_backward_weight", convolution(2, "weight"), weight_gradient, terms_of(weight_gradient)),
    Row("conv1d_backward_input", convolution(1, "x"), input_gradient, terms_of(input_gradient)),
    Row("conv1d_backward_weight", convolution(1, "weight"), weight_gradient, terms_of(weight_gradient)),
    Row("conv_transpose2d", transposed(2), conv_transposed, terms_of(conv_transposed)),
    Row("conv_transpose1d", transposed(1), conv_transposed, terms_of(conv_transposed)),
    Row("attention", attention_draft, attention,
        lambda x, a: torch.tensor(16.0)),  # scores are sums as well; values are averaged by them
    Row("attention_grouped", grouped_draft, attention_grouped, lambda x, a: torch.tensor(16.0)),
    Row("attention_grouped_with_log_sums", grouped_draft, grouped_with_log_sums, lambda x, a: torch.tensor(64.0)),
    Row("attention_backward", attention_gradient_draft, attention_gradients, attention_gradient_terms),
    Row("attention_with_log_sums", attention_draft, attention_with_log_sums, lambda x, a: torch.tensor(64.0)),
    Row("attention_backward_with_log_sums", attention_gradient_draft, attention_gradients, attention_gradient_terms),
    Row("conv3d", convolution(3), convolved, terms_of(convolved)),
    Row("conv_transpose3d", transposed(3), conv_transposed, terms_of(conv_transposed)),
])
