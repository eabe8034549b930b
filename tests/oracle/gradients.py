"""Cases of gradients: the operation's inputs, output gradients ("seeds") with layouts of their own, and PyTorch's
gradients of the inputs; and second derivatives, with a direction for each gradient."""

import dataclasses
import math
import random

import torch

import layouts
from drafts import WIDE, Draft
from table_core import largest
from table_gradients import (FILLED, FUNCTIONS, MARGINS, NAMED, NOT_NARROW, SAMPLES, SECOND, SECOND_FILLED, SECOND_NOT_NAMED,
                             SECOND_SAMPLES, WITHOUT)
from values import FLOATING, NAMES, TYPES, Operand, answer_text

CASES, SECOND_CASES, NARROW_CASES = 24, 8, 4  # of each operation
TRIES = 3000


# ---- drafts ---------------------------------------------------------------------------------------------


def is_fitting(draft):
    """In f32 and f64. Of mixed types no scalars, whose gradients have the errors of the other type."""
    types = {o.type for o in draft.inputs if o.type in FLOATING}
    scalars = any(o.type in FLOATING and not o.shape for o in draft.inputs)
    return types and types <= set(WIDE) and not (len(types) > 1 and scalars)


def plain(operand):
    """Without NaN and infinities, whose gradients have named cases."""
    return dataclasses.replace(operand, domain=dataclasses.replace(operand.domain, special=False))


def is_differentiable(row, draft):
    leaves = dense_leaves(draft, torch.float64)
    outputs = evaluated(row, draft, leaves)
    try:
        differentiated(outputs, [torch.ones_like(o) for o in outputs], leaves)
    except RuntimeError:  # PyTorch's atan2 of a number and a truth value, say
        return False
    return any(o.requires_grad for o in outputs)


def sampled(row, source, is_second):
    sample = row.sample if row.cases else SAMPLES.get(row.name, row.sample)
    if is_second and not row.cases:
        sample = SECOND_SAMPLES.get(row.name, sample)
    filled = not row.cases and (row.name in FILLED or (is_second and row.name in SECOND_FILLED))
    for _ in range(TRIES):
        draft = sample(source)
        draft.inputs = [plain(o) for o in draft.inputs]
        if filled and not all(o.count() for o in draft.inputs):
            continue
        if is_fitting(draft) and is_differentiable(row, draft):
            return draft
    raise RuntimeError("no case that is differentiable")


def narrowed(row, source, type_name):
    """A draft with this type of 16 bits in place of floating ones; None: PyTorch cannot compute it."""
    for _ in range(20):
        draft = sampled(row, source, False)
        draft.inputs = [dataclasses.replace(o, type=type_name) if o.type in FLOATING else o for o in draft.inputs]
        try:
            leaves = dense_leaves(draft)
            outputs = evaluated(row, draft, leaves)
            differentiated(outputs, [torch.ones_like(o) for o in outputs], leaves)
        except (RuntimeError, NotImplementedError):
            continue
        return draft
    return None


# ---- PyTorch --------------------------------------------------------------------------------------------


def dense_leaves(draft, dtype=None):
    """`dtype`: of floating inputs; None: their own."""
    leaves = []
    for operand in draft.inputs:
        value = operand.dense()
        if value.is_floating_point():
            value = (value if dtype is None else value.to(dtype)).clone().requires_grad_()
        leaves.append(value)
    return leaves


def evaluated(row, draft, leaves):
    """The outputs. Leaves are copied: the function may work in place."""
    function = FUNCTIONS.get(row.name, row.function)
    copies = [x.clone() if x.requires_grad else x for x in leaves]
    result = function(copies, draft.attributes)
    return list(result) if isinstance(result, (tuple, list)) else [result]


def differentiated(outputs, seeds, leaves, second=False):
    """None: not floating. Zeros where nothing depends on it."""
    pairs = [(o, s) for o, s in zip(outputs, seeds) if s is not None and o.requires_grad]
    wanted = [x for x in leaves if x is not None and x.requires_grad]
    if pairs:
        found = list(torch.autograd.grad([o for o, _ in pairs], wanted, [s for _, s in pairs], retain_graph=True,
                                         create_graph=second, allow_unused=True))
    else:
        found = [None] * len(wanted)
    return [None if x is None or not x.requires_grad
            else torch.zeros_like(x) if (g := found.pop(0)) is None or g._is_zerotensor() else g for x in leaves]


@dataclasses.dataclass
class Terms:
    """Of one gradient: the largest sum of the terms' magnitudes (an output's derivative times its seed), and the most
    terms of an element."""

    size: float = 0.0
    most: int = 0


def terms(outputs, seeds, leaves):
    sums = [None if x is None or not x.requires_grad else torch.zeros_like(x.detach()) for x in leaves]
    counts = [None if s is None else torch.zeros_like(s) for s in sums]
    for output, seed in zip(outputs, seeds):
        if seed is None or not output.requires_grad:
            continue
        for element, weight in zip(output.reshape(-1), seed.detach().abs().reshape(-1)):
            for total, count, g in zip(sums, counts,
                                       differentiated([element], [torch.ones_like(element)], leaves)):
                if g is not None:
                    total += g.detach().abs().nan_to_num(0, 0, 0) * weight.to(total.dtype)
                    count += g.detach() != 0
    return [Terms(float(s.amax()), int(c.amax())) if s is not None and s.numel() else Terms()
            for s, c in zip(sums, counts)]


def all_gradients(row, draft, seeds, directions, dtype):
    """The gradients of the inputs; with directions those of their sum, of inputs and seeds. And their terms."""
    leaves = dense_leaves(draft, dtype)
    weights = [None if s is None else s.dense().to(dtype).requires_grad_(directions is not None) for s in seeds]
    outputs = evaluated(row, draft, leaves)
    weights = [None if w is None else w.to(o.dtype) for o, w in zip(outputs, weights)]
    if directions is not None:
        weights = [None if w is None else w.detach().requires_grad_() for w in weights]
    gradients = differentiated(outputs, weights, leaves, directions is not None)
    if directions is None:
        return gradients, terms(outputs, weights, leaves)
    along = [None if d is None else d.dense().to(dtype) for d in directions]
    pairs = [(g, d) for g, d in zip(gradients, along) if g is not None and d is not None]
    firsts, along = [g for g, _ in pairs], [d.to(g.dtype) for g, d in pairs]
    variables = leaves + weights
    return differentiated(firsts, along, variables), terms(firsts, along, variables)


def own_type(draft):
    """In which PyTorch's own errors are found: f32, or that of 16 bits."""
    types = {TYPES[o.type] for o in draft.inputs if o.type in FLOATING}
    return next((t for t in types if t.itemsize == 2), torch.float32)


def error_in(dtype, gradient, narrow):
    """PyTorch's: the largest, and the largest in units of the last place of the element."""
    error = (gradient - narrow.double()).abs().nan_to_num(0, 0, 0)
    if not error.numel():
        return 0.0, 0.0
    units = error / (gradient.abs().clamp(min=torch.finfo(dtype).tiny) * torch.finfo(dtype).eps)
    return float(error.amax()), float(units.nan_to_num(0, 0, 0).amax())


def magnitude(dtype, gradient, narrow, found, is_partial, margin, product):
    """What errors are measured by where the element itself is too small: its terms; and the conditioning, as PyTorch's
    own error in `dtype` shows it. `product`: of the largest inputs, where there is a margin and nothing else."""
    error, units = error_in(dtype, gradient, narrow)
    size = 0.0
    if found.most > 1 or units > 4 or margin > 1:
        size = margin * max(found.size, error / torch.finfo(dtype).eps) or (product if margin > 1 else 0.0)
    if is_partial:
        finite = gradient[gradient.isfinite()].abs()
        size = max(size, float(finite.amax()) if finite.numel() else 0.0) + 1
    return size if size < float("inf") else 0.0


def magnitudes(row, draft, seeds, directions, mesh, gradients, found):
    dtype = own_type(draft)
    narrow, _ = all_gradients(row, draft, seeds, directions, dtype)
    is_partial = any(layouts.parts(mesh, o.placements) > 1
                     for o in draft.inputs + list(seeds) + list(directions or []) if o is not None)
    margin = MARGINS.get(row.name, 1)
    product = math.prod(1 + float(largest(o.dense())) for o in draft.inputs + list(seeds) if o is not None)
    return [0.0 if g is None else magnitude(dtype, g.detach(), n.detach(), f, is_partial, margin, product)
            for g, n, f in zip(gradients, narrow, found)]


# ---- lines ----------------------------------------------------------------------------------------------


def seed_operands(source, mesh, tensors):
    """A seed for each of the tensors that is differentiable, in a layout of its own."""
    operands = []
    for t in tensors:
        operand = None
        if t is not None and t.is_floating_point() and t.requires_grad:
            operand = Operand(NAMES[t.dtype], list(t.shape), seed=source.getrandbits(16))
            operand.placements = layouts.any_placements(source, mesh, operand)
        operands.append(operand)
    return operands


def keep_whole(operands, gradients):
    """No addends where a gradient is infinite: with a factor that is infinite those of different signs give NaN, or
    not, as they are added before or after."""
    if all(g is None or bool(g.isfinite().all()) for g in gradients):
        return
    for operand in operands:
        if operand is not None:
            operand.placements = ["R" if p.startswith("P") else p for p in operand.placements]


def texts(operands):
    return " ".join("-" if o is None else o.text() for o in operands)


def gradient_text(gradient, dtype, magnitude):
    if gradient is None:
        return "-"
    value = gradient.detach().to(dtype)
    shape = ",".join(map(str, value.shape))
    return f"{NAMES[dtype]}[{shape}]" + (f"^{magnitude:.3g}" if magnitude else "") + " = " + answer_text(value)


def line(row, draft, mesh, source, is_second, attribute_text):
    own = dense_leaves(draft)
    seeds = seed_operands(source, mesh, evaluated(row, draft, own))
    directions = seed_operands(source, mesh, own) if is_second else None
    gradients, term_sums = all_gradients(row, draft, seeds, directions, torch.float64)
    keep_whole(list(seeds) + list(directions or []), gradients)
    sizes = magnitudes(row, draft, seeds, directions, mesh, gradients, term_sums)
    operands = draft.inputs + (seeds if is_second else [])
    results = [gradient_text(g, None if g is None else o.dense().dtype, m)
               for g, o, m in zip(gradients, operands, sizes)]
    given = texts(seeds) + (" | " + texts(directions) if is_second else "")
    return (f"{row.name} {'x'.join(map(str, mesh))} {texts(draft.inputs)}{attribute_text(draft.attributes)} | "
            f"{given} -> {' ; '.join(results)}").rstrip()


def row_lines(row, lay_out, attribute_text):
    """Of one row: named cases, then random ones, then second derivatives, then 16 bits."""
    lines = []
    if row.name in WITHOUT:
        return lines
    for name, inputs, attributes in [] if row.cases else NAMED.get(row.name, []):
        twice = row.name in SECOND and not {row.name, f"{row.name} {name}"} & SECOND_NOT_NAMED
        for number in range(3 if twice else 2):
            source = random.Random(f"{row.name} {name} {number}")
            mesh = source.choice(layouts.MESHES)
            draft = Draft([dataclasses.replace(o) for o in inputs], {"case": name.replace(" ", "_"), **attributes})
            lay_out(source, mesh, draft)
            lines.append(line(row, draft, mesh, source, number == 2, attribute_text))
    count = row.cases or CASES
    for number in range(count + (min(count, SECOND_CASES) if row.name in SECOND else 0)):
        source = random.Random(f"gradient {row.name} {number}")
        draft = sampled(row, source, number >= count)
        mesh = source.choice(layouts.MESHES)
        lay_out(source, mesh, draft)
        lines.append(line(row, draft, mesh, source, number >= count, attribute_text))
    for number in range(0 if row.name in NOT_NARROW or row.cases else NARROW_CASES):
        source = random.Random(f"narrow gradient {row.name} {number}")
        draft = narrowed(row, source, ("bf16", "f16")[number % 2])
        if draft is not None:
            mesh = source.choice(layouts.MESHES)
            lay_out(source, mesh, draft)
            lines.append(line(row, draft, mesh, source, False, attribute_text))
    return lines
