"""Softmax, normalisation, losses: nn.h."""

import torch
import torch.nn.functional as F

from drafts import Draft, any_dim, any_shape, any_size, any_type, indices_of
from rows import Row, family
from table_core import largest
from values import FLOATING, TYPES, Domain, Operand

aten = torch.ops.aten
REDUCTIONS = ["mean", "sum", "none"]


def magnitude_of(number):
    """Of what is computed by subtracting numbers about as large: logits from the logarithm of their sum, the
    mean from a value, both times a gain."""
    return lambda x, a: torch.tensor(float(number))


def rows_of(random, inputs=1):
    type_name, shape = any_type(random, FLOATING), any_shape(random, least=1)
    return type_name, shape, {"dim": any_dim(random, shape)}


def softmax_draft(random):
    type_name, shape, values = rows_of(random)
    return Draft([Operand(type_name, shape)], values)


def softmax_gradient_draft(log):
    def sample(random):
        type_name, shape, values = rows_of(random)
        output = Domain(-240, 0, 64) if log else Domain(0, 64, 64)
        return Draft([Operand(type_name, shape), Operand(type_name, list(shape), output)], values)
    return sample


def softmax_gradient(function):
    return lambda x, a: function(x[0], x[1], a["dim"] % x[0].dim(), x[0].dtype)


def row_sums(x, a):
    """The gradients of a row are added up."""
    total = x[0].double().abs().sum(a["dim"])
    return total.amax() if total.numel() else total.sum()


def norm_draft(with_gradient, with_bias):
    """The last one or two dimensions, with a gain and a bias of their shape, or without."""
    def sample(random):
        type_name = any_type(random, FLOATING)
        shape = any_shape(random, least=1, most=3)
        shape[-1] = max(shape[-1], 2)
        last = random.randint(1, min(2, len(shape)))
        gain = int(random.random() < 0.7)
        bias = int(with_bias and random.random() < 0.6)
        last = last if gain or bias else 1
        inputs = [Operand(type_name, list(shape)) for _ in range(2 if with_gradient else 1)]
        inputs += [Operand(type_name, shape[len(shape) - last:]) for _ in range(gain + bias)]
        return Draft(inputs, {"gain": gain, "bias": bias, "epsilon": random.choice([1e-5, 0.125])})
    return sample


def normalized(x, a, function_name):
    """F.layer_norm or F.rms_norm of x[0], then gain, then bias."""
    rest = list(x[1:])
    gain = rest.pop(0) if a["gain"] else None
    bias = rest.pop(0) if a["bias"] else None
    shape = (gain if gain is not None else bias).shape if a["gain"] or a["bias"] else x[0].shape[-1:]
    if function_name == "rms":
        return F.rms_norm(x[0], shape, gain, a["epsilon"])
    return F.layer_norm(x[0], shape, gain, bias, a["epsilon"])


def norm_gradients(function_name):
    def function(x, a):
        leaves = [t.detach().clone().requires_grad_() for t in x[1:]]
        normalized(leaves, a, function_name).backward(x[0])
        gradients = [leaf.grad for leaf in leaves]
        if function_name == "layer" and a["gain"] and not a["bias"]:
            lost = x[0].dim() - x[2].dim()
            gradients.append(x[0].sum(tuple(range(lost))) if lost else x[0].clone())
        return gradients
    return function


def norm_gradient_draft(with_bias):
    """The gradients of gain and bias are asked for where there is a gain."""
    def sample(random):
        draft = norm_draft(True, False)(random)
        draft.attributes["bias"] = 0
        return draft
    return sample


def gradient_terms(x, a):
    return x[0].double().abs().sum() * (1 + largest(x[1])) * 3


def loss_draft(options, with_gradient, log_probabilities=False):
    def sample(random):
        rows, classes = any_size(random), random.randint(1, 7)
        type_name = any_type(random, FLOATING)
        values = {"reduction": random.randrange(3), "ignore_index": random.choice([-100, 0, 1])}
        if options:
            values["label_smoothing"] = random.choice([0.0, 0.1, 0.5])
        domain = Domain(-240, 0, 64) if log_probabilities else None
        inputs = [Operand(type_name, [rows, classes], domain), indices_of(random, classes, [rows])]
        if with_gradient and random.random() < 0.6:
            inputs.append(Operand(type_name, [rows] if values["reduction"] == 2 else []))
        return Draft(inputs, values)
    return sample


def cross_entropy(x, a):
    return F.cross_entropy(x[0], x[1].long(), ignore_index=a["ignore_index"],
                           reduction=REDUCTIONS[a["reduction"]], label_smoothing=a["label_smoothing"])


def long_rows(with_gradient):
    """The same; one case in three has logits of which a log-sum in double precision has lost digits."""
    def sample(random):
        draft = loss_draft(True, with_gradient)(random)
        if random.random() < 0.33:
            draft.inputs[0].domain = Domain(-240, 240, 8)
        return draft
    return sample


def cross_entropy_with_log_sums(x, a):
    """Log-sums are f64 here for each type; those of others than f64 are compared as f32."""
    sums = torch.logsumexp(x[0], 1)
    return cross_entropy(x, a), sums if sums.dtype == torch.float64 else sums.float()


def nll(x, a):
    return F.nll_loss(x[0], x[1].long(), ignore_index=a["ignore_index"], reduction=REDUCTIONS[a["reduction"]])


def gradient_of(loss, given=2):
    """The gradient of the first input; that of the loss is input number `given`, or 1 for each."""
    def function(x, a):
        first = x[0].detach().clone().requires_grad_()
        result = loss([first, *x[1:given]], a)
        result.backward(x[given] if len(x) > given else torch.ones_like(result))
        return first.grad
    return function


def loss_terms(x, a):
    """A row's loss is 10 at most."""
    return torch.tensor(10.0 * (x[0].shape[0] if REDUCTIONS[a["reduction"]] == "sum" else 1))


def long_loss_terms(x, a):
    """Or 64."""
    return 6.4 * loss_terms(x, a)


def loss_gradient_terms(x, _):
    return max(largest(x[2]), 1) if len(x) > 2 else torch.tensor(1.0)


def squares_draft(with_gradient):
    def sample(random):
        type_name, shape = any_type(random, FLOATING), any_shape(random)
        values = {"reduction": random.randrange(3)}
        inputs = [Operand(type_name, shape), Operand(type_name, list(shape))]
        if with_gradient and random.random() < 0.6:
            inputs.append(Operand(type_name, list(shape) if values["reduction"] == 2 else []))
        return Draft(inputs, values)
    return sample


def mse(x, a):
    return F.mse_loss(x[0], x[1], reduction=REDUCTIONS[a["reduction"]])


def rotary_draft(random):
    type_name, shape = any_type(random, FLOATING), any_shape(random, least=2)
    shape[-1] = 2 * shape[-1] if shape[-1] < 4 else shape[-1] // 2 * 2
    return Draft([Operand(type_name, shape)], {"theta": random.choice([10000.0, 7.0]), "first": random.choice([0, 0, 3, 17])})


def rotary(x, a, sign=1):
    """Vectors of two halves, as complex numbers, times e^(i angle)."""
    positions, width = x[0].shape[-2:]
    pairs = torch.arange(width // 2, dtype=torch.float64)
    angles = torch.outer(a["first"] + torch.arange(positions, dtype=torch.float64), a["theta"] ** (-2 * pairs / max(width, 1)))
    cosine, sine = angles.cos().to(x[0].dtype), sign * angles.sin().to(x[0].dtype)
    first, second = x[0].chunk(2, -1) if width else (x[0], x[0])
    return torch.cat([first * cosine - second * sine, second * cosine + first * sine], -1)


family("networks", [
    Row("softmax", softmax_draft, lambda x, a: F.softmax(x[0], a["dim"])),
    Row("log_softmax", softmax_draft, lambda x, a: F.log_softmax(x[0], a["dim"]), magnitude_of(4)),
    Row("softmax_backward", softmax_gradient_draft(False),
        softmax_gradient(aten._softmax_backward_data), row_sums),
    Row("log_softmax_backward", softmax_gradient_draft(True),
        softmax_gradient(aten._log_softmax_backward_data), row_sums),
    Row("layer_norm", norm_draft(False, True), lambda x, a: normalized(x, a, "layer"), magnitude_of(16)),
    Row("rms_norm", norm_draft(False, False), lambda x, a: normalized(x, a, "rms"), magnitude_of(8)),
    Row("layer_norm_backward", norm_gradient_draft(True), norm_gradients("layer"), gradient_terms),
    Row("rms_norm_backward", norm_gradient_draft(False), norm_gradients("rms"), gradient_terms),
    Row("cross_entropy_ex", loss_draft(True, False), cross_entropy, loss_terms),
    Row("cross_entropy_ex_backward", loss_draft(True, True), gradient_of(cross_entropy), loss_gradient_terms),
    Row("nll", loss_draft(False, False, True), nll, loss_terms),
    Row("nll_backward", loss_draft(False, True, True), gradient_of(nll), loss_gradient_terms),
    Row("mse", squares_draft(False), mse),
    Row("mse_backward", squares_draft(True), gradient_of(mse), lambda x, a: largest(x[0]) + largest(x[1])),
    Row("cross_entropy_with_log_sums", long_rows(False), cross_entropy_with_log_sums, long_loss_terms),
    Row("cross_entropy_backward_with_log_sums", long_rows(True), gradient_of(cross_entropy), loss_gradient_terms),
    Row("rotary", rotary_draft, rotary, lambda x, a: 2 * largest(x[0])),
    Row("rotary_backward", rotary_draft, lambda x, a: rotary(x, a, -1), lambda x, a: 2 * largest(x[0])),
])
