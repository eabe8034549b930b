"""What a program in Python needs of weft to exchange arrays by DLPack: ctypes alone, no compiler. docs/languages.md shows parts
of it.

    python dlpack_arrays.py LIBRARY [numpy|torch]

runs the checks below with arrays of that package, or with memory of ctypes, and prints a line for each.
"""

import ctypes
import gc
import sys
from ctypes import (POINTER, byref, c_char_p, c_double, c_int, c_int32, c_int64, c_size_t, c_uint, c_uint8, c_uint16, c_uint32,
                    c_uint64, c_void_p)

F64, F32, BF16, F16, I64, I32, U8, BOOL = range(8)
COPY = 1


class Scalar(ctypes.Structure):
    """A number of a call, weft_scalar: here a real one."""
    _fields_ = [("dtype", c_uint), ("real", c_double), ("imag", c_double), ("whole", c_int64)]

    @classmethod
    def from_param(cls, number):
        return cls(0, number, 0, 0)


class Tensor(ctypes.Structure):
    """An array as DLPack describes it."""
    _fields_ = [("data", c_void_p), ("device", c_int32), ("device_id", c_int32), ("ndim", c_int32), ("code", c_uint8),
                ("bits", c_uint8), ("lanes", c_uint16), ("shape", POINTER(c_int64)), ("strides", POINTER(c_int64)),
                ("byte_offset", c_uint64)]


class Managed(ctypes.Structure):
    """The older managed tensor."""


Deleter = ctypes.CFUNCTYPE(None, POINTER(Managed))
Managed._fields_ = [("tensor", Tensor), ("manager", c_void_p), ("deleter", Deleter)]


class Versioned(ctypes.Structure):
    """The one with a version."""


VersionedDeleter = ctypes.CFUNCTYPE(None, POINTER(Versioned))
Versioned._fields_ = [("major", c_uint32), ("minor", c_uint32), ("manager", c_void_p), ("deleter", VersionedDeleter),
                      ("flags", c_uint64), ("tensor", Tensor)]

# Capsules: how Python code passes a managed tensor, under a name that says whether it has been taken.
capsule_new = ctypes.PYFUNCTYPE(ctypes.py_object, c_void_p, c_char_p, c_void_p)(("PyCapsule_New", ctypes.pythonapi))
capsule_pointer = ctypes.PYFUNCTYPE(c_void_p, c_void_p, c_char_p)(("PyCapsule_GetPointer", ctypes.pythonapi))
capsule_is = ctypes.PYFUNCTYPE(c_int, c_void_p, c_char_p)(("PyCapsule_IsValid", ctypes.pythonapi))
capsule_rename = ctypes.PYFUNCTYPE(c_int, c_void_p, c_char_p)(("PyCapsule_SetName", ctypes.pythonapi))
NAMES = {b"dltensor": (Managed, b"used_dltensor"), b"dltensor_versioned": (Versioned, b"used_dltensor_versioned")}


@ctypes.CFUNCTYPE(None, c_void_p)
def end_untaken(capsule):
    """The destructor of a capsule: ends a managed tensor that nobody has taken."""
    for name, (kind, _) in NAMES.items():
        if capsule_is(capsule, name):
            managed = kind.from_address(capsule_pointer(capsule, name))
            managed.deleter(byref(managed))


class Shard:
    """A shard for np.from_dlpack() and torch.from_dlpack(), which take it once."""

    def __init__(self, weft, tensor, local_rank=0, flags=0):
        self.weft, self.arguments = weft, (tensor, local_rank, flags)

    def __dlpack_device__(self):
        return 1, 0  # the CPU

    def __dlpack__(self, *, stream=None, max_version=None, dl_device=None, copy=None):
        versioned = max_version is not None and max_version[0] >= 1
        export = self.weft.weft_to_dlpack if versioned else self.weft.weft_to_dlpack_unversioned
        managed = export(*self.arguments)
        if not managed:
            raise RuntimeError(self.weft.weft_last_error().decode())
        return capsule_new(managed, b"dltensor_versioned" if versioned else b"dltensor", end_untaken)


def import_array(weft, array, dtype, shape, flags=0):
    """A tensor of one rank on an array's memory. The capsule is renamed once weft has taken the managed tensor: until then
    the capsule's own destructor ends it."""
    try:
        capsule = array.__dlpack__(max_version=(1, 0))
    except TypeError:  # an older producer
        capsule = array.__dlpack__()
    name = next(name for name in NAMES if capsule_is(id(capsule), name))
    take = weft.weft_from_dlpack if name == b"dltensor_versioned" else weft.weft_from_dlpack_unversioned
    managed = (c_void_p * 1)(capsule_pointer(id(capsule), name))
    tensor = take(dtype, len(shape), (c_int64 * len(shape))(*shape), managed, None, None, flags)
    if not tensor:
        raise RuntimeError(weft.weft_last_error().decode())
    capsule_rename(id(capsule), NAMES[name][1])
    return tensor


def load(library):
    weft = ctypes.CDLL(library)
    pointers = ("weft_mesh_create", "weft_from_dlpack", "weft_from_dlpack_unversioned", "weft_to_dlpack",
                "weft_to_dlpack_unversioned", "weft_add", "weft_arange", "weft_scale_inplace", "weft_fill_inplace", "weft_reshape",
                "weft_to_type")
    for name in pointers:
        getattr(weft, name).restype = c_void_p
    weft.weft_last_error.restype = c_char_p
    weft.weft_mesh_create.argtypes = [c_int, POINTER(c_int64), c_void_p]
    weft.weft_mesh_push.argtypes = [c_void_p]
    weft.weft_from_dlpack.argtypes = [c_int, c_int, POINTER(c_int64), POINTER(c_void_p), c_void_p, c_void_p, c_uint]
    weft.weft_from_dlpack_unversioned.argtypes = weft.weft_from_dlpack.argtypes
    weft.weft_to_dlpack.argtypes = weft.weft_to_dlpack_unversioned.argtypes = [c_void_p, c_int, c_uint]
    weft.weft_add.argtypes = [c_void_p, c_void_p]
    weft.weft_arange.argtypes = [c_int, Scalar, Scalar, Scalar, c_void_p, c_void_p]
    weft.weft_reshape.argtypes = [c_void_p, c_int, POINTER(c_int64)]
    weft.weft_to_type.argtypes = [c_void_p, c_int]
    weft.weft_scale_inplace.argtypes = weft.weft_fill_inplace.argtypes = [c_void_p, Scalar]
    weft.weft_to_host.argtypes = [c_void_p, c_void_p, c_size_t]
    weft.weft_tensor_release.argtypes = [c_void_p]
    return weft


def start(weft):
    check(weft, weft.weft_init(None) == 0)
    check(weft, weft.weft_mesh_push(weft.weft_mesh_create(1, (c_int64 * 1)(1), None)) == 0)


def check(weft, right, what=""):
    if not right:
        raise AssertionError(f"{what}: {weft.weft_last_error().decode()}")


def values(weft, tensor, kind, count):
    memory = (kind * count)()
    check(weft, weft.weft_to_host(tensor, memory, ctypes.sizeof(memory)) == 0, "weft_to_host")
    return list(memory)


# ---- memory of ctypes ------------------------------------------------------------------------------------------


def with_ctypes(weft):
    deleted = []
    for kind in (Versioned, Managed):
        memory, shape = (c_double * 6)(0, 1, 2, 3, 4, 5), (c_int64 * 2)(2, 3)
        deleter = (VersionedDeleter if kind is Versioned else Deleter)(lambda managed: deleted.append(kind))
        managed = kind(deleter=deleter, tensor=Tensor(ctypes.addressof(memory), 1, 0, 2, 2, 64, 1, shape, None, 0))
        if kind is Versioned:
            managed.major = 1
        take = weft.weft_from_dlpack if kind is Versioned else weft.weft_from_dlpack_unversioned
        pointers = (c_void_p * 1)(ctypes.addressof(managed))
        check(weft, not take(F32, 2, shape, pointers, None, None, 0), "another type")
        check(weft, b"locals[0] has floating numbers (2) of 64 bits, expected f32" in weft.weft_last_error(), "its message")
        weft.weft_clear_error()
        tensor = take(F64, 2, shape, pointers, None, None, 0)
        check(weft, tensor, "import")
        weft.weft_scale_inplace(tensor, 10)
        check(weft, weft.weft_wait() == 0 and deleted.count(kind) == 0, "no deleter yet")
        weft.weft_tensor_release(tensor)
        check(weft, weft.weft_wait() == 0 and deleted.count(kind) == 1, "the deleter")
        check(weft, list(memory) == [0, 10, 20, 30, 40, 50], "in place")
    print("import of ctypes: as expected")
    for export, kind in ((weft.weft_to_dlpack, Versioned), (weft.weft_to_dlpack_unversioned, Managed)):
        tensor = weft.weft_arange(I64, 0, 4, 1, None, None)
        managed = kind.from_address(export(tensor, 0, 0))
        data = ctypes.cast(managed.tensor.data, POINTER(c_int64))
        check(weft, kind is Managed or (managed.major, managed.flags) == (1, 1), "version and flags")
        weft.weft_fill_inplace(tensor, 9)
        weft.weft_tensor_release(tensor)
        check(weft, weft.weft_wait() == 0 and data[:4] == [0, 1, 2, 3], "the values of then")
        managed.deleter(byref(managed))
    tensor = weft.weft_arange(I64, 0, 4, 1, None, None)
    places = []
    for _ in range(2):
        capsule = Shard(weft, tensor).__dlpack__()
        places.append(Managed.from_address(capsule_pointer(id(capsule), b"dltensor")).tensor.data)
        del capsule  # nobody has taken it: the memory is the tensor's alone again
        check(weft, weft.weft_wait() == 0)
        weft.weft_fill_inplace(tensor, 9)
    check(weft, places[0] == places[1], "a capsule that was not taken")
    weft.weft_tensor_release(tensor)
    print("export to ctypes: as expected")


# ---- arrays of NumPy and PyTorch ---------------------------------------------------------------------------------


def with_arrays(weft, package):
    """Of either package: what both have by one name."""
    numpy = package.__name__ == "numpy"
    arrays = [(package.arange(6, dtype=getattr(package, name)).reshape(2, 3), dtype, kind) for name, dtype, kind in
              (("float64", F64, c_double), ("float32", F32, ctypes.c_float), ("int64", I64, c_int64), ("int32", I32, c_int32),
               ("uint8", U8, c_uint8))]
    for array, dtype, kind in arrays:
        tensor = import_array(weft, array, dtype, (2, 3))
        check(weft, values(weft, weft.weft_add(tensor, tensor), kind, 6) == [0, 2, 4, 6, 8, 10], "import")
        if dtype in (F64, F32):  # in the array's memory
            weft.weft_scale_inplace(tensor, 3)
        weft.weft_tensor_release(tensor)
        check(weft, weft.weft_wait() == 0 and array[1, 2] == (15 if dtype in (F64, F32) else 5), "weft writes")
    if numpy:  # the array is weft's as long as the tensor: the program may forget it
        array = package.full(1000, 7.0)
        before = sys.getrefcount(array)
        tensor = import_array(weft, array, F64, (1000,))
        check(weft, sys.getrefcount(array) == before + 1, "a reference")
        weft.weft_tensor_release(tensor)
        check(weft, weft.weft_wait() == 0 and sys.getrefcount(array) == before, "the reference's end")
    transposed = package.arange(6, dtype=package.float64).reshape(2, 3).T
    try:
        import_array(weft, transposed, F64, (3, 2))
        raise AssertionError("strides were taken")
    except RuntimeError as error:
        check(weft, "not row-major" in str(error) and "WEFT_COPY" in str(error), "strides")
        weft.weft_clear_error()
    tensor = import_array(weft, transposed, F64, (3, 2), COPY)
    check(weft, values(weft, tensor, c_double, 6) == [0, 3, 1, 4, 2, 5], "a copy")
    print(f"import of {package.__name__}: as expected")

    tensor = weft.weft_reshape(weft.weft_arange(F32, 0, 6, 1, None, None), 2, (c_int64 * 2)(2, 3))
    shared, copied = package.from_dlpack(Shard(weft, tensor)), package.from_dlpack(Shard(weft, tensor, flags=COPY))
    weft.weft_fill_inplace(tensor, -1)
    later = package.from_dlpack(Shard(weft, tensor))
    check(weft, weft.weft_wait() == 0)
    check(weft, shared.tolist() == copied.tolist() == [[0, 1, 2], [3, 4, 5]] and later.tolist() == [[-1] * 3] * 2, "export")
    if numpy:
        check(weft, not shared.flags.writeable, "read-only")
    for name, dtype in [("float16", F16)] if numpy else [("float16", F16), ("bfloat16", BF16), ("bool", BOOL)]:
        array = package.from_dlpack(Shard(weft, weft.weft_to_type(tensor, dtype)))
        check(weft, array.dtype == getattr(package, name) and bool((array == array[0, 0]).all()), name)
        again = import_array(weft, array.copy() if numpy else array, dtype, (2, 3), COPY)  # NumPy 1 gives out no read-only array
        check(weft, values(weft, weft.weft_to_type(again, F32), ctypes.c_float, 6) == [float(array[0, 0])] * 6, name)
    weft.weft_tensor_release(tensor)
    tensor = weft.weft_arange(F32, 0, 1000, 1, None, None)
    last = package.from_dlpack(Shard(weft, tensor))
    weft.weft_tensor_release(tensor)
    check(weft, weft.weft_finalize() == 0)
    check(weft, float(last.sum()) == 499500 and shared.tolist() == [[0, 1, 2], [3, 4, 5]], "after weft_finalize()")
    del last, shared, later
    gc.collect()
    start(weft)
    print(f"export to {package.__name__}: as expected")


def main(library, package=None):
    weft = load(library)
    start(weft)
    if package is None:
        with_ctypes(weft)
    else:
        with_arrays(weft, __import__(package))
    check(weft, weft.weft_finalize() == 0)


if __name__ == "__main__":
    main(*sys.argv[1:])
