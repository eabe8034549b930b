#!/usr/bin/env python3
"""Zarr stores as zarr-python and xarray read them, stores of theirs as weft reads them, and bytes of chunks without a library.

Usage: test_zarr.py PROGRAM, which writes a store of known values to the path that it is given, by gzip of a level or zstd of its negative,
or with a third argument the values of that store.
"""

import gzip
import json
import os
import shutil
import struct
import subprocess
import sys
import tempfile
import time
import unittest

import cases

try:
    import numpy
    import zarr
except ImportError:
    zarr = None
try:
    import xarray
except ImportError:
    xarray = None

PROGRAM = []
# {name: (type of NumPy, shape)}: what checkpoint_writer.c writes, but bf16. Element i has the value i % 100.
EXPECTED = {
    "f64": ("f8", (5, 3)), "f32": ("f4", (4, 3, 2)), "f16": ("f2", (9,)), "i64": ("i8", (11,)), "i32": ("i4", (2, 6)),
    "u8": ("u1", (13,)), "bool": ("?", (6,)), "scalar": ("f4", ()), "empty": ("f4", (0, 4)), "\u00fc \"quoted\"": ("f4", (3,)),
    "more/i8": ("i1", (5, 5)), "more/i16": ("i2", (17,)), "more/u16": ("u2", (7, 3)), "more/u32": ("u4", (9,)),
    "more/u64": ("u8", (3, 4, 5)), "more/c/c64": ("c8", (3, 5)), "more/c/c128": ("c16", (11,)),
}


def values_of(name, factor=1):
    dtype, shape = EXPECTED[name]
    return (factor * numpy.arange(numpy.prod(shape, dtype=int)) % 100).astype(dtype).reshape(shape)


class Stores(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)

    def path(self, *names):
        return os.path.join(self.folder.name, *names)

    def write(self, name, level=0, source=None, status=0):
        """Standard error."""
        done = subprocess.run([*PROGRAM, self.path(name), str(level), *([self.path(source)] if source else [])], capture_output=True,
                              text=True)
        self.assertEqual(done.returncode, status, done.stderr)
        return done.stderr


class Bytes(Stores):
    """Without zarr-python."""

    def test_metadata_and_bytes(self):
        self.write("a.zarr")
        with open(self.path("a.zarr", "f64", "zarr.json"), encoding="utf-8") as file:
            told = json.load(file)
        self.assertEqual((told["zarr_format"], told["node_type"], told["shape"], told["data_type"], told["fill_value"]),
                         (3, "array", [5, 3], "float64", 0.0))
        self.assertEqual([codec["name"] for codec in told["codecs"]], ["bytes", "crc32c"])
        chunk = told["chunk_grid"]["configuration"]["chunk_shape"]
        self.assertEqual(chunk, [3, 2])  # a shard on 2 x 2: 48 bytes
        found = {}
        for row in range(2):
            for column in range(2):
                with open(self.path("a.zarr", "f64", "c", str(row), str(column)), "rb") as file:
                    data = file.read()
                self.assertEqual(len(data), 6 * 8 + 4)
                for i, value in enumerate(struct.unpack("<6d", data[:-4])):
                    found[3 * row + i // 2, 2 * column + i % 2] = value
        for (i, j), value in found.items():
            self.assertEqual(value, 3 * i + j if i < 5 and j < 3 else 0)
        with open(self.path("a.zarr", "zarr.json"), encoding="utf-8") as file:
            self.assertEqual(json.load(file)["node_type"], "group")
        self.assertFalse(os.path.exists(self.path("a.zarr.tmp")))

    def test_a_store_is_replaced(self):
        """By what two codecs have kept of it."""
        self.write("c.zarr")
        plain = self.files("c.zarr")
        self.write("a.zarr", 6)
        self.write("b.zarr", -3, "a.zarr")
        self.write("c.zarr", 0, "b.zarr")
        self.assertEqual(self.files("c.zarr"), plain)

    def files(self, name):
        """All but the number of the save."""
        found = {}
        for folder, _, names in os.walk(self.path(name)):
            for each in names:
                with open(os.path.join(folder, each), "rb") as file:
                    found[os.path.relpath(os.path.join(folder, each), self.path(name))] = file.read()
        del found["zarr.json"]
        return found

    def test_nothing_else_is_replaced(self):
        os.mkdir(self.path("a.zarr"))
        with open(self.path("a.zarr", "mine"), "w", encoding="utf-8"):
            pass
        self.assertIn("is no Zarr store that weft has written", self.write("a.zarr", status=1))
        self.assertEqual(os.listdir(self.path("a.zarr")), ["mine"])
        os.mkdir(self.path("b.zarr.tmp"))
        self.write("b.zarr")  # that of a save which was killed at once
        group = '{"zarr_format": 3, "node_type": "group", "attributes": {'
        for text, status in (("", 0), (group, 0), (group + "}}", 1)):  # a file that was begun; another program's group
            os.makedirs(self.path("b.zarr.tmp"), exist_ok=True)
            with open(self.path("b.zarr.tmp", "zarr.json"), "w", encoding="utf-8") as file:
                file.write(text)
            self.write("b.zarr", status=status)
        shutil.rmtree(self.path("b.zarr.tmp"))
        os.makedirs(self.path("b.zarr.tmp", "mine"))
        self.assertIn("is no Zarr store that weft has written", self.write("b.zarr", status=1))

    def test_killed_saves(self):
        """Whenever it is killed, the path has a whole store, and the next save succeeds and leaves nothing beside it."""
        self.write("a.zarr", 3)
        for delay in (0.1, 0.15, 0.25):
            saving = subprocess.Popen([*PROGRAM, self.path("a.zarr"), "3"], stderr=subprocess.DEVNULL)
            time.sleep(delay)
            saving.kill()
            saving.wait()
        self.write("b.zarr", 0, "a.zarr")
        self.write("a.zarr", 3)
        self.assertEqual(sorted(os.listdir(self.folder.name)), ["a.zarr", "b.zarr"])

    def test_missing_chunks_and_gzip(self):
        """A store written by hand: gzip, keys of version 2, fill values, an order of bytes."""
        self.write("a.zarr")
        with open(self.path("a.zarr", "f64", "zarr.json"), encoding="utf-8") as file:
            told = json.load(file)
        told["fill_value"] = "Infinity"
        told["chunk_key_encoding"] = {"name": "v2"}
        told["codecs"] = [{"name": "bytes", "configuration": {"endian": "big"}}, {"name": "gzip", "configuration": {"level": 5}}]
        with open(self.path("a.zarr", "f64", "zarr.json"), "w", encoding="utf-8") as file:
            json.dump(told, file)
        shutil.rmtree(self.path("a.zarr", "f64", "c"))
        with open(self.path("a.zarr", "f64", "0.1"), "wb") as file:
            file.write(gzip.compress(struct.pack(">6d", *range(6))))
        self.write("b.zarr", 0, "a.zarr")
        with open(self.path("b.zarr", "f64", "c", "0", "1"), "rb") as file:
            self.assertEqual(struct.unpack("<6d", file.read()[:-4]), (0, 0, 2, 0, 4, 0))  # the last column is beyond the array
        with open(self.path("b.zarr", "f64", "c", "0", "0"), "rb") as file:
            self.assertEqual(struct.unpack("<6d", file.read()[:-4]), (float("inf"),) * 6)


@unittest.skipIf(zarr is None, "Python's zarr and NumPy are not installed: weft's Zarr stores and theirs were not compared")
class Zarr(Stores):
    def check(self, path, factor=1):
        store = zarr.open_group(self.path(path), mode="r")
        for name in EXPECTED:
            self.assertEqual(store[name].attrs["name"], name)
            numpy.testing.assert_array_equal(store[name][...], values_of(name, factor), name)
            self.assertEqual(store[name].dtype, values_of(name).dtype)

    def test_theirs_reads_ours(self):
        for level in (0, 1, 9, -1, -19):
            self.write("a.zarr", level)
            self.check("a.zarr")

    def write_theirs(self, path, stored, factor=7):
        store = zarr.create_group(self.path(path))
        for name in EXPECTED:
            values = values_of(name, factor)
            given = {"chunks": tuple(max(1, size // 2) for size in values.shape), **stored}
            if "shards" in given:
                given["shards"] = tuple(2 * size for size in given["chunks"]) if values.ndim else None
            array = store.create_array(name, shape=values.shape, dtype=values.dtype, fill_value=stored.get("fill_value", 0), **
                                       {key: value for key, value in given.items() if key != "fill_value"})
            array[...] = values
        array = store.create_array("bf16", shape=(7,), dtype="u2", chunks=(3,), fill_value=0)
        with open(self.path(path, "bf16", "zarr.json"), encoding="utf-8") as file:
            told = json.load(file)
        told["data_type"] = "bfloat16"  # which zarr-python does not have
        with open(self.path(path, "bf16", "zarr.json"), "w", encoding="utf-8") as file:
            json.dump(told, file)

    def test_ours_reads_theirs(self):
        codecs = zarr.codecs
        kinds = [{}, {"compressors": None}, {"compressors": codecs.GzipCodec(level=9)},
                 {"compressors": [codecs.ZstdCodec(level=5, checksum=True), codecs.Crc32cCodec()]}, {"compressors": [codecs.Crc32cCodec()]},
                 {"serializer": codecs.BytesCodec(endian="big")}, {"shards": True}, {"shards": True, "compressors": None},
                 {"chunk_key_encoding": {"name": "v2", "separator": "."}}, {"chunk_key_encoding": {"name": "default", "separator": "."}}]
        for number, stored in enumerate(kinds):
            with self.subTest(stored=stored):
                self.write_theirs(f"theirs{number}.zarr", stored)
                self.write("ours.zarr", -3, f"theirs{number}.zarr")
                self.check("ours.zarr", 7)

    def test_transposed(self):
        for name in ("f64", "f32", "more/u64"):
            order = tuple(reversed(range(len(EXPECTED[name][1]))))
            self.write_theirs(f"a{len(name)}{name[-1]}.zarr", {})
            path = f"a{len(name)}{name[-1]}.zarr"
            store = zarr.open_group(self.path(path))
            del store[name]
            store.create_array(name, shape=EXPECTED[name][1], dtype=EXPECTED[name][0], chunks=(2,) * len(order),
                               filters=[zarr.codecs.TransposeCodec(order=order)])[...] = values_of(name, 7)
            self.write("ours.zarr", 0, path)
            self.check("ours.zarr", 7)

    def test_fill_values(self):
        """Arrays that have no chunk at all."""
        self.write_theirs("theirs.zarr", {})
        store = zarr.open_group(self.path("theirs.zarr"))
        fills = {"f64": -0.1, "f32": numpy.nan, "f16": -numpy.inf, "i64": -2 ** 63, "u8": 255, "bool": True, "more/u64": 2 ** 64 - 1,
                 "more/c/c64": 1.5 - 2j, "more/c/c128": complex(numpy.nan, numpy.inf), "scalar": 3.25}
        for name, fill in fills.items():
            del store[name]
            store.create_array(name, shape=EXPECTED[name][1], dtype=EXPECTED[name][0], fill_value=fill)
        self.write("ours.zarr", 0, "theirs.zarr")
        ours = zarr.open_group(self.path("ours.zarr"), mode="r")
        for name, fill in fills.items():
            numpy.testing.assert_array_equal(ours[name][...], numpy.full(EXPECTED[name][1], fill, EXPECTED[name][0]), name)

    def test_what_weft_does_not_read(self):
        for stored, words in (({"compressors": zarr.codecs.BloscCodec()}, 'the codec "blosc", which weft does not have'),
                              ({"compressors": [zarr.codecs.GzipCodec(), zarr.codecs.ZstdCodec()]}, "two codecs that compress")):
            self.write_theirs(f"{len(words)}.zarr", stored)
            self.assertIn(words, self.write("ours.zarr", 0, f"{len(words)}.zarr", status=1))
            self.assertFalse(os.path.exists(self.path("ours.zarr")))

    @unittest.skipIf(xarray is None, "Python's xarray is not installed: weft's Zarr stores were not read by it")
    def test_by_xarray(self):
        self.write("a.zarr", -3)
        shutil.rmtree(self.path("a.zarr", "bf16"))  # both libraries refuse groups with such an array
        read = xarray.open_zarr(self.path("a.zarr"), consolidated=False, mask_and_scale=False)
        for name in ("f64", "f32", "i64", "u8", "scalar", "bool"):
            numpy.testing.assert_array_equal(read[name].values, values_of(name))
        self.assertEqual(read["f64"].dims, ("f64.dim0", "f64.dim1"))
        # And back: arrays of xarray's.
        self.write_theirs("theirs.zarr", {})
        data = xarray.Dataset({name: (("x" + name, "y" + name), values_of(name, 7)) for name in ("f64", "i32")})
        data.to_zarr(self.path("other.zarr"), zarr_format=3, consolidated=False)
        for name in data:
            shutil.rmtree(self.path("theirs.zarr", name))
            shutil.move(self.path("other.zarr", name), self.path("theirs.zarr", name))
        self.write("ours.zarr", 0, "theirs.zarr")
        self.check("ours.zarr", 7)


if __name__ == "__main__":
    PROGRAM = sys.argv[1:]
    cases.main(Bytes, Zarr)
