"""Optimisers. A step is a call like any other: it returns at once. Parameters without a gradient are skipped."""
from __future__ import annotations

import ctypes
from collections.abc import Iterable
from typing import Any, Optional

from .. import _api
from .._core import Tensor, _lib, check, int64, tensors
from ..array_api import clip
from ..arrays import asarray
from ..autograd import no_grad
from ..functions import add_, copy_, lerp, norm, zeros_like


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
        self.defaults = defaults
        self.param_groups: list[dict[str, Any]] = []
        self.parameters: list[Tensor] = []
        self._counts: list[int] = []
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
        self._counts += [0] * len(parameters)
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

    @property
    def steps(self) -> int:
        """The number of steps. A parameter counts those in which it had a gradient; this is the largest number. Setting it moves the
        counts of all parameters that have made steps by the difference; before the first step, of all."""
        return max(self._counts)

    @steps.setter
    def steps(self, value: int) -> None:
        largest = self.steps
        self._counts = [max(0, count + value - largest) if count > 0 or largest == 0 else 0 for count in self._counts]

    def zero_grad(self, set_to_none: bool = True) -> None:
        """Drops the gradients."""
        check(_lib.weft_zero_grad(len(self.parameters), tensors(self.parameters)))

    def step(self) -> None:
        """Changes the parameters that have a gradient."""
        start = 0
        for group in self.param_groups:
            own: dict[int, list[int]] = {}
            for i, parameter in enumerate(group["params"], start):
                if parameter.grad is not None:
                    own.setdefault(self._counts[i] + 1, []).append(i)
            for step, members in own.items():
                self._step(group, members, step)
                for i in members:
                    self._counts[i] = step
            start += len(group["params"])

    def _step(self, group: dict[str, Any], members: list[int], step: int) -> None:
        """Changes parameters of a group, all of which have a gradient, and make their step of this number. `members`: their places among
        all."""
        raise NotImplementedError

    def _tensors(self) -> dict[str, Tensor]:
        return {}

    def state_dict(self) -> dict[str, Tensor]:
        """The optimiser's tensors by name, the parameters' numbers of steps among them: save_checkpoint() saves them,
        load_checkpoint(path, optimizer) sets them. Settings are the program's."""
        return {**self._tensors(), "steps": asarray(self._counts, dtype=int64)}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Copies values into the optimiser's tensors."""
        own = self._tensors()
        names = {*own, "steps"}
        if names != set(state):
            raise KeyError(f"load_state_dict: missing {sorted(names - set(state))}, unexpected {sorted(set(state) - names)}")
        for name, tensor in own.items():
            if state[name] is not tensor:
                copy_(tensor, state[name])
        self._counts = [int(count) for count in state["steps"].numpy()]


class _Kind(Optimizer):
    """An optimiser of weft_optimizer_step(): its kind, the names of its states and, for each field of the options, the setting."""

    _kind: int
    _states: tuple[str, ...]
    _fields = {"learning_rate": "lr", "weight_decay": "weight_decay", "epsilon": "eps", "maximize": "maximize"}

    def __init__(self, parameters: Iterable[Any], **defaults: Any) -> None:
        self.states: dict[str, list[Optional[Tensor]]] = {name: [] for name in self._states}
        super().__init__(parameters, **defaults)

    def _has(self, group: dict[str, Any]) -> list[str]:
        """The states that a group's parameters have."""
        return list(self._states)

    def _begin(self, group: dict[str, Any]) -> None:
        has = self._has(group)
        for name, states in self.states.items():
            states += [self._made(group, parameter) if name in has else None for parameter in group["params"]]

    def _made(self, group: dict[str, Any], parameter: Tensor) -> Tensor:
        return zeros_like(parameter)

    def _step(self, group: dict[str, Any], members: list[int], step: int) -> None:
        options = _api.weft_optimizer_options()
        check(_lib.weft_optimizer_options_init(ctypes.byref(options), self._kind))
        for field, setting in self._fields.items():
            if setting in group:
                setattr(options, field, group[setting])
        if "betas" in group:
            options.beta1, options.beta2 = group["betas"]
        states = [self.states[name][i] for name in self._has(group) for i in members]
        parameters = [self.parameters[i] for i in members]
        check(_lib.weft_optimizer_step(len(members), tensors(parameters), tensors([each.grad for each in parameters]),
                                       tensors(states) if states else None, step, ctypes.byref(options)))

    def _tensors(self) -> dict[str, Tensor]:
        return {f"{name}.{i}": each for name, states in self.states.items() for i, each in enumerate(states) if each is not None}


class SGD(_Kind):
    """Gradient descent with momentum."""

    _kind, _states = _api.weft_optimizer.SGD, ("momenta",)
    _fields = {**_Kind._fields, "momentum": "momentum", "dampening": "dampening", "nesterov": "nesterov"}

    def __init__(self, parameters: Iterable[Any], lr: float = 1e-3, momentum: float = 0.0, dampening: float = 0.0,
                 weight_decay: float = 0.0, nesterov: bool = False, *, maximize: bool = False, foreach: Any = None,
                 fused: Any = None) -> None:
        super().__init__(parameters, lr=lr, momentum=momentum, dampening=dampening, weight_decay=weight_decay, nesterov=nesterov,
                         maximize=maximize)

    def _has(self, group: dict[str, Any]) -> list[str]:
        return ["momenta"] if group["momentum"] else []


class Adam(_Kind):
    """Adam; weight decay is added to the gradient. With `amsgrad` the largest second moment so far is divided by."""

    _kind, _states = _api.weft_optimizer.ADAM, ("first", "second", "largest")
    _fields = {**_Kind._fields, "amsgrad": "amsgrad", "decoupled": "decoupled_weight_decay"}

    def __init__(self, parameters: Iterable[Any], lr: float = 1e-3, betas: tuple[float, float] = (0.9, 0.999), eps: float = 1e-8,
                 weight_decay: float = 0.0, amsgrad: bool = False, *, maximize: bool = False, decoupled_weight_decay: bool = False,
                 foreach: Any = None, fused: Any = None) -> None:
        super().__init__(parameters, lr=lr, betas=betas, eps=eps, weight_decay=weight_decay, amsgrad=amsgrad, maximize=maximize,
                         decoupled_weight_decay=decoupled_weight_decay)

    def _has(self, group: dict[str, Any]) -> list[str]:
        return ["first", "second"] + ["largest"] * bool(group["amsgrad"])


class AdamW(Adam):
    """Adam with weight decay apart from the gradient."""

    _kind = _api.weft_optimizer.ADAMW

    def __init__(self, parameters: Iterable[Any], lr: float = 1e-3, betas: tuple[float, float] = (0.9, 0.999), eps: float = 1e-8,
                 weight_decay: float = 1e-2, amsgrad: bool = False, *, maximize: bool = False, foreach: Any = None,
                 fused: Any = None) -> None:
        super().__init__(parameters, lr, betas, eps, weight_decay, amsgrad, maximize=maximize)


class RMSprop(_Kind):
    """Gradients divided by the root of their mean square."""

    _kind, _states = _api.weft_optimizer.RMSPROP, ("squares", "momenta", "means")
    _fields = {**_Kind._fields, "beta2": "alpha", "momentum": "momentum", "centered": "centered"}

    def __init__(self, parameters: Iterable[Any], lr: float = 1e-2, alpha: float = 0.99, eps: float = 1e-8, weight_decay: float = 0.0,
                 momentum: float = 0.0, centered: bool = False, *, maximize: bool = False, foreach: Any = None) -> None:
        super().__init__(parameters, lr=lr, alpha=alpha, eps=eps, weight_decay=weight_decay, momentum=momentum, centered=centered,
                         maximize=maximize)

    def _has(self, group: dict[str, Any]) -> list[str]:
        return ["squares"] + ["momenta"] * bool(group["momentum"]) + ["means"] * bool(group["centered"])


class Adagrad(_Kind):
    """Gradients divided by the root of the sum of their squares."""

    _kind, _states = _api.weft_optimizer.ADAGRAD, ("sums",)
    _fields = {**_Kind._fields, "learning_rate_decay": "lr_decay"}

    def __init__(self, parameters: Iterable[Any], lr: float = 1e-2, lr_decay: float = 0.0, weight_decay: float = 0.0,
                 initial_accumulator_value: float = 0.0, eps: float = 1e-10, *, maximize: bool = False, foreach: Any = None,
                 fused: Any = None) -> None:
        super().__init__(parameters, lr=lr, lr_decay=lr_decay, weight_decay=weight_decay,
                         initial_accumulator_value=initial_accumulator_value, eps=eps, maximize=maximize)

    def _made(self, group: dict[str, Any], parameter: Tensor) -> Tensor:
        return zeros_like(parameter) + group["initial_accumulator_value"]


class Adadelta(_Kind):
    """The mean square of the changes over that of the gradients."""

    _kind, _states = _api.weft_optimizer.ADADELTA, ("squares", "changes")
    _fields = {**_Kind._fields, "beta2": "rho"}

    def __init__(self, parameters: Iterable[Any], lr: float = 1.0, rho: float = 0.9, eps: float = 1e-6, weight_decay: float = 0.0, *,
                 maximize: bool = False, foreach: Any = None) -> None:
        super().__init__(parameters, lr=lr, rho=rho, eps=eps, weight_decay=weight_decay, maximize=maximize)


class Adamax(_Kind):
    """Adam with the largest gradient, which fades, in place of the second moment."""

    _kind, _states = _api.weft_optimizer.ADAMAX, ("first", "largest")

    def __init__(self, parameters: Iterable[Any], lr: float = 2e-3, betas: tuple[float, float] = (0.9, 0.999), eps: float = 1e-8,
                 weight_decay: float = 0.0, *, maximize: bool = False, foreach: Any = None) -> None:
        super().__init__(parameters, lr=lr, betas=betas, eps=eps, weight_decay=weight_decay, maximize=maximize)


class NAdam(_Kind):
    """Adam with Nesterov's momentum."""

    _kind, _states = _api.weft_optimizer.NADAM, ("first", "second")
    _fields = {**_Kind._fields, "momentum_decay": "momentum_decay", "decoupled": "decoupled_weight_decay"}

    def __init__(self, parameters: Iterable[Any], lr: float = 2e-3, betas: tuple[float, float] = (0.9, 0.999), eps: float = 1e-8,
                 weight_decay: float = 0.0, momentum_decay: float = 4e-3, decoupled_weight_decay: bool = False, *, maximize: bool = False,
                 foreach: Any = None) -> None:
        super().__init__(parameters, lr=lr, betas=betas, eps=eps, weight_decay=weight_decay, momentum_decay=momentum_decay,
                         decoupled_weight_decay=decoupled_weight_decay, maximize=maximize)


class RAdam(_Kind):
    """Adam that divides by the second moment only when that has enough steps behind it."""

    _kind, _states = _api.weft_optimizer.RADAM, ("first", "second")
    _fields = {**_Kind._fields, "decoupled": "decoupled_weight_decay"}

    def __init__(self, parameters: Iterable[Any], lr: float = 1e-3, betas: tuple[float, float] = (0.9, 0.999), eps: float = 1e-8,
                 weight_decay: float = 0.0, decoupled_weight_decay: bool = False, *, maximize: bool = False, foreach: Any = None) -> None:
        super().__init__(parameters, lr=lr, betas=betas, eps=eps, weight_decay=weight_decay,
                         decoupled_weight_decay=decoupled_weight_decay, maximize=maximize)


class Lion(_Kind):
    """The sign of a momentum (PyTorch has no such class)."""

    _kind, _states = _api.weft_optimizer.LION, ("momenta",)

    def __init__(self, parameters: Iterable[Any], lr: float = 1e-4, betas: tuple[float, float] = (0.9, 0.99), weight_decay: float = 0.0, *,
                 maximize: bool = False) -> None:
        super().__init__(parameters, lr=lr, betas=betas, weight_decay=weight_decay, maximize=maximize)


class Adafactor(Optimizer):
    """Adam's second moment of a matrix as the product of a column and a row (N. Shazeer and M. Stern, Adafactor, 2018)."""

    def __init__(self, parameters: Iterable[Any], lr: float = 1e-2, beta2_decay: float = -0.8,
                 eps: tuple[Optional[float], float] = (None, 1e-3), d: float = 1.0, weight_decay: float = 0.0, *,
                 maximize: bool = False, foreach: Any = None) -> None:
        self.rows: list[Optional[Tensor]] = []
        self.columns: list[Optional[Tensor]] = []
        self.squares: list[Optional[Tensor]] = []
        super().__init__(parameters, lr=lr, beta2_decay=beta2_decay, eps=eps, d=d, weight_decay=weight_decay, maximize=maximize)

    def _begin(self, group: dict[str, Any]) -> None:
        for parameter in group["params"]:
            with no_grad():
                zeros = zeros_like(parameter)
                factored = parameter.ndim > 1
                self.rows.append(zeros.sum(-1, keepdim=True) if factored else None)
                self.columns.append(zeros.sum(-2, keepdim=True) if factored else None)
                self.squares.append(None if factored else zeros)

    def _step(self, group: dict[str, Any], members: list[int], step: int) -> None:
        with no_grad():
            for i in members:
                self._change(group, self.parameters[i], step, self.rows[i], self.columns[i], self.squares[i])

    @staticmethod
    def _change(group: dict[str, Any], parameter: Tensor, step: int, row: Optional[Tensor], column: Optional[Tensor],
                squares: Optional[Tensor]) -> None:
        gradient = parameter.grad
        assert gradient is not None
        least, smallest = group["eps"]
        least = _EPSILON[parameter.dtype.name] if least is None else least
        weight, count = step ** group["beta2_decay"], max(1, parameter.size)
        rate = clip(norm(parameter) * count ** -0.5, smallest) * min(group["lr"], step ** -0.5)
        square = gradient * gradient
        if row is not None and column is not None:
            copy_(row, lerp(row, square.mean(-1, keepdim=True), weight))
            copy_(column, lerp(column, square.mean(-2, keepdim=True), weight))
            spread = row @ column / clip(row.mean(-2, keepdim=True), least)
        else:
            assert squares is not None
            copy_(squares, lerp(squares, square, weight))
            spread = squares
        change = gradient / clip(spread, least * least).sqrt()
        change = change * (rate / clip(norm(change) * (count ** -0.5 / group["d"]), 1.0))
        if group["weight_decay"]:
            copy_(parameter, parameter * (1 - group["lr"] * group["weight_decay"]))
        add_(parameter, change, 1.0 if group["maximize"] else -1.0)

    def _tensors(self) -> dict[str, Tensor]:
        states: dict[str, Any] = {"rows": self.rows, "columns": self.columns, "squares": self.squares}
        return {f"{name}.{i}": each for name, values in states.items() for i, each in enumerate(values) if each is not None}


_EPSILON = {"float64": 2.0 ** -52, "float32": 2.0 ** -23, "bfloat16": 2.0 ** -7, "float16": 2.0 ** -10}


from . import lr_scheduler # noqa: E402, F401  (it needs Optimizer)
