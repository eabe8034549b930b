"""Names of the array API standard (2023.12): each is there, or among what weft lacks; results beside array-api-strict, or numpy.array_api,
its
predecessor, or NumPy."""

import operator
import warnings

import numpy as np
import pytest

import weft_tensors as wt

try:
    import array_api_strict as strict
except ImportError:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore") # it says that it is experimental
            import numpy.array_api as strict
    except ImportError:
        strict = None

# What weft has no function for, and why.
LACKS: dict = {}
STANDARD = """abs acos acosh add all any arange argmax argmin argsort asarray asin asinh astype atan atan2 atanh bitwise_and bitwise_invert bitwise_left_shift
bitwise_or bitwise_right_shift bitwise_xor broadcast_arrays broadcast_to can_cast ceil clip concat conj copysign cos cosh cumulative_sum divide e empty
empty_like equal exp expand_dims expm1 eye finfo flip float32 float64 floor floor_divide from_dlpack full full_like greater greater_equal hypot iinfo imag inf
int16 int32 int64 int8 isdtype isfinite isinf isnan less less_equal linspace log log10 log1p log2 logaddexp logical_and logical_not logical_or logical_xor matmul
matrix_transpose max maximum mean meshgrid min minimum moveaxis multiply nan negative newaxis nonzero not_equal ones ones_like permute_dims pi positive pow
prod real remainder repeat reshape result_type roll round searchsorted sign signbit sin sinh sort sqrt square squeeze stack std subtract sum take tan tanh
tensordot tile tril triu trunc uint16 uint32 uint64 uint8 unique_all unique_counts unique_inverse unique_values unstack var vecdot where zeros zeros_like bool
complex64 complex128""".split()


def test_every_name_is_there():
    lacking = {name for names in LACKS.values() for name in names.split()}
    assert {name for name in STANDARD if not hasattr(wt, name)} <= lacking
    assert not {name for name in lacking if name in STANDARD and hasattr(wt, name)}
    assert wt.ones(1).__array_namespace__() is wt


OLD_NAMES = {"acos": "arccos", "acosh": "arccosh", "asin": "arcsin", "asinh": "arcsinh", "atan": "arctan", "atan2": "arctan2",
             "atanh": "arctanh", "bitwise_invert": "invert", "bitwise_left_shift": "left_shift", "bitwise_right_shift": "right_shift",
             "pow": "power", "concat": "concatenate", "permute_dims": "transpose"}
LAYOUTS = {0: [None], 1: ["S0,R", "R,S0"], 2: ["S0,R", "R,S1", "S1,S0"]}


def converted(value):
    return [np.asarray(each) for each in value] if isinstance(value, (tuple, list)) else np.asarray(value)


def on_each(make, value):
    """make(value) of an array, or of each in a list of arrays; other arguments stay."""
    return [make(each) for each in value] if isinstance(value, list) else make(value) if isinstance(value, np.ndarray) else value


def expected(name, arrays, options):
    """What the oracle returns; None if none of the oracles that are here has the function."""
    if strict is not None and hasattr(strict, name):
        given = [on_each(strict.asarray, each) for each in arrays]
        return converted(getattr(strict, name)(*given, **options))
    function = getattr(np, OLD_NAMES.get(name, name), None)
    return converted(function(*arrays, **options)) if function is not None else None


def both(name, *arrays, mesh=None, layout=None, **options):
    """The results of a function here and there."""
    def here(value):
        chosen = layout or ("S0" if mesh is None else "S0,R")
        return wt.asarray(value, mesh=mesh, placements=chosen if value.ndim else None)

    given = [on_each(here, each) for each in arrays]
    return getattr(wt, name)(*given, **options), expected(name, arrays, options)


def same(name, here, there, tolerance=1e-12):
    for first, second in zip(here if isinstance(here, (tuple, list)) else [here], there if isinstance(there, list) else [there]):
        np.testing.assert_allclose(first.numpy(), second, rtol=tolerance, atol=tolerance, err_msg=name)
        assert first.shape == second.shape and str(first.dtype.name) == str(second.dtype), f"{name}: {first.dtype}, {second.dtype}"


UNARY = {"any": "abs ceil floor negative positive round sign square trunc isfinite isinf isnan".split(),
         "real": "atan asinh cos cosh exp expm1 sin sinh tan tanh signbit".split(),
         "positive": "log log10 log1p log2 sqrt".split(), "unit": "acos asin atanh".split(), "above one": ["acosh"]}


@pytest.mark.parametrize("kind", ["float64", "float32", "int64", "int32", "uint8"])
def test_unary_functions(kind):
    generator = np.random.default_rng(1)
    domains = {"any": (-9, 9), "real": (-5, 5), "positive": (0.1, 9), "unit": (-0.99, 0.99), "above one": (1, 9)}
    for domain, names in UNARY.items():
        low, high = domains[domain]
        if not kind.startswith("float"):
            if domain != "any":
                continue
            low = 0 if kind == "uint8" else low
        x = generator.uniform(low, high, (5, 3)).astype(kind)
        for name in names:
            if kind == "uint8" and name == "negative":
                continue
            here, there = both(name, x)
            np.testing.assert_allclose(here.numpy(), there, rtol=1e-12 if kind == "float64" else 3e-6, err_msg=name)
            if strict is not None: # NumPy 1 gives floating results of whole numbers
                assert str(here.dtype.name) == str(there.dtype), name


BINARY = "add subtract multiply divide floor_divide remainder pow maximum minimum equal not_equal less less_equal greater greater_equal".split()
OF_REAL, OF_INTEGERS = "atan2 copysign hypot logaddexp".split(), "bitwise_and bitwise_or bitwise_xor bitwise_left_shift bitwise_right_shift".split()


@pytest.mark.parametrize("kind", ["float64", "float32", "int64", "int32"])
def test_binary_functions(kind):
    generator = np.random.default_rng(2)
    x, y = generator.uniform(1, 9, (5, 3)).astype(kind), generator.uniform(1, 4, (3,)).astype(kind)
    for name in BINARY + (OF_REAL if kind.startswith("float") else OF_INTEGERS):
        if name == "divide" and not kind.startswith("float"):
            continue
        here, there = both(name, x, y)
        np.testing.assert_allclose(here.numpy(), there, rtol=1e-12 if kind != "float32" else 3e-6, err_msg=name)
        assert str(here.dtype.name) == str(there.dtype), name


X, SQUARE, VECTOR = np.random.default_rng(3).standard_normal((4, 6)), np.random.default_rng(4).standard_normal((6, 6)), np.arange(6.0)
SORTED, WHOLE = np.array([1.0, 2.0, 2.0, 5.0]), np.random.default_rng(5).integers(-4, 5, (4, 6))
CALLS = [
    ("sum", X), ("sum", X, {"axis": 1}), ("sum", WHOLE), ("sum", WHOLE.astype("int32"), {"axis": (0, 1), "keepdims": True}),
    ("prod", X, {"axis": 0, "keepdims": True}),
    ("mean", X), ("mean", X, {"axis": (0,)}), ("max", X, {"axis": 1}), ("max", WHOLE), ("min", X), ("std", X),
    ("std", X, {"correction": 1.0}),
    ("var", X, {"axis": 0, "correction": 1.0}), ("any", X > 0, {"axis": 0}), ("all", X > 0), ("all", WHOLE, {"axis": 1, "keepdims": True}),
    ("argmax", X, {"axis": 1}), ("argmin", X), ("argmax", WHOLE, {"axis": 0, "keepdims": True}), ("argsort", X, {"axis": 0}),
    ("argsort", WHOLE),
    ("argsort", X, {"descending": True}), ("sort", X, {"axis": 1, "descending": True}), ("sort", WHOLE, {"axis": 0}),
    ("cumulative_sum", X, {"axis": 0, "include_initial": True}), ("cumulative_sum", VECTOR), ("cumulative_prod", X, {"axis": 1}),
    ("reshape", X, (2, 12)), ("reshape", X, (-1,)), ("permute_dims", X, (1, 0)), ("expand_dims", X, {"axis": -1}),
    ("expand_dims", X, {"axis": 1}),
    ("squeeze", X[:1], 0), ("flip", X, {"axis": 1}), ("flip", X), ("roll", X, 2), ("roll", X, (1, -1), {"axis": (0, 1)}),
    ("roll", X, 3, {"axis": -1}),
    ("tile", X, (2, 2)), ("tile", X, (2,)), ("moveaxis", X, 0, 1), ("broadcast_to", VECTOR[:3], (4, 3)), ("concat", [X, X]),
    ("concat", [X, X], {"axis": 1}),
    ("concat", [X, X], {"axis": None}), ("stack", [X, X], {"axis": 1}), ("stack", [VECTOR, VECTOR]), ("unstack", X, {"axis": 1}),
    ("repeat", X, 2),
    ("repeat", X, 3, {"axis": 1}), ("matmul", X, SQUARE), ("matmul", VECTOR, SQUARE), ("matrix_transpose", X),
    ("tensordot", X, SQUARE, {"axes": 1}),
    ("tensordot", X, X, {"axes": ((0, 1), (0, 1))}), ("vecdot", X, X), ("vecdot", X + 1j, X - 2j), ("tril", SQUARE, {"k": -1}),
    ("tril", SQUARE), ("triu", SQUARE, {"k": 2}),
    ("clip", X, -0.5, 0.5), ("clip", WHOLE, -1, None), ("where", X > 0, X, X * 2), ("take", X, np.asarray([2, 0]), {"axis": 0}),
    ("take", VECTOR, np.asarray([2, 0, 2])),
    ("nonzero", X > 0), ("nonzero", WHOLE), ("logical_not", X > 0), ("logical_and", X > 0, X < 1), ("logical_or", X > 0, X < -1),
    ("logical_xor", X > 0, X < 1),
    ("meshgrid", VECTOR, VECTOR[:2]), ("meshgrid", VECTOR, VECTOR[:2], {"indexing": "ij"}), ("zeros_like", X), ("ones_like", WHOLE),
    ("full_like", X, 3.0),
    ("unique_values", WHOLE), ("unique_counts", WHOLE), ("unique_inverse", WHOLE), ("unique_all", WHOLE), ("unique_values", X),
    ("searchsorted", SORTED, X), ("searchsorted", SORTED, np.array([2.0, 9.0]), {"side": "right"}), ("real", X + 1j), ("imag", X - 2j),
    ("conj", X + 3j),
    ("broadcast_arrays", X, VECTOR), ("bitwise_invert", WHOLE), ("bitwise_invert", X > 0), ("isfinite", np.where(WHOLE > 0, X, np.inf)),
    ("signbit", X),
    ("abs", X + 1j),
    ("exp", X + 1j), ("sqrt", X + 1j), ("log", X + 1j), ("sin", X + 1j), ("cos", X + 1j), ("tanh", X + 1j), ("multiply", X, X + 1j),
    ("divide", X + 1j, X - 1j),
    ("equal", X + 0j, X), ("count_nonzero", WHOLE, {"axis": 1}), ("diff", X), ("take_along_axis", X, np.argsort(X), {"axis": 1})]


@pytest.mark.filterwarnings("ignore")
def test_other_functions(mesh):
    compared = 0
    for name, *arguments in CALLS:
        options = arguments.pop() if isinstance(arguments[-1], dict) else {}
        array = arguments[0][0] if isinstance(arguments[0], list) else arguments[0]
        for layout in LAYOUTS[array.ndim]:
            fits = all(each.ndim == array.ndim for each in arguments[1:] if isinstance(each, np.ndarray))
            try:
                here, there = both(name, *arguments, mesh=mesh, layout=layout if fits else "R,R", **options)
            except (TypeError, AttributeError, IndexError) as error:
                if "array_api" in type(error).__module__ or strict is None or strict.__name__ == "numpy.array_api": # an older standard
                    continue
                raise
            if there is not None:
                same(f"{name} {options} {layout}", here, there, 1e-9)
                compared += 1
    assert compared > 150
    for name, *arguments in (("arange", 5), ("arange", 1, 8, 3), ("arange", 5, 0, -2), ("linspace", 0.0, 1.0, 5), ("eye", 3),
                             ("full", (2, 2), 7),
                             ("full", (2,), True), ("zeros", (2, 3)), ("ones", 4)):
        np.testing.assert_allclose(getattr(wt, name)(*arguments).numpy(), getattr(np, name)(*arguments), err_msg=name)


TYPES = ["bool", "uint8", "int32", "int64", "float32", "float64", "complex64", "complex128"]
OPERATORS = [operator.add, operator.sub, operator.mul, operator.truediv, operator.floordiv, operator.mod, operator.pow, operator.and_,
             operator.or_, operator.xor, operator.lshift, operator.rshift, operator.lt, operator.le, operator.gt, operator.ge, operator.eq,
             operator.ne]


def test_promotion():
    """Within a kind of types, the standard's table is NumPy's; int64 and uint8, too."""
    kinds = [["bool"], ["uint8", "int32", "int64"], ["float32", "float64"], ["complex64", "complex128"],
             ["float32", "float64", "complex64", "complex128"]]
    for names in kinds:
        for first in names:
            for second in names:
                promoted = np.promote_types(first, second).name
                assert wt.result_type(getattr(wt, first), getattr(wt, second)).name == promoted
                a, b = wt.ones(2, dtype=first), wt.ones(2, dtype=second)
                assert (a * b).dtype.name == promoted and wt.where(a == b, a,
                                                                   b).dtype.name == promoted and wt.concat([a, b]).dtype.name == promoted
                assert wt.can_cast(a, getattr(wt, promoted))
    for name in TYPES:
        kind = getattr(wt, name)
        assert wt.astype(wt.ones(2, dtype="int32"), kind).dtype is kind and wt.zeros(2, dtype=kind).dtype is kind and kind == np.dtype(name)
        for sort, fits in (("bool", name == "bool"), ("numeric", name != "bool"), ((kind, "bool"), True),
                           ("real floating", name.startswith("float")),
                           ("complex floating", name.startswith("complex"))):
            assert wt.isdtype(kind, sort) == fits
    assert wt.finfo(wt.float32).eps == np.finfo("float32").eps
    assert wt.iinfo(wt.int32).max == 2**31 - 1 and wt.finfo(wt.complex128).bits == 64


@pytest.mark.parametrize("name", TYPES)
def test_operators(mesh, name):
    """Tensors, numbers on both sides, and in place, beside NumPy: where the standard says what the result is."""
    generator = np.random.default_rng(6)
    x, y = ((generator.integers(0, 2, (4, 6)) if name == "bool" else generator.integers(1, 5, (4, 6))).astype(name) for _ in range(2))
    kind = np.dtype(name).kind
    numbers = {"b": [True], "u": [2], "i": [2], "f": [2, 1.5], "c": [2, 1.5, 1 + 2j]}[kind]
    allowed = {"b": OPERATORS[7:10] + OPERATORS[16:], "u": OPERATORS[:3] + OPERATORS[4:], "i": OPERATORS[:3] + OPERATORS[4:],
               "f": OPERATORS[:7] + OPERATORS[12:], "c": OPERATORS[:4] + OPERATORS[6:7] + OPERATORS[16:]}[kind]
    tolerance = 1e-12 if name in ("float64", "complex128") else 1e-5
    for layouts in (("S0,R", "R,S1"), ("S1,S0", "S1,S0")):
        a, b = (wt.asarray(each, mesh=mesh, placements=layout) for each, layout in zip((x, y), layouts))
        for function in allowed:
            same(function.__name__, function(a, b), function(x, y), tolerance)
            for number in numbers:
                if kind == "u" and function is operator.sub:
                    continue
                typed = x.dtype.type(number)
                same(f"{function.__name__} {number}", function(a, number), function(x, typed), tolerance)
                same(f"{number} {function.__name__}", function(number, a), function(typed, x), tolerance)
    in_place = (operator.iand, operator.ior, operator.ixor) if kind == "b" else (operator.iadd, operator.imul, operator.isub, operator.ipow)
    for function in in_place:
        a, copy = wt.asarray(x, mesh=mesh, placements="S0,R"), x.copy()
        found, there = function(a, wt.asarray(y, mesh=mesh)), function(copy, y)
        assert found is a
        same(function.__name__, a, there, tolerance)
    for function, other in ((operator.neg, operator.neg), (operator.pos, operator.pos), (abs, abs)):
        if kind not in "bu":
            same(function.__name__, function(wt.asarray(x, mesh=mesh, placements="S0,S1")), other(x), tolerance)


def test_extensions(mesh):
    a, square, x = wt.asarray(X, mesh=mesh, placements="S0,S1"), wt.asarray(SQUARE, mesh=mesh, placements="S0,R"), X
    for found, there in (
            (wt.linalg.vector_norm(a, axis=1), np.linalg.norm(x, axis=1)),
            (wt.linalg.vector_norm(a, ord=1, keepdims=True), np.abs(x).sum().reshape(1, 1)),
            (wt.linalg.vector_norm(a, ord=float("inf"), axis=0), np.abs(x).max(0)),
            (wt.linalg.vector_norm(a, ord=float("-inf")), np.abs(x).min()),
            (wt.linalg.vector_norm(a, ord=-1, axis=1), np.linalg.norm(x, -1, 1)), (wt.linalg.matrix_norm(a), np.linalg.norm(x)),
            (wt.linalg.matrix_norm(a, ord=1), np.linalg.norm(x, 1)),
            (wt.linalg.matrix_norm(a, ord=float("inf")), np.linalg.norm(x, np.inf)),
            (wt.linalg.norm(a), np.linalg.norm(x)), (wt.linalg.norm(a, 1), np.linalg.norm(x, 1)),
            (wt.linalg.norm(a, 3, dim=1), np.linalg.norm(x, 3, 1)),
            (wt.linalg.norm(a, "fro", dim=(0, 1)), np.linalg.norm(x)), (wt.linalg.diagonal(square, offset=1), np.diagonal(SQUARE, 1)),
            (wt.linalg.trace(square), np.trace(SQUARE)), (wt.linalg.outer(a[0], a[1]), np.outer(x[0], x[1])),
            (wt.linalg.cross(a[:, :3], a[:, 3:]), np.cross(x[:, :3], x[:, 3:])),
            (wt.linalg.cross(a[:3], a[1:], axis=0), np.cross(x[:3], x[1:], axis=0)),
            (wt.linalg.matrix_power(square, 5), np.linalg.matrix_power(SQUARE, 5)), (wt.linalg.matrix_power(square, 0), np.eye(6)),
            (wt.linalg.multi_dot([a, square, square]), x @ SQUARE @ SQUARE), (wt.linalg.vecdot(a, a), (x * x).sum(1)),
            (wt.fft.fft(a, axis=0), np.fft.fft(x, axis=0)), (wt.fft.ifftn(wt.fft.fftn(a, axes=(0, 1)), axes=(0, 1)).real, x),
            (wt.fft.irfft2(wt.fft.rfft2(a, axes=(0, 1))), x), (wt.fft.fftshift(a, axes=1), np.fft.fftshift(x, axes=1))):
        np.testing.assert_allclose(found.numpy(), there, rtol=1e-9, atol=1e-12)
    for wrong in (lambda: wt.linalg.matrix_norm(a, ord=3), lambda: wt.linalg.cross(a, a), lambda: wt.linalg.qr(a, mode="r"), lambda: wt.linalg.svd(a), lambda: wt.linalg.eigh(square, "X"),
                  lambda: wt.linalg.norm(a, "fro", dim=(1, 0))):
        with pytest.raises(ValueError):
            wrong()


@pytest.mark.parametrize("name", ["float32", "float64", "complex64", "complex128"])
def test_decompositions(mesh, name):
    x = np.random.default_rng(5).normal(size=(3, 4, 4)).astype(name)
    x = x + 1j * x[::-1] if np.dtype(name).kind == "c" else x
    x = (x + 3 * np.eye(4)).astype(name)
    hermitian = (x + np.conj(np.swapaxes(x, 1, 2))) / 2
    a, h = (wt.asarray(each, mesh=mesh, placements="S0,S2") for each in (x, hermitian))
    tolerance = 1e-10 if name in ("float64", "complex128") else 2e-3
    q, r = wt.linalg.qr(a[:, :, :3])
    u, s, vh = wt.linalg.svd(a[:, :3], full_matrices=False)
    values, vectors = wt.linalg.eigh(h)
    sign, logarithm = wt.linalg.slogdet(a)
    positive = a @ wt.linalg.matrix_transpose(wt.conj(a)) if np.dtype(name).kind == "c" else a @ wt.linalg.matrix_transpose(a)
    factor = wt.linalg.cholesky(positive)
    vector = wt.asarray(x[0, 0], mesh=mesh)
    p, lower, upper = wt.linalg.lu(a)
    packed, pivots = wt.linalg.lu_factor(a)
    for found, there in (
            (wt.linalg.solve(a, h), np.linalg.solve(x, hermitian)), (wt.linalg.inv(a), np.linalg.inv(x)), (wt.linalg.det(a), np.linalg.det(x)),
            (sign, np.linalg.slogdet(x)[0]), (logarithm, np.linalg.slogdet(x)[1]), (wt.linalg.pinv(a[:, :2]), np.linalg.pinv(x[:, :2])),
            (values, np.linalg.eigvalsh(hermitian)), (wt.linalg.eigvalsh(h, UPLO="U"), np.linalg.eigvalsh(hermitian)),
            (s, np.linalg.svd(x[:, :3], compute_uv=False)), (wt.linalg.svdvals(a), np.linalg.svd(x, compute_uv=False)),
            (q @ r, x[:, :, :3]), (p @ (lower @ upper), x), (wt.linalg.lu_solve(packed, pivots, h), np.linalg.solve(x, hermitian)), ((u * s.unsqueeze(-2)) @ vh, x[:, :3]), (h @ vectors, hermitian @ vectors.numpy()),
            (wt.linalg.matrix_power(a, -2), np.linalg.matrix_power(x, -2)), (factor, np.linalg.cholesky(positive.numpy())),
            (wt.linalg.cholesky_solve(h, factor), np.linalg.solve(positive.numpy(), hermitian)),
            (wt.linalg.solve_triangular(factor, h, upper=False), np.linalg.solve(factor.numpy(), hermitian)),
            (wt.linalg.solve(a, vector), np.linalg.solve(x, x[0, 0][None, :, None])[..., 0]),
            (wt.linalg.lstsq(a[0, :, :2], vector), np.linalg.lstsq(x[0, :, :2], x[0, 0], rcond=None)[0]),
            (wt.linalg.matrix_exp(a * 0), np.broadcast_to(np.eye(4), (3, 4, 4)))):
        np.testing.assert_allclose(found.numpy(), there, rtol=tolerance, atol=tolerance)


def test_singular_matrices(mesh):
    a = wt.zeros((3, 3), dtype=wt.float64, mesh=mesh)
    with pytest.raises(Exception, match="a is singular: pivot 0 is 0"):
        wt.linalg.inv(a).numpy()


def test_inquiries():
    info = wt.__array_namespace_info__()
    assert info.default_device() in info.devices() and info.capabilities()["boolean indexing"]
    assert info.default_dtypes()["real floating"] is wt.float32 and set(info.dtypes(kind="integral")) == {f"{sign}int{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64)}
    assert wt.ones(1).device == "cpu" and wt.ones(1).to_device("cpu").shape == (1,)
