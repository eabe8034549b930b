"""Steps of optimisers, and the gradient of dropout: optimizers.h, random.h. A step is its parameter and
states after it."""

import torch

from drafts import Draft, any_shape, any_type
from rows import Row, family
from values import FLOATING, Domain, Operand

STATE = Domain(-60, 60, 64)
SQUARES = Domain(0, 60, 64)


def step(states, attributes):
    """A parameter, its gradient in any layout, and what is kept of the steps before in the parameter's
    layout."""
    def sample(random):
        type_name, shape = any_type(random, FLOATING), any_shape(random, limit=20)
        values = attributes(random)
        inputs = [Operand(type_name, shape, may_be_partial=False), Operand(type_name, list(shape))]
        inputs += [Operand(type_name, list(shape), domain, like=0) for domain in states(values)]
        return Draft(inputs, values)
    return sample


def sgd_options(random):
    momentum = random.choice([0.0, 0.5, 0.9])
    nesterov = int(momentum > 0 and random.random() < 0.4)
    return {"learning_rate": random.choice([0.125, 0.1]), "momentum": momentum,
            "dampening": 0.0 if nesterov or momentum == 0 else random.choice([0.0, 0.25]),
            "weight_decay": random.choice([0.0, 0.01]), "nesterov": nesterov,
            "first_step": int(random.random() < 0.3)}


def adam_options(random):
    return {"learning_rate": random.choice([0.001, 0.1]), "beta1": random.choice([0.9, 0.5]),
            "beta2": random.choice([0.999, 0.75]), "epsilon": 1e-8,
            "weight_decay": random.choice([0.0, 0.01]), "step": random.choice([1, 2, 10])}


def stepped(optimizer, parameter, gradient, state):
    parameter.grad = gradient
    optimizer.state[parameter].update(state)
    optimizer.step()


def sgd(x, a):
    parameter = x[0].detach().clone().requires_grad_()
    optimizer = torch.optim.SGD([parameter], lr=a["learning_rate"], momentum=a["momentum"],
                                dampening=a["dampening"], weight_decay=a["weight_decay"],
                                nesterov=bool(a["nesterov"]), foreach=False)
    kept = a["momentum"] > 0 and not a["first_step"]
    stepped(optimizer, parameter, x[1], {"momentum_buffer": x[2].clone()} if kept else {})
    after = optimizer.state[parameter].get("momentum_buffer")
    return [parameter.detach()] + ([after.detach()] if after is not None else [])


def adam_with(kind):
    def function(x, a):
        parameter = x[0].detach().clone().requires_grad_()
        optimizer = kind([parameter], lr=a["learning_rate"], betas=(a["beta1"], a["beta2"]), eps=a["epsilon"],
                         weight_decay=a["weight_decay"], foreach=False)
        stepped(optimizer, parameter, x[1], {"step": torch.tensor(float(a["step"] - 1)),
                                             "exp_avg": x[2].clone(), "exp_avg_sq": x[3].clone()})
        state = optimizer.state[parameter]
        return [parameter.detach(), state["exp_avg"], state["exp_avg_sq"]]
    return function


# The kinds of weft_optimizer, but gradient descent: PyTorch's class (Lion has none), the names of its states.
KINDS = {
    1: (torch.optim.Adam, ["exp_avg", "exp_avg_sq", "max_exp_avg_sq"]),
    2: (torch.optim.AdamW, ["exp_avg", "exp_avg_sq", "max_exp_avg_sq"]),
    3: (torch.optim.RMSprop, ["square_avg", "momentum_buffer", "grad_avg"]),
    4: (torch.optim.Adagrad, ["sum"]),
    5: (torch.optim.Adadelta, ["square_avg", "acc_delta"]),
    6: (torch.optim.Adamax, ["exp_avg", "exp_inf"]),
    7: (torch.optim.NAdam, ["exp_avg", "exp_avg_sq"]),
    8: (torch.optim.RAdam, ["exp_avg", "exp_avg_sq"]),
    9: (None, ["exp_avg"]),
}
SIGNED = {"exp_avg", "momentum_buffer"}


def names_of(a):
    names = list(KINDS[a["kind"]][1])
    for name, there in (("max_exp_avg_sq", a["amsgrad"]), ("momentum_buffer", a["momentum"]), ("grad_avg", a["centered"])):
        if name in names and not there:
            names.remove(name)
    return names


def optimizer_options(random):
    kind = random.choice(list(KINDS))
    return {"kind": kind, "learning_rate": random.choice([0.001, 0.1]), "weight_decay": random.choice([0.0, 0.01]),
            "amsgrad": int(kind == 1 or kind == 2), "centered": int(kind == 3 and random.random() < 0.5),
            "decoupled": int(kind in (7, 8) and random.random() < 0.5), "maximize": int(random.random() < 0.3),
            "momentum": random.choice([0.0, 0.5]) if kind == 3 else 0.0,
            "learning_rate_decay": random.choice([0.0, 0.25]) if kind == 4 else 0.0, "step": random.choice([1, 2, 10])}


def states_of(a):
    """A mean is small beside the root of a mean square."""
    return [STATE if name in SIGNED else Domain(-1, 1, 64) if name == "grad_avg" else Domain(64, 128, 64) for name in names_of(a)]


def lion(x, a):
    way = x[2].lerp(x[1] * (-1 if a["maximize"] else 1), 1 - 0.9)
    after = x[0] * (1 - a["learning_rate"] * a["weight_decay"]) - a["learning_rate"] * way.sign()
    return [after.detach(), x[2].lerp(x[1] * (-1 if a["maximize"] else 1), 1 - 0.99).detach()]


def optimized(x, a):
    kind, names = KINDS[a["kind"]][0], names_of(a)
    if kind is None:
        return lion(x, a)
    parameter = x[0].detach().clone().requires_grad_()
    settings = {"lr": a["learning_rate"], "weight_decay": a["weight_decay"], "maximize": bool(a["maximize"]), "foreach": False}
    settings.update({1: {"amsgrad": True}, 2: {"amsgrad": True}, 3: {"centered": bool(a["centered"]), "momentum": a["momentum"]},
                     4: {"lr_decay": a["learning_rate_decay"]}, 7: {"decoupled_weight_decay": bool(a["decoupled"])},
                     8: {"decoupled_weight_decay": bool(a["decoupled"])}}.get(a["kind"], {}))
    optimizer = kind([parameter], **settings)
    state = {"step": torch.tensor(float(a["step"] - 1)), **{name: t.clone() for name, t in zip(names, x[2:])}}
    if a["kind"] == 7:
        product = 1.0
        for step in range(1, a["step"]):
            product *= 0.9 * (1 - 0.5 * 0.96 ** (step * 4e-3))
        state["mu_product"] = torch.tensor(product, dtype=torch.float64)
    stepped(optimizer, parameter, x[1], state)
    return [parameter.detach()] + [optimizer.state[parameter][name].detach() for name in names]


def clipping(random):
    inputs = []
    for _ in range(random.randint(1, 3)):
        type_name = any_type(random, ["f32", "f64"])
        inputs.append(Operand(type_name, any_shape(random, limit=14), may_be_partial=False))
    return Draft(inputs, {"max_norm": random.choice([0.5, 1.0, 100.0]),
                          "p": random.choice([1.0, 2.0, float("inf")])})


def clipped(x, a):
    gradients = [t.clone() for t in x]
    norms = [torch.linalg.vector_norm(g, a["p"]) if g.numel() else g.new_zeros(()) for g in gradients]
    total = torch.linalg.vector_norm(torch.stack(norms), a["p"])
    for gradient in gradients:
        gradient.mul_(torch.clamp(a["max_norm"] / (total + 1e-6), max=1.0).to(gradient.dtype))
    return gradients


def dropped(random):
    type_name, shape = any_type(random, FLOATING), any_shape(random)
    inputs = [Operand(type_name, shape), Operand("bool", list(shape))]
    return Draft(inputs, {"p": random.choice([0.0, 0.5, 0.25])})


def addends(x, a):
    """Parameters, gradients and states that are added to each other are 4 at most."""
    return torch.tensor(4.0)


family("optimizers", [
    Row("sgd", step(lambda a: [STATE] if a["momentum"] > 0 else [], sgd_options), sgd, addends),
    Row("adam", step(lambda a: [STATE, SQUARES], adam_options), adam_with(torch.optim.Adam), addends),
    Row("adamw", step(lambda a: [STATE, SQUARES], adam_options), adam_with(torch.optim.AdamW), addends),
    Row("optimizer", step(states_of, optimizer_options), optimized, addends),
    Row("clip_grad_norm", clipping, clipped),
    Row("dropout_backward", dropped, lambda x, a: x[0] * x[1] * (1 / (1 - a["p"]))),
])
