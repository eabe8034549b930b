"""What a row of the tables is. A table (table_*.py) calls family() with rows; generate.py writes a file for
each.

A row has the name of the C function without weft_, how cases are drafted, and the same in PyTorch: a function
of a list of tensors and the attributes, which returns a tensor, or several. It is called with the inputs' own
types, which gives shape and type; with floating inputs in double precision, which gives the values; and with
distributed tensors, which gives the layouts that PyTorch chooses."""

import dataclasses


@dataclasses.dataclass
class Row:
    name: str
    sample: object
    function: object
    # The largest sum of the terms' magnitudes in one element: what errors of sums are measured by.
    magnitude: object = None
    # Values in the inputs' own types, where double precision would give others (conversions).
    own_types: bool = False
    # The inputs that PyTorch converts to one type before it computes; and whether that is never an integer type.
    converts: tuple = ()
    floating: bool = False
    # Input 1 stays as it is where it is a single element and the others have 16 bits.
    exact_scalar: bool = False
    # PyTorch's own values, in the inputs' own types, have to be those of double precision, but for a few units of
    # the last place.
    compares_own: bool = True
    # How many cases of values, and of gradients; 0: as many as usual, and the named ones.
    cases: int = 0


FAMILIES = {}


def family(name, rows):
    FAMILIES[name] = rows


def of_tensors(function):
    """For functions of tensors alone."""
    return lambda inputs, _: function(*inputs)
