"""<weft/weft.hpp> against an installed copy: by pkg-config as C++17 and C++20, and by CMake. All warnings are errors.

Argument: build.json of this folder's meson.build.
"""

import shutil
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

import cases
from installed import Installed, run

weft = Installed(sys.argv[1])
here = Path(__file__).resolve().parent
sources = [here.parent / "cpp" / name for name in ("test_cpp.cpp", "quiet.cpp")]
WARNINGS = ("-Wall", "-Wextra", "-Wconversion", "-Wshadow", "-Wpedantic", "-Werror")


def understands(compiler, standard):
    done = subprocess.run([compiler, f"-std={standard}", "-fsyntax-only", "-x", "c++", "-"], input="#include <vector>\n",
                          capture_output=True, text=True)
    return done.returncode == 0


class Cpp(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)

    def check(self, program):
        self.assertIn("8 test(s) run", weft.run([program]))

    def test_pkg_config(self):
        tried = 0
        for compiler in filter(shutil.which, ("g++", "clang++")):
            for standard in ("c++17", "c++20"):
                if understands(compiler, standard):
                    program = self.folder / f"{compiler}-{standard}"
                    run([compiler, f"-std={standard}", *WARNINGS, *sources, "-o", program, *weft.flags()], weft.environment)
                    self.check(program)
                    tried += 1
        self.assertGreater(tried, 0)

    def test_example(self):
        """A whole program, in one process and in several, without a line of MPI."""
        source = weft.prefix / "share" / "doc" / "weft" / "examples" / "heat.cpp"
        program = self.folder / "heat"
        run(["g++" if shutil.which("g++") else "clang++", "-std=c++17", *WARNINGS, source, "-o", program, *weft.flags()], weft.environment)
        for count in (1, 2, 3) if weft.mpi else (1,):
            self.assertIn(f"ranks: {count}, as the plain loop", weft.run([program], count))

    @unittest.skipIf(shutil.which("cmake") is None, "needs cmake")
    def test_cmake(self):
        for source in (*sources, here / "cpp" / "CMakeLists.txt"):
            shutil.copy(source, self.folder)
        run(["cmake", "-S", self.folder, "-B", self.folder / "build"], weft.environment)
        run(["cmake", "--build", self.folder / "build"], weft.environment)
        self.check(self.folder / "build" / "cpp")


if __name__ == "__main__":
    cases.main(Cpp)
