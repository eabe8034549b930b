# Spack's recipe: spack repo add packaging/spack && spack install weft
import os.path

from spack.package import *


class Weft(MesonPackage):
    """Distributed tensors on StarPU: a C11 library with layouts over meshes of ranks, as PyTorch's DTensor."""

    # From a checkout: spack develop, or `spack install weft@main` where this file lies in the repository.
    # normpath: a file has no "..".
    git = "file://{0}".format(os.path.normpath(join_path(__file__, "..", "..", "..", "..", "..")))
    license("BSD-3-Clause")

    version("main", branch="main")

    variant("mpi", default=True, description="Worlds of several processes")
    variant("hdf5", default=False, description="HDF5 files")
    variant("glpk", default=False, description="Integer programs of automatic shardings; makes binaries GPL-3.0")
    variant("cuda", default=False, description="Kernels for CUDA devices")
    variant("tools", default=True, description="Timelines of programs (weft-profile), which Python draws")

    depends_on("c", type="build")
    depends_on("meson@1.0:", type="build")
    depends_on("ninja", type="build")
    depends_on("pkgconfig", type="build")
    depends_on("python@3.9:", type="build")
    depends_on("python@3.9:", type="run", when="+tools")
    depends_on("hwloc@2:")
    depends_on("openblas")
    # weft sends its messages itself: StarPU needs no MPI.
    depends_on("starpu@1.4:~mpi")
    depends_on("starpu+cuda", when="+cuda")
    depends_on("starpu+fxt", when="+tools")
    depends_on("cuda", when="+cuda")
    depends_on("mpi@3:", when="+mpi")
    depends_on("hdf5~mpi", when="+hdf5")
    depends_on("glpk", when="+glpk")

    def meson_args(self):
        args = ["-Dtests=false", "-Dexamples=false", "-Dbench=false"]
        for option in ("mpi", "hdf5", "glpk", "cuda"):
            enabled = "enabled" if self.spec.satisfies("+" + option) else "disabled"
            args.append("-D{0}={1}".format(option, enabled))
        if self.spec.satisfies("+mpi"):
            args.append("-Dmpi_compiler={0}".format(self.spec["mpi"].mpicc))
        return args
