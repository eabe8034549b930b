"""Names of torch.distributed.tensor: DTensor's programs run with their imports changed.

Differences: one process may host several ranks; every tensor has a layout, so that plain tensors are replicated ones; nothing waits
but what reads values.
"""
from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Optional

from . import _library, array_api
from ._core import Mesh, Partial, Placement, Placements, Replicate, Shard, Tensor, current_mesh
from ._library import WeftError
from .arrays import asarray, from_local, own_parts
from .nn import Module


class _OfAllMeshes(type):
    def __instancecheck__(cls, instance: Any) -> bool:
        return isinstance(instance, Mesh)


class DeviceMesh(metaclass=_OfAllMeshes):
    """DeviceMesh(device_type, mesh) makes a Mesh: `mesh` is a nested list of ranks. isinstance(m, DeviceMesh) is true of every mesh."""

    def __new__(cls, device_type: str, mesh: Any, *, mesh_dim_names: Optional[Sequence[str]] = None) -> Any:
        import numpy
        ranks = numpy.asarray(mesh.numpy() if isinstance(mesh, Tensor) else mesh)
        return Mesh(ranks.shape, mesh_dim_names, ranks.reshape(-1).tolist())


def init_device_mesh(device_type: str, mesh_shape: Sequence[int], *, mesh_dim_names: Optional[Sequence[str]] = None) -> Mesh:
    """A mesh of the ranks 0, 1, ... The device type is weft's scheduler's choice. Starts the world with as many ranks, if nothing has."""
    if not _library.world.running:
        import math
        shape = (mesh_shape,) if isinstance(mesh_shape, int) else tuple(mesh_shape)
        _library.init(math.prod(shape))
    return Mesh(mesh_shape, mesh_dim_names)


def distribute_tensor(tensor: Any, device_mesh: Optional[Mesh] = None, placements: Placements = None, *, src_data_rank: Optional[int] = 0) -> Tensor:
    """A tensor in a layout: of a Tensor, or of an array. Of arrays those of one process count: the one that hosts the rank whose coordinate is
    src_data_rank in each mesh dimension. None: every rank takes its part of its own process's array. Without placements it is
    replicated."""
    mesh = device_mesh if device_mesh is not None else current_mesh()
    assert mesh is not None
    chosen = placements if placements is not None else [Replicate()] * mesh.ndim
    if isinstance(tensor, Tensor):
        result = tensor.redistribute(chosen, mesh)
        if tensor.requires_grad and tensor.is_leaf: # DTensor makes a leaf
            result = result.detach()
            result.requires_grad = True
        return result
    if src_data_rank is None:
        return own_parts(tensor, mesh, chosen)
    if src_data_rank == 0:
        return asarray(tensor, mesh=mesh, placements=chosen)
    place = 0
    for size in mesh.shape:
        if not 0 <= src_data_rank < size:
            raise ValueError(f"src_data_rank: {src_data_rank} is no coordinate in a mesh of {tuple(mesh.shape)}")
        place = place * size + src_data_rank
    return asarray(tensor, mesh=Mesh((1,), None, [mesh.ranks[place]])).redistribute(chosen, mesh)


class _OfAllTensors(type):
    def __instancecheck__(cls, instance: Any) -> bool:
        return isinstance(instance, Tensor)


class DTensor(metaclass=_OfAllTensors):
    """isinstance(t, DTensor) is true of every tensor."""

    @staticmethod
    def from_local(local_tensor: Any, device_mesh: Optional[Mesh] = None, placements: Placements = None, *, run_check: bool = False,
                   shape: Optional[Sequence[int]] = None, stride: Any = None) -> Tensor:
        """A tensor of this process's shard, or of a list of its ranks' shards: arrays, as NumPy's or PyTorch's. Of a Tensor each rank takes
        the values of the whole one."""
        if isinstance(local_tensor, Tensor):
            whole = local_tensor.full_tensor()
            return from_local([whole] * _library.local_ranks(), device_mesh, placements, shape=shape, check_ranks=run_check, copy=True)
        return from_local(local_tensor, device_mesh, placements, shape=shape, check_ranks=run_check)


def _factory(function: Any) -> Any:
    def factory(*size: Any, dtype: Any = None, requires_grad: bool = False, device_mesh: Optional[Mesh] = None, placements: Placements = None) -> Tensor:
        return function(*size, dtype=dtype, requires_grad=requires_grad, mesh=device_mesh, placements=placements)

    factory.__name__ = factory.__qualname__ = function.__name__
    factory.__doc__ = f"{function.__name__}() of a mesh and placements."
    return factory


zeros, ones, empty, rand, randn = map(_factory, (array_api.zeros, array_api.ones, array_api.empty, array_api.rand, array_api.randn))


def full(size: Any, fill_value: float, *, dtype: Any = None, requires_grad: bool = False, device_mesh: Optional[Mesh] = None,
         placements: Placements = None) -> Tensor:
    """full() of a mesh and placements."""
    return array_api.full(size, fill_value, dtype=dtype, requires_grad=requires_grad, mesh=device_mesh, placements=placements)


def distribute_module(module: Module, device_mesh: Optional[Mesh] = None, partition_fn: Optional[Callable[..., Any]] = None,
                      input_fn: Optional[Callable[..., Any]] = None, output_fn: Optional[Callable[..., Any]] = None) -> Module:
    """Distributes a module's parameters: partition_fn(name, module, mesh) registers or places some, the others are replicated."""
    return module.distribute(device_mesh, partition_fn, input_fn, output_fn)


# ---- torch.distributed.tensor.parallel ----
class ParallelStyle:
    """A style of parallelize_module()."""

    style = "layouts"

    def __init__(self, *, input_layouts: Any = None, output_layouts: Any = None, use_local_output: bool = True) -> None:
        self.inputs, self.outputs = _texts(input_layouts), _texts(output_layouts)


def _texts(layouts: Any) -> Optional[str]:
    if layouts is None:
        return None
    return ",".join("-" if each is None else str(each) for each in (layouts if isinstance(layouts, (tuple, list)) else (layouts,)))


class ColwiseParallel(ParallelStyle):
    """Each rank computes some of a Linear's outputs."""

    style = "columns"

    def __init__(self, *, input_layouts: Any = None, output_layouts: Any = None, use_local_output: bool = True) -> None:
        super().__init__(output_layouts=output_layouts) # inputs become Replicate, whatever they are


class RowwiseParallel(ParallelStyle):
    """Each rank has some of a Linear's inputs."""

    style = "rows"

    def __init__(self, *, input_layouts: Any = None, output_layouts: Any = None, use_local_output: bool = True) -> None:
        super().__init__(output_layouts=output_layouts)


class SequenceParallel(ParallelStyle):
    """Inputs and outputs are sharded along the sequence."""

    style = "sequence"


class PrepareModuleInput(ParallelStyle):
    """Inputs in other layouts."""

    def __init__(self, *, input_layouts: Any = None, desired_input_layouts: Any = None, use_local_output: bool = False) -> None:
        super().__init__(input_layouts=desired_input_layouts)


class PrepareModuleOutput(ParallelStyle):
    """Outputs in other layouts."""

    def __init__(self, *, output_layouts: Any = None, desired_output_layouts: Any = None, use_local_output: bool = True) -> None:
        super().__init__(output_layouts=desired_output_layouts)


def fully_shard(module: Module, *, mesh: Optional[Mesh] = None) -> Module:
    """Shards each parameter over a mesh of one dimension, and gathers it where a forward function uses it."""
    chosen = mesh if mesh is not None else current_mesh()
    assert chosen is not None
    return _parallelized(module, chosen, {"**": "fully_sharded"})


def _parallelized(module: Module, mesh: Mesh, plan: Any) -> Module:
    """PyTorch's programs call parallelize_module() and then fully_shard(): the error of the second call says what to write instead."""
    try:
        return module.parallelize(mesh, plan)
    except WeftError as error:
        if "distributed already" not in str(error):
            raise
        again = type(error)(f"{error}; tensor parallelism and fully_shard() of one model are one plan: model.parallelize(mesh, "
                            '[("*.up", "columns", "tp"), ..., ("**", "fully_sharded", "dp")])')
        again.status = error.status
        raise again from None


def parallelize_module(module: Module, device_mesh: Mesh, parallelize_plan: Any, *, src_data_rank: Optional[int] = 0) -> Module:
    """Distributes a module by {path: style}, or a style for the module itself. A mesh of several dimensions needs its sub-mesh."""
    if device_mesh.ndim != 1:
        raise ValueError(f"parallelize_module: a mesh of one dimension is expected, as mesh[\"tp\"], not {device_mesh!r}")
    plan = parallelize_plan if isinstance(parallelize_plan, dict) else {"": parallelize_plan}
    return _parallelized(module, device_mesh, [(path, style.style, None, style.inputs, style.outputs) for path, style in plan.items()])


__all__ = ["ColwiseParallel", "DTensor", "DeviceMesh", "Partial", "Placement", "PrepareModuleInput", "PrepareModuleOutput", "Replicate",
           "RowwiseParallel", "SequenceParallel", "Shard", "distribute_module", "distribute_tensor", "empty", "full", "fully_shard", "init_device_mesh", "ones",
           "parallelize_module", "rand", "randn", "zeros"]
