"""Writes cases/NAME.txt, one file for each family of operations: see README.md. The same PyTorch gives the
same files."""

import argparse
import logging
import pathlib
import random
import re
import sys
import warnings

import torch

import gradients
import layouts
from drafts import CATEGORY
from table import FAMILIES
from values import FLOATING, NAMES, answer_text

CASES = 44  # of each operation

HEAD = """\
# Made by generate.py with PyTorch {version}. A line is a case:
#   operation mesh inputs attributes -> output = elements
#   input     type[shape]@placements~seed~domain
#   output    type[shape]@PyTorch's placements^magnitude of the terms; @!n: PyTorch refuses, for reason n
# README.md says what these are.
"""

GRADIENT_HEAD = """\
# Made by generate.py with PyTorch {version}. A line is a case:
#   operation mesh inputs attributes | gradients of outputs | directions -> gradients of inputs
# README.md says what these are.
"""


# ---- one case -------------------------------------------------------------------------------------------


def lay_out(source, mesh, draft):
    """Gives each input a seed and placements."""
    for operand in draft.inputs:
        operand.seed = source.getrandbits(16)
        operand.placements = (layouts.any_placements(source, mesh, operand) if operand.like is None
                              else list(draft.inputs[operand.like].placements))
    if not draft.passes:
        return
    target, others = draft.inputs[0], draft.inputs[1:]
    op = source.choice(fitting_reductions(mesh, draft))
    for m in range(len(mesh)):
        if op is None or source.random() < 0.7:
            continue
        target.placements[m] = op
    if any(p.startswith("P") for p in target.placements) and draft.jointly:
        for other in others:
            other.placements = [op if t == op else "R" if o.startswith("P") else o
                                for t, o in zip(target.placements, other.placements)]


def fitting_reductions(mesh, draft):
    """Averages only where they are exact, no sums of truth values, and nothing where an integer's addends
    would have to be added in the target's type, which does not wrap around where theirs does."""
    target, others = draft.inputs[0], draft.inputs[1:]
    if draft.jointly and any(o.type != target.type and o.type not in FLOATING for o in others):
        return [None]
    exact = target.type in ("f32", "f64") and all(size in (1, 2, 4) for size in mesh)
    fitting = [op for op in draft.passes if op != "P(avg)" or exact]
    return [op for op in fitting if target.type != "bool" or op in ("P(max)", "P(min)")] or [None]


def several(result):
    return list(result) if isinstance(result, (tuple, list)) else [result]


def common_type(row, tensors):
    """What PyTorch converts these to: a tensor without dimensions counts where its category is the higher one."""
    dtypes = [None, None]
    for t in tensors:
        which = t.dim() > 0
        dtypes[which] = t.dtype if dtypes[which] is None else torch.promote_types(dtypes[which], t.dtype)
    scalars, others = dtypes
    common = others or scalars
    if scalars and others and CATEGORY[NAMES[scalars]] > CATEGORY[NAMES[others]]:
        common = torch.promote_types(scalars, others)
    return torch.float32 if row.floating and not common.is_floating_point else common


def converted(row, denses):
    """The inputs as PyTorch computes with them, and their type."""
    if not row.converts:
        return denses, None
    common = common_type(row, [denses[i] for i in row.converts])
    if len(row.converts) == 2 and not row.floating:
        assert common == torch.result_type(*(denses[i] for i in row.converts))
    result = list(denses)
    for i in row.converts:
        exact = row.exact_scalar and i == 1 and denses[i].numel() == 1 and common.itemsize == 2
        result[i] = denses[i].to(torch.float32 if exact and common.is_floating_point else common)
    return result, common


def check_own(row, own, answers):
    """That the answers are what PyTorch computes in the inputs' own types."""
    for o, a in zip(own, answers):
        if not a.is_floating_point():
            assert torch.equal(o, a), f"PyTorch gives {o}, expected {a}"
            continue
        unit = torch.finfo(a.dtype).eps * a.double().abs().clamp(min=1.0)
        near = (o == a) | (o.isnan() & a.isnan()) | ((o.double() - a.double()).abs() <= 4 * unit)
        assert near.all(), f"PyTorch gives {o}, expected {a}"


def dense_answer(row, draft, denses):
    """PyTorch's: the types from the inputs as they are, the values computed in double precision from what PyTorch
    converts the inputs to, and rounded once."""
    own = several(row.function([d.clone() for d in denses], draft.attributes))
    if row.own_types:
        return own
    inputs, common = converted(row, denses)
    wide = [(d.double() if d.is_floating_point() else d).clone() for d in inputs]
    results = several(row.function(wide, draft.attributes))
    if common is not None:
        results = [r.to(common) if r.is_floating_point() else r for r in results]
    answers = [r.to(o.dtype) for o, r in zip(own, results)]
    if common is not None and row.compares_own:
        check_own(row, own, answers)
    return answers


def term_magnitude(row, draft, mesh, denses, answers):
    """What rounding errors are measured by where that is more than the element itself. Of inputs that are
    Partial the addends count, which are larger than their sum by some steps of the domain."""
    magnitude = float(row.magnitude(denses, draft.attributes)) if row.magnitude else 0.0
    if any(layouts.parts(mesh, o.placements) > 1 for o in draft.inputs):
        for answer in answers:
            finite = answer.double()[answer.double().isfinite()]
            magnitude = max(magnitude, float(finite.abs().amax()) if finite.numel() else 0.0)
        magnitude += 1
    return magnitude if magnitude < float("inf") else 0.0


def attribute_text(attributes):
    def value_text(value):
        if isinstance(value, list):
            return ",".join(map(str, value))
        return str(value)
    return "".join(f" {name}={value_text(value)}" for name, value in attributes.items())


class Refusals:
    """The texts with which PyTorch refuses, without their own numbers; numbered."""

    def __init__(self):
        self.texts = []

    def number(self, text):
        text = re.sub(r"\d+", "n", " ".join(text.split()))[:140]
        if text not in self.texts:
            self.texts.append(text)
        return self.texts.index(text)


def case_line(row, number, refusals):
    source = random.Random(f"{row.name} {number}")
    draft = row.sample(source)
    mesh = source.choice(layouts.MESHES)
    lay_out(source, mesh, draft)
    denses = [operand.dense() for operand in draft.inputs]
    answers = dense_answer(row, draft, denses)
    magnitude = term_magnitude(row, draft, mesh, denses, answers)
    chosen, refusal = layouts.choice(mesh, draft.inputs, denses, lambda x: row.function(x, draft.attributes))
    placements = chosen or [f"!{refusals.number(refusal)}"] * len(answers)
    outputs = [
        f"{NAMES[a.dtype]}[{','.join(map(str, a.shape))}]@{p}" + (f"^{magnitude:.4g}" if magnitude else "")
        + " = " + answer_text(a) for a, p in zip(answers, placements)]
    return (f"{row.name} {'x'.join(map(str, mesh))} {' '.join(o.text() for o in draft.inputs)}"
            f"{attribute_text(draft.attributes)} -> {' ; '.join(outputs)}").rstrip()


# ---- files ----------------------------------------------------------------------------------------------


def write_family(folder, name, rows):
    refusals, lines = Refusals(), []
    for row in rows:
        for number in range(row.cases or CASES):
            try:
                lines.append(case_line(row, number, refusals))
            except Exception as error:
                raise RuntimeError(f"{row.name}, case {number}") from error
    head = HEAD.format(version=torch.__version__.split("+")[0])
    reasons = "".join(f"! {i} {text}\n" for i, text in enumerate(refusals.texts))
    text = head + reasons + "\n".join(lines) + "\n"
    (folder / f"{name}.txt").write_text(text, encoding="ascii", errors="backslashreplace")
    print(f"{name}: {len(rows)} operations, {len(lines)} cases, {len(text)} bytes")
    return len(text)


def write_gradients(folder, name, rows):
    lines = []
    for row in rows:
        try:
            lines += gradients.row_lines(row, lay_out, attribute_text)
        except Exception as error:
            raise RuntimeError(f"gradient of {row.name}") from error
    if not lines:
        return 0
    text = GRADIENT_HEAD.format(version=torch.__version__.split("+")[0]) + "\n".join(lines) + "\n"
    (folder / f"{name}.txt").write_text(text, encoding="ascii")
    print(f"gradients of {name}: {len(lines)} cases, {len(text)} bytes")
    return len(text)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("families", nargs="*", help="only these")
    parser.add_argument("--folder", type=pathlib.Path, default=pathlib.Path(__file__).parent / "cases")
    parser.add_argument("--gradients", action="store_true", help="only gradients")
    arguments = parser.parse_args()
    unknown = set(arguments.families) - set(FAMILIES)
    if unknown:
        sys.exit(f"no such family: {', '.join(sorted(unknown))}; there are {', '.join(FAMILIES)}")
    warnings.simplefilter("ignore")
    logging.disable(logging.CRITICAL)  # PyTorch tells at length why it refuses
    torch.set_num_threads(1)
    layouts.start()
    families = {name: rows for name, rows in FAMILIES.items() if not arguments.families or name in arguments.families}
    size = 0 if arguments.gradients else sum(write_family(arguments.folder, *f) for f in families.items())
    size += sum(write_gradients(arguments.folder / "gradients", *f) for f in families.items() if f[0] != "mixed")
    print(f"{size} bytes in all")


if __name__ == "__main__":
    main()
