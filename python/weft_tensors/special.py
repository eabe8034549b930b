"""Special functions under the names of torch.special."""
from __future__ import annotations

from typing import Any, Optional

from . import array_api as _a, functions as _f
from ._core import Tensor
from .compositions import mvlgamma as multigammaln # noqa: F401
from .functions import (bessel_j0, bessel_j1, digamma, digamma as psi, entr, erf, erfc, erfinv, exp2, expm1, i0, i0e, i1, i1e, lgamma as gammaln, # noqa: F401
                        log1p, log_ndtr, log_softmax, logsumexp, ndtr, ndtri, round, sigmoid as expit, sinc, softmax, xlog1py, xlogy) # noqa: F401


def logit(input: Tensor, eps: Optional[float] = None) -> Tensor:
    """log(x / (1 - x)), of x within eps .. 1 - eps."""
    return _f.logit(input if eps is None else _a.clip(input, eps, 1 - eps))


def polygamma(n: int, input: Tensor) -> Tensor:
    """The derivative of digamma() with number n."""
    return _f.polygamma(input, n)


def zeta(input: Any, other: Any) -> Tensor:
    """The zeta function of Hurwitz; one of the arguments may be a number."""
    if not isinstance(input, Tensor):
        input = _a.full_like(other, input)
    return _f.zeta(input, other if isinstance(other, Tensor) else _a.full_like(input, other))
