#!/usr/bin/env python3
"""HDF5 files as h5py and netCDF4 read them, and files of h5py's as weft reads them.

Usage: test_hdf5.py PROGRAM, which writes a file of known values to the path that it is given, with gzip's level, or
with a third argument the values of that file.
"""

import os
import subprocess
import sys
import tempfile
import unittest

import cases

try:
    import h5py
    import numpy
except ImportError:
    h5py = None
try:
    import netCDF4
except ImportError:
    netCDF4 = None

PROGRAM = []
# {name: (type of NumPy, shape)}: what checkpoint_writer.c writes, but bf16. Element i has the value i % 100.
EXPECTED = {
    "f64": ("f8", (5, 3)), "f32": ("f4", (4, 3, 2)), "f16": ("f2", (9,)), "i64": ("i8", (11,)), "i32": ("i4", (2, 6)),
    "u8": ("u1", (13,)), "bool": ("?", (6,)), "scalar": ("f4", ()), "empty": ("f4", (0, 4)), "\u00fc \"quoted\"\\\n": ("f4", (3,)),
}


def values_of(name, factor=1):
    dtype, shape = EXPECTED[name]
    return (factor * numpy.arange(numpy.prod(shape, dtype=int)) % 100).astype(dtype).reshape(shape)


@unittest.skipIf(h5py is None, "Python's h5py and NumPy are not installed: weft's HDF5 files and theirs were not compared")
class Hdf5(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)

    def path(self, name):
        return os.path.join(self.folder.name, name)

    def check(self, path, factor=1):
        with h5py.File(path) as file:
            for name in EXPECTED:
                self.assertEqual(file[name].attrs["name"].decode(), name)
                numpy.testing.assert_array_equal(file[name][()], values_of(name, factor), name)
                self.assertEqual(file[name].dtype, values_of(name).dtype)

    def test_whole_and_compressed(self):
        for level in (0, 1, 9):
            path = self.path(f"{level}.h5")
            subprocess.run([*PROGRAM, path, str(level)], check=True)
            self.check(path)
            with h5py.File(path) as file:
                self.assertEqual(file["f64"].compression, "gzip" if level else None)
                self.assertEqual(file["f64"].fletcher32, level > 0)
                self.assertIsNone(file["empty"].chunks)

    def test_files_of_h5py(self):
        """Orders of bytes, narrower types, chunks with other borders than shards, gzip, checksums, no values at all."""
        stored = {"f64": {"compression": "gzip", "chunks": (2, 2)}, "f32": {"shuffle": True, "chunks": (3, 1, 2)},
                  "i64": {"chunks": (3,), "compression": "gzip", "shuffle": True}, "i32": {"fletcher32": True, "chunks": (2, 5)}}
        narrower = {"f64": ">f4", "i64": ">i2", "i32": "i1", "f32": ">f4"}
        with h5py.File(self.path("theirs.h5"), "w", libver=("earliest", "v108")) as file:
            for name in EXPECTED:
                values = values_of(name, 7)
                file.create_dataset(name, data=values.astype(narrower.get(name, values.dtype)), **stored.get(name, {}))
            file.create_dataset("bf16", shape=(7,), dtype="u1")
        subprocess.run([*PROGRAM, self.path("ours.h5"), "6", self.path("theirs.h5")], check=True)
        self.check(self.path("ours.h5"), 7)

    def test_damage_is_noticed(self):
        subprocess.run([*PROGRAM, self.path("whole.h5"), "5"], check=True)
        with h5py.File(self.path("whole.h5")) as file:
            chunk = file["f64"].id.get_chunk_info(0)
        with open(self.path("whole.h5"), "rb") as file:
            data = bytearray(file.read())
        data[chunk.byte_offset + chunk.size // 2] ^= 0x10
        with open(self.path("damaged.h5"), "wb") as file:
            file.write(data)
        done = subprocess.run([*PROGRAM, self.path("again.h5"), "0", self.path("damaged.h5")], capture_output=True, text=True)
        self.assertEqual(done.returncode, 1)
        self.assertIn("weft_hdf5_load: process 0", done.stderr)
        self.assertIn("damaged.h5: read f64", done.stderr)
        self.assertFalse(os.path.exists(self.path("again.h5")))

    @unittest.skipIf(netCDF4 is None, "Python's netCDF4 is not installed: weft's HDF5 files were not read by it")
    def test_by_netcdf(self):
        """NetCDF-4 gives the dimensions names of its own."""
        subprocess.run([*PROGRAM, self.path("weft.h5"), "4"], check=True)
        with netCDF4.Dataset(self.path("weft.h5")) as file:
            for name in ("f64", "f32", "i64", "i32", "u8"):
                numpy.testing.assert_array_equal(file[name][...], values_of(name))


if __name__ == "__main__":
    PROGRAM = sys.argv[1:]
    cases.main(Hdf5)
