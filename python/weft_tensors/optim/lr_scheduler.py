"""Learning rates that change with the steps of an optimiser, with PyTorch's names, arguments and values: numbers of this process alone.

A scheduler sets the learning rate of each group when it is made and with each ``step()``, which follows ``optimizer.step()``. Its learning
rate is a
function of the number of steps, so that a schedule goes on after ``load_state_dict()``.
"""
from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Callable, Sequence
from typing import Any

from . import Optimizer


class LRScheduler:
    """What all have in common. `last_epoch`: how many steps have been made; -1 begins."""

    def __init__(self, optimizer: Optimizer, last_epoch: int = -1) -> None:
        # All schedulers of an optimiser begin with the rates that the first one found.
        self.base_lrs = [float(group.setdefault("initial_lr", group["lr"])) for group in optimizer.param_groups]
        self.optimizer, self.last_epoch = optimizer, last_epoch
        self.step()

    def _lr(self, step: int, base: float) -> float:
        """The learning rate of a group that began with `base`."""
        raise NotImplementedError

    def step(self) -> None:
        """One step more."""
        self.last_epoch += 1
        self._set()

    def _set(self) -> None:
        for group, base in zip(self.optimizer.param_groups, self.base_lrs):
            group["lr"] = self._lr(self.last_epoch, base)

    def get_last_lr(self) -> list[float]:
        """The learning rate of each group of parameters."""
        return [group["lr"] for group in self.optimizer.param_groups]

    def state_dict(self) -> dict[str, Any]:
        """Numbers alone; a function that was given is not among them."""
        return {name: value for name, value in vars(self).items() if name != "optimizer" and not callable(value)}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Goes on from a state, and sets the learning rates."""
        own = self.state_dict()
        if set(own) != set(state):
            raise KeyError(f"load_state_dict: missing {sorted(set(own) - set(state))}, unexpected {sorted(set(state) - set(own))}")
        vars(self).update(state)
        self._set()


class LambdaLR(LRScheduler):
    """The first learning rate times a function of the number of steps."""

    def __init__(self, optimizer: Optimizer, lr_lambda: Callable[[int], float], last_epoch: int = -1) -> None:
        self.lr_lambda = lr_lambda
        super().__init__(optimizer, last_epoch)

    def _lr(self, step: int, base: float) -> float:
        return base * self.lr_lambda(step)


class StepLR(LRScheduler):
    """Times `gamma` every `step_size` steps."""

    def __init__(self, optimizer: Optimizer, step_size: int, gamma: float = 0.1, last_epoch: int = -1) -> None:
        self.step_size, self.gamma = step_size, gamma
        super().__init__(optimizer, last_epoch)

    def _lr(self, step: int, base: float) -> float:
        return base * self.gamma ** (step // self.step_size)


class MultiStepLR(LRScheduler):
    """Times `gamma` at each milestone."""

    def __init__(self, optimizer: Optimizer, milestones: Sequence[int], gamma: float = 0.1, last_epoch: int = -1) -> None:
        self.milestones, self.gamma = sorted(milestones), gamma
        super().__init__(optimizer, last_epoch)

    def _lr(self, step: int, base: float) -> float:
        return base * self.gamma ** bisect_right(self.milestones, step)


class ExponentialLR(LRScheduler):
    """Times `gamma` at each step."""

    def __init__(self, optimizer: Optimizer, gamma: float, last_epoch: int = -1) -> None:
        self.gamma = gamma
        super().__init__(optimizer, last_epoch)

    def _lr(self, step: int, base: float) -> float:
        return base * self.gamma**step


class ConstantLR(LRScheduler):
    """Times `factor` for the first `total_iters` steps."""

    def __init__(self, optimizer: Optimizer, factor: float = 1 / 3, total_iters: int = 5, last_epoch: int = -1) -> None:
        self.factor, self.total_iters = factor, total_iters
        super().__init__(optimizer, last_epoch)

    def _lr(self, step: int, base: float) -> float:
        return base * (self.factor if step < self.total_iters else 1)


class LinearLR(LRScheduler):
    """A factor from `start_factor` to `end_factor` within `total_iters` steps: a warm-up."""

    def __init__(self, optimizer: Optimizer, start_factor: float = 1 / 3, end_factor: float = 1.0, total_iters: int = 5, last_epoch: int = -1) -> None:
        self.start_factor, self.end_factor, self.total_iters = start_factor, end_factor, total_iters
        super().__init__(optimizer, last_epoch)

    def _lr(self, step: int, base: float) -> float:
        part = min(step, self.total_iters) / self.total_iters
        return base * (self.start_factor + (self.end_factor - self.start_factor) * part)


class PolynomialLR(LRScheduler):
    """To 0 within `total_iters` steps, by a power of what is left."""

    def __init__(self, optimizer: Optimizer, total_iters: int = 5, power: float = 1.0, last_epoch: int = -1) -> None:
        self.total_iters, self.power = total_iters, power
        super().__init__(optimizer, last_epoch)

    def _lr(self, step: int, base: float) -> float:
        return base * (1 - min(step, self.total_iters) / self.total_iters) ** self.power


class CosineAnnealingLR(LRScheduler):
    """Half a cosine from the first learning rate to `eta_min` within `T_max` steps (I. Loshchilov and F. Hutter, SGDR, 2017)."""

    def __init__(self, optimizer: Optimizer, T_max: int, eta_min: float = 0.0, last_epoch: int = -1) -> None:
        self.T_max, self.eta_min = T_max, eta_min
        super().__init__(optimizer, last_epoch)

    def _lr(self, step: int, base: float) -> float:
        return self.eta_min + (base - self.eta_min) * (1 + math.cos(math.pi * step / self.T_max)) / 2


class CosineAnnealingWarmRestarts(LRScheduler):
    """The same again and again; each time takes `T_mult` times as many steps as the one before."""

    def __init__(self, optimizer: Optimizer, T_0: int, T_mult: int = 1, eta_min: float = 0.0, last_epoch: int = -1) -> None:
        self.T_0, self.T_mult, self.eta_min = T_0, T_mult, eta_min
        super().__init__(optimizer, last_epoch)

    def _lr(self, step: int, base: float) -> float:
        length = self.T_0
        while step >= length:
            step -= length
            length *= self.T_mult
        return self.eta_min + (base - self.eta_min) * (1 + math.cos(math.pi * step / length)) / 2


class OneCycleLR(LRScheduler):
    """From `max_lr` / `div_factor` up to `max_lr`, then down to the first one / `final_div_factor` (L. Smith and N. Topin, 2018). The momentum stays."""

    def __init__(self, optimizer: Optimizer, max_lr: float, total_steps: int, pct_start: float = 0.3, anneal_strategy: str = "cos",
                 div_factor: float = 25.0, final_div_factor: float = 1e4, last_epoch: int = -1) -> None:
        if anneal_strategy not in ("cos", "linear"):
            raise ValueError(f"anneal_strategy: {anneal_strategy!r} is neither \"cos\" nor \"linear\"")
        self.max_lr, self.total_steps, self.pct_start, self.linear = max_lr, total_steps, pct_start, anneal_strategy == "linear"
        self.initial_lr = max_lr / div_factor
        self.min_lr = self.initial_lr / final_div_factor
        super().__init__(optimizer, last_epoch)

    def _lr(self, step: int, base: float) -> float:
        if step > self.total_steps:
            raise ValueError(f"OneCycleLR: step {step} of {self.total_steps}")
        top, end = self.pct_start * self.total_steps - 1, self.total_steps - 1
        first, last, part = (self.initial_lr, self.max_lr, step / top) if step <= top else (self.max_lr, self.min_lr, (step - top) / (end - top))
        return first + (last - first) * part if self.linear else last + (first - last) / 2 * (1 + math.cos(math.pi * part))


class SequentialLR:
    """Schedulers one after the other: number i from step milestones[i - 1] on, counted anew from there."""

    def __init__(self, optimizer: Optimizer, schedulers: Sequence[LRScheduler], milestones: Sequence[int], last_epoch: int = -1) -> None:
        if len(milestones) != len(schedulers) - 1:
            raise ValueError(f"milestones: {len(milestones)} are given, and {len(schedulers)} schedulers need {len(schedulers) - 1}")
        self.optimizer, self.schedulers, self.milestones, self.last_epoch = optimizer, list(schedulers), list(milestones), last_epoch
        self.step()

    def step(self) -> None:
        """One step more."""
        self.last_epoch += 1
        number = bisect_right(self.milestones, self.last_epoch)
        scheduler = self.schedulers[number]
        scheduler.last_epoch = self.last_epoch - (self.milestones[number - 1] if number else 0) - 1
        scheduler.step()

    def get_last_lr(self) -> list[float]:
        """The learning rate of each group of parameters."""
        return [group["lr"] for group in self.optimizer.param_groups]

    def state_dict(self) -> dict[str, Any]:
        """Numbers alone."""
        return {"last_epoch": self.last_epoch, "schedulers": [each.state_dict() for each in self.schedulers]}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Goes on from a state, and sets the learning rates."""
        for each, own in zip(self.schedulers, state["schedulers"]):
            each.load_state_dict(own)
        self.last_epoch = state["last_epoch"] - 1
        self.step()


class ReduceLROnPlateau:
    """Times `factor` when a number has not improved for more than `patience` steps. All processes must give the same number."""

    def __init__(self, optimizer: Optimizer, mode: str = "min", factor: float = 0.1, patience: int = 10, threshold: float = 1e-4,
                 threshold_mode: str = "rel", cooldown: int = 0, min_lr: float = 0.0, eps: float = 1e-8) -> None:
        if mode not in ("min", "max") or threshold_mode not in ("rel", "abs"):
            raise ValueError(f"mode is {mode!r} and threshold_mode {threshold_mode!r}, expected \"min\" or \"max\", and \"rel\" or \"abs\"")
        if factor >= 1:
            raise ValueError(f"factor: {factor} is not below 1")
        self.optimizer, self.mode, self.factor, self.patience, self.threshold = optimizer, mode, factor, patience, threshold
        self.threshold_mode, self.cooldown, self.min_lr, self.eps = threshold_mode, cooldown, min_lr, eps
        self.best = math.inf if mode == "min" else -math.inf
        self.num_bad_epochs = self.cooldown_counter = self.last_epoch = 0

    def _is_better(self, number: float) -> bool:
        sign = -1 if self.mode == "min" else 1
        if self.threshold_mode == "rel":
            margin = self.best * (1 + sign * self.threshold) if math.isfinite(self.best) else self.best
        else:
            margin = self.best + sign * self.threshold
        return number < margin if self.mode == "min" else number > margin

    def step(self, metrics: float) -> None:
        """One step more, and the number that it led to."""
        number = float(metrics)
        self.last_epoch += 1
        if self._is_better(number):
            self.best, self.num_bad_epochs = number, 0
        else:
            self.num_bad_epochs += 1
        if self.cooldown_counter > 0:
            self.cooldown_counter -= 1
            self.num_bad_epochs = 0
        if self.num_bad_epochs > self.patience:
            for group in self.optimizer.param_groups:
                lower = max(group["lr"] * self.factor, self.min_lr)
                if group["lr"] - lower > self.eps:
                    group["lr"] = lower
            self.cooldown_counter, self.num_bad_epochs = self.cooldown, 0

    def get_last_lr(self) -> list[float]:
        """The learning rate of each group of parameters."""
        return [group["lr"] for group in self.optimizer.param_groups]

    def state_dict(self) -> dict[str, Any]:
        """Numbers, and the learning rates."""
        return {**{name: value for name, value in vars(self).items() if name != "optimizer"}, "lrs": self.get_last_lr()}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Goes on from a state, and sets the learning rates."""
        own = dict(state)
        for group, lr in zip(self.optimizer.param_groups, own.pop("lrs")):
            group["lr"] = lr
        vars(self).update(own)


__all__ = ["ConstantLR", "CosineAnnealingLR", "CosineAnnealingWarmRestarts", "ExponentialLR", "LRScheduler", "LambdaLR", "LinearLR", "MultiStepLR",
           "OneCycleLR", "PolynomialLR", "ReduceLROnPlateau", "SequentialLR", "StepLR"]
