"""Element types, placements, meshes; arguments for C."""
from __future__ import annotations

import ctypes
import math
import operator
from collections.abc import Iterator, Sequence
from ctypes import c_int, c_int64
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Optional, Union

import numpy

from . import _api, _library
from ._library import check, choose, failure, lib as _lib, start, world

if TYPE_CHECKING:
    from typing_extensions import TypeGuard

WITH_GRAD = _api.WITH_GRAD


# ---- element types ----
class DType(int):
    """An element type: float64, float32, bfloat16, float16, int64, int32, int16, int8, uint64, uint32, uint16, uint8, bool, complex64, complex128;
    float8_e4m3fn and float8_e5m2, which are for storage."""

    name: str
    itemsize: int
    numpy: Optional[numpy.dtype]
    memory: numpy.dtype # as its elements lie in memory: the bits of types that NumPy lacks
    is_floating_point: bool
    is_complex: bool

    def __repr__(self) -> str:
        return f"weft_tensors.{self.name}"

    __str__ = __repr__

    def __eq__(self, other: object) -> bool:
        if isinstance(other, (DType, int)):
            return int.__eq__(self, other)
        try:
            return int.__eq__(self, dtype_of(other))
        except TypeError:
            return False

    def __ne__(self, other: object) -> bool:
        return not self == other

    __hash__ = int.__hash__

    def __bool__(self) -> bool:
        return True

    def __reduce__(self) -> Any:
        return dtype_of, (self.name,)


def _dtype(value: int, name: str, kind: Optional[str]) -> DType:
    made_type = DType(value)
    made_type.name, made_type.itemsize = name, _lib.weft_dtype_size(value)
    made_type.numpy = numpy.dtype(kind) if kind else None
    made_type.memory = made_type.numpy or numpy.dtype(f"u{made_type.itemsize}")
    made_type.is_floating_point, made_type.is_complex = "float" in name, "complex" in name
    return made_type


_kinds = _api.weft_dtype
float64, float32 = _dtype(_kinds.F64, "float64", "f8"), _dtype(_kinds.F32, "float32", "f4")
bfloat16, float16 = _dtype(_kinds.BF16, "bfloat16", None), _dtype(_kinds.F16, "float16", "f2")
int64, int32, uint8 = _dtype(_kinds.I64, "int64", "i8"), _dtype(_kinds.I32, "int32", "i4"), _dtype(_kinds.U8, "uint8", "u1")
bool_ = _dtype(_kinds.BOOL, "bool", "?")
complex64, complex128 = _dtype(_kinds.C64, "complex64", "c8"), _dtype(_kinds.C128, "complex128", "c16")
int8, int16 = _dtype(_kinds.I8, "int8", "i1"), _dtype(_kinds.I16, "int16", "i2")
uint16, uint32, uint64 = _dtype(_kinds.U16, "uint16", "u2"), _dtype(_kinds.U32, "uint32", "u4"), _dtype(_kinds.U64, "uint64", "u8")
float8_e4m3fn, float8_e5m2 = _dtype(_kinds.F8_E4M3, "float8_e4m3fn", None), _dtype(_kinds.F8_E5M2, "float8_e5m2", None)
DTYPES = [float64, float32, bfloat16, float16, int64, int32, uint8, bool_, complex64, complex128, int8, int16, uint16, uint32, uint64,
          float8_e4m3fn, float8_e5m2]
_of_numpy = {dtype.numpy: dtype for dtype in DTYPES if dtype.numpy is not None}


def dtype_of(given: Any) -> DType:
    """A DType of one, or of NumPy's (ml_dtypes' too), Python's or a name."""
    if isinstance(given, DType):
        return given
    if isinstance(given, str):
        for dtype in DTYPES:
            if given in (dtype.name, _lib.weft_dtype_name(dtype).decode()): # "float32", "f32"
                return dtype
    try:
        found = numpy.dtype(given)
    except TypeError:
        raise TypeError(f"dtype: {given!r} is no element type") from None
    if found in _of_numpy:
        return _of_numpy[found]
    for dtype in (bfloat16, float8_e4m3fn, float8_e5m2):
        if found.name == dtype.name:
            return dtype
    raise TypeError(f"dtype: weft has no {found}; it has {', '.join(dtype.name for dtype in DTYPES)}")


# ---- placements ----
class Placement:
    """How a tensor is laid out along one dimension of a mesh: Shard(dim), Replicate() or Partial(op)."""

    def is_shard(self, dim: Optional[int] = None) -> bool:
        return isinstance(self, Shard) and dim in (None, self.dim)

    def is_replicate(self) -> bool:
        return isinstance(self, Replicate)

    def is_partial(self) -> bool:
        return isinstance(self, Partial)


@dataclass(frozen=True)
class Cyclic:
    """A cut into blocks of rows that are dealt in turn, the first one to coordinate `first` of the mesh dimension (ScaLAPACK)."""

    block: int
    first: int = 0

    def __post_init__(self) -> None:
        for name, least in (("block", 1), ("first", 0)):
            number = operator.index(getattr(self, name))
            if not least <= number < (2**63 if name == "block" else 2**31):
                raise ValueError(f"{name}: {number} is out of range, expected at least {least}")
            object.__setattr__(self, name, number)

    def __str__(self) -> str:
        return f"*{self.block}+{self.first}" if self.first else f"*{self.block}"


@dataclass(frozen=True)
class Shard(Placement):
    """Each rank holds a part of tensor dimension `dim`; negative counts from the end.

    cut: "chunks" of ceil(n / p) rows, as torch.chunk cuts; "balanced", n / p rows and one more in the first n % p parts, as most MPI
    programs cut; the sizes of the parts, one for each rank of the mesh dimension: Shard(0, (3, 0, 5)); Cyclic(block), blocks of rows
    that are dealt in turn; "zigzag", chunks c and 2p - 1 - c of 2p for coordinate c.

    period: the cut is that of so many rows, and repeats; 0: it does not. A tensor of shape (2, 10) with the placement Shard(1) has
    Shard(0, period=10) when its dimensions are made one.

    level: of several mesh dimensions that shard one tensor dimension, the one of the lowest level cuts first, and of one level the
    leftmost one.
    """

    dim: int
    cut: Union[str, Cyclic, tuple[int, ...]] = "chunks"
    level: int = 0
    period: int = 0

    def __post_init__(self) -> None:
        dim = operator.index(self.dim)
        if not -1000 < dim < 1000:
            raise ValueError(f"dim: {dim} is no dimension")
        object.__setattr__(self, "dim", dim)
        level = operator.index(self.level)
        if not 0 <= level < 1000:
            raise ValueError(f"level: {level} is out of range, expected 0 to 999")
        object.__setattr__(self, "level", level)
        period = operator.index(self.period)
        if not 0 <= period < 2**63:
            raise ValueError(f"period: {period} is out of range, expected 0 to 2**63 - 1")
        object.__setattr__(self, "period", period)
        if isinstance(self.cut, str):
            if self.cut not in ("chunks", "balanced", "zigzag"):
                raise ValueError(f"cut: {self.cut!r} is neither \"chunks\", \"balanced\" nor \"zigzag\"")
            return
        if isinstance(self.cut, Cyclic):
            return
        try:
            sizes = tuple(map(operator.index, self.cut))
        except TypeError:
            raise TypeError(f"cut: {self.cut!r} is no name of a cut, no Cyclic(block), and no tuple of sizes") from None
        if any(not 0 <= size < 2**63 for size in sizes):
            raise ValueError(f"cut: {sizes} has sizes out of range, expected 0 to 2**63 - 1")
        object.__setattr__(self, "cut", sizes)

    def __repr__(self) -> str:
        cut = "" if self.cut == "chunks" else f", {self.cut!r}"
        level, period = f", level={self.level}" if self.level else "", f", period={self.period}" if self.period else ""
        return f"Shard({self.dim}{cut}{level}{period})"

    def __str__(self) -> str:
        if isinstance(self.cut, tuple):
            cut = f"{{{','.join(map(str, self.cut))}}}"
        else:
            cut = str(self.cut) if isinstance(self.cut, Cyclic) else {"chunks": "", "balanced": "=", "zigzag": "z"}[self.cut]
        return f"S{self.dim}{cut}{f'%{self.period}' if self.period else ''}{f'@{self.level}' if self.level else ''}"

    def _of_c(self) -> _api.weft_placement:
        if isinstance(self.cut, tuple):
            placement = _lib.weft_shard_sizes(self.dim, len(self.cut), (c_int64 * len(self.cut))(*self.cut))
        else:
            placement = _lib.weft_shard(self.dim)
            placement.cut = _api.weft_cut_kind["CYCLIC" if isinstance(self.cut, Cyclic) else self.cut.upper()]
        if isinstance(self.cut, Cyclic):
            placement.block, placement.first = self.cut.block, self.cut.first
        placement.level, placement.period = self.level, self.period
        return placement

    def _has_runs(self) -> bool:
        return isinstance(self.cut, Cyclic) or self.cut == "zigzag" or self.period > 0


@dataclass(frozen=True)
class Replicate(Placement):
    """Every rank holds the same values."""

    def __str__(self) -> str:
        return "R"


@dataclass(frozen=True)
class Partial(Placement):
    """Each rank holds an addend; the value is their reduction: "sum", "avg", "prod", "min" or "max"."""

    op: str = "sum"

    def __str__(self) -> str:
        return "P" if self.op == "sum" else f"P({self.op})"


Placements = Union[None, str, Placement, Sequence[Union[Placement, str]]]
Axes = Union[None, int, Sequence[int]]
_arrays: dict[tuple[Placement, ...], Any] = {}


def _placement_array(placements: Placements, count: int) -> Any:
    """An array for C of `count` placements; NULL for None."""
    if placements is None:
        return None
    if isinstance(placements, Placement):
        placements = (placements,)
    elif isinstance(placements, str):
        parsed = (_api.weft_placement * max(count, 1))()
        check(_lib.weft_placements_parse(placements.encode(), count, parsed))
        return parsed
    elif not isinstance(placements, (tuple, list)):
        raise TypeError(f"placements: {placements!r} is no text as \"S0,R\", no placement, and no list of placements")
    elif any(isinstance(each, str) for each in placements):
        return _placement_array(",".join(map(str, placements)), count)
    key = tuple(placements)
    array = _arrays.get(key)
    if array is None:
        array = (_api.weft_placement * max(len(key), 1))()
        for i, each in enumerate(key):
            slot = array[i]
            if isinstance(each, Shard):
                array[i] = each._of_c()
            elif isinstance(each, Partial):
                slot.kind, slot.op = _api.weft_placement_kind.PARTIAL, choose(_api.weft_reduce_op, each.op, "op")
            elif not isinstance(each, Replicate):
                raise TypeError(f"placements: {each!r} is none of Shard(dim), Replicate(), Partial(op)")
        if len(_arrays) < 1000:
            _arrays[key] = array
    if len(key) != count:
        raise ValueError(f"placements: {len(key)} are given, but the mesh has {count} dimension{'s' if count != 1 else ''}")
    return array


def _placement(slot: _api.weft_placement) -> Placement:
    if slot.kind == _api.weft_placement_kind.SHARD:
        if slot.cut == _api.weft_cut_kind.SIZES:
            sizes = ctypes.POINTER(c_int64)()
            count = _lib.weft_placement_sizes(slot, ctypes.byref(sizes))
            return Shard(slot.dim, tuple(sizes[:count]), slot.level, slot.period)
        if slot.cut == _api.weft_cut_kind.CYCLIC or slot.block > 0:
            return Shard(slot.dim, Cyclic(slot.block, slot.first), slot.level, slot.period)
        return Shard(slot.dim, _api.weft_cut_kind(slot.cut).name.lower(), slot.level, slot.period)
    return Replicate() if slot.kind == _api.weft_placement_kind.REPLICATE else Partial(_api.weft_reduce_op(slot.op).name.lower())


# ---- meshes ----
class Mesh:
    """An n-D array of ranks with optional dimension names.

    Mesh((2, 2), ("dp", "tp")) has the ranks 0 to 3, row-major; `ranks` chooses others. All processes create the same meshes in the
    same order. ``with mesh:`` makes it the mesh of calls that name none.
    """

    __slots__ = ("_as_parameter_", "ndim", "shape")

    def __init__(self, shape: Union[int, Sequence[int]], names: Optional[Sequence[Optional[str]]] = None,
                 ranks: Optional[Sequence[int]] = None) -> None:
        start()
        sizes, texts = int64s(shape), _texts(names)
        if texts is not None and len(texts) != len(sizes):
            raise ValueError(f"names: {len(texts)} are given, but the mesh has {len(sizes)} dimensions")
        if ranks is None:
            self._set(_lib.weft_mesh_create(len(sizes), sizes, texts))
        else:
            chosen = ints(ranks)
            if len(chosen) != math.prod(sizes):
                raise ValueError(f"ranks: {len(chosen)} are given, but the mesh has {math.prod(sizes)}")
            self._set(_lib.weft_mesh_of_ranks(len(sizes), sizes, chosen, texts))

    def _set(self, handle: Optional[int]) -> Mesh:
        if not handle:
            raise failure()
        self._as_parameter_ = handle
        self.ndim = _lib.weft_mesh_ndim(handle)
        self.shape = tuple(_lib.weft_mesh_size(handle, dim) for dim in range(self.ndim))
        return self

    @classmethod
    def _of(cls, handle: Optional[int]) -> Mesh:
        return cls.__new__(cls)._set(handle)

    @property
    def names(self) -> tuple[Optional[str], ...]:
        """The names of the dimensions; None where one has none."""
        texts = [_lib.weft_mesh_dim_name(self, dim) for dim in range(self.ndim)]
        return tuple(text.decode() if text is not None else None for text in texts)

    mesh_dim_names = names

    @property
    def ranks(self) -> list[int]:
        """The ranks of the mesh, row-major."""
        array = (c_int * _lib.weft_mesh_num_ranks(self))()
        check(_lib.weft_mesh_ranks(self, array))
        return list(array)

    def size(self, dim: Optional[int] = None) -> int:
        """The number of ranks, or the size of a dimension."""
        return math.prod(self.shape) if dim is None else self.shape[dim]

    def coordinate(self, rank: Optional[int] = None) -> Optional[tuple[int, ...]]:
        """Where a rank is (this process's first one, unless another is named); None outside the mesh."""
        array = (c_int64 * max(self.ndim, 1))()
        found = _lib.weft_mesh_coordinate(self, _lib.weft_first_rank() if rank is None else rank, array)
        if not found and _lib.weft_last_status(): # there is no such rank
            raise failure()
        return tuple(array[:self.ndim]) if found else None

    get_coordinate = coordinate

    def __getitem__(self, names: Union[str, Sequence[str]]) -> Mesh:
        """The sub-mesh along the named dimensions that contains this process's first rank."""
        return self.submesh((names,) if isinstance(names, str) else names)

    def submesh(self, names: Sequence[str], rank: Optional[int] = None) -> Mesh:
        """The sub-mesh along the named dimensions that contains `rank`."""
        names = (names,) if isinstance(names, str) else names
        texts = _texts(names)
        return Mesh._of(_lib.weft_mesh_submesh(self, len(names), texts, _lib.weft_first_rank() if rank is None else rank))

    def flatten(self, first: int = 0, last: int = -1, name: Optional[str] = None) -> Mesh:
        """The same ranks with dimensions first .. last joined into one."""
        last = last + self.ndim if last < 0 else last
        return Mesh._of(_lib.weft_mesh_flatten(self, first, last, name.encode() if name is not None else None))

    def unflatten(self, dim: int, sizes: Sequence[int], names: Optional[Sequence[str]] = None) -> Mesh:
        """The same ranks with a dimension split into several, the first one outermost."""
        array = int64s(sizes)
        if names is not None and len(names) != len(array):
            raise ValueError(f"names: {len(names)} are given for {len(array)} dimensions")
        return Mesh._of(_lib.weft_mesh_unflatten(self, dim, len(array), array, _texts(names)))

    def get_rank(self) -> int:
        """The first rank of this process."""
        return _lib.weft_first_rank()

    def get_local_rank(self, mesh_dim: Any = 0) -> int:
        """This process's coordinate along a dimension."""
        coordinate = self.coordinate()
        if coordinate is None:
            raise RuntimeError("this process is not in the mesh")
        return coordinate[self.names.index(mesh_dim) if isinstance(mesh_dim, str) else mesh_dim]

    def __enter__(self) -> Mesh:
        check(_lib.weft_mesh_push(self))
        return self

    def __exit__(self, *error: object) -> None:
        check(_lib.weft_mesh_pop())

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Mesh) and self._as_parameter_ == other._as_parameter_

    def __hash__(self) -> int:
        return hash(self._as_parameter_)

    def __repr__(self) -> str:
        names = f", {self.names}" if any(self.names) else ""
        return f"Mesh({self.shape}{names})"

    def __reduce__(self) -> Any:
        raise TypeError("a Mesh cannot be pickled or copied to another process: every process creates its own, in the same order")


def set_mesh(mesh: Mesh) -> None:
    """The mesh of calls that name none, from here on. ``with mesh:`` chooses one for a block."""
    check(_lib.weft_mesh_push(mesh))


def current_mesh() -> Optional[Mesh]:
    """The mesh of calls that name none: all ranks in one dimension, unless ``with mesh:`` chose another."""
    start()
    handle = _lib.weft_mesh_current()
    return Mesh._of(handle) if handle else None


def _push_all_ranks() -> None:
    check(_lib.weft_mesh_push(_lib.weft_mesh_create(1, (c_int64 * 1)(_lib.weft_world_size()), None)))


_library.at_start.append(_push_all_ranks)


# ---- arguments for C ----
_INT64S = [c_int64 * max(count, 1) for count in range(64)]
_INTS = [c_int * max(count, 1) for count in range(64)]


class _Counted:
    """An array for C that knows how many of its elements count: C has none of no elements."""

    __slots__ = ("_as_parameter_", "count")

    def __init__(self, array: Any, count: int) -> None:
        self._as_parameter_, self.count = array, count

    def __len__(self) -> int:
        return self.count

    def __iter__(self) -> Iterator[int]:
        return iter(self._as_parameter_[:self.count])


def int64s(given: Any) -> Any:
    """Sizes for C: of a number, of a sequence, or of a sequence in a sequence (zeros(2, 3) and zeros((2, 3)))."""
    try:
        count = len(given)
    except TypeError:
        return _INT64S[1](_whole(given))
    if count == 1 and not isinstance(given[0], int) and hasattr(given[0], "__len__"):
        return int64s(given[0])
    if count == 0:
        return _Counted(_INT64S[0](), 0)
    try:
        array = (_INT64S[count] if count < 64 else c_int64 * count)(*given)
    except TypeError:
        given = tuple(map(_whole, given))
        array = (c_int64 * count)(*given)
    if max(given) >= 2**63 or min(given) < -2**63: # ctypes drops upper bits
        raise OverflowError(f"{tuple(given)}: sizes beyond 64 bits")
    return array


def ints(given: Any) -> Any:
    """Dimensions for C, as int64s()."""
    if hasattr(given, "__len__") and len(given) == 1 and hasattr(given[0], "__len__"):
        given = given[0]
    values = [_whole(each, True) for each in given] if hasattr(given, "__len__") else [_whole(given, True)]
    if not values:
        return _Counted(_INTS[0](), 0)
    return (_INTS[len(values)] if len(values) < 64 else c_int * len(values))(*values)


def _whole(value: Any, dimension: bool = False) -> int:
    if hasattr(value, "__index__"):
        whole = value.__index__()
        if -2**31 < whole < 2**31 or not dimension:
            return whole
        raise OverflowError(f"{whole} is no dimension")
    raise TypeError(f"a whole number is expected, not {value!r}")


def _texts(given: Optional[Sequence[Optional[str]]]) -> Any:
    if given is None:
        return None
    if isinstance(given, str):
        given = (given,)
    return (ctypes.c_char_p * max(len(given), 1))(*[each.encode() if each is not None else None for each in given])


def spread(given: Any, count: int, name: str) -> list[Any]:
    """`count` numbers: one stands for all."""
    values = many(given)
    if len(values) not in (1, count):
        raise ValueError(f"{name}: {len(values)} numbers are given, {count} are expected, or one")
    return values * count if len(values) == 1 else values


def sized(given: Any, count: int, name: str) -> Any:
    """`count` numbers for C: one stands for all."""
    return (c_int64 * count)(*spread(given, count, name))


def same_length(first: int, second: int, name: str) -> None:
    if first != second:
        raise ValueError(f"{name}: {second} are given, {first} are expected")


def axes(axis: Axes, dim: Axes) -> int | None:
    """The dimension or set of dimensions (WEFT_DIM) to reduce over: the array API's `axis` or PyTorch's `dim`. None: no dimension."""
    chosen = dim if axis is None else axis
    if axis is not None and dim is not None:
        raise TypeError("axis and dim are the same argument: give one of them")
    if chosen is None:
        return _api.ALL_DIMS
    if not is_many(chosen):
        return _whole(chosen, True)
    dims = [_whole(each, True) for each in chosen]
    if len(set(dims)) < len(dims):
        raise ValueError(f"dim: dimension {max(dims, key=dims.count)} is given twice")
    known = [each if -_api.MAX_DIMS <= each < _api.MAX_DIMS else _api.MAX_DIMS for each in dims]
    return sum(1 << each + _api.MAX_DIMS for each in known) + _api.ALL_DIMS if dims else None


def is_many(value: Any) -> TypeGuard[Sequence[Any]]:
    """Whether it is a sequence, an array too, and not one number."""
    return hasattr(value, "__len__")


def many(value: Any) -> list[Any]:
    """The items of a sequence; one number is a sequence of itself."""
    return list(value) if is_many(value) else [value]


def resolve(mesh: Optional[Mesh], placements: Placements) -> tuple[Optional[Mesh], Any]:
    """The mesh and placements for C of a call that makes a tensor."""
    if not world.running:
        start()
    if placements is None:
        return mesh, None
    count = mesh.ndim if mesh is not None else _lib.weft_mesh_ndim(_lib.weft_mesh_current())
    return mesh, _placement_array(placements, count)
