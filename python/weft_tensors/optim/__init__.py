"""Optimisers. A step is a call like any other: it returns at once. Parameters without a gradient are skipped."""
from __future__ import annotations

import ctypes
from collections.abc import Iterable
from typing import Any, Optional

from .. import _api
from .._core import Tensor, _lib, check, int64, tensors
from ..array_api import full
from ..autograd import no_grad
from ..functions import add_, copy_, zeros_like


class Optimizer:
    """What all have in common. `param_groups` has a dict for each group of parameters: "params" and the settings, which may be changed
    between steps; `lr` is that of the first group, and sets all. PyTorch's foreach and fused are taken and change nothing: a step is one
    call for the parameters of a group."""

    def __init__(self, parameters: Iterable[Any], **defaults: Any) -> None:
        if isinstance(parameters, Tensor):
            raise TypeError("parameters: a list of tensors is expected, as module.parameters(), not one tensor")
        given = list(parameters)
        if not given:
            raise ValueError("an optimiser needs parameters")
        self.defaults, self.steps = defaults, 0
        self.param_groups: list[dict[str, Any]] = []
        self.parameters: list[Tensor] = []
        for group in given if all(isinstance(each, dict) for each in given) else [{"params": given}]:
            self.add_param_group(group)

    def add_param_group(self, group: dict[str, Any]) -> None:
        """Adds parameters, {"params": [...]}, with settings of their own where the dict has some."""
        further = set(group) - set(self.defaults) - {"params"}
        if further or "params" not in group:
            raise TypeError(f"a group has \"params\" and {', '.join(self.defaults)}, not {', '.join(sorted(further)) or 'settings alone'}")
        parameters = [group["params"]] if isinstance(group["params"], Tensor) else list(group["params"])
        if not parameters:
            raise ValueError("a group needs parameters")
        for each in parameters:
            if not isinstance(each, Tensor):
                raise TypeError(f"parameters: a list of tensors, or of dicts with \"params\", is expected; it has a {type(each).__name__}")
        if {each._as_parameter_ for each in parameters} & {each._as_parameter_ for each in self.parameters}:
            raise ValueError("a parameter is in two groups")
        made = {**self.defaults, **group, "params": parameters}
        self.param_groups.append(made)
        self.parameters.extend(parameters)
        self._begin(made)

    def _begin(self, group: dict[str, Any]) -> None:
        """Makes the tensors that the optimiser has for a group's parameters."""

    @property
    def lr(self) -> Any:
        """The learning rate of the first group. Setting it sets that of all."""
        return self.param_groups[0]["lr"]

    @lr.setter
    def lr(self, value: Any) -> None:
        for group in self.param_groups:
            group["lr"] = value

    def zero_grad(self, set_to_none: bool = True) -> None:
        """Drops the gradients."""
        check(_lib.weft_zero_grad(len(self.parameters), tensors(self.parameters)))

    def step(self) -> None:
        """Changes the parameters."""
        self.steps += 1
        start = 0
        for group in self.param_groups:
            parameters = group["params"]
            self._step(group, tensors(parameters), tensors([parameter.grad for parameter in parameters]),
                       slice(start, start + len(parameters)))
            start += len(parameters)

    def _step(self, group: dict[str, Any], parameters: Any, gradients: Any, own: slice) -> None:
        """Changes a group's parameters. `own`: where its parameters are among all."""
        raise NotImplementedError

    def _tensors(self) -> dict[str, Tensor]:
        return {}

    def state_dict(self) -> dict[str, Tensor]:
        """The optimiser's tensors by name, its number of steps among them: save_checkpoint() saves them, load_checkpoint(path, optimizer)
        sets them. Settings are the program's."""
        return {**self._tensors(), "steps": full((), self.steps, dtype=int64)}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Copies values into the optimiser's tensors."""
        own = self._tensors()
        names = {*own, "steps"}
        if names != set(state):
            raise KeyError(f"load_state_dict: missing {sorted(names - set(state))}, unexpected {sorted(set(state) - names)}")
        for name, tensor in own.items():
            if state[name] is not tensor:
                copy_(tensor, state[name])
        self.steps = int(state["steps"].item())


class SGD(Optimizer):
    """Gradient descent with momentum."""

    def __init__(self, parameters: Iterable[Any], lr: float = 1e-3, momentum: float = 0.0, dampening: float = 0.0,
                 weight_decay: float = 0.0,
                 nesterov: bool = False, *, foreach: Any = None, fused: Any = None) -> None:
        self.momenta: list[Optional[Tensor]] = []
        super().__init__(parameters, lr=lr, momentum=momentum, dampening=dampening, weight_decay=weight_decay, nesterov=nesterov)

    def _begin(self, group: dict[str, Any]) -> None:
        self.momenta += [zeros_like(parameter) if group["momentum"] else None for parameter in group["params"]]

    def _step(self, group: dict[str, Any], parameters: Any, gradients: Any, own: slice) -> None:
        options = _api.weft_sgd_options(ctypes.sizeof(_api.weft_sgd_options), group["lr"], group["momentum"], group["dampening"],
                                        group["weight_decay"],
                                        group["nesterov"], self.steps == 1)
        momenta = self.momenta[own]
        check(_lib.weft_sgd(len(group["params"]), parameters, gradients, ctypes.byref(options),
                            tensors(momenta) if momenta[0] is not None else None))

    def _tensors(self) -> dict[str, Tensor]:
        return {f"momenta.{i}": each for i, each in enumerate(self.momenta) if each is not None}


class Adam(Optimizer):
    """Adam; weight decay is added to the gradient."""

    _function = "weft_adam"

    def __init__(self, parameters: Iterable[Any], lr: float = 1e-3, betas: tuple[float, float] = (0.9, 0.999), eps: float = 1e-8,
                 weight_decay: float = 0.0, *, foreach: Any = None, fused: Any = None) -> None:
        self.first: list[Tensor] = []
        self.second: list[Tensor] = []
        super().__init__(parameters, lr=lr, betas=betas, eps=eps, weight_decay=weight_decay)

    def _begin(self, group: dict[str, Any]) -> None:
        self.first += [zeros_like(parameter) for parameter in group["params"]]
        self.second += [zeros_like(parameter) for parameter in group["params"]]

    def _step(self, group: dict[str, Any], parameters: Any, gradients: Any, own: slice) -> None:
        options = _api.weft_adam_options(ctypes.sizeof(_api.weft_adam_options), group["lr"], *group["betas"], group["eps"],
                                         group["weight_decay"])
        check(getattr(_lib, self._function)(len(group["params"]), parameters, gradients, tensors(self.first[own]),
                                            tensors(self.second[own]), self.steps,
                                            ctypes.byref(options)))

    def _tensors(self) -> dict[str, Tensor]:
        return {**{f"first.{i}": each for i, each in enumerate(self.first)}, **{f"second.{i}": each for i, each in enumerate(self.second)}}


class AdamW(Adam):
    """Adam with weight decay apart from the gradient."""

    _function = "weft_adamw"

    def __init__(self, parameters: Iterable[Any], lr: float = 1e-3, betas: tuple[float, float] = (0.9, 0.999), eps: float = 1e-8,
                 weight_decay: float = 1e-2, *, foreach: Any = None, fused: Any = None) -> None:
        super().__init__(parameters, lr, betas, eps, weight_decay)


class RMSprop(Optimizer):
    """Gradients divided by the root of their mean square."""

    def __init__(self, parameters: Iterable[Any], lr: float = 1e-2, alpha: float = 0.99, eps: float = 1e-8, weight_decay: float = 0.0,
                 momentum: float = 0.0, centered: bool = False, *, foreach: Any = None) -> None:
        self.squares: list[Tensor] = []
        self.means: list[Optional[Tensor]] = []
        self.momenta: list[Optional[Tensor]] = []
        super().__init__(parameters, lr=lr, alpha=alpha, eps=eps, weight_decay=weight_decay, momentum=momentum, centered=centered)

    def _begin(self, group: dict[str, Any]) -> None:
        self.squares += [zeros_like(parameter) for parameter in group["params"]]
        self.means += [zeros_like(parameter) if group["centered"] else None for parameter in group["params"]]
        self.momenta += [zeros_like(parameter) if group["momentum"] else None for parameter in group["params"]]

    def _step(self, group: dict[str, Any], parameters: Any, gradients: Any, own: slice) -> None:
        with no_grad():
            for each in zip(group["params"], self.squares[own], self.means[own], self.momenta[own]):
                if each[0].grad is not None:
                    self._change(group, *each)

    @staticmethod
    def _change(group: dict[str, Any], parameter: Tensor, square: Tensor, mean: Optional[Tensor], momentum: Optional[Tensor]) -> None:
        alpha, gradient = group["alpha"], _decayed(parameter, group["weight_decay"])
        copy_(square, square * alpha + gradient * gradient * (1 - alpha))
        spread = square
        if mean is not None:
            copy_(mean, mean * alpha + gradient * (1 - alpha))
            spread = square - mean * mean
        step = gradient / (spread.sqrt() + group["eps"])
        if momentum is not None:
            copy_(momentum, momentum * group["momentum"] + step)
            step = momentum
        add_(parameter, step, -group["lr"])

    def _tensors(self) -> dict[str, Tensor]:
        states: dict[str, Any] = {"squares": self.squares, "means": self.means, "momenta": self.momenta}
        return {f"{name}.{i}": each for name, values in states.items() for i, each in enumerate(values) if each is not None}


class Adagrad(Optimizer):
    """Gradients divided by the root of the sum of their squares."""

    def __init__(self, parameters: Iterable[Any], lr: float = 1e-2, lr_decay: float = 0.0, weight_decay: float = 0.0,
                 initial_accumulator_value: float = 0.0, eps: float = 1e-10, *, foreach: Any = None) -> None:
        self.sums: list[Tensor] = []
        super().__init__(parameters, lr=lr, lr_decay=lr_decay, weight_decay=weight_decay,
                         initial_accumulator_value=initial_accumulator_value,
                         eps=eps)

    def _begin(self, group: dict[str, Any]) -> None:
        self.sums += [zeros_like(parameter) + group["initial_accumulator_value"] for parameter in group["params"]]

    def _step(self, group: dict[str, Any], parameters: Any, gradients: Any, own: slice) -> None:
        lr = group["lr"] / (1 + (self.steps - 1) * group["lr_decay"])
        with no_grad():
            for parameter, total in zip(group["params"], self.sums[own]):
                if parameter.grad is not None:
                    gradient = _decayed(parameter, group["weight_decay"])
                    copy_(total, total + gradient * gradient)
                    add_(parameter, gradient / (total.sqrt() + group["eps"]), -lr)

    def _tensors(self) -> dict[str, Tensor]:
        return {f"sums.{i}": each for i, each in enumerate(self.sums)}


def _decayed(parameter: Tensor, weight_decay: float) -> Tensor:
    gradient = parameter.grad
    assert gradient is not None
    return gradient + parameter * weight_decay if weight_decay else gradient


from . import lr_scheduler # noqa: E402, F401  (it needs Optimizer)
