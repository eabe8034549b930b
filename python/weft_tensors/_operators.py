"""Operators of Tensor that have no way of their own."""
from __future__ import annotations

from typing import Any

from ._core import Tensor, _binary, _lib, _number, _scalar, compared, done, made, refused
from ._layouts import bool_
from ._numbers import with_number
from .indexing import get, put


def _install() -> None:
    """The operators that have no way of their own."""
    def binary(function: Any) -> Any:
        return lambda self, other: made(function(self, other)) if type(other) is Tensor else _binary(function, self, other)

    def equality(name: str) -> Any:
        compare = compared(with_number(f"weft_{name}_scalar"), getattr(_lib, f"weft_{name}"))

        def operator(self: Tensor, other: Any) -> Any:
            result = compare(self, other)
            if result is NotImplemented and other is not None:
                raise TypeError(f"a Tensor or a number is expected, not {type(other).__name__}")
            return result
        return operator

    def reflected(function: Any) -> Any:
        return lambda self, other: made(function(_scalar(other, self), self)) if _number(other) else refused(other)

    def logical(of_bool: Any, of_bits: Any) -> Any:
        def operator(self: Tensor, other: Any) -> Any:
            if not isinstance(other, Tensor):
                if not _number(other):
                    return refused(other)
                other = _scalar(other, self)
            return made((of_bool if self.dtype is bool_ and other.dtype is bool_ else of_bits)(self, other))
        return operator

    def in_place(function: Any, plain: str) -> Any:
        def operator(self: Tensor, other: Any) -> Any:
            if any(each.is_partial() for each in self.placements): # addends are not changed in place: a[i] += 1 puts the new value back
                return getattr(self, plain)(other)
            if function is not None and isinstance(other, Tensor):
                done(function(self, other, 1.0) if plain == "__add__" else function(self, other))
                return self
            result = getattr(self, plain)(other)
            if result is NotImplemented:
                return result
            done(_lib.weft_copy_inplace(self, result))
            return self
        return operator

    for name, function in {"floordiv": _lib.weft_floor_div, "mod": _lib.weft_remainder, "lshift": _lib.weft_bitwise_left_shift,
                           "rshift": _lib.weft_bitwise_right_shift}.items():
        setattr(Tensor, f"__{name}__", binary(function))
        setattr(Tensor, f"__r{name}__", reflected(function))
    for name in ("lt", "le", "gt", "ge"):
        setattr(Tensor, f"__{name}__", compared(with_number(f"weft_{name}_scalar"), getattr(_lib, f"weft_{name}")))
    for name in ("eq", "ne"): # Python would compare addresses where one is NotImplemented
        setattr(Tensor, f"__{name}__", equality(name))
    Tensor.__getitem__, Tensor.__setitem__ = get, put # type: ignore[method-assign, assignment]
    Tensor.__hash__ = object.__hash__ # type: ignore[assignment, method-assign]
    for name, pair in {"and": (_lib.weft_logical_and, _lib.weft_bitwise_and), "or": (_lib.weft_logical_or, _lib.weft_bitwise_or),
                       "xor": (_lib.weft_logical_xor, _lib.weft_bitwise_xor)}.items():
        setattr(Tensor, f"__{name}__", logical(*pair))
        setattr(Tensor, f"__r{name}__", logical(*pair))
    Tensor.__radd__ = Tensor.__add__ # type: ignore[assignment, attr-defined]
    Tensor.__rmul__ = Tensor.__mul__ # type: ignore[assignment, attr-defined]
    for name, function in {"sub": _lib.weft_sub, "truediv": _lib.weft_div, "pow": _lib.weft_pow}.items():
        setattr(Tensor, f"__r{name}__", reflected(function))
    in_places: dict[str, Any] = {"add": _lib.weft_add_inplace, "mul": _lib.weft_mul_inplace, "truediv": _lib.weft_div_inplace, "sub": None, "pow": None,
                           "floordiv": None, "mod": None, "and": None, "or": None, "xor": None, "matmul": None, "lshift": None,
                           "rshift": None}
    for name, function in in_places.items():
        setattr(Tensor, f"__i{name}__", in_place(function, f"__{name}__"))


_install()
