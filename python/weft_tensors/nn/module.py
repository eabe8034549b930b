"""Modules: trees of named parameters with a forward function in Python, and their distribution over a mesh."""
from __future__ import annotations

import ctypes
import weakref
from collections.abc import Callable, Iterator, Sequence
from ctypes import c_char_p, c_void_p
from typing import Any, Optional, Union

from .. import _api, _library, functions as _f
from .._callbacks import ForwardFunction, ModuleFunction, PartitionFunction, Registry, guarded, hand_over, scope
from .._core import (Mesh, Placements, Tensor, _handle, _lib, _placement_array, bfloat16, borrowed, check, check_call, choose, dtype_of,
                     failure, float16, float32, float64, made, resolve, tensors)

_modules = Registry()


class Parameter(Tensor):
    """A tensor that becomes a parameter of the module that it is assigned to."""

    __slots__ = ()

    def __new__(cls, data: Tensor, requires_grad: bool = True) -> Any:
        leaf = data if not data.requires_grad or data.is_leaf else data.detach()
        parameter = object.__new__(cls)
        check(_lib.weft_tensor_retain(leaf))
        parameter._as_parameter_, parameter._epoch, parameter._kind = _handle(leaf), _library.world.epoch, None
        check(_lib.weft_set_requires_grad(parameter, requires_grad))
        return parameter

    def __init__(self, *arguments: Any, **keywords: Any) -> None:
        pass


def _run_forward(handle: int, num_inputs: int, inputs: Any, num_outputs: int, outputs: Any, context: int) -> int:
    def run() -> None:
        module = _modules[context]()
        arguments, keywords = module._calls[-1] if module._calls else (None, {})
        given = iter([borrowed(inputs[i]) for i in range(num_inputs)])
        values = list(given) if arguments is None else [next(given) if each is _TENSOR else each for each in arguments]
        module._inside += 1
        try:
            result = module.forward(*values, **keywords)
        finally:
            module._inside -= 1
        results = result if isinstance(result, (tuple, list)) else (result,)
        if len(results) != num_outputs:
            raise ValueError(f"{type(module).__name__}.forward returned {len(results)} tensors: set num_outputs = {len(results)} in the class")
        hand_over(results, outputs)

    return guarded(run)


_forward = ForwardFunction(_run_forward)
_TENSOR = object()


class RemovableHandle:
    """What registers a hook returns: remove(), or the end of a `with` block, removes the hook."""

    _last = 0

    def __init__(self, hooks: dict[int, Any], entry: Any, first: bool = False) -> None:
        RemovableHandle._last += 1
        self._hooks, self.id = hooks, RemovableHandle._last
        others = dict(hooks) if first else {}
        if first:
            hooks.clear()
        hooks[self.id] = entry
        hooks.update(others)

    def remove(self) -> None:
        """Removes the hook; a second time changes nothing."""
        self._hooks.pop(self.id, None)

    def __enter__(self) -> RemovableHandle:
        return self

    def __exit__(self, *error: object) -> None:
        self.remove()


def _before(hook: Any, with_keywords: bool, module: Module, arguments: tuple[Any, ...],
            keywords: dict[str, Any]) -> tuple[Any, dict[str, Any]]:
    """The arguments after a hook before forward."""
    if not with_keywords:
        changed = hook(module, arguments)
        return arguments if changed is None else changed if isinstance(changed, tuple) else (changed,), keywords
    changed = hook(module, arguments, keywords)
    if changed is None:
        return arguments, keywords
    if not (isinstance(changed, tuple) and len(changed) == 2 and isinstance(changed[0], tuple) and isinstance(changed[1], dict)):
        raise TypeError(f"a hook with keywords returns None or (arguments, keywords), not {type(changed).__name__}")
    return changed


class Module:
    """A module: parameters are assigned as Parameter(tensor), children as modules, and `forward` computes.

    In `forward`, self.weight is the parameter as it is used: gathered, where it is fully sharded. Outside it is the parameter itself.
    A class whose `forward` returns several tensors says so by `num_outputs`.
    """

    num_outputs = 1
    training = True

    def __init__(self) -> None:
        _library.start()
        own = self.__dict__
        own["_slots"], own["_children"], own["_parent"], own["_inside"], own["_calls"] = {}, {}, None, 0, []
        own["_hooks_before"], own["_hooks_after"] = {}, {}
        own["_epoch"], own["_handle"] = _library.world.epoch, _lib.weft_module_create(type(self).__name__.encode())
        if not own["_handle"]:
            raise failure()
        own["_key"] = _modules.add(weakref.ref(self))
        check(_lib.weft_module_set_forward(own["_handle"], ctypes.cast(_forward, c_void_p), own["_key"]))

    def __del__(self) -> None:
        own = self.__dict__
        if "_key" in own:
            _modules.drop(own["_key"])
            _distributions.drop(own.get("_distribution", 0))
            if own["_parent"] is None: # a root owns the others
                _library.end(own["_epoch"], _lib.weft_module_destroy, own["_handle"])

    def _no_forward(self, *inputs: Tensor) -> Any:
        raise NotImplementedError(f"{type(self).__name__} has no forward()")

    forward: Callable[..., Any] = _no_forward

    # ---- the tree ----
    def __setattr__(self, name: str, value: Any) -> None:
        own = self.__dict__
        if "_slots" not in own:
            raise AttributeError("call super().__init__() before parameters and modules are assigned")
        if isinstance(value, Parameter):
            self.register_parameter(name, value)
        elif isinstance(value, Module):
            self.add_module(name, value)
        elif name in own["_slots"]:
            if value is not None and not isinstance(value, Tensor):
                raise TypeError(f"{name}: a Tensor or None is expected, not {type(value).__name__}; load_state_dict() takes arrays")
            check(_lib.weft_module_set_tensor(own["_handle"], name.encode(), value))
        elif name in own["_children"]:
            raise TypeError(f"{name} is a module already")
        else:
            object.__setattr__(self, name, value)

    def __getattr__(self, name: str) -> Any:
        own = self.__dict__
        if name in own.get("_slots", ()):
            return self._tensor(name, own["_inside"] > 0)
        if name in own.get("_children", ()):
            return own["_children"][name]
        raise AttributeError(f"{type(self).__name__} has no attribute {name!r}")

    def _tensor(self, name: str, use: bool) -> Optional[Tensor]:
        own = self.__dict__
        kind = own["_slots"][name]
        function = _lib.weft_module_use if use else _lib.weft_module_parameter if kind == "parameter" else _lib.weft_module_buffer
        handle = function(own["_handle"], name.encode())
        if handle:
            tensor = borrowed(handle)
            if kind == "parameter" and not use:
                tensor.__class__ = Parameter
            return tensor
        if _lib.weft_last_status():
            raise failure()
        return None

    def register_parameter(self, name: str, tensor: Optional[Tensor]) -> None:
        """Adds a parameter, or replaces it; None is an empty slot."""
        if name in self.__dict__["_slots"]:
            check(_lib.weft_module_set_tensor(self._handle, name.encode(), tensor))
        else:
            constant = isinstance(tensor, Tensor) and not tensor.requires_grad
            check(_lib.weft_module_add_parameter(self._handle, name.encode(), tensor))
            if constant and isinstance(tensor, Parameter): # C makes a leaf of it
                check(_lib.weft_set_requires_grad(tensor, False))
            self._slots[name] = "parameter"
            self.__dict__.pop(name, None) # self.bias = None, before

    def register_buffer(self, name: str, tensor: Optional[Tensor]) -> None:
        """Adds a tensor that is not a parameter."""
        check(_lib.weft_module_add_buffer(self._handle, name.encode(), tensor))
        self._slots[name] = "buffer"
        self.__dict__.pop(name, None)

    def add_module(self, name: str, module: Module) -> None:
        """Makes a module a child."""
        check(_lib.weft_module_add_child(self._handle, name.encode(), module._handle))
        self._children[name] = module
        self.__dict__.pop(name, None)
        module.__dict__["_parent"] = self

    def _list(self, function: Any) -> Iterator[tuple[str, int]]:
        count = function(self._handle, 0, None, None)
        names, handles = (c_char_p * max(count, 1))(), (c_void_p * max(count, 1))()
        function(self._handle, count, names, handles)
        return iter([(names[i].decode(), handles[i]) for i in range(count)])

    def named_parameters(self) -> Iterator[tuple[str, Tensor]]:
        """Paths and parameters of the tree."""
        return iter([(name, borrowed(handle)) for name, handle in self._list(_lib.weft_module_parameters)])

    def parameters(self) -> Iterator[Tensor]:
        """The parameters of the tree."""
        return iter([tensor for _, tensor in self.named_parameters()])

    def named_buffers(self) -> Iterator[tuple[str, Tensor]]:
        """Paths and buffers of the tree."""
        return iter([(name, borrowed(handle)) for name, handle in self._list(_lib.weft_module_buffers)])

    def buffers(self) -> Iterator[Tensor]:
        """The buffers of the tree."""
        return iter([tensor for _, tensor in self.named_buffers()])

    def named_children(self) -> Iterator[tuple[str, Module]]:
        """Names and children."""
        return iter(list(self._children.items()))

    def children(self) -> Iterator[Module]:
        """The children."""
        return iter(list(self._children.values()))

    def named_modules(self, prefix: str = "") -> Iterator[tuple[str, Module]]:
        """Paths and modules of the tree, this one first."""
        yield prefix, self
        for name, child in self._children.items():
            yield from child.named_modules(f"{prefix}.{name}" if prefix else name)

    def modules(self) -> Iterator[Module]:
        """The modules of the tree, this one first."""
        return iter([module for _, module in self.named_modules()])

    def get_submodule(self, path: str) -> Module:
        """The child at a path."""
        module = self
        for name in filter(None, path.split(".")):
            module = module._children[name]
        return module

    def get_parameter(self, path: str) -> Tensor:
        """The parameter at a path."""
        module, _, name = path.rpartition(".")
        return getattr(self.get_submodule(module), name)

    def apply(self, function: Callable[[Module], Any]) -> Module:
        """Calls function(module) for each module of the tree, children first; returns the module."""
        for child in self.children():
            child.apply(function)
        function(self)
        return self

    def state_dict(self) -> dict[str, Tensor]:
        """Parameters and buffers by path: save_checkpoint() saves them."""
        return {**dict(self.named_parameters()), **dict(self.named_buffers())}

    def load_state_dict(self, state: dict[str, Any], strict: bool = True) -> None:
        """Copies values into parameters and buffers: tensors in any layout, or arrays that every process has."""
        from ..arrays import asarray
        own = self.state_dict()
        missing, further = sorted(set(own) - set(state)), sorted(set(state) - set(own))
        if strict and (missing or further):
            raise KeyError(f"load_state_dict: missing {missing}, unexpected {further}")
        for name in own:
            if name in state and tuple(state[name].shape) != own[name].shape:
                raise ValueError(f"load_state_dict: {name} has shape {own[name].shape}, given is {tuple(state[name].shape)}")
        _lib.weft_no_grad_begin()
        try:
            for name, tensor in own.items():
                if name in state:
                    value = state[name]
                    _f.copy_(tensor, value if isinstance(value, Tensor) else asarray(value, mesh=tensor.mesh))
        finally:
            _lib.weft_no_grad_end()

    def train(self, mode: bool = True) -> Module:
        """Sets `training` in the tree."""
        for module in self.modules():
            object.__setattr__(module, "training", mode)
        return self

    def eval(self) -> Module:
        """Unsets `training` in the tree."""
        return self.train(False)

    def requires_grad_(self, on: bool = True) -> Module:
        """Whether the tree's parameters require gradients."""
        for parameter in self.parameters():
            parameter.requires_grad = on
        return self

    def to(self, *arguments: Any, dtype: Any = None, device: Any = None) -> Module:
        """The module itself. A device changes nothing: weft's scheduler chooses that of each task. With a type, floating parameters and
        buffers are replaced by ones of it, in their layouts: before an optimiser is made."""
        for each in arguments:
            if not (isinstance(each, str) and each.partition(":")[0] in ("cpu", "cuda")):
                dtype = each
        if dtype is not None:
            self._convert(dtype_of(dtype))
        return self

    def _convert(self, dtype: Any) -> None:
        if not (dtype.is_floating_point or dtype.is_complex):
            raise TypeError(f"to: parameters are floating numbers, not {dtype.name}")
        new: dict[int, Tensor] = {} # tied ones stay tied
        for module in self.modules():
            for name, kind in module._slots.items():
                old = module._tensor(name, False)
                if old is None or not (old.dtype.is_floating_point or old.dtype.is_complex):
                    continue
                key = _handle(old)
                if key not in new:
                    converted = old.detach().astype(dtype)
                    new[key] = Parameter(converted, old.requires_grad) if kind == "parameter" else converted
                check(_lib.weft_module_set_tensor(module._handle, name.encode(), new[key]))

    def double(self) -> Module:
        """to(float64)."""
        return self.to(float64)

    def float(self) -> Module:
        """to(float32)."""
        return self.to(float32)

    def half(self) -> Module:
        """to(float16)."""
        return self.to(float16)

    def bfloat16(self) -> Module:
        """to(bfloat16)."""
        return self.to(bfloat16)

    def cuda(self, device: Any = None) -> Module:
        """The module itself: weft's scheduler chooses devices."""
        return self

    cpu = cuda

    def zero_grad(self, set_to_none: bool = True) -> None:
        """Drops the gradients of the tree's parameters."""
        leaves = [parameter for parameter in self.parameters() if parameter.requires_grad]
        check(_lib.weft_zero_grad(len(leaves), tensors(leaves)))

    def __repr__(self) -> str:
        return _library.text_of(_lib.weft_module_print, self._handle).rstrip()

    # ---- forward ----
    def __call__(self, *arguments: Any, **keywords: Any) -> Any:
        for hook, with_keywords in list(self._hooks_before.values()):
            arguments, keywords = _before(hook, with_keywords, self, arguments, keywords)
        results = self._computed(arguments, keywords)
        for hook, with_keywords in list(self._hooks_after.values()):
            changed = hook(self, arguments, keywords, results) if with_keywords else hook(self, arguments, results)
            results = results if changed is None else changed
        return results

    def _computed(self, arguments: tuple[Any, ...], keywords: dict[str, Any]) -> Any:
        inputs = [each for each in arguments if isinstance(each, Tensor)]
        count = self.num_outputs
        outputs = (c_void_p * count)()
        self._calls.append(([_TENSOR if isinstance(each, Tensor) else each for each in arguments], keywords))
        try:
            check_call(_lib.weft_module_forward(self._handle, len(inputs), tensors(inputs), count, outputs))
        finally:
            self._calls.pop()
        results = tuple(made(handle) for handle in outputs)
        return results if count > 1 else results[0]

    def register_forward_pre_hook(self, hook: Callable[..., Any], *, prepend: bool = False, with_kwargs: bool = False) -> RemovableHandle:
        """Calls hook(module, arguments) before each forward; it may return other arguments. With `with_kwargs` it gets the keywords, too,
        and returns (arguments, keywords). Like all hooks it runs around what a parallel style does to inputs and outputs."""
        return RemovableHandle(self._hooks_before, (hook, with_kwargs), prepend)

    def register_forward_hook(self, hook: Callable[..., Any], *, prepend: bool = False, with_kwargs: bool = False) -> RemovableHandle:
        """Calls hook(module, arguments, output) after each forward; it may return another output. With `with_kwargs` the keywords are
        between arguments and output."""
        return RemovableHandle(self._hooks_after, (hook, with_kwargs), prepend)

    # ---- distribution ----
    def distribute(self, mesh: Optional[Mesh] = None, partition: Optional[Callable[[str, Module, Mesh], Any]] = None,
                   input_function: Optional[Callable[..., Any]] = None, output_function: Optional[Callable[..., Any]] = None) -> Module:
        """Distributes parameters and buffers over a mesh: partition(name, module, mesh) places some, the others are replicated.
        input_function(module, inputs, mesh) and output_function(module, outputs, mesh) may return other tensors."""
        mesh, _ = resolve(mesh, None)
        by_handle = {module._handle: (name, module) for name, module in self.named_modules()}
        keep: dict[str, Any] = {"partition": partition, "input": input_function, "output": output_function, "modules": by_handle}
        key, status = _distributions.add(keep), 1
        try:
            with scope():
                status = _lib.weft_distribute_module(
                    self._handle, mesh, ctypes.cast(_partition, c_void_p) if partition else None,
                    ctypes.cast(_input, c_void_p) if input_function else None, ctypes.cast(_output, c_void_p) if output_function else None, key)
                check_call(status)
        finally:
            keep["modules"] = {handle: weakref.ref(module) for handle, (_, module) in by_handle.items()}
            if status or not (input_function or output_function):
                _distributions.drop(key)
            else:
                self.__dict__["_distribution"] = key # the functions are called as long as the module is
        return self

    def parallelize(self, mesh: Mesh, plan: Union[dict[str, Any], Sequence[Sequence[Any]]]) -> Module:
        """Distributes the tree by a plan: {pattern: style} or [(pattern, style, mesh_dim, inputs, outputs, parameters)], where what comes
        after the style may be left out. Styles: "columns", "rows", "embedding", "sequence", "data", "fully_sharded", "layouts". The first
        entry that matches a module counts, for each mesh dimension."""
        entries = [(pattern, *(style if isinstance(style, (tuple, list)) else (style,))) for pattern, style in plan.items()] \
            if isinstance(plan, dict) else [tuple(entry) for entry in plan]
        array = (_api.weft_parallel * max(len(entries), 1))()
        for slot, entry in zip(array, entries):
            pattern, style, *rest = entry
            slot.modules, slot.style = pattern.encode(), choose(_api.weft_parallel_style, style, "style")
            for field, text in zip(("mesh_dim", "inputs", "outputs", "parameters"), rest):
                setattr(slot, field, str(text).encode() if text is not None else None)
        check(_lib.weft_parallelize(self._handle, mesh, len(entries), array))
        return self

    def place(self, name: str, placements: Placements, mesh: Optional[Mesh] = None) -> None:
        """Redistributes a parameter or buffer, in all slots that it is in: for partition functions."""
        mesh, array = resolve(mesh, placements)
        check(_lib.weft_module_place(self._handle, name.encode(), mesh, array))

    def set_use(self, name: str, placements: Placements) -> None:
        """The layout in which `forward` gets a parameter or buffer; None: its own."""
        tensor = self._tensor(name, False)
        assert tensor is not None
        check(_lib.weft_module_set_use(self._handle, name.encode(), _placement_array(placements, len(tensor.placements))))

    def materialize(self) -> Module:
        """Gives memory to parameters and buffers of fake(): a model larger than one rank's memory is distributed first."""
        check(_lib.weft_module_materialize(self._handle))
        return self

    def __reduce__(self) -> Any:
        raise TypeError("a Module cannot be pickled: save_checkpoint() saves its state_dict() on all processes")


_distributions = Registry()


def _run_partition(name: bytes, handle: int, mesh: int, context: int) -> int:
    def run() -> None:
        keep = _distributions[context]
        keep["partition"](name.decode(), keep["modules"][handle][1], Mesh._of(mesh))

    return guarded(run)


def _hook(which: str) -> Any:
    def run_hook(handle: int, mesh: int, count: int, values: Any, context: int) -> int:
        def run() -> None:
            keep = _distributions[context]
            module = keep["modules"][handle]
            module = module() if isinstance(module, weakref.ref) else module[1]
            given = tuple(borrowed(values[i]) for i in range(count))
            result = keep[which](module, given, Mesh._of(mesh) if mesh else None)
            if result is not None:
                results = result if isinstance(result, (tuple, list)) else (result,)
                if len(results) != count:
                    raise ValueError(f"{which} function: {len(results)} tensors were returned, {count} are expected")
                hand_over(results, values)

        return guarded(run)

    return run_hook


_partition, _input, _output = PartitionFunction(_run_partition), ModuleFunction(_hook("input")), ModuleFunction(_hook("output"))
