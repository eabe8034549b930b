#!/usr/bin/env python3
"""Writes the parts of the Python package that follow from api.json.

usage: generate.py api API.json           _api.py: values, structs, and the types of all functions
       generate.py functions API.json     functions.py: a Python function for each operation on tensors
"""
import json
import keyword
import re
import sys
import textwrap
from pathlib import Path

NUMBERS = {"int": "c_int", "unsigned": "c_uint", "int64_t": "c_int64", "uint64_t": "c_uint64", "size_t": "c_size_t",
           "double": "c_double", "float": "c_float", "bool": "c_bool", "char": "c_char"}

# Functions of these headers work on tensors alone, and are made here. The others are written by hand.
HEADERS = ["elementwise", "complex", "reductions", "indexing", "shapes", "products", "images", "nn", "losses", "random", "tensor"]
# Written by hand in tensor.py, arrays.py or random.py, because Python has habits of its own there.
BY_HAND = {"weft_scope_keep", "weft_from_local", "weft_from_local_even", "weft_from_local_ex", "weft_distribute", "weft_redistribute",
           "weft_tensor_unflatten", "weft_split", "weft_chunk", "weft_scale", "weft_add_scalar",
           "weft_matmul_ex", "weft_select", "weft_attention_with_log_sums", "weft_movedim",
           "weft_cat", "weft_fake_like", "weft_squeeze", "weft_to_type", "weft_bernoulli_scalar", "weft_dropout2d",
           "weft_clamp", "weft_clamp_tensors", "weft_masked_fill_tensor", "weft_lerp_tensor", "weft_eq_scalar", "weft_ne_scalar",
           "weft_slice", "weft_lt_scalar", "weft_le_scalar", "weft_gt_scalar", "weft_ge_scalar", "weft_pow_scalar", "weft_scatter_scalar"}
# The package has functions of these names with the arguments of the array API standard, made from these (array_api.py, arrays.py).
REPLACED = set(("acos acosh arange argmax argmin argsort asin asinh atan atanh bincount bitwise_and bitwise_or bitwise_xor cumprod "
                "cumsum empty empty_like eye flip full full_like linspace max mean median min nonzero ones ones_like quantile rand "
                "rand_like randint randn randn_like roll round scatter sort stack std tensordot tril triu var where "
                "zeros zeros_like").split())
# Parameters that may be left out, with their values. A tensor that may be NULL is None.
DEFAULTS = {
    "keepdim": "False", "alpha": "1.0", "beta": "1.0", "factor": "1.0", "reduction": "'mean'", "epsilon": "1e-5", "correction": "1.0",
    "descending": "False", "largest": "True", "include_self": "True", "accumulate": "False", "log_target": "False",
    "training": "True", "diagonal": "0", "offset": "0", "p": "2.0", "bias": "None", "gain": "None", "weight": "None", "pos_weight": "None",
    "rtol": "1e-5", "atol": "1e-8", "equal_nan": "False", "start": "None", "stop": "None", "mean": "0.0", "deviation": "1.0",
    "delta": "1.0", "ignore_index": "-100", "momentum": "0.1", "running_mean": "None", "running_var": "None", "theta": "10000.0",
    "first_position": "0", "slope": "0.01", "way": "'linear'", "mode": "'constant'", "value": "0.0", "weights": "None",
    "output_padding": "0", "kind": "'frobenius'", "nan": "0.0", "threshold": "20.0"}
# Where a name means something else.
OWN_DEFAULTS = {
    ("weft_prelu", "weight"): None, ("weft_lerp", "weight"): None, ("weft_linear", "weight"): None, ("weft_conv1d", "weight"): None,
    ("weft_conv2d", "weight"): None, ("weft_conv3d", "weight"): None, ("weft_conv_transpose1d", "weight"): None,
    ("weft_conv_transpose2d", "weight"): None, ("weft_conv_transpose3d", "weight"): None, ("weft_full", "value"): None,
    ("weft_full_like", "value"): None, ("weft_masked_fill", "value"): None, ("weft_index_fill", "value"): None,
    ("weft_fill_inplace", "value"): None, ("weft_arange", "start"): None, ("weft_arange", "stop"): None, ("weft_slice", "start"): None,
    ("weft_slice", "stop"): None, ("weft_linspace", "start"): None, ("weft_linspace", "stop"): None, ("weft_dropout", "p"): "0.5",
    ("weft_normalize", "epsilon"): "1e-12", ("weft_cosine_similarity", "epsilon"): "1e-8", ("weft_rms_norm", "epsilon"): "1e-6",
    ("weft_normalize", "dim"): "1", ("weft_cosine_similarity", "dim"): "1", ("weft_huber", "delta"): "1.0", ("weft_bernoulli", "p"): None,
    ("weft_softmax", "dim"): "-1", ("weft_log_softmax", "dim"): "-1", ("weft_glu", "dim"): "-1", ("weft_sort", "dim"): "-1",
    ("weft_argsort", "dim"): "-1", ("weft_topk", "dim"): "-1", ("weft_elu", "alpha"): "1.0", ("weft_flatten", "first"): "0",
    ("weft_flatten", "last"): "-1", ("weft_diagonal", "dim1"): "0", ("weft_diagonal", "dim2"): "1", ("weft_stack", "dim"): "0",
    ("weft_scatter_reduce", "reduction"): None, ("weft_uniform_inplace", "low"): "0.0", ("weft_uniform_inplace", "high"): "1.0",
    ("weft_nan_to_num", "posinf"): "3.4028234663852886e38", ("weft_nan_to_num", "neginf"): "-3.4028234663852886e38",
    ("weft_unsqueeze", "dim"): None, ("weft_lerp_inplace", "weight"): None, ("weft_kl_div", "target"): None,
    ("weft_addcmul", "factor"): "1.0", ("weft_scale_inplace", "factor"): None, ("weft_hdf5", "path"): None}
# Of the reductions: over one dimension, several, or all.
REDUCED = ["sum", "prod", "mean", "max", "min", "any", "all", "norm", "var", "std", "logsumexp", "nansum", "nanmean"]
TYPED = {"sum", "prod", "nansum"}  # those that take a type to compute in
# zeros(2, 3) and zeros((2, 3)) are the same.
VARARGS = {f"weft_{name}" for name in ("empty", "zeros", "ones", "rand", "randn", "fake", "reshape", "permute", "expand", "einsum")}
RETURNED = {"indices"}  # outputs by pointer that Python returns beside the result; others are left out


def load(path):
    return json.loads(Path(path).read_text(encoding="utf-8"))


# ---- _api.py ----
def ctype(declared, api, result=False):
    """The ctypes type of a parameter, a field or a result."""
    kind, pointers, array = declared["type"], declared["pointers"], declared["array"]
    structs = {struct["name"] for struct in api["structs"]}
    callbacks = {callback["name"] for callback in api["callbacks"]}
    enums = {enum["name"] for enum in api["enums"]}
    if kind == "char" and pointers == 1 and not array:
        return "c_char_p"
    if pointers or (array and 0 in array):
        return "c_void_p"
    base = NUMBERS.get(kind) or (kind if kind in structs else "c_int" if kind in enums else "c_void_p" if kind in callbacks else None)
    if base is None:
        raise SystemExit(f"generate.py: no ctypes type for {declared['c']}")
    for count in reversed(array):
        base = f"{base} * {count}" if not result else "c_void_p"
    return base


def result_type(text, api):
    plain = re.sub(r"\b(const|struct)\b", "", text).strip()
    if plain == "void":
        return "None"
    if plain == "char *":
        return "c_char_p"
    if plain.endswith("*"):
        return "c_void_p"
    return ctype({"type": plain, "pointers": 0, "array": [], "c": text}, api)


def member(enum, name):
    """linear, of WEFT_QUANTILE_LINEAR: what its siblings share is left out."""
    names = list(enum["values"])
    words = [each.split("_") for each in names]
    shared = 0
    while len(names) > 1 and all(len(word) > shared + 1 and word[shared] == words[0][shared] for word in words):
        shared += 1
    return "_".join(name.split("_")[shared if len(names) > 1 else 1:])


# What weft_scalar has besides its fields. Floating numbers come first: most are.
SCALAR = '''
    @classmethod
    def from_param(cls, number: object) -> weft_scalar: # type: ignore[override]
        """A number as C takes it: whole numbers keep their 64 bits, larger ones become floating ones."""
        if type(number) is float:
            return cls(_F64, number, 0.0, 0)
        if type(number) is int and -2**63 <= number < 2**63: # the usual ones first: a question to an abstract class takes longer than a call
            return cls(_I64, 0.0, 0.0, number)
        if isinstance(number, cls):
            return number
        if isinstance(number, numbers.Complex) and not isinstance(number, numbers.Real): # NumPy's, too
            return cls(_C128, float(number.real), float(number.imag), 0)
        try:
            whole = operator.index(number) # type: ignore[arg-type]
        except TypeError:
            return cls(_F64, float(number), 0.0, 0) # type: ignore[arg-type]
        return cls(_I64, 0.0, 0.0, whole) if -2**63 <= whole < 2**63 else cls(_F64, float(whole), 0.0, 0)


_F64, _C128, _I64 = int(weft_dtype.F64), int(weft_dtype.C128), int(weft_dtype.I64)'''.splitlines()


def api_module(api):
    out = ['"""Made from api.json: values, structs and functions of weft\'s C library."""', "from __future__ import annotations", "",
           "import ctypes", "import enum", "import numbers", "import operator", "from ctypes import (Structure, c_bool, c_char, c_char_p, c_double, c_float, c_int, c_int64, c_size_t, c_uint,",
           "                    c_uint64, c_void_p)", "", f"VERSION = {api['version']!r}"]
    for name, value in api["constants"].items():
        if isinstance(value, int):
            out.append(f"{name.removeprefix('WEFT_')} = {value}")
    for each in api["enums"]:
        if not each["name"]:
            out += [f"{name.removeprefix('WEFT_')} = {value}" for name, value in each["values"].items()]
    for each in api["enums"]:
        if each["name"]:
            out += ["", "", f"class {each['name']}(enum.IntEnum):"]
            out += [f"    {member(each, name)} = {value}" for name, value in each["values"].items()]
    done = set()

    def write(struct):
        if struct["name"] in done:
            return
        done.add(struct["name"])
        for field in struct["fields"]:
            for other in api["structs"]:
                if other["name"] == field["type"] and not field["pointers"]:
                    write(other)
        out.extend(["", "", f"class {struct['name']}(Structure):", "    _fields_ = ["])
        out.extend(f"        ({field['name']!r}, {ctype(field, api)})," for field in struct["fields"])
        out.append("    ]")
        if struct["name"] == "weft_scalar":
            out.extend(SCALAR)

    for struct in api["structs"]:
        write(struct)
    out += ["", "", "DEFAULTS = {"]
    for each in api["defaults"]:
        values = {name: value for name, value in each["values"].items() if value not in (None, 0, False)}
        out.append(f"    {each['name'].removesuffix('_init')!r}: {values!r},")
    out += ["}", "", "", "def declare(library: ctypes.CDLL) -> None:", '    """Gives each function its types."""', "    for name, result, arguments in FUNCTIONS:",
            "        function = getattr(library, name)", "        function.restype = result", "        function.argtypes = arguments", "", "", "FUNCTIONS = ["]
    for function in api["functions"]:
        arguments = ", ".join(ctype(parameter, api, True) for parameter in function["parameters"])
        out.append(f"    ({function['name']!r}, {result_type(function['result'], api)}, [{arguments}]),")
    return "\n".join([*out, "]", ""])


# ---- functions.py ----
class Function:
    """How one Python function calls one function of C."""

    def __init__(self, api, function):
        self.api, self.name, self.function = api, function["name"], function
        self.structs = {struct["name"]: struct for struct in api["structs"]}
        self.enums = {enum["name"]: enum for enum in api["enums"]}
        self.required, self.optional, self.keywords, self.before, self.actuals, self.outputs = [], [], [], [], [], []
        self.tensors = [] # names, and whether each may be left out
        self.checked_mesh = False
        parameters, position = function["parameters"], 0
        while position < len(parameters):
            position += self.parameter(parameters, position)

    def argument(self, name, kind, default=None):
        shown = name + "_" if keyword.iskeyword(name) else name
        own = (self.name, name)
        default = OWN_DEFAULTS[own] if own in OWN_DEFAULTS else DEFAULTS.get(name, default)
        (self.required if default is None else self.optional).append(
            f"{shown}: {kind}" if default is None else f"{shown}: {kind}{' | None' if default == 'None' else ''} = {default}")
        return shown

    def parameter(self, parameters, position):
        """Writes the parameter at `position`; how many of C's it covers."""
        each = parameters[position]
        following = parameters[position + 1] if position + 1 < len(parameters) else None
        name, kind = each["name"], each["type"]
        if kind == "int" and not each["array"] and following and following["array"] == [0] and following["type"] in ("int64_t", "int", "weft_tensor"):
            return self.counted(parameters, position)
        if kind == "weft_mesh":
            self.keywords += ["mesh: Mesh | None = None", "placements: Placements = None"]
            self.before.append("mesh, placements = resolve(mesh, placements)")
            self.actuals += ["mesh", "placements"]
            return 2
        if kind == "weft_dtype":
            if self.function["header"] in ("weft/tensor.h", "weft/random.h"):
                self.keywords.append("dtype: DType | None = None")
                default = "int64" if self.name in ("weft_randint", "weft_randperm") else "float32"
                self.before.append(f"dtype = {default} if dtype is None else dtype")
            else:
                self.required.append("dtype: DType")
            self.actuals.append("dtype | WITH_GRAD if requires_grad else dtype" if self.makes_leaf() else "dtype")
            return 1
        if kind == "weft_tensor" and each["pointers"] == 2:
            self.outputs.append(name)
            if name in RETURNED:
                self.before.append(f"{name} = c_void_p()")
            self.actuals.append(f"byref({name})" if name in RETURNED else "None")
        elif kind == "weft_tensor":
            shown = self.argument(name, "Tensor")
            self.tensors.append((shown, f"{shown}: Tensor" not in self.required))
            self.actuals.append(shown)
        elif kind == "weft_scalar":
            self.actuals.append(self.argument(name, "float"))
        elif kind in self.structs:
            self.options(self.structs[kind])
        elif kind in self.enums:
            shown = self.argument(name, "str")
            self.actuals.append(f"choose(_api.{kind}, {shown}, {name!r})")
        elif each["array"]:
            shown = self.argument(name, "int | Sequence[int]")
            self.actuals.append(f"sized({shown}, {each['array'][0]}, {name!r})")
        elif kind == "char":
            self.actuals.append(f"{self.argument(name, 'str')}.encode()")
        else:
            self.actuals.append(self.argument(name, {"double": "float", "bool": "bool"}.get(kind, "int")))
        return 1

    def makes_leaf(self):
        return any(each["type"] == "weft_mesh" for each in self.function["parameters"]) and "dtype" in \
            [each["name"] for each in self.function["parameters"]] and self.name not in ("weft_fake", "weft_randint")

    def counted(self, parameters, position):
        """A count, then the arrays of that length."""
        covered = position + 1
        self.actuals.append("")
        count = len(self.actuals) - 1
        while covered < len(parameters) and parameters[covered]["array"] == [0]:
            each = parameters[covered]
            kinds = {"int64_t": ("Sequence[int]", "int64s"), "int": ("Sequence[int]", "ints"), "weft_tensor": ("Sequence[Tensor]", "handles")}
            kind, convert = kinds[each["type"]]
            if self.name in VARARGS:
                shown = each["name"]
                self.required.append(f"*{shown}: {kind.removeprefix('Sequence[')[:-1]} | {kind}")
            else:
                shown = self.argument(each["name"], kind)
            self.before.append(f"{shown}_ = {convert}({shown})")
            self.actuals.append(f"{shown}_")
            if not self.actuals[count]:
                self.actuals[count] = f"len({shown}_)"
            else:
                self.before.append(f"same_length({self.actuals[count]}, len({shown}_), {shown!r})")
            covered += 1
        return covered - position

    def options(self, struct):
        fields = [field for field in struct["fields"] if field["name"] != "size"]
        own = next((each["values"] for each in self.api["defaults"] if each["name"] == f"{struct['name']}_init"), {})
        pairs = []
        for field in fields:
            kind, value = field["type"], own.get(field["name"]) or 0
            shown = field["name"]
            if kind == "weft_tensor":
                self.keywords.append(f"{shown}: Tensor | None = None")
            elif kind in self.enums:
                text = member(self.enums[kind], next(name for name, each in self.enums[kind]["values"].items() if each == value)).lower()
                self.keywords.append(f"{shown}: str = {text!r}")
                shown = f"choose(_api.{kind}, {shown}, {shown!r})"
            elif field["array"]:
                one = 1 if shown in ("stride", "dilation") and struct["name"].startswith("weft_convolution") else 0
                self.keywords.append(f"{shown}: int | Sequence[int] = {one}" if kind != "double" else f"{shown}: float | Sequence[float] = 0")
            else:
                value = value or (1 if shown == "groups" else 0)
                kinds = {"double": ("float", repr(float(value))), "bool": ("bool", repr(bool(value)))}
                text, default = kinds.get(kind, ("int", repr(int(value))))
                self.keywords.append(f"{shown}: {text} = {default}")
            pairs.append(f"{field['name']}={shown}")
        self.before.append(f"options = fill(_api.{struct['name']}, {', '.join(pairs)})")
        self.actuals.append("byref(options)")

    def text(self):
        name = self.name.removeprefix("weft_")
        in_place = name.endswith("_inplace")
        shown = name.removesuffix("_inplace") + "_" if in_place else name
        keywords = self.keywords + (["requires_grad: bool = False"] if self.makes_leaf() else [])
        star = ["*"] if keywords and self.name not in VARARGS else []
        arguments = ", ".join(self.required + self.optional + star + keywords)
        returned = [output for output in self.outputs if output in RETURNED]
        kind = "Tensor" if not returned else "WithIndices"
        out = [f"def {shown}({arguments}) -> {kind}:", docstring(self.function["doc"])]
        operands = [each["name"] for each in self.function["parameters"] if each["type"] == "weft_tensor"][-2:]
        numbers = self.function["header"] in ("weft/elementwise.h", "weft/losses.h") and operands == ["a", "b"] or self.name == "weft_mse"
        if numbers and in_place:
            out[0] = out[0].replace("b: Tensor", "b: Tensor | float")
            out.append("    b = operands(tensor(a, 'a'), b)[1]")
        elif numbers:
            out[0] = out[0].replace("a: Tensor, b: Tensor", "a: Tensor | float, b: Tensor | float")
            out.append("    if type(a) is not Tensor or type(b) is not Tensor:")
            out.append("        a, b = operands(a, b)")
        for each, left_out in self.tensors:
            if not (numbers and each in ("a", "b")):
                out.append(f"    if type({each}) is not Tensor{f' and {each} is not None' if left_out else ''}:")
                out.append(f"        tensor({each}, {each!r})")
        out += [f"    {line}" for line in self.before]
        call = f"_lib.{self.name}({', '.join(self.actuals)})"
        first = self.required[0].split(":")[0] if self.required else ""
        if in_place:
            out += [f"    done({call}, {self.name!r})", f"    return {first}"]
        elif returned:
            out += [f"    result = made({call}, {self.name!r})",
                    f"    return WithIndices(result, made({returned[0]}.value, {self.name!r}))"]
        else:
            out.append(f"    return made({call}, {self.name!r})")
        return "\n".join(out)


TYPES = {"F64": "float64", "F32": "float32", "BF16": "bfloat16", "F16": "float16", "I64": "int64", "I32": "int32", "U8": "uint8", "BOOL": "bool", "C64": "complex64",
         "C128": "complex128", "I8": "int8", "I16": "int16", "U16": "uint16", "U32": "uint32", "U64": "uint64", "F8_E4M3": "float8_e4m3fn",
         "F8_E5M2": "float8_e5m2"}


def docstring(doc):
    """The C comment in Python's words: without examples in C, with arguments and types as Python has them."""
    paragraphs, parts = re.split(r"\n\s*\n", doc.strip()), []
    for paragraph in paragraphs:
        lines = paragraph.splitlines()
        if all(line.startswith("    ") for line in lines) and re.search(r"weft_\w+\(|;", paragraph):
            continue # an example in C
        out = []
        for line in lines:
            named = re.match(r"\\param\s+(\w+)\s+(.*)", line)
            if named:
                out.append(f"{named[1]}: {named[2]}")
            elif line.startswith("\\return"):
                out.append("Returns " + line.removeprefix("\\return").strip())
            elif out and line.startswith("    "):
                out[-1] += " " + line.strip()
            elif out and not re.match(r"\s*- ", line) and not re.match(r"\s*- ", out[-1]):
                out[-1] += " " + line.strip()
            else:
                out.append(line)
        parts.append("\n".join(textwrap.fill(line.strip(), 116, subsequent_indent="    " if re.match(r"\w+: |- ", line.strip()) else "")
                               for line in out))
    text = re.sub(r" *(For example|Example)[^.\n]*:$", "", "\n\n".join(parts), flags=re.MULTILINE).strip()
    text = re.sub(r"\bweft_(\w+?)_inplace\(\)", r"\1_()", text)
    text = re.sub(r"\bweft_(\w+)\b", r"\1", text)
    text = re.sub(r"\bWEFT_(\w+)\b", lambda match: TYPES.get(match[1], "None" if match[1] == "ALL_DIMS" else match[1]), text)
    text = re.sub(r" *`options`: NULL for defaults\.", "", text)
    text = re.sub(r"\bNULL\b", "None", text).replace("\\", "\\\\").replace('"' * 3, "\'" * 3)
    lines = [line.rstrip() for line in text.splitlines()] or [""]
    if len(lines) == 1:
        return f'    """{lines[0]}"""' if not lines[0].endswith('"') else f'    """{lines[0]} """'
    return "\n".join([f'    """{lines[0]}'] + [f"    {line}".rstrip() for line in lines[1:]] + ['    """'])


def reduction(api, name):
    """A reduction over one dimension, several or all."""
    one = next(each for each in api["functions"] if each["name"] == f"weft_{name}")
    order = [parameter["name"] for parameter in one["parameters"]]
    arguments = ["a: Tensor"] + ["p: float = 2.0"] * ("p" in order) + ["axis: Axes = None"]
    arguments += ["correction: float = 1.0"] * ("correction" in order)
    arguments += ["keepdims: bool = False", "*", "dim: Axes = None", "keepdim: bool | None = None"]
    converted = []
    if name in TYPED:
        arguments.append("dtype: DType | None = None")
        converted = ["    if dtype is not None:",
                     f"        return {name}(a.astype(dtype), axis, keepdims, dim=dim, keepdim=keepdim).astype(dtype)"]
    actuals = ["keepdims" if each == "keepdim" else each for each in order]
    return "\n".join([
        f"def {name}({', '.join(arguments)}) -> Tensor:", docstring(one["doc"]),
        "    if type(a) is not Tensor:", "        tensor(a, 'a')", *converted,
        "    dims, keepdims = axes(axis, dim), keepdims if keepdim is None else keepdim",
        "    if dims is None: # over nothing: over a dimension of one", "        a, dims, keepdims = made(_lib.weft_unsqueeze(a, -1)), -1, False",
        f"    return made(_lib.weft_{name}({', '.join(actuals)}), 'weft_{name}')"])


def functions_module(api):
    functions = []
    for each in api["functions"]:
        name, header = each["name"], each["header"].removeprefix("weft/").removesuffix(".h")
        short = name.removeprefix("weft_")
        if each["result"] != "weft_tensor *" or header not in HEADERS or name in BY_HAND:
            continue
        if short in REDUCED:
            continue
        functions.append(Function(api, each).text())
    functions += [reduction(api, name) for name in REDUCED]
    names = sorted(re.match(r"def (\w+)", each)[1] for each in functions)
    listed = textwrap.fill(", ".join(repr(name) for name in names if name not in REPLACED), 116, initial_indent="    ", subsequent_indent="    ")
    head = '''"""Made from api.json: operations on tensors. They return at once; values are there when they are asked for."""
from __future__ import annotations

from collections.abc import Sequence
from ctypes import byref, c_void_p

from . import _api
from ._core import (Axes, DType, Mesh, Placements, Tensor, WithIndices, _lib, axes, choose, done, fill, float32, int64, int64s, ints, made,
                    operands, resolve, same_length, sized, tensor)
from ._core import tensors as handles
from ._api import WITH_GRAD
'''
    return head + f"\n__all__ = [\n{listed},\n]\n\n\n" + "\n\n\n".join(functions) + "\n"


def main():
    if len(sys.argv) != 3 or sys.argv[1] not in ("api", "functions"):
        sys.exit(__doc__)
    sys.stdout.write({"api": api_module, "functions": functions_module}[sys.argv[1]](load(sys.argv[2])))


if __name__ == "__main__":
    main()
