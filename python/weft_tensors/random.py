"""Random numbers: the same on every mesh and layout. States have names."""
from __future__ import annotations

from ctypes import byref, c_char_p

from . import _api
from ._core import _lib, check
from ._library import start


def manual_seed(seed: int) -> None:
    """Begins the current state anew with a seed."""
    start()
    check(_lib.weft_random_seed(seed))


seed = manual_seed


def create_state(name: str, seed: int) -> None:
    """A further state, with a seed of its own."""
    start()
    check(_lib.weft_random_state_create(name.encode(), seed))


def use_state(name: str | None) -> None:
    """The state of the calls from here on; None: the first one."""
    start()
    check(_lib.weft_random_state_use(name.encode() if name is not None else None))


def get_state(name: str | None = None) -> tuple[int, int]:
    """Seed and offset of a state."""
    start()
    state = _api.weft_random_state()
    check(_lib.weft_random_state_get(name.encode() if name is not None else None, byref(state)))
    return state.seed, state.offset


def set_state(state: tuple[int, int], name: str | None = None) -> None:
    """Sets seed and offset of a state."""
    start()
    check(_lib.weft_random_state_set(name.encode() if name is not None else None, _api.weft_random_state(*state)))


def states() -> list[str]:
    """The names of all states."""
    start()
    count = _lib.weft_random_states(0, None)
    names = (c_char_p * max(count, 1))()
    _lib.weft_random_states(count, names)
    return [name.decode() for name in names[:count]]
