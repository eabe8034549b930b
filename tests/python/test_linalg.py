"""Linear algebra beside NumPy, and where they are installed SciPy and PyTorch: random batches, types and layouts, a large matrix that
ranks share, sparse products, and gradients by differences and beside PyTorch's."""

import numpy as np
import pytest
from conftest import LAYOUTS

import weft_tensors as wt
from weft_tensors import linalg

KINDS = ["float64", "complex128", "float32", "complex64"]


def values(generator, shape, kind):
    found = generator.standard_normal(shape)
    if kind.startswith("complex"):
        found = found + 1j * generator.standard_normal(shape)
    return found.astype(kind)


def adjoint(x):
    return np.conj(np.swapaxes(x, -1, -2))


def positive(x):
    """Hermitian and positive-definite, of x [..., n, n]."""
    return (x @ adjoint(x) + x.shape[-1] * np.eye(x.shape[-1])).astype(x.dtype)


def close(found, expected, kind, size=1.0):
    """`size`: what errors are relative to, beside the values: condition numbers."""
    found = found.numpy() if hasattr(found, "numpy") else found
    expected = np.asarray(expected)
    assert found.shape == expected.shape
    scale = max(1.0, float(np.max(np.abs(expected), initial=0))) * size
    np.testing.assert_allclose(found, expected, rtol=0, atol=(1e-4 if kind in ("float32", "complex64") else 1e-11) * scale)


class Case:
    """Random matrices [..., m, n], of any layout."""

    def __init__(self, seed, mesh, square=True):
        self.generator = np.random.default_rng(seed)
        self.kind = KINDS[seed % len(KINDS)]
        self.mesh = mesh
        self.batch = tuple(int(s) for s in self.generator.integers(1, 5, int(self.generator.integers(0, 3))))
        self.m = int(self.generator.integers(1, 9))
        self.n = self.m if square else int(self.generator.integers(1, 9))

    def tensor(self, x):
        if x.ndim < 2:
            return wt.asarray(x, mesh=self.mesh)
        return wt.asarray(x, mesh=self.mesh, placements=LAYOUTS[self.generator.integers(len(LAYOUTS))])

    def values(self, *last):
        return values(self.generator, self.batch + last, self.kind)

    def regular(self):
        """Far from singular: errors need no condition number."""
        return (self.values(self.n, self.n) * 0.3 + 2 * self.n**0.5 * np.eye(self.n)).astype(self.kind)


@pytest.mark.parametrize("seed", range(24))
def test_systems(mesh, seed):
    case = Case(seed, mesh)
    a, b = case.regular(), case.values(case.n, 3)
    x, y = case.tensor(a), case.tensor(b)
    close(linalg.solve(x, y), np.linalg.solve(a, b), case.kind)
    close(linalg.inv(x), np.linalg.inv(a), case.kind)
    close(linalg.det(x), np.linalg.det(a), case.kind)
    sign, logarithm = linalg.slogdet(x)
    expected = np.linalg.slogdet(a)
    close(sign, expected[0], case.kind)
    close(logarithm, expected[1], case.kind)
    close(linalg.matrix_power(x, 3), np.linalg.matrix_power(a, 3), case.kind)
    factors = linalg.lu_factor(x)
    close(linalg.lu_solve(*factors, y, adjoint=True), np.linalg.solve(adjoint(a), b), case.kind)


@pytest.mark.parametrize("seed", range(24))
def test_decompositions(mesh, seed):
    case = Case(100 + seed, mesh, square=False)
    a, b = case.values(case.m, case.n), case.values(case.m, 2)
    x, k = case.tensor(a), min(case.m, case.n)
    q, r = (part.numpy() for part in linalg.qr(x))
    close(q @ r, a, case.kind)
    close(adjoint(q) @ q, np.broadcast_to(np.eye(k), case.batch + (k, k)), case.kind)
    close(np.abs(r), np.abs(np.linalg.qr(a)[1] if not case.batch else np.stack(
        [np.linalg.qr(one)[1] for one in a.reshape(-1, case.m, case.n)]).reshape(r.shape)), case.kind, 1e3)
    q, r = (part.numpy() for part in linalg.qr(x, mode="complete"))
    close(q @ r, a, case.kind)
    close(adjoint(q) @ q, np.broadcast_to(np.eye(case.m), case.batch + (case.m, case.m)), case.kind)
    u, s, vh = (part.numpy() for part in linalg.svd(x, full_matrices=False))
    close(s, np.linalg.svd(a, compute_uv=False), case.kind)
    close((u * s[..., None, :]) @ vh, a, case.kind)
    assert (linalg.matrix_rank(x).numpy() == np.linalg.matrix_rank(a)).all()
    close(linalg.cond(x), np.linalg.cond(a), case.kind, 1e3 * float(np.max(s[..., 0] / s[..., -1])))
    condition = float(np.max(s[..., 0] / s[..., -1])) ** 2
    close(linalg.pinv(x), np.linalg.pinv(a), case.kind, condition)
    expected = np.linalg.pinv(a) @ b
    close(linalg.lstsq(x, case.tensor(b)), expected, case.kind, condition)
    close(linalg.lstsq(x, case.tensor(b), 0.0), expected, case.kind, condition)


@pytest.mark.parametrize("seed", range(24))
def test_hermitian(mesh, seed):
    case = Case(200 + seed, mesh)
    a = positive(case.values(case.n, case.n))
    x = case.tensor(a)
    close(linalg.cholesky(x), np.linalg.cholesky(a), case.kind)
    close(linalg.cholesky(x, upper=True), adjoint(np.linalg.cholesky(a)), case.kind)
    w, v = (part.numpy() for part in linalg.eigh(x))
    close(w, np.linalg.eigvalsh(a), case.kind)
    close((v * w[..., None, :]) @ adjoint(v), a, case.kind)


@pytest.mark.parametrize("placements", ["S0", "S1", "S1*64"])
def test_one_large_matrix(placements):
    """Shared by all ranks of a mesh of one dimension."""
    mesh = wt.Mesh((wt.world_size(),), ("all",))
    generator = np.random.default_rng(5)
    a, b = generator.standard_normal((530, 530)) / 23 + 2 * np.eye(530), generator.standard_normal((530, 2))
    x, y = wt.asarray(a, mesh=mesh, placements=placements), wt.asarray(b, mesh=mesh)
    close(linalg.solve(x, y), np.linalg.solve(a, b), "float64")
    q, r = (part.numpy() for part in linalg.qr(x))
    close(q @ r, a, "float64")
    close(np.abs(r), np.abs(np.linalg.qr(a)[1]), "float64", 1e2)
    spd = a @ a.T
    close(linalg.cholesky(wt.asarray(spd, mesh=mesh, placements=placements)), np.linalg.cholesky(spd), "float64")


@pytest.mark.parametrize("seed", range(12))
def test_beside_scipy(mesh, seed):
    scipy_linalg = pytest.importorskip("scipy.linalg")
    case = Case(300 + seed, mesh)
    case.batch = ()
    a, b = case.regular(), case.values(case.n, 3)
    x, y = case.tensor(a), case.tensor(b)
    lower, unit = bool(seed % 2), bool(seed % 3 == 0)
    close(linalg.solve_triangular(x, y, upper=not lower, unitriangular=unit),
          scipy_linalg.solve_triangular(a, b, lower=lower, unit_diagonal=unit), case.kind, 10.0**case.n if unit else 1)
    close(linalg.matrix_exp(x), scipy_linalg.expm(a.astype("complex128" if a.dtype.kind == "c" else "float64")), case.kind)
    p, lower_factor, upper_factor = linalg.lu(x)
    for found, expected in zip((p, lower_factor, upper_factor), scipy_linalg.lu(a)):
        close(found, expected, case.kind)


@pytest.mark.parametrize("seed", range(12))
def test_sparse_products(seed):
    """Random matrices, the rows of each rank as CSR; beside the dense product."""
    mesh = wt.Mesh((wt.world_size(),), ("all",))
    generator = np.random.default_rng(400 + seed)
    kind = KINDS[seed % len(KINDS)]
    rows, columns = (int(s) for s in generator.integers(1, 30, 2))
    dense = values(generator, (rows, columns), kind) * (generator.random((rows, columns)) < 0.3)
    ranks, parts = wt.world_size(), []
    step = -(-rows // ranks)

    class Rows:
        def __init__(self, block):
            found = [np.flatnonzero(row) for row in block]
            self.indptr = np.cumsum([0] + [len(one) for one in found]).astype("int32")
            self.indices = np.concatenate(found + [np.empty(0, int)]).astype("int32")
            self.data = np.concatenate([row[one] for row, one in zip(block, found)] + [np.empty(0, kind)]).astype(kind)
            self.shape = block.shape

    first = wt.process_index() * (ranks // wt.num_processes()) if ranks % wt.num_processes() == 0 else None
    if first is None:
        pytest.skip("ranks are not shared out evenly")
    for rank in range(first, first + ranks // wt.num_processes()):
        parts.append(Rows(dense[min(rows, rank * step):min(rows, (rank + 1) * step)]))
    a = wt.SparseMatrix(parts, shape=(rows, columns), mesh=mesh)
    x, y = values(generator, (columns, 2), kind), values(generator, (rows,), kind)
    close(a @ wt.asarray(x, mesh=mesh), dense @ x, kind)
    close(a.T @ wt.asarray(y, mesh=mesh), dense.T @ y, kind)


LOSSES = {
    "solve": lambda la, a, b: la.solve(a, b),
    "inv": lambda la, a, b: la.inv(a),
    "det": lambda la, a, b: la.det(a),
    "cholesky": lambda la, a, b: la.cholesky(a @ a.mT + 9 * b @ b.mT),
    "qr": lambda la, a, b: la.qr(a)[1],
    "eigh": lambda la, a, b: la.eigh(a + a.mT)[0],
    "svd": lambda la, a, b: la.svd(a, full_matrices=False)[1],
    "pinv": lambda la, a, b: la.pinv(a),
    "matrix_exp": lambda la, a, b: la.matrix_exp(a),
    "eig": lambda la, a, b: abs(la.eig(a)[0]),
    "cond": lambda la, a, b: la.cond(a),
}


def loss_and_gradient(mesh, name, a, b, placements):
    x, y = wt.asarray(a, mesh=mesh, placements=placements), wt.asarray(b, mesh=mesh)
    x.requires_grad = True
    result = LOSSES[name](linalg, x, y)
    loss = wt.sum(result * result)
    return loss, wt.gradients(loss, x)[0].numpy()


@pytest.mark.parametrize("name", LOSSES)
def test_gradients_by_differences(mesh, name):
    generator = np.random.default_rng(11)
    a, b = generator.standard_normal((4, 4)) + 3 * np.eye(4), generator.standard_normal((4, 4)) + 2 * np.eye(4)
    gradient = loss_and_gradient(mesh, name, a, b, "S0,S1")[1]
    step = 1e-5
    for _ in range(4):
        direction = generator.standard_normal((4, 4))
        either = [float(loss_and_gradient(mesh, name, a + sign * step * direction, b, "R,S0")[0].item()) for sign in (1, -1)]
        difference = (either[0] - either[1]) / (2 * step)
        assert abs(difference - float(np.sum(gradient * direction))) <= 1e-6 * max(1.0, abs(difference))


@pytest.mark.parametrize("name", LOSSES)
def test_gradients_beside_torch(mesh, name):
    torch = pytest.importorskip("torch")
    generator = np.random.default_rng(12)
    a, b = generator.standard_normal((5, 5)) + 3 * np.eye(5), generator.standard_normal((5, 5)) + 2 * np.eye(5)

    class Names:
        """torch.linalg, and what torch has elsewhere."""
        def __getattr__(self, function):
            return getattr(torch.linalg, function)

    x, y = torch.tensor(a, requires_grad=True), torch.tensor(b)
    (LOSSES[name](Names(), x, y) ** 2).sum().backward()
    close(loss_and_gradient(mesh, name, a, b, "S1,S0")[1], x.grad.numpy(), "float64")
