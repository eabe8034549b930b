"""Complex tensors and Fourier transforms beside NumPy: random sizes, dimensions, norms and layouts."""

import itertools

import numpy as np
import pytest
from conftest import LAYOUTS

import weft_tensors as wt
from weft_tensors import fft

SIZES = [1, 2, 3, 4, 5, 6, 7, 8, 9, 11, 12, 13, 15, 16, 17, 23, 26, 30, 37, 49, 64, 77, 101]
NORMS = [None, "backward", "ortho", "forward"]
KINDS = ["complex128", "complex64", "float64", "float32"]


def values(generator, shape, kind):
    found = generator.standard_normal(shape)
    if kind.startswith("complex"):
        found = found + 1j * generator.standard_normal(shape)
    return found.astype(kind)


def close(found, expected, kind):
    single = kind in ("complex64", "float32")
    assert found.dtype.numpy == np.dtype(expected.dtype if not single else {"c": "complex64", "f": "float32"}[expected.dtype.kind])
    scale = max(1.0, float(np.max(np.abs(expected), initial=0)))
    np.testing.assert_allclose(found.numpy(), expected, rtol=0, atol=(3e-5 if single else 3e-13) * scale)


@pytest.mark.parametrize("seed", range(60))
def test_one_dimension(mesh, seed):
    generator = np.random.default_rng(seed)
    name = generator.choice(["fft", "ifft", "rfft", "irfft", "hfft", "ihfft"])
    ndim = int(generator.integers(1, 4))
    shape, dim = [int(generator.integers(1, 7)) for _ in range(ndim)], int(generator.integers(-ndim, ndim))
    shape[dim] = int(generator.choice(SIZES)) + (name in ("irfft", "hfft"))
    kind = str(generator.choice(KINDS[2:] if name in ("rfft", "ihfft") else KINDS[:2] if name in ("irfft", "hfft") else KINDS))
    n = None if generator.integers(2) else int(generator.choice(SIZES))
    norm = NORMS[generator.integers(4)]
    x = values(generator, shape, kind)
    a = wt.asarray(x, mesh=mesh, placements=LAYOUTS[generator.integers(len(LAYOUTS))] if ndim > 1 else None)
    wide = x.astype("complex128" if kind.startswith("complex") else "float64")
    close(getattr(fft, name)(a, n, dim, norm), getattr(np.fft, name)(wide, n, dim, norm), kind)


@pytest.mark.parametrize("seed", range(40))
def test_several_dimensions(mesh, seed):
    generator = np.random.default_rng(1000 + seed)
    name = generator.choice(["fftn", "ifftn", "rfftn", "irfftn", "fft2", "ifft2"])
    ndim = int(generator.integers(2, 4))
    shape = [int(generator.integers(2, 12)) for _ in range(ndim)]
    dims = [int(d) for d in generator.permutation(ndim)[:2 if "2" in name else generator.integers(1, ndim + 1)]]
    kind = str(generator.choice(KINDS[2:] if name == "rfftn" else KINDS[:2] if name == "irfftn" else KINDS))
    s = None if generator.integers(2) else [int(generator.integers(1, 12)) for _ in dims]
    norm = NORMS[generator.integers(4)]
    x = values(generator, shape, kind)
    a = wt.asarray(x, mesh=mesh, placements=LAYOUTS[generator.integers(len(LAYOUTS))])
    wide = x.astype("complex128" if kind.startswith("complex") else "float64")
    close(getattr(fft, name)(a, s, dims, norm), getattr(np.fft, name)(wide, s, dims, norm), kind)


@pytest.mark.parametrize("layout", LAYOUTS)
def test_shifts(mesh, layout):
    x = np.arange(35.0).reshape(5, 7)
    a = wt.asarray(x, mesh=mesh, placements=layout)
    for name, dim in itertools.product(["fftshift", "ifftshift"], [None, 0, 1, (0, 1)]):
        np.testing.assert_array_equal(getattr(fft, name)(a, dim).numpy(), getattr(np.fft, name)(x, dim))


def test_frequencies(mesh):
    for n in (1, 2, 3, 8, 9):
        np.testing.assert_allclose(fft.fftfreq(n, 0.25, dtype="float64", mesh=mesh).numpy(), np.fft.fftfreq(n, 0.25), rtol=1e-15)
        np.testing.assert_allclose(fft.rfftfreq(n, 0.25, dtype="float64", mesh=mesh).numpy(), np.fft.rfftfreq(n, 0.25), rtol=1e-15)


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("kind", KINDS[:2])
def test_complex(mesh, layout, kind):
    generator = np.random.default_rng(5)
    x, y = values(generator, (6, 5), kind), values(generator, (6, 5), kind)
    a, b = wt.asarray(x, mesh=mesh, placements=layout), wt.asarray(y, mesh=mesh)
    for found, expected in ((a + b, x + y), (a - b, x - y), (a * b, x * y), (a / b, x / y), (-a, -x), (abs(a), abs(x)), (a.exp(), np.exp(x)),
                            (wt.real(a), x.real), (wt.imag(a), x.imag), (wt.conj(a), x.conj()), (wt.angle(a), np.angle(x)), (a @ b.T, x @ y.T),
                            (a.sum(), x.sum()), (a.sum(0), x.sum(0)), (a.T, x.T), (a == b, x == y), (wt.sqrt(a), np.sqrt(x)),
                            (wt.complex(wt.real(a), wt.imag(b)), x.real + 1j * y.imag)):
        np.testing.assert_allclose(found.numpy(), expected, rtol=1e-5 if kind == "complex64" else 1e-12, atol=1e-5 if kind == "complex64" else 1e-12)
    for number in (2, 0.5, 1 - 2j):
        for found, expected in ((a + number, x + number), (number * a, number * x), (number - a, number - x), (a / number, x / number)):
            np.testing.assert_allclose(found.numpy(), expected, rtol=1e-5 if kind == "complex64" else 1e-12, atol=1e-5 if kind == "complex64" else 1e-12)
            assert found.dtype is a.dtype
    assert wt.asarray(np.array(1 + 2j, dtype=kind), mesh=mesh).item() == 1 + 2j
    with pytest.raises(Exception, match="real"):
        a.astype("float32")
    with pytest.raises(Exception, match="c64|c128"):
        a < b


@pytest.mark.parametrize("type", [1, 2, 3, 4])
@pytest.mark.parametrize("norm", NORMS)
def test_cosines_and_sines(mesh, type, norm):
    """Beside their matrices in the plain norm; the others are multiples, or orthogonal. And back."""
    n = 6
    x = values(np.random.default_rng(type), (3, n), "float64")
    a = wt.asarray(x, mesh=mesh, placements="S0,S1")
    j, k = np.arange(n), np.arange(n)[:, None]
    for forward, inverse, wave, step in ((fft.dct, fft.idct, np.cos, 0), (fft.dst, fft.idst, np.sin, 1)):
        period = 2 * (n + (0 if type > 1 else 2 * step - 1))
        angles = ((j + step) * (k + step) * 2, (2 * j + 1) * (k + step), (j + step) * (2 * k + 1), (2 * j + 1) * (2 * k + 1) / 2)[type - 1]
        matrix = 2 * wave(np.pi * angles / period)
        ends = [0, n - 1] if type == 1 and not step else [(n - 1) * step] if type == 3 else []
        matrix[:, ends] /= 2
        found = forward(a, type, norm=norm)
        if norm == "ortho":
            plain = forward(wt.asarray(np.eye(n), mesh=mesh), type, norm=norm).numpy()
            np.testing.assert_allclose(plain @ plain.T, np.eye(n), atol=1e-14)
        else:
            np.testing.assert_allclose(found.numpy(), x @ matrix.T / (period if norm == "forward" else 1), atol=1e-13)
        np.testing.assert_allclose(inverse(found, type, norm=norm).numpy(), x, atol=1e-14)


def test_refusals(mesh):
    a = wt.asarray(np.ones(4), mesh=mesh)
    with pytest.raises(ValueError, match="norm"):
        fft.fft(a, norm="other")
    with pytest.raises(ValueError, match="n:"):
        fft.fft(a, 0)
    with pytest.raises(ValueError, match="s:"):
        fft.fftn(a, (0,))
