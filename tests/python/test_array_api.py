"""Names of the array API standard (2023.12): each is there, or among what weft lacks; results beside array-api-strict, or NumPy where it is not
installed."""

import numpy as np
import pytest

import weft_tensors as wt

try:
    import array_api_strict as strict
except ImportError:
    strict = None

# What weft has no function for, and why.
LACKS = {
    "types that it lacks": "int8 int16 uint16 uint32 uint64",
}
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


def both(name, *arrays, **options):
    """The results of a function here and there."""
    here = getattr(wt, name)(*[wt.asarray(each, placements="S0" if each.ndim else None) if isinstance(each, np.ndarray) else each for each in arrays], **options)
    if strict is not None:
        there = getattr(strict, name)(*[strict.asarray(each) if isinstance(each, np.ndarray) else each for each in arrays], **options)
        convert = lambda value: np.asarray(value) if not isinstance(value, (tuple, list)) else [np.asarray(each) for each in value] # noqa: E731
        there = convert(there)
    else:
        old = {"acos": "arccos", "acosh": "arccosh", "asin": "arcsin", "asinh": "arcsinh", "atan": "arctan", "atan2": "arctan2", "atanh": "arctanh",
               "bitwise_invert": "invert", "bitwise_left_shift": "left_shift", "bitwise_right_shift": "right_shift", "pow": "power"}
        there = getattr(np, old.get(name, name))(*arrays, **options)
    return here, there


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


def test_other_functions():
    if strict is None:
        pytest.skip("array-api-strict is not installed; test_tensors.py compares these with NumPy")
    x, square, vector = np.random.default_rng(3).standard_normal((4, 3)), np.random.default_rng(4).standard_normal((3, 3)), np.arange(6.0)
    calls = [("sum", x), ("sum", x, {"axis": 1}), ("prod", x, {"axis": 0, "keepdims": True}), ("mean", x), ("max", x, {"axis": 1}), ("min", x),
             ("std", x), ("var", x, {"axis": 0, "correction": 1.0}), ("any", x > 0, {"axis": 0}), ("all", x > 0), ("argmax", x, {"axis": 1}), ("argmin", x),
             ("argsort", x, {"axis": 0}), ("sort", x, {"axis": 1, "descending": True}), ("cumulative_sum", x, {"axis": 0, "include_initial": True}),
             ("reshape", x, (2, 6)), ("permute_dims", x, (1, 0)), ("expand_dims", x, {"axis": -1}), ("squeeze", x[:1], 0), ("flip", x, {"axis": 1}),
             ("roll", x, 2), ("roll", x, (1, -1), {"axis": (0, 1)}), ("tile", x, (2, 2)), ("moveaxis", x, 0, 1), ("broadcast_to", vector[:3], (4, 3)),
             ("matmul", x, square), ("matrix_transpose", x), ("tensordot", x, square, {"axes": 1}), ("vecdot", x, x), ("tril", square, {"k": -1}),
             ("triu", square), ("clip", x, -0.5, 0.5), ("where", x > 0, x, x * 2), ("take", x, np.asarray([2, 0]), {"axis": 0}), ("nonzero", x > 0),
             ("unstack", x, {"axis": 1}), ("logical_not", x > 0), ("logical_and", x > 0, x < 1), ("logical_or", x > 0, x < -1), ("logical_xor", x > 0, x < 1),
             ("meshgrid", vector, vector[:2]), ("meshgrid", vector, vector[:2], {"indexing": "ij"}), ("astype", x), ("zeros_like", x), ("ones_like", x),
             ("full_like", x, 3.0)]
    for name, *arguments in calls:
        options = arguments.pop() if isinstance(arguments[-1], dict) else {}
        if name == "astype":
            np.testing.assert_array_equal(wt.astype(wt.asarray(x), wt.int64).numpy(), np.asarray(strict.astype(strict.asarray(x), strict.int64)))
            continue
        here, there = both(name, *arguments, **options)
        for first, second in zip(here if isinstance(here, (tuple, list)) else [here], there if isinstance(there, list) else [there]):
            np.testing.assert_allclose(first.numpy(), second, rtol=1e-12, err_msg=f"{name} {options}")
            assert first.shape == second.shape and str(first.dtype.name) == str(second.dtype), f"{name}: {first.dtype}, {second.dtype}"
    for name, *arguments in (("arange", 5), ("arange", 1, 8, 3), ("linspace", 0.0, 1.0, 5), ("eye", 3), ("full", (2, 2), 7), ("zeros", (2, 3)), ("ones", 4)):
        np.testing.assert_allclose(getattr(wt, name)(*arguments).numpy(), np.asarray(getattr(strict, name)(*arguments)), err_msg=name)
