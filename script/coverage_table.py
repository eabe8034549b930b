"""Adds up gcov's counts: coverage_table.py ROOT BUILD OUT

Prints the coverage of each folder and the 20 files with the lowest one; writes both, and the lines that did not run, to OUT.
"""
import json
import subprocess
import sys
from collections import defaultdict
from pathlib import Path

FOLDERS = ("src", "codelets", "sched")
AT_ONCE = 40   # notes that one gcov reads
FEWEST = 10    # lines of a file in the list of the lowest
LOWEST = 20


def reports(notes):
    """gcov's, of some .gcno, beside which .gcda may lie."""
    for first in range(0, len(notes), AT_ONCE):
        names = [str(note) for note in notes[first:first + AT_ONCE]]
        told = subprocess.run(["gcov", "--json-format", "--stdout", *names], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        for line in told.stdout.splitlines():
            if line.startswith("{"):
                yield json.loads(line)
        if sys.stderr.isatty():
            print(f"\rweft:   {min(first + AT_ONCE, len(notes))} of {len(notes)}\033[K", end="", file=sys.stderr)
    if sys.stderr.isatty():
        print("\r\033[K", end="", file=sys.stderr)


def counted_lines(root, build):
    """{file: {line: how often}}. A file that is compiled twice, or included, has run where any of the copies has."""
    lines = defaultdict(lambda: defaultdict(int))
    # The library alone: tests compile some of its files again.
    for report in reports(sorted(build.glob("libweft*.p/*.gcno"))):
        where = Path(report["current_working_directory"])
        for file in report["files"]:
            try:
                name = (where / file["file"]).resolve().relative_to(root)
            except ValueError:
                continue
            if name.parts[0] in FOLDERS:
                for line in file["lines"]:
                    lines[str(name)][line["line_number"]] += line["count"]
    return lines


def ranges(numbers):
    """Consecutive ones in one piece: 3-5 9"""
    text = []
    for number in numbers:
        if text and text[-1][1] == number - 1:
            text[-1][1] = number
        else:
            text.append([number, number])
    return " ".join(str(a) if a == b else f"{a}-{b}" for a, b in text)


def share(run, all_lines):
    return f"{100 * run / all_lines:5.1f} %" if all_lines else "    -  "


def tables(lines):
    folders = defaultdict(lambda: [0, 0])
    files = []
    for name, counts in lines.items():
        run = sum(count > 0 for count in counts.values())
        files.append((run / len(counts), name, run, len(counts)))
        for folder in {str(Path(name).parent), "all"}:
            folders[folder][0] += run
            folders[folder][1] += len(counts)
    yield f"{'folder':24} {'lines':>7} {'run':>7}"
    for folder, (run, count) in sorted(folders.items(), key=lambda item: (item[0] == "all", item[0])):
        yield f"{folder:24} {count:7} {run:7} {share(run, count)}"
    yield ""
    yield f"{'lowest coverage':44} {'lines':>7} {'run':>7}"
    for _, name, run, count in [file for file in sorted(files) if file[3] >= FEWEST][:LOWEST]:
        yield f"{name:44} {count:7} {run:7} {share(run, count)}"


def main():
    root, build, out = Path(sys.argv[1]).resolve(), Path(sys.argv[2]).resolve(), Path(sys.argv[3])
    lines = counted_lines(root, build)
    if not lines:
        sys.exit("weft: gcov has counted nothing")
    text = "\n".join(tables(lines))
    print(text)
    with open(out, "w", encoding="utf-8") as file:
        file.write(text + "\n\nlines that did not run\n")
        for name, counts in sorted(lines.items()):
            missing = ranges(sorted(number for number, count in counts.items() if count == 0))
            if missing:
                file.write(f"{name}: {missing}\n")


main()
