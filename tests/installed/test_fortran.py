"""The Fortran module: every public function has a procedure; examples/heat_fortran.f90 against an installed copy.

Argument: build.json of this folder's meson.build.
"""

import re
import shutil
import sys
import tempfile
import unittest
from pathlib import Path

import cases
from installed import Installed, run

weft = Installed(sys.argv[1])
sys.path[:0] = [str(weft.source / "tools" / name) for name in ("fortran", "api")]
import describe
import generate


class Names(unittest.TestCase):
    def test_every_function_is_in_the_module(self):
        installed = weft.prefix / "include" / "weft"
        module = (installed / "weft.f90").read_text(encoding="utf-8")
        public = set(re.findall(r"^public :: (\w+)", module, re.MULTILINE))
        functions, inline = set(), set()
        for header in installed.glob("*.h"):
            text = describe.without_comments(header.read_text(encoding="utf-8"))
            functions |= set(re.findall(r"^WEFT_API[^;(]*?\b(weft_\w+)\s*\(", text, re.MULTILINE))
            inline |= set(re.findall(r"^(?:static inline|WEFT_INLINE) [^;({]*?\b(weft_\w+)\(", text, re.MULTILINE))
        self.assertGreater(len(functions), 400)
        self.assertEqual(functions - public - set(generate.LEFT_OUT), set())
        # Initialisers are the types' own; numbers are made of any kind by themselves.
        inline = {name for name in inline if not name.endswith("_init") and not name.startswith("weft_scalar_")}
        self.assertEqual(inline - public - set(generate.LEFT_OUT), set())
        pages = (weft.source / "docs" / "languages.md").read_text(encoding="utf-8")
        for name in set(generate.LEFT_OUT) - public:
            self.assertIn(f"`{name}()`", pages)


def wrapper():
    """The wrapper of the library's MPI for Fortran; None where there is none."""
    compiler = weft.build["mpi_compiler"]
    name = re.sub(r"cc(?=[^/]*$)", "fort", compiler) if compiler else ""
    return shutil.which(name) if name else None


@unittest.skipIf(weft.build["fortran"] == "" or wrapper() is None, "no mpifort")
class Heat(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)
        self.source = weft.prefix / "share" / "doc" / "weft" / "examples" / "heat_fortran.f90"

    def check(self, program, processes):
        for count in processes:
            self.assertIn(f"{count} processes: as the plain loop", weft.run([program], count))

    def test_with_the_installed_module(self):
        flags = run(["pkg-config", "--cflags", "--libs", "weft-fortran"], weft.environment).split()
        run([wrapper(), self.source, "-o", self.folder / "heat", *flags, f"-Wl,-rpath,{weft.libraries}"], weft.environment)
        self.check(self.folder / "heat", (1, 2, 3))

    def test_ghosted_arrays(self):
        flags = run(["pkg-config", "--cflags", "--libs", "weft-fortran"], weft.environment).split()
        source = self.source.with_name("heat2d_fortran.f90")
        run([wrapper(), source, "-o", self.folder / "heat2d", *flags, f"-Wl,-rpath,{weft.libraries}"], weft.environment)
        for count in (1, 2, 3, 4):
            self.assertIn(f"{count} processes: as MPI", weft.run([self.folder / "heat2d"], count))

    @unittest.skipIf(shutil.which("cmake") is None, "needs cmake")
    def test_cmake(self):
        """The project of docs/languages.md."""
        page = (weft.source / "docs" / "languages.md").read_text(encoding="utf-8")
        project = re.search(r"^```cmake\n(.*?find_package\(weft.*?)^```$", page, re.MULTILINE | re.DOTALL)[1]
        (self.folder / "CMakeLists.txt").write_text(project, encoding="utf-8")
        shutil.copy(self.source, self.folder)
        run(["cmake", "-S", self.folder, "-B", self.folder / "build"], weft.environment)
        run(["cmake", "--build", self.folder / "build"], weft.environment)
        self.check(self.folder / "build" / "heat", (2,))

    def test_with_the_source_of_the_module(self):
        """As for a compiler that does not read the installed module."""
        module = weft.prefix / "include" / "weft" / "weft.f90"
        run([wrapper(), "-J", self.folder, module, self.source, "-o", self.folder / "heat", f"-L{weft.libraries}", "-lweft",
             f"-Wl,-rpath,{weft.libraries}"], weft.environment)
        self.check(self.folder / "heat", (2,))


if __name__ == "__main__":
    cases.main(Names, Heat)
