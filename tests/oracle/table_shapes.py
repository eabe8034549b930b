"""Operations that move elements: shapes.h."""

import torch

from drafts import ALL, Draft, any_dim, any_dims, any_shape, any_type, broadcast_partner
from rows import Row, family
from values import FLOATING, Operand

aten = torch.ops.aten


def moving(attributes, least=0, **shape_options):
    """One operand of any type; `attributes` of the random numbers and its shape."""
    def sample(random):
        shape = any_shape(random, least=least, **shape_options)
        return Draft([Operand(any_type(random, ALL), shape)], attributes(random, shape))
    return sample


def one_dim(random, shape):
    return {"dim": any_dim(random, shape)}


def first_and_last(random, shape):
    first, last = sorted((random.randrange(len(shape)), random.randrange(len(shape))))
    return {"first": first, "last": last if random.random() < 0.6 else last - len(shape)}


def split_dim(random, shape):
    dim = random.randrange(len(shape))
    size = shape[dim]
    factors = [f for f in range(1, size + 1) if size % f == 0] or [1]
    factor = random.choice(factors)
    sizes = [factor, size // factor] if size else [random.randint(1, 3), 0]
    if size and random.random() < 0.4:
        sizes[random.randrange(2)] = -1
    return {"dim": dim, "sizes": sizes}


def new_dim(random, shape):
    return {"dim": random.randint(-len(shape) - 1, len(shape))}


def two_dims(random, shape, names=("dim0", "dim1")):
    return {names[0]: any_dim(random, shape), names[1]: any_dim(random, shape)}


def order(random, shape):
    dims = any_dims(random, shape, least=len(shape))
    return {"dims": dims}


def part(with_step):
    def attributes(random, shape):
        dim = any_dim(random, shape)
        most = shape[dim] + 2
        values = {"dim": dim, "start": random.randint(-most, most), "stop": random.randint(-most, most)}
        return {**values, "step": random.randint(1, 3)} if with_step else values
    return attributes


def sliced(x, a):
    dim, step = a["dim"], a.get("step", 1)
    start, stop, _ = slice(a["start"], a["stop"], step).indices(x[0].shape[dim])
    return aten.slice.Tensor(x[0], dim, start, max(start, stop), step)


def slice_gradient(random):
    shape = any_shape(random, least=1)
    dim = any_dim(random, shape)
    size, step = shape[dim] + random.randrange(5), random.randint(1, 2)
    start = random.randrange(size + 1)
    stop = random.randint(start, size)
    shape[dim] = len(range(start, stop, step))
    return Draft([Operand(any_type(random, ALL), shape)],
                 {"dim": dim, "size": size, "start": start, "stop": stop, "step": step})


def slice_backward(x, a):
    shape = list(x[0].shape)
    shape[a["dim"]] = a["size"]
    return aten.slice_backward(x[0], shape, a["dim"] % len(shape), a["start"], a["stop"], a["step"])


def one_index(random, shape):
    dim = any_dim(random, shape)
    return {"dim": dim, "index": random.randrange(-shape[dim], shape[dim])}


def expansion(random):
    shape = any_shape(random)
    lacking = random.randint(0, len(shape)) if random.random() < 0.4 else 0
    own = [1 if random.random() < 0.4 else size for size in shape[lacking:]]
    target = list(shape)
    for d, size in enumerate(own):
        if size == shape[lacking + d] and random.random() < 0.2:
            target[lacking + d] = -1
    return Draft([Operand(any_type(random, ALL), own)], {"shape": target})


def summation(random):
    """No scalars but floating ones: PyTorch makes them wide although it adds up nothing, and only them."""
    shape = any_shape(random)
    type_name = any_type(random, ALL)
    if not shape and type_name not in FLOATING:
        type_name = "f32"
    return Draft([Operand(type_name, shape)], {"shape": broadcast_partner(random, shape)})


def several(new_dim_too):
    def sample(random):
        shape = any_shape(random, least=0 if new_dim_too else 1, limit=14)
        dim = random.randint(-len(shape) - 1, len(shape)) if new_dim_too else any_dim(random, shape)
        first = any_type(random, ALL)
        inputs = []
        for _ in range(random.randint(1, 4)):
            own = list(shape)
            if not new_dim_too:
                own[dim] = random.randrange(5) if random.random() < 0.7 else own[dim]
            inputs.append(Operand(first if random.random() < 0.8 else any_type(random, ALL), own))
        return Draft(inputs, {"dim": dim})
    return sample


def pieces(random, shape):
    dim = any_dim(random, shape)
    size, sizes = shape[dim], []
    while (size > 0 or not sizes) and len(sizes) < 4:
        sizes.append(random.randint(0, size))
        size -= sizes[-1]
    sizes[-1] += size
    return {"dim": dim, "sizes": sizes}


family("moves", [
    Row("flatten", moving(first_and_last, least=1), lambda x, a: x[0].flatten(a["first"], a["last"])),
    Row("unflatten", moving(split_dim, least=1), lambda x, a: x[0].unflatten(a["dim"], a["sizes"])),
    Row("squeeze", moving(one_dim, least=1), lambda x, a: x[0].squeeze(a["dim"])),
    Row("squeeze_all", moving(lambda random, shape: {}), lambda x, a: x[0].squeeze()),
    Row("unsqueeze", moving(new_dim), lambda x, a: x[0].unsqueeze(a["dim"])),
    Row("transpose", moving(two_dims, least=1), lambda x, a: x[0].transpose(a["dim0"], a["dim1"])),
    Row("permute", moving(order), lambda x, a: x[0].permute(a["dims"])),
    Row("movedim", moving(lambda random, shape: two_dims(random, shape, ("from", "to")), least=1),
        lambda x, a: x[0].movedim(a["from"], a["to"])),
    Row("expand", expansion, lambda x, a: x[0].expand(a["shape"])),
    Row("sum_to", summation, lambda x, a: x[0].sum_to_size(a["shape"]),
        lambda x, a: x[0].double().abs().sum()),
    Row("slice", moving(part(False), least=1), sliced),
    Row("slice_step", moving(part(True), least=1), sliced),
    Row("slice_backward", slice_gradient, slice_backward),
    Row("select", moving(one_index, least=1, empty=False), lambda x, a: x[0].select(a["dim"], a["index"])),
    Row("flip", moving(lambda random, shape: {"dims": any_dims(random, shape)}),
        lambda x, a: x[0].flip(a["dims"])),
    Row("roll", moving(lambda random, shape: {"dim": any_dim(random, shape), "shift": random.randint(-9, 9)},
                       least=1),
        lambda x, a: x[0].roll(a["shift"], a["dim"])),
    Row("cat", several(False), lambda x, a: torch.cat(x, a["dim"])),
    Row("stack", several(True), lambda x, a: torch.stack(x, a["dim"])),
    Row("split", moving(pieces, least=1), lambda x, a: x[0].split(a["sizes"], a["dim"])),
    Row("chunk", moving(lambda random, shape: {"dim": any_dim(random, shape), "chunks": random.randint(1, 6)},
                        least=1),
        lambda x, a: x[0].chunk(a["chunks"], a["dim"])),
    *(Row(name, moving(lambda random, shape: {"diagonal": random.randint(-3, 3)}, least=2), function)
      for name, function in (("tril", lambda x, a: x[0].tril(a["diagonal"])),
                             ("triu", lambda x, a: x[0].triu(a["diagonal"])))),
])
