"""unique, searchsorted, repeat_interleave and their relatives, beside NumPy, in every layout; lists of indices."""

import numpy as np
import pytest

import weft_tensors as wt

VECTORS = ["R,R", "S0,R", "R,S0", "S0,S0"]


def numbers(kind, *shape, seed=0):
    values = np.random.default_rng(seed).integers(0, 7, shape)
    return values.astype(kind) if kind != "bool" else values > 3


@pytest.mark.parametrize("layout", VECTORS)
@pytest.mark.parametrize("kind", ["float64", "float32", "int64", "int32", "uint8"])
def test_searchsorted(mesh, layout, kind):
    for n, m in ((9, 13), (1, 4), (5, 0), (0, 3)):
        x, v = np.sort(numbers(kind, n)), numbers(kind, m, seed=1)
        a, b = wt.asarray(x, mesh=mesh, placements=layout), wt.asarray(v, mesh=mesh, placements=layout)
        for side in ("left", "right"):
            found = wt.searchsorted(a, b, side=side)
            np.testing.assert_array_equal(found.numpy(), np.searchsorted(x, v, side), err_msg=f"{n} {m} {side}")
            assert found.dtype is wt.int64
        np.testing.assert_array_equal(wt.bucketize(b, a, right=True).numpy(), np.searchsorted(x, v, "right"))


def test_searchsorted_in_other_shapes(mesh):
    x, v = np.sort(numbers("float64", 8)), numbers("float64", 4, 6, seed=1) + 0.5
    a = wt.asarray(x, mesh=mesh, placements="S0,R")
    np.testing.assert_array_equal(wt.searchsorted(a, wt.asarray(v, mesh=mesh, placements="S0,S1")).numpy(), np.searchsorted(x, v))
    assert wt.searchsorted(a, 3.5).item() == np.searchsorted(x, 3.5) and wt.searchsorted(a, 3.5).shape == ()
    shuffled = x[::-1].copy()
    order = wt.argsort(wt.asarray(shuffled, mesh=mesh))
    np.testing.assert_array_equal(wt.searchsorted(wt.asarray(shuffled, mesh=mesh), wt.asarray(v[0], mesh=mesh), sorter=order).numpy(),
                                  np.searchsorted(x, v[0]))
    rows, values = np.sort(numbers("int64", 4, 5), -1), numbers("int64", 4, 3, seed=2)
    for layout in ("S0,R", "R,S1", "S0,S1"):
        found = wt.searchsorted(wt.asarray(rows, mesh=mesh, placements=layout), wt.asarray(values, mesh=mesh, placements=layout),
                                right=True)
        np.testing.assert_array_equal(found.numpy(), [np.searchsorted(row, value, "right") for row, value in zip(rows, values)])
    # Types are promoted; NaN is the largest.
    mixed = wt.searchsorted(wt.asarray(np.array([1, 2, 3])), wt.asarray(np.array([2.5, np.nan])))
    np.testing.assert_array_equal(mixed.numpy(), np.searchsorted([1.0, 2, 3], [2.5, np.nan]))
    for wrong in (lambda: wt.searchsorted(a, a, side="middle"), lambda: wt.searchsorted(wt.ones(2, 3), wt.ones(3, 2)),
                  lambda: wt.searchsorted(wt.ones(()), a)):
        with pytest.raises(ValueError):
            wrong()
    with pytest.raises(TypeError):
        wt.searchsorted([1, 2], a)


@pytest.mark.parametrize("layout", ["R,R", "S0,R", "R,S1", "S1,S0", "S0,S0"])
@pytest.mark.parametrize("kind", ["float64", "int64", "int32", "uint8", "bool"])
def test_unique(mesh, layout, kind):
    x = numbers(kind, 6, 5)
    a = wt.asarray(x, mesh=mesh, placements=layout)
    values, indices, inverse, counts = np.unique(x, return_index=True, return_inverse=True, return_counts=True)
    every = wt.unique_all(a)
    np.testing.assert_array_equal(every.values.numpy(), values)
    np.testing.assert_array_equal(every.indices.numpy(), indices)
    np.testing.assert_array_equal(every.inverse_indices.numpy(), inverse.reshape(x.shape))
    np.testing.assert_array_equal(every.counts.numpy(), counts)
    assert every.values.dtype is a.dtype and every.counts.dtype is wt.int64
    np.testing.assert_array_equal(wt.unique_values(a).numpy(), values)
    np.testing.assert_array_equal(wt.unique_counts(a).counts.numpy(), counts)
    np.testing.assert_array_equal(wt.unique_inverse(a).inverse_indices.numpy(), inverse.reshape(x.shape))
    found = wt.unique(a, return_inverse=True, return_counts=True)
    for one, other in zip(found, (values, inverse.reshape(x.shape), counts)):
        np.testing.assert_array_equal(one.numpy(), other)
    np.testing.assert_array_equal(a.unique().numpy(), values)


def test_unique_of_few_elements():
    assert wt.unique(wt.zeros(0)).shape == (0,) and wt.unique_counts(wt.zeros(0)).counts.shape == (0,)
    np.testing.assert_array_equal(wt.unique(wt.ones(())).numpy(), [1])
    np.testing.assert_array_equal(wt.unique_counts(wt.asarray(np.array([np.nan, 1.0, np.nan]))).counts.numpy(),
                                  [1, 1, 1]) # NaN differs from NaN
    x = np.array([1, 1, 2, 2, 2, 1, 3])
    values, inverse, counts = wt.unique_consecutive(wt.asarray(x, placements="S0"), return_inverse=True, return_counts=True)
    np.testing.assert_array_equal(values.numpy(), [1, 2, 1, 3])
    np.testing.assert_array_equal(inverse.numpy(), [0, 0, 1, 1, 1, 2, 3])
    np.testing.assert_array_equal(counts.numpy(), [2, 3, 1, 1])
    with pytest.raises(ValueError, match="dim"):
        wt.unique(wt.ones(2, 2), dim=0)


@pytest.mark.parametrize("layout", ["R,R", "S0,R", "R,S1", "S1,S0"])
def test_repeat_interleave(mesh, layout):
    x = np.arange(24.0).reshape(6, 4)
    a = wt.asarray(x, mesh=mesh, placements=layout, requires_grad=True)
    np.testing.assert_array_equal(wt.repeat_interleave(a, 3).numpy(), np.repeat(x, 3))
    for dim, length in ((0, 6), (1, 4), (-1, 4)):
        np.testing.assert_array_equal(wt.repeat_interleave(a, 2, dim).numpy(), np.repeat(x, 2, dim))
        np.testing.assert_array_equal(a.repeat_interleave(0, dim).numpy(), np.repeat(x, 0, dim))
        times = np.array([2, 0, 1, 3, 0, 1])[:length]
        given = wt.asarray(times, mesh=mesh)
        repeated = wt.repeat_interleave(a, given, dim)
        np.testing.assert_array_equal(repeated.numpy(), np.repeat(x, times, dim))
        np.testing.assert_array_equal(wt.repeat_interleave(a, given, dim, output_size=int(times.sum())).numpy(), np.repeat(x, times, dim))
        np.testing.assert_array_equal(wt.repeat(a, given, axis=dim).numpy(), np.repeat(x, times, dim))
        a.grad = None
        repeated.sum().backward()
        np.testing.assert_array_equal(a.grad.numpy(), np.broadcast_to(times.reshape((-1, 1) if dim == 0 else (1, -1)), x.shape))
    for wrong in (lambda: wt.repeat_interleave(a, -1), lambda: wt.repeat_interleave(a, wt.asarray([1, 2]), 0)):
        with pytest.raises(ValueError):
            wrong()


def test_isin_and_counts(mesh):
    x, among = numbers("int64", 5, 4), np.array([6, 1, 1])
    a = wt.asarray(x, mesh=mesh, placements="S0,S1")
    np.testing.assert_array_equal(wt.isin(a, wt.asarray(among, mesh=mesh, placements="S0,R")).numpy(), np.isin(x, among))
    np.testing.assert_array_equal(wt.isin(a, wt.asarray(among, mesh=mesh), invert=True).numpy(), np.isin(x, among, invert=True))
    assert not wt.isin(a, wt.zeros(0, dtype="int64", mesh=mesh)).any().item()
    flat = wt.asarray(x.ravel(), mesh=mesh, placements="S0,R")
    np.testing.assert_array_equal(wt.bincount(flat).numpy(), np.bincount(x.ravel()))
    np.testing.assert_array_equal(wt.bincount(flat, minlength=12).numpy(), np.bincount(x.ravel(), minlength=12))
    np.testing.assert_array_equal(wt.bincount(flat, 9).numpy(), np.bincount(x.ravel(), minlength=9))
    np.testing.assert_array_equal(wt.bincount(flat, flat * 2).numpy(), np.bincount(x.ravel(), x.ravel() * 2))
    for limits in ((0, 0), (1, 5)):
        expected = np.histogram(x, 4, limits if limits[0] < limits[1] else None)[0]
        np.testing.assert_array_equal(wt.histc(a.double(), 4, *limits).numpy(), expected)


def test_multinomial(mesh):
    p = wt.asarray(np.array([[0.0, 1.0, 3.0, 0.0], [0.0, 0.0, 0.0, 2.0]]), mesh=mesh)
    drawn = wt.multinomial(p, 4000, replacement=True).numpy()
    assert drawn.shape == (2, 4000) and set(drawn[0]) == {1, 2} and set(drawn[1]) == {3} and 2800 < (drawn[0] == 2).sum() < 3200
    assert sorted(wt.multinomial(wt.asarray([1.0, 2.0, 0.0, 5.0]), 3).numpy()) == [0, 1, 3]
    with pytest.raises(ValueError, match="without replacement"):
        wt.multinomial(wt.ones(3), 4)


class Rows:
    """Some rows of a dense matrix, as scipy.sparse.csr_array has them."""

    def __init__(self, dense, kind):
        self.indptr = np.concatenate([[0], np.cumsum((dense != 0).sum(axis=1))]).astype(kind)
        self.indices, self.data = np.nonzero(dense)[1].astype(kind), dense[dense != 0]


@pytest.mark.parametrize("kind", [np.int32, np.int64])
def test_sparse_matrix(kind):
    rows, columns, ranks = 11, 7, wt.world_size()
    dense = np.where(np.arange(rows * columns) % 3 == 0, np.arange(1.0, rows * columns + 1), 0).reshape(rows, columns)
    height = -(-rows // ranks)
    own = [Rows(dense[rank * height:(rank + 1) * height], kind) for rank in range(wt.first_rank(), wt.first_rank() + wt.local_ranks())]
    a = wt.SparseMatrix(own, (rows, columns))
    x, y = np.arange(7.0), np.arange(22.0).reshape(11, 2)
    assert a.nnz == np.count_nonzero(dense) and a.T.shape == (columns, rows)
    assert np.array_equal((a @ wt.tensor(x)).numpy(), dense @ x)
    assert np.array_equal((a.T @ wt.tensor(y, placements="S0")).numpy(), dense.T @ y)
    assert np.array_equal(a.to_dense().numpy(), dense) and np.array_equal(a.T.to_dense().numpy(), dense.T)
    values = (a.values * 1).detach()
    values.requires_grad = True
    (a.with_values(values) @ wt.tensor(x)).sum().backward()
    assert np.array_equal(values.grad.numpy(), x[np.nonzero(dense)[1]])
    with pytest.raises(ValueError, match="rows, and indptr ends with" if wt.local_ranks() > 0 else "arguments"):
        wt.SparseMatrix(own, (rows + 2 * ranks, columns))
    with pytest.raises(ValueError, match="has column 7, expected 0 to 6" if kind == np.int64 else "has column"):
        for one in own:
            one.indices = one.indices + kind(7)
        wt.SparseMatrix(own, (rows, columns))


def test_index_list():
    size, ranks = 11, wt.world_size()
    named = [np.array([10, rank, 10, 2 * rank + 1]) for rank in range(ranks)]
    own = named[wt.first_rank():wt.first_rank() + wt.local_ranks()]
    indices = wt.IndexList(own, size, placements="S0")
    x = np.arange(2.0 * size).reshape(size, 2)
    rows = indices.gather(wt.tensor(x, placements="S1"))
    every = np.concatenate(named)
    assert len(indices) == len(every)
    assert np.array_equal(rows.numpy(), x[every])
    sums = np.zeros((size, 2))
    np.add.at(sums, every, x[every])
    assert np.array_equal(indices.scatter_add(rows).numpy(), sums)
    with pytest.raises(ValueError, match="expected 0 to 10"):
        wt.IndexList([[11]] * wt.local_ranks(), size)
    with pytest.raises(ValueError, match="has 4 rows"):
        indices.gather(wt.ones(4))
