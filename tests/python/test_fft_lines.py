"""Long Fourier transforms, and lines that ranks share, beside numpy.fft, scipy.fft and torch.fft: the norm of the error, relative to the
result's, is at most c eps log2 n, with c = 4, and 40 where n has a prime factor above 13; 4 more for NumPy's own error, which scipy.fft in
long double precision has not."""

import math

import numpy as np
import pytest
from conftest import LAYOUTS

import weft_tensors as wt
from weft_tensors import fft

try:
    import scipy.fft
except ImportError:
    scipy = None
try:
    import torch
except ImportError:
    torch = None

NAMES = ["fft", "ifft", "rfft", "irfft", "hfft", "ihfft"]
NORMS = ["backward", "ortho", "forward"]
SIZES = [1, 2, 3, 17, 97, 1009, 4099, 10007, 65537, 2 * 10007, 210, 1024, 4096, 5040, 6561, 15625, 16384, 30030, 60000, 65536, 99999]
SHARED = []


def values(generator, shape, name, single):
    found = generator.standard_normal(shape)
    if name in ("rfft", "ihfft"):
        return found.astype("float32" if single else "float64")
    return (found + 1j * generator.standard_normal(shape)).astype("complex64" if single else "complex128")


def has_large_prime(n):
    for prime in (2, 3, 5, 7, 11, 13):
        while n % prime == 0:
            n //= prime
    return n > 1


def wide(x):
    return x.astype("complex128" if x.dtype.kind == "c" else "float64")


def near(found, expected, size, single, exact=False):
    """`size`: elements of a transform. Results that have no digits, because the values cancel, are compared with the values' size."""
    eps = 2.0**-24 if single else 2.0**-53
    factor = (40 if has_large_prime(size) else 4) + (0 if exact or single else 4)
    assert found.shape == expected.shape
    error = np.linalg.norm((found.astype(expected.dtype) - expected).ravel())
    allowed = factor * eps * math.log2(size + 1) * np.linalg.norm(expected.ravel())
    assert error <= allowed, f"the error is {error / max(np.linalg.norm(expected.ravel()), 1e-300):.3g}, allowed {allowed}"


def size_of(name, length):
    return 2 * (length - 1) if name in ("irfft", "hfft") else length


def any_line(generator, name):
    """A length of lines, and n or None: shorter, equal or longer."""
    length = int(generator.choice(SIZES)) + (name in ("irfft", "hfft"))
    if generator.integers(3) == 0 and size_of(name, length) > 0:
        return length, None
    return length, int(generator.choice(SIZES)) if generator.integers(2) else max(1, size_of(name, length) + int(generator.integers(-9, 10)))


@pytest.mark.parametrize("seed", range(36))
def test_shared_lines(seed):
    """One line, or fewer lines than ranks, in chunks, cyclic or uneven parts."""
    generator = np.random.default_rng(seed)
    name, norm, single = NAMES[seed % 6], NORMS[generator.integers(3)], bool(generator.integers(2))
    length, n = any_line(generator, name)
    rows = int(generator.integers(1, 3)) if generator.integers(2) else None
    cut = generator.choice(["S0", "S0,S0"]) if rows is None else generator.choice(["S1", "S1,S1", "S1,R"])
    ranks = wt.world_size()
    mesh = wt.Mesh((2, ranks // 2) if "," in cut and ranks % 2 == 0 else (1, ranks) if "," in cut else (ranks,))
    x = values(generator, length if rows is None else (rows, length), name, single)
    a = wt.asarray(x, mesh=mesh, placements=[wt.Shard(0, wt.Cyclic(5))] if cut == "S0" and generator.integers(3) == 0 else cut)
    found = getattr(fft, name)(a, n, -1, norm)
    SHARED.append(any("period" in repr(each) or "Cyclic" in repr(each) for each in found.placements))
    size = n or size_of(name, length)
    near(found.numpy(), getattr(np.fft, name)(wide(x), n, -1, norm), size, single)
    if name in ("fft", "ifft"):
        back = getattr(fft, "ifft" if name == "fft" else "fft")(found, None, -1, norm)
        whole = np.zeros(x.shape[:-1] + (size,), "complex128")
        whole[..., :min(size, length)] = x[..., :size]
        near(back.numpy(), whole, size, single)


def test_lines_were_shared():
    """How many are depends on the figures of the machine."""
    if wt.world_size() > 2 and len(SHARED) >= 18:
        assert any(SHARED), f"none of {len(SHARED)} lines"


@pytest.mark.parametrize("seed", range(20))
def test_random_dimensions(mesh, seed):
    generator = np.random.default_rng(500 + seed)
    name, norm, single = NAMES[seed % 6], NORMS[generator.integers(3)], bool(generator.integers(2))
    length, n = any_line(generator, name)
    length = min(length, 20014)
    n = min(n or size_of(name, length), 20014) or 1
    shape, dim = [int(generator.integers(0 if generator.integers(8) == 0 else 1, 7)), int(generator.integers(1, 4))], int(generator.integers(3))
    shape.insert(dim, length)
    x = values(generator, shape, name, single)
    a = wt.asarray(x, mesh=mesh, placements=LAYOUTS[generator.integers(len(LAYOUTS))])
    found = getattr(fft, name)(a, n, dim, norm).numpy()
    expected = getattr(np.fft, name)(wide(x), n, dim, norm) if 0 not in shape else np.zeros(found.shape, "complex128")
    near(found, expected, n, single)


@pytest.mark.parametrize("seed", range(20))
def test_several_dimensions(mesh, seed):
    """s longer and shorter; lines of the last dimension alone, which ranks share."""
    generator = np.random.default_rng(900 + seed)
    name, norm, single = ["fftn", "ifftn", "rfftn", "irfftn", "fft2"][seed % 5], NORMS[generator.integers(3)], bool(generator.integers(2))
    sizes = [1, 2, 3, 16, 30, 37]
    shape = [int(generator.choice(sizes)) for _ in range(2)] + [int(generator.choice([1, 2, 331, 1009, 1024]))]
    dims = [int(each) for each in generator.permutation(3)[:2]]
    s = [max(1, shape[d] + int(generator.integers(-20, 20))) for d in dims] if generator.integers(3) or name == "irfftn" else None
    x = values(generator, shape, "rfft" if name == "rfftn" else "fft", single)
    a = wt.asarray(x, mesh=mesh, placements=str(generator.choice(LAYOUTS + ["R,S2", "S2,S2"])))
    expected = getattr(np.fft, name)(wide(x), s, dims, norm)
    near(getattr(fft, name)(a, s, dims, norm).numpy(), expected, math.prod((each for each in s or [shape[d] for d in dims])), single)


@pytest.mark.parametrize("seed", range(18))
def test_empty_tensors(mesh, seed):
    """No lines, or lines of no elements, which become zeros."""
    generator = np.random.default_rng(seed)
    name, n = NAMES[seed % 6], int(generator.integers(1, 9))
    shape = [int(generator.integers(0, 3)), 0] if seed < 9 else [0, 5]
    x = values(generator, shape, name, False)
    found = getattr(fft, name)(wt.asarray(x, mesh=mesh, placements="S0,S1"), n, 1)
    assert not found.numpy().any() and found.shape == (shape[0], n // 2 + 1 if name in ("rfft", "ihfft") else n)


@pytest.mark.skipif(scipy is None, reason="not compared: this Python has no SciPy")
@pytest.mark.parametrize("seed", range(12))
def test_long_double_precision(mesh, seed):
    generator = np.random.default_rng(seed)
    name, norm = NAMES[seed % 6], NORMS[generator.integers(3)]
    n = int(generator.choice(SIZES)) + 1
    length = n // 2 + 1 if name in ("irfft", "hfft") else n
    x = values(generator, length, name, False)
    exact = x.astype("clongdouble" if x.dtype.kind == "c" else "longdouble")
    found = getattr(fft, name)(wt.asarray(x, mesh=mesh, placements="S0,S0"), n, -1, norm)
    near(found.numpy(), getattr(scipy.fft, name)(exact, n, -1, norm), n, False, exact=True)


@pytest.mark.skipif(scipy is None, reason="not compared: this Python has no SciPy")
@pytest.mark.parametrize("type", [1, 2, 3, 4])
@pytest.mark.parametrize("norm", NORMS)
def test_cosines_and_sines(mesh, type, norm):
    generator = np.random.default_rng(type)
    for n in (2, 3, 16, 97, 1000, 1009):
        x = generator.standard_normal((3, n))
        a = wt.asarray(x, mesh=mesh, placements=LAYOUTS[generator.integers(len(LAYOUTS))])
        for name in ("dct", "dst", "idct", "idst"):
            expected = getattr(scipy.fft, name)(x.astype("longdouble"), type, norm=norm)
            error = np.linalg.norm(getattr(fft, name)(a, type, norm=norm).numpy() - expected) / np.linalg.norm(expected)
            assert error <= 80 * 2.0**-53 * math.log2(2 * n + 1), f"{name} of {n}: {error}"


@pytest.mark.skipif(torch is None, reason="not compared: this Python has no PyTorch")
@pytest.mark.parametrize("seed", range(18))
def test_torch(mesh, seed):
    """Names of arguments, dtypes and shapes are PyTorch's; gradients are."""
    generator = np.random.default_rng(seed)
    name, norm, single = NAMES[seed % 6], NORMS[generator.integers(3)], bool(generator.integers(2))
    length, n = int(generator.integers(2, 40)), int(generator.integers(1, 50))
    x = values(generator, (3, length, 2), name, single)
    a, t = wt.asarray(x, mesh=mesh, placements=LAYOUTS[generator.integers(len(LAYOUTS))]), torch.tensor(x, requires_grad=True)
    a.requires_grad_()
    found, expected = getattr(fft, name)(a, n, dim=1, norm=norm), getattr(torch.fft, name)(t, n, dim=1, norm=norm).resolve_conj()
    assert str(found.dtype).split(".")[-1] == str(expected.dtype).split(".")[-1]
    tolerance = 2e-5 if single else 1e-12
    np.testing.assert_allclose(found.numpy(), expected.detach().numpy(), rtol=0, atol=tolerance * max(1, float(expected.detach().abs().max())))
    g = values(generator, tuple(expected.shape), "fft" if expected.is_complex() else "rfft", single)
    (own,) = wt.gradients(found, a, [wt.asarray(g, mesh=mesh)])
    (other,) = torch.autograd.grad(expected, t, torch.tensor(g))
    other = other.resolve_conj()
    np.testing.assert_allclose(own.numpy(), other.numpy(), rtol=0, atol=tolerance * max(1, float(other.abs().max())))
