"""The C library: found, loaded, started and stopped; its errors as exceptions."""
from __future__ import annotations

import atexit
import collections
import ctypes
import ctypes.util
import os
import re
import sys
import threading
import time
from pathlib import Path
from typing import Any

from . import _api


# ---- loading ----
def _candidates() -> list[str]:
    here, name = Path(__file__).parent, "libweft.so." + ".".join(_api.VERSION.split(".")[:2 if _api.VERSION.startswith("0.") else 1])
    beside = [str(path) for path in (here / name, here / "libweft.so") if path.exists()]
    return [os.environ["WEFT_TENSORS_LIBRARY"]] if "WEFT_TENSORS_LIBRARY" in os.environ else [*beside, name, "libweft.so"]


def _load() -> ctypes.CDLL:
    # The StarPU of this package: libweft finds it by its name once it is loaded.
    for own in sorted(Path(__file__).parent.glob("libstarpu-1.4.so.*")):
        ctypes.CDLL(str(own), mode=ctypes.RTLD_GLOBAL)
        break
    reasons = []
    for path in _candidates():
        try:
            library = ctypes.CDLL(path)
        except OSError as error:
            reasons.append(f"{path}: {error}")
            continue
        library.weft_version.restype = ctypes.c_char_p
        version = library.weft_version().decode()
        if version != _api.VERSION:
            raise ImportError(f"{path} is weft {version}, but this package was made for weft {_api.VERSION}")
        _api.declare(library)
        return library
    raise ImportError("no library of weft: " + "; ".join(reasons) + ". WEFT_TENSORS_LIBRARY may name libweft.so.")


lib = _load()


# ---- errors ----
class WeftError(RuntimeError):
    """An error of the library; `status` is its weft_status. Many are a ValueError, MemoryError, ... too."""

    status: _api.weft_status = _api.weft_status.ERR_INTERNAL


class WeftValueError(WeftError, ValueError):
    """An argument is wrong: its value, shape, type, placement or mesh."""


class WeftMemoryError(WeftError, MemoryError):
    """There is not enough memory."""


class WeftTimeoutError(WeftError, TimeoutError):
    """Messages made no progress, or a process did not arrive, for WEFT_TIMEOUT_S."""


class WeftIOError(WeftError, OSError):
    """A file cannot be read or written."""


_KINDS: dict[_api.weft_status, type[WeftError]] = {status: WeftValueError for status in (_api.weft_status.ERR_INVALID, _api.weft_status.ERR_SHAPE, _api.weft_status.ERR_DTYPE,
                                                _api.weft_status.ERR_LAYOUT, _api.weft_status.ERR_MESH)}
_KINDS.update({_api.weft_status.ERR_NOMEM: WeftMemoryError, _api.weft_status.ERR_TIMEOUT: WeftTimeoutError,
               _api.weft_status.ERR_IO: WeftIOError})

# An exception that left a Python function which the library had called. It is raised again where the library was called.
raised: list[BaseException] = []


def in_python(message: str) -> str:
    """C's message with the names that Python has."""
    message = re.sub(r"\bweft_(\w+?)_inplace\b", r"\1_", message)
    message = re.sub(r"\bweft_(?=[a-z]\w*\b)", "", message)
    message = message.replace("between no_grad_begin() and no_grad_end()", "in `with no_grad():`")
    message = message.replace("tensor_item:", "item:").replace("WEFT_COPY", "copy=True").replace("WEFT_ON_DEVICE", "on_device").replace("WEFT_ALL_DIMS", "None")
    return re.sub(r"\bNULL\b", "None", message)


def failure(status: int | None = None) -> BaseException:
    """The exception for the library's last error, which is cleared."""
    if raised:
        first = raised[0]
        raised.clear()
        lib.weft_clear_error()
        return first
    status = lib.weft_last_status() if not status else status
    message = in_python(lib.weft_last_error().decode(errors="replace"))
    lib.weft_clear_error()
    status = _api.weft_status(status or _api.weft_status.ERR_INTERNAL)
    error = _KINDS.get(status, WeftError)(message or lib.weft_status_string(status).decode())
    error.status = status
    return error


def check(status: int) -> None:
    """Raises the exception for a status other than WEFT_OK."""
    if status:
        raise failure(status)


_libc = ctypes.CDLL(None)
_libc.open_memstream.restype = ctypes.c_void_p
_libc.fclose.argtypes = [ctypes.c_void_p]
_libc.free.argtypes = [ctypes.c_void_p]


def text_of(function: Any, *arguments: Any) -> str:
    """The text that a function of C prints to its last argument, a file."""
    text, length = ctypes.c_void_p(), ctypes.c_size_t()
    file = ctypes.c_void_p(_libc.open_memstream(ctypes.byref(text), ctypes.byref(length)))
    if not file:
        raise MemoryError("no memory for a text")
    try:
        status = function(*arguments, file)
    finally:
        _libc.fclose(file)
        written = ctypes.string_at(text, length.value) if text else b""
        _libc.free(text)
    check(status)
    return written.decode(errors="replace")


# ---- the world ----
class _World:
    """What this process knows about the library's state."""

    running = False
    thread = 0    # that called init()
    epoch = 0     # changes with each start and end of the library: objects of earlier worlds are not released
    retains = False # whether the backward pass keeps what another one needs
    scopes = 0    # functions of Python that the library is running: it owns the tensors that they make


world = _World()
# Objects that ended on another thread. A deque may be appended to from any thread, even while garbage is collected.
ended: collections.deque[tuple[int, Any, int]] = collections.deque()
# What functions of Python have returned to C, until the call of C is over.
kept: list[Any] = []
at_start: list[Any] = []
at_end: list[Any] = []
when_settled: list[Any] = []


def start() -> None:
    """Starts the library with its defaults, unless it is running."""
    if not world.running:
        init()


def init(ranks: int = 0, *, local_ranks: int = 0, comm: Any = None, kind: str = "auto", fake_size: int = 0, seed: int = 0,
         workers: int = 0, pool_bytes: int = 0, cache_bytes: int = 0, timeout: int = 0, max_pending_tasks: int = 0) -> None:
    """Starts the world. The first call that needs it does so by itself, with all defaults.

    ranks: how many there are in all; processes share them. One process hosts all of them unless mpirun has started several.
    local_ranks: ranks of each process, instead of `ranks`.
    comm: an mpi4py communicator whose processes make up the world.
    kind: "auto", "self", "mpi", or "fake": shapes, layouts and plans of `fake_size` ranks without data.
    seed, workers, pool_bytes, cache_bytes, timeout (seconds), max_pending_tasks: as in weft_config; 0 takes the environment's
    value or the default.
    """
    config = _api.weft_config(world=choose(_api.weft_world, kind, "kind"), local_ranks=local_ranks, fake_size=fake_size, seed=seed, ranks=ranks,
                              workers=workers, pool_bytes=pool_bytes, cache_bytes=cache_bytes, timeout_s=timeout,
                              max_pending_tasks=max_pending_tasks, size=ctypes.sizeof(_api.weft_config))
    if comm is None:
        check(lib.weft_init(ctypes.byref(config)))
    else:
        _init_communicator(comm, config)
    world.running, world.thread, world.epoch = True, threading.get_ident(), world.epoch + 1
    for function in at_start:
        function()


def _init_communicator(comm: Any, config: _api.weft_config) -> None:
    from mpi4py import MPI # type: ignore[import-not-found]  # the caller has it: comm is its object

    if not isinstance(comm, MPI.Comm):
        raise TypeError(f"comm: an mpi4py communicator is expected, not {type(comm).__name__}")
    if not hasattr(lib, "weft_init_communicator"):
        raise WeftError("this weft was built without MPI: comm cannot be used")
    version = MPI.Get_library_version()
    interface = "Open MPI" if "Open MPI" in version else "MPICH" if any(
        name in version for name in ("MPICH", "MVAPICH", "Intel(R) MPI", "CRAY MPICH")) else version.split(",")[0]
    communicator = _api.weft_communicator(ctypes.sizeof(_api.weft_communicator), interface.encode(), MPI._sizeof(MPI.Comm), MPI._addressof(comm))
    check(lib.weft_init_communicator(ctypes.byref(communicator), ctypes.byref(config)))


def finalize() -> None:
    """Stops the world: waits for everything, and releases all tensors. Python does so at its end."""
    if world.running:
        status = lib.weft_finalize()
        if status != _api.weft_status.ERR_STATE: # in a function that C has called, or on another thread, nothing has ended
            world.running = False
            world.epoch += 1 # what is left is of an earlier world
            ended.clear()
            for function in at_end:
                function()
        check(status)


def _at_exit() -> None:
    # Before mpi4py's MPI_Finalize(). Of a child of fork() the library says so itself, and does nothing.
    if not world.running or world.thread != threading.get_ident() or os.getpid() != _process:
        return
    lib.weft_clear_error()
    if hasattr(sys, "last_value") and lib.weft_num_processes() > 1:
        return # an exception ended this process: the others hear of its exit at once, and need not wait
    try:
        finalize()
    except WeftError as error:
        print(f"weft: {error}", file=sys.stderr)


_process = os.getpid()
atexit.register(_at_exit)


def release_ended() -> None:
    """Releases the objects that ended on other threads."""
    for _ in range(len(ended)):
        epoch, release, handle = ended.popleft()
        end(epoch, release, handle)


def end(epoch: int, release: Any, handle: int) -> None:
    """Releases an object of C when Python's ends: now, or in the next call of the library's thread."""
    if epoch == world.epoch and world.running:
        if threading.get_ident() != world.thread:
            ended.append((epoch, release, handle))
            return
        status = release(handle)
        if status:
            not_released(status, epoch, release, handle)


def not_released(status: int, epoch: int, release: Any, handle: int) -> None:
    """What end() does about a release that C refused."""
    lib.weft_clear_error() # a donated tensor has ended already
    if status == _api.weft_status.ERR_STATE: # not now: C is calling a deleter, or the graph's function
        ended.append((epoch, release, handle))


def settle() -> None:
    """Waits until everything submitted has ended, in slices, so that Ctrl-C is heard."""
    if _slices(lib.weft_test):
        for function in when_settled:
            function()


def settle_tensor(tensor: Any) -> None:
    """Waits until this process's shards of a tensor have been computed, in slices. The call that reads them says what fails."""
    _slices(lib.weft_tensor_test, tensor)


def _slices(test: Any, *arguments: Any) -> bool:
    done, pause = ctypes.c_bool(), 20e-6
    while True:
        if test(*arguments, ctypes.byref(done)):
            lib.weft_clear_error() # the call after it says the same
            return False
        if done.value:
            return True
        time.sleep(pause)
        pause = min(2 * pause, 0.01)


def wait() -> None:
    """Waits until everything submitted has ended on this process. Raises the error of a task that failed."""
    if world.running:
        settle()
        check(lib.weft_wait())


def asked(function: Any, *arguments: Any) -> Any:
    """What a function of C answers. 0 may be its way to fail, on another thread or after the world's end: then it is asked again."""
    value = function(*arguments)
    if not value or value < 0:
        lib.weft_clear_error()
        value = function(*arguments)
        if lib.weft_last_status():
            raise failure()
    return value


def world_size() -> int:
    """The number of ranks."""
    start()
    return asked(lib.weft_world_size)


def first_rank() -> int:
    """The first rank that this process hosts. ``if first_rank() == 0: print(...)`` prints once."""
    start()
    return asked(lib.weft_first_rank)


def local_ranks() -> int:
    """How many ranks this process hosts."""
    start()
    return asked(lib.weft_local_ranks)


def num_processes() -> int:
    """The number of processes of the world."""
    start()
    return asked(lib.weft_num_processes)


def process_index() -> int:
    """The number of this process."""
    start()
    return asked(lib.weft_process_index)


def counters() -> dict[str, int]:
    """Counts of this process since the start: tasks, transfers, bytes_moved, messages, ...; tensor_bytes and tensor_bytes_peak: memory of tensors."""
    start()
    found = _api.weft_counters()
    check(lib.weft_get_counters(ctypes.byref(found), ctypes.sizeof(found)))
    return {field[0]: getattr(found, field[0]) for field in found._fields_}


def pending() -> str:
    """The oldest unfinished messages of this process, as text: both sides of a program that seems to hang should print it."""
    return text_of(lib.weft_print_pending)


def machine() -> str:
    """The figures of this world's machines: the cost of a task, rates of copies and products, links between processes."""
    start()
    return text_of(lib.weft_print_machine)


def choose(kind: Any, given: Any, name: str) -> int:
    """The value of an enum that a text names."""
    if isinstance(given, str):
        try:
            return kind[given.upper().replace("-", "_")]
        except KeyError:
            raise ValueError(f"{name}: {given!r} is none of {', '.join(repr(each.name.lower()) for each in kind)}") from None
    return given
