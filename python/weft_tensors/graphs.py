"""Captured graphs: @graph collects the calls of a function, and runs them together."""
from __future__ import annotations

import ctypes
import functools
import weakref
from collections.abc import Callable
from ctypes import byref, c_double, c_void_p
from typing import Any, Optional

import numpy

from . import _api, _library
from ._callbacks import GraphFunction, Registry, guarded, hand_over
from ._core import Tensor, _handle, _lib, borrowed, check, check_call, failure, fill, made
from ._library import text_of

_bodies = Registry()


def _flatten(value: Any, tensors: list[Tensor], numbers: list[Any]) -> Any:
    """The structure of an argument or result: tensors and numbers are taken out of tuples, lists and dicts."""
    if isinstance(value, Tensor):
        tensors.append(value)
        return ("tensor",)
    if isinstance(value, (float, numpy.floating)):
        numbers.append(float(value))
        return ("float",)
    if isinstance(value, (int, numpy.integer)) and not isinstance(value, bool) and -2**53 <= value <= 2**53: # C takes doubles
        numbers.append(int(value))
        return ("int",)
    if isinstance(value, (tuple, list)):
        kind = type(value)
        return (kind, tuple(_flatten(each, tensors, numbers) for each in value))
    if isinstance(value, dict):
        return (dict, tuple((key, _flatten(each, tensors, numbers)) for key, each in value.items()))
    try:
        hash(value)
    except TypeError:
        raise TypeError(f"graph: a {type(value).__name__} can be no argument: tensors, numbers, texts, and tuples, lists and dicts of them can") from None
    return ("value", value, type(value))


def _build(structure: Any, tensors: Any, numbers: Any) -> Any:
    kind = structure[0]
    if kind == "tensor":
        return next(tensors)
    if kind == "float":
        return next(numbers)
    if kind == "int":
        return int(next(numbers))
    if kind == "value":
        return structure[1]
    if kind is dict:
        return {key: _build(each, tensors, numbers) for key, each in structure[1]}
    parts = [_build(each, tensors, numbers) for each in structure[1]]
    return kind(*parts) if hasattr(kind, "_fields") else kind(parts)


class _Body:
    """One graph of C: for one structure of arguments."""

    def __init__(self, graph: Graph, structure: Any, num_inputs: int, num_scalars: int, num_outputs: int) -> None:
        self.graph, self.structure, self.num_inputs, self.num_scalars = weakref.ref(graph), structure, num_inputs, num_scalars
        self.outputs: Any = None
        self.num_outputs, self.epoch = num_outputs, _library.world.epoch
        self.key = _bodies.add(weakref.ref(self))
        self.handle = _lib.weft_graph_create(graph.name.encode(), ctypes.cast(_entry, c_void_p), self.key, num_inputs, num_scalars, num_outputs)
        if not self.handle:
            raise failure()
        if graph.passes is not None:
            check(_lib.weft_graph_set_passes(self.handle, graph.passes))
        for number in graph.donated:
            check(_lib.weft_graph_donate(self.handle, number, True))
        if graph.frozen:
            check(_lib.weft_graph_freeze(self.handle, True))

    def __del__(self) -> None:
        _bodies.drop(self.key)
        if getattr(self, "handle", None):
            _library.end(self.epoch, _lib.weft_graph_destroy, self.handle)

    def run(self, inputs: Any, scalars: Any, outputs: Any) -> None:
        graph = self.graph()
        assert graph is not None
        arguments, keywords = _build(self.structure, iter([borrowed(inputs[i]) for i in range(self.num_inputs)]),
                                     iter(scalars[:self.num_scalars]))
        results: list[Tensor] = []
        numbers: list[Any] = []
        result = graph.function(*arguments, **keywords)
        self.outputs, self.numbers = _flatten(result, results, numbers), numbers
        if len(results) != self.num_outputs:
            raise ValueError(f"graph {graph.name}: the function returned {len(results)} tensors, but {self.num_outputs} at first")
        hand_over(results, outputs)

    def call(self, inputs: list[Tensor], scalars: list[Any]) -> Any:
        handles = (c_void_p * max(self.num_inputs, 1))(*map(_handle, inputs))
        values = (c_double * max(self.num_scalars, 1))(*scalars)
        outputs = (c_void_p * max(self.num_outputs, 1))()
        check_call(_lib.weft_graph_call(self.handle, handles, values, outputs))
        return _build(self.outputs, iter([made(outputs[i]) for i in range(self.num_outputs)]), iter(self.numbers))


def _run_body(context: int, inputs: Any, scalars: Any, outputs: Any) -> int:
    return guarded(lambda: _bodies[context]().run(inputs, scalars, outputs))


_entry = GraphFunction(_run_body)


class Graph:
    """A function whose calls are captured. Made by @graph."""

    def __init__(self, function: Callable[..., Any], name: Optional[str] = None, freeze: bool = False, donate: Any = (),
                 passes: Optional[int] = None) -> None:
        functools.update_wrapper(self, function)
        self.function = function
        self.name = name or str(getattr(function, "__name__", "graph"))
        self.frozen, self.donated, self.passes = freeze, tuple(donate), passes
        self._of_structure: dict[Any, Any] = {}
        self._last: Optional[_Body] = None

    def __call__(self, *arguments: Any, **keywords: Any) -> Any:
        inputs: list[Tensor] = []
        scalars: list[Any] = []
        structure = _flatten((arguments, keywords), inputs, scalars)
        body = self._of_structure.get(structure)
        if body is not None and body.epoch != _library.world.epoch:
            body = None
        if body is None: # the first call tells how many results there are
            arguments, keywords = _build(structure, iter(inputs), iter(scalars))
            result = self.function(*arguments, **keywords)
            results: list[Tensor] = []
            _flatten(result, results, [])
            self._of_structure[structure] = _Body(self, structure, len(inputs), len(scalars), len(results))
            return result
        self._last = body
        return body.call(inputs, scalars)

    def __get__(self, instance: Any, owner: Any = None) -> Any:
        """A method: one graph for each object."""
        if instance is None:
            return self
        name = f"_graph_{self.name}_{id(self)}" # super() has another of this name
        own = instance.__dict__.get(name)
        if own is None:
            own = Graph(self.function.__get__(instance, owner), self.name, self.frozen, self.donated, self.passes)
            instance.__dict__[name] = own
        return own

    def _body(self) -> _Body:
        if self._last is None:
            raise RuntimeError(f"graph {self.name}: not captured yet: the first call runs the function, the second captures it")
        return self._last

    def freeze(self, on: bool = True) -> None:
        """Stops calling the function: its calls are executed as they were recorded, with the numbers that come from its arguments."""
        self.frozen = on
        for body in self._of_structure.values():
            check(_lib.weft_graph_freeze(body.handle, on))

    def require(self, relation: str) -> None:
        """Requires a relation between sizes, as "i1.0 == 2*i0.0": i1.0 is dimension 0 of the second tensor."""
        check(_lib.weft_graph_require(self._body().handle, relation.encode()))

    def save(self, path: str) -> None:
        """Saves the newest run's calls for weft-predict."""
        check(_lib.weft_graph_save(self._body().handle, str(path).encode()))

    def info(self) -> dict[str, Any]:
        """Counts: runs, captures, replays, guards_failed, fused, ..."""
        found = _api.weft_graph_info()
        check(_lib.weft_graph_get_info(self._body().handle, byref(found), ctypes.sizeof(found)))
        values = {field[0]: getattr(found, field[0]) for field in found._fields_}
        return {name: value.decode() if isinstance(value, bytes) else value for name, value in values.items()}

    def predict(self, **options: Any) -> dict[str, Any]:
        """Predicted time and bytes of a run: processes, hosts, machine, ... as in weft_predict_options."""
        given = fill(_api.weft_predict_options, **options)
        found = _api.weft_prediction()
        check(_lib.weft_graph_predict(self._body().handle, byref(given), byref(found), ctypes.sizeof(found)))
        values = {field[0]: getattr(found, field[0]) for field in found._fields_}
        return {name: value.decode() if isinstance(value, bytes) else value for name, value in values.items()}

    def shard(self, *, max_bytes: int = 0) -> dict[str, Any]:
        """Chooses the layouts of the graph's tensors, for the least predicted time."""
        options = _api.weft_graph_shard_options(max_bytes=max_bytes, size=ctypes.sizeof(_api.weft_graph_shard_options))
        check(_lib.weft_graph_shard(self._body().handle, byref(options)))
        found = _api.weft_graph_shard_info()
        check(_lib.weft_graph_get_shard_info(self._body().handle, byref(found), ctypes.sizeof(found)))
        return {field[0]: getattr(found, field[0]) for field in found._fields_}

    def text(self) -> str:
        """The calls of the newest run, one per line."""
        return text_of(_lib.weft_graph_print, self._body().handle, _api.weft_graph_format.RECORDED)

    def __repr__(self) -> str:
        return f"Graph({self.name})"


def graph(function: Optional[Callable[..., Any]] = None, *, name: Optional[str] = None, freeze: bool = False, donate: Any = (),
          passes: Optional[int] = None) -> Any:
    """A decorator. The first call runs the function as it is, the second captures its calls, and later ones replay them: the function
    still runs, but each of its calls is only compared with the recorded one.

    Arguments are tensors, numbers, and tuples, lists and dicts of them; other values are part of what is captured. Numbers may
    change from call to call. freeze: stop calling the function once it is known where its numbers come from. donate: the numbers
    of tensors among the arguments whose memory the graph may reuse. passes: a combination of weft_graph_pass.
    """
    if function is not None:
        return Graph(function, name, freeze, donate, passes)
    return lambda given: Graph(given, name, freeze, donate, passes)


__all__ = ["Graph", "graph"]
