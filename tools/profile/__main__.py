"""Draws a timeline from the StarPU traces of a weft program; script/profile runs it.

Each FOLDER is one process: what starpu_fxt_tool made of its trace (tasks.rec, trace.rec, paje.trace, ...).
Writes timeline.html and timeline.svg into the output folder; with --merge also one paje.trace, dag.dot,
tasks.rec, trace.rec and distrib.data of all processes, on a common clock. Prints the figures, with --json as
one line."""

import argparse
import json
import os
import sys

import drawing
import figures as arithmetic
import merge
import predicted
import traces


def arguments():
    parser = argparse.ArgumentParser(prog="weft profile", description=__doc__)
    parser.add_argument("--output", default=".", metavar="FOLDER", help="default: the current folder")
    parser.add_argument("--from", dest="start", type=float, metavar="MS", help="where the window begins")
    parser.add_argument("--to", dest="end", type=float, metavar="MS", help="where it ends")
    parser.add_argument("--json", action="store_true", help="print the figures as one JSON object")
    parser.add_argument("--merge", action="store_true", help="write StarPU's files for all processes too")
    parser.add_argument("--title", default="weft timeline")
    parser.add_argument("--predicted", metavar="FILE", help="draw the timeline of a prediction instead")
    parser.add_argument("folders", nargs="*", metavar="FOLDER")
    given = parser.parse_args()
    if (given.predicted is None) == (not given.folders):
        parser.error("give folders, or --predicted FILE")
    return given


def window_of(given, whole):
    start = whole[0] if given.start is None else given.start
    end = whole[1] if given.end is None else given.end
    if not start < end:
        sys.exit(f"weft profile: nothing to show from {start:g} ms to {end:g} ms")
    return start, end


def write_timeline(folder, title, processes, messages, figures, whole):
    lanes = drawing.lanes_of(processes, messages, figures)
    svg = drawing.draw(lanes, figures)
    with open(os.path.join(folder, "timeline.svg"), "w", encoding="utf-8") as file:
        file.write(svg)
    with open(os.path.join(os.path.dirname(__file__), "page.html"), encoding="utf-8") as file:
        page = file.read()
    parts = {
        "SVG": svg,
        "TITLE": drawing.escape(title),
        "FIGURES": embedded(figures),
        "DATA": embedded(drawing.page_data(lanes, figures, whole)),
    }
    before, *rest = page.split("@")
    # Between two signs is the name of a part, or text that has nothing to do with them.
    pieces = [before]
    for index, piece in enumerate(rest):
        pieces.append(parts[piece] if index % 2 == 0 else piece)
    with open(os.path.join(folder, "timeline.html"), "w", encoding="utf-8") as file:
        file.write("".join(pieces))


def embedded(value):
    """JSON that may stand inside a script element."""
    return json.dumps(value, separators=(",", ":")).replace("</", "<\\/")


def print_figures(figures):
    rows = [
        ("", "computing", "communicating", "both", "idle", "exposed", "moving", "tasks", "messages", "bytes")
    ]
    for title, of in [(f"process {own['process']}", own) for own in figures["processes"]] + [
        ("all", figures["all"])
    ]:
        shares = [
            f"{of[name]:.1f} %"
            for name in ("computing", "communicating", "both", "idle", "exposed", "moving")
        ]
        rows.append((title, *shares, str(of["tasks"]), str(of["messages"]), str(of["bytes"])))
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    for row in rows:
        print("  ".join(words.rjust(width) for words, width in zip(row, widths)))


def main():
    """A message where something is wrong with the traces, for they may be cut off or come from elsewhere."""
    given = arguments()
    try:
        profile(given)
    except traces.Malformed as error:
        sys.exit(f"weft profile: {error}")
    except OSError as error:
        sys.exit(f"weft profile: {error.filename}: {error.strerror}")
    except (ValueError, LookupError, ArithmeticError, TypeError) as error:
        folders = ", ".join(given.folders) or given.predicted
        sys.exit(f"weft profile: the traces in {folders} do not fit together: {error}")


def profile(given):
    if given.predicted is None:
        processes, messages, unmatched = traces.read_run(given.folders)
    else:
        (processes, messages), unmatched = predicted.read(given.predicted), 0
    whole = arithmetic.whole_window(processes, messages)
    if whole[0] == whole[1]:
        sys.exit("weft profile: the traces have no task and no message")
    figures = arithmetic.of_run(processes, messages, *window_of(given, whole))
    figures["unmatched_messages"] = unmatched
    write_timeline(given.output, given.title, processes, messages, figures, whole)
    if given.merge and given.predicted is None:
        merge.merge_all(processes, messages, given.output)
    if given.json:
        print(json.dumps(figures))
    else:
        print_figures(figures)
    if unmatched > 0:
        print(
            f"weft profile: {unmatched} messages lack a side in the traces and are not shown", file=sys.stderr
        )
    held_up = max(own["recorder_ms"] for own in figures["processes"])
    if held_up > 0:
        print(
            f"weft profile: for {held_up:.0f} ms of the window the program stood still while its recording was "
            "written to disk: give it more memory with STARPU_TRACE_BUFFER_SIZE (in MB)",
            file=sys.stderr,
        )


if __name__ == "__main__":
    main()
