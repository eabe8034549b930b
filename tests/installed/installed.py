"""An installed copy of a build, and programs that are built against it, as users build theirs.

    weft = Installed(sys.argv[1])       # build.json of tests/installed/meson.build
    weft.compile(["a.c"], "a")          # by pkg-config; compiler=, static=, flags=, mpi= (its wrapper compiler)
    weft.run(["./a", "1"], processes=3) # standard output; fails if the status is not the expected one

The copy lies in the build folder, in tests/installed/copy. It is installed again when a file that it is made of is newer:
some tenths of a second. Programs are compiled and run without the environment that the build needs: no StarPU in
PKG_CONFIG_PATH or LD_LIBRARY_PATH.
"""

import fcntl
import json
import os
import shutil
import subprocess
from pathlib import Path

# As the tests of this folder's parent: processes that share few cores, on any machine.
SETTINGS = {
    "STARPU_SILENT": "1",
    "STARPU_WORKERS_NOBIND": "1",
    "OPENBLAS_NUM_THREADS": "1",
    "WEFT_CALIBRATE": "off",
    "OMPI_ALLOW_RUN_AS_ROOT": "1",
    "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
}
NOT_OF_USERS = ("LD_LIBRARY_PATH", "PKG_CONFIG_PATH", "CMAKE_PREFIX_PATH", "CPATH", "LIBRARY_PATH", "DESTDIR")


class Failed(AssertionError):
    """A command did not end as expected."""


def run(command, environment, folder=None, status=0, timeout=120):
    """Standard output of a command. Fails, with all its output, if it ends with another status."""
    command = [str(word) for word in command]
    done = subprocess.run(command, env=environment, cwd=folder, capture_output=True, text=True, timeout=timeout,
                          stdin=subprocess.DEVNULL)
    if done.returncode != status:
        raise Failed(f"{' '.join(command)} ended with status {done.returncode}, expected {status}:\n"
                     f"{done.stdout}{done.stderr}")
    return done.stdout


class Installed:
    def __init__(self, description):
        with open(description, encoding="utf-8") as file:
            self.build = json.load(file)
        self.source = Path(self.build["source"])
        copy = Path(self.build["build"]) / "tests" / "installed" / "copy"
        self.install(copy)
        self.prefix = copy / self.build["prefix"].lstrip("/")
        self.libraries = self.prefix / self.build["libdir"]
        self.mpi = self.build["mpi"]
        self.environment = {**{name: value for name, value in os.environ.items() if name not in NOT_OF_USERS}, **SETTINGS}
        self.environment["PKG_CONFIG_PATH"] = str(self.libraries / "pkgconfig")
        self.environment["CMAKE_PREFIX_PATH"] = str(self.prefix)

    def install(self, copy):
        """One process at a time: several tests may begin together."""
        build = Path(self.build["build"])
        copy.parent.mkdir(parents=True, exist_ok=True)
        with open(copy.parent / "copy.lock", "w", encoding="utf-8") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            stamp = copy / "stamp"
            made_of = [build / "build.ninja", *build.glob("libweft.*"), *build.glob("tools/weft-*"), *build.glob("tools/fortran/*"),
                       *(self.source / "include" / "weft").iterdir()]
            newest = max(file.stat().st_mtime for file in made_of if file.is_file())
            if stamp.exists() and stamp.stat().st_mtime > newest:
                return
            shutil.rmtree(copy, ignore_errors=True)
            run(["meson", "install", "-C", build, "--no-rebuild", "--quiet", "--destdir", copy], os.environ)
            stamp.touch()

    def flags(self, static=False):
        """Of pkg-config, with the run path that the shared library needs where it is installed in no usual place."""
        package = "weft-static" if static else "weft"
        flags = run(["pkg-config", "--cflags", "--libs", package], self.environment).split()
        return flags if static else [*flags, f"-Wl,-rpath,{self.libraries}"]

    def compile(self, sources, program, compiler=None, static=False, flags=(), mpi=False):
        """Compiles and links; `mpi`: by the wrapper compiler of the library's MPI. All warnings are errors."""
        compiler = compiler or self.build["mpi_compiler" if mpi else "compiler"]
        run([compiler, "-Wall", "-Wextra", "-Werror", *flags, *sources, "-o", program, *self.flags(static)], self.environment)

    def launcher(self, processes):
        """mpirun's command line, up to the program; [] for no mpirun (processes 0)."""
        if processes == 0:
            return []
        return [self.build["mpi_launcher"], *filter(None, self.build["mpi_launcher_options"]), "-n", str(processes)]

    def run(self, command, processes=0, status=0, settings=None, folder=None, timeout=120):
        """Runs a program, under mpirun if `processes` > 0."""
        environment = {**self.environment, **(settings or {})}
        return run([*self.launcher(processes), *command], environment, folder, status, timeout)
