"""weft: distributed tensors whose operations and redistributions are tasks.

    import weft_tensors as wt

    wt.init(ranks=4)                                       # four ranks in this process, or spread over mpirun's
    a = wt.randn(1000, 500, placements="S0")               # rows are sharded
    b = wt.randn(500, 200)                                 # replicated
    c = (a @ b).redistribute("S1")                         # any layout to any layout; nothing waits
    print(c)                                               # layout; c.numpy() has the values

docs/python.md is the manual.
"""
from ._api import VERSION as __version__
from ._core import DTYPES, Cyclic, DType, Mesh, Partial, Placement, Replicate, Shard, Tensor, bfloat16, bool_, complex64, complex128, current_mesh
from ._core import float8_e4m3fn, float8_e5m2, float16, float32, float64, int8, int16, int32, int64, uint8, uint16, uint32, uint64
from ._layouts import set_mesh
from ._library import (WeftError, WeftIOError, WeftMemoryError, WeftTimeoutError, WeftValueError, counters, finalize, first_rank, init, local_ranks,
                       machine, num_processes, pending, process_index, wait, world_size)
from .functions import * # noqa: F403
from .arrays import (allclose, array_equal, asarray, cat, chunk, distribute, from_boxes, from_dlpack, from_local, from_numpy, local_shape, split, tensor,
                     to_boxes)
from .autograd import * # noqa: F403
from .array_api import (__array_namespace_info__, acos, acosh, arange, argmax, argmin, argsort, asin, asinh, astype, atan, atanh,
                        bitwise_and, bitwise_invert, bitwise_or,
                        bitwise_xor, bmm, broadcast_arrays, broadcast_to, can_cast, clamp, clip, concat, concatenate, count_nonzero, cumprod, cumsum, cumulative_prod, cumulative_sum, diff,
                        divide, e, empty, empty_like, equal, expand_dims, eye, finfo, flip, floor_divide, full, full_like, greater, greater_equal, iinfo,
                        inf, isclose, isdtype, less, less_equal, linspace, matrix_transpose, max, mean, min, mm, meshgrid, moveaxis, multiply, nan, negative, newaxis, nonzero,
                        not_equal, ones, ones_like, permute_dims, pi, positive, rand, rand_like, randint, randn, randn_like, result_type, roll, sign, signbit,
                        sort, squeeze, stack, std, subtract, take, take_along_axis, tensordot, tile, tril, triu, unstack, var, vecdot, where, zeros,
                        zeros_like)
from .searching import * # noqa: F403
from .torch_names import * # noqa: F403
from .compositions import * # noqa: F403
from .more_names import * # noqa: F403
from .graphs import Graph, graph
from .index_lists import IndexList
from .local_map import local_map
from .sparse_matrices import SparseMatrix
from .checkpoints import * # noqa: F403
from .random import manual_seed
from .linalg import cross
from . import dtensor, fft, functional, linalg, masked, nn, optim, random, special

array = asarray
bool = bool_ # noqa: A001
float, double, half, int, long = float32, float64, float16, int32, int64 # noqa: A001
cfloat, cdouble = complex64, complex128
__array_api_version__ = "2023.12"
