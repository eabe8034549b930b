"""What programs for PyTorch do around training: hooks, groups of parameters, numbers in checkpoints, modules by their usual names."""

import os
import tempfile

import numpy as np
import pytest

import weft_tensors as wt
import weft_tensors.nn.functional as F
from weft_tensors import nn, optim
from weft_tensors.optim.lr_scheduler import CosineAnnealingLR, ReduceLROnPlateau, StepLR


def test_forward_hooks(mesh):
    model = nn.Sequential(nn.Linear(3, 3), nn.ReLU()).distribute(mesh)
    x, seen = wt.ones(4, 3, mesh=mesh, placements="S0,R"), []
    plain = model(x).numpy()
    handles = [model[0].register_forward_pre_hook(lambda module, given: seen.append(("before", type(module), len(given)))),
               model[0].register_forward_hook(lambda module, given, result: seen.append(("after", given[0].shape, result.shape))),
               model.register_forward_hook(lambda module, given, result: seen.append("whole"))]
    np.testing.assert_array_equal(model(x).numpy(), plain)
    assert seen == [("before", nn.Linear, 1), ("after", (4, 3), (4, 3)), "whole"]
    for each in handles:
        each.remove()
        each.remove()
    model(x)
    assert len(seen) == 3
    # Other inputs and outputs; in the order in which they were registered, or first.
    zero = model.register_forward_pre_hook(lambda module, given: given[0] * 0)
    with zero, model.register_forward_hook(lambda module, given, result: result + 1):
        with model.register_forward_hook(lambda module, given, result: result * 0, prepend=True):
            np.testing.assert_array_equal(model(x).numpy(), np.ones((4, 3)))
    np.testing.assert_array_equal(model(x).numpy(), plain)


def test_hooks_with_keywords(mesh):
    class Scaled(nn.Module):
        def forward(self, x, factor=1.0):
            return x * factor

    model, x, seen = Scaled(), wt.ones(2, mesh=mesh), []
    model.register_forward_pre_hook(lambda module, given, keywords: (given, {**keywords, "factor": keywords["factor"] * 2}),
                                    with_kwargs=True)
    model.register_forward_hook(lambda module, given, keywords, result: seen.append(keywords["factor"]), with_kwargs=True)
    assert model(x, factor=3.0).numpy().tolist() == [6, 6] and seen == [6]
    model.register_forward_pre_hook(lambda module, given, keywords: 3, with_kwargs=True)
    with pytest.raises(TypeError, match="arguments, keywords"):
        model(x, factor=1.0)
    # Gradients pass through what hooks compute.
    leaf, doubled = wt.ones(3, mesh=mesh, requires_grad=True), nn.Identity()
    doubled.register_forward_hook(lambda module, given, result: result * 2)
    doubled(leaf).sum().backward()
    assert leaf.grad.tolist() == [2, 2, 2]


def test_hooks_in_a_graph(mesh):
    model, calls = nn.Linear(3, 3).distribute(mesh), []
    model.register_forward_hook(lambda module, given, result: calls.append(0) or result + 1)
    step = wt.graph(lambda x: model(x))
    x = wt.ones(2, 3, mesh=mesh)
    with wt.no_grad():
        expected = model(x).numpy()
        for _ in range(4):
            np.testing.assert_allclose(step(x).numpy(), expected, rtol=1e-6)
    assert len(calls) >= 3


def test_groups_of_parameters():
    def leaf():
        return wt.asarray(np.array([1.0, -2.0]), requires_grad=True)

    for make, names in ((lambda groups, **own: optim.SGD(groups, momentum=0.9, **own),
                         {"lr", "momentum", "dampening", "weight_decay", "nesterov", "maximize"}),
                        (optim.AdamW, {"lr", "betas", "eps", "weight_decay", "amsgrad", "maximize", "decoupled_weight_decay"})):
        first, second, alone = leaf(), leaf(), [leaf(), leaf()]
        together = make([{"params": [first], "lr": 0.5}, {"params": second, "weight_decay": 0.25}], lr=0.125)
        others = [make([alone[0]], lr=0.5), make([alone[1]], lr=0.125, weight_decay=0.25)]
        assert [group["lr"] for group in together.param_groups] == [0.5, 0.125] and together.lr == 0.5
        assert set(together.param_groups[0]) == names | {"params"}
        for _ in range(3):
            for each in (first, second, *alone):
                (each * each).sum().backward()
            for optimizer in (together, *others):
                optimizer.step()
                optimizer.zero_grad(set_to_none=True)
        np.testing.assert_array_equal(first.numpy(), alone[0].numpy())
        np.testing.assert_array_equal(second.numpy(), alone[1].numpy())
        third = leaf()
        together.add_param_group({"params": [third]})
        third.sum().backward()
        together.step()
        assert (third.numpy() != [1, -2]).all() and len(together.state_dict()) == (4 if "momentum" in names else 7)
        together.lr = 2.0
        assert {group["lr"] for group in together.param_groups} == {2.0}
        for wrong in (lambda: together.add_param_group({"params": [first]}), lambda: together.add_param_group({"params": []})):
            with pytest.raises(ValueError):
                wrong()
        for wrong in (lambda: make([{"params": [leaf()], "rate": 3}], lr=1.0), lambda: make([{"lr": 3}], lr=1.0),
                      lambda: make([3], lr=1.0)):
            with pytest.raises(TypeError):
                wrong()


def test_optimizers_made_of_calls(mesh):
    w0 = np.array([1.0, -2.0, 3.0, 0.5])

    def steps(make, change):
        w, skipped = (wt.asarray(w0, mesh=mesh, placements="S0,R", requires_grad=True) for _ in range(2))
        optimizer, there, state = make([w, skipped]), w0.copy(), {}
        for step in range(1, 4):
            (w * w * w).sum().backward()
            optimizer.step()
            optimizer.zero_grad()
            there = change(there, 3 * there * there, state, step)
        np.testing.assert_allclose(w.detach().numpy(), there, rtol=1e-12)
        np.testing.assert_array_equal(skipped.detach().numpy(), w0)
        again = make([w, skipped])
        again.load_state_dict(optimizer.state_dict())
        assert again.steps == 3

    def rmsprop(momentum, centered, decay):
        def change(w, g, state, step):
            g = g + decay * w
            state["s"] = 0.9 * state.get("s", 0) + 0.1 * g * g
            state["m"] = 0.9 * state.get("m", 0) + 0.1 * g
            by = g / (np.sqrt(state["s"] - (state["m"] ** 2 if centered else 0)) + 1e-8)
            state["b"] = momentum * state.get("b", 0) + by
            return w - 0.01 * state["b"]
        steps(lambda p: optim.RMSprop(p, 0.01, 0.9, weight_decay=decay, momentum=momentum, centered=centered), change)

    for settings in ((0, False, 0), (0.5, False, 0.1), (0.5, True, 0)):
        rmsprop(*settings)

    def adagrad(w, g, state, step):
        state["s"] = state.get("s", 0.25) + g * g
        return w - 0.1 / (1 + (step - 1) * 0.5) * g / (np.sqrt(state["s"]) + 1e-10)

    steps(lambda p: optim.Adagrad(p, 0.1, 0.5, initial_accumulator_value=0.25), adagrad)


def test_schedules_of_groups():
    optimizer = optim.SGD([{"params": [wt.ones(2, requires_grad=True)], "lr": 1.0},
                           {"params": [wt.ones(2, requires_grad=True)], "lr": 0.5}])
    schedule = StepLR(optimizer, 2, 0.1)
    found = []
    for _ in range(4):
        found.append(schedule.get_last_lr())
        schedule.step()
    np.testing.assert_allclose(found, [[1, 0.5], [1, 0.5], [0.1, 0.05], [0.1, 0.05]])
    plateau = ReduceLROnPlateau(optimizer, factor=0.5, patience=0)
    before = plateau.get_last_lr()
    for loss in (1.0, 1.0, 1.0):
        plateau.step(loss)
    np.testing.assert_allclose(plateau.get_last_lr(), np.array(before) / 4)


def test_checkpoints_with_numbers(mesh):
    def program():
        wt.manual_seed(3)
        model = nn.Sequential(nn.Linear(4, 4), nn.BatchNorm1d(4)).distribute(mesh)
        optimizer = optim.AdamW([{"params": list(model[0].parameters())}, {"params": list(model[1].parameters()), "weight_decay": 0.0}],
                                lr=0.1)
        return model, optimizer, CosineAnnealingLR(optimizer, 10)

    def train(model, optimizer, schedule):
        x = wt.ones(8, 4, mesh=mesh, placements="S0,R") * wt.arange(8, mesh=mesh).unsqueeze(1)
        F.mse_loss(model(x), x).backward()
        optimizer.step()
        optimizer.zero_grad()
        schedule.step()

    def state(parts, epoch):
        return {**dict(zip(("model", "optimizer", "schedule"), parts)), "epoch": epoch, "best": 0.5, "done": True, "sizes": [3, 4],
                "pair": (1.5, 2.0), "name": "run"}

    parts, path = program(), os.path.join(tempfile.gettempdir(), "numbers.safetensors")
    for _ in range(3):
        train(*parts)
    wt.save_checkpoint(path, state(parts, 3))
    again = program()
    loaded = {**state(again, 0), "best": 9.0, "done": False, "sizes": [0, 0], "pair": (0.0, 0.0), "name": "other"}
    assert wt.load_checkpoint(path, loaded) is loaded
    assert {name: loaded[name] for name in ("epoch", "best", "done", "sizes", "pair", "name")} == {
        "epoch": 3, "best": 0.5, "done": True, "sizes": [3, 4], "pair": (1.5, 2.0), "name": "other"}
    assert type(loaded["epoch"]) is int and type(loaded["done"]) is bool
    assert again[1].steps == 3 and again[2].last_epoch == 3 and again[2].get_last_lr() == parts[2].get_last_lr()
    for each in (parts, again):
        train(*each)
    for one, other in zip(parts[0].state_dict().values(), again[0].state_dict().values()):
        np.testing.assert_array_equal(one.numpy(), other.numpy())
    with pytest.raises(TypeError, match="state: what is a set"):
        wt.save_checkpoint(path, {"what": {3}})
    wt.wait()
    if wt.process_index() == 0:
        os.unlink(path)


def test_usual_names(mesh):
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.body = nn.Sequential(nn.Linear(4, 8), nn.ReLU(inplace=True), nn.Linear(8, 2))
            self.register_buffer("scale", wt.tensor(2.0))

        def forward(self, x):
            return self.body(x) * self.scale

    def begin(module):
        if isinstance(module, nn.Linear):
            nn.init.zeros_(module.weight)
            nn.init.ones_(module.bias)

    model = Net().apply(begin)
    assert model.get_parameter("body.0.bias").tolist() == [1] * 8 and model.get_submodule("body.2") is model.body[2]
    loss = nn.CrossEntropyLoss()(model(wt.ones(3, 4)), wt.tensor([0, 1, 0]))
    loss.backward()
    nn.utils.clip_grad_value_(model.parameters(), 0.125)
    assert max(abs(each.grad.numpy()).max() for each in model.parameters()) <= 0.125
    assert nn.utils.clip_grad_norm_(model.parameters(), 0.01).item() > 0.01
    model.zero_grad(set_to_none=True)
    assert all(each.grad is None for each in model.parameters())
    assert nn.utils.parameters_to_vector(model.parameters()).shape == (4 * 8 + 8 + 8 * 2 + 2,)


def test_local_tensors_of_dtensor(mesh):
    from weft_tensors.dtensor import DTensor, Partial, Shard
    whole = wt.asarray(np.arange(6.0).reshape(2, 3))
    line = wt.Mesh(wt.world_size())
    sharded = DTensor.from_local(whole, line, [Shard(0)])
    np.testing.assert_array_equal(sharded.numpy(), np.tile(np.arange(6.0).reshape(2, 3), (wt.world_size(), 1)))
    np.testing.assert_array_equal(DTensor.from_local(whole, line, [Partial()]).numpy(), wt.world_size() * np.arange(6.0).reshape(2, 3))


def test_two_calls_where_a_plan_is_one(mesh):
    from weft_tensors.dtensor import ColwiseParallel, fully_shard, parallelize_module
    model = nn.Sequential(nn.Linear(4, 4))
    parallelize_module(model, mesh["tp"], {"0": ColwiseParallel()})
    with pytest.raises(wt.WeftError, match="one plan: model.parallelize") as caught:
        fully_shard(model, mesh=mesh["dp"])
    assert caught.value.status.name == "ERR_STATE"


def test_results_with_names(mesh):
    x = np.array([[3.0, 1.0, 2.0], [0.0, 5.0, 4.0]])
    a = wt.asarray(x, mesh=mesh, placements="S0,R")
    for found, values, indices in ((a.topk(2), [[3, 2], [5, 4]], [[0, 2], [1, 2]]), (a.sort(dim=1), np.sort(x), np.argsort(x)),
                                   (a.max(dim=1), [3, 5], [0, 1]), (a.min(dim=0), [0, 1, 2], [1, 0, 0]), (a.median(dim=1), [2, 4], [2, 2])):
        np.testing.assert_array_equal(found.values.numpy(), values)
        np.testing.assert_array_equal(found.indices.numpy(), indices)
        assert found[0] is found.values and len(found) == 2


def test_gradients_as_in_pytorch(mesh):
    x, y = (wt.asarray(np.array([1.0, 2.0]), mesh=mesh, requires_grad=True) for _ in range(2))
    gradient, = wt.autograd.grad((x * x * x).sum(), x, create_graph=True)
    assert gradient.tolist() == [3, 12]
    second, = wt.autograd.grad(gradient, [x], grad_outputs=wt.asarray(np.array([1.0, 1.0]), mesh=mesh))
    assert second.tolist() == [6, 12]
    product = (x * 2).sum()
    assert wt.autograd.grad(product, x, retain_graph=True)[0].tolist() == wt.autograd.grad(product, x)[0].tolist() == [2, 2]
    assert wt.autograd.grad((x * 2).sum(), (x, y), allow_unused=True)[1] is None
    with pytest.raises(RuntimeError, match="allow_unused"):
        wt.autograd.grad((x * 2).sum(), (x, y))
    with pytest.raises(RuntimeError, match="in `with no_grad\\(\\):`"):
        x += 1
    assert abs(x.detach().std(unbiased=True).item() - 0.5**0.5) < 1e-12 and x.detach().var(unbiased=False).item() == 0.25


def test_modules_of_other_types(mesh):
    class Tied(nn.Module):
        def __init__(self):
            super().__init__()
            self.first, self.norm = nn.Linear(4, 4), nn.BatchNorm1d(4)
            self.second = nn.Linear(4, 4, bias=False)
            self.second.weight = self.first.weight
            self.first.bias.requires_grad = False

        def forward(self, x):
            return self.second(self.norm(self.first(x)))

    model = Tied().parallelize(mesh, [("first", "columns", "tp")])
    before = {name: each.numpy() for name, each in model.state_dict().items()}
    assert model.double() is model and model.to("cpu") is model and model.cuda() is model
    for name, each in model.state_dict().items():
        assert each.dtype is (wt.int64 if name == "norm.num_batches_tracked" else wt.float64)
        np.testing.assert_array_equal(each.numpy(), before[name])
    assert str(model.first.weight.placements[1]) == "S1" and model.second.weight._as_parameter_ == model.first.weight._as_parameter_
    assert model.first.weight.requires_grad and model.first.weight.is_leaf and not model.first.bias.requires_grad
    model(wt.ones(4, 4, dtype="float64", mesh=mesh, placements="S0,R") * wt.arange(4, mesh=mesh)).sum().backward()
    assert model.first.weight.grad.dtype is wt.float64
    assert model.to(dtype=wt.bfloat16).first.weight.dtype is wt.bfloat16 and model.float().norm.running_var.dtype is wt.float32
    with pytest.raises(TypeError, match="int64"):
        model.to(wt.int64)
