"""Memory of the program's in other forms than whole arrays."""

import numpy as np
import pytest

import weft_tensors as wt


def values(shape, seed=0, kind="float64"):
    generator = np.random.default_rng(seed)
    if kind == "int64":
        return generator.integers(-9, 10, shape)
    if kind == "bool":
        return generator.integers(0, 2, shape).astype(bool)
    return generator.standard_normal(shape).astype(kind)


def test_from_local_with_gaps(mesh):
    x = values((9, 4))
    arrays = []
    for rank in range(wt.first_rank(), wt.first_rank() + wt.local_ranks()):
        (row, _), (rows, _) = wt.local_shape(x.shape, mesh, "S0,R", rank)
        arrays.append(np.full((rows + 2, 6), -1.0))
        arrays[-1][1:-1, 1:-1] = x[row:row + rows]
    inside = [each[1:-1, 1:-1] for each in arrays]
    with pytest.raises(ValueError):
        wt.from_local(inside, mesh, "S0,R", shape=x.shape)
    a = wt.from_dlpack(inside, mesh=mesh, placements="S0,R", shape=x.shape, strided=True)
    np.testing.assert_array_equal((a + a).numpy(), 2 * x)
    a *= 3
    wt.wait()
    for rank, array in enumerate(arrays):
        (row, _), (rows, _) = wt.local_shape(x.shape, mesh, "S0,R", wt.first_rank() + rank)
        np.testing.assert_array_equal(array[1:-1, 1:-1], 3 * x[row:row + rows])
        array[1:-1, 1:-1] = -1
        assert (array == -1).all() # the margin is as it was
