"""The picture: lanes of bars over time, as an SVG and as the data from which page.html draws it again when
zoomed."""

from collections import Counter
from xml.sax.saxutils import escape

from figures import inside

# The colours of codelets/kernels.h, and those of messages.
COLORS = {
    "product": "#4878a8",
    "other": "#a8c4dc",
    "move": "#e8a33d",
    "fill": "#b8b8b8",
    "in": "#c0504d",
    "out": "#e3b1af",
}
LEGEND = [
    ("product", "matrix products"),
    ("other", "other operations"),
    ("move", "sums over ranks, copies between ranks"),
    ("fill", "new values"),
    ("in", "messages: received"),
    ("out", "sent"),
]
LEFT, WIDTH, RIGHT = 170, 960, 70
LANE, GAP, ROW, MOST_ROWS = 26, 4, 7, 16
BARS = 1.0  # pixels: what is nearer or narrower is drawn as one bar


class Bar:
    """A task or a message in a lane; row: 0 is the upmost of the lane's rows."""

    __slots__ = ("start", "end", "row", "kind", "name", "detail")

    def __init__(self, start, end, row, kind, name, detail):
        self.start, self.end, self.row = start, end, row
        self.kind, self.name, self.detail = kind, name, detail


class Lane:
    def __init__(self, label, bars, rows, share):
        self.label, self.rows, self.share = label, rows, share
        self.bars = sorted(bars, key=lambda bar: (bar.row, bar.start))
        self.height = max(LANE, min(rows, MOST_ROWS) * ROW)
        self.y = 0.0


def parts_of(task):
    """What a fused task did, a line for each operation."""
    return "\n".join(f"{part.operation} {part.ms:.3f} ms" + (f", {part.times} times" if part.times > 1 else "") for part in task.parts)


def task_lane(process, worker, name, tasks, share):
    bars = [Bar(t.start, t.end, 0, t.family, t.name, parts_of(t)) for t in tasks if t.worker == worker]
    return Lane(f"{process} {name}", bars, 1, share)


def message_lane(label, messages, kind, share):
    """Each message is in the first row that is free while it is under way."""
    free, bars = [], []
    for m in sorted(messages, key=lambda message: message.start):
        row = next((row for row, until in enumerate(free) if until <= m.start), len(free))
        if row == len(free):
            free.append(0.0)
        free[row] = m.end
        places = f"process {m.source} to {m.target}, rank {m.source_rank} to {m.target_rank}"
        detail = f"{places}, {m.bytes} bytes, tag {m.tag}"
        bars.append(Bar(m.start, m.end, row, kind, m.tensor or "message", detail))
    return Lane(label, bars, max(1, len(free)), share)


def lanes_of(processes, messages, figures):
    """For each process one lane per worker, and where there are messages one for those received and one for
    those sent."""
    lanes = []
    for index, process in enumerate(processes):
        own = figures["processes"][index]
        title = f"process {index}:" if len(processes) > 1 else ""
        busy = {entry["worker"]: entry["busy"] for entry in own["workers"]}
        for worker, name in sorted(process.workers.items()):
            lanes.append(task_lane(title, worker, name, process.tasks, busy[worker]))
        if messages:
            received = [m for m in messages if m.target == index]
            sent = [m for m in messages if m.source == index]
            lanes.append(message_lane("receives", received, "in", None))
            lanes.append(message_lane("sends", sent, "out", None))
            lanes[-1].share = own["communicating"]
    return lanes


# ---- SVG -------------------------------------------------------------------------------------------------


def percent(value):
    return f"{value:.1f} %"


def milliseconds(value):
    return f"{value:.3f} ms" if value < 10 else f"{value:.1f} ms"


def megabytes(count):
    return f"{count / 1e6:.2f} MB" if count >= 1e4 else f"{count} bytes"


# Of the table on top: what a column is called, which share it shows, and where it ends.
COLUMNS = [
    ("computing", "computing", 75),
    ("communicating", "communicating", 190),
    ("both at once", "both", 300),
    ("idle", "idle", 390),
    ("exposed communication", "exposed", 550),
]
COLUMNS_OF_ONE = [
    ("computing", "computing", 75),
    ("of it between ranks", "moving", 215),
    ("idle", "idle", 300),
]


def headline(figures):
    """The columns, and for each row its title, the figures, and the words after them."""
    rows = [(f"process {own['process']}", own) for own in figures["processes"]]
    if len(rows) > 1:
        rows.append(("all", figures["all"]))
    columns = COLUMNS if len(rows) > 1 or figures["all"]["messages"] > 0 else COLUMNS_OF_ONE
    return columns, [(title, of, work_of(of)) for title, of in rows]


def work_of(figures):
    words = f"{figures['tasks']} tasks"
    if figures["messages"] > 0:
        words += f", {figures['messages']} messages, {megabytes(figures['bytes'])}"
    return words


class Picture:
    def __init__(self, start, end):
        self.start, self.end = start, max(end, start + 1e-6)
        self.parts, self.y = [], 0.0

    def x(self, when):
        when = min(max(when, self.start), self.end)
        return LEFT + WIDTH * (when - self.start) / (self.end - self.start)

    def text(self, x, y, words, anchor="start", color="#555", weight="normal"):
        self.parts.append(
            f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" font-size="12" fill="{color}" '
            f'font-weight="{weight}">{escape(words)}</text>'
        )

    def rect(self, x, y, width, height, color, hint=None):
        end = "/>" if hint is None else f"><title>{escape(hint)}</title></rect>"
        self.parts.append(
            f'<rect x="{x:.2f}" y="{y:.1f}" width="{width:.2f}" height="{height:.1f}" fill="{color}"{end}'
        )

    def table(self, columns, rows):
        self.y += 17
        for words, _, x in columns:
            self.text(LEFT + x, self.y, words, "end", "#888")
        for title, of, work in rows:
            self.y += 17
            self.text(LEFT - 10, self.y, title, "end", "#333")
            for _, name, x in columns:
                self.text(LEFT + x, self.y, percent(of[name]), "end", "#333")
            self.text(LEFT + columns[-1][2] + 40, self.y, work, "start", "#333")
        self.y += 12

    def axis(self):
        span = self.end - self.start
        step = tick(span)
        first = int(self.start / step) + (1 if self.start > int(self.start / step) * step else 0)
        when = first * step
        while when <= self.end:
            x = self.x(when)
            self.parts.append(f'<path d="M{x:.1f} {self.y:.1f}v5" stroke="#888"/>')
            self.text(x, self.y + 18, f"{when:g}", "middle", "#888")
            when = round(when / step + 1) * step
        self.text(LEFT + WIDTH + 10, self.y + 18, "ms", color="#888")
        self.y += 30

    def legend(self, kinds):
        x = LEFT
        for kind, words in LEGEND:
            if kind in kinds:
                self.rect(x, self.y, 12, 12, COLORS[kind])
                self.text(x + 17, self.y + 10, words)
                x += 34 + 6.4 * len(words)
        self.y += 22

    def svg(self):
        width, height = LEFT + WIDTH + RIGHT, self.y
        return (
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height:.0f}" '
            'font-family="sans-serif">\n'
            f'<rect width="{width}" height="{height:.0f}" fill="white"/>\n'
            + "\n".join(self.parts)
            + "\n</svg>\n"
        )


def tick(span):
    """A step of 1, 2 or 5 times a power of ten that divides the span into at most 12."""
    power = 1e-6
    while True:
        for factor in (1, 2, 5):
            if span / (factor * power) <= 12:
                return factor * power
        power *= 10


class Group:
    """Bars of one row that are drawn as one: of one kind, or all within one pixel."""

    def __init__(self, bar):
        self.bars, self.row, self.start, self.end = [bar], bar.row, bar.start, bar.end
        self.kind = bar.kind  # None: several

    def takes(self, bar, pixel):
        if bar.row != self.row:
            return False
        last = self.bars[-1]
        narrow = bar.end - bar.start < pixel or last.end - last.start < pixel
        alike = bar.kind == self.kind and narrow and bar.start - self.end < pixel
        return alike or bar.end - self.start < pixel

    def add(self, bar):
        self.bars.append(bar)
        self.end = bar.end
        self.kind = self.kind if bar.kind == self.kind else None

    def color(self):
        """That of the kind which took longest."""
        times = Counter()
        for bar in self.bars:
            times[bar.kind] += bar.end - bar.start
        return COLORS[times.most_common(1)[0][0]]

    def hint(self):
        if len(self.bars) == 1:
            bar = self.bars[0]
            lines = [f"{bar.name}: {milliseconds(bar.end - bar.start)}"] + (
                [bar.detail] if bar.detail else []
            )
            return "\n".join(lines)
        names = Counter(bar.name for bar in self.bars)
        listed = ", ".join(f"{name} x {count}" for name, count in names.most_common(4))
        more = ", ..." if len(names) > 4 else ""
        return f"{len(self.bars)} in {milliseconds(self.end - self.start)}: {listed}{more}"


def merged(bars, start, end):
    """The groups in a window that is WIDTH pixels wide."""
    pixel, group = BARS * (end - start) / WIDTH, None
    for bar in bars:
        if bar.end < start or bar.start > end:
            continue
        if group is not None and group.takes(bar, pixel):
            group.add(bar)
            continue
        if group is not None:
            yield group
        group = Group(bar)
    if group is not None:
        yield group


def draw(lanes, figures):
    """The SVG; the lanes get their places."""
    start, end = figures["window_ms"]
    picture = Picture(start, end)
    picture.table(*headline(figures))
    picture.text(LEFT + WIDTH + 10, picture.y, "busy", color="#888")
    picture.y += 6
    picture.parts.append('<g id="bars">')
    for lane in lanes:
        draw_lane(picture, lane, start, end)
    picture.axis()
    picture.parts.append("</g>")
    picture.legend({bar.kind for lane in lanes for bar in inside(lane.bars, start, end)})
    return picture.svg()


def draw_lane(picture, lane, start, end):
    lane.y = picture.y
    picture.text(LEFT - 10, lane.y + lane.height / 2 + 4, lane.label, "end")
    picture.rect(LEFT, lane.y, WIDTH, lane.height, "#f0f0f0")
    height = lane.height / lane.rows
    for group in merged(lane.bars, start, end):
        x = picture.x(group.start)
        width = max(picture.x(group.end) - x, 0.25)
        picture.rect(x, lane.y + height * group.row, width, height, group.color(), group.hint())
    if lane.share is not None:
        picture.text(LEFT + WIDTH + 10, lane.y + lane.height / 2 + 4, percent(lane.share))
    picture.y += lane.height + GAP


# ---- the page --------------------------------------------------------------------------------------------


def page_data(lanes, figures, whole):
    """What page.html needs to draw again. Times are microseconds from the whole run's first."""
    names, number = [], {}

    def number_of(text):
        if text not in number:
            number[text] = len(names)
            names.append(text)
        return number[text]

    kinds = list(COLORS)
    return {
        "left": LEFT,
        "width": WIDTH,
        "merge": BARS,
        "kinds": kinds,
        "colors": COLORS,
        "names": names,
        "origin": whole[0],
        "whole": [0, round(1e3 * (whole[1] - whole[0]), 1)],
        "window": [round(1e3 * (when - whole[0]), 1) for when in figures["window_ms"]],
        "lanes": [
            {
                "label": lane.label,
                "y": lane.y,
                "height": lane.height,
                "rows": lane.rows,
                "share": lane.share,
                "row": [bar.row for bar in lane.bars] if lane.rows > 1 else None,
                "start": [round(1e3 * (bar.start - whole[0]), 1) for bar in lane.bars],
                "length": [round(1e3 * (bar.end - bar.start), 1) for bar in lane.bars],
                "kind": [kinds.index(bar.kind) for bar in lane.bars],
                "name": [number_of(bar.name) for bar in lane.bars],
                "detail": [bar.detail for bar in lane.bars] if any(bar.detail for bar in lane.bars) else None,
            }
            for lane in lanes
        ],
    }
