"""Numbers beside tensors, complex numbers, and functions that PyTorch has besides the standard's: beside NumPy."""

import operator

import numpy as np
import pytest

import weft_tensors as wt

RANDOM = np.random.default_rng(7)
TRAPEZOID = getattr(np, "trapezoid", None) or np.trapz
COMPARISONS = [operator.lt, operator.le, operator.gt, operator.ge, operator.eq, operator.ne]


def same(found, expected, tolerance=1e-12):
    found = found.numpy() if isinstance(found, wt.Tensor) else np.asarray(found)
    assert found.shape == np.shape(expected), f"{found.shape} {np.shape(expected)}"
    np.testing.assert_allclose(found, expected, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("kind", ["uint8", "int32", "int64", "float32", "float64", "bool", "complex128"])
def test_numbers_beside_tensors(mesh, kind):
    x = np.array([0, 1, 2, 200]).astype(kind)
    a = wt.asarray(x, mesh=mesh, placements="S0,R")
    for number in (0, 1, -0.0, 2.5, 3, 0.1, True):
        if kind != "bool":
            same(a + number, x + number, 1e-6)
            same(a * number, x * number, 1e-6)
            if number is not True: # neither PyTorch nor NumPy subtract truth values
                wide = x.astype("int64") if kind == "uint8" and isinstance(number, int) else x
                same(a - number, (wide - number).astype("uint8") if wide is not x else x - number, 1e-6)
        for compare in COMPARISONS if kind != "complex128" else COMPARISONS[4:]:
            same(compare(a, number), compare(x, np.float32(number) if kind == "float32" else number))
    assert (1 - wt.zeros(2)).dtype is wt.float32 and (wt.zeros(2, dtype="int32") + 1.0).dtype is wt.float32
    assert np.signbit((wt.asarray([-0.0]) + -0.0).numpy()) and not np.signbit((wt.asarray([-0.0]) + 0.0).numpy())


def test_large_numbers():
    big = wt.asarray(np.array([2**62, -5, 2**60 + 1]))
    same(big == 2**60 + 1, [False, False, True])
    same(big < 2**60 + 1, [False, True, False])
    np.testing.assert_array_equal((big + (2**60 + 1)).numpy(), np.array([2**62, -5, 2**60 + 1]) + (2**60 + 1))
    for number in (2**64, 10**400):
        same(big < number, [True] * 3)
        same(big >= -number, [True] * 3)
        same(big == number, [False] * 3)
    same(wt.ones(2) * 2**70, [2.0**70] * 2)
    small = wt.asarray(np.array([2, 200], np.uint8))
    same(small < 300, [True, True])
    same(small == 258, [False, False])
    same(small != -1, [True, True])
    for low, high in ((-3, 300), (5, 2**40), (None, 7), (100, None)):
        found = small.clip(low, high)
        assert found.dtype is wt.uint8
        same(found, np.clip([2, 200], low, high))
    assert small.clip(0.5).dtype is wt.float32


def test_indices_by_one_number_or_slice(mesh):
    x = np.arange(24.0).reshape(6, 4)
    a = wt.asarray(x, mesh=mesh, placements="S0,S1")
    for index in (0, 5, -1, -6, slice(None), slice(1, 3), slice(4, 1), slice(-2, None), slice(None, None, 2), slice(5, 0, -2),
                  slice(9, 12), slice(2, 99, 3)):
        same(a[index], x[index])
    for wrong in (6, -7, 2**70):
        with pytest.raises(IndexError, match="out of range"):
            a[wrong]
    for wrong in (0, slice(0, 1)):
        with pytest.raises(IndexError, match="too many"):
            wt.ones((), mesh=mesh)[wrong]
    same(a + 0, x) # no error is left behind


def test_complex_numbers(mesh):
    x = RANDOM.standard_normal((4, 6)) + 1j * RANDOM.standard_normal((4, 6))
    z, r = wt.asarray(x, mesh=mesh, placements="S0,R"), wt.asarray(x.real.copy(), mesh=mesh, placements="R,S1")
    same(z.real, x.real)
    same(z.imag, x.imag)
    same(z.conj(), x.conj())
    same(z.angle(), np.angle(x))
    same(z.mH, x.conj().T)
    same(z.H, x.conj().T)
    same(r.imag, np.zeros((4, 6)))
    same(r.real, x.real)
    same(r.conj(), x.real)
    assert z.is_complex() and not r.is_complex() and wt.is_floating_point(r) and z.real.dtype is wt.float64
    same(wt.vdot(z[0], z[1]), np.vdot(x[0], x[1]))
    same(wt.full((2,), 1 + 2j, mesh=mesh), [1 + 2j] * 2)
    same(wt.linspace(0, 1j, 5, dtype="complex128", mesh=mesh), np.linspace(0, 1j, 5))
    assert wt.linspace(0, 1j, 3).dtype is wt.complex64 and wt.full((), 1j).dtype is wt.complex64
    assert wt.allclose(z, z * (1 + 1e-9)) and not wt.allclose(z, z + 1) and wt.allclose(z, z.conj().conj())
    odd = wt.asarray(np.array([np.inf, complex(np.nan, 1)]))
    assert wt.allclose(odd, odd, equal_nan=True) and not wt.allclose(odd, odd)
    leaf = wt.asarray(x, mesh=mesh, requires_grad=True)
    (leaf.real * 2 + leaf.imag * 3).sum().backward()
    same(leaf.grad, np.full((4, 6), 2 + 3j))
    same(wt.fft.irfft2(wt.fft.rfft2(r)), x.real)
    for wrong, match in ((lambda: wt.fft.fft2(r[0]), "two dimensions"),
                         (lambda: wt.randint(0, 5, (2,), dtype="complex64"), "whole numbers"),
                         (lambda: wt.randint(0, 5, (2,), dtype="float32"), "whole numbers"),
                         (lambda: wt.bernoulli(z), "bernoulli: p is c128")):
        with pytest.raises(ValueError, match=match):
            wrong()


def test_sizes_and_types():
    a = wt.zeros(2, 3)
    assert a.size == 6 and a.size() == (2, 3) and a.size(-1) == 3 and a.size * 2 == 12 and a.itemsize == a.element_size() == 4
    assert a.to(wt.float64).dtype is wt.float64 and a.to("cpu", wt.int64).dtype is wt.int64 and a.to("cuda:0") is a
    assert a.to(wt.ones(1, dtype="int32")).dtype is wt.int32
    assert a.to(device="cpu",
                dtype="float64").dtype is wt.float64 and a.type_as(a.long()).dtype is wt.int64 and a.new_zeros(2).dtype is wt.float32
    assert wt.numel(a) == a.nelement() == 6 and a.ndimension() == 2 and wt.is_tensor(a) and not wt.is_tensor(3) and a.is_contiguous()
    assert a.new_full((2,), 3, dtype="int64").tolist() == [3,
                                                           3] and a.new_tensor([1, 2]).dtype is wt.float32 and a.new_ones(1).tolist() == [1]
    assert wt.as_tensor([1.0, 2.0]).tolist() == [1, 2] and a.cuda() is a


def test_reductions(mesh):
    x = RANDOM.standard_normal((4, 6))
    a = wt.asarray(x, mesh=mesh, placements="S0,S1")
    same(a.amax((0, 1)), x.max())
    same(a.amin(1, keepdim=True), x.min(1, keepdims=True))
    for found, expected in zip(wt.aminmax(a, dim=0), (x.min(0), x.max(0))):
        same(found, expected)
    for found, expected in zip(wt.std_mean(a, 0) + wt.var_mean(a), (x.std(0, ddof=1), x.mean(0), x.var(ddof=1), x.mean())):
        same(found, expected)
    same(a.median(), np.sort(x, None)[11])
    middle, indices = a.median(dim=1)
    same(middle, np.sort(x)[:, 2])
    same(indices, np.argsort(x)[:, 2])
    same(a.count_nonzero(dim=0), np.full(6, 4))
    same(a.quantile(0.25), np.quantile(x, 0.25))
    same(wt.quantile(a, 0.25, dim=1, keepdim=True), np.quantile(x, 0.25, 1, keepdims=True))
    same(a.round(), np.round(x))
    same(a.round(decimals=2), np.round(x, 2))
    for found, expected in zip(wt.where(a > 0), np.where(x > 0)):
        same(found, expected)
    same(wt.linspace(0, 1, steps=5, dtype="float64"), np.linspace(0, 1, 5))
    assert wt.tensor(1 + 2j).dtype is wt.complex64 and wt.tensor([0.5]).dtype is wt.float32
    assert wt.tensor(np.array([1j])).dtype is wt.complex128 and a.type(wt.int32).dtype is wt.int32


def test_shapes(mesh):
    x = np.arange(24.0).reshape(4, 6)
    a = wt.asarray(x, mesh=mesh, placements="S0,R")
    vector = wt.asarray(x[0], mesh=mesh, placements="S0,R")
    for found, expected in ((a.ravel(), x.ravel()), (a.movedim(0, 1), x.T), (a.swapaxes(0, 1), x.T), (a.select(1, -1), x[:, -1]),
                            (a.narrow(1, 2, 3), x[:, 2:5]),
                            (a.narrow(0, -2, 2), x[2:]), (wt.hstack([a, a]), np.hstack([x, x])),
                            (wt.vstack([vector, vector]), np.vstack([x[0], x[0]])),
                            (wt.hstack([vector, vector]), np.hstack([x[0], x[0]])), (wt.fliplr(a), np.fliplr(x)),
                            (wt.flipud(a), np.flipud(x)),
                            (wt.diag(vector), np.diag(x[0])), (wt.diag(vector, 2), np.diag(x[0], 2)),
                            (wt.diag(vector, -1), np.diag(x[0], -1)),
                            (wt.diag(a, 1), np.diag(x, 1)), (wt.argwhere(a > 20), np.argwhere(x > 20)),
                            (a.expand_as(wt.zeros(2, 4, 6, mesh=mesh)), np.stack([x, x])),
                            (a.view_as(wt.zeros(6, 4)), x.reshape(6, 4)), (a.tile(2, 1), np.tile(x, (2, 1))),
                            (a.where(a > 3, 0.0), np.where(x > 3, x, 0)),
                            (wt.inner(a, vector), np.inner(x, x[0])), (wt.mv(a, vector), x @ x[0]),
                            (wt.trapezoid(a, dx=0.5), TRAPEZOID(x, dx=0.5)),
                            (wt.trapezoid(a, vector**2), TRAPEZOID(x, x[0] ** 2)),
                            (wt.trapezoid(a, a**2, dim=0), TRAPEZOID(x, x**2, axis=0)),
                            (wt.deg2rad(a), np.deg2rad(x)), (wt.rad2deg(a), np.rad2deg(x)), (a.diff(dim=0), np.diff(x, axis=0))):
        same(found, expected)
    for wrong, kind in ((lambda: a.narrow(0, 3, 2), IndexError), (lambda: wt.diag(wt.zeros(2, 2, 2)), ValueError)):
        with pytest.raises(kind):
            wrong()


def test_scatter(mesh):
    index = wt.asarray(np.array([[0, 2], [3, 1]]), mesh=mesh)
    for given in (7.0, wt.full((2, 2), 7.0, dtype="float64", mesh=mesh)):
        a = wt.asarray(np.zeros((2, 4)), mesh=mesh, placements="S0,R")
        same(a.scatter(1, index, given), [[7, 0, 7, 0], [0, 7, 0, 7]])
        same(a, np.zeros((2, 4)))
        assert a.scatter_(1, index, given) is a
        same(a, [[7, 0, 7, 0], [0, 7, 0, 7]])
    same(wt.scatter(a, 1, index, value=1.0).sum(), 4)
    same(wt.roll(a, shifts=1, dims=0), np.roll(a.numpy(), 1, 0))


def test_random_numbers(mesh):
    wt.manual_seed(4)
    many = wt.normal(2.0, 3.0, (4000,), mesh=mesh, placements="S0,R").numpy()
    assert abs(many.mean() - 2) < 0.2 and abs(many.std() - 3) < 0.2
    assert wt.normal(wt.full((3,), 100.0), 0.1).numpy().min() > 90 and wt.normal(0.0, wt.zeros(3)).tolist() == [0, 0, 0]
    waits = wt.zeros(4000, mesh=mesh).exponential_(2.0).numpy()
    assert abs(waits.mean() - 0.5) < 0.05 and waits.min() >= 0
    assert abs(wt.zeros(4000, mesh=mesh).bernoulli_(0.25).numpy().mean() - 0.25) < 0.05
    assert wt.randint(5, (3, 2)).shape == wt.randint(5, size=(3, 2)).shape == wt.randint(2, 5, shape=(3, 2)).shape == (3, 2)
    assert wt.randint(5).shape == ()
    with pytest.raises(TypeError, match="size"):
        wt.normal(0.0, 1.0)


def test_in_place():
    x = np.array([0.5, 2.0, 4.0])
    for name, function in (("sqrt", np.sqrt), ("exp", np.exp), ("neg", np.negative), ("abs", np.abs), ("floor", np.floor),
                           ("relu", lambda v: np.maximum(v, 0)),
                           ("tanh", np.tanh), ("reciprocal", np.reciprocal), ("pow", lambda v: v**2)):
        a = wt.asarray(x)
        assert getattr(a, f"{name}_")(*([2.0] if name == "pow" else [])) is a
        same(a, function(x))


def test_functions_of_complex_numbers(mesh):
    x = RANDOM.uniform(-0.9, 0.9, (4, 6)) + 1j * RANDOM.uniform(-0.9, 0.9, (4, 6))
    z = wt.asarray(x, mesh=mesh, placements="S0,S1")
    for name in ("sinh", "cosh", "tan", "asinh", "acosh", "atanh", "atan", "asin", "acos", "log2", "log10", "log1p", "expm1"):
        same(getattr(wt, name)(z), getattr(np, name.replace("a", "arc", 1) if name.startswith("a") else name)(x), 1e-9)
    same(wt.expm1(z * 1e-9) * 1e9, x + 5e-10 * x * x) # NumPy's are less exact
    same(wt.log1p(z * 1e-9) * 1e9, x - 5e-10 * x * x)
    same(z.cumsum(1), np.cumsum(x, 1))
    same(wt.cumulative_sum(z, axis=0), np.cumsum(x, 0))
    same(z.var(dim=0), x.var(0))
    same(z.std(correction=1), x.std(ddof=1))
    same(z.sign(), x / np.abs(x))
    assert wt.sign(wt.zeros(1, dtype="complex64")).item() == 0
    leaf = wt.asarray(x, mesh=mesh, requires_grad=True)
    wt.sinh(leaf).real.sum().backward()
    same(leaf.grad, np.conj(np.cosh(x)), 1e-9)
