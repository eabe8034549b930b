"""Gradients, modules, optimisers, graphs: beside formulas in NumPy, and beside the same program on one rank."""

import gc
import os
import tempfile
import weakref

import numpy as np
import pytest

import weft_tensors as wt
from weft_tensors import nn, optim


def numbers(shape, seed=0):
    return np.random.default_rng(seed).standard_normal(shape)


def test_gradients(mesh):
    x, w = numbers((6, 4)), numbers((4, 3), 1)
    a, b = wt.asarray(x, mesh=mesh, placements="S0,R"), wt.asarray(w, mesh=mesh, placements="R,S1", requires_grad=True)
    loss = ((a @ b) ** 2).sum()
    loss.backward()
    np.testing.assert_allclose(b.grad.numpy(), 2 * x.T @ (x @ w))
    loss = ((a @ b) ** 2).sum()
    loss.backward()
    np.testing.assert_allclose(b.grad.numpy(), 4 * x.T @ (x @ w))
    b.grad = None
    assert b.grad is None and b.is_leaf and b.requires_grad and not (a @ b).is_leaf
    first, = wt.gradients((b * b * b).sum(), b, create_graph=True)
    second, none = wt.gradients(first.sum(), [b, a.requires_grad_()])
    np.testing.assert_allclose(second.numpy(), 6 * w)
    assert none is None
    with wt.no_grad():
        assert not (b * 2).requires_grad
    assert not (b * 2).detach().requires_grad
    with pytest.raises(wt.WeftError):
        (b * 2).backward() # several elements
    (b[1:3, ::2] * 3).sum().backward()
    expected = np.zeros_like(w)
    expected[1:3, ::2] = 3
    np.testing.assert_allclose(b.grad.numpy(), expected)


class Power(wt.Function):
    """x ** exponent, with a gradient that says how often it was asked."""
    asked = 0

    @staticmethod
    def forward(ctx, x, exponent, unused):
        ctx.exponent = exponent
        ctx.save_for_backward(x)
        return x ** exponent

    @staticmethod
    def backward(ctx, gradient):
        Power.asked += 1
        x, = ctx.saved_tensors
        assert ctx.needs_input_grad == (True, False, False)
        return gradient * x ** (ctx.exponent - 1) * ctx.exponent, None, None


def test_functions_with_a_gradient_of_their_own(mesh):
    x = numbers((6, 4))
    a = wt.asarray(x, mesh=mesh, placements="S0,R", requires_grad=True)
    Power.asked = 0
    Power.apply(a, 3, None).sum().backward()
    np.testing.assert_allclose(a.grad.numpy(), 3 * x ** 2)
    first, = wt.gradients(Power.apply(a, 3, None).sum(), a, create_graph=True)
    second, = wt.gradients(first.sum(), a)
    np.testing.assert_allclose(second.numpy(), 6 * x)
    assert Power.asked == 2
    with wt.no_grad():
        assert not Power.apply(a, 2, None).requires_grad
    a.grad = None

    @wt.graph
    def step(a):
        gradient, = wt.gradients(Power.apply(a, 3, None).sum(), a)
        return gradient

    for _ in range(3):
        np.testing.assert_allclose(step(a).numpy(), 3 * x ** 2)

    class Wrong(wt.Function):
        @staticmethod
        def forward(ctx, x):
            return x, x

    with pytest.raises(ValueError, match="num_outputs is 1"):
        Wrong.apply(a)
    with pytest.raises(NotImplementedError):
        wt.Function.apply(a)


def test_hooks_and_their_exceptions(mesh):
    seen = []
    b = wt.ones(3, mesh=mesh, requires_grad=True)
    wt.set_grad_hook(b, lambda leaf, gradient: seen.append((leaf.shape, gradient.shape)))
    (b * 2).sum().backward()
    assert seen == [((3,), (3,))]

    def refuse(leaf, gradient):
        raise KeyError("of the hook")

    wt.set_grad_hook(b, refuse)
    with pytest.raises(KeyError, match="of the hook"):
        (b * 2).sum().backward()
    wt.set_grad_hook(b, None)
    b.grad = None
    (b * 2).sum().backward()
    np.testing.assert_array_equal(b.grad.numpy(), [2, 2, 2])


def test_recomputation(mesh):
    w = wt.asarray(numbers((4, 4)), mesh=mesh, placements="S0,R", requires_grad=True)
    calls = []

    def block(x):
        calls.append(1)
        return wt.tanh(x @ w)

    x = wt.asarray(numbers((3, 4), 1), mesh=mesh)
    y = wt.checkpoint(block, x).sum()
    y.backward()
    expected = w.grad.numpy()
    w.grad = None
    block(x).sum().backward()
    np.testing.assert_allclose(w.grad.numpy(), expected)
    assert len(calls) == 3


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.up, self.down, self.norm = nn.Linear(8, 16), nn.Linear(16, 8), nn.LayerNorm(8)
        self.register_buffer("scale", wt.ones(8))

    def forward(self, x, *, residual=True):
        y = self.down(wt.gelu(self.up(self.norm(x))))
        return (x + y if residual else y) * self.scale


PLANS = [None, {"up": ("columns", "tp"), "down": ("rows", "tp")}, {"**": ("fully_sharded", "dp")},
         {"up": ("columns", "tp"), "down": ("rows", "tp"), "**": ("fully_sharded", "dp")}]


def train(model, mesh, use_graph=False, steps=4):
    optimizer = optim.AdamW(model.parameters(), lr=0.05)
    x, target = wt.asarray(numbers((6, 8)), mesh=mesh, dtype="float32"), wt.asarray(numbers((6, 8), 1), mesh=mesh, dtype="float32")

    def step(x, target, lr):
        optimizer.lr = lr
        loss = nn.functional.mse_loss(model(x), target)
        loss.backward()
        nn.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad()
        return {"loss": loss, "parts": (loss, 3)}

    run = wt.graph(step) if use_graph else step
    losses = [run(x, target, 0.05 / (1 + i))["loss"].item() for i in range(steps)]
    return losses, run


def fresh():
    wt.manual_seed(3)
    return Block()


def test_training_in_every_layout(mesh):
    expected, _ = train(fresh().distribute(mesh), mesh)
    assert expected[-1] < expected[0]
    for plan in PLANS[1:]:
        model = fresh().parallelize(mesh, plan)
        losses, _ = train(model, mesh)
        np.testing.assert_allclose(losses, expected, rtol=1e-4)
    for plan in PLANS:
        model = fresh().distribute(mesh) if plan is None else fresh().parallelize(mesh, plan)
        losses, run = train(model, mesh, use_graph=True)
        np.testing.assert_allclose(losses, expected, rtol=1e-4)
        assert run.info()["replays"] >= 1 and "matmul" in run.text()


def test_modules(mesh):
    model = fresh()
    assert [name for name, _ in model.named_parameters()] == ["up.weight", "up.bias", "down.weight", "down.bias", "norm.weight", "norm.bias"]
    assert [name for name, _ in model.named_modules()] == ["", "up", "down", "norm"] and model.get_submodule("up") is model.up
    assert "up: Linear" in repr(model) and model.up.weight.shape == (8, 16)
    state = {name: tensor.numpy() + 1 for name, tensor in model.state_dict().items()}
    model.load_state_dict(state)
    np.testing.assert_array_equal(model.up.weight.numpy(), state["up.weight"])
    with pytest.raises(KeyError):
        model.load_state_dict({"x": state["up.weight"]})
    with pytest.raises(ValueError):
        model.load_state_dict({**state, "up.weight": np.zeros((2, 2))})
    model.parallelize(mesh, {"**": ("fully_sharded", "dp")})
    model.load_state_dict(state)
    np.testing.assert_array_equal(model.up.weight.numpy(), state["up.weight"])
    x = wt.ones(2, 8, mesh=mesh)
    assert model.eval().training is False and model.up.training is False
    assert model(x, residual=False).shape == (2, 8)
    with pytest.raises(ValueError, match="no module matches"):
        fresh().parallelize(mesh, {"nothing": ("columns", "tp")})

    class Wrong(nn.Module):
        def forward(self, x):
            raise ZeroDivisionError("of forward")

    with pytest.raises(ZeroDivisionError, match="of forward"):
        Wrong()(x)

    class Two(nn.Module):
        num_outputs = 2

        def forward(self, x, y):
            return x + y, x - y

    total, difference = Two()(x, x)
    assert total.numpy().sum() == 32 and difference.numpy().sum() == 0
    model = fresh()
    dead = weakref.ref(model)
    del model
    gc.collect()
    assert dead() is None


def test_partition_functions(mesh):
    def partition(name, module, on):
        if isinstance(module, nn.Linear):
            module.place("weight", "S0,R", on)

    seen = []
    model = fresh().distribute(mesh, partition, lambda module, inputs, on: seen.append(inputs[0].shape),
                               lambda module, outputs, on: (outputs[0] * 2,))
    assert model.up.weight.placements[0] == wt.Shard(0) or mesh.shape[0] == 1
    x = wt.ones(2, 8, mesh=mesh)
    np.testing.assert_allclose(model(x).numpy(), 2 * fresh().distribute(mesh)(x).numpy(), rtol=1e-5)
    assert seen == [(2, 8)]

    def wrong(name, module, on):
        raise RuntimeError("of the partition")

    with pytest.raises(RuntimeError, match="of the partition"):
        fresh().distribute(mesh, wrong)


def test_graphs(mesh):
    @wt.graph
    def affine(pair, factor, shift=0.0, text="x"):
        a, b = pair
        return [a * factor + b + shift, {"text": text}]

    a, b = wt.ones(4, mesh=mesh, placements="S0,R"), wt.ones(4, mesh=mesh)
    for i in range(5):
        result, more = affine((a, b), float(i), shift=2.0)
        np.testing.assert_array_equal(result.numpy(), np.full(4, i + 3.0))
        assert more == {"text": "x"}
    assert affine.info()["replays"] >= 3

    @wt.graph(freeze=True)
    def scaled(a, factor):
        count.append(1)
        return a * factor

    count = []
    for i in range(8):
        np.testing.assert_array_equal(scaled(a, float(i)).numpy(), np.full(4, float(i)))
    assert len(count) < 8 and scaled.info()["frozen"]

    @wt.graph
    def wrong(a):
        raise LookupError("of the function")

    for _ in range(2):
        with pytest.raises(LookupError, match="of the function"):
            wrong(a)

    class Holder:
        def __init__(self, factor):
            self.factor = factor

        @wt.graph
        def run(self, a):
            return a * self.factor

    first, second = Holder(2.0), Holder(3.0)
    for _ in range(3):
        assert first.run(a).numpy()[0] == 2 and second.run(a).numpy()[0] == 3


def test_mixed_precision(mesh):
    a, b = wt.randn(4, 4, mesh=mesh), wt.randn(4, 4, mesh=mesh)
    with wt.autocast(wt.bfloat16):
        assert (a @ b).dtype is wt.bfloat16
    with wt.autocast(enabled=False):
        assert (a @ b).dtype is wt.float32
    scaler, w = wt.GradScaler(), wt.ones(2, mesh=mesh, requires_grad=True)
    optimizer = optim.SGD([w], lr=0.5)
    scaler.scale((w * 2).sum()).backward()
    assert scaler.step(optimizer)
    np.testing.assert_allclose(w.numpy(), [0, 0])


def test_regions_and_explanations(mesh):
    with wt.region("part"):
        (wt.ones(4, 4, mesh=mesh, placements="S0,R") @ wt.ones(4, 4, mesh=mesh)).redistribute()
    assert "part" in wt.region_counts()
    if wt.world_size() > 1:
        columns, rows = ("S1,R", "S0,R") if mesh.shape[0] > 1 else ("R,S1", "R,S0")
        with pytest.raises(ValueError), wt.region("strict", strict=True):
            wt.ones(4, 4, mesh=mesh, placements=columns) + wt.ones(4, 4, mesh=mesh, placements=rows)
    with wt.explain() as why:
        wt.ones(4, 4, mesh=mesh) @ wt.ones(4, 4, mesh=mesh)
    assert "weft_matmul" in str(why)
    assert wt.counters()["tasks"] > 0 and "us" in wt.machine()


def test_a_training_that_goes_on(mesh):
    """Model and optimiser, saved after two steps and loaded into another layout, take the steps that the first ones take."""
    path = os.path.join(tempfile.gettempdir(), "weft-training.safetensors")  # the row's own folder, and one for all of its processes
    x = wt.asarray(numbers((6, 8)), mesh=mesh, dtype="float32")

    def steps(model, optimizer, count):
        found = []
        for _ in range(count):
            loss = (model(x) - 1).square().mean()
            loss.backward()
            optimizer.step()
            optimizer.zero_grad()
            found.append(loss.item())
        return found

    for make in (lambda p: optim.AdamW(p, lr=0.05), lambda p: optim.SGD(p, lr=0.05, momentum=0.9)):
        model = fresh().distribute(mesh)
        optimizer = make(model.parameters())
        steps(model, optimizer, 2)
        wt.save_checkpoint(path, {"model": model, "optimizer": optimizer})
        expected = steps(model, optimizer, 3)
        other = fresh().parallelize(mesh, PLANS[3])
        again = make(other.parameters())
        wt.load_checkpoint(path, {"model": other, "optimizer": again})
        assert again.steps == 2
        np.testing.assert_allclose(steps(other, again, 3), expected, rtol=1e-4)
    wt.wait()
    if wt.process_index() == 0:
        os.unlink(path)
    for wrong in (lambda: optim.SGD(wt.ones(2)), lambda: optim.SGD([]), lambda: optim.Adam([{"params": []}])):
        with pytest.raises((TypeError, ValueError)):
            wrong()
    assert nn.clip_grad_norm_(model.parameters(), 1.0).item() == 0
    assert nn.Linear(2, 3, dtype="float64").weight.dtype is wt.float64 and isinstance(nn.Linear(2, 3).weight, nn.Parameter)


def test_optimizers_beside_formulas():
    w0, g = np.array([1.0, -2.0, 3.0]), np.array([0.5, 0.25, -1.0])
    for make, formula in ((lambda p: optim.SGD(p, lr=0.1), lambda w, s: w - 0.1 * g),
                          (lambda p: optim.SGD(p, lr=0.1, momentum=0.9), None), (lambda p: optim.Adam(p, lr=0.1), None)):
        w = wt.asarray(w0, requires_grad=True)
        skipped = wt.asarray(w0, requires_grad=True)
        optimizer = make([w, skipped])
        momentum = m = v = np.zeros(3)
        expected = w0.copy()
        for step in range(1, 4):
            (w * wt.asarray(g)).sum().backward()
            optimizer.step()
            optimizer.zero_grad()
            if isinstance(optimizer, optim.Adam):
                m, v = 0.9 * m + 0.1 * g, 0.999 * v + 0.001 * g * g
                expected -= 0.1 * (m / (1 - 0.9**step)) / (np.sqrt(v / (1 - 0.999**step)) + 1e-8)
            elif optimizer.defaults["momentum"]:
                momentum = g if step == 1 else 0.9 * momentum + g
                expected -= 0.1 * momentum
            else:
                expected -= 0.1 * g
        np.testing.assert_allclose(w.numpy(), expected, rtol=1e-12)
        np.testing.assert_array_equal(skipped.numpy(), w0)


def test_functions_that_end_with_what_they_return(mesh):
    """The last reference to a tensor is the one that a function returns to C."""
    cache = [wt.ones(3, mesh=mesh) * 2]

    class Popping(nn.Module):
        def forward(self, x):
            return cache.pop()

    np.testing.assert_array_equal(Popping()(wt.ones(3, mesh=mesh)).numpy(), [2, 2, 2])
    w = wt.ones(3, mesh=mesh, requires_grad=True)
    cache.append(w * 3)
    y = wt.checkpoint(lambda x: x * w, w).sum()
    y.backward(retain_graph=True)
    y.backward()
    np.testing.assert_array_equal(w.grad.numpy(), [4, 4, 4])

    @wt.graph
    def popping(x):
        return cache.pop()

    for i in range(3):
        cache.append(wt.ones(3, mesh=mesh) * i)
        np.testing.assert_array_equal(popping(w.detach()).numpy(), [i, i, i])


def test_graphs_of_numbers_and_donated_inputs(mesh):
    @wt.graph
    def echo(a, number):
        seen.append(number)
        return a * 1.0

    seen, a = [], wt.ones(2, mesh=mesh)
    for number in (True, np.int64(1), 1, 2**53 + 1, np.float32(0.5), 2**53 + 1):
        echo(a, number)
    assert [type(each) for each in seen] == [bool, int, int, int, float, int] and seen[3] == seen[5] == 2**53 + 1
    donating = wt.graph(donate=[0])(lambda x: x + 1)
    for i in range(5):
        assert donating(wt.ones(3, mesh=mesh)).requires_grad is False

    class Base:
        @wt.graph
        def run(self, x):
            return x + 1

    class Derived(Base):
        @wt.graph
        def run(self, x):
            return super().run(x) * 2

    derived = Derived()
    for _ in range(3):
        assert derived.run(a).numpy()[0] == 4


def test_attributes_of_modules(mesh):
    class Late(nn.Module):
        def __init__(self):
            super().__init__()
            self.bias = None
            self.bias = nn.Parameter(wt.ones(2, mesh=mesh), requires_grad=False)

    late = Late()
    assert late.bias.shape == (2,) and not late.bias.requires_grad
    for name, value in (("bias", np.zeros(2)), ("bias", 3)):
        with pytest.raises(TypeError):
            setattr(late, name, value)
    late.bias = None
    assert late.bias is None


def test_no_leak_of_recomputed_values(mesh):
    def resident():
        with open("/proc/self/statm", encoding="ascii") as file:
            return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")

    x, w = wt.ones(600, 100, mesh=mesh), wt.ones(600, 100, mesh=mesh, requires_grad=True) # 240 kB on each rank

    def work(count):
        for _ in range(count):
            wt.checkpoint(lambda x: (x * w).tanh(), x).sum().backward()
            w.grad = None
            nn.Linear(30, 30).distribute(mesh, lambda name, module, on: wt.ones(600, 100, mesh=mesh) * 2)
        wt.wait()
        gc.collect()

    def growth():
        before = resident()
        work(60)
        return resident() - before

    # A leak of one tensor a call would be 14 MB and more each time; the pool of buffers grows at first.
    # As often in each process: all of them call together.
    assert min([growth() for _ in range(6)]) < 7 << 20


def rates(make, steps, lr=1.0):
    """The learning rates of so many steps, and those of a schedule that goes on from a state in their middle."""
    def optimizer():
        return wt.optim.SGD([wt.ones(2, requires_grad=True)], lr=lr)

    first = make(optimizer())
    found, state = [], None
    for step in range(steps):
        found += first.get_last_lr()
        if step == steps // 2:
            state = first.state_dict()
        first.step()
    second = make(optimizer())
    second.load_state_dict(state)
    again = []
    for _ in range(steps // 2, steps):
        again += second.get_last_lr()
        second.step()
    assert again == found[steps // 2:]
    return found


def test_learning_rates():
    s = wt.optim.lr_scheduler
    same = np.testing.assert_allclose
    same(rates(lambda o: s.StepLR(o, 2, 0.1), 5), [1, 1, 0.1, 0.1, 0.01])
    same(rates(lambda o: s.MultiStepLR(o, [3, 1], 0.5), 5), [1, 0.5, 0.5, 0.25, 0.25])
    same(rates(lambda o: s.ExponentialLR(o, 0.5), 4), [1, 0.5, 0.25, 0.125])
    same(rates(lambda o: s.ConstantLR(o, 0.5, 3), 5), [0.5, 0.5, 0.5, 1, 1])
    same(rates(lambda o: s.LinearLR(o, 0.5, total_iters=4), 6, 0.05), [0.025, 0.03125, 0.0375, 0.04375, 0.05, 0.05])
    same(rates(lambda o: s.PolynomialLR(o, 4), 6, 0.001), [0.001, 0.00075, 0.0005, 0.00025, 0, 0], atol=1e-18)
    same(rates(lambda o: s.LambdaLR(o, lambda step: 1 / (1 + step)), 3), [1, 1 / 2, 1 / 3])
    same(rates(lambda o: s.CosineAnnealingWarmRestarts(o, 2, 2), 7), [1, 0.5, 1, 0.5 + 0.5**1.5, 0.5, 0.5 - 0.5**1.5, 1])
    # By the recurrence that leads from one rate to the next.
    found = rates(lambda o: s.CosineAnnealingLR(o, 7, 0.1), 8)
    for t in range(6):
        same(found[t + 1] - 0.1, (found[t] - 0.1) * (1 + np.cos(np.pi * (t + 1) / 7)) / (1 + np.cos(np.pi * t / 7)))
    assert abs(found[7] - 0.1) < 1e-15
    for way in ("cos", "linear"):
        found = rates(lambda o, way=way: s.OneCycleLR(o, 2.0, 10, anneal_strategy=way), 10)
        same([found[0], found[2], found[9]], [2 / 25, 2, 2 / 25 / 1e4])
        assert found[0] < found[1] < found[2] > found[3] > found[8] > found[9]
    same(rates(lambda o: s.SequentialLR(o, [s.ConstantLR(o, 0.1, 2), s.ExponentialLR(o, 0.9)], [2]), 5), [0.1, 0.1, 1, 0.9, 0.81])
    with pytest.raises(ValueError, match="milestones: 0 are given, and 2 schedulers need 1"):
        optimizer = wt.optim.SGD([wt.ones(2, requires_grad=True)], lr=1.0)
        s.SequentialLR(optimizer, [s.ConstantLR(optimizer), s.ExponentialLR(optimizer, 0.9)], [])


def test_learning_rate_on_a_plateau():
    optimizer = wt.optim.SGD([wt.ones(2, requires_grad=True)], lr=1.0)
    scheduler = wt.optim.lr_scheduler.ReduceLROnPlateau(optimizer, factor=0.5, patience=1, cooldown=1, min_lr=0.2)
    found = []
    for loss in (3, 2, 2, 2, 2, 2, 2, 1, 1, 1, 1, 1, 1):
        scheduler.step(loss)
        found.append(optimizer.lr)
    # Two steps without a better one, then one step that does not count; never below min_lr.
    assert found == [1, 1, 1, 0.5, 0.5, 0.5, 0.25, 0.25, 0.25, 0.2, 0.2, 0.2, 0.2]
    other = wt.optim.SGD([wt.ones(2, requires_grad=True)], lr=1.0)
    again = wt.optim.lr_scheduler.ReduceLROnPlateau(other, factor=0.5, patience=1, cooldown=1, min_lr=0.2)
    again.load_state_dict(scheduler.state_dict())
    assert other.lr == 0.2 and again.best == 1
