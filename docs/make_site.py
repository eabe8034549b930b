#!/usr/bin/env python3
"""The pages as a site: mkdocs (theme readthedocs, nothing from other hosts), and doxygen for the reference from the headers.

usage: make_site.py ROOT SITE VERSION       (`ninja -C build docs`)
"""
import os
import re
import shutil
import subprocess
import sys
import tempfile
import xml.etree.ElementTree
from pathlib import Path

import functions

# Pages in the order of a reader: (title, file below the root).
CONTENTS = [
    ("Start", [("weft", "README.md"), ("Installing", "docs/install.md"), ("Settings", "docs/settings.md"),
               ("Tutorial", "docs/training.md"), ("For MPI programs", "docs/mpi.md"),
               ("Python", "docs/python.md"), ("Fortran, C++, bindings", "docs/languages.md"),
               ("From PyTorch, PETSc, JAX", "docs/coming_from.md"), ("Examples", "examples/README.md")]),
    ("Use", [("Functions by task", None), ("Operations", "docs/operations.md"), ("Tensors", "docs/tensors.md"),
             ("Modules", "docs/modules.md"), ("Gradients", "docs/autograd.md"), ("Captured graphs", "docs/graphs.md"),
             ("Checkpoints", "docs/checkpoints.md"), ("Making a program fast", "docs/guide.md"),
             ("Profiles", "docs/profiling.md"), ("Slurm", "docs/slurm.md"), ("GPUs", "docs/gpu.md"), ("FFT on shards", "docs/fft.md"),
             ("Linear algebra", "docs/linear_algebra.md"),
             ("Error messages", "docs/errors.md"), ("Words", "docs/glossary.md"), ("Changes", "CHANGES.md")]),
    ("How it works", [("Overview", "docs/design.md"), ("Features and their tests", "docs/features.md"), ("Calls and tasks", "docs/calls.md"), ("Plans", "docs/plan.md"),
                      ("Engine", "docs/engine.md"), ("Transports", "docs/transports.md"), ("The machine", "docs/machine.md"),
                      ("Failures", "docs/failures.md"), ("Performance", "docs/performance.md"),
                      ("Beside PyTorch", "docs/oracle.md"), ("xSDK's policies", "docs/xsdk.md"), ("Contributing", "CONTRIBUTING.md")]),
]
RENAMED = {"README.md": "index.md", "examples/README.md": "examples.md", "CHANGES.md": "changes.md",
           "CONTRIBUTING.md": "contributing.md", "docs/README.md": "functions.md"}

TITLES = {name: title for _, entries in CONTENTS for title, name in entries} | {"docs/README.md": "Functions by task"}

STYLE = """
.wy-nav-content { max-width: 62rem; }
.rst-content table { margin-bottom: 1.5rem; display: block; overflow-x: auto; }
.rst-content table td, .rst-content table th { white-space: normal !important; vertical-align: top; padding: 0.3rem 0.6rem; }
.rst-content td:first-child code { white-space: nowrap; }
.rst-content pre code { font-size: 0.8rem; line-height: 1.35; }
.rst-content img { background: #fff; max-width: 100%; }
"""


def staged_name(path):
    """A page's name in the site, from its name below the root; None: it is no page."""
    if path in RENAMED:
        return RENAMED[path]
    pages = [name for _, entries in CONTENTS for _, name in entries if name]
    return Path(path).name if path in pages or path.startswith("docs/") and not path.endswith(".py") else None


def doxygen_name(header):
    """Doxygen's page of a header: two underscores for one, _8 for the dot."""
    return "reference/" + header.replace("_", "__").replace(".h", "_8h") + ".html"


def rewritten(text, page, root):
    """A page whose links are those of the site: to other pages, and to the reference. Sources are only named."""
    def link(match):
        words, target = match.group(1), match.group(2)
        if re.match(r"[a-z]+:|#", target):
            return match.group(0)
        name, _, anchor = target.partition("#")
        path = os.path.relpath((root / page).parent / name, root)
        anchor = "#" + anchor if anchor else ""
        if path == "include/weft":
            return f"[{words}](reference/files.html)"
        if path.startswith("include/weft/"):
            return f"[{words}]({doxygen_name(Path(path).name)})"
        name = staged_name(path)
        words = TITLES.get(path, words) if re.fullmatch(r"[\w/.]+\.md", words) else words
        if name:
            return f"[{words}]({name}{anchor})"
        return f"`{words.strip('`')}`" if words.strip("`") in path else f"{words} (`{path}`)"

    text = re.sub(r"(?<!!)\[((?:[^\[\]]|\n)*?)\]\(([^)\s]+)\)", link, text)
    text = re.sub(r"(!\[(?:[^\[\]]|\n)*?\]\()(?:docs/)?([^)\s/]+\.svg\))", r"\1\2", text)
    # In code a bar needs no escape.
    text = re.sub(r"`[^`\n]*`", lambda code: code.group(0).replace("\\|", "|"), text)
    # Lists and tables of Markdown's first implementation need an empty line before them.
    text = re.sub(r"^(?! *[-|*\d]| *$)(.*)\n(?= ?- )", r"\1\n\n", text, flags=re.MULTILINE)
    return text


def reference_links(tagfile):
    """{function: address} from what Doxygen has noted."""
    members = xml.etree.ElementTree.parse(tagfile).iter("member")
    found = [(each.findtext("name"), each.findtext("anchorfile"), each.findtext("anchor")) for each in members if each.get("kind") == "function"]
    return {name: f"reference/{page}#{anchor}" for name, page, anchor in found}


def stage(root, folder, links):
    pages = folder / "pages"
    pages.mkdir()
    for _, entries in CONTENTS:
        for _, name in entries:
            text = functions.page(root / "include/weft", links) if name is None else \
                rewritten((root / name).read_text(encoding="utf-8"), name, root)
            (pages / (staged_name(name) if name else "functions.md")).write_text(text, encoding="utf-8")
    for picture in (root / "docs").glob("*.svg"):
        shutil.copy(picture, pages)
    (pages / "weft.css").write_text(STYLE, encoding="utf-8")
    lines = ["site_name: weft", "docs_dir: pages", "use_directory_urls: false", "extra_css: [weft.css]",
             "theme: {name: readthedocs, highlightjs: false, navigation_depth: 2}", "nav:"]
    for title, entries in CONTENTS:
        lines.append(f"  - {title}:")
        lines += [f"      - {text}: {staged_name(name) if name else 'functions.md'}" for text, name in entries]
    lines.append("  - Reference: reference/index.html")
    (folder / "mkdocs.yml").write_text("\n".join(lines) + "\n", encoding="utf-8")


def doxyfile(root, output, tagfile, version):
    return f"""PROJECT_NAME = weft
PROJECT_NUMBER = {version}
PROJECT_BRIEF = "Distributed tensors on StarPU"
INPUT = {root}/include/weft
OUTPUT_DIRECTORY = {output}
HTML_OUTPUT = reference
GENERATE_TAGFILE = {tagfile}
GENERATE_LATEX = NO
OPTIMIZE_OUTPUT_FOR_C = YES
EXTRACT_ALL = YES
JAVADOC_AUTOBRIEF = YES
DISTRIBUTE_GROUP_DOC = YES
SORT_MEMBER_DOCS = NO
MACRO_EXPANSION = YES
EXPAND_ONLY_PREDEF = YES
PREDEFINED = WEFT_API= WEFT_BEGIN_DECLS= WEFT_END_DECLS=
FULL_PATH_NAMES = NO
QUIET = YES
WARNINGS = NO
WARN_IF_UNDOCUMENTED = NO
WARN_IF_DOC_ERROR = NO
WARN_IF_INCOMPLETE_DOC = NO
HAVE_DOT = NO
GENERATE_TREEVIEW = YES
"""


def main():
    root, site, version = Path(sys.argv[1]).resolve(), Path(sys.argv[2]).resolve(), sys.argv[3]
    missing = [name for name in ("mkdocs", "doxygen") if shutil.which(name) is None]
    if missing:
        sys.exit(f"docs: {' and '.join(missing)} not found: apt install {' '.join(missing)} (Debian), or your system's package")
    with tempfile.TemporaryDirectory(prefix="weft-site-") as name:
        folder = Path(name)
        (folder / "Doxyfile").write_text(doxyfile(root, folder, folder / "tags.xml", version), encoding="utf-8")
        subprocess.run(["doxygen", folder / "Doxyfile"], check=True)
        stage(root, folder, reference_links(folder / "tags.xml"))
        subprocess.run(["mkdocs", "build", "--quiet", "--clean", "--config-file", folder / "mkdocs.yml", "--site-dir", site], check=True)
        shutil.copytree(folder / "reference", site / "reference")
    print(f"docs: {site}/index.html")


if __name__ == "__main__":
    if len(sys.argv) != 4:
        sys.exit(__doc__)
    main()
