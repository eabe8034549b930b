"""Discrete Fourier transforms, as numpy.fft and torch.fft: of sharded tensors, whose transformed dimension is moved to one rank's reach.

norm is "backward" (None), "ortho" or "forward". NumPy's and the standard's axis and axes are other names of dim."""
from __future__ import annotations

from typing import Any, Optional, Sequence

from . import _api
from ._core import Mesh, Placements, Tensor, _lib, dtype_of, float32, int64s, ints, made, resolve, tensor

__all__ = ["dct", "dst", "fft", "fft2", "fftfreq", "fftn", "fftshift", "hfft", "idct", "idst", "ifft", "ifft2", "ifftn", "ifftshift",
           "ihfft", "irfft", "irfft2", "irfftn", "rfft", "rfft2", "rfftfreq", "rfftn"]

_NORMS = {None: 0, "backward": 0, "ortho": 1, "forward": 2}
_ALL_DIMS = _api.ALL_DIMS


def _norm(norm: Optional[str]) -> int:
    if norm not in _NORMS:
        raise ValueError(f'norm: {norm!r} is none of "backward", "ortho", "forward"')
    return _NORMS[norm]


def _one(name: str, a: Tensor, n: Optional[int], dim: int, norm: Optional[str]) -> Tensor:
    if n is not None and n < 1:
        raise ValueError(f"n: {n} is less than 1")
    return made(getattr(_lib, name)(tensor(a, "a"), n or 0, dim, _norm(norm)), name)


def fft(a: Tensor, n: Optional[int] = None, dim: int = -1, norm: Optional[str] = None, *,
          axis: Optional[int] = None) -> Tensor:
    """The transform of one dimension, cut or filled up with zeros to size n."""
    return _one("weft_fft", a, n, dim if axis is None else axis, norm)


def ifft(a: Tensor, n: Optional[int] = None, dim: int = -1, norm: Optional[str] = None, *,
         axis: Optional[int] = None) -> Tensor:
    """The inverse of fft()."""
    return _one("weft_ifft", a, n, dim if axis is None else axis, norm)


def rfft(a: Tensor, n: Optional[int] = None, dim: int = -1, norm: Optional[str] = None, *,
         axis: Optional[int] = None) -> Tensor:
    """fft() of a real tensor: the n // 2 + 1 results that determine the others."""
    return _one("weft_rfft", a, n, dim if axis is None else axis, norm)


def irfft(a: Tensor, n: Optional[int] = None, dim: int = -1, norm: Optional[str] = None, *,
          axis: Optional[int] = None) -> Tensor:
    """The inverse of rfft(): a real tensor of size n, by default 2 (size - 1)."""
    return _one("weft_irfft", a, n, dim if axis is None else axis, norm)


def hfft(a: Tensor, n: Optional[int] = None, dim: int = -1, norm: Optional[str] = None, *,
         axis: Optional[int] = None) -> Tensor:
    """fft() of a half of a conjugate-symmetric signal: a real tensor of size n, by default 2 (size - 1)."""
    return _one("weft_hfft", a, n, dim if axis is None else axis, norm)


def ihfft(a: Tensor, n: Optional[int] = None, dim: int = -1, norm: Optional[str] = None, *,
          axis: Optional[int] = None) -> Tensor:
    """The inverse of hfft()."""
    return _one("weft_ihfft", a, n, dim if axis is None else axis, norm)


def _waves(name: str, a: Tensor, type: int, n: Optional[int], dim: int, norm: Optional[str]) -> Tensor:
    if n is not None and n < 1:
        raise ValueError(f"n: {n} is less than 1")
    return made(getattr(_lib, name)(tensor(a, "a"), type, n or 0, dim, _norm(norm)), name)


def dct(a: Tensor, type: int = 2, n: Optional[int] = None, dim: int = -1, norm: Optional[str] = None) -> Tensor:
    """The cosine transform of type 1 to 4, as scipy.fft.dct."""
    return _waves("weft_dct", a, type, n, dim, norm)


def idct(a: Tensor, type: int = 2, n: Optional[int] = None, dim: int = -1, norm: Optional[str] = None) -> Tensor:
    """The inverse of dct() of the same type."""
    return _waves("weft_idct", a, type, n, dim, norm)


def dst(a: Tensor, type: int = 2, n: Optional[int] = None, dim: int = -1, norm: Optional[str] = None) -> Tensor:
    """The sine transform of type 1 to 4, as scipy.fft.dst."""
    return _waves("weft_dst", a, type, n, dim, norm)


def idst(a: Tensor, type: int = 2, n: Optional[int] = None, dim: int = -1, norm: Optional[str] = None) -> Tensor:
    """The inverse of dst() of the same type."""
    return _waves("weft_idst", a, type, n, dim, norm)


def _several(name: str, a: Tensor, s: Optional[Sequence[int]], dim: Optional[Sequence[int]], norm: Optional[str]) -> Tensor:
    count = len(dim) if dim is not None else len(s) if s is not None else _ALL_DIMS
    if s is not None and (len(s) != count or min(s) < 1):
        raise ValueError(f"s: {tuple(s)} does not have a size of at least 1 for each of {count} dimensions")
    return made(getattr(_lib, name)(tensor(a, "a"), count, None if s is None else int64s(s), None if dim is None else ints(dim), _norm(norm)), name)


def fftn(a: Tensor, s: Optional[Sequence[int]] = None, dim: Optional[Sequence[int]] = None, norm: Optional[str] = None, *,
         axes: Optional[Sequence[int]] = None) -> Tensor:
    """The transform of several dimensions; None: of the last len(s), or all."""
    return _several("weft_fftn", a, s, dim if axes is None else axes, norm)


def ifftn(a: Tensor, s: Optional[Sequence[int]] = None, dim: Optional[Sequence[int]] = None, norm: Optional[str] = None, *,
          axes: Optional[Sequence[int]] = None) -> Tensor:
    """The inverse of fftn()."""
    return _several("weft_ifftn", a, s, dim if axes is None else axes, norm)


def rfftn(a: Tensor, s: Optional[Sequence[int]] = None, dim: Optional[Sequence[int]] = None, norm: Optional[str] = None, *,
          axes: Optional[Sequence[int]] = None) -> Tensor:
    """fftn() of a real tensor: a half along the last of the dimensions."""
    return _several("weft_rfftn", a, s, dim if axes is None else axes, norm)


def irfftn(a: Tensor, s: Optional[Sequence[int]] = None, dim: Optional[Sequence[int]] = None, norm: Optional[str] = None, *,
           axes: Optional[Sequence[int]] = None) -> Tensor:
    """The inverse of rfftn()."""
    return _several("weft_irfftn", a, s, dim if axes is None else axes, norm)


def _two(name: str, a: Tensor, s: Optional[Sequence[int]], dim: Sequence[int], norm: Optional[str]) -> Tensor:
    if len(dim) != 2 or tensor(a, "a").ndim < 2:
        raise ValueError(f"{name}: it transforms two dimensions; a has {a.ndim}, and dim names {len(dim)}")
    return _several(f"weft_{name[:-1]}n", a, s, dim, norm)


def fft2(a: Tensor, s: Optional[Sequence[int]] = None, dim: Sequence[int] = (-2, -1), norm: Optional[str] = None, *,
         axes: Optional[Sequence[int]] = None) -> Tensor:
    """fftn() of two dimensions."""
    return _two("fft2", a, s, dim if axes is None else axes, norm)


def ifft2(a: Tensor, s: Optional[Sequence[int]] = None, dim: Sequence[int] = (-2, -1), norm: Optional[str] = None, *,
          axes: Optional[Sequence[int]] = None) -> Tensor:
    """The inverse of fft2()."""
    return _two("ifft2", a, s, dim if axes is None else axes, norm)


def rfft2(a: Tensor, s: Optional[Sequence[int]] = None, dim: Sequence[int] = (-2, -1), norm: Optional[str] = None, *,
          axes: Optional[Sequence[int]] = None) -> Tensor:
    """rfftn() of two dimensions."""
    return _two("rfft2", a, s, dim if axes is None else axes, norm)


def irfft2(a: Tensor, s: Optional[Sequence[int]] = None, dim: Sequence[int] = (-2, -1), norm: Optional[str] = None, *,
           axes: Optional[Sequence[int]] = None) -> Tensor:
    """The inverse of rfft2()."""
    return _two("irfft2", a, s, dim if axes is None else axes, norm)


def _shift(name: str, a: Tensor, dim: Any) -> Tensor:
    dims = None if dim is None else ints(dim if hasattr(dim, "__len__") else (dim,))
    return made(getattr(_lib, name)(tensor(a, "a"), 0 if dims is None else len(dims), dims), name)


def fftshift(a: Tensor, dim: Any = None, *, axes: Any = None) -> Tensor:
    """Rolls dimensions (None: all) by half their size, so that frequency 0 is in the middle."""
    return _shift("weft_fftshift", a, dim if axes is None else axes)


def ifftshift(a: Tensor, dim: Any = None, *, axes: Any = None) -> Tensor:
    """The inverse of fftshift()."""
    return _shift("weft_ifftshift", a, dim if axes is None else axes)


def _frequencies(name: str, n: int, d: float, dtype: Any, mesh: Optional[Mesh], placements: Placements) -> Tensor:
    found, array = resolve(mesh, placements)
    return made(getattr(_lib, name)(dtype_of(dtype) if dtype is not None else float32, n, d, found, array), name)


def fftfreq(n: int, d: float = 1.0, *, dtype: Any = None, mesh: Optional[Mesh] = None, placements: Placements = None,
            device: Any = None) -> Tensor:
    """The frequencies of the results of fft() with spacing d."""
    return _frequencies("weft_fftfreq", n, d, dtype, mesh, placements)


def rfftfreq(n: int, d: float = 1.0, *, dtype: Any = None, mesh: Optional[Mesh] = None, placements: Placements = None,
            device: Any = None) -> Tensor:
    """The frequencies of the results of rfft() with spacing d."""
    return _frequencies("weft_rfftfreq", n, d, dtype, mesh, placements)


del Any, Optional, Sequence
