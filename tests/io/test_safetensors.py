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
    import safetensors
    import safetensors.numpy
except ImportError:
    safetensors = None

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

    @unittest.skipIf(safetensors is None, "Python's safetensors is not installed")
    def test_by_safetensors(self):
        with safetensors.safe_open(self.path, framework="np") as file:
            self.assertEqual({k: v for k, v in file.metadata().items() if not k.startswith("weft.")}, METADATA)
            self.assertEqual(set(file.keys()), set(EXPECTED))
            for name, (dtype, shape, _) in EXPECTED.items():
                if dtype != "BF16":  # NumPy has none
                    tensor = file.get_tensor(name)
                    self.assertEqual(list(tensor.shape), shape)
                    self.assertEqual(tensor.ravel().tolist(), [value_of(dtype, i) for i in range(count_of(shape))])


if __name__ == "__main__":
    PROGRAM = sys.argv[1:]
    cases.main(Safetensors)
