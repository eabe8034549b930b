#!/usr/bin/env python3
"""Makes the links of installed pages lead somewhere: to headers where they are installed, and else, for files that are not, the
name of the file. Runs at the end of `meson install`.

usage: installed_pages.py DOCUMENTS HEADERS      (folders below the prefix, or from /)
"""
import os
import re
import sys
from pathlib import Path


def link_to(words, target, page, documents, headers):
    """A link of a page, as Markdown."""
    name, _, anchor = target.partition("#")
    if re.match(r"[a-z]+:", target) or name == "":
        return f"[{words}]({target})"
    found = Path(os.path.normpath(page.parent / name))
    if found.exists():
        return f"[{words}]({target})"
    path = os.path.relpath(found, documents)
    if path == "include" or path.startswith("include/"):
        return f"[{words}]({os.path.relpath(headers / path.removeprefix('include').lstrip('/'), page.parent)}{'#' * bool(anchor)}{anchor})"
    return f"`{words.strip('`')}`" if words.strip("`") in path else f"{words} (`{path}`)"


def rewrite(page, documents, headers):
    text = page.read_text(encoding="utf-8")
    # Code is left as it is.
    parts = re.split(r"(^```.*?^```$)", text, flags=re.MULTILINE | re.DOTALL)
    for i in range(0, len(parts), 2):
        parts[i] = re.sub(r"(?<!!)\[((?:[^\[\]]|\n)*?)\]\(([^)\s]+)\)",
                          lambda link: link_to(link[1], link[2], page, documents, headers), parts[i])
    if "".join(parts) != text:
        page.write_text("".join(parts), encoding="utf-8")


def main():
    prefix = Path(os.environ["MESON_INSTALL_DESTDIR_PREFIX"])
    destination = os.environ.get("DESTDIR", "")
    documents, headers = (Path(destination + name) if name.startswith("/") else prefix / name for name in sys.argv[1:3])
    for page in documents.rglob("*.md"):
        rewrite(page, documents, headers)


if __name__ == "__main__":
    main()
