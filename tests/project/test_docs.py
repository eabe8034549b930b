"""The pages: their code stands in programs that are built and run, their links lead somewhere, the names in them exist, their
batch scripts are understood by the shell and name options that exist, their error messages are the library's, and every public
function and every example is listed.

usage: test_docs.py ROOT
"""
import re
import shutil
import subprocess
import sys
import unittest
from pathlib import Path

ROOT = Path(sys.argv.pop(1)) if len(sys.argv) > 1 else Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "docs"))
import cases  # noqa: E402
import functions  # noqa: E402
import make_site  # noqa: E402

PAGES = sorted(ROOT.glob("docs/*.md")) + [ROOT / name for name in
                                          ("README.md", "CONTRIBUTING.md", "CHANGES.md", "SUPPORT.md", "SECURITY.md", "examples/README.md")]
# Pages whose names are those of the library's users: all must be public.
FOR_USERS = ["coming_from.md", "guide.md", "mpi.md", "slurm.md", "training.md", "errors.md", "modules.md"]
# Names that stand for any.
PLACEHOLDERS = {"weft_NAME", "WEFT_NAME"}
# srun's and sbatch's, where Slurm is not installed (its version 22.05).
SLURM_OPTIONS = {"nodes", "ntasks", "ntasks-per-node", "cpus-per-task", "hint", "mem", "time", "signal", "requeue",
                 "open-mode", "mpi", "cpu-bind", "kill-on-bad-exit"}


def read(path):
    return path.read_text(encoding="utf-8")


def blocks(text, language):
    """The contents of fenced blocks of a language."""
    return re.findall(rf"^```{language}\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)


def without_blocks(text):
    return re.sub(r"^```.*?^```$", "", text, flags=re.MULTILINE | re.DOTALL)


def lines_of(code):
    """Lines without indentation, which a page may leave out."""
    return [line.strip() for line in code.strip().splitlines()]


def anchors(text):
    """Those of a page's headings, as sites of Markdown make them."""
    found = set()
    for heading in re.findall(r"^#+ (.*)$", without_blocks(text), re.MULTILINE):
        words = re.sub(r"[^\w\- ]", "", heading.lower())
        found.add(words.strip().replace(" ", "-"))
    return found


def public_names():
    return set(re.findall(r"\b(?:weft|WEFT)_\w+", "\n".join(read(path) for path in ROOT.glob("include/weft/*.h"))))


class Pages(unittest.TestCase):
    def test_code_stands_in_programs(self):
        for language, ending in (("c", "c"), ("cpp", "cpp"), ("fortran", "f90"), ("python", "py")):
            programs = [lines_of(read(path)) for folder in ("examples", "tests") for path in (ROOT / folder).rglob(f"*.{ending}")]
            joined = ["\n" + "\n".join(lines) + "\n" for lines in programs]
            for page in PAGES:
                for block in blocks(read(page), language):
                    code = "\n" + "\n".join(lines_of(block)) + "\n"
                    with self.subTest(page=page.name):
                        self.assertTrue(any(code in program for program in joined), f"no program has\n{block}")

    def test_links_lead_somewhere(self):
        for page in PAGES:
            text = read(page)
            for target in re.findall(r"\]\(([^)\s]+)\)", without_blocks(text)):
                if re.match(r"[a-z]+://", target):
                    continue
                name, _, anchor = target.partition("#")
                path = (page.parent / name).resolve() if name else page
                with self.subTest(page=page.name, target=target):
                    self.assertTrue(path.exists())
                    if anchor and path.suffix == ".md":
                        self.assertIn(anchor, anchors(read(path)))

    def test_names_exist(self):
        public = public_names()
        folders = ("src", "codelets", "sched", "tests", "tools", "include")
        files = [path for folder in folders for path in (ROOT / folder).rglob("*.[ch]")]
        files += [path for ending in ("f90", "cpp") for path in (ROOT / "tests").rglob(f"*.{ending}")]
        files += [path for pattern in ("meson.build", "*.txt", "*/meson.build", "*/*.cmake*", "*/*/*.cmake*", "*/*/CMakeLists.txt")
                  for path in ROOT.glob(pattern)]
        sources = "\n".join(read(path) for path in files)
        known = set(re.findall(r"\b(?:weft|WEFT)_\w+", sources))
        settings = set(re.findall(r"each\((\w+)\)", read(ROOT / "src/runtime/variables.h")))
        for page in PAGES:
            if page.name == "CHANGES.md":
                continue  # names that are no more
            allowed = public if page.name in FOR_USERS else known | public
            for name in re.findall(r"\b(?:weft|WEFT)_[A-Za-z0-9_]*[A-Za-z0-9](?![\w*])", read(page)):
                if name.startswith("WEFT_") and name[5:] in settings | {"TEST_ONLY", "TEST_CASES"}:
                    continue
                with self.subTest(page=page.name, name=name):
                    self.assertIn(name, allowed | PLACEHOLDERS)

    def test_every_function_is_in_the_index(self):
        page = functions.page(ROOT / "include/weft")
        for path in ROOT.glob("include/weft/*.h"):
            for declaration in re.findall(r"^WEFT_API[^;]*?\b(weft_\w+)\s*\(", read(path), re.MULTILINE):
                self.assertRegex(page, rf"`{declaration}`[,| ]")

    def test_every_page_is_in_the_site(self):
        there = {name for _, entries in make_site.CONTENTS for _, name in entries}
        for page in ROOT.glob("docs/*.md"):
            if page.name != "README.md":
                self.assertIn(f"docs/{page.name}", there)
        for path in filter(None, there):
            self.assertTrue((ROOT / path).exists(), path)

    def test_every_example_is_in_the_index(self):
        index = read(ROOT / "examples/README.md")
        for name in re.findall(r"^  '(\w+)': \[", read(ROOT / "examples/meson.build"), re.MULTILINE):
            self.assertIn(f"({name}.c)", index)
        for path in (*ROOT.glob("examples/*.cpp"), *ROOT.glob("examples/*.f90")):
            self.assertIn(f"({path.name})", index)

    def test_variables_of_scripts_are_known(self):
        """The library warns of a variable that it does not know: not of those that scripts and tests of weft read."""
        listed = re.search(r"#define WEFT_VARIABLES\(each\)(.*?)/\*", read(ROOT / "src/runtime/variables.h"), re.DOTALL)[1]
        known = {f"WEFT_{name}" for name in re.findall(r"each\((\w+)\)", listed)}
        families = re.search(r"families\[\] = \{(.*?)\}", read(ROOT / "src/runtime/variables.c"))[1]
        families = tuple(re.findall(r'"(\w+)"', families))
        self.assertGreater(len(families), 1)
        reads = re.compile(r"""(?:environ(?:\.get\(|\[)|getenv\()\s*["'](WEFT_\w+)|\$\{?(WEFT_\w+)""")
        for folder in ("script", "bench", "tools", "tests", "examples", "packaging"):
            for path in (ROOT / folder).rglob("*"):
                if path.is_file() and path.suffix in ("", ".py", ".sh", ".c", ".cu", ".cpp"):
                    for match in reads.finditer(path.read_text(encoding="utf-8", errors="replace")):
                        name = match[1] or match[2]
                        self.assertTrue(name in known or name.startswith(families), f"{path}: {name}")

    def test_features_have_tests(self):
        """Each row of docs/features.md names tests, and functions, that exist."""
        build = "".join(read(path) for path in ROOT.glob("tests/**/meson.build"))
        there = set(re.findall(r"(?:'name': |\btest\()'([\w-]+)'", build))
        rows = [line.split("|") for line in read(ROOT / "docs/features.md").splitlines() if re.match(r"\| (?!What|---)", line)]
        self.assertGreater(len(rows), 40)
        for row in rows:
            tests = re.findall(r"`([\w-]+)`", row[3])
            self.assertTrue(tests, row[1])
            for name in tests:
                self.assertIn(name, there, row[1])

    def test_messages_are_the_librarys(self):
        sources = "".join(read(path) for path in sorted((ROOT / "src").rglob("*.c")))
        joined = re.sub(r'"\s*\n\s*"', "", sources).replace('\\"', '"')
        messages = re.findall(r"^\| `([^`]+)` \|", read(ROOT / "docs/errors.md"), re.MULTILINE)
        self.assertGreater(len(messages), 20)
        for message in messages:
            for part in message.split("..."):
                words = part.strip(" \"()[]%,;:")
                self.assertTrue(len(words) < 4 or words in joined, f"errors.md: \"{words}\" of \"{message}\"")

    def test_batch_scripts(self):
        options = set(SLURM_OPTIONS)
        for program in ("srun", "sbatch"):
            if shutil.which(program):
                told = subprocess.run([program, "--help"], capture_output=True, text=True, timeout=30).stdout
                options |= set(re.findall(r"--([a-z][\w-]+)", told))
        scripts = blocks(read(ROOT / "docs/slurm.md"), "sh")
        self.assertGreaterEqual(len(scripts), 4)
        for script in scripts:
            checked = subprocess.run(["bash", "-n"], input=script, capture_output=True, text=True, timeout=30)
            self.assertEqual((checked.returncode, checked.stderr), (0, ""), script)
            self.assertTrue(script.startswith("#!/bin/"))
            used = re.findall(r"^#SBATCH --([\w-]+)", script, re.MULTILINE)
            for command in re.findall(r"^ *srun (.*?)(?:[^\s/]*/)?(?:program|transformer_lm)", script.replace("\\\n", " "), re.MULTILINE):
                used += re.findall(r"--([a-z][\w-]+)", command)
            self.assertTrue(used)
            for option in used:
                self.assertIn(option, options)


if __name__ == "__main__":
    cases.main(Pages)
