"""Integers of 8 to 64 bits beside NumPy."""

import numpy as np
import pytest

import weft_tensors as wt


@pytest.mark.parametrize("kind", ["int8", "int16", "uint16", "uint32", "uint64"])
def test_integers(kind):
    limits, random = np.iinfo(kind), np.random.default_rng(5)
    x, y = (random.integers(limits.min, limits.max, 20, dtype=kind, endpoint=True) for _ in range(2))
    y[y == 0] = 3
    a, b = wt.asarray(x), wt.asarray(y)
    assert a.dtype is getattr(wt, kind) and a.dtype == np.dtype(kind)
    with np.errstate(over="ignore"):
        for call in (lambda p, q: p + q, lambda p, q: p - q, lambda p, q: p * q, lambda p, q: p & q, lambda p, q: p ^ q, lambda p, q: p < q,
                     lambda p, q: p == q, lambda p, q: p // q, lambda p, q: p % q):
            result = call(a, b).numpy()
            np.testing.assert_array_equal(result, call(x, y))
            assert result.dtype == call(x, y).dtype
    assert a.sum().dtype is wt.int64 and a.sum().item() == int(x.astype("int64").sum())
    assert a.max().item() == int(x.max()) and wt.full((), limits.max, dtype=kind).item() == limits.max
    np.testing.assert_array_equal(wt.sort(a).numpy(), np.sort(x))
    assert a.max().numpy() == x.max()
    np.testing.assert_array_equal((a > limits.max // 2).numpy(), x > limits.max // 2)
    np.testing.assert_array_equal(wt.full((2,), limits.max, dtype=kind).numpy(), np.full(2, limits.max, kind))
    with pytest.raises(OverflowError):
        a + (limits.max + 1)
    np.testing.assert_array_equal((a - limits.min).numpy(), x - np.array(limits.min, kind))
    with pytest.raises(OverflowError):
        a - (limits.max + 1)
    if kind.startswith("u"):
        with pytest.raises(ValueError, match="no common type"):
            a + wt.asarray(x.astype("int64"))
