"""Losses of pairs of elements: losses.h; cross-entropy with weights of classes, and of probabilities: nn.h."""

import torch
import torch.nn.functional as F

from drafts import Draft, any_shape, any_size, any_type, broadcast_partner, indices_of
from rows import Row, family
from table_core import largest
from table_nn import REDUCTIONS, gradient_of, loss_gradient_terms, loss_terms
from values import FLOATING, Domain, Operand

UNIT = Domain(0, 64, 64)
LOGS = Domain(-240, 0, 64)


def drafted(first=None, second=None, **attributes):
    """Two of one shape; `weight` and `pos_weight` among the attributes: 1 where there is one more, in this order
    from afterwards."""
    def sample(random):
        type_name, shape = any_type(random, FLOATING), any_shape(random)
        values = {"reduction": random.randrange(3)}
        values.update({name: choose(random) for name, choose in attributes.items()})
        inputs = [Operand(type_name, shape, first), Operand(type_name, list(shape), second)]
        for name in ("pos_weight", "weight"):
            if values.get(name):
                inputs.append(Operand(type_name, broadcast_partner(random, shape), Domain(8, 128, 64)))
        return Draft(inputs, values)
    return sample


def one_of(*values):
    return lambda random: random.choice(values)


def weighted(losses, x, a):
    """PyTorch's weights have no gradients, so they are multiplied here."""
    if a["weight"]:
        losses = losses * x[-1]
    name = REDUCTIONS[a["reduction"]]
    return losses.mean() if name == "mean" else losses.sum() if name == "sum" else losses


def binary_cross_entropy(x, a):
    return weighted(F.binary_cross_entropy(x[0], x[1], reduction="none"), x, a)


def binary_cross_entropy_with_logits(x, a):
    if not a["pos_weight"]:
        return weighted(F.binary_cross_entropy_with_logits(x[0], x[1], reduction="none"), x, a)
    share = 1 + (x[2] - 1) * x[1]
    return weighted((1 - x[1]) * x[0] + share * F.softplus(-x[0]), x, a)


def with_pytorchs_weights(x, a):
    """The same by PyTorch's function alone."""
    return F.binary_cross_entropy_with_logits(x[0], x[1], x[-1] if a["weight"] else None, reduction=REDUCTIONS[a["reduction"]],
                                              pos_weight=x[2] if a["pos_weight"] else None)


def kl_div(x, a):
    return F.kl_div(x[0], x[1], reduction=REDUCTIONS[a["reduction"]], log_target=bool(a["log_target"]))


def kl_draft(random):
    logs = random.randrange(2)
    return drafted(LOGS, LOGS if logs else UNIT, log_target=one_of(logs))(random)


def terms(most):
    """An element's terms are at most `most`, or what the inputs' product is."""
    def magnitude(x, a):
        bound = max(most, float((1 + largest(x[0])) * (1 + largest(x[1])))) * (4 if a.get("weight") or a.get("pos_weight") else 1)
        return torch.tensor(bound * (x[0].numel() if REDUCTIONS[a["reduction"]] == "sum" else 1))
    return magnitude


def classes_draft(soft, with_gradient):
    """Logits, targets, a weight (`soft`: not always), and a gradient of the loss."""
    def sample(random):
        rows, classes = any_size(random), random.randint(1, 7)
        type_name = any_type(random, FLOATING)
        values = {"reduction": random.randrange(3), "ignore_index": -100 if soft else random.choice([-100, 0, 1]),
                  "label_smoothing": random.choice([0.0, 0.1, 0.5]), "weight": random.randrange(2) if soft else 1}
        targets = Operand(type_name, [rows, classes], UNIT) if soft else indices_of(random, classes, [rows])
        inputs = [Operand(type_name, [rows, classes]), targets]
        if values["weight"]:
            inputs.append(Operand(type_name, [classes], Domain(8, 128, 64)))
        if with_gradient and random.random() < 0.6:
            inputs.append(Operand(type_name, [rows] if values["reduction"] == 2 else []))
        return Draft(inputs, values)
    return sample


def cross_entropy_of(x, a):
    """By PyTorch's function."""
    targets = x[1] if x[1].is_floating_point() else x[1].long()
    return F.cross_entropy(x[0], targets, x[2] if a["weight"] else None, ignore_index=a["ignore_index"],
                           reduction=REDUCTIONS[a["reduction"]], label_smoothing=a["label_smoothing"])


def cross_entropy_by_parts(x, a):
    """The same with gradients of the weight."""
    logs, classes, smoothing = torch.log_softmax(x[0], 1), x[0].shape[1], a["label_smoothing"]
    weights = x[2] if a["weight"] else torch.ones(classes, dtype=x[0].dtype)
    if x[1].is_floating_point():
        losses = -(logs * (x[1] * (1 - smoothing) + smoothing / classes) * weights).sum(1)
        count = x[0].shape[0]
    else:
        counts = x[1] != a["ignore_index"]
        targets = torch.where(counts, x[1], 0).long()
        own = weights[targets] * counts
        losses = -(1 - smoothing) * logs.gather(1, targets.unsqueeze(1)).squeeze(1) * own
        losses = losses - smoothing / classes * (logs * weights).sum(1) * counts
        count = own.sum()
    return {"mean": losses.sum() / count, "sum": losses.sum(), "none": losses}[REDUCTIONS[a["reduction"]]]


def gradient_by_logits(x, a):
    return gradient_of(cross_entropy_of, 2 + a["weight"])(x, a)


def weighted_loss_terms(x, a):
    return 2 * x[0].shape[1] * loss_terms(x, a)


def weighted_gradient_terms(x, a):
    return 4 * x[0].shape[1] * loss_gradient_terms([*x[:2], *x[2 + a["weight"]:]], a)


family("losses", [
    Row("weighted_cross_entropy", classes_draft(False, False), cross_entropy_of, weighted_loss_terms),
    Row("weighted_cross_entropy_backward", classes_draft(False, True), gradient_by_logits, weighted_gradient_terms),
    Row("soft_cross_entropy", classes_draft(True, False), cross_entropy_of, weighted_loss_terms),
    Row("soft_cross_entropy_backward", classes_draft(True, True), gradient_by_logits, weighted_gradient_terms),
    Row("l1", drafted(), lambda x, a: F.l1_loss(x[0], x[1], reduction=REDUCTIONS[a["reduction"]]), terms(8)),
    Row("huber", drafted(delta=one_of(0.5, 0.7, 2.3)),
        lambda x, a: F.huber_loss(x[0], x[1], reduction=REDUCTIONS[a["reduction"]], delta=a["delta"]), terms(8)),
    Row("smooth_l1", drafted(beta=one_of(0.0, 0.7, 2.3)),
        lambda x, a: F.smooth_l1_loss(x[0], x[1], reduction=REDUCTIONS[a["reduction"]], beta=a["beta"]), terms(8)),
    Row("binary_cross_entropy", drafted(UNIT, UNIT, weight=one_of(0, 1)), binary_cross_entropy, terms(5)),
    Row("binary_cross_entropy_with_logits", drafted(None, UNIT, weight=one_of(0, 1), pos_weight=one_of(0, 1)),
        with_pytorchs_weights, terms(8)),
    Row("kl_div", kl_draft, kl_div, terms(8)),
])
