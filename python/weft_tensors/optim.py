"""Optimisers. A step is a call like any other: it returns at once. Parameters without a gradient are skipped."""
from __future__ import annotations

import ctypes
from collections.abc import Iterable
from typing import Any

from . import _api
from ._core import Tensor, _lib, check, int64, tensors
from .array_api import full
from .functions import copy_, zeros_like


class Optimizer:
    """What all have in common. `lr` may be changed between steps. PyTorch's foreach and fused are taken and change nothing: a step is
    one call for all parameters."""

    def __init__(self, parameters: Iterable[Tensor], lr: float) -> None:
        if isinstance(parameters, Tensor):
            raise TypeError("parameters: a list of tensors is expected, as module.parameters(), not one tensor")
        self.parameters, self.lr, self.steps = list(parameters), lr, 0
        if not self.parameters:
            raise ValueError("an optimiser needs parameters")
        for each in self.parameters:
            if not isinstance(each, Tensor):
                raise TypeError(f"parameters: a list of tensors is expected; it has a {type(each).__name__}. Make an optimiser for each group")

    def zero_grad(self, set_to_none: bool = True) -> None:
        """Drops the gradients."""
        check(_lib.weft_zero_grad(len(self.parameters), tensors(self.parameters)))

    def _gradients(self) -> Any:
        return tensors([parameter.grad for parameter in self.parameters])

    def step(self) -> None:
        """Changes the parameters."""
        raise NotImplementedError

    def _tensors(self) -> dict[str, Tensor]:
        return {}

    def state_dict(self) -> dict[str, Tensor]:
        """The optimiser's tensors by name, its number of steps among them: save_checkpoint() saves them, load_checkpoint(path, optimizer)
        sets them."""
        return {**self._tensors(), "steps": full((), self.steps, dtype=int64)}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Copies values into the optimiser's tensors."""
        own = self._tensors()
        if set(own) | {"steps"} != set(state):
            raise KeyError(f"load_state_dict: missing {sorted((set(own) | {'steps'}) - set(state))}, unexpected {sorted(set(state) - set(own) - {'steps'})}")
        for name, tensor in own.items():
            if state[name] is not tensor:
                copy_(tensor, state[name])
        self.steps = int(state["steps"].item())


class SGD(Optimizer):
    """Gradient descent with momentum."""

    def __init__(self, parameters: Iterable[Tensor], lr: float = 1e-3, momentum: float = 0.0, dampening: float = 0.0, weight_decay: float = 0.0,
                 nesterov: bool = False, *, foreach: Any = None, fused: Any = None) -> None:
        super().__init__(parameters, lr)
        self.momentum, self.dampening, self.weight_decay, self.nesterov = momentum, dampening, weight_decay, nesterov
        self.momenta = [zeros_like(parameter) for parameter in self.parameters] if momentum else []

    def step(self) -> None:
        options = _api.weft_sgd_options(ctypes.sizeof(_api.weft_sgd_options), self.lr, self.momentum, self.dampening, self.weight_decay,
                                        self.nesterov, self.steps == 0)
        self.steps += 1
        check(_lib.weft_sgd(len(self.parameters), tensors(self.parameters), self._gradients(), ctypes.byref(options),
                            tensors(self.momenta) if self.momenta else None))

    def _tensors(self) -> dict[str, Tensor]:
        return {f"momenta.{i}": each for i, each in enumerate(self.momenta)}


class Adam(Optimizer):
    """Adam; weight decay is added to the gradient."""

    _function = "weft_adam"

    def __init__(self, parameters: Iterable[Tensor], lr: float = 1e-3, betas: tuple[float, float] = (0.9, 0.999), eps: float = 1e-8,
                 weight_decay: float = 0.0, *, foreach: Any = None, fused: Any = None) -> None:
        super().__init__(parameters, lr)
        self.betas, self.eps, self.weight_decay = betas, eps, weight_decay
        self.first = [zeros_like(parameter) for parameter in self.parameters]
        self.second = [zeros_like(parameter) for parameter in self.parameters]

    def step(self) -> None:
        options = _api.weft_adam_options(ctypes.sizeof(_api.weft_adam_options), self.lr, *self.betas, self.eps, self.weight_decay)
        self.steps += 1
        check(getattr(_lib, self._function)(len(self.parameters), tensors(self.parameters), self._gradients(), tensors(self.first),
                                            tensors(self.second), self.steps, ctypes.byref(options)))

    def _tensors(self) -> dict[str, Tensor]:
        return {**{f"first.{i}": each for i, each in enumerate(self.first)}, **{f"second.{i}": each for i, each in enumerate(self.second)}}


class AdamW(Adam):
    """Adam with weight decay apart from the gradient."""

    _function = "weft_adamw"

    def __init__(self, parameters: Iterable[Tensor], lr: float = 1e-3, betas: tuple[float, float] = (0.9, 0.999), eps: float = 1e-8,
                 weight_decay: float = 1e-2, *, foreach: Any = None, fused: Any = None) -> None:
        super().__init__(parameters, lr, betas, eps, weight_decay)


from . import lr_scheduler # noqa: E402, F401  (it needs Optimizer)
