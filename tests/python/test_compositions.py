"""Functions made of others beside NumPy, on sharded operands, and beside PyTorch where it is installed, with their gradients."""
import numpy as np
import pytest

import weft_tensors as wt
from weft_tensors import masked, special

RANDOM = np.random.default_rng(7)
SQUARE, OTHER, BATCH, BATCH2 = (RANDOM.standard_normal(shape) for shape in ((4, 4), (4, 4), (3, 4, 2), (3, 2, 4)))
LINE, LINE2, CUBE = RANDOM.standard_normal(4), RANDOM.standard_normal(4), RANDOM.standard_normal((2, 3, 4))


def embedded(x, offset):
    return np.stack([np.diag(row, offset) for row in x])


def replaced(x, key, value):
    there = x.copy()
    there[key] = value
    return there


FEW, IMAGES, CLASSES = np.array([[3, 0], [1, 2], [2, 2]]), RANDOM.standard_normal((2, 4, 2, 3)), np.array([[0, 2, 1, 1], [2, 2, 0, 1]])


def index_of(package, like, values):
    return wt.asarray(values, mesh=like.mesh) if package is wt else package.tensor(values)


def images(package):
    return wt.functional if package is wt else package.nn.functional


def scattered(a, b, index, dim, combine):
    there = a.copy()
    for i, j in np.ndindex(index.shape):
        place = (index[i, j], j) if dim == 0 else (i, index[i, j])
        there[place] = combine(there[place], b[i, j])
    return there


def weighted_loss(a, weights):
    kept = CLASSES != 2
    picked = np.take_along_axis(a, CLASSES[:, None], 1)[:, 0]
    return np.array(-(weights[CLASSES] * picked)[kept].sum() / weights[CLASSES][kept].sum())


# Ours, with the package as `t`: PyTorch's own answer to the same expression must be equal; NumPy's is given.
CASES = [
    (lambda t, i, a, b: t.baddbmm(i, a, b, beta=0.5, alpha=2), [SQUARE, BATCH, BATCH2], lambda i, a, b: 0.5 * i + 2 * a @ b),
    (lambda t, i, a, b: t.addbmm(i, a, b, beta=0.5, alpha=2), [SQUARE, BATCH, BATCH2], lambda i, a, b: 0.5 * i + 2 * (a @ b).sum(0)),
    (lambda t, i, a, b: t.baddbmm(i, a, b, beta=0), [SQUARE * np.nan, BATCH, BATCH2], lambda i, a, b: a @ b),
    (lambda t, i, a, b: t.addmv(i, a, b, alpha=3), [LINE, SQUARE, LINE2], lambda i, a, b: i + 3 * a @ b),
    (lambda t, i, a, b: t.addr(i, a, b, beta=2), [SQUARE, LINE, LINE2], lambda i, a, b: 2 * i + np.outer(a, b)),
    (lambda t, a, b: t.kron(a, b), [SQUARE, CUBE[0]], np.kron),
    (lambda t, a, b: t.kron(a, b), [LINE, SQUARE], np.kron),
    (lambda t, a: t.diag_embed(a), [SQUARE], lambda a: embedded(a, 0)),
    (lambda t, a: t.diag_embed(a, -2), [SQUARE], lambda a: embedded(a, -2)),
    (lambda t, a: t.diag_embed(a, 1, 0, 2), [SQUARE], lambda a: np.moveaxis(embedded(a, 1), (1, 2), (0, 2))),
    (lambda t, a: t.diagflat(a, 1), [CUBE], lambda a: np.diag(a.reshape(-1), 1)),
    (lambda t, a, b, c: t.block_diag(a, b, c), [SQUARE, CUBE[1], LINE],
     lambda a, b, c: np.block([[a, np.zeros((4, 8))], [np.zeros((3, 4)), b, np.zeros((3, 4))], [np.zeros((1, 8)), c[None]]])),
    (lambda t, a, b: t.slice_scatter(a, b, 1, 1, 4, 2), [SQUARE, CUBE[0][:2].T.copy()[:4]], lambda a, b: replaced(a, np.s_[:, 1:4:2], b)),
    (lambda t, a, b: t.slice_scatter(a, b, 0, -1), [SQUARE, LINE[None]], lambda a, b: replaced(a, np.s_[-1:], b)),
    (lambda t, a, b: t.select_scatter(a, b, 1, -2), [SQUARE, LINE], lambda a, b: replaced(a, np.s_[:, -2], b)),
    (lambda t, a, b: t.diagonal_scatter(a, b, -1), [SQUARE, LINE[:3]], lambda a, b: replaced(a, (np.arange(1, 4), np.arange(3)), b)),
    (lambda t, a, b: t.column_stack((a, b)), [LINE, SQUARE], lambda a, b: np.column_stack((a, b))),
    (lambda t, a, b: t.dstack((a, b)), [SQUARE, OTHER], lambda a, b: np.dstack((a, b))),
    (lambda t, a: t.tensor_split(a, 3, 1)[1], [SQUARE], lambda a: np.array_split(a, 3, 1)[1]),
    (lambda t, a: t.tensor_split(a, (1, -1), 1)[2], [SQUARE], lambda a: np.split(a, (1, 3), 1)[2]),
    (lambda t, a: t.hsplit(a, 2)[1], [SQUARE], lambda a: np.hsplit(a, 2)[1]),
    (lambda t, a: t.atleast_3d(a), [LINE], np.atleast_3d),
    (lambda t, a: t.rot90(a, 3, (1, 2)), [CUBE], lambda a: np.rot90(a, 3, (1, 2))),
    (lambda t, a: t.rot90(a, 1, (0, 2)), [CUBE], lambda a: np.rot90(a, 1, (0, 2))),
    (lambda t, a: t.rot90(a, -2), [SQUARE], lambda a: np.rot90(a, -2)),
    (lambda t, a, b: t.cartesian_prod(a, b), [LINE, LINE2], lambda a, b: np.stack(np.meshgrid(a, b, indexing="ij"), -1).reshape(-1, 2)),
    (lambda t, a: t.clamp_max(t.clamp_min(a, -0.5), 0.5), [SQUARE], lambda a: np.clip(a, -0.5, 0.5)),
    (lambda t, a: t.float_power(a * a, 1.5), [SQUARE], lambda a: np.abs(a) ** 3),
    (lambda t, a, b: t.rsub(a, b, alpha=2), [SQUARE, OTHER], lambda a, b: b - 2 * a),
    (lambda t, a, b: t.ldexp(a, b), [SQUARE, OTHER], lambda a, b: a * 2.0 ** b),
    (lambda t, a, b: t.dist(a, b, 3.0), [SQUARE, OTHER], lambda a, b: (np.abs(a - b) ** 3).sum() ** (1 / 3)),
    (lambda t, a, b: t.cdist(a, b), [CUBE, OTHER], lambda a, b: np.sqrt(((a[:, :, None] - b) ** 2).sum(-1))),
    (lambda t, a: t.trapz(a, dx=0.5, dim=1), [CUBE], lambda a: ((a[:, 1:] + a[:, :-1]) * 0.25).sum(1)),
    (lambda t, a, b: t.trapz(a, b, dim=0), [SQUARE, LINE], lambda a, b: ((a[1:] + a[:-1]) * 0.5 * np.diff(b)[:, None]).sum(0)),
    (lambda t, a: t.cumulative_trapezoid(a, dim=1), [CUBE], lambda a: ((a[:, 1:] + a[:, :-1]) * 0.5).cumsum(1)),
    (lambda t, a: t.corrcoef(a), [SQUARE], np.corrcoef),
    (lambda t, a: t.sinc(a), [SQUARE], np.sinc),
    (lambda t, a: t.i0(a), [SQUARE * 9], np.i0),
    (lambda t, a: t.gather(a, 1, index_of(t, a, FEW % 4)), [SQUARE], lambda a: np.take_along_axis(a[:3], FEW % 4, 1)),
    (lambda t, a: t.gather(a, 0, index_of(t, a, FEW % 4)), [SQUARE], lambda a: np.take_along_axis(a[:, :2], FEW % 4, 0)),
    (lambda t, a, b: t.scatter_add(a, 0, index_of(t, a, FEW % 4), b), [SQUARE, OTHER], lambda a, b: scattered(a, b, FEW % 4, 0, np.add)),
    (lambda t, a, b: t.scatter_add(a, 1, index_of(t, a, FEW), b), [SQUARE, OTHER], lambda a, b: scattered(a, b, FEW, 1, np.add)),
    (lambda t, a, b: t.scatter(a, 1, index_of(t, a, FEW), b), [SQUARE, OTHER], lambda a, b: scattered(a, b, FEW, 1, lambda _, y: y)),
    (lambda t, a: t.kthvalue(a, 2, 1)[0], [CUBE], lambda a: np.sort(a, 1)[:, 1]),
    (lambda t, a: t.split_with_sizes_copy(a, (1, 3), 1)[1], [SQUARE], lambda a: a[:, 1:]),
    (lambda t, a: a.sum_to_size(2, 1, 4), [CUBE], lambda a: a.sum(1, keepdims=True)),
    (lambda t, a: t.transpose_copy(t.unsqueeze_copy(a, 1), 0, 2), [SQUARE], lambda a: a.T[:, None]),
    (lambda t, a: t.diagonal_copy(t.constant_pad_nd(a, (1, 0, 0, 2), 3.0), 1), [SQUARE], lambda a: np.diagonal(a)),
    (lambda t, a: t.t_copy(a) @ t.resolve_conj(t.view_copy(a, (4, 4))), [SQUARE], lambda a: a.T @ a),
    (lambda t, a: t.gradient(a, spacing=0.5, dim=1)[0], [CUBE], lambda a: np.gradient(a, 0.5, axis=1)),
    (lambda t, a: t.gradient(a, dim=-1, edge_order=2)[0], [SQUARE], lambda a: np.gradient(a, axis=1, edge_order=2)),
    (lambda t, a: t.pinverse(a), [SQUARE + 4 * np.eye(4)], np.linalg.inv),
    (lambda t, a: t.logdet(a @ a.mT), [SQUARE], lambda a: np.linalg.slogdet(a @ a.T)[1]),
    (lambda t, a: images(t).channel_shuffle(a, 2), [IMAGES], lambda a: a[:, [0, 2, 1, 3]]),
    (lambda t, a: images(t).pixel_shuffle(a, 2), [IMAGES], lambda a: a.reshape(2, 2, 2, 2, 3).transpose(0, 3, 1, 4, 2).reshape(2, 1, 4, 6)),
    (lambda t, a: images(t).pixel_unshuffle(images(t).pixel_shuffle(a, 2), 2), [IMAGES], lambda a: a),
    (lambda t, a: images(t).hardshrink(a), [SQUARE], lambda a: a * (np.abs(a) > 0.5)),
    (lambda t, a: images(t).softshrink(a, 0.3), [SQUARE], lambda a: np.sign(a) * np.maximum(np.abs(a) - 0.3, 0)),
    (lambda t, a, w: images(t).nll_loss(a, index_of(t, a, CLASSES), w, ignore_index=2), [CUBE, 1 + LINE[:3] ** 2], weighted_loss),
]
PLACEMENTS = ["S0,R", "R,S0", "S0,S0", "R,R"]


@pytest.mark.parametrize("number", range(len(CASES)))
def test_functions(mesh, number):
    function, operands, reference = CASES[number]
    for shift in range(len(PLACEMENTS)):
        ours = [wt.asarray(each, mesh=mesh, placements=PLACEMENTS[(shift + i) % len(PLACEMENTS)], requires_grad=True)
                for i, each in enumerate(operands)]
        result = function(wt, *ours)
        np.testing.assert_allclose(result.detach().numpy(), reference(*operands), rtol=1e-11, atol=1e-13)
        weights = np.cos(np.arange(result.numel())).reshape(result.shape)
        (result * wt.asarray(weights, mesh=mesh)).sum().backward()
    # The gradient by central differences.
    for i, own in enumerate(ours):
        if np.isnan(operands[i]).any():
            continue
        way = np.sin(1 + np.arange(operands[i].size)).reshape(operands[i].shape)
        ends = [(reference(*operands[:i], operands[i] + step * way, *operands[i + 1:]) * weights).sum() for step in (1e-5, -1e-5)]
        found = 0.0 if own.grad is None else (own.grad.numpy() * way).sum()
        np.testing.assert_allclose(found, (ends[0] - ends[1]) / 2e-5, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("number", range(len(CASES)))
def test_beside_pytorch(number):
    torch = pytest.importorskip("torch")
    function, operands, _ = CASES[number]
    expected = function(torch, *(torch.tensor(each) for each in operands)).numpy()
    np.testing.assert_allclose(function(wt, *(wt.asarray(each) for each in operands)).numpy(), expected, rtol=1e-11, atol=1e-13)


MASK = np.array([[True, False, True, True], [False] * 4, [True, True, True, False], [False, True, False, False]])


@pytest.mark.parametrize("placements", PLACEMENTS)
def test_masked(mesh, placements):
    x, mask = wt.asarray(SQUARE, mesh=mesh, placements=placements), wt.asarray(MASK, mesh=mesh)
    rows = [row[keep] for row, keep in zip(SQUARE, MASK)]

    def same(ours, reference, empty):
        expected = [reference(row) if len(row) else empty for row in rows]
        np.testing.assert_allclose(ours.numpy(), expected, rtol=1e-12)

    same(masked.sum(x, 1, mask=mask), np.sum, 0)
    same(masked.prod(x, 1, mask=mask), np.prod, 1)
    same(masked.amax(x, 1, mask=mask), np.max, -np.inf)
    same(masked.amin(x, 1, mask=mask), np.min, np.inf)
    same(masked.mean(x, 1, mask=mask), np.mean, np.nan)
    same(masked.var(x, 1, False, mask=mask), np.var, np.nan)
    same(masked.std(x, 1, False, mask=mask), np.std, np.nan)
    same(masked.norm(x, 2.0, 1, mask=mask), np.linalg.norm, 0)
    same(masked.logsumexp(x, 1, mask=mask), lambda row: np.log(np.exp(row).sum()), -np.inf)
    np.testing.assert_allclose(masked.sum(x, mask=mask).numpy(), SQUARE[MASK].sum())
    np.testing.assert_allclose(masked.cumsum(x, 1, mask=mask).numpy(), (SQUARE * MASK).cumsum(1))
    np.testing.assert_allclose(masked.cumprod(x, 0, mask=mask).numpy(), np.where(MASK, SQUARE, 1).cumprod(0))
    np.testing.assert_allclose(masked.softmax(x, 1, mask=mask).numpy()[[0, 2, 3]],
                               (np.exp(SQUARE) * MASK / (np.exp(SQUARE) * MASK).sum(1, keepdims=True).clip(1e-300))[[0, 2, 3]])
    assert masked.argmax(x, 1, mask=mask).numpy()[3] == 1 and masked.argmin(x, 1, mask=mask).numpy()[3] == 1


def test_whole_numbers_and_special(mesh):
    a, b = wt.asarray(np.array([12, -18, 0, 7]), mesh=mesh, placements="S0,R"), wt.asarray(np.array([8, 12, 0, -21]), mesh=mesh)
    np.testing.assert_array_equal(wt.gcd(a, b).numpy(), [4, 6, 0, 7])
    np.testing.assert_array_equal(wt.lcm(a, b).numpy(), [24, 36, 0, 21])
    np.testing.assert_allclose(special.zeta(2, wt.asarray(np.array([1.0, 2.0]))).numpy(), [np.pi ** 2 / 6, np.pi ** 2 / 6 - 1])
    np.testing.assert_allclose(special.polygamma(2, wt.asarray(np.array([1.0]))).numpy(), [-2.4041138063191885])
    np.testing.assert_allclose(special.logit(wt.asarray(np.array([0.0, 0.5, 1.0])), 0.25).numpy(), [-np.log(3), 0, np.log(3)])
    x = wt.asarray(np.linspace(-3, 3, 7), mesh=mesh, placements="S0,R")
    np.testing.assert_allclose(special.ndtri(special.ndtr(x)).numpy(), np.linspace(-3, 3, 7), atol=1e-13)
    np.testing.assert_allclose(wt.tril_indices(3, 4, 1).numpy(), np.tril_indices(3, 1, 4))
    np.testing.assert_allclose(wt.triu_indices(3, 4, -1).numpy(), np.triu_indices(3, -1, 4))
    infinite = wt.asarray(np.array([np.inf, -np.inf, np.nan, 1]))
    assert wt.isposinf(infinite).numpy().tolist() == [True, False, False, False]
    assert wt.isneginf(infinite).numpy().tolist() == [False, True, False, False]


def test_matrices_and_indices(mesh):
    given = np.stack([SQUARE, np.outer(LINE, LINE2), np.zeros((4, 4))])
    x = wt.asarray(given, mesh=mesh, placements="S0,R")
    np.testing.assert_array_equal(wt.linalg.matrix_rank(x).numpy(), np.linalg.matrix_rank(given))
    for p in (None, -2, 1, "fro"):
        np.testing.assert_allclose(wt.linalg.cond(x[:1], p).numpy(), [np.linalg.cond(SQUARE, p)], rtol=1e-10)
    u, s, v = wt.svd(x[0])
    np.testing.assert_allclose((u * s @ v.mT).numpy(), SQUARE, atol=1e-12)
    places = wt.asarray(np.array([[0, 23], [7, 13]]), mesh=mesh, placements="S0,R")
    for ours, expected in zip(wt.unravel_index(places, (2, 3, 4)), np.unravel_index(places.numpy(), (2, 3, 4))):
        np.testing.assert_array_equal(ours.numpy(), expected)
    truths = wt.asarray(MASK, mesh=mesh, placements="S0,R")
    np.testing.assert_array_equal(wt.nonzero_static(truths, size=3).numpy(), np.argwhere(MASK)[:3])
    np.testing.assert_array_equal(wt.nonzero_static(truths, size=9, fill_value=7).numpy(), np.vstack([np.argwhere(MASK), [[7, 7]] * 2]))
    assert wt.asarray(np.array([3.7, 200]), mesh=mesh).byte().numpy().tolist() == [3, 200]
    image = wt.asarray(IMAGES, mesh=mesh, placements="S0,R")
    assert wt.functional.upsample_nearest(image, scale_factor=2).shape == wt.functional.upsample_bilinear(image, (4, 6)).shape
    with pytest.raises(ValueError, match="channels"):
        wt.functional.pixel_shuffle(image, 3)


def test_alpha_dropout(mesh):
    x = wt.randn(40, 500, dtype="float64", mesh=mesh, placements="S0,R")
    for function in (wt.functional.alpha_dropout, wt.functional.feature_alpha_dropout):
        dropped = function(x, 0.3, True).numpy()
        np.testing.assert_allclose([dropped.mean(), dropped.std()], [0, 1], atol=0.06)
        low = -1.7580993408473766
        replacement = 0.7 * low / np.sqrt(0.7 * (1 + 0.3 * low ** 2))
        assert 0.25 < np.isclose(dropped, replacement, rtol=1e-12).mean() < 0.35
        assert function(x, 0.3) is x and (function(x, 1.0, True).numpy() == 0).all()


def test_random(mesh):
    x = wt.zeros(20000, dtype="float64", mesh=mesh, placements="S0,R")
    np.testing.assert_allclose(np.log(x.log_normal_(0.5, 0.25).numpy()).mean(), 0.5, atol=0.02)
    trials = x.geometric_(0.25).numpy()
    assert trials.min() == 1 and (trials == np.floor(trials)).all()
    np.testing.assert_allclose(trials.mean(), 4, rtol=0.05)
    np.testing.assert_allclose(np.median(x.cauchy_(2.0, 0.5).numpy()), 2, atol=0.05)
