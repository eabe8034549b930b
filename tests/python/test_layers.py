"""Layers, activations and losses of nn beside formulas in NumPy."""

import itertools
import math

import numpy as np
import pytest

import weft_tensors as wt
from weft_tensors import nn
from weft_tensors.nn import functional as F

RANDOM = np.random.default_rng(5)


def values(*shape):
    return RANDOM.standard_normal(shape)


def tensor(array, mesh, placements="S0,R"):
    return wt.asarray(array, mesh=mesh, placements=placements)


def close(found, expected, tolerance=1e-9):
    found = found.numpy() if isinstance(found, wt.Tensor) else found
    assert found.shape == np.shape(expected), f"{found.shape} {np.shape(expected)}"
    np.testing.assert_allclose(found, expected, rtol=tolerance, atol=tolerance)


def windows(x, kernel, stride, padding, dilation=1, fill=0.0):
    """[n, c, places..., kernel...] of an image."""
    ndim = len(kernel)
    x = np.pad(x, [(0, 0), (0, 0)] + [(padding, padding)] * ndim, constant_values=fill)
    sizes = [(size - dilation * (k - 1) - 1) // stride + 1 for size, k in zip(x.shape[2:], kernel)]
    out = np.empty(x.shape[:2] + tuple(sizes) + tuple(kernel))
    for place in itertools.product(*map(range, sizes)):
        part = tuple(slice(p * stride, p * stride + dilation * (k - 1) + 1, dilation) for p, k in zip(place, kernel))
        out[(slice(None), slice(None)) + place] = x[(slice(None), slice(None)) + part]
    return out


def convolved(x, weight, bias, stride, padding, dilation, groups):
    ndim, per, outputs = weight.ndim - 2, weight.shape[1], weight.shape[0] // groups
    parts = []
    for group in range(groups):
        w = windows(x[:, group * per:(group + 1) * per], weight.shape[2:], stride, padding, dilation)
        own = weight[group * outputs:(group + 1) * outputs]
        taken = np.tensordot(w, own, ([1] + list(range(2 + ndim, 2 + 2 * ndim)), list(range(1, 2 + ndim))))
        parts.append(np.moveaxis(taken, -1, 1))
    return np.concatenate(parts, 1) + bias.reshape((1, -1) + (1,) * ndim)


@pytest.mark.parametrize("ndim", [1, 2, 3])
def test_convolutions(mesh, ndim):
    layer, shape = (nn.Conv1d, nn.Conv2d, nn.Conv3d)[ndim - 1], (4, 4) + (7, 6, 5)[:ndim]
    x = values(*shape)
    for stride, padding, dilation, groups in ((1, 0, 1, 1), (2, 1, 1, 2), (1, 2, 2, 1)):
        conv = layer(4, 6, 3, stride, padding, dilation, groups, dtype="float64").distribute(mesh)
        weight, bias = conv.weight.numpy(), conv.bias.numpy()
        assert np.abs(weight).max() <= (4 // groups * 3**ndim) ** -0.5
        close(conv(tensor(x, mesh)), convolved(x, weight, bias, stride, padding, dilation, groups))
    same = layer(4, 2, 3, padding="same", bias=False, dtype="float64").distribute(mesh)
    assert same.bias is None
    close(same(tensor(x, mesh)), convolved(x, same.weight.numpy(), np.zeros(2), 1, 1, 1, 1))
    close(same(tensor(x[0], mesh, "R,R")), convolved(x[:1], same.weight.numpy(), np.zeros(2), 1, 1, 1, 1)[0]) # without a batch
    assert layer(4, 2, 2, padding="same", dtype="float64").distribute(mesh)(tensor(x, mesh)).shape == (4, 2) + shape[2:]
    for wrong in (lambda: layer(3, 4, 3, groups=2), lambda: layer(4, 4, 3, padding_mode="reflect"),
                  lambda: layer(4, 4, 3, 2, padding="same", dtype="float64").distribute(mesh)(tensor(x, mesh))):
        with pytest.raises(ValueError):
            wrong()


@pytest.mark.parametrize("ndim", [1, 2, 3])
def test_transposed_convolutions(mesh, ndim):
    """The gradient of a convolution's input."""
    layer = (nn.ConvTranspose1d, nn.ConvTranspose2d, nn.ConvTranspose3d)[ndim - 1]
    conv = layer(4, 2, 3, stride=2, padding=1, output_padding=1, groups=2, dtype="float64").distribute(mesh)
    g = values(2, 4, *(4, 3, 2)[:ndim])
    result = conv(tensor(g, mesh))
    x = tensor(np.zeros(result.shape), mesh).requires_grad_()
    forward = (F.conv1d, F.conv2d, F.conv3d)[ndim - 1](x, conv.weight.detach(), None, stride=2, padding=1, groups=2)
    forward.backward(tensor(g, mesh))
    close(result, x.grad.numpy() + conv.bias.numpy().reshape((1, -1) + (1,) * ndim))


@pytest.mark.parametrize("ndim", [1, 2, 3])
def test_pooling(mesh, ndim):
    x, name, last = values(4, 2, *(6, 7, 5)[:ndim]), f"{ndim}d", tuple(range(2 + ndim, 2 + 2 * ndim))
    a = tensor(x, mesh)
    largest = windows(x, (3,) * ndim, 2, 1, fill=-np.inf).max(last)
    close(getattr(nn, f"MaxPool{name}")(3, stride=2, padding=1)(a), largest)
    close(getattr(nn, f"MaxPool{name}")(2)(a), windows(x, (2,) * ndim, 2, 0).max(last))
    close(getattr(nn, f"AvgPool{name}")(3, 2, 1)(a), windows(x, (3,) * ndim, 2, 1).mean(last))
    inside = windows(np.ones_like(x), (3,) * ndim, 2, 1).sum(last)
    close(getattr(nn, f"AvgPool{name}")(3, 2, 1, count_include_pad=False)(a), windows(x, (3,) * ndim, 2, 1).sum(last) / inside)
    close(getattr(nn, f"AvgPool{name}")(kernel_size=2)(tensor(x[0], mesh, "R,R")), windows(x[:1], (2,) * ndim, 2, 0).mean(last)[0])
    for kind, reduce in (("Avg", np.mean), ("Max", np.max)):
        found = getattr(nn, f"Adaptive{kind}Pool{name}")(3)(a)
        expected = np.empty(x.shape[:2] + (3,) * ndim)
        for place in itertools.product(range(3), repeat=ndim):
            part = tuple(slice(i * n // 3, -(-(i + 1) * n // 3)) for i, n in zip(place, x.shape[2:]))
            expected[(slice(None), slice(None)) + place] = reduce(x[(slice(None), slice(None)) + part], axis=tuple(range(2, 2 + ndim)))
        close(found, expected)
    with pytest.raises(TypeError, match="kernel_size"):
        getattr(nn, f"MaxPool{name}")()
    with pytest.raises(TypeError, match="takes"):
        getattr(nn, f"MaxPool{name}")(2, size=3)


def test_sizes_of_images(mesh):
    x = values(2, 3, 4, 5)
    a = tensor(x, mesh)
    close(nn.Upsample(scale_factor=2)(a), x.repeat(2, 2).repeat(2, 3))
    close(F.interpolate(a, size=(2, 5)), x[:, :, ::2])
    line = np.linspace(0, 3, 7)[:, None]
    up = F.interpolate(a, size=(7, 5), mode="bilinear", align_corners=True)
    low = np.minimum(np.floor(line).astype(int), 2)[:, 0]
    close(up, x[:, :, low] * (1 - (line - low[:, None])) + x[:, :, low + 1] * (line - low[:, None]))
    close(nn.ZeroPad2d((1, 0, 2, 1))(a), np.pad(x, ((0, 0), (0, 0), (2, 1), (1, 0))))
    with pytest.raises(ValueError, match="either"):
        F.interpolate(a)


def normal_form(x, axes, eps=1e-5):
    return (x - x.mean(axes, keepdims=True)) / np.sqrt(x.var(axes, keepdims=True) + eps)


def test_norms(mesh):
    for shape, layer, other in (((8, 4), nn.BatchNorm1d, None), ((4, 4, 5), nn.BatchNorm1d, nn.InstanceNorm1d),
                                ((4, 4, 3, 5), nn.BatchNorm2d, nn.InstanceNorm2d),
                                ((4, 4, 3, 2, 2), nn.BatchNorm3d, nn.InstanceNorm3d)):
        x, axes = values(*shape), (0,) + tuple(range(2, len(shape)))
        a = tensor(x, mesh)
        norm = layer(4, dtype="float64").distribute(mesh)
        close(norm(a), normal_form(x, axes))
        count, spread = x.size // 4, (1, -1) + (1,) * (len(shape) - 2)
        mean, var = 0.1 * x.mean(axes), 0.9 + 0.1 * x.var(axes) * count / (count - 1)
        close(norm.running_mean, mean)
        close(norm.running_var, var)
        assert norm.num_batches_tracked.item() == 1
        norm.eval()
        close(norm(a), (x - mean.reshape(spread)) / np.sqrt(var.reshape(spread) + 1e-5))
        close(norm.running_mean, mean)
        close(layer(4, affine=False, track_running_stats=False, dtype="float64").eval()(wt.asarray(x)), normal_form(x, axes))
        if other is not None:
            close(other(4, affine=True, dtype="float64").distribute(mesh)(a), normal_form(x, axes[1:]))
        grouped = nn.GroupNorm(2, 4, dtype="float64").distribute(mesh)
        groups = x.reshape(shape[0], 2, -1)
        close(grouped(a), normal_form(groups, (2,)).reshape(shape))
    with pytest.raises(ValueError, match="dimensions"):
        nn.BatchNorm2d(4)(wt.ones(2, 4))
    x = values(4, 6)
    close(nn.LayerNorm([6], elementwise_affine=False)(tensor(x, mesh)), normal_form(x, (1,)))
    close(nn.RMSNorm(6, elementwise_affine=False)(tensor(x, mesh)), x / np.sqrt((x * x).mean(1, keepdims=True) + 1e-6))
    with pytest.raises(ValueError, match="last dimension"):
        nn.LayerNorm((2, 6))


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


def softmax(x, axis=-1):
    e = np.exp(x - x.max(axis, keepdims=True))
    return e / e.sum(axis, keepdims=True)


def test_activations(mesh):
    x = values(4, 6) * 2
    a, erf = tensor(x, mesh), np.vectorize(math.erf)
    softplus = np.log1p(np.exp(x))
    for layer, expected in (
            (nn.ReLU(inplace=True), np.maximum(x, 0)), (nn.ReLU6(), np.clip(x, 0, 6)), (nn.SiLU(), x * sigmoid(x)),
            (nn.Mish(), x * np.tanh(softplus)),
            (nn.GELU(), x * (1 + erf(x / 2**0.5)) / 2),
            (nn.GELU("tanh"), x / 2 * (1 + np.tanh((2 / np.pi) ** 0.5 * (x + 0.044715 * x**3)))),
            (nn.Tanh(), np.tanh(x)), (nn.Sigmoid(), sigmoid(x)), (nn.LogSigmoid(), np.log(sigmoid(x))),
            (nn.Softsign(), x / (1 + np.abs(x))),
            (nn.Tanhshrink(), x - np.tanh(x)), (nn.Softplus(2.0), np.log1p(np.exp(2 * x)) / 2), (nn.GLU(), x[:, :3] * sigmoid(x[:, 3:])),
            (nn.Softmax(dim=0), softmax(x, 0)), (nn.LogSoftmax(dim=1), np.log(softmax(x))), (nn.Softmin(1), softmax(-x)),
            (nn.ELU(0.5), np.where(x > 0, x, 0.5 * np.expm1(x))), (nn.CELU(2.0), np.where(x > 0, x, 2 * np.expm1(x / 2))),
            (nn.SELU(), 1.0507009873554805 * np.where(x > 0, x, 1.6732632423543772 * np.expm1(x))),
            (nn.LeakyReLU(0.2), np.where(x > 0, x, 0.2 * x)),
            (nn.Hardtanh(-1, 2), np.clip(x, -1, 2)), (nn.Hardsigmoid(), np.clip(x / 6 + 0.5, 0, 1)),
            (nn.Hardswish(), x * np.clip(x / 6 + 0.5, 0, 1)),
            (nn.Threshold(0.1, 20.0), np.where(x > 0.1, x, 20)), (nn.PReLU(dtype="float64").distribute(mesh), np.where(x > 0, x, 0.25 * x)),
            (nn.Identity(54, unused=True), x), (nn.Unflatten(1, (2, 3)), x.reshape(4, 2, 3))):
        close(layer(a), expected, 1e-6)


def test_losses(mesh):
    x, y, p = values(4, 5), values(4, 5), sigmoid(values(4, 5))
    targets, signs, truth = np.array([1, 0, 4, 2]), np.array([1.0, -1, -1, 1]), (values(4, 5) > 0).astype(float)
    logs, weight = np.log(softmax(x)), np.arange(1.0, 6.0)
    a, b, q = (tensor(each, mesh) for each in (x, y, p))
    t, s, u, w = (wt.asarray(each, mesh=mesh) for each in (targets, signs, truth, weight))
    d, cos = np.abs(x - y), (x * y).sum(1) / np.sqrt((x * x).sum(1) * (y * y).sum(1))
    huber = lambda delta: np.where(d < delta, d * d / 2, delta * (d - delta / 2)) # noqa: E731
    distance = lambda u, v: np.sqrt(((u - v + 1e-6) ** 2).sum(1)) # noqa: E731
    chosen = -logs[range(4), targets]
    bce = -(truth * np.log(p) + (1 - truth) * np.log(1 - p))
    logits = -(truth * np.log(sigmoid(x)) + (1 - truth) * np.log(1 - sigmoid(x)))
    counts = np.floor(np.abs(y) * 3)
    stirling = np.where(counts > 1, counts * np.log(np.maximum(counts, 1)) - counts + 0.5 * np.log(2 * np.pi * np.maximum(counts, 1)), 0)
    for loss, given, expected in (
            (nn.MSELoss, (a, b), d * d), (nn.L1Loss, (a, b), d), (nn.SmoothL1Loss, (a, b), huber(1.0)), (nn.HuberLoss, (a, b), huber(1.0)),
            (nn.CrossEntropyLoss, (a, t), chosen), (nn.NLLLoss, (tensor(logs, mesh), t), chosen), (nn.BCELoss, (q, u), bce),
            (nn.BCEWithLogitsLoss, (a, u), logits),
            (nn.KLDivLoss, (tensor(logs, mesh), q), p * (np.log(p) - logs)),
            (nn.SoftMarginLoss, (a, u * 2.0 - 1.0), np.log1p(np.exp(-(2 * truth - 1) * x))),
            (nn.MarginRankingLoss, (a[:, 0], b[:, 0], s), np.maximum(0, -signs * (x[:, 0] - y[:, 0]))),
            (nn.CosineEmbeddingLoss, (a, b, s), np.where(signs > 0, 1 - cos, np.maximum(0, cos))),
            (nn.TripletMarginLoss, (a, b, q), np.maximum(0, distance(x, y) - distance(x, p) + 1)),
            (nn.PoissonNLLLoss, (a, wt.asarray(counts, mesh=mesh)), np.exp(x) - counts * x),
            (nn.GaussianNLLLoss, (a, b, q), (np.log(p) + d * d / p) / 2)):
        close(loss(reduction="none")(*given), expected, 1e-8)
        close(loss(reduction="sum")(*given), expected.sum(), 1e-8)
        close(loss()(*given), expected.mean(), 1e-8)
    close(nn.HuberLoss(delta=0.5)(a, b), huber(0.5).mean())
    close(nn.KLDivLoss(reduction="batchmean")(tensor(logs, mesh), q), (p * (np.log(p) - logs)).sum() / 4)
    close(nn.CrossEntropyLoss(weight=w, ignore_index=4)(a, t),
          (chosen * weight[targets])[[0, 1, 3]].sum() / weight[targets[[0, 1, 3]]].sum())
    close(nn.CrossEntropyLoss(label_smoothing=0.2)(a, t), (0.8 * chosen + 0.2 * -logs.mean(1)).mean())
    close(nn.BCEWithLogitsLoss(pos_weight=w)(a, u), -(weight * truth * np.log(sigmoid(x)) + (1 - truth) * np.log(1 - sigmoid(x))).mean())
    close(nn.PoissonNLLLoss(log_input=False, full=True)(q, wt.asarray(counts, mesh=mesh)),
          (p - counts * np.log(p + 1e-8) + stirling).mean())
    close(nn.CosineSimilarity()(a, b), cos)
    with pytest.raises(TypeError, match="reduction="):
        nn.MSELoss(size_average=True)
    with pytest.raises(ValueError, match="reduction"):
        nn.SoftMarginLoss(reduction="all")(a, a)


def test_cross_entropy_of_images(mesh):
    x, targets = values(4, 3, 2, 5), RANDOM.integers(0, 3, (4, 2, 5))
    logs = np.log(softmax(x, 1))
    expected = -np.take_along_axis(logs, targets[:, None], 1)[:, 0]
    a, t = tensor(x, mesh), wt.asarray(targets, mesh=mesh)
    close(F.cross_entropy(a, t, reduction="none"), expected)
    close(F.cross_entropy(a, t), expected.mean())
    close(F.nll_loss(tensor(logs, mesh), t, reduction="sum"), expected.sum())
    soft = softmax(values(4, 3, 2, 5), 1)
    close(F.cross_entropy(a, tensor(soft, mesh)), -(soft * logs).sum(1).mean())
    close(F.cross_entropy(a[:, :, 0], t[:, 0], reduction="none"), expected[:, 0])
    close(F.cross_entropy(a[0, :, 0, 0], t[0, 0, 0]), expected[0, 0, 0])


def attended(model, q, k, v, heads, hidden=None):
    """What MultiheadAttention computes of [n, s, e], and its weights."""
    def project(name, x):
        layer = getattr(model, name)
        return x @ layer.weight.numpy() + layer.bias.numpy()

    def split(x):
        return x.reshape(x.shape[0], x.shape[1], heads, -1).transpose(0, 2, 1, 3)

    q, k, v = split(project("q_proj", q)), split(project("k_proj", k)), split(project("v_proj", v))
    scores = q @ k.transpose(0, 1, 3, 2) / q.shape[-1] ** 0.5
    weights = softmax(scores if hidden is None else np.where(hidden, -np.inf, scores))
    mixed = (weights @ v).transpose(0, 2, 1, 3)
    return project("out_proj", mixed.reshape(mixed.shape[0], mixed.shape[1], -1)), weights


def test_attention(mesh):
    q, k, v = values(4, 5, 8), values(4, 6, 4), values(4, 6, 3)
    model = nn.MultiheadAttention(8, 2, kdim=4, vdim=3, batch_first=True, dtype="float64").distribute(mesh)
    with wt.no_grad():
        for each in model.children():
            each.bias.uniform_(-1, 1)
    a, b, c = (tensor(each, mesh) for each in (q, k, v))
    out, weights = attended(model, q, k, v, 2)
    found = model(a, b, c)
    close(found[0], out)
    close(found[1], weights.mean(1))
    close(model(a, b, c, average_attn_weights=False)[1], weights)
    fast, nothing = model(a, b, c, need_weights=False)
    assert nothing is None
    close(fast, out)
    padding = np.zeros((4, 6), bool)
    padding[:, 4:] = True
    masks = RANDOM.random((5, 6)) < 0.3
    masks[:, 0] = False
    hidden = padding[:, None, None] | masks
    causal = np.triu(np.ones((5, 6), bool), 1)
    pad, mask = wt.asarray(padding, mesh=mesh), wt.asarray(masks, mesh=mesh)
    for needed in (True, False):
        close(model(a, b, c, pad, needed, mask)[0], attended(model, q, k, v, 2, hidden)[0])
        close(model(a, b, c, need_weights=needed, is_causal=True)[0], attended(model, q, k, v, 2, causal)[0])
        added = wt.asarray(np.where(masks, -1e30, 0.0), mesh=mesh)
        close(model(a, b, c, attn_mask=added, need_weights=needed)[0], attended(model, q, k, v, 2, masks)[0])
        close(model(a, b, c, attn_mask=wt.asarray(np.repeat(hidden, 2, 1).reshape(8, 5, 6), mesh=mesh), need_weights=needed)[0],
              attended(model, q, k, v, 2, hidden)[0])
    one = model(*(wt.asarray(each[0], mesh=mesh) for each in (q, k, v)))
    close(one[0], out[0])
    close(one[1], weights[0].mean(0))
    model.batch_first = False
    close(model(*(wt.asarray(each.transpose(1, 0, 2), mesh=mesh) for each in (q, k, v)))[0], out.transpose(1, 0, 2))
    with pytest.raises(ValueError, match="num_heads"):
        nn.MultiheadAttention(8, 3)


def test_transformer_encoder(mesh):
    x = values(4, 5, 8)
    for norm_first in (False, True):
        layer = nn.TransformerEncoderLayer(8, 2, 16, 0.0, "gelu", batch_first=True, norm_first=norm_first, dtype="float64").distribute(mesh)

        def dense(name, given, of=layer):
            return given @ getattr(of, name).weight.numpy() + getattr(of, name).bias.numpy()

        def feed(given):
            hidden = dense("linear1", given)
            return dense("linear2", hidden * (1 + np.vectorize(math.erf)(hidden / 2**0.5)) / 2)

        def norm(given):
            return normal_form(given, (-1,))

        attend = lambda given, of=layer: attended(of.self_attn, given, given, given, 2)[0] # noqa: E731
        if norm_first:
            middle = x + attend(norm(x))
            expected = middle + feed(norm(middle))
        else:
            middle = norm(x + attend(x))
            expected = norm(middle + feed(middle))
        close(layer(tensor(x, mesh)), expected)
    encoder = nn.TransformerEncoder(nn.TransformerEncoderLayer(8, 2, 16, 0.0, batch_first=True), 2, nn.LayerNorm(8)).distribute(mesh)
    names = [name for name, _ in encoder.named_parameters()]
    assert len(names) == 2 * 16 + 2 and "layers.1.self_attn.q_proj.weight" in names
    close(encoder.layers[0].linear1.weight, encoder.layers[1].linear1.weight.numpy())
    causal = encoder(tensor(x.astype("float32"), mesh), is_causal=True)
    mask = wt.triu(wt.ones(5, 5, dtype="bool", mesh=mesh), diagonal=1)
    close(causal, encoder(tensor(x.astype("float32"), mesh), mask).numpy(), 1e-5)
    # Tensor parallel: projections by columns and rows, named in a plan.
    with pytest.raises(ValueError, match="relu"):
        nn.TransformerEncoderLayer(8, 2, activation="none")


def test_a_transformer_layer_in_parallel(mesh):
    x = values(4, 6, 8)
    layer = nn.TransformerEncoderLayer(8, 4, 16, 0.0, batch_first=True, dtype="float64").distribute(mesh)
    alone = layer(tensor(x, mesh)).numpy()
    parallel = nn.TransformerEncoderLayer(8, 4, 16, 0.0, batch_first=True, dtype="float64")
    parallel.load_state_dict({name: each.numpy() for name, each in layer.state_dict().items()})
    parallel.parallelize(mesh, [("self_attn.out_proj", "rows", "tp"), ("self_attn.*_proj", "columns", "tp"), ("linear1", "columns", "tp"),
                                ("linear2", "rows", "tp")])
    close(parallel(tensor(x, mesh)), alone)
    assert str(parallel.linear1.weight.placements[1]) == "S1"


def test_tables_and_products(mesh):
    table = nn.Embedding(10, 4, padding_idx=-10, dtype="float64").distribute(mesh)
    assert table.padding_idx == 0 and (table.weight.numpy()[0] == 0).all() and (table.weight.numpy()[1:] != 0).any()
    indices = np.array([[0, 3], [3, 9]])
    rows = table(wt.asarray(indices, mesh=mesh))
    close(rows, table.weight.numpy()[indices])
    rows.sum().backward()
    close(table.weight.grad, np.array([[i in (3, 9)] * 4 for i in range(10)]) * np.array([1, 1, 1, 2, 1, 1, 1, 1, 1, 1.0])[:, None])
    layer = nn.Bilinear(3, 4, 5, dtype="float64").distribute(mesh)
    x, y = values(2, 6, 3), values(2, 6, 4)
    close(layer(tensor(x, mesh), tensor(y, mesh)), np.einsum("abi,oij,abj->abo", x, layer.weight.numpy(), y) + layer.bias.numpy())
    with pytest.raises(ValueError, match="padding_idx"):
        nn.Embedding(3, 2, padding_idx=3)


def test_dropout(mesh):
    x = wt.ones(8, 50, 4, mesh=mesh, placements="S0,R")
    for layer in (nn.Dropout(0.5), nn.Dropout1d(0.5), nn.Dropout2d(0.5), nn.Dropout3d(0.5)):
        y = layer(x).numpy()
        assert set(np.unique(y)) == {0, 2} and 0.3 < (y == 0).mean() < 0.7
        if not isinstance(layer, nn.Dropout):
            assert (y == y[:, :, :1]).all() # whole channels
        close(layer.eval()(x), x.numpy())
    with pytest.raises(ValueError):
        nn.Dropout(1.5)


def test_containers():
    named = nn.Sequential({"first": nn.Linear(2, 3), "second": nn.ReLU()})
    assert [name for name, _ in named.named_parameters()] == ["first.weight", "first.bias"] and named(wt.ones(1, 2)).shape == (1, 3)
    assert len(named[:1]) == 1 and named[-1] is named.second and list(named) == [named.first, named.second]
    table = nn.ModuleDict({"a": nn.Linear(2, 2)})
    table["b"] = nn.Tanh()
    assert list(table) == list(table.keys()) == ["a", "b"] and "a" in table and len(table) == 2 and dict(table.items())["b"] is table["b"]
    weights = nn.ParameterList([wt.ones(2), nn.Parameter(wt.zeros(3))])
    assert [each.shape for each in weights] == [(2,), (3,)] and len(list(weights.parameters())) == 2 and weights[-1].requires_grad
    for wrong in (lambda: table(wt.ones(2)), lambda: weights(wt.ones(2)), lambda: nn.ModuleList()(wt.ones(2))):
        with pytest.raises(NotImplementedError):
            wrong()
    with pytest.raises(TypeError):
        table["c"] = 3


def test_initial_values():
    wt.manual_seed(2)
    w = nn.Parameter(wt.zeros(200, 300))
    for function, deviation in ((lambda: nn.init.normal_(w, 1.0, 2.0), 2), (lambda: nn.init.uniform_(w, -3, 3), 3**0.5),
                                (lambda: nn.init.xavier_uniform_(w), (2 / 500) ** 0.5),
                                (lambda: nn.init.xavier_normal_(w, 2.0), 2 * (2 / 500) ** 0.5),
                                (lambda: nn.init.kaiming_normal_(w, nonlinearity="relu"), 0.1),
                                (lambda: nn.init.kaiming_uniform_(w, 5**0.5, "fan_out"), (2 / 6 / 300) ** 0.5),
                                (lambda: nn.init.trunc_normal_(w, std=0.02), 0.02)):
        assert function() is w and abs(w.detach().numpy().std() / deviation - 1) < 0.02
    conv = nn.Parameter(wt.zeros(64, 32, 3, 3))
    nn.init.kaiming_normal_(conv, nonlinearity="linear")
    assert abs(conv.detach().numpy().std() * (32 * 9) ** 0.5 - 1) < 0.02
    values_ = nn.init.trunc_normal_(w, 0.5, 1.0, 0.0, 1.0).numpy()
    assert values_.min() >= 0 and values_.max() <= 1
    nn.init.constant_(w, 4), nn.init.ones_(conv)
    assert (w.numpy() == 4).all() and (conv.numpy() == 1).all() and (nn.init.zeros_(w).numpy() == 0).all()
    close(nn.init.eye_(nn.Parameter(wt.ones(2, 3))), np.eye(2, 3))
    assert abs(nn.init.calculate_gain("leaky_relu", 0.2) - (2 / 1.04) ** 0.5) < 1e-12
    for wrong in (lambda: nn.init.xavier_normal_(wt.zeros(3)), lambda: nn.init.calculate_gain("none"),
                  lambda: nn.init.kaiming_normal_(w, mode="fan")):
        with pytest.raises(ValueError):
            wrong()
