"""Complex tensors beside PyTorch, and their gradients beside its autograd: random layouts."""

import numpy as np
import pytest
from conftest import LAYOUTS

import weft_tensors as wt
from weft_tensors.nn import functional as F

try:
    import torch
except ImportError:
    torch = None
pytestmark = pytest.mark.skipif(torch is None, reason="not compared: this Python has no PyTorch")

FUNCTIONS = ["tan", "asin", "acos", "atan", "sinh", "cosh", "asinh", "acosh", "atanh", "log2", "log10", "log1p", "expm1", "exp2", "sgn", "exp", "log",
             "sqrt", "rsqrt", "sin", "cos", "tanh", "sigmoid", "square", "reciprocal", "abs", "angle"]


def random(generator, *shape):
    return generator.standard_normal(shape) + 1j * generator.standard_normal(shape)


def same(found, expected, tolerance=1e-11):
    expected = expected.detach().numpy()
    assert found.shape == expected.shape and found.dtype.numpy == expected.dtype, f"{found} {expected.shape} {expected.dtype}"
    np.testing.assert_allclose(found.numpy(), expected, rtol=tolerance, atol=tolerance)


def compare(generator, mesh, call, of_torch, arrays, layouts=None):
    """A function's results, and the gradients of a weighted sum of them by each array."""
    mine = [wt.asarray(x, mesh=mesh, placements=(layouts or {}).get(i, LAYOUTS[generator.integers(len(LAYOUTS))])) for i, x in enumerate(arrays)]
    theirs = [torch.tensor(x, requires_grad=True) for x in arrays]
    for each in mine:
        each.requires_grad_()
    found, expected = call(*mine), of_torch(*theirs)
    same(found, expected)
    weight = random(generator, *expected.shape) if expected.is_complex() else generator.standard_normal(tuple(expected.shape))
    gradients = wt.gradients(found, mine, [wt.asarray(np.asarray(weight), mesh=mesh)])
    for own, other in zip(gradients, torch.autograd.grad(expected, theirs, torch.tensor(weight))):
        same(own, other)


@pytest.mark.parametrize("name", FUNCTIONS)
def test_functions(mesh, name):
    generator = np.random.default_rng(FUNCTIONS.index(name))
    compare(generator, mesh, getattr(wt, name), getattr(torch, name), [random(generator, 5, 7)])


@pytest.mark.parametrize("seed", range(12))
def test_statistics(mesh, seed):
    generator = np.random.default_rng(seed)
    dim, keep = (None, 0, 1)[generator.integers(3)], bool(generator.integers(2))
    correction = int(generator.integers(2))
    x = [random(generator, int(generator.integers(2, 7)), int(generator.integers(2, 9)))]
    for name in ("var", "std"):
        compare(generator, mesh, lambda a: getattr(wt, name)(a, dim, correction, keep),
                lambda a: getattr(torch, name)(a, dim, correction=correction, keepdim=keep), x)
    compare(generator, mesh, lambda a: wt.logsumexp(a, dim, keep), lambda a: torch.logsumexp(a, (0, 1) if dim is None else dim, keep), x)
    compare(generator, mesh, lambda a: wt.mean(a, dim, keep), lambda a: torch.mean(a, (0, 1) if dim is None else dim, keep), x)
    compare(generator, mesh, lambda a: wt.norm(a, 2, dim, keep), lambda a: torch.linalg.vector_norm(a, 2, dim, keep), x)
    compare(generator, mesh, lambda a: wt.cov(a, correction), lambda a: torch.cov(a, correction=correction), x)


@pytest.mark.parametrize("seed", range(16))
def test_convolutions(mesh, seed):
    generator = np.random.default_rng(seed)
    ndim, groups, transposed = int(generator.integers(1, 4)), int(generator.integers(1, 3)), bool(generator.integers(2))
    stride, padding, dilation = int(generator.integers(1, 3)), int(generator.integers(2)), int(generator.integers(1, 3))
    channels, features = groups * int(generator.integers(1, 3)), groups * int(generator.integers(1, 3))
    x = random(generator, int(generator.integers(1, 5)), channels, *(int(generator.integers(4, 8)) for _ in range(ndim)))
    shape = (channels, features // groups) if transposed else (features, channels // groups)
    weight, bias = random(generator, *shape, *(int(generator.integers(1, 4)) for _ in range(ndim))), random(generator, features)
    name = f"conv{'_transpose' if transposed else ''}{ndim}d"
    options = {"stride": stride, "padding": padding, "dilation": dilation, "groups": groups}
    compare(generator, mesh, lambda a, w, b: getattr(F, name)(a, w, b, **options),
            lambda a, w, b: getattr(torch.nn.functional, name)(a, w, b, **options), [x, weight, bias], {2: "R,R"})


def test_dropout(mesh):
    x = random(np.random.default_rng(3), 40, 25)
    a = wt.asarray(x, mesh=mesh, placements="S0,S1")
    a.requires_grad_()
    found = F.dropout(a, 0.25)
    kept = found.numpy() != 0
    assert 600 < kept.sum() < 900
    np.testing.assert_allclose(found.numpy(), np.where(kept, x / 0.75, 0), rtol=1e-14)
    (gradient,) = wt.gradients(found, a, [wt.asarray(x, mesh=mesh)])
    np.testing.assert_allclose(gradient.numpy(), np.where(kept, x / 0.75, 0), rtol=1e-14)
