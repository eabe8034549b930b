"""Random shapes, types and attributes: the parts that the table's rows draft their cases from."""

import dataclasses
import math

from values import DEFAULT, FLOATING, INTEGER, Domain, Operand

NUMBER = FLOATING + INTEGER
ALL = NUMBER + ["bool"]
WIDE = ["f32", "f64"]
INDEX = ["i64", "i32"]


@dataclasses.dataclass
class Draft:
    """One case before it is laid out."""

    inputs: list
    attributes: dict = dataclasses.field(default_factory=dict)
    # Of operations in place: with which reductions the target may be Partial, and whether the other input
    # must be so too.
    passes: tuple = ()
    jointly: bool = True


def any_type(random, types):
    """f32 is what most programs compute in."""
    return "f32" if "f32" in types and random.random() < 0.3 else random.choice(types)


def any_size(random, most=7):
    return random.randrange(2) if random.random() < 0.15 else random.randint(2, most)


def any_shape(random, least=0, most=4, limit=None, empty=True):
    """Mostly about a dozen elements, and never more than `limit`: answers are stored element by element."""
    limit = limit or random.choice([8, 14, 14, 24, 45])
    while True:
        shape = [any_size(random) for _ in range(random.choice(range(least, most + 1)))]
        if math.prod(shape) <= limit and (empty or math.prod(shape) > 0):
            return shape


def broadcast_partner(random, shape):
    """A shape that broadcasts to `shape`: without leading dimensions, or with sizes of 1."""
    partner = shape if random.random() < 0.6 else shape[random.randint(0, len(shape)):]
    return [1 if random.random() < 0.2 else size for size in partner]


def with_edges(random, operand, chance=0.25):
    """The operand, sometimes with NaN and what else lies at the edges of its type."""
    if random.random() < chance:
        operand.domain = dataclasses.replace(operand.domain, special=True)
    return operand


def of_domain(random, type_name, domains, **fields):
    """An operand of a floating type in one of the domains; of others in the usual one."""
    chosen = random.choice(domains) if domains and type_name in FLOATING else DEFAULT[type_name]
    return Operand(type_name, domain=chosen, **fields)


def any_dim(random, shape):
    """A dimension, sometimes counted from the end."""
    dim = random.randrange(len(shape))
    return dim - len(shape) if random.random() < 0.3 else dim


def any_dims(random, shape, least=0):
    """Some dimensions in any order; none at all stands for all."""
    dims = random.sample(range(len(shape)), random.randint(min(least, len(shape)), len(shape)))
    return [d - len(shape) if random.random() < 0.2 else d for d in dims]


# ---- samplers of whole families: each returns a function of the generator of random numbers -------------


def unary(types, domains=(), edges=True, attributes=None, **shape_options):
    def sample(random):
        type_name = any_type(random, types)
        operand = of_domain(random, type_name, domains, shape=any_shape(random, **shape_options))
        if edges:
            with_edges(random, operand)
        return Draft([operand], attributes(random, type_name) if attributes else {})
    return sample


def same_or_other(random, types):
    first = any_type(random, types)
    return first, first if random.random() < 0.6 else any_type(random, types)


def binary(types, first=(), second=(), edges=True, whole_second=None, attributes=None):
    """Two shapes that broadcast to one; types of their own. `whole_second`: the domain of a second
    integer."""
    def sample(random):
        shape = any_shape(random)
        shapes = [shape, broadcast_partner(random, shape)]
        random.shuffle(shapes)
        names = same_or_other(random, types)
        a = of_domain(random, names[0], first, shape=shapes[0])
        b = of_domain(random, names[1], second, shape=shapes[1])
        if whole_second and b.type in INTEGER:
            b.domain = whole_second
        elif edges:
            with_edges(random, a, 0.15)
            with_edges(random, b, 0.15)
        return Draft([a, b], attributes(random, a.type) if attributes else {})
    return sample


def ternary(types, attributes=None, first_types=None, one_type=False):
    def sample(random):
        shape = any_shape(random)
        shapes = [shape, broadcast_partner(random, shape), broadcast_partner(random, shape)]
        random.shuffle(shapes)
        names = [*same_or_other(random, types), any_type(random, types)]
        if one_type or random.random() < 0.5:
            names = [names[0]] * 3
        if first_types:
            names[0] = random.choice(first_types)
        inputs = [Operand(name, shape) for name, shape in zip(names, shapes)]
        return Draft(inputs, attributes(random, inputs[0].type) if attributes else {})
    return sample


def pair(types, second=(), attributes=None, edges=False):
    """Two operands of one shape and type."""
    def sample(random):
        type_name, shape = any_type(random, types), any_shape(random)
        inputs = [Operand(type_name, shape), of_domain(random, type_name, second, shape=shape)]
        if edges:
            with_edges(random, inputs[1], 0.15)
        return Draft(inputs, attributes(random, type_name) if attributes else {})
    return sample


CATEGORY = {**{name: 2 for name in FLOATING}, **{name: 1 for name in INTEGER}, "bool": 0}


def in_place(types, passes=(), attributes=None, with_other=True, jointly=True):
    """A target and, for two operands, what broadcasts to it and fits in its type."""
    def sample(random):
        target = any_type(random, types)
        shape = any_shape(random)
        inputs = [Operand(target, shape, may_be_partial=False)]
        if with_other:
            fitting = [name for name in types if CATEGORY[name] <= CATEGORY[target]]
            other = target if random.random() < 0.6 else random.choice(fitting)
            inputs.append(Operand(other, broadcast_partner(random, shape)))
        return Draft(inputs, attributes(random, target) if attributes else {}, passes, jointly)
    return sample


def reduction(types, form, attributes=None, domains=(), empty=True, edges=0.2):
    """`form`: "dim", "over" or "all"."""
    def sample(random):
        type_name = any_type(random, types)
        shape = any_shape(random, least=1 if form == "dim" else 0)
        draft = Draft([], attributes(random, type_name) if attributes else {})
        if form == "dim":
            dims = [any_dim(random, shape)]
            draft.attributes["dim"] = dims[0]
        elif form == "over":
            dims = any_dims(random, shape)
            draft.attributes["dims"] = dims
            dims = dims or range(len(shape))
        else:
            dims = range(len(shape))
        if form != "all":
            draft.attributes["keepdim"] = random.randrange(2)
        for dim in dims:
            shape[dim] = max(shape[dim], 0 if empty else 1)
        draft.inputs = [with_edges(random, of_domain(random, type_name, domains, shape=shape), edges)]
        return draft
    return sample


def number(*choices):
    """Attributes of one real number; integers get a whole one."""
    name, values = choices[0], choices[1:]
    def attributes(random, type_name):
        fitting = [v for v in values if type_name in FLOATING or v == int(v)]
        fitting = [v for v in fitting if v >= 0] if type_name == "u8" else fitting
        return {name: random.choice(fitting)}
    return attributes


def indices_of(random, size, shape, **fields):
    return Operand(random.choice(INDEX), shape, Domain(0, max(size - 1, 0)), **fields)
