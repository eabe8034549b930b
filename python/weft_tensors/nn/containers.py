"""Modules of modules, and those that only change shapes."""
from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Optional, Union

from .._core import Tensor
from .module import Module, Parameter


class Identity(Module):
    """Its input; any arguments are taken, and change nothing."""

    def __init__(self, *arguments: Any, **keywords: Any) -> None:
        super().__init__()

    def forward(self, x: Tensor) -> Tensor:
        return x


class Flatten(Module):
    """Dimensions joined into one."""

    def __init__(self, start_dim: int = 1, end_dim: int = -1) -> None:
        super().__init__()
        self.start_dim, self.end_dim = start_dim, end_dim

    def forward(self, x: Tensor) -> Tensor:
        return x.flatten(self.start_dim, self.end_dim)


class Unflatten(Module):
    """A dimension split into several."""

    def __init__(self, dim: int, unflattened_size: Sequence[int]) -> None:
        super().__init__()
        self.dim, self.sizes = dim, tuple(unflattened_size)

    def forward(self, x: Tensor) -> Tensor:
        return x.unflatten(self.dim, self.sizes)


class Sequential(Module):
    """Modules one after another, named "0", "1", ... or by the keys of a dict."""

    def __init__(self, *modules: Any) -> None:
        super().__init__()
        if len(modules) == 1 and isinstance(modules[0], Mapping):
            for name, module in modules[0].items():
                self.add_module(name, module)
            return
        self.extend(modules)

    def append(self, module: Module) -> Any:
        """Adds a module at the end."""
        if not isinstance(module, Module):
            raise TypeError(f"a Module is expected, not {type(module).__name__}")
        self.add_module(str(len(self._children)), module)
        return self

    def extend(self, modules: Iterable[Module]) -> Any:
        """Adds modules at the end."""
        for module in modules:
            self.append(module)
        return self

    def forward(self, x: Tensor) -> Tensor:
        for module in self._children.values():
            x = module(x)
        return x

    def __getitem__(self, number: Union[int, slice]) -> Any:
        found = list(self._children.values())[number]
        return list(found) if isinstance(number, slice) else found

    def __len__(self) -> int:
        return len(self._children)

    def __iter__(self) -> Iterator[Module]:
        return self.children()


class ModuleList(Sequential):
    """A list of modules, which computes nothing by itself."""

    def __init__(self, modules: Iterable[Module] = ()) -> None:
        super().__init__()
        self.extend(modules)

    def forward(self, *inputs: Tensor) -> Tensor:
        raise NotImplementedError("a ModuleList computes nothing by itself: call its modules")


class ModuleDict(Module):
    """Modules by name, which compute nothing by themselves."""

    def __init__(self, modules: Optional[Mapping[str, Module]] = None) -> None:
        super().__init__()
        self.update(modules or {})

    def update(self, modules: Mapping[str, Module]) -> None:
        """Adds modules."""
        for name, module in modules.items():
            self[name] = module

    def __setitem__(self, name: str, module: Module) -> None:
        if not isinstance(module, Module):
            raise TypeError(f"a Module is expected, not {type(module).__name__}")
        self.add_module(name, module)

    def __getitem__(self, name: str) -> Module:
        return self._children[name]

    def __contains__(self, name: str) -> bool:
        return name in self._children

    def __iter__(self) -> Iterator[str]:
        return iter(list(self._children))

    def __len__(self) -> int:
        return len(self._children)

    def keys(self) -> Iterator[str]:
        """The names."""
        return iter(list(self._children))

    def values(self) -> Iterator[Module]:
        """The modules."""
        return self.children()

    def items(self) -> Iterator[tuple[str, Module]]:
        """Names and modules."""
        return self.named_children()

    def forward(self, *inputs: Tensor) -> Tensor:
        raise NotImplementedError("a ModuleDict computes nothing by itself: call its modules")


class ParameterList(Module):
    """A list of parameters, named "0", "1", ..."""

    def __init__(self, parameters: Iterable[Tensor] = ()) -> None:
        super().__init__()
        for parameter in parameters:
            self.append(parameter)

    def append(self, parameter: Tensor) -> ParameterList:
        """Adds a parameter at the end."""
        self.register_parameter(str(len(self)), parameter if isinstance(parameter, Parameter) else Parameter(parameter))
        return self

    def __getitem__(self, number: int) -> Tensor:
        return getattr(self, str(range(len(self))[number]))

    def __len__(self) -> int:
        return len(self._slots)

    def __iter__(self) -> Iterator[Tensor]:
        return iter([self[i] for i in range(len(self))])

    def forward(self, *inputs: Tensor) -> Tensor:
        raise NotImplementedError("a ParameterList computes nothing by itself")
