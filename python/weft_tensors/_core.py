"""Tensors: what they are, their values, operators."""
from __future__ import annotations

import ctypes
import threading
from collections.abc import Callable, Iterator, Sequence
from ctypes import byref, c_int64, c_size_t, c_void_p, create_string_buffer
from typing import TYPE_CHECKING, Any, NamedTuple, Optional

import numpy

from . import _api, _library
from ._layouts import (DTYPES, WITH_GRAD, Axes, Cyclic, DType, Mesh, Partial, Placement, Placements, Replicate, Shard, _Counted, _placement, _placement_array, _texts,
                       axes, bfloat16, bool_, complex64, complex128, current_mesh, dtype_of, float8_e4m3fn, float8_e5m2, float16, float32, float64, int8, int16,
                       int32, int64, int64s, ints, many, resolve, same_length, sized, spread, uint8, uint16, uint32, uint64)
from ._library import asked, check, choose, ended, failure, kept, lib as _lib, raised, settle_tensor, text_of, world
from ._numbers import BOOL, FLOATING, KEPT, UNNEGATED, number_of, with_number

__all__ = ["DTYPES", "WITH_GRAD", "Axes", "Cyclic", "DType", "Mesh", "Partial", "Placement", "Placements", "Replicate", "Shard", "Tensor",
           "WithIndices", "axes", "bfloat16", "bool_", "borrowed", "check", "check_call", "choose", "complex64", "complex128",
           "current_mesh", "done", "dtype_of", "failure", "fill", "float8_e4m3fn", "float8_e5m2", "float16", "float32", "float64",
           "int8", "int16", "int32", "int64", "int64s", "ints", "made", "many", "operands", "resolve", "same_length", "sized", "spread", "tensor", "tensors", "uint8", "uint16",
           "uint32", "uint64"]


# ---- arguments for C ----
def tensors(given: Sequence[Any]) -> Any:
    """Handles for C."""
    if isinstance(given, Tensor):
        raise TypeError("a sequence of tensors is expected, not one tensor")
    if len(given) == 1 and isinstance(given[0], (list, tuple)): # einsum(text, [a, b])
        given = given[0]
    values = [None if each is None else _handle(each) for each in given]
    return (c_void_p * len(values))(*values) if values else _Counted((c_void_p * 1)(), 0)


def _handle(given: Any) -> int:
    if type(given) is not Tensor and not isinstance(given, Tensor):
        raise TypeError(f"a Tensor is expected, not {type(given).__name__}; asarray() makes one")
    return given._as_parameter_


def fill(kind: Any, **values: Any) -> Any:
    """A struct of options; one number stands for all dimensions."""
    options, types = kind(size=ctypes.sizeof(kind)), dict(kind._fields_)
    for name, value in values.items():
        if name not in types:
            raise TypeError(f"there is no option {name}; there are {', '.join(each for each in types if each != 'size')}")
        field = getattr(options, name)
        if isinstance(field, ctypes.Array):
            for i, number in enumerate(spread(value, len(field), name)):
                field[i] = number
        elif types[name] is c_void_p:
            setattr(options, name, tensor(value, name)._as_parameter_ if value is not None else None)
        else:
            setattr(options, name, value.encode() if isinstance(value, str) else value)
    return options


_RANGES = {each: (-2**(8 * each.itemsize - 1), 2**(8 * each.itemsize - 1) - 1) for each in (int64, int32, int16, int8)}
_RANGES.update({each: (0, 2**(8 * each.itemsize) - 1) for each in (uint8, uint16, uint32, uint64)})


def check_range(value: int, dtype: DType) -> None:
    """A whole number beside a tensor of whole numbers must be one of its type."""
    low, high = _RANGES.get(dtype, (value, value))
    if not low <= value <= high:
        raise OverflowError(f"{value}: out of range for {dtype.name}")


def tensor(given: Any, name: str) -> Tensor:
    """The argument, which must be a tensor."""
    if not isinstance(given, Tensor):
        raise TypeError(f"{name}: a Tensor is expected, not {type(given).__name__}; asarray() makes one")
    return given


def operands(a: Any, b: Any) -> tuple[Any, Any]:
    """Numbers become tensors without dimensions, on the mesh of the other operand."""
    if not isinstance(a, Tensor):
        return _scalar(a, b), b
    return a, b if isinstance(b, Tensor) else _scalar(b, a)


def _scalar(value: Any, like: Any) -> Tensor:
    if not isinstance(like, Tensor):
        raise TypeError(f"a Tensor is expected, not {type(like).__name__}; asarray() makes one")
    if isinstance(value, (bool, numpy.bool_)):
        dtype = bool_
    elif isinstance(value, (int, numpy.integer)):
        dtype = like.dtype if like.dtype is not bool_ else int64
        check_range(int(value), dtype)
    elif isinstance(value, (float, numpy.floating)):
        dtype = like.dtype if like.dtype.is_floating_point or like.dtype.is_complex else float32
    elif isinstance(value, (complex, numpy.complexfloating)):
        dtype, value = complex128 if like.dtype in (float64, complex128) else complex64, complex(value)
    else:
        raise TypeError(f"a Tensor or a number is expected, not {type(value).__name__}; asarray() makes a Tensor")
    return made(_lib.weft_full(dtype, value, 0, None, _lib.weft_tensor_mesh(like), None))


# ---- tensors ----
def made(handle: Optional[int], function: str = "") -> Tensor:
    """A Tensor that owns the reference that C returned; raises C's error for NULL."""
    if handle is None:
        raise failure()
    tensor = _new(Tensor)
    tensor._as_parameter_ = handle
    tensor._epoch = world.epoch
    tensor._kind = None
    if world.scopes: # C's scope owns the reference that it returned
        _lib.weft_tensor_retain(handle)
    elif kept:
        kept.clear()
    if ended:
        _library.release_ended()
    return tensor


def borrowed(handle: int) -> Tensor:
    """A Tensor for a reference that C keeps."""
    tensor = _new(Tensor)
    tensor._as_parameter_ = handle
    tensor._epoch = world.epoch
    tensor._kind = None
    check(_lib.weft_tensor_retain(handle))
    return tensor


def done(handle: Optional[int], function: str = "") -> None:
    """After a call in place, which returns its argument."""
    if handle is None:
        raise failure()


if TYPE_CHECKING:
    def _makes_tensor(self: Tensor, *arguments: Any, **keywords: Any) -> Tensor: ...
    def _makes_any(self: Tensor, *arguments: Any, **keywords: Any) -> Any: ...
    def _makes_bool(self: Tensor) -> bool: ...
    def _makes_int(self: Tensor) -> int: ...
    def _makes_two(self: Tensor, *arguments: Any, **keywords: Any) -> WithIndices: ...


class WithIndices(NamedTuple):
    """What functions return that find values, and where."""

    values: Tensor
    indices: Tensor


class Size(int):
    """A number of elements that knows the shape."""

    shape: tuple[int, ...]

    def __call__(self, dim: Optional[int] = None) -> Any:
        return self.shape if dim is None else self.shape[dim]


class Tensor:
    """A distributed tensor. Operations return at once; values are there when they are asked for."""

    __slots__ = ("_as_parameter_", "_epoch", "_kind", "__weakref__")
    _as_parameter_: int   # the handle, as ctypes passes it
    _epoch: int           # the start that made it
    _kind: Optional[int]  # the element type, once an operator with a number has asked for it
    __array_ufunc__ = None # NumPy leaves operators to this class
    __hash__ = object.__hash__

    def __init__(self) -> None:
        raise TypeError("asarray(), zeros(), from_local(), ... make tensors")

    def __del__(self) -> None:
        try: # as _library.end(), without a call: each operator ends a tensor
            if self._epoch == world.epoch and _this_thread() == world.thread:
                status = _release(self._as_parameter_)
                if status:
                    _library.not_released(status, self._epoch, _release, self._as_parameter_)
            else:
                _library.end(self._epoch, _release, self._as_parameter_)
        except (AttributeError, TypeError):
            pass # it was never made, or the interpreter is ending

    def __reduce__(self) -> Any:
        raise TypeError("a Tensor cannot be pickled: save_checkpoint() saves it on all processes, numpy() gathers its values")

    # Made in _operators.py and array_api.py.
    if TYPE_CHECKING:
        sum = prod = mean = max = min = any = all = norm = var = std = logsumexp = nansum = nanmean = exp = log = log1p = expm1 = sqrt = \
            rsqrt = sin = cos = tan = tanh = sigmoid = relu = abs = neg = sign = square = reciprocal = floor = ceil = round = trunc = erf = \
            isnan = isinf = isfinite = cumsum = cumprod = softmax = log_softmax = reshape = view = permute = transpose = expand = flatten = \
            unflatten = unsqueeze = squeeze = gather = scatter = scatter_add = index_select = index_add = index_copy = index_fill = \
            masked_fill = masked_select = conj = angle = matmul = dot = add = sub = mul = div = pow = maximum = minimum = \
            eq = ne = lt = le = gt = ge = \
            logical_and = logical_or = logical_xor = logical_not = diagonal = trace = nan_to_num = quantile = add_ = sub_ = mul_ = div_ = \
            copy_ = fill_ = zero_ = uniform_ = normal_ = scatter_add_ = index_add_ = lerp = argmax = argmin = argsort = clip = clamp = tril \
            = triu = flip = roll = t = clone = _makes_tensor
        abs_ = acos = acosh = addcdiv = addcdiv_ = addcmul = addcmul_ = addmm = amax = amin = argwhere = asin = asinh = atan = \
            atan2 = atanh = bernoulli = bernoulli_ = bincount = bmm = broadcast_to = bucketize = ceil_ = clamp_ = contiguous = \
            copy = copysign = cos_ = cosh = count_nonzero = cov = cpu = cuda = diag = diff = digamma = erf_ = erfc = erfinv = \
            exp2 = exp_ = expand_as = expm1_ = exponential_ = floor_ = floor_divide = fmax = fmin = fmod = frac = gelu = histc = \
            hypot = index_copy_ = index_fill_ = index_put = index_put_ = inner = isin = lerp_ = lgamma = log10 = log1p_ = log2 = \
            log_ = logaddexp = logical_not_ = masked_fill_ = mm = moveaxis = movedim = multinomial = mv = nan_to_num_ = narrow = \
            neg_ = new_empty = new_full = new_ones = new_tensor = new_zeros = one_hot = outer = pow_ = ravel = reciprocal_ = \
            relu_ = remainder = repeat = repeat_interleave = reshape_as = rms_norm = round_ = rsqrt_ = scatter_ = scatter_reduce \
            = select = sgn = sigmoid_ = silu = sin_ = sinh = sqrt_ = square_ = swapaxes = tan_ = tanh_ = tile = tril = tril_ = triu_ = \
            trunc_ = type_as = vdot = view_as = where = xlogy = _makes_tensor
        aminmax = chunk = split = unbind = unique = unique_consecutive = _makes_any
        is_complex = is_floating_point = is_contiguous = _makes_bool
        element_size = nelement = ndimension = _makes_int
        median = sort = topk = cummax = cummin = _makes_two
        nonzero: Callable[..., tuple[Tensor, ...]]
        __radd__ = __rsub__ = __rmul__ = __rtruediv__ = __floordiv__ = __rfloordiv__ = __mod__ = __rmod__ = __rpow__ = __and__ = \
            __rand__ = __or__ = __ror__ = __xor__ = __rxor__ = __lshift__ = __rlshift__ = __rshift__ = __rrshift__ = __lt__ = __le__ = \
            __gt__ = __ge__ = __iadd__ = __isub__ = __imul__ = __itruediv__ = __ifloordiv__ = __imod__ = __ipow__ = __iand__ = __ior__ = \
            __ixor__ = __imatmul__ = __ilshift__ = __irshift__ = __getitem__ = _makes_tensor
        __setitem__: Callable[..., None]
        __eq__ = __ne__ = _makes_tensor # type: ignore[assignment]

    # ---- properties ----
    @property
    def ndim(self) -> int:
        """The number of dimensions."""
        return asked(_lib.weft_tensor_ndim, self)

    @property
    def shape(self) -> tuple[int, ...]:
        """The sizes of the whole tensor."""
        ndim = asked(_lib.weft_tensor_ndim, self)
        if not ndim:
            return ()
        address = _lib.weft_tensor_shape(self)
        if not address:
            raise failure()
        return tuple((c_int64 * ndim).from_address(address))

    @property
    def size(self) -> Size:
        """The number of elements. As PyTorch's, size() is the shape, and size(dim) one of its numbers."""
        elements = Size(asked(_lib.weft_tensor_num_elements, self))
        elements.shape = self.shape
        return elements

    @property
    def itemsize(self) -> int:
        """The bytes of an element."""
        return self.dtype.itemsize

    def numel(self) -> int:
        """The number of elements."""
        return asked(_lib.weft_tensor_num_elements, self)

    def dim(self) -> int:
        """The number of dimensions."""
        return self.ndim

    @property
    def dtype(self) -> DType:
        """The element type."""
        value = _lib.weft_tensor_dtype(self)
        if value == _api.weft_dtype.F32: # C's answer on errors, too
            asked(_lib.weft_tensor_ndim, self)
        return DTYPES[value]

    @property
    def nbytes(self) -> int:
        """The bytes of the whole tensor."""
        return asked(_lib.weft_tensor_bytes, self)

    @property
    def device(self) -> str:
        """Where Python sees its values: main memory, whichever devices compute."""
        return "cpu"

    @property
    def mesh(self) -> Mesh:
        """The mesh that the tensor is laid out over."""
        return Mesh._of(_lib.weft_tensor_mesh(self))

    device_mesh = mesh

    @property
    def placements(self) -> tuple[Placement, ...]:
        """One placement per mesh dimension."""
        count = _lib.weft_mesh_ndim(_lib.weft_tensor_mesh(self))
        array = (_api.weft_placement * count).from_address(_lib.weft_tensor_placements(self)) if count else ()
        return tuple(map(_placement, array))

    @property
    def is_fake(self) -> bool:
        """Whether it has no data."""
        return asked(_lib.weft_tensor_is_fake, self)

    def __len__(self) -> int:
        shape = self.shape
        if not shape:
            raise TypeError("a tensor without dimensions has no length")
        return shape[0]

    def set_name(self, name: str) -> Tensor:
        """Gives the tensor a name, which messages and traces show."""
        check(_lib.weft_tensor_set_name(self, name.encode()))
        return self

    # ---- text and pictures: local, and without waiting ----
    def __repr__(self) -> str:
        if self._epoch != world.epoch or not world.running:
            return "Tensor(of a world that has ended)"
        buffer = ctypes.create_string_buffer(512)
        return f"Tensor({_lib.weft_tensor_describe(self, buffer, 512).decode(errors='replace')})"

    def sharding(self) -> str:
        """Which rank holds which part, as text."""
        return text_of(_lib.weft_visualize_sharding, self, _api.weft_sharding_format.TEXT)

    def _repr_html_(self) -> str:
        if self._epoch != world.epoch or not world.running:
            return "<pre>Tensor(of a world that has ended)</pre>"
        import html
        if not self.ndim:
            return f"<pre>{html.escape(repr(self)[7:-1])}</pre>"
        picture = text_of(_lib.weft_visualize_sharding, self, _api.weft_sharding_format.SVG)
        return picture[picture.index("<svg"):]

    def text(self) -> str:
        """Layout and values, abbreviated. Waits; all processes must call it."""
        settle_tensor(self)
        length = c_size_t()
        check(_lib.weft_tensor_print_text(self, None, 0, byref(length)))
        buffer = create_string_buffer(length.value + 1)
        check(_lib.weft_tensor_print_text(self, buffer, length.value + 1, None))
        return buffer.value.decode(errors="replace")

    # ---- values: wait, and all processes take part ----
    def item(self) -> Any:
        """The value of a tensor of one element. Waits; all processes must call it."""
        if self.size == 1 and (self.dtype in (int64, uint64) or self.dtype.is_complex): # beyond double precision
            return self.numpy().reshape(()).item()
        settle_tensor(self)
        value = ctypes.c_double()
        check(_lib.weft_tensor_item(self, byref(value)))
        dtype = self.dtype
        return value.value if dtype.is_floating_point else bool(value.value) if dtype is bool_ else int(value.value)

    def numpy(self, process: Optional[int] = None) -> Any:
        """The whole tensor as a NumPy array, on every process or on one (None on the others). Waits; all processes must call it.
        bfloat16 and the types of 8 bits become float32."""
        if self.dtype.numpy is None:
            return made(_lib.weft_to_type(self, float32)).numpy(process)
        array = numpy.empty(self.shape, self.dtype.numpy) if process in (None, _lib.weft_process_index()) else None
        settle_tensor(self)
        address, size = (array.ctypes.data, array.nbytes) if array is not None else (None, 0)
        if process is None:
            check(_lib.weft_to_host(self, address, size))
        else:
            check(_lib.weft_to_host_on(self, process, address, size))
        return array

    def tolist(self) -> Any:
        """The whole tensor as nested lists. Waits; all processes must call it."""
        return self.numpy().tolist()

    def _one_process(self, what: str, instead: str) -> None:
        if _lib.weft_num_processes() > 1:
            raise TypeError(f"{what} of a distributed tensor would wait for all processes: call {instead} on all of them")

    def __format__(self, spec: str) -> str:
        if not spec:
            return str(self)
        self._one_process("a format", "t.item()")
        return format(self.item(), spec)

    def __bool__(self) -> bool:
        self._one_process("bool()", "bool(t.item())")
        return bool(self.item())

    def __float__(self) -> float:
        self._one_process("float()", "t.item()")
        return float(self.item())

    def __int__(self) -> int:
        self._one_process("int()", "int(t.item())")
        return int(self.item())

    def __complex__(self) -> complex:
        self._one_process("complex()", "complex(t.item())")
        return complex(self.item())

    def __index__(self) -> int:
        self._one_process("an index", "t.item()")
        if self.dtype.is_floating_point or self.ndim:
            raise TypeError("only a tensor of one whole number is an index")
        return int(self.item())

    def __array__(self, dtype: Any = None, copy: Any = None) -> Any:
        self._one_process("a NumPy array", "t.numpy()")
        array = self.numpy()
        return array if dtype is None else array.astype(dtype)

    def __iter__(self) -> Iterator[Tensor]:
        self._one_process("iteration", "unstack(t), which is a list,")
        return iter([self[i] for i in range(len(self))])

    def __contains__(self, value: Any) -> bool:
        self._one_process("`in`", "(t == value).any().item()")
        return bool((self == value).any().item())

    # ---- layouts ----
    def redistribute(self, placements: Placements = None, mesh: Optional[Mesh] = None, *, device_mesh: Optional[Mesh] = None) -> Tensor:
        """The same values in another layout, on the same mesh or another one; Replicate unless placements are given."""
        mesh = mesh if device_mesh is None else device_mesh
        if isinstance(placements, Mesh): # DTensor's order
            placements, mesh = mesh, placements
        count = mesh.ndim if mesh is not None else _lib.weft_mesh_ndim(_lib.weft_tensor_mesh(self))
        return made(_lib.weft_redistribute(self, mesh, _placement_array(placements, count)))

    def full_tensor(self) -> Tensor:
        """The same values, replicated."""
        return made(_lib.weft_redistribute(self, None, None))

    def local_box(self, local_rank: int = 0) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """Offset and extent of the shard of a hosted rank."""
        offset, extent = (c_int64 * _api.MAX_DIMS)(), (c_int64 * _api.MAX_DIMS)()
        check(_lib.weft_local_box(self, local_rank, offset, extent))
        return tuple(offset[:self.ndim]), tuple(extent[:self.ndim])

    def _local_extent(self, local_rank: int) -> tuple[int, ...]:
        if any(isinstance(each, Shard) and each._has_runs() for each in self.placements):
            return tuple(sum(map(len, self.local_runs(dim, local_rank))) for dim in range(self.ndim))
        return self.local_box(local_rank)[1]

    def local_runs(self, dim: int, local_rank: int = 0) -> tuple[range, ...]:
        """The global indices of a dimension that the shard of a hosted rank has, one after the other, for every cut."""
        most = 0
        while True:
            runs = (_api.weft_index_run * max(most, 1))()
            count = _lib.weft_local_runs(self, local_rank, dim, most, runs)
            if count < 0:
                check(_lib.weft_last_status())
            if count <= most:
                return tuple(range(run.begin, run.begin + run.count) for run in runs[:count])
            most = count

    def local(self, local_rank: int = 0) -> Any:
        """The shard of a hosted rank as a NumPy array that shares its memory, read-only, with the values of now: later changes of
        the tensor do not show. Waits for the shard; local. bfloat16 comes as uint16, floating types of 8 bits as uint8. access() writes."""
        from .arrays import to_dlpack_array
        settle_tensor(self)
        return to_dlpack_array(self, local_rank)

    def to_local(self) -> Any:
        """local() of the first hosted rank."""
        return self.local()

    def access(self, local_rank: int = 0, mode: str = "r+") -> Any:
        """``with t.access(0, "r+") as shard:`` lends the shard's memory as a NumPy array: "r" reads, "w" writes all, "r+" both.
        Waits for the shard; tasks that need it wait until the block ends."""
        from .arrays import Access
        return Access(self, local_rank, mode)

    def __dlpack_device__(self) -> tuple[int, int]:
        return 1, 0

    def __dlpack__(self, *, stream: Any = None, max_version: Any = None, dl_device: Any = None, copy: Optional[bool] = None) -> Any:
        from .arrays import export_to
        if _lib.weft_local_ranks() > 1 and not all(isinstance(each, Replicate) for each in self.placements):
            raise BufferError("this process hosts several shards: t.local(rank) and t.on_device(rank) give each")
        return export_to(dl_device, self, 0, max_version, copy)

    def on_device(self, local_rank: int = 0) -> Any:
        """The shard of a hosted rank for from_dlpack() of PyTorch or CuPy, which share the memory of the CUDA device that it lies on:
        ``torch.from_dlpack(t.on_device())``. Read-only, with the values of now. In a process that computes on devices (WEFT_DEVICES)."""
        from .arrays import OnDevice
        return OnDevice(self, local_rank)

    # ---- gradients ----
    @property
    def requires_grad(self) -> bool:
        """Whether the tensor is a leaf or was computed from leaves. Setting it makes it a leaf, or a constant again."""
        return asked(_lib.weft_requires_grad, self)

    @requires_grad.setter
    def requires_grad(self, on: bool) -> None:
        check(_lib.weft_set_requires_grad(self, on))

    def requires_grad_(self, on: bool = True) -> Tensor:
        """Makes the tensor a leaf; returns it."""
        check(_lib.weft_set_requires_grad(self, on))
        return self

    @property
    def is_leaf(self) -> bool:
        return _lib.weft_is_leaf(self) or not _lib.weft_requires_grad(self)

    @property
    def grad(self) -> Optional[Tensor]:
        """The gradient of a leaf; None if there is none. Setting it to None drops it."""
        if not _lib.weft_is_leaf(self):
            return None
        handle = _lib.weft_grad(self)
        return borrowed(handle) if handle else None

    @grad.setter
    def grad(self, value: Optional[Tensor]) -> None:
        if value is not None:
            now = self.grad
            if now is None:
                raise ValueError("grad: there is no gradient to replace; backward() makes one")
            if tensor(value, "grad")._as_parameter_ != now._as_parameter_: # t.grad *= 2 assigns what it has changed
                done(_lib.weft_copy_inplace(now, value))
            return
        check(_lib.weft_zero_grad(1, (c_void_p * 1)(self._as_parameter_)))

    def backward(self, gradient: Optional[Tensor] = None, retain_graph: bool = False, create_graph: bool = False) -> None:
        """Computes the gradients of a tensor of one element, or of sum(tensor * gradient), and adds them to those of all leaves."""
        options = fill(_api.weft_backward_options, output_gradient=gradient, retain=retain_graph, create_graph=create_graph)
        world.retains = retain_graph or create_graph
        check_call(_lib.weft_backward(self, byref(options)))

    def detach(self) -> Tensor:
        """The same values as a constant."""
        return made(_lib.weft_detach(self))

    # ---- types ----
    def astype(self, dtype: Any, /, *, copy: bool = True, device: Any = None) -> Tensor:
        """The same values in another type."""
        return made(_lib.weft_to_type(self, dtype_of(dtype)))

    def to(self, *arguments: Any, dtype: Any = None, device: Any = None, copy: bool = False, non_blocking: bool = False) -> Tensor:
        """The same values in another type: to(dtype), to(other). A device ("cpu", "cuda:0") changes nothing: weft's scheduler chooses one
        for
        each task."""
        for each in arguments:
            if not (isinstance(each, str) and each.partition(":")[0] in ("cpu", "cuda")) and not isinstance(each, bool):
                dtype = each.dtype if isinstance(each, Tensor) else each
        return self if dtype is None else made(_lib.weft_to_type(self, dtype_of(dtype)))

    def float(self) -> Tensor:
        return self.to(float32)

    def double(self) -> Tensor:
        return self.to(float64)

    def bfloat16(self) -> Tensor:
        return self.to(bfloat16)

    def half(self) -> Tensor:
        return self.to(float16)

    def int(self) -> Tensor:
        return self.to(int32)

    def bool(self) -> Tensor:
        return self.to(bool_)

    def long(self) -> Tensor:
        return self.to(int64)

    def to_device(self, device: Any, /, *, stream: Any = None) -> Tensor:
        if str(device) != "cpu":
            raise ValueError(f"device: {device!r}: weft's scheduler chooses the device of each task; arrays come in and out on the cpu")
        return self

    # ---- operators: what costs a microsecond at most beside C's call is written for that ----
    def __add__(self, other: Any) -> Any:
        if type(other) is Tensor:
            return made(_add(self._as_parameter_, other._as_parameter_))
        if self._kind in FLOATING and type(other) in KEPT:
            number = KEPT[type(other)].get(other)
            if number is not None:
                return made(_add_number(self._as_parameter_, number))
        return _with_number(self, other, _add_number, _add)

    def __sub__(self, other: Any) -> Any:
        if type(other) is Tensor:
            return made(_sub(self._as_parameter_, other._as_parameter_))
        if type(other) is float or type(other) is int and -2**31 < other < 2**31 and _dtype_number(self._as_parameter_) not in UNNEGATED:
            return _with_number(self, -other, _add_number, _add)
        return _binary(_sub, self, other)

    def __mul__(self, other: Any) -> Any:
        if type(other) is Tensor:
            return made(_mul(self._as_parameter_, other._as_parameter_))
        if self._kind in FLOATING and type(other) in KEPT:
            number = KEPT[type(other)].get(other)
            if number is not None:
                return made(_mul_number(self._as_parameter_, number))
        return _with_number(self, other, _mul_number, _mul)

    def __truediv__(self, other: Any) -> Any:
        return made(_div(self._as_parameter_, other._as_parameter_)) if type(other) is Tensor else _binary(_div, self, other)

    def __matmul__(self, other: Any) -> Any:
        return made(_matmul(self._as_parameter_, other._as_parameter_)) if isinstance(other, Tensor) else NotImplemented

    def __pow__(self, other: Any) -> Any:
        return made(_lib.weft_pow(self, other)) if type(other) is Tensor else \
            _with_number(self, other, _pow_number, _lib.weft_pow)

    def __neg__(self) -> Tensor:
        return made(_lib.weft_neg(self))

    def __pos__(self) -> Tensor:
        from .indexing import alias
        return alias(self)

    def __abs__(self) -> Tensor:
        return made(_lib.weft_abs(self))

    def __invert__(self) -> Tensor:
        return made(_lib.weft_logical_not(self) if self.dtype is bool_ else _lib.weft_bitwise_not(self))

    @property
    def T(self) -> Tensor:
        """The transpose of a matrix."""
        if self.ndim != 2:
            raise ValueError(f"T: a matrix is expected, not {self.ndim} dimensions; mT transposes the last two")
        return made(_lib.weft_transpose(self, 0, 1))

    @property
    def mT(self) -> Tensor:
        """The tensor with its last two dimensions exchanged."""
        return made(_lib.weft_transpose(self, -2, -1))

    @property
    def mH(self) -> Tensor:
        """The conjugate of mT."""
        return made(_lib.weft_conj(self.mT))

    H = mH

    @property
    def real(self) -> Tensor:
        """The real parts; of real numbers the tensor itself."""
        return made(_lib.weft_real(self))

    @property
    def imag(self) -> Tensor:
        """The imaginary parts; of real numbers zeros, as NumPy's."""
        return made(_lib.weft_imag(self) if self.dtype.is_complex else _lib.weft_zeros_like(self))

    def __array_namespace__(self, *, api_version: Optional[str] = None) -> Any:
        import weft_tensors
        return weft_tensors


_new, _add, _sub, _mul, _div, _matmul, _release = \
    Tensor.__new__, _lib.weft_add, _lib.weft_sub, _lib.weft_mul, _lib.weft_div, _lib.weft_matmul, _lib.weft_tensor_release
_this_thread, _dtype_number = threading.get_ident, _lib.weft_tensor_dtype


_add_number, _mul_number, _pow_number = map(with_number, ("weft_add_scalar", "weft_scale", "weft_pow_scalar"))


def check_call(status: int) -> None:
    """After a call that may have run functions of Python: their exception comes first."""
    if status or raised:
        raise failure(status)


def _number(value: Any) -> bool:
    return isinstance(value, (int, float, complex, numpy.integer, numpy.inexact, numpy.bool_))


def refused(other: Any) -> Any:
    """Arrays and lists are no operands: which process's values would count?"""
    if isinstance(other, (numpy.ndarray, list, tuple)):
        raise TypeError(f"a Tensor or a number is expected, not {type(other).__name__}; asarray() makes a Tensor of one that all processes have")
    return NotImplemented


def _with_number(a: Tensor, other: Any, by_number: Any, by_tensor: Any) -> Any:
    """a + 1: C's call with a number, unless types are promoted."""
    kind = type(other)
    if kind is float or kind is int:
        dtype = a._kind
        if dtype is None:
            dtype = _dtype_number(a._as_parameter_) # or F32, on another thread: then the call fails, too
        if dtype in FLOATING or kind is int and dtype != BOOL:
            number = KEPT[kind].get(other)
            if number is None:
                number = number_of(other)
            if dtype not in FLOATING:
                check_range(other, DTYPES[dtype])
            result = made(by_number(a._as_parameter_, number))
            a._kind = dtype
            return result
    if isinstance(other, Tensor):
        return made(by_tensor(a, other))
    if not _number(other):
        return refused(other)
    return made(by_tensor(a, _scalar(other, a)))


def compared(by_number: Any, by_tensor: Any) -> Any:
    """a < b. Whole numbers are compared exactly, whatever their size."""
    def operator(self: Tensor, other: Any) -> Any:
        kind = type(other)
        if kind is Tensor:
            return made(by_tensor(self._as_parameter_, other._as_parameter_))
        if kind is float or kind is int:
            return made(by_number(self._as_parameter_, number_of(other)))
        if isinstance(other, (numpy.integer, numpy.bool_, bool)):
            return made(by_number(self._as_parameter_, number_of(int(other))))
        return _binary(by_tensor, self, other)

    return operator


def _binary(function: Any, a: Any, b: Any) -> Any:
    if not isinstance(b, Tensor):
        if not _number(b):
            return refused(b)
        b = _scalar(b, a)
    return made(function(a, b))


from . import _operators # noqa: E402, F401 (they need the class)
