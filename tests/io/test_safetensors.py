#!/usr/bin/env python3
"""A checkpoint as another program reads it: by the format's specification, with the standard library alone, and with
safetensors where it is installed.

Usage: test_safetensors.py PROGRAM, which writes a file of known values to the path that it is given.
"""

import json
import os
import struct
import subprocess
import sys
import tempfile
import unittest

import cases

try:
    import numpy
    import safetensors
    import safetensors.numpy
except ImportError:
    safetensors = None
WITHOUT = "Python's safetensors and NumPy are not installed: weft's files and theirs were not compared"

PROGRAM = []
# {name: (dtype in the file, shape, format of struct)}: what checkpoint_writer.c writes. Element i has the value i % 100.
EXPECTED = {
    "f64": ("F64", [5, 3], "d"),
    "f32": ("F32", [4, 3, 2], "f"),
    "f16": ("F16", [9], "e"),
    "bf16": ("BF16", [7], "H"),
    "i64": ("I64", [11], "q"),
    "i32": ("I32", [2, 6], "i"),
    "u8": ("U8", [13], "B"),
    "bool": ("BOOL", [6], "?"),
    "scalar": ("F32", [], "f"),
    "empty": ("F32", [0, 4], "f"),
    "\u00fc \"quoted\"\\\n": ("F32", [3], "f"),
}
METADATA = {"step": "1200", "\u20ac": "a \"text\"\\ with\ttabs"}


def count_of(shape):
    count = 1
    for size in shape:
        count *= size
    return count


def value_of(dtype, i):
    if dtype == "BF16":
        return struct.unpack("<I", struct.pack("<f", float(i % 100)))[0] >> 16
    return bool(i % 100) if dtype == "BOOL" else i % 100


class Safetensors(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        cls.path = os.path.join(cls.folder.name, "written.safetensors")
        subprocess.run([*PROGRAM, cls.path], check=True)
        with open(cls.path, "rb") as file:
            cls.bytes = file.read()

    @classmethod
    def tearDownClass(cls):
        cls.folder.cleanup()

    def test_by_the_specification(self):
        (length,) = struct.unpack_from("<Q", self.bytes, 0)
        self.assertEqual((8 + length) % 8, 0)
        self.assertEqual(self.bytes[8:9], b"{")
        header = json.loads(self.bytes[8:8 + length].decode("utf-8"))
        metadata = header.pop("__metadata__")
        self.assertEqual({key: value for key, value in metadata.items() if not key.startswith("weft.")}, METADATA)
        self.assertEqual(set(header), set(EXPECTED))
        data, place = self.bytes[8 + length:], 0
        for name, entry in sorted(header.items(), key=lambda item: item[1]["data_offsets"]):
            dtype, shape, code = EXPECTED[name]
            begin, end = entry["data_offsets"]
            self.assertEqual((entry["dtype"], entry["shape"], begin), (dtype, shape, place))
            place = end
            count = count_of(shape)
            self.assertEqual(end - begin, count * struct.calcsize("<" + code))
            self.assertEqual((8 + length + begin) % struct.calcsize("<" + code), 0)
            values = struct.unpack_from(f"<{count}{code}", data, begin)
            self.assertEqual(list(values), [value_of(dtype, i) for i in range(count)], name)
        self.assertEqual(place, len(data))

    @unittest.skipIf(safetensors is None, WITHOUT)
    def test_by_safetensors(self):
        with safetensors.safe_open(self.path, framework="np") as file:
            self.assertEqual({k: v for k, v in file.metadata().items() if not k.startswith("weft.")}, METADATA)
            self.assertEqual(set(file.keys()), set(EXPECTED))
            for name, (dtype, shape, _) in EXPECTED.items():
                if dtype != "BF16":  # NumPy has none
                    tensor = file.get_tensor(name)
                    self.assertEqual(list(tensor.shape), shape)
                    self.assertEqual(tensor.ravel().tolist(), [value_of(dtype, i) for i in range(count_of(shape))])


class Index(unittest.TestCase):
    """Several files with an index, as Hugging Face's libraries have them."""

    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)
        self.path = os.path.join(self.folder.name, "model.safetensors.index.json")

    def index(self, folder=None):
        with open(os.path.join(folder or self.folder.name, "model.safetensors.index.json"), encoding="utf-8") as file:
            return json.load(file)

    def test_by_the_specification(self):
        subprocess.run([*PROGRAM, self.path, "100"], check=True)
        index = self.index()
        self.assertEqual(set(index), {"metadata", "weight_map"})
        self.assertEqual(set(index["weight_map"]), set(EXPECTED))
        files = sorted(set(index["weight_map"].values()))
        self.assertEqual(sorted(os.listdir(self.folder.name)), files + ["model.safetensors.index.json"])
        self.assertEqual(files, [f"model-{k + 1:05}-of-{len(files):05}.safetensors" for k in range(len(files))])
        total = sum(struct.calcsize(f"<{count_of(shape)}{code}") for _, shape, code in EXPECTED.values())
        self.assertEqual(index["metadata"], {"total_size": total})
        for name in files:
            with open(os.path.join(self.folder.name, name), "rb") as file:
                data = file.read()
            (length,) = struct.unpack_from("<Q", data, 0)
            header = json.loads(data[8:8 + length].decode("utf-8"))
            header.pop("__metadata__")
            self.assertEqual(set(header), {tensor for tensor, where in index["weight_map"].items() if where == name})
            self.assertTrue(len(data) - 8 - length <= 100 or len(header) == 1)

    @unittest.skipIf(safetensors is None, WITHOUT)
    def test_by_safetensors(self):
        subprocess.run([*PROGRAM, self.path, "100"], check=True)
        for name, where in self.index()["weight_map"].items():
            dtype, shape, _ = EXPECTED[name]
            if dtype != "BF16":  # NumPy has none
                with safetensors.safe_open(os.path.join(self.folder.name, where), framework="np") as file:
                    tensor = file.get_tensor(name)
                self.assertEqual(list(tensor.shape), shape)
                self.assertEqual(tensor.ravel().tolist(), [value_of(dtype, i) for i in range(count_of(shape))])

    @unittest.skipIf(safetensors is None, WITHOUT)
    def test_files_of_safetensors(self):
        """What safetensors has written and indexed, read and written again by weft."""
        random = numpy.random.default_rng(42)
        tensors = {f"layers.{i}.w": random.standard_normal((i + 1, 7)).astype(["f4", "f8", "f2"][i % 3]) for i in range(6)}
        tensors["tokens"] = random.integers(0, 1000, 33)
        names, where = list(tensors), {}
        for k in range(3):
            file = f"model-{k + 1:05}-of-00003.safetensors"
            part = {name: tensors[name] for name in names[k::3]}
            safetensors.numpy.save_file(part, os.path.join(self.folder.name, file), metadata={"format": "pt"})
            where.update(dict.fromkeys(part, file))
        size = sum(tensor.nbytes for tensor in tensors.values())
        with open(self.path, "w", encoding="utf-8") as file:
            json.dump({"metadata": {"total_size": size, "total_parameters": 1.5}, "weight_map": where}, file, indent=2)
        for most in ("0", "200"):
            with tempfile.TemporaryDirectory() as other:
                subprocess.run([*PROGRAM, os.path.join(other, "model.safetensors.index.json"), most, self.path], check=True)
                index = self.index(other)
                self.assertEqual(index["metadata"]["total_size"], size)
                self.assertEqual(set(index["weight_map"]), set(tensors))
                for name, file in index["weight_map"].items():
                    read = safetensors.numpy.load_file(os.path.join(other, file))[name]
                    self.assertEqual(read.dtype, tensors[name].dtype)
                    numpy.testing.assert_array_equal(read, tensors[name])


if __name__ == "__main__":
    PROGRAM = sys.argv[1:]
    cases.main(Safetensors, Index)
