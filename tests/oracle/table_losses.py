"""Losses of pairs of elements: losses.h."""

import torch
import torch.nn.functional as F

from drafts import Draft, any_shape, any_type, broadcast_partner
from rows import Row, family
from table_core import largest
from table_nn import REDUCTIONS
from values import FLOATING, Domain, Operand

UNIT = Domain(0, 64, 64)
LOGS = Domain(-240, 0, 64)


def drafted(first=None, second=None, **attributes):
    """Two of one shape; `weight` and `pos_weight` among the attributes: 1 where there is one more, in this order
    from behind."""
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


family("losses", [
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
