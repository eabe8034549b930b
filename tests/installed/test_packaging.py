"""packaging/: recipes that compile and name options that exist, a modulefile that leads to the installed copy, images that are
built as docs/install.md says, and the packages that script/bootstrap asks for on each system.

Argument: build.json of this folder's meson.build.
"""

import os
import re
import shutil
import sys
import tempfile
import unittest
from pathlib import Path

import cases
from installed import Installed, run

weft = Installed(sys.argv[1])
packaging = weft.source / "packaging"
RECIPES = [packaging / "spack" / "packages" / "weft" / "package.py", *sorted((packaging / "easybuild").glob("*.eb"))]


def read(*parts):
    return weft.source.joinpath(*parts).read_text(encoding="utf-8")


class Recipes(unittest.TestCase):
    def test_they_compile(self):
        self.assertGreaterEqual(len(RECIPES), 3)
        for recipe in RECIPES:
            compile(recipe.read_text(encoding="utf-8"), recipe, "exec")

    def test_options_exist(self):
        options = set(re.findall(r"^option\('(\w+)'", read("meson_options.txt"), re.MULTILINE))
        recipes = "\n".join(recipe.read_text(encoding="utf-8") for recipe in RECIPES)
        named = set(re.findall(r"-D(\w+)=", recipes)) | {"mpi", "hdf5", "glpk", "cuda"}
        self.assertGreaterEqual(len(named), 8)
        self.assertLessEqual(named, options)
        listed = re.search(r"for option in \((.*)\)", RECIPES[0].read_text(encoding="utf-8"))[1]
        self.assertLessEqual(set(re.findall(r'"(\w+)"', listed)), options)

    def test_spack_evaluates(self):
        """Spack's recipe with stand-ins for Spack: what it depends on, and the options that it gives meson. Spack itself does not run."""
        said = []

        def note(kind):
            return lambda *words, **more: said.append((kind, *words, more))

        class Spec:
            def __init__(self, *variants):
                self.variants = variants

            def satisfies(self, variant):
                return variant in self.variants

            def __getitem__(self, name):
                return type("Dependency", (), {"mpicc": f"/{name}/bin/mpicc"})

        package = type(sys)("spack.package")
        vars(package).update(MesonPackage=object, join_path=os.path.join,
                             **{kind: note(kind) for kind in ("license", "version", "variant", "depends_on")})
        known = {"spack": type(sys)("spack"), "spack.package": package}
        sys.modules.update(known)
        names = {"__file__": str(RECIPES[0])}
        try:
            exec(compile(RECIPES[0].read_text(encoding="utf-8"), RECIPES[0], "exec"), names)
        finally:
            for name in known:
                del sys.modules[name]
        self.assertIn(("license", "BSD-3-Clause", {}), said)
        variants = {name for kind, name, *_ in said if kind == "variant"}
        self.assertEqual(variants, {"mpi", "hdf5", "glpk", "cuda", "tools"})
        needed = {re.match(r"\w+", name)[0] for kind, name, *_ in said if kind == "depends_on"}
        self.assertLessEqual({"meson", "ninja", "pkgconfig", "hwloc", "openblas", "starpu", "mpi"}, needed)
        for *_, more in (entry for entry in said if entry[0] == "depends_on"):
            self.assertTrue(more.get("when", "+mpi").lstrip("+~") in variants, more)
        recipe = names["Weft"]()
        self.assertTrue(Path(recipe.git.removeprefix("file://"), "meson.build").exists())
        recipe.spec = Spec("+mpi", "+hdf5")
        self.assertEqual(recipe.meson_args()[3:], ["-Dmpi=enabled", "-Dhdf5=enabled", "-Dglpk=disabled", "-Dcuda=disabled",
                                                   "-Dmpi_compiler=/mpi/bin/mpicc"])
        recipe.spec = Spec()
        self.assertEqual([option for option in recipe.meson_args() if "enabled" in option], [])

    def test_conda_evaluates(self):
        """conda-build's recipe with a stand-in for its templates: packages, options, programs and files that exist. conda does not run."""
        text = (packaging / "conda" / "meta.yaml").read_text(encoding="utf-8")
        values = dict(re.findall(r'{% set (\w+) = "(.*?)" %}', text))
        self.assertEqual(values, {"version": weft.build["version"]})
        text = re.sub(r"{%.*?%}", "", text)
        text = re.sub(r"{{ (\w+) }}", lambda found: values[found[1]], text)
        text = re.sub(r'{{ compiler\("(\w+)"\) }}', r"\1-compiler", text)
        self.assertNotIn("{{", text)
        sections = re.split(r"^(\w+):$", text, flags=re.MULTILINE)
        told = dict(zip(sections[1::2], sections[2::2]))
        self.assertLessEqual({"package", "source", "build", "requirements", "test", "about"}, set(told))
        needed = set(re.findall(r"^    - ([\w-]+)", told["requirements"], re.MULTILINE))
        self.assertLessEqual({"c-compiler", "meson", "ninja", "pkg-config", "starpu", "libhwloc", "openblas", "openmpi", "hdf5", "zlib", "zstd"},
                             needed)
        options = dict(re.findall(r"-D(\w+)=(\w+)", told["build"]))
        self.assertLessEqual(set(options), set(re.findall(r"^option\('(\w+)'", read("meson_options.txt"), re.MULTILINE)))
        self.assertEqual({name for name, value in options.items() if value == "enabled"}, {"mpi", "hdf5", "zlib", "zstd"})
        programs = set(re.findall(r"\b(weft-\w+)", told["test"]))
        self.assertEqual(programs, {"weft-selftest", "weft-plan"})
        self.assertTrue(all((weft.prefix / "bin" / name).exists() for name in programs))
        self.assertTrue((packaging / "conda" / re.search(r"path: (\S+)", told["source"])[1] / "meson.build").exists())
        self.assertIn("license: BSD-3-Clause", told["about"])

    def test_debian_lists_what_is_installed(self):
        """Each pattern of the packages' lists finds something, and nothing that is installed is forgotten. script/bare_root --packages
        builds them."""
        debian = packaging / "debian"
        self.assertIn(f"weft ({weft.build['version']})", (debian / "changelog").read_text(encoding="utf-8"))
        self.assertIn(f"Package: libweft{weft.build['soversion']}\n", (debian / "control").read_text(encoding="utf-8"))
        rules = (debian / "rules").read_text(encoding="utf-8")
        self.assertLessEqual(set(re.findall(r"-D(\w+)=", rules)), set(re.findall(r"^option\('(\w+)'", read("meson_options.txt"), re.MULTILINE)))
        listed = set()
        for file in [*debian.glob("*.install"), debian / "not-installed"]:
            for line in file.read_text(encoding="utf-8").splitlines():
                if not line.startswith("#"):
                    # Here there is no folder of an architecture.
                    found = list(weft.prefix.glob(line.removeprefix("usr/").replace("lib/*/", weft.build["libdir"] + "/")))
                    self.assertTrue(found, (file.name, line))
                    listed.update(found)
        installed = {path for path in weft.prefix.rglob("*") if not path.is_dir()}
        forgotten = [path for path in installed if not listed & {path, *path.parents}]
        self.assertEqual(forgotten, [])

    def test_versions(self):
        easybuild = [recipe for recipe in RECIPES if recipe.name.startswith(f"weft-{weft.build['version']}-")]
        self.assertEqual(len(easybuild), 1)
        self.assertIn(f"version = '{weft.build['version']}'", easybuild[0].read_text(encoding="utf-8"))

    def test_images_are_built_as_the_page_says(self):
        page = read("docs", "install.md")
        shown = page[page.index("The two images are built by these commands:"):].split("\n\n")[1]
        commands = [line.strip() for line in shown.splitlines()]
        self.assertEqual(len(commands), 3)
        docker = re.findall(r"^RUN (.*)$", read("packaging", "Dockerfile"), re.MULTILINE)
        self.assertEqual(docker, commands)
        post = re.search(r"%post\n(.*?)\n\n", read("packaging", "weft.def"), re.DOTALL)[1]
        self.assertEqual([line.strip() for line in post.splitlines()][1:], commands)


# Instead of the commands of a module system.
STUBS = """
proc module-whatis {text} { puts "whatis $text" }
proc conflict {name} { puts "conflict $name" }
proc prepend-path {variable folder} { puts "$variable $folder" }
"""


@unittest.skipIf(shutil.which("tclsh") is None, "needs tclsh")
class Modulefile(unittest.TestCase):
    def test_it_leads_to_the_copy(self):
        modulefile = weft.prefix / "share" / "modulefiles" / "weft" / weft.build["version"]
        self.assertTrue(modulefile.read_text(encoding="utf-8").startswith("#%Module1.0\n"))
        with tempfile.TemporaryDirectory() as folder:
            script = Path(folder) / "module.tcl"
            script.write_text(f"{STUBS}\nsource {{{modulefile}}}\nModulesHelp\n", encoding="utf-8")
            said = run(["tclsh", script], weft.environment)
        paths = dict(line.split(" ", 1) for line in said.splitlines() if line[0].isupper())
        self.assertEqual(set(paths), {"PATH", "LD_LIBRARY_PATH", "PKG_CONFIG_PATH", "CMAKE_PREFIX_PATH"})
        copy = str(weft.prefix).removesuffix(weft.build["prefix"])
        for variable, needed in {"PATH": "weft-machine", "LD_LIBRARY_PATH": "libweft.so", "PKG_CONFIG_PATH": "weft.pc"}.items():
            self.assertTrue((Path(copy + paths[variable]) / needed).exists(), (variable, paths[variable]))
        self.assertEqual(copy + paths["CMAKE_PREFIX_PATH"], str(weft.prefix))


class Bootstrap(unittest.TestCase):
    """On systems of which PATH has nothing but their package manager."""

    TOOLS = ("bash", "env", "awk", "cat", "dirname", "id", "mkdir", "realpath", "sed", "tr")

    def asks(self, manager, *arguments):
        with tempfile.TemporaryDirectory() as folder:
            for tool in self.TOOLS:
                os.symlink(shutil.which(tool), Path(folder) / tool)
            fake = Path(folder) / manager
            fake.write_text("#!/bin/sh\nexit 1\n", encoding="utf-8")
            fake.chmod(0o755)
            status = 0 if arguments == ("--packages",) else 1
            arguments = [argument.replace("DIR", f"{folder}/into") for argument in arguments]
            environment = {"PATH": folder, "HOME": folder}
            script = weft.source / "script" / "bootstrap"
            said = run(["bash", "-c", '"$0" "$@" 2>&1', script, *arguments], environment, status=status)
            self.assertFalse((Path(folder) / "into" / "lib").exists())
            return said

    def test_names_of_packages(self):
        first = {"apt-get": "build-essential meson ninja-build", "dnf": "gcc gcc-c++ make meson ninja-build",
                 "zypper": "gcc gcc-c++ make meson ninja", "pacman": "base-devel meson ninja",
                 "apk": "build-base meson samurai", "brew": "gcc make meson ninja"}
        for manager, begin in first.items():
            said = self.asks(manager, "--packages")
            # /usr/include may be there, and the compilers are not.
            self.assertTrue(said.startswith(begin), said)
            self.assertEqual(said.count("\n"), 1)
            self.assertIn("cmocka", said)

    def test_prefix_installs_no_packages(self):
        for manager, how in {"dnf": "dnf install gcc", "apt-get": "apt-get install --no-install-recommends build-essential"}.items():
            said = self.asks(manager, "--prefix", "DIR")
            self.assertIn(f"packages are missing: {how}", said)
            self.assertNotIn("cmocka", said)  # for the tests alone


if __name__ == "__main__":
    cases.main(Recipes, Modulefile, Bootstrap)
