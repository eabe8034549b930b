"""Programs in C against an installed copy: by pkg-config, CMake and meson, with the shared and the static library, on one
process and several; and the installed programs.

Argument: build.json of this folder's meson.build.
"""

import os
import re
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
# Arrays of 1,001 numbers: 1,001 = 4 * 250 + 1 = 3 * 333 + 2.
PROCESSES = (1, 2, 3, 4)


def needs(*programs):
    missing = [program for program in programs if shutil.which(program) is None]
    return unittest.skipIf(missing, f"needs {', '.join(missing)}")


class Folder(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)

    def check_balanced(self, program, processes=PROCESSES):
        for count in processes:
            said = weft.run([program], count)
            self.assertIn(f"{count} processes: sum 500500, doubled 1001000, weft {weft.build['version']}", said)


def linked(program):
    return re.findall(r"NEEDED.*\[(.*)\]", run(["readelf", "-d", program], weft.environment))


@unittest.skipIf(weft.mpi == "", "no MPI")
class Balanced(Folder):
    def test_pkg_config_shared(self):
        program = self.folder / "balanced"
        weft.compile([here / "balanced.c"], program, mpi=True)
        self.check_balanced(program)
        self.assertIn(f"libweft.so.{weft.build['soversion']}", linked(program))

    def test_pkg_config_static(self):
        program = self.folder / "balanced"
        weft.compile([here / "balanced.c"], program, mpi=True, static=True)
        self.check_balanced(program, (1, 3))
        self.assertFalse([name for name in linked(program) if "weft" in name])

    def configure_cmake(self, *options):
        run(["cmake", "-S", here / "cmake", "-B", self.folder, f"-DCMAKE_C_COMPILER={weft.build['compiler']}", *options],
            weft.environment)
        run(["cmake", "--build", self.folder], weft.environment)
        return self.folder / "balanced"

    @needs("cmake")
    def test_cmake_shared(self):
        program = self.configure_cmake()
        self.check_balanced(program, (3,))
        self.assertIn(f"libweft.so.{weft.build['soversion']}", linked(program))

    @needs("cmake")
    def test_cmake_static(self):
        program = self.configure_cmake("-Dweft_USE_STATIC_LIBS=ON")
        self.check_balanced(program, (3,))
        self.assertFalse([name for name in linked(program) if "weft" in name])

    def test_meson(self):
        shutil.copy(here / "balanced.c", self.folder)
        shutil.copy(here / "meson" / "meson.build", self.folder)
        environment = {**weft.environment, "CC": weft.build["mpi_compiler"]}
        run(["meson", "setup", "build", "."], environment, self.folder)
        run(["ninja", "-C", "build"], environment, self.folder)
        self.check_balanced(self.folder / "build" / "balanced", (3,))

    def test_one_mpi(self):
        """StarPU, HDF5 and the others bring no second MPI into a program."""
        program = self.folder / "balanced"
        weft.compile([here / "balanced.c"], program, mpi=True)
        loaded = run(["ldd", program], weft.environment)
        self.assertEqual(len(set(re.findall(r"^\s*lib(?:mpi|mpich)\.so\S*", loaded, re.MULTILINE))), 1, loaded)


# Debian's names of wrapper compilers that may lie beside each other, with their launchers.
OTHERS = {"mpicc.mpich": "mpirun.mpich", "mpicc.openmpi": "mpirun.openmpi"}


def other_mpi():
    """A wrapper compiler of another MPI than the library's; None where there is none."""
    for compiler in OTHERS:
        implementation = "Open MPI" if "openmpi" in compiler else "MPICH"
        if weft.mpi and not weft.mpi.startswith(implementation) and shutil.which(compiler):
            return compiler
    return None


@unittest.skipIf(other_mpi() is None, "no second MPI")
class OtherMpi(Folder):
    """A program that is compiled for another MPI than weft gets a status, and ends as it likes."""

    def refused(self, source, status, launcher=(), settings=None):
        program = self.folder / "other"
        weft.compile([source], program, compiler=other_mpi())
        done = subprocess.run([*launcher, program], env={**weft.environment, **(settings or {})}, capture_output=True, text=True,
                              timeout=60, stdin=subprocess.DEVNULL)
        self.assertEqual(done.returncode, status, done.stdout + done.stderr)
        return done.stdout + done.stderr

    def check(self, said, function):
        self.assertIn(f"{function}: ", said)
        self.assertIn(f"weft for {weft.mpi}" if function == "weft_init_mpi" else f"weft is compiled for {weft.mpi}", said)
        self.assertIn("-Dmpi_compiler", said)

    def test_alone(self):
        self.check(self.refused(here / "balanced.c", 1), "weft_init_mpi")

    def test_under_its_launcher(self):
        launcher = [OTHERS[other_mpi()], *(["--oversubscribe"] if "openmpi" in other_mpi() else []), "-n", "2"]
        self.check(self.refused(here / "balanced.c", 1, launcher), "weft_init_mpi")

    def test_without_a_communicator(self):
        """weft_init(NULL), which would initialise MPI itself."""
        source = self.folder / "plain.c"
        source.write_text("""#include <mpi.h>
            #include <stdio.h>
            #include <weft/weft.h>
            int main(void)
            {
                int initialized = MPI_Initialized(&initialized);
                weft_status status = weft_init(NULL);
                puts(weft_last_error());
                return status == WEFT_ERR_UNSUPPORTED ? 3 : status == WEFT_OK;
            }
            """)
        self.check(self.refused(source, 3, settings={"WEFT_WORLD": "mpi"}), "weft_init")

    def test_alone_without_mpi(self):
        """In a world of one process no MPI is used."""
        self.refused(weft.source / "examples" / "minimal.c", 0)


class Copy(Folder):
    def test_names_no_package(self):
        """Nothing else has to be found: PKG_CONFIG_PATH has weft alone, and no folder of StarPU's is among the flags."""
        for static in ([], ["--static"]):
            flags = run(["pkg-config", *static, "--cflags", "weft"], weft.environment).split()
            self.assertEqual([os.path.realpath(flag.removeprefix("-I")) for flag in flags], [str(weft.prefix / "include")])
        self.assertEqual(run(["pkg-config", "--libs", "weft"], weft.environment).split()[1:], ["-lweft"])
        for option in ("--print-requires", "--print-requires-private"):
            self.assertEqual(run(["pkg-config", option, "weft"], weft.environment), "")

    def test_private_libraries_are_complete(self):
        """All that the static library leaves open is in Libs.private too, for those who link it by hand."""
        flags = run(["pkg-config", "--cflags", "--libs", "--static", "weft"], weft.environment).split()
        flags = ["-l:libweft.a" if flag == "-lweft" else flag for flag in flags]
        run([weft.build["compiler"], weft.source / "examples" / "minimal.c", "-o", self.folder / "minimal", *flags],
            weft.environment)

    def test_without_mpi(self):
        """A program without a line of MPI, from the installed examples, by the plain compiler."""
        source = weft.prefix / "share" / "doc" / "weft" / "examples" / "minimal.c"
        for static in (False, True):
            program = self.folder / f"minimal{static}"
            weft.compile([source], program, static=static)
            self.assertIn("dp", weft.run([program]))

    def test_programs_start(self):
        programs = weft.prefix / "bin"
        figures = weft.run([programs / "weft-machine"])
        self.assertIn("a product by one worker", figures)
        self.assertIn(f"MPI: {weft.mpi or 'none'}", figures)
        self.assertIn(f"built with:\nversion: {weft.build['version']}\nMPI: {weft.mpi or 'no'}\n", figures)
        self.assertIn("Usage", weft.run([programs / "weft-plan", "--help"]))
        self.assertIn("weft-predict", weft.run([programs / "weft-predict", "--help"]))
        self.assertIn("weft-profile", weft.run([programs / "weft-profile", "--help"]))
        self.assertIn("weft-run", weft.run([programs / "weft-run", "--help"]))

    def test_selftest(self):
        program = weft.prefix / "bin" / "weft-selftest"
        for processes in (0, 2, 3) if weft.mpi else (0,):
            said = weft.run([program], processes, settings={"WEFT_RANKS": "5"})
            self.assertIn(f"5 ranks in {max(processes, 1)} processes", said)
            self.assertEqual(said.count(" right\n"), 4)
        self.assertIn("usage: weft-selftest", weft.run([program, "--help"]))
        weft.run([program], settings={"WEFT_RANKS": "many"}, status=1)

    def test_profile_finds_what_it_reads(self):
        tools = weft.prefix / "libexec" / "weft" / "tools" / "profile"
        weft.run(["python3", "-B", "-c", "import traces; open(traces.TABLE).close()"], folder=tools)

    def test_licences(self):
        """docs/install.md: GLPK is linked on request, and not by a StarPU that script/bootstrap has built."""
        def needed(library):
            return re.findall(r"NEEDED.*\[(.*)\]", run(["readelf", "-d", library], weft.environment))

        shared = weft.libraries / "libweft.so"
        self.assertEqual(any(name.startswith("libglpk") for name in needed(shared)), weft.build["glpk"] == "yes")
        starpu = re.search(r"libstarpu\S* => (\S+)", run(["ldd", shared], weft.environment))[1]
        self.assertTrue(any(name.startswith("libc.so") for name in needed(starpu)))
        if not starpu.startswith(("/usr/", "/lib")):  # a package's is as its distribution has built it
            self.assertFalse([name for name in needed(starpu) if name.startswith("libglpk")])

    def test_texts_are_there(self):
        documents = weft.prefix / "share" / "doc" / "weft"
        self.assertEqual((documents / "LICENSE").read_bytes(), (weft.source / "LICENSE").read_bytes())
        pages = {page.name for page in (weft.source / "docs").iterdir() if page.suffix in (".md", ".svg")}
        self.assertLessEqual(pages, {page.name for page in (documents / "docs").iterdir()})

    def test_links_of_pages_lead_somewhere(self):
        documents, dead, count = weft.prefix / "share" / "doc" / "weft", [], 0
        for page in documents.rglob("*.md"):
            text = re.sub(r"^```.*?^```$", "", page.read_text(encoding="utf-8"), flags=re.MULTILINE | re.DOTALL)
            for target in re.findall(r"\]\(([^)\s]+)\)", text):
                name = target.partition("#")[0]
                if name and not re.match(r"[a-z]+:", name):
                    count += 1
                    dead += [] if (page.parent / name).exists() else [f"{page.name}: {target}"]
        self.assertEqual(dead, [])
        self.assertGreater(count, 200)
        # Programs that pages name are there.
        for name in ("python/dlpack_arrays.py", "heat2d_fortran.f90", "transformer_lm.c"):
            self.assertTrue((documents / "examples" / name).exists())

    def test_prefix_of_pkg_config(self):
        """--define-prefix takes the parent of lib for the prefix, also of lib/x86_64-linux-gnu: the folders do not depend on it."""
        for package in ("weft", "weft-static"):
            for option in ("--define-prefix", "--dont-define-prefix"):
                flags = run(["pkg-config", option, "--cflags", "--libs", package], weft.environment).split()
                folders = {os.path.realpath(flag[2:]) for flag in flags if flag[:2] in ("-I", "-L")}
                self.assertLessEqual({str(weft.prefix / "include"), str(weft.libraries)}, folders, (package, option))


if __name__ == "__main__":
    cases.main(Balanced, OtherMpi, Copy)
