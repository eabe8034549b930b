"""Gradients: regions without recording, mixed precision, hooks, recomputation."""
from __future__ import annotations

import ctypes
import pickle
from collections.abc import Callable, Iterator, Sequence
from contextlib import ContextDecorator
from ctypes import byref, c_void_p
from typing import Any, Optional

from . import _api, _library
from ._callbacks import BackwardFunction, GradHook, Registry, SegmentFunction, guarded, hand_over, scope
from ._library import kept, world
from ._core import (Placements, Tensor, _handle, _lib, _placement_array, bfloat16, borrowed, check, check_call, dtype_of, made, tensors)


class no_grad(ContextDecorator):
    """``with no_grad():`` calls are not recorded, and leaves may be changed in place. Also a decorator."""

    def __enter__(self) -> None:
        _library.start()
        _lib.weft_clear_error()
        _lib.weft_no_grad_begin()
        check(_lib.weft_last_status())

    def __exit__(self, *error: object) -> None:
        _lib.weft_no_grad_end()


class autocast(ContextDecorator):
    """``with autocast():`` products compute in 16 bits, and sums, norms, softmax and losses in 32. Without a type, in the one that
    suits the world's devices."""

    def __init__(self, dtype: Any = None, enabled: bool = True) -> None:
        self.dtype, self.enabled = dtype, enabled

    def __enter__(self) -> None:
        _library.start()
        dtype = dtype_of(self.dtype) if self.dtype is not None else _lib.weft_autocast_dtype()
        check(_lib.weft_autocast_begin(dtype if self.enabled else _api.weft_dtype.F32))

    def __exit__(self, *error: object) -> None:
        check(_lib.weft_autocast_end())


def gradients(outputs: Sequence[Tensor] | Tensor, inputs: Sequence[Tensor] | Tensor, output_gradients: Optional[Sequence[Optional[Tensor]]] = None,
              *, create_graph: bool = False) -> list[Optional[Tensor]]:
    """Gradients of outputs with respect to inputs of your choice; None where the outputs do not depend on one. Leaves' grad stays."""
    outputs = [outputs] if isinstance(outputs, Tensor) else list(outputs)
    inputs = [inputs] if isinstance(inputs, Tensor) else list(inputs)
    found = (c_void_p * max(len(inputs), 1))()
    given = tensors(output_gradients) if output_gradients is not None else None
    world.retains = create_graph
    check_call(_lib.weft_gradients(len(outputs), tensors(outputs), given, len(inputs), tensors(inputs), create_graph, found))
    return [made(handle) if handle else None for handle in found[:len(inputs)]]


def grad(outputs: Sequence[Tensor] | Tensor, inputs: Sequence[Tensor] | Tensor, grad_outputs: Any = None,
         retain_graph: Optional[bool] = None,
         create_graph: bool = False, allow_unused: bool = False) -> tuple[Optional[Tensor], ...]:
    """torch.autograd.grad(): gradients() as a tuple. An input on which the outputs do not depend is an error, unless allow_unused. What
    another pass needs is kept with retain_graph or create_graph."""
    given = [grad_outputs] if isinstance(grad_outputs, Tensor) else grad_outputs
    found = gradients(outputs, inputs, given, create_graph=create_graph or bool(retain_graph))
    if not allow_unused and any(each is None for each in found):
        raise RuntimeError("the outputs do not depend on one of the inputs; allow_unused=True gives None for it")
    return tuple(found)


def zero_grad(leaves: Sequence[Tensor]) -> None:
    """Drops the gradients of leaves."""
    check(_lib.weft_zero_grad(len(leaves), tensors(leaves)))


def set_grad_placements(tensor: Tensor, placements: Placements) -> None:
    """Chooses the layout of a tensor's gradient; None removes the choice."""
    count = _lib.weft_mesh_ndim(_lib.weft_tensor_mesh(tensor))
    check(_lib.weft_set_grad_placements(tensor, _placement_array(placements, count)))


_hooks = Registry()
_hook_of_leaf: dict[int, int] = {}


def _run_hook(leaf: int, gradient: int, context: int) -> int:
    return guarded(lambda: _hooks[context](borrowed(leaf), borrowed(gradient)))


_grad_hook = GradHook(_run_hook)


def set_grad_hook(leaf: Tensor, hook: Optional[Callable[[Tensor, Tensor], Any]]) -> None:
    """Calls hook(leaf, gradient) as soon as the leaf's gradient is complete, while the rest of the backward pass goes on. None removes it."""
    key = _hooks.add(hook) if hook is not None else 0
    status = _lib.weft_set_grad_hook(leaf, ctypes.cast(_grad_hook, c_void_p) if hook is not None else None, key or None)
    if status:
        _hooks.drop(key)
    check(status)
    _hooks.drop(_hook_of_leaf.pop(_handle(leaf), 0))
    if key:
        _hook_of_leaf[_handle(leaf)] = key


# ---- recomputation ----
_segments = Registry()


def _run_segment(context: int, num_inputs: int, inputs: Any, num_outputs: int, outputs: Any) -> int:
    def run() -> None:
        function, first = _segments[context]
        results = function(*[borrowed(inputs[i]) for i in range(num_inputs)])
        results = results if isinstance(results, tuple) else (results,)
        if len(results) != num_outputs:
            raise ValueError(f"checkpoint: the function returned {len(results)} tensors, but {num_outputs} are expected")
        hand_over(results, outputs)
        if first:
            _segments.objects[context] = function, False
        elif not world.retains: # the backward pass has had it
            _segments.drop(context)

    return guarded(run)


_segment = SegmentFunction(_run_segment)


def checkpoint(function: Callable[..., Any], *inputs: Tensor, num_outputs: int = 1) -> Any:
    """function(*inputs), of which only the inputs are saved: the backward pass calls it again, with the same random numbers. The function is
    kept until then."""
    key, outputs = _segments.add((function, True)), (c_void_p * num_outputs)()
    with scope():
        status = _lib.weft_recompute(ctypes.cast(_segment, c_void_p), key, 0, len(inputs), tensors(inputs), num_outputs, outputs)
        if status:
            _segments.drop(key)
        check_call(status)
        results = tuple(made(handle) for handle in outputs)
    if not any(result.requires_grad for result in results):
        _segments.drop(key)
    return results if num_outputs > 1 else results[0]


# ---- functions with a gradient of their own ----
class FunctionContext:
    """What a Function's forward() keeps for its backward(): tensors by save_for_backward(), and attributes, which are pickled."""

    def __init__(self) -> None:
        self._saved: tuple[Tensor, ...] = ()

    def save_for_backward(self, *saved: Tensor) -> None:
        """Keeps tensors with the values of now. With create_graph they must be inputs or outputs."""
        self._saved = saved

    @property
    def saved_tensors(self) -> tuple[Tensor, ...]:
        """The kept tensors, in backward()."""
        return self._saved


class Function:
    """torch.autograd.Function: forward(ctx, *arguments) computes, without recording; backward(ctx, *gradients) gives one gradient for each
    argument, or None. A gradient of an output that is not used is None. Other than in PyTorch num_outputs says how many tensors
    forward() returns."""
    num_outputs = 1

    @staticmethod
    def forward(ctx: Any, *arguments: Any) -> Any:
        """Returns a tensor, or a tuple of num_outputs of them."""
        raise NotImplementedError

    @staticmethod
    def backward(ctx: Any, *gradients: Any) -> Any:
        """Returns a gradient, or a tuple of one for each argument. ctx.needs_input_grad says which are used."""
        raise NotImplementedError

    @classmethod
    def apply(cls, *arguments: Any) -> Any:
        """forward() with its gradient on the tape."""
        inputs = [each for each in arguments if isinstance(each, Tensor)]
        key = _function_keys[cls] = _function_keys.get(cls) or _functions.add(cls)
        outputs = (c_void_p * cls.num_outputs)()
        _calls.append((cls, arguments))
        try:
            with scope():
                check_call(_lib.weft_custom_gradient(ctypes.cast(_forward, c_void_p), ctypes.cast(_backward, c_void_p), key, 0, len(inputs),
                                                     tensors(inputs), cls.num_outputs, outputs))
                results = tuple(made(handle) for handle in outputs)
        finally:
            _calls.pop()
        return results if cls.num_outputs > 1 else results[0]


_functions = Registry()
_function_keys: dict[type, int] = {}
_library.at_end.append(_function_keys.clear)
_calls: list[tuple[type[Function], tuple[Any, ...]]] = []


def _run_forward(context: int, num_inputs: int, inputs: Any, num_outputs: int, outputs: Any) -> int:
    def run() -> None:
        function, arguments = _calls[-1]
        handles = iter(inputs[i] for i in range(num_inputs))
        given = [borrowed(next(handles)) if isinstance(each, Tensor) else each for each in arguments]
        ctx = FunctionContext()
        results = function.forward(ctx, *given)
        results = results if isinstance(results, tuple) else (results,)
        if len(results) != num_outputs:
            raise ValueError(f"{function.__name__}.forward() returned {len(results)} tensors, but num_outputs is {num_outputs}")
        saved, ctx._saved = ctx._saved, ()
        if any(each.requires_grad for each in arguments if isinstance(each, Tensor)):
            state = pickle.dumps((vars(ctx), [isinstance(each, Tensor) for each in arguments]))
            check(_lib.weft_save_for_backward(len(saved), tensors(saved), state, len(state)))
        hand_over(results, outputs)

    return guarded(run)


def _run_backward(context: int, request: Any, gradients: Any) -> int:
    def run() -> None:
        given, function = request.contents, _functions[context]
        saved, grads = (ctypes.cast(each, ctypes.POINTER(c_void_p)) for each in (given.saved, given.output_gradients))
        wanted = ctypes.cast(given.wanted, ctypes.POINTER(ctypes.c_bool))
        ctx = FunctionContext()
        attributes, is_tensor = pickle.loads(ctypes.string_at(given.bytes, given.num_bytes))
        vars(ctx).update(attributes)
        ctx._saved = tuple(borrowed(saved[i]) for i in range(given.num_saved))
        places = [i for i, each in enumerate(is_tensor) if each]
        needs = {place: bool(wanted[i]) for i, place in enumerate(places)}
        ctx.needs_input_grad = tuple(needs.get(i, False) for i in range(len(is_tensor))) # type: ignore[attr-defined]
        results = function.backward(ctx, *[borrowed(grads[i]) if grads[i] else None for i in range(given.num_outputs)])
        results = results if isinstance(results, tuple) else (results,)
        if len(results) != len(is_tensor):
            raise ValueError(f"{function.__name__}.backward() returned {len(results)} gradients for {len(is_tensor)} arguments")
        for i, place in enumerate(places):
            if results[place] is not None:
                gradients[i] = _handle(results[place])
        kept.extend(each for each in results if each is not None)

    return guarded(run)


_forward = SegmentFunction(_run_forward)
_backward = BackwardFunction(_run_backward)


# ---- 16-bit gradients ----
class GradScaler:
    """Scales losses whose 16-bit gradients would be rounded to zero; skips steps with gradients that are not finite."""

    def __init__(self, scale: float = 65536.0, growth: float = 2.0, backoff: float = 0.5, interval: int = 2000) -> None:
        self._scaler = _api.weft_loss_scaler(scale, growth, backoff, interval, 0)

    @property
    def scale_factor(self) -> float:
        """The factor of the loss."""
        return self._scaler.scale

    def scale(self, loss: Tensor) -> Tensor:
        """The loss times the factor."""
        return made(_lib.weft_scale_loss(byref(self._scaler), loss))

    def unscale(self, gradients: Sequence[Optional[Tensor]]) -> bool:
        """Divides gradients by the factor, in place, and adapts it. False: some are not finite, skip the step. Waits."""
        given = [gradient for gradient in gradients if gradient is not None]
        finite = ctypes.c_bool()
        for gradient in given:
            _library.settle_tensor(gradient)
        check(_lib.weft_unscale_gradients(byref(self._scaler), len(given), tensors(given), byref(finite)))
        return finite.value

    def step(self, optimizer: Any) -> bool:
        """Unscales the optimiser's gradients, and makes its step if they are finite."""
        finite = self.unscale([parameter.grad for parameter in optimizer.parameters])
        if finite:
            optimizer.step()
        return finite


# ---- regions ----
class region(ContextDecorator):
    """``with region("attention"):`` counts the communication of calls under a name. strict: refuses implicit redistributions; show:
    prints each redistribution; allow_halos: of strict ones, allows halos."""

    def __init__(self, name: str = "region", *, strict: bool = False, show: bool = False, allow_halos: bool = False) -> None:
        self.name = name
        self.flags = _api.REGION_STRICT * strict | _api.REGION_PRINT * show | _api.REGION_ALLOW_HALOS * allow_halos

    def __enter__(self) -> None:
        _library.start()
        check(_lib.weft_region_begin(self.name.encode(), self.flags))

    def __exit__(self, *error: object) -> None:
        check(_lib.weft_region_end())


def region_counts() -> str:
    """The counts of all regions, as a table."""
    return _library.text_of(_lib.weft_print_regions)


class implicit_replication(ContextDecorator):
    """``with implicit_replication():`` tensors of other meshes are replicated on the mesh of the others."""

    def __enter__(self) -> None:
        _library.start()
        check(_lib.weft_implicit_replication_begin())

    def __exit__(self, *error: object) -> None:
        check(_lib.weft_implicit_replication_end())


class explain:
    """``with explain() as why: ...`` and then print(why): layouts and why they were chosen, redistributions, tasks, predicted times."""

    def __init__(self) -> None:
        self.text = ""

    def __enter__(self) -> explain:
        _library.start()
        check(_lib.weft_explain_begin())
        return self

    def __exit__(self, *error: object) -> None:
        check(_lib.weft_explain_end())
        self.text = _library.text_of(_lib.weft_explain)

    def __str__(self) -> str:
        return self.text


__all__ = ["Function", "GradScaler", "autocast", "checkpoint", "explain", "gradients", "implicit_replication", "no_grad", "region", "region_counts",
           "set_grad_hook", "set_grad_placements", "zero_grad"]
del Iterator, bfloat16
