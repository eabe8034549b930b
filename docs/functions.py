#!/usr/bin/env python3
"""The index of functions by task, from the public headers: every function with the first sentence of its comment.

usage: functions.py INCLUDE_FOLDER     prints Markdown
"""
import re
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tools/api"))
import describe  # noqa: E402

# Headers by task, in the order of a program's life. A header that is not here gets a section of its own.
TASKS = [
    ("Start and end, errors, scopes", ["runtime", "mpi", "base", "build"]),
    ("Meshes and placements", ["mesh", "placement"]),
    ("Make tensors, bring data in and out", ["tensor", "boxes", "dlpack"]),
    ("Random numbers", ["random"]),
    ("Compute element by element", ["elementwise"]),
    ("Complex numbers, Fourier transforms", ["complex", "fft"]),
    ("Reduce", ["reductions"]),
    ("Choose, gather, scatter, sort, compare", ["indexing", "index_list"]),
    ("Shapes, slices, joins", ["shapes"]),
    ("Products, convolution, attention", ["products"]),
    ("Linear algebra", ["linalg", "sparse"]),
    ("Images", ["images"]),
    ("Layers and losses", ["nn", "losses"]),
    ("Gradients", ["autograd"]),
    ("Optimisers", ["optimizers"]),
    ("Modules", ["module"]),
    ("Capture steps", ["graph", "graph_shard", "predict"]),
    ("Save and load", ["checkpoint"]),
    ("Operations and kernels of your own", ["operation", "kernel", "local_map"]),
    ("Say what calls may do, and see what they do", ["ops", "regions", "explain"]),
]

def functions(header):
    """[(name, comment)] of a header's text, in its order."""
    comments = describe.docs_of(header)
    names = re.findall(r"(?:WEFT_API|static inline)\b[^;{]*?\b(weft_\w+)\s*\(", describe.without_comments(header))
    return [(name, comments.get(name, "")) for name in names]


def sentence(comment):
    """The first sentence of a comment, in one line."""
    text = " ".join(comment.split())
    ends = [end.start() for end in re.finditer(r"(?<![ .])\.(?= |$)|(?<=\w): |;", text)]
    whole = [end for end in ends if text.count("(", 0, end) == text.count(")", 0, end)]
    text = text[:whole[0]] if whole else text
    words = text if len(text) <= 160 else text[:text.rfind(" ", 0, 157)] + " ..."
    return words.replace("|", "\\|").replace("<", "&lt;").replace("*", "\\*").replace("_", "\\_")


def rows(header):
    """Functions with one comment share a row."""
    shared = []
    for name, comment in functions(header):
        if shared and shared[-1][1] == comment and comment:
            if name not in shared[-1][0]:
                shared[-1][0].append(name)
        else:
            shared.append(([name], comment))
    return shared


def page(folder, links=None):
    """`links`: {name: address} of functions."""
    def named_function(name):
        return f"[`{name}`]({links[name]})" if links and name in links else f"`{name}`"

    headers = {path.stem: path.read_text(encoding="utf-8") for path in sorted(Path(folder).glob("*.h"))}
    named = [name for _, names in TASKS for name in names]
    tasks = TASKS + [(f"`<weft/{name}.h>`", [name]) for name in headers if name not in named]
    lines = ["# Functions by task", "",
             "Every public function, with the first sentence of its comment. The [reference](reference/index.html) has the",
             "rest: shapes, ownership, errors.", ""]
    for task, names in tasks:
        found = [(name, rows(headers[name])) for name in names if name in headers]
        if not any(each for _, each in found):
            continue
        lines += [f"## {task}", "", "| function | |", "| --- | --- |"]
        for name, each in found:
            for group, comment in each:
                lines.append(f"| {', '.join(map(named_function, group))} | {sentence(comment)} |")
        lines.append("")
    return "\n".join(lines)


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    print(page(sys.argv[1]))
