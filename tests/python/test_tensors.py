"""Tensors beside NumPy: operators, functions, indices, arrays in and out, in many layouts."""

import itertools
import math
import os
import tempfile

import numpy as np
import pytest
from conftest import LAYOUTS

import weft_tensors as wt
from weft_tensors import Shard


def values(shape, seed=0, kind="float64"):
    generator = np.random.default_rng(seed)
    if kind == "int64":
        return generator.integers(-9, 10, shape)
    if kind == "bool":
        return generator.integers(0, 2, shape).astype(bool)
    return generator.standard_normal(shape).astype(kind)


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("kind", ["float64", "float32", "int64"])
def test_operators(mesh, layout, kind):
    x, y = values((7, 5), 1, kind), values((7, 5), 2, kind)
    y[y == 0] = 3
    a, b = wt.asarray(x, mesh=mesh, placements=layout), wt.asarray(y, mesh=mesh)
    import operator as op
    for function in (op.add, op.sub, op.mul, op.truediv, op.floordiv, op.mod, op.lt, op.le, op.gt, op.ge, op.eq, op.ne):
        np.testing.assert_allclose(function(a, b).numpy(), function(x, y), rtol=1e-6, err_msg=str(function))
        for number in (3, 2.5) if kind != "int64" else (3, -2):
            np.testing.assert_allclose(function(a, number).numpy(), function(x, number), rtol=1e-6, atol=1e-12, err_msg=f"{function} {number}")
            if np.all(x != 0) or function not in (op.truediv, op.floordiv, op.mod):
                np.testing.assert_allclose(function(number, a).numpy(), function(number, x), rtol=1e-6, atol=1e-12,
                                           err_msg=f"{number} {function}")
    np.testing.assert_allclose((a @ b.T).numpy(), x @ y.T, rtol=1e-5, atol=1e-5)
    np.testing.assert_array_equal((-a).numpy(), -x)
    np.testing.assert_array_equal(abs(a).numpy(), abs(x))
    if kind == "int64":
        for function in (op.and_, op.or_, op.xor):
            np.testing.assert_array_equal(function(a, b).numpy(), function(x, y))
        np.testing.assert_array_equal((~a).numpy(), ~x)
        assert (a + 1.5).dtype is wt.float32 and (a / 2).dtype is wt.float32


def test_truth_values(mesh):
    x, y = values((4, 6), 1, "bool"), values((4, 6), 2, "bool")
    a, b = wt.asarray(x, mesh=mesh, placements="S0,R"), wt.asarray(y, mesh=mesh)
    for pair in ((a & b, x & y), (a | b, x | y), (a ^ b, x ^ y), (~a, ~x), (a == b, x == y)):
        np.testing.assert_array_equal(pair[0].numpy(), pair[1])
        assert pair[0].dtype is wt.bool


def test_in_place(mesh):
    for layout in LAYOUTS:
        x = values((6, 4))
        a, c = wt.asarray(x, mesh=mesh, placements=layout), x.copy()
        same = a
        a += 2; a *= 3; a -= wt.ones_like(a); a /= 2; a **= 2; a //= 3; a %= 5 # noqa: E702
        c += 2; c *= 3; c -= 1; c /= 2; c **= 2; c //= 3; c %= 5 # noqa: E702
        assert a is same and str(a.placements) == str(wt.asarray(x, mesh=mesh, placements=layout).placements)
        np.testing.assert_allclose(a.numpy(), c)


INDICES = [0, -1, slice(1, 3), slice(None, None, 2), slice(None, None, -1), slice(5, 1, -2), slice(3, 3), (1, 2), (slice(1, 5), slice(0, 4, 3)),
           (Ellipsis, 1), (None, 2), (slice(2, 4), None, 1), Ellipsis, (Ellipsis, None), (slice(None), -2), (slice(-3, None), slice(None, -1)),
           (0, slice(None, None, -2)), (slice(-100, 100), 0)]


@pytest.mark.parametrize("layout", LAYOUTS)
def test_indices(mesh, layout):
    x = values((7, 5))
    a = wt.asarray(x, mesh=mesh, placements=layout)
    for index in INDICES:
        np.testing.assert_array_equal(a[index].numpy(), x[index], err_msg=str(index))
        c, t = x.copy(), wt.asarray(x, mesh=mesh, placements=layout)
        c[index] = 3
        t[index] = 3
        np.testing.assert_array_equal(t.numpy(), c, err_msg=f"{index} = 3")
        c[index] += x[index] * 2
        t[index] += a[index] * 2
        np.testing.assert_array_equal(t.numpy(), c, err_msg=f"{index} +=")
        assert t.placements == a.placements
    row = values((5,), 3)
    c, t = x.copy(), wt.asarray(x, mesh=mesh, placements=layout)
    c[2:6:3] = row
    t[2:6:3] = wt.asarray(row, mesh=mesh)
    np.testing.assert_array_equal(t.numpy(), c)


@pytest.mark.parametrize("layout", LAYOUTS)
def test_indices_by_tensors(mesh, layout):
    x = values((7, 5))
    a = wt.asarray(x, mesh=mesh, placements=layout)
    for index in ([0, 3, 3, -1], np.array([[1, 2], [-7, 6]]), (slice(None), [4, 0]), (Ellipsis, np.array([2]))):
        np.testing.assert_array_equal(a[index].numpy(), x[index], err_msg=str(index))
    np.testing.assert_array_equal(a[a > 0].numpy(), x[x > 0])
    rows = x[:, 0] > 0
    np.testing.assert_array_equal(a[wt.asarray(rows, mesh=mesh)].numpy(), x[rows])
    np.testing.assert_array_equal(a[wt.tensor(2, mesh=mesh)].numpy(), x[2])
    c, t = x.copy(), wt.asarray(x, mesh=mesh, placements=layout)
    c[c < 0], t[t < 0] = 0, 0
    c[[1, 4]], t[[1, 4]] = 9, 9
    c[[0, 2], [3, 4]], t[[0, 2], [3, 4]] = 5, 5
    np.testing.assert_array_equal(t.numpy(), c)
    mask = c > 0.5
    c[mask] *= 2
    t[mask] *= 2
    np.testing.assert_array_equal(t.numpy(), c)
    c[rows] = np.arange(5.0)
    t[rows] = wt.arange(5.0, mesh=mesh)
    np.testing.assert_array_equal(t.numpy(), c)
    for index in ((slice(0, 6, 2), [0, 2]), (3, [1, -1]), (slice(None), np.array([[0, 1], [2, 3]]))):
        c[index] += 1
        t[index] += 1
        np.testing.assert_array_equal(t.numpy(), c, err_msg=str(index))


def test_wrong_indices(mesh):
    a = wt.zeros(3, 4, mesh=mesh)
    for index in (3, -4, (0, 4), (0, 0, 0), "x", (Ellipsis, Ellipsis), 1.5, (slice(None), 1.0), wt.zeros(2, mesh=mesh), wt.zeros(2, dtype=wt.bool, mesh=mesh)):
        with pytest.raises(IndexError):
            a[index]
    with pytest.raises((ValueError, wt.WeftError)):
        a[0] = wt.zeros(3, mesh=mesh)
    a[[5]] # the number is looked at later: by a task
    with pytest.raises(wt.WeftError):
        wt.wait()
    wt.wait()


@pytest.mark.parametrize("layout", LAYOUTS)
def test_reductions(mesh, layout):
    x = values((6, 7))
    a = wt.asarray(x, mesh=mesh, placements=layout)
    for name in ("sum", "prod", "mean", "max", "min", "std", "var"):
        for axis in (None, 0, 1, -1, (0, 1)):
            for keepdims in (False, True):
                expected = getattr(np, name)(x, axis=axis, keepdims=keepdims)
                np.testing.assert_allclose(getattr(wt, name)(a, axis=axis, keepdims=keepdims).numpy(), expected, rtol=1e-12, err_msg=f"{name} {axis}")
    np.testing.assert_allclose(a.sum(dim=1, keepdim=True).numpy(), x.sum(1, keepdims=True))
    np.testing.assert_allclose(a.std(0, correction=1).numpy(), x.std(0, ddof=1))
    for found, plain in ((a.max(dim=1), x.max(1)), (a.min(dim=1), x.min(1)), (a.sort(dim=1), np.sort(x, 1)), (wt.max(a, dim=1), x.max(1))):
        np.testing.assert_array_equal(found[0].numpy(), plain) # PyTorch's: values and indices
        np.testing.assert_array_equal(np.take_along_axis(x, found[1].numpy().reshape(6, -1), 1).reshape(plain.shape), plain)
    np.testing.assert_array_equal(wt.sort(a, 0).numpy(), np.sort(x, 0))
    np.testing.assert_allclose((a > 0).mean().item(), (x > 0).mean(), rtol=1e-6)
    np.testing.assert_allclose(a.sum(axis=()).numpy(), x)
    np.testing.assert_array_equal(a.argmax(1).numpy(), x.argmax(1))
    np.testing.assert_array_equal(wt.argmin(a).numpy(), x.argmin())
    np.testing.assert_array_equal((a > 0).any(0).numpy(), (x > 0).any(0))
    np.testing.assert_allclose(wt.cumulative_sum(a, axis=1).numpy(), x.cumsum(1))
    np.testing.assert_allclose(wt.logsumexp(a, 1).numpy(), np.log(np.exp(x).sum(1)))
    np.testing.assert_allclose(wt.norm(a).numpy(), np.linalg.norm(x))


def test_shapes(mesh):
    x = values((2, 3, 4))
    a = wt.asarray(x, mesh=mesh, placements="S1,S2")
    pairs = [(a.reshape(6, 4), x.reshape(6, 4)), (a.reshape((4, -1)), x.reshape(4, -1)), (a.permute(2, 0, 1), x.transpose(2, 0, 1)),
             (wt.permute_dims(a, (1, 0, 2)), x.transpose(1, 0, 2)), (a.mT, x.swapaxes(1, 2)), (a.flatten(), x.ravel()),
             (wt.concat([a, a], axis=1), np.concatenate([x, x], 1)), (wt.stack([a, a], axis=-1), np.stack([x, x], -1)),
             (wt.flip(a, axis=1), np.flip(x, 1)), (wt.flip(a), np.flip(x)), (wt.roll(a, 2, axis=2), np.roll(x, 2, 2)), (wt.roll(a, 5), np.roll(x, 5)),
             (wt.expand_dims(a, axis=1), x[:, None]), (wt.broadcast_to(a[:, :1], (2, 3, 4)), np.broadcast_to(x[:, :1], (2, 3, 4))),
             (wt.tile(a, (2, 1, 3)), np.tile(x, (2, 1, 3))), (wt.moveaxis(a, 0, 2), np.moveaxis(x, 0, 2)), (wt.tril(a), np.tril(x)),
             (wt.triu(a, k=1), np.triu(x, 1)), (wt.squeeze(a[:1]), x[0]), (wt.unflatten(a, 2, (2, 2)), x.reshape(2, 3, 2, 2)),
             (wt.diff(a, axis=2), np.diff(x)), (wt.tensordot(a, a, axes=([0, 1], [0, 1])), np.tensordot(x, x, ([0, 1], [0, 1])))]
    for number, (result, expected) in enumerate(pairs):
        np.testing.assert_allclose(result.numpy(), expected, err_msg=str(number))
    for part, expected in zip(wt.split(a, 3, 2), (x[..., :3], x[..., 3:])):
        np.testing.assert_array_equal(part.numpy(), expected)
    assert [part.shape for part in wt.chunk(a, 2, 1)] == [(2, 2, 4), (2, 1, 4)]
    assert [each.shape for each in wt.unstack(a, axis=1)] == [(2, 4)] * 3


def test_elementwise_functions(mesh):
    x = np.abs(values((5, 4))) + 0.5
    a = wt.asarray(x, mesh=mesh, placements="R,S0")
    for name in ("exp", "log", "log1p", "expm1", "sqrt", "sin", "cos", "tan", "sinh", "cosh", "tanh", "floor", "ceil", "trunc", "square", "log2", "log10", "sign",
                 "isnan", "isfinite", "reciprocal", "abs"):
        np.testing.assert_allclose(getattr(wt, name)(a).numpy(), getattr(np, name)(x), rtol=1e-12, err_msg=name)
    np.testing.assert_allclose(wt.clip(a, 0.7, 1.1).numpy(), x.clip(0.7, 1.1))
    np.testing.assert_allclose(wt.where(a > 1, a, 0).numpy(), np.where(x > 1, x, 0))
    np.testing.assert_allclose(wt.maximum(a, 1).numpy(), np.maximum(x, 1))
    np.testing.assert_allclose(wt.functional.softmax(a, dim=1).numpy(), np.exp(x) / np.exp(x).sum(1, keepdims=True))
    np.testing.assert_allclose(wt.einsum("ij,kj->ik", [a, a]).numpy(), x @ x.T)


def test_factories(mesh):
    assert wt.zeros(2, 3).shape == wt.zeros((2, 3)).shape == wt.zeros([2, 3]).shape == (2, 3)
    assert wt.zeros(()).shape == wt.zeros().shape == ()
    np.testing.assert_array_equal(wt.full((2, 2), 7).numpy(), np.full((2, 2), 7))
    assert wt.full(3, 7).dtype is wt.int64 and wt.full(3, 7.0).dtype is wt.float32 and wt.full(3, True).dtype is wt.bool
    for arguments in ((5,), (1, 7), (1, 7, 2), (0, 1, 0.25), (5, 1), (9, 2, -3)):
        np.testing.assert_allclose(wt.arange(*arguments).numpy(), np.arange(*arguments))
    np.testing.assert_allclose(wt.linspace(0, 1, 5, dtype="float64", mesh=mesh, placements="S0,R").numpy(), np.linspace(0, 1, 5))
    np.testing.assert_array_equal(wt.eye(3, 4, k=1).numpy(), np.eye(3, 4, k=1))
    first = wt.randn(50, 40, mesh=mesh, placements="S0,S1")
    assert abs(first.mean().item()) < 0.1 and abs(first.std().item() - 1) < 0.1
    wt.manual_seed(5)
    one = wt.rand(9, 8, mesh=mesh, placements="S0,R").numpy()
    wt.manual_seed(5)
    np.testing.assert_array_equal(one, wt.rand(9, 8, mesh=mesh, placements="R,S1").numpy())
    assert set(wt.randint(2, 5, (100,)).numpy()) == {2, 3, 4}
    assert wt.zeros_like(first).placements == first.placements


def test_types():
    for dtype in wt.DTYPES:
        a = wt.zeros(3, dtype=dtype)
        wide = wt.complex128 if dtype.name.startswith("complex") else wt.float64
        assert a.dtype is dtype and a.astype(wide.name).dtype is wide and a.nbytes == 3 * dtype.itemsize
    assert wt.asarray(np.float32(1)).dtype is wt.float32 and wt.asarray([1, 2]).dtype is wt.int64 and wt.asarray([1.0]).dtype is wt.float32
    assert wt.asarray([1.0], dtype="bfloat16").dtype is wt.bfloat16
    np.testing.assert_array_equal(wt.asarray([1.5, -2.25], dtype=wt.bfloat16).numpy(), np.float32([1.5, -2.25]))
    assert wt.asarray(2**62 + 1).item() == 2**62 + 1
    for name in ("float8_e4m3fn", "float8_e5m2"): # for storage
        stored = wt.asarray([1.5, -2.25], dtype=name)
        assert stored.dtype.name == name and stored.dtype.itemsize == 1
        np.testing.assert_array_equal(stored.numpy(), np.float32([1.5, -2.25 if name == "float8_e4m3fn" else -2.0]))
        with pytest.raises(ValueError, match="a is f8_e"):
            stored + stored
    assert wt.result_type(wt.int64, wt.float32) is wt.float32 and wt.isdtype(wt.uint8, "unsigned integer")
    for wrong in ("complex256", "int128", np.longdouble, object, "nothing"):
        with pytest.raises(TypeError):
            wt.zeros(2, dtype=wrong)


def test_redistribution(mesh):
    x = values((6, 5))
    for first, second in itertools.product(LAYOUTS, LAYOUTS):
        a = wt.asarray(x, mesh=mesh, placements=first).redistribute(second)
        np.testing.assert_array_equal(a.numpy(), x)
        assert a.redistribute(first).placements == wt.asarray(x, mesh=mesh, placements=first).placements
    for given in ([wt.Shard(0), wt.Replicate()], "S0,R", ["S0", wt.Replicate()], (wt.Shard(-2), "R")):
        assert wt.zeros(4, 4, mesh=mesh, placements=given).placements == (wt.Shard(0), wt.Replicate())
    for wrong in ([wt.Shard(0)], "S0", "S0,X", [1, 2], "S7,R"):
        with pytest.raises((ValueError, TypeError)):
            wt.zeros(4, 4, mesh=mesh, placements=wrong)
    a = wt.zeros(4, 4, mesh=mesh, placements="S0,R")
    assert a.full_tensor().placements == (wt.Replicate(), wt.Replicate())
    moved = a.redistribute("S0", wt.Mesh(wt.world_size()))
    assert moved.mesh.ndim == 1 and moved.shape == (4, 4)
    partial = wt.asarray(x, mesh=mesh, placements="S1,R").sum(1)
    assert partial.placements[0].is_partial() or wt.world_size() < 4
    np.testing.assert_allclose(partial.redistribute().numpy(), x.sum(1))


def test_meshes():
    ranks = wt.world_size()
    mesh = wt.Mesh((1, ranks), ("dp", "tp"))
    assert mesh.names == ("dp", "tp") and mesh.shape == (1, ranks) and mesh.ranks == list(range(ranks)) and mesh.size() == ranks
    assert mesh["tp"].shape == (ranks,) and mesh.flatten().shape == (ranks,) and mesh.coordinate(ranks - 1) == (0, ranks - 1)
    assert wt.Mesh(1).coordinate(ranks - 1) is None or ranks == 1
    assert wt.Mesh(ranks, ranks=list(range(ranks))[::-1]).ranks == list(range(ranks))[::-1]
    with mesh:
        assert wt.current_mesh() == mesh and wt.zeros(4, placements="R,S0").mesh == mesh
    assert wt.current_mesh().ndim == 1
    for wrong in (lambda: wt.Mesh(ranks + 1), lambda: wt.Mesh((1, ranks), ("a",)), lambda: mesh["x"], lambda: wt.Mesh(1, ranks=[0, 0]),
                  lambda: mesh.coordinate(ranks)):
        with pytest.raises(ValueError):
            wrong()


def test_local_shards(mesh):
    x = values((7, 5))
    a = wt.asarray(x, mesh=mesh, placements="S0,S1")
    for rank in range(wt.local_ranks()):
        (row, column), (rows, columns) = a.local_box(rank)
        np.testing.assert_array_equal(a.local(rank), x[row:row + rows, column:column + columns])
        shard = a.local(rank)
        assert not shard.flags.writeable
    before = a.local(0).copy()
    kept = a.local(0)
    a += 1
    np.testing.assert_array_equal(kept, before) # later changes do not show
    with a.access(0, "r+") as shard:
        shard += 10
    assert np.isclose(a.local(0), before + 11).all()
    with a.access(0, "r") as shard:
        with pytest.raises(ValueError):
            shard[...] = 0
    with pytest.raises(ValueError):
        a.access(0, "x")


def test_from_local(mesh):
    x = values((8, 3), kind="float32")
    shards = []
    for rank in range(wt.first_rank(), wt.first_rank() + wt.local_ranks()):
        (row, _), (rows, _) = wt.local_shape(x.shape, mesh, "S0,R", rank)
        shards.append(np.ascontiguousarray(x[row:row + rows]))
    for options in ({}, {"shape": x.shape}, {"copy": True}, {"shape": x.shape, "check_ranks": True}):
        a = wt.from_local(shards, mesh, "S0,R", **options)
        assert a.shape == x.shape and a.dtype is wt.float32
        np.testing.assert_array_equal(a.numpy(), x)
    a = wt.from_local([each.copy() for each in shards], mesh, "S0,R")
    a *= 2
    np.testing.assert_array_equal(a.numpy(), 2 * x)
    used = [each.copy() for each in shards]
    a = wt.from_local(used, mesh, "S0,R")
    a += 1
    wt.wait()
    (row, _), (rows, _) = a.local_box(0)
    np.testing.assert_array_equal(used[0], x[row:row + rows] + 1) # in place
    del a
    wt.wait()
    with pytest.raises(ValueError):
        wt.from_local(shards + shards[:1], mesh, "S0,R")
    with pytest.raises((ValueError, TypeError)):
        wt.from_local(shards, mesh, "S0,R", shape=(9, 3), check_ranks=True)
    with pytest.raises((TypeError, BufferError)):
        wt.from_local([np.zeros(3, np.longdouble)] * wt.local_ranks())


def test_exchange_with_numpy():
    x = values((4, 5))
    a = wt.asarray(x)
    np.testing.assert_array_equal(np.from_dlpack(a), x)
    if wt.local_ranks() == 1:
        np.testing.assert_array_equal(wt.from_dlpack(x.copy()).numpy(), x)
    if wt.num_processes() == 1:
        np.testing.assert_array_equal(np.asarray(a), x)
        assert bool(wt.asarray(True)) and float(wt.asarray(2.5)) == 2.5 and int(wt.asarray(3)) == 3 and [1, 2, 3][wt.asarray(1)] == 2
        assert [row.shape for row in a] == [(5,)] * 4 and x[0, 0] in a
        with pytest.raises(ValueError):
            bool(a)
    else:
        for wrong in (bool, float, int, np.asarray, list, lambda t: 1 in t):
            with pytest.raises(TypeError, match="all of them"):
                wrong(wt.zeros(1))


def test_boxes():
    x = values((6, 4))
    mine = [((row, 0), x[row:row + 1]) for row in range(6) if row % wt.num_processes() == wt.process_index()]
    a = wt.from_boxes(mine, x.shape, placements="S1")
    np.testing.assert_array_equal(a.numpy(), x)
    target = np.zeros((2, 3))
    wt.to_boxes(a, [((1, 1), target)])
    np.testing.assert_array_equal(target, x[1:3, 1:4])


def test_comparisons(mesh):
    a = wt.asarray([1.0, 2.0], mesh=mesh, placements="S0,R")
    assert wt.array_equal(a, a + 0) and not wt.array_equal(a, a + 1) and wt.allclose(a, a + 1e-9) and not wt.allclose(a, 1.0)


def test_formats():
    if wt.num_processes() == 1:
        assert f"{wt.asarray(2.5):.2f}" == "2.50"
    else:
        with pytest.raises(TypeError, match="all of them"):
            f"{wt.asarray(2.5):.2f}"
    assert f"{wt.zeros(2)}" == str(wt.zeros(2))


def test_text(mesh):
    a = wt.randn(4, 6, mesh=mesh, placements="S0,R").set_name("w")
    assert repr(a) == str(a) and "w: f32[4, 6]" in repr(a)
    if wt.process_index() == 0: # of one process: nothing waits for the others
        assert "[S0,R]" in repr(a) and ("|" in a.sharding()) and "<svg" in a._repr_html_()
    assert "f32[4, 6]" in a.text()
    assert math.prod(a.shape) == a.size == a.numel() and len(a) == 4
    assert "relations" in str(type(a).__doc__) or "tensor" in str(type(a).__doc__)


def test_errors_name_the_argument():
    with pytest.raises(wt.WeftValueError, match="dimension 0") as caught:
        wt.zeros(3) + wt.zeros(4)
    assert caught.value.status.name == "ERR_SHAPE" and isinstance(caught.value, ValueError)
    for wrong in (lambda: wt.matmul(wt.zeros(3), 4), lambda: wt.zeros(3) + "x", lambda: wt.sum(3), lambda: wt.zeros(2.5), lambda: wt.cat(wt.zeros(3))):
        with pytest.raises((TypeError, ValueError)):
            wrong()
    a, array = wt.zeros(3), np.zeros(3)
    for wrong in (lambda: a + array, lambda: array + a, lambda: a == array, lambda: a != [0, 0, 0], lambda: a * [1, 2, 3], lambda: wt.exp(1.0), lambda: wt.sqrt(4),
                  lambda: wt.abs("x"), lambda: wt.functional.relu(array), lambda: a.copy_(array), lambda: wt.layer_norm(a, 3)):
        with pytest.raises(TypeError, match="Tensor"):
            wrong()
    assert (a == None) is False and (a != None) is True # noqa: E711
    assert a.add_(1).mul_(2).sub_(0.5).div_(2).numpy()[0] == 0.75
    with pytest.raises(wt.WeftError) as caught:
        wt.zeros(3).redistribute("P")
    assert "weft_" not in str(caught.value) and "NULL" not in str(caught.value)
    with pytest.raises(ValueError, match="linear"):
        wt.quantile(wt.zeros(3), 0.5, 0, way="x")
    wt.wait()


def test_boxes_of_other_dimensions(mesh):
    with pytest.raises(ValueError, match="dimensions"):
        wt.from_boxes([((0,), np.ones((2, 2)))], [2, 2])
    with pytest.raises(ValueError, match="dimensions"):
        wt.to_boxes(wt.ones(2, 2, dtype="float64"), [((0, 0), np.zeros(4))])
    assert wt.arange(0.0, 3e-200, 1e-200, dtype="float64").shape == (3,)
    assert wt.arange(np.uint8(3), np.uint8(1), -1).numpy().tolist() == [3, 2]
    np.testing.assert_array_equal(wt.full((2,), np.complex64(1 + 2j), dtype="complex128").numpy(), [1 + 2j] * 2)


def test_local_map(mesh):
    x = values((8, 4))
    a = wt.asarray(x, mesh=mesh, placements="S0,R")
    doubled, total = wt.local_map(lambda part: (2 * part, part.sum(0)), [a], [(x.shape, "float64", "S0,R"), ((4,), "float64", "P,R")])
    np.testing.assert_allclose(doubled.numpy(), 2 * x)
    np.testing.assert_allclose(total.numpy(), x.sum(0))
    rows = []
    scaled = wt.local_map(lambda part, all_rows: rows.append(len(part)) or part * all_rows.sum(), [a, wt.asarray(x, mesh=mesh)],
                          [(x.shape, "float64", "S0,R")], by_rows=True, whole_inputs=[1])
    np.testing.assert_allclose(scaled.numpy(), x * x.sum())
    assert sum(rows) >= 1
    with pytest.raises(wt.WeftError, match=r"options.whole_inputs"):
        wt.local_map(lambda part: part, [wt.asarray(values((5, 4)), mesh=mesh)], [(x.shape, "float64", "S0,R")], by_rows=True)
    wt.local_map(lambda part: part[:, :1], [a], [(x.shape, "float64", "S0,R")])
    with pytest.raises(wt.WeftError, match="its rank's part has"):
        wt.wait()


def test_checkpoints(mesh, tmp_path_factory):
    path = os.path.join(tempfile.gettempdir(), "weft-python.safetensors")  # the row's own folder, and one for all of its processes
    x = values((5, 4))
    wt.save_checkpoint(path, {"a": wt.asarray(x, mesh=mesh, placements="S0,S1"), "b": wt.arange(3)}, metadata={"step": "7"})
    assert wt.checkpoint_contents(path) == {"a": ("F64", (5, 4)), "b": ("I64", (3,))}
    state = {"a": wt.zeros(5, 4, dtype="float64", mesh=mesh, placements="R,S0")}
    wt.load_checkpoint(path, state)
    np.testing.assert_array_equal(state["a"].numpy(), x)
    saving = wt.save_checkpoint_async(path, state)
    state["a"] += 1
    saving.wait()
    assert saving is not None
    wt.load_checkpoint(path, state)
    np.testing.assert_array_equal(state["a"].numpy(), x)
    with pytest.raises(OSError):
        wt.load_checkpoint(path + ".none", state)
    # Two files with an index, then HDF5 with gzip.
    index = path + ".index.json"
    wt.save_checkpoint(index, {"a": state["a"], "b": wt.arange(3)}, max_file_bytes=160)
    assert set(wt.checkpoint_contents(index)) == {"a", "b"}
    parts = [path.replace(".safetensors", f"-0000{i}-of-00002.safetensors") for i in (1, 2)]
    assert [list(wt.checkpoint_contents(part)) for part in parts] == [["a"], ["b"]]
    state["a"] += 1
    wt.load_checkpoint(index, state)
    np.testing.assert_array_equal(state["a"].numpy(), x)
    try:
        wt.save_hdf5(path, state, compression=6, chunk_bytes=64)
    except wt.WeftError as error:
        assert "without HDF5" in str(error)
    else:
        state["a"] += 1
        wt.load_hdf5(path, state)
        np.testing.assert_array_equal(state["a"].numpy(), x)
    wt.wait()
    if wt.process_index() == 0:
        for file in (path, index, *parts):
            os.unlink(file)


def test_several_tensors_of_indices(mesh):
    x = values((4, 5, 6))
    for layout in LAYOUTS:
        a = wt.asarray(x, mesh=mesh, placements=layout)
        for index in (([0, 2], [1, -2]), (slice(1, 3), [0, 4], [5, -6]), ([[0], [3]], [1, 2]), ([1], [2], [3]), ([0, 1], [2, 3], slice(None, None, 2)), ([0, 3], 2)):
            np.testing.assert_array_equal(a[index].numpy(), x[index], err_msg=str(index))
    a[[0], [5]]
    with pytest.raises(wt.WeftError):
        wt.wait()
    with pytest.raises(IndexError):
        a[[0.5, 1.5]]


def test_assignments_of_broadcast_shapes(mesh):
    for shape, index, value in (((2, 2), (Ellipsis, None), (2, 1)), ((3, 1), (slice(None), 0), (3,)), ((3,), slice(None), (1, 1)), ((3,), slice(0, 2), (1, 2)),
                                ((2, 3), (None, 1), (1, 3)), ((2, 3), Ellipsis, ())):
        x, y = values(shape), values(value, 1)
        c, t = x.copy(), wt.asarray(x, mesh=mesh, placements="S0,R")
        c[index] = y
        t[index] = wt.asarray(y, mesh=mesh)
        np.testing.assert_array_equal(t.numpy(), c, err_msg=f"{shape}[{index}]")
    with pytest.raises((ValueError, wt.WeftError)):
        wt.zeros(6, mesh=mesh)[:] = wt.zeros(2, 3, mesh=mesh)


def test_results_are_values(mesh):
    a = wt.asarray(values((3, 4)), mesh=mesh, placements="S0,R")
    before = a.numpy()
    for make in (lambda: a[:], lambda: a[...], lambda: +a, lambda: a[0], lambda: a.clone(), lambda: a.T, lambda: a.reshape(4, 3)):
        b = make()
        b += 1
        np.testing.assert_array_equal(a.numpy(), before)
    w = wt.ones(3, requires_grad=True)
    (w[:] * 2).sum().backward()
    np.testing.assert_array_equal(w.grad.numpy(), [2, 2, 2])
    w.grad *= 0.5
    np.testing.assert_array_equal(w.grad.numpy(), [1, 1, 1])


def test_numbers_out_of_range():
    a = wt.zeros(3, dtype="uint8")
    for wrong in (lambda: a + 256, lambda: a - 256, lambda: wt.zeros(3, dtype="int32") + 2**31, lambda: wt.zeros(3, dtype="int64") + 2**63,
                  lambda: wt.zeros(2**64 + 3), lambda: wt.sum(a, axis=2**32)):
        with pytest.raises((OverflowError, wt.WeftError)):
            wrong()
    assert wt.float64 == np.float64 and wt.float32 != np.float64 and bool(wt.float64)
    import pickle
    assert pickle.loads(pickle.dumps(wt.bool)) is wt.bool


def test_options_of_several_numbers():
    x, w = wt.zeros(1, 1, 6, 6), wt.zeros(1, 1, 2, 2)
    assert wt.conv2d(x, w, stride=(2,)).shape == wt.conv2d(x, w, stride=2).shape == (1, 1, 3, 3)
    assert wt.conv2d(x, w, stride=(1, 2)).shape == (1, 1, 5, 3)
    with pytest.raises(ValueError, match="stride"):
        wt.conv2d(x, w, stride=(1, 2, 3))
    with pytest.raises(TypeError):
        wt.attention(x, x, x, mask=5)


def test_levels():
    ranks = wt.world_size()
    shape = (2, ranks // 2) if ranks % 2 == 0 else (ranks, 1)
    mesh = wt.Mesh(shape, ("dp", "tp"))
    x = np.arange(30.0).reshape(10, 3)
    turned = (Shard(0, level=1), Shard(0, "balanced"))
    assert [str(placement) for placement in turned] == ["S0@1", "S0="]
    assert eval(repr(turned[0])) == turned[0] # noqa: S307
    a = wt.asarray(x, mesh=mesh, placements=turned)
    b = wt.asarray(x, mesh=mesh, placements=["S0@3", "S0=@2"])
    assert a.placements == b.placements
    if min(shape) > 1:
        assert a.placements[0] == turned[0]
        assert (a + b).placements == a.placements
    np.testing.assert_array_equal((a + b).numpy(), 2 * x)
    gathered = a.redistribute(placements="R,S0=")
    np.testing.assert_array_equal(gathered.numpy(), x)
    np.testing.assert_array_equal(gathered.redistribute(placements=turned).numpy(), x)


def test_runs():
    ranks = wt.world_size()
    mesh = wt.Mesh((ranks,), ("all",))
    x = np.arange(30.0).reshape(10, 3)
    for placement, text in ((Shard(0, wt.Cyclic(2)), "S0*2"), (Shard(0, wt.Cyclic(3, ranks - 1)), f"S0*3+{ranks - 1}"), (Shard(0, "zigzag"), "S0z"),
                            (Shard(0, period=5), "S0%5"), (Shard(0, "balanced", period=5), "S0=%5")):
        assert str(placement) == text.removesuffix("+0")
        assert eval(repr(placement), {"Shard": Shard, "Cyclic": wt.Cyclic}) == placement # noqa: S307
        a = wt.asarray(x, mesh=mesh, placements=placement)
        assert a.placements == wt.zeros(10, 3, mesh=mesh, placements=text).placements
        assert (a + a).placements == a.placements
        np.testing.assert_array_equal((a + a).numpy(), 2 * x)
        np.testing.assert_array_equal((a.T @ a).numpy(), x.T @ x)
        np.testing.assert_array_equal(a.redistribute(placements="S1").redistribute(placements=placement).numpy(), x)
        for rank in range(wt.local_ranks()):
            rows = [row for run in a.local_runs(0, rank) for row in run]
            np.testing.assert_array_equal(a.local(rank), x[rows])
            with (a + 0).access(rank, "r+") as shard:
                shard[...] = 1
            assert a.astype(wt.bfloat16).local(rank).shape == a.local(rank).shape
        if a.placements == (placement,):
            with pytest.raises(ValueError, match="several runs of rows, and no boxes"):
                a.local_box()
    b = wt.asarray(x.reshape(2, 5, 3), mesh=mesh, placements="S1")
    assert b.reshape(10, 3).placements == wt.zeros(10, 3, mesh=mesh, placements="S0%5").placements
    # S0%5 of one rank is S0
    assert b.reshape(10, 3).reshape(2, 5, 3).placements == (b.placements if ranks > 1 else (Shard(0),))
    with pytest.raises(ValueError, match="is out of range"):
        Shard(0, period=-1)
    for block, first in ((0, 0), (1, -1)):
        with pytest.raises(ValueError, match="is out of range"):
            wt.Cyclic(block, first)


def test_cuts():
    ranks = wt.world_size()
    mesh = wt.Mesh((ranks,), ("all",))
    x = np.arange(30.0).reshape(10, 3)
    sizes = (0,) * (ranks - 1) + (10,)
    for placement, text in ((Shard(0, "balanced"), "S0="), (Shard(0, sizes), "S0{" + ",".join(map(str, sizes)) + "}")):
        assert str(placement) == text and eval(repr(placement)) == placement # noqa: S307
        a = wt.asarray(x, mesh=mesh, placements=placement)
        b = wt.asarray(x, mesh=mesh, placements=text)
        assert a.placements == b.placements
        total = a + b
        assert total.placements == a.placements
        np.testing.assert_array_equal(total.numpy(), 2 * x)
        np.testing.assert_array_equal(a.redistribute(placements="S1").numpy(), x)
        np.testing.assert_array_equal((a.T @ b).numpy(), x.T @ x)
        a.add_(1)
        assert a.placements == b.placements
        np.testing.assert_array_equal(a.numpy(), x + 1)
    if ranks > 1:
        assert a.placements == (Shard(0, sizes),)
        with pytest.raises(ValueError, match="lists sizes of 10 rows in all, and dimension 0 has 9"):
            wt.zeros(9, 3, mesh=mesh, placements=Shard(0, sizes))
    for sizes in ((11, -1), (2**63, 0)):
        with pytest.raises(ValueError, match="out of range"):
            Shard(0, sizes)
    for level in (-1, 1000):
        with pytest.raises(ValueError, match="^level: "):
            Shard(0, level=level)
    assert Shard(0, np.array([5, 3])) == Shard(0, [5, 3]) == Shard(np.int64(0), (5, 3))
    for sizes in ((6.0, 2), ("5", "3"), 7):
        with pytest.raises(TypeError, match="^cut: "):
            Shard(0, sizes)
    assert wt.zeros(10, mesh=mesh, placements=Shard(0, (3, 3, 3, 1))).placements == (Shard(0),) if ranks == 4 else True
    with pytest.raises(ValueError, match="cut: 'even' is neither"):
        Shard(0, "even")
