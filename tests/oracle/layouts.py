"""Meshes and placements of cases, and what PyTorch's own distributed tensors choose for the same inputs. One
process: a process group of six ranks that sends nothing, in which this process is rank 0."""

import math
import signal

import torch
import torch.distributed as dist
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.tensor import DTensor, Partial, Replicate, Shard
from torch.testing._internal.distributed.fake_pg import FakeStore

from values import FLOATING

NUM_RANKS = 6
PATIENCE = 2  # seconds of computing: some reshapes of empty tensors never end
MESHES = [[1], [2], [2], [3], [3], [4], [5], [6],
          [1, 3], [2, 1], [2, 2], [2, 2], [2, 3], [2, 3], [3, 2], [3, 2]]
TORCH_OPS = {"P": "sum", "P(avg)": "avg", "P(max)": "max", "P(min)": "min", "P(prod)": "product"}


def any_placements(random, mesh, operand):
    """One for each mesh dimension; all that are Partial have one reduction."""
    partial = any_reduction(random, mesh, operand.type)
    can_be_partial = operand.may_be_partial and not operand.domain.special and not operand.domain.distinct
    placements = []
    for _ in mesh:
        draw = random.random()
        if draw < 0.2 and can_be_partial:
            placements.append(partial)
        elif draw < 0.4 or not operand.shape:
            placements.append("R")
        else:
            placements.append(f"S{random.randrange(len(operand.shape))}")
    return placements


def any_reduction(random, mesh, type_name):
    """Averages where they are exact: of 1, 2 or 4 ranks, in wide types."""
    if type_name == "bool":
        return random.choice(["P(max)", "P(min)"])
    ops = ["P", "P", "P", "P", "P(max)", "P(min)"]
    if type_name in ("f32", "f64") and all(size in (1, 2, 4) for size in mesh):
        ops.append("P(avg)")
    if type_name in FLOATING:
        ops.append("P(prod)")
    return random.choice(ops)


def parts(mesh, placements):
    """How many addends each element has."""
    return math.prod(size for size, placement in zip(mesh, placements) if placement.startswith("P"))


# ---- PyTorch --------------------------------------------------------------------------------------------

meshes = {}


def start():
    dist.init_process_group("fake", store=FakeStore(), rank=0, world_size=NUM_RANKS)
    signal.signal(signal.SIGVTALRM, give_up)
    check()


def give_up(*_):
    raise TimeoutError("PyTorch does not come to an end")


def check():
    """That PyTorch refuses is kept as an answer: so make sure that it does not refuse everything."""
    sharded = DTensor.from_local(torch.ones(2), device_mesh([2]), [Shard(0)], run_check=False)
    result = (sharded + sharded).reshape(2, 2)
    assert result.placements[0] == Shard(0), "PyTorch's distributed tensors do not work here"


def device_mesh(mesh):
    key = tuple(mesh)
    if key not in meshes:
        meshes[key] = DeviceMesh("cpu", torch.arange(math.prod(mesh)).reshape(key))
    return meshes[key]


def torch_placement(text):
    if text == "R":
        return Replicate()
    return Shard(int(text[1:])) if text.startswith("S") else Partial(TORCH_OPS[text])


def placement_text(placement):
    if isinstance(placement, Replicate):
        return "R"
    if isinstance(placement, Partial):
        return {op: text for text, op in TORCH_OPS.items()}.get(placement.reduce_op, "P(other)")
    return f"S{placement.dim}" if type(placement) is Shard else "other"


def distributed(mesh, operand, dense):
    """What rank 0 holds: the first chunk of each sharded dimension."""
    local = dense
    for size, placement in zip(mesh, operand.placements):
        if placement.startswith("S"):
            dim = int(placement[1:])
            local = local.narrow(dim, 0, -(-local.shape[dim] // size))
    placements = [torch_placement(p) for p in operand.placements]
    return DTensor.from_local(local.contiguous(), device_mesh(mesh), placements, run_check=False,
                              shape=dense.shape, stride=dense.stride())


def choice(mesh, operands, denses, function):
    """The placements of each output as text, or None and the first line of why PyTorch refuses."""
    signal.setitimer(signal.ITIMER_VIRTUAL, PATIENCE)
    try:
        inputs = [distributed(mesh, o, d.clone()) for o, d in zip(operands, denses)]
        outputs = function(inputs)
        outputs = outputs if isinstance(outputs, (tuple, list)) else [outputs]
        return [",".join(placement_text(p) for p in output.placements) for output in outputs], None
    except Exception as error:  # whatever it is: PyTorch does not do this
        lines = str(error).strip().splitlines()
        return None, f"{type(error).__name__}: {lines[0] if lines else ''}"
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
