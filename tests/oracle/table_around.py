"""Elements around a tensor, diagonals: shapes.h."""

import torch

from drafts import ALL, Draft, any_dim, any_shape, any_type
from rows import Row, family
from table_shapes import moving
from values import FLOATING, Operand

MODES = ["constant", "reflect", "replicate", "circular"]


def most_beside(size, mode):
    return {0: 3, 1: size - 1, 2: 3 if size else 0, 3: size}[mode]


def padding(random):
    shape, type_name, mode = any_shape(random, most=3, limit=14), any_type(random, ALL), random.randrange(4)
    before, after = [], []
    for size in shape:
        for side in (before, after):
            most = most_beside(size, mode)
            low = -(size // 2) if mode == 0 and random.random() < 0.3 else 0
            side.append(0 if random.random() < 0.4 else random.randint(low, max(0, most)))
    values = [0.0, 1.0] if type_name == "bool" else [0.0, 7.0] + ([-0.75] if type_name in FLOATING else [])
    return Draft([Operand(type_name, shape)],
                 {"before": before, "after": after, "mode": mode, "value": random.choice(values)})


def place(mode, i, size):
    """The index that is shown outside; None: a constant."""
    if 0 <= i < size:
        return i
    return {1: -i if i < 0 else 2 * (size - 1) - i, 2: 0 if i < 0 else size - 1, 3: i % size if size else 0}[mode]


def padded(x, a):
    if a["mode"] == 0:
        pads = [n for pair in zip(reversed(a["before"]), reversed(a["after"])) for n in pair]
        return torch.constant_pad_nd(x[0], pads, a["value"])
    result = x[0]
    for dim, (before, after) in enumerate(zip(a["before"], a["after"])):
        size = x[0].shape[dim]
        places = [place(a["mode"], i, size) for i in range(-before, size + after)]
        result = result.index_select(dim, torch.tensor(places, dtype=torch.int64))
    return result


def diagonals(random, shape):
    dim1 = any_dim(random, shape)
    others = [d for d in range(-len(shape), len(shape)) if (d - dim1) % len(shape)]
    return {"offset": random.randint(-3, 3), "dim1": dim1, "dim2": random.choice(others)}


def order_of_two(random, shape):
    count = random.randint(0, min(2, len(shape)))
    return {"from": random.sample(range(len(shape)), count), "to": random.sample(range(len(shape)), count)}


def matrix(random):
    return Draft([Operand(any_type(random, [t for t in ALL if t != "bool"]),
                          [random.randint(0, 5), random.randint(0, 5)])])


family("around", [
    Row("pad", padding, padded),
    Row("diagonal", moving(diagonals, least=2), lambda x, a: x[0].diagonal(a["offset"], a["dim1"], a["dim2"])),
    Row("trace", matrix, lambda x, a: x[0].diagonal().sum(), lambda x, a: x[0].double().diagonal().abs().sum()),
    Row("movedims", moving(order_of_two), lambda x, a: x[0].movedim(a["from"], a["to"])),
])
