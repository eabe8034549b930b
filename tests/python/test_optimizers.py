"""Optimisers step by step beside PyTorch's, where that is installed, on sharded parameters of several shapes, some of which have no
gradient in some steps; and those of C by their kinds."""
import numpy as np
import pytest

import weft_tensors as wt
from weft_tensors import optim

SHAPES = [(5, 3), (4,), (2, 3, 2), (1, 7)]
PLACEMENTS = ["S0,S1", "S0,R", "R,S1", "S1,S0"]

CASES = [
    ("SGD", {"lr": 0.1}), ("SGD", {"lr": 0.1, "momentum": 0.9, "dampening": 0.25, "weight_decay": 0.1, "maximize": True}),
    ("SGD", {"lr": 0.1, "momentum": 0.9, "nesterov": True}),
    ("Adam", {"lr": 0.1, "weight_decay": 0.1}), ("Adam", {"lr": 0.1, "amsgrad": True, "maximize": True}),
    ("Adam", {"lr": 0.1, "amsgrad": True, "weight_decay": 0.1, "decoupled_weight_decay": True}),
    ("AdamW", {"lr": 0.1, "maximize": True}), ("AdamW", {"lr": 0.1, "amsgrad": True}),
    ("RMSprop", {"lr": 0.1, "alpha": 0.9}), ("RMSprop", {"lr": 0.1, "centered": True, "momentum": 0.5, "weight_decay": 0.1}),
    ("RMSprop", {"lr": 0.1, "centered": True, "maximize": True}), ("RMSprop", {"lr": 0.1, "momentum": 0.5}),
    ("Adagrad", {"lr": 0.1, "lr_decay": 0.5, "initial_accumulator_value": 0.25}), ("Adadelta", {"weight_decay": 0.1}),
    ("Adamax", {"lr": 0.1, "weight_decay": 0.1}), ("NAdam", {"lr": 0.1, "weight_decay": 0.1}),
    ("NAdam", {"lr": 0.1, "weight_decay": 0.1, "decoupled_weight_decay": True, "momentum_decay": 0.1}),
    ("RAdam", {"lr": 0.1, "weight_decay": 0.1}),
    ("RAdam", {"lr": 0.1, "betas": (0.8, 0.9), "weight_decay": 0.1, "decoupled_weight_decay": True}),
    ("Adafactor", {"lr": 0.1}), ("Adafactor", {"lr": 0.1, "weight_decay": 0.1, "maximize": True, "d": 1.5}),
]


def values(seed):
    random = np.random.default_rng(seed)
    return [random.standard_normal(shape) for shape in SHAPES]


def stepped(make, leaf, give, read, steps=8):
    parameters = [leaf(i, each) for i, each in enumerate(values(0))]
    optimizer = make(parameters)
    for step in range(steps):
        for i, (parameter, gradient) in enumerate(zip(parameters, values(1 + step))):
            # In a third of the steps a parameter has no gradient.
            if (step + i) % 3:
                (parameter * give(i, gradient)).sum().backward()
        optimizer.step()
        optimizer.zero_grad()
    return [read(parameter) for parameter in parameters], optimizer


def ours(name, settings, mesh):
    def leaf(i, each):
        return wt.asarray(each, mesh=mesh, placements=PLACEMENTS[i], requires_grad=True)

    def give(i, each):
        return wt.asarray(each, mesh=mesh, placements="R,S0" if i % 2 else PLACEMENTS[i])

    return stepped(lambda p: getattr(optim, name)(p, **settings), leaf, give, lambda p: p.detach().numpy())


@pytest.mark.parametrize("name, settings", CASES)
def test_beside_pytorch(mesh, name, settings):
    torch = pytest.importorskip("torch")
    expected, _ = stepped(lambda p: getattr(torch.optim, name)(p, **settings), lambda i, each: torch.tensor(each, requires_grad=True),
                          lambda i, each: torch.tensor(each), lambda p: p.detach().numpy())
    for mine, theirs in zip(ours(name, settings, mesh)[0], expected):
        np.testing.assert_allclose(mine, theirs, rtol=1e-6 if name in ("Adafactor", "NAdam") else 1e-12, atol=1e-12)


@pytest.mark.parametrize("name", ["SGD", "Adam", "AdamW",
                                  "RMSprop", "Adagrad", "Adadelta", "Adamax", "NAdam", "RAdam", "Lion", "Adafactor"])
def test_goes_on_from_its_state(mesh, name):
    """Upwards with the negative gradient is downwards; a state that was saved goes on."""
    settings = {"momentum": 0.5} if name == "SGD" else {}
    down, first = ours(name, {**settings, "lr": 0.1}, mesh)
    assert first.steps == 6 and all(np.isfinite(each).all() for each in down)
    assert any((each != before).any() for each, before in zip(down, values(0)))

    def leaf(i, each):
        return wt.asarray(each, mesh=mesh, placements=PLACEMENTS[i], requires_grad=True)

    def steps(optimizer, signs=1):
        for parameter, gradient in zip(optimizer.parameters, values(9)):
            (parameter * wt.asarray(signs * gradient, mesh=mesh)).sum().backward()
        optimizer.step()
        return [each.detach().numpy() for each in optimizer.parameters]

    def restored(**more):
        again = getattr(optim, name)([leaf(i, each) for i, each in enumerate(down)], **{**settings, "lr": 0.1, **more})
        again.load_state_dict(first.state_dict())
        return again

    other = restored(maximize=True)
    again = restored()
    counts = again.state_dict()["steps"].numpy()
    again.steps += 3
    np.testing.assert_array_equal(again.state_dict()["steps"].numpy(), counts + 3 * (counts > 0))
    again.steps -= 3
    expected = steps(first)
    for mine, theirs in zip(steps(again), expected):
        np.testing.assert_array_equal(mine, theirs)
    for mine, theirs in zip(steps(other, -1), expected):
        np.testing.assert_array_equal(mine, theirs)


def test_lion(mesh):
    parameter = wt.asarray(np.array([1.0, -2.0, 3.0]), mesh=mesh, placements="S0,R", requires_grad=True)
    optimizer = optim.Lion([parameter], lr=0.5, betas=(0.5, 0.75), weight_decay=0.5)
    there, momentum = np.array([1.0, -2.0, 3.0]), np.zeros(3)
    for gradient in ([1.0, -1.0, 0.0], [-4.0, 0.5, 1.0]):
        (parameter * wt.asarray(np.array(gradient), mesh=mesh)).sum().backward()
        optimizer.step()
        optimizer.zero_grad()
        there = there * (1 - 0.25) - 0.5 * np.sign(0.5 * momentum + 0.5 * np.array(gradient))
        momentum = 0.75 * momentum + 0.25 * np.array(gradient)
        np.testing.assert_allclose(parameter.detach().numpy(), there, rtol=1e-15)
