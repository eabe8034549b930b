#!/usr/bin/env python3
"""Draws the pictures of the pages: docs/placements.svg, docs/call.svg and docs/graph.svg.

Usage: docs/pictures.py          writes them beside this file

The numbers in placements.svg are computed: chunks as torch.chunk cuts them, addends that add up to the tensor.
"""

from pathlib import Path
from xml.sax.saxutils import escape

HERE = Path(__file__).resolve().parent
INK, PALE, LINE = "#222222", "#666666", "#999999"
RANKS = ["#cfe0f0", "#fbe3bd", "#d8ecd0", "#f0d5e4"]  # the fill of a rank's cells
WHITE = "#ffffff"


class Picture:
    def __init__(self, width, height):
        self.width, self.height, self.parts = width, height, []

    def rectangle(self, x, y, width, height, fill, line=LINE, radius=0, dashed=False):
        dash = ' stroke-dasharray="4 3"' if dashed else ""
        self.parts.append(f'<rect x="{x}" y="{y}" width="{width}" height="{height}" rx="{radius}" fill="{fill}" '
                          f'stroke="{line}"{dash}/>')

    def text(self, x, y, text, size=13, color=INK, anchor="start", bold=False, mono=False):
        family = "monospace" if mono else "sans-serif"
        weight = ' font-weight="bold"' if bold else ""
        self.parts.append(f'<text x="{x}" y="{y}" font-family="{family}" font-size="{size}" fill="{color}" '
                          f'text-anchor="{anchor}"{weight} xml:space="preserve">{escape(text)}</text>')

    def arrow(self, points):
        path = " ".join(f"{x},{y}" for x, y in points)
        self.parts.append(f'<polyline points="{path}" fill="none" stroke="{PALE}" stroke-width="1.5" '
                          'marker-end="url(#head)"/>')

    def save(self, name, title):
        body = "\n".join(self.parts)
        (HERE / name).write_text(
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {self.width} {self.height}" '
            f'width="{self.width}" height="{self.height}" role="img">\n<title>{escape(title)}</title>\n'
            '<defs><marker id="head" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="8" markerHeight="8" '
            f'orient="auto"><path d="M0,0 L8,4 L0,8 z" fill="{PALE}"/></marker></defs>\n'
            f'<rect width="{self.width}" height="{self.height}" fill="{WHITE}"/>\n{body}\n</svg>\n', encoding="utf-8")


# ---- placements.svg ------------------------------------------------------------------------------------------

CELL = 26
ROWS, COLUMNS = 5, 4


def chunk(size, parts, index):
    """The interval of part `index`: ceil(size / parts) for each, the last ones shorter or empty."""
    step = -(-size // parts)
    return min(size, step * index), min(size, step * (index + 1))


def value(row, column):
    return 10 * row + column


def draw_cells(picture, x, y, rows, columns, fill, cell_text):
    """A whole tensor in outline; the cells of a rank are filled and have their values."""
    picture.rectangle(x, y, COLUMNS * CELL, ROWS * CELL, WHITE, dashed=True)
    for row in range(*rows):
        for column in range(*columns):
            left, top = x + column * CELL, y + row * CELL
            picture.rectangle(left, top, CELL, CELL, fill)
            picture.text(left + CELL / 2, top + CELL / 2 + 4, cell_text(row, column), 11, anchor="middle")


def draw_layout(picture, x, y, name, says, ranks):
    """`ranks`: for each rank its rows, its columns and the text of a cell."""
    picture.text(x, y, name, 15, bold=True)
    picture.text(x, y + 18, says, 12, PALE)
    for rank, (rows, columns, cell_text) in enumerate(ranks):
        left = x + rank * (COLUMNS * CELL + 22)
        draw_cells(picture, left, y + 48, rows, columns, RANKS[rank], cell_text)
        picture.text(left, y + 42, f"rank {rank}", 11, PALE)


def draw_placements():
    picture = Picture(850, 520)
    whole_rows, whole_columns = (0, ROWS), (0, COLUMNS)
    plain = lambda row, column: str(value(row, column))
    picture.text(24, 30, "A tensor of 5 rows and 4 columns on a mesh of 2 ranks, and on a mesh of 2 x 2 ranks", 15)
    draw_layout(picture, 24, 66, "Replicate", "R: every rank has all values",
                [(whole_rows, whole_columns, plain)] * 2)
    draw_layout(picture, 294, 66, "Shard(0)", "S0: consecutive rows, as torch.chunk cuts",
                [(chunk(ROWS, 2, rank), whole_columns, plain) for rank in range(2)])
    draw_layout(picture, 564, 66, "Shard(1)", "S1: consecutive columns",
                [(whole_rows, chunk(COLUMNS, 2, rank), plain) for rank in range(2)])
    first = lambda row, column: str(value(row, column) // 2 + row - column)
    other = lambda row, column: str(value(row, column) - int(first(row, column)))
    draw_layout(picture, 24, 302, "Partial(sum)", "P: the ranks' addends add up to it",
                [(whole_rows, whole_columns, first), (whole_rows, whole_columns, other)])
    grid = []
    for rank in range(4):
        grid.append((chunk(ROWS, 2, rank // 2), chunk(COLUMNS, 2, rank % 2), plain))
    draw_layout(picture, 294, 302, "Shard(0), Shard(1)", "one placement for each mesh dimension: rows along the first, "
                "columns along the second", grid)
    picture.text(24, 505, "Dashed: the whole tensor. Filled: what the rank holds. Any layout becomes any other by "
                 "weft_redistribute().", 12, PALE)
    picture.save("placements.svg", "Replicate, Shard and Partial: what each rank holds")


# ---- call.svg ------------------------------------------------------------------------------------------------

def draw_box(picture, x, y, width, title, folder, lines, fill):
    height = 30 + 17 * len(lines)
    picture.rectangle(x, y, width, height, fill, radius=5)
    picture.text(x + 12, y + 21, title, 13, bold=True)
    picture.text(x + width - 12, y + 21, folder, 12, PALE, anchor="end")
    for number, line in enumerate(lines):
        picture.text(x + 12, y + 40 + 17 * number, line, 12)
    return y + height


def draw_call():
    picture = Picture(1010, 470)
    pure, impure, outside = "#e9f1f8", "#fdf1dc", "#f3f3f3"
    left, width, right = 24, 470, 540
    y = draw_box(picture, left, 20, width, "weft_matmul(x, w)", "src/ops, src/dispatch", ["checks the arguments; a call: operation, inputs,",
                 "attributes, scalars"], outside)
    steps = [
        ("sharding", "src/sharding",
         ["the layouts to work on, from the rule \"mk,kn->mn\" and the", "layouts of x and w: the cheapest, by predicted cost"], pure),
        ("plan, for each input that lies otherwise", "src/plan",
         ["which box goes from which rank to which, in which stages"], pure),
        ("task list", "src/ops, src/tasks",
         ["tasks on slots (tensor, shard, panel), in submission order;", "kept from the call's second use on"], pure),
        ("run", "src/tensor",
         ["slots become panels, scalars are filled in, tasks are", "submitted; the output is returned, not yet computed"], impure),
    ]
    for title, folder, lines, fill in steps:
        picture.arrow([(left + 40, y), (left + 40, y + 24)])
        y = draw_box(picture, left, y + 26, width, title, folder, lines, fill)
    picture.text(left, y + 30, "Blue: pure functions of layouts, the same on every process. Yellow: StarPU and memory.", 12, PALE)
    bottom = y
    tasks_top = 140
    run_y = bottom - 30
    picture.arrow([(left + width, run_y), (right - 22, run_y), (right - 22, tasks_top + 30), (right - 4, tasks_top + 30)])
    y = draw_box(picture, right, tasks_top, 440, "StarPU", "sched",
                 ["starts a task when the panels that it reads have been", "written. Nothing else orders tasks."], impure)
    picture.arrow([(right + 60, y), (right + 60, y + 34)])
    picture.text(right + 72, y + 22, "a panel that is sent or received is a task edge", 12, PALE)
    y = draw_box(picture, right, y + 36, 440, "engine", "src/comm",
                 ["one thread sends a panel as soon as it is computed, and", "lets its readers start as soon as it has arrived"], impure)
    picture.arrow([(right + 60, y), (right + 60, y + 34)])
    draw_box(picture, right, y + 36, 440, "kernel", "codelets",
             ["the product of one row block, on pointers and strides"], impure)
    picture.save("call.svg", "From a call to tasks: sharding, plan, task list, run; StarPU, engine, kernels")


# ---- graph.svg -----------------------------------------------------------------------------------------------

# What weft_graph_print() writes for a small function on two ranks: value, call, values read,
# layout.
RECORDED = [
    ("%2", "weft_matmul", "%0, %1", "[P(sum)]"),
    ("%3", "weft_redistribute", "%2", "[R]"),
    ("%4", "weft_exp", "%3", "[R]"),
    ("%5", "weft_redistribute", "%2", "[R]"),
    ("%6", "weft_add_scalar", "%5", "[R]"),
    ("%4", "weft_redistribute", "%4", "[R]"),
    ("%7", "weft_neg", "%4", "[R]"),
    ("%8", "weft_mul", "%4, %6", "[R]"),
]
GONE = {3: "brought there before: redundant", 5: "has this layout: redundant", 6: "nothing needs it: dead"}
BODY = [
    ("%2", "weft_matmul", "%0, %1", "[P(sum)]"),
    ("%3", "weft_redistribute", "%2", "[R]"),
    ("%4", "weft_exp", "%3", "[R]"),
    ("%6", "weft_add_scalar", "%3", "[R]"),
    ("%8", "weft_mul", "%4, %6", "[R]"),
]


def draw_listing(picture, x, y, title, calls, gone):
    width, height = 330, 34
    picture.text(x, y, title, 14, bold=True)
    for number, (value, call, read, layout) in enumerate(calls):
        top = y + 16 + number * (height + 10)
        moves = call == "weft_redistribute"
        removed = number in gone
        fill = WHITE if removed else "#ffcc80" if moves else "#e9f1f8"
        picture.rectangle(x, top, width, height, fill, radius=5, dashed=removed)
        picture.text(x + 10, top + 22, f"{value} = {call}({read})", 12, PALE if removed else INK, mono=True)
        picture.text(x + width - 10, top + 22, layout, 12, PALE, anchor="end", mono=True)
        if removed:
            picture.text(x + width + 10, top + 22, gone[number], 12, PALE)
    return y + 16 + len(calls) * (height + 10)


def draw_graph():
    picture = Picture(1010, 420)
    draw_listing(picture, 24, 34, "as it was recorded", RECORDED, GONE)
    draw_listing(picture, 640, 34, "its body: what is executed", BODY, {})
    picture.text(24, 412, "Orange: data moves between ranks. Behind each call the placements of its output.", 12, PALE)
    picture.save("graph.svg", "A trace as it was recorded, and its body after the passes")


if __name__ == "__main__":
    draw_placements()
    draw_call()
    draw_graph()
