"""Shards of the Python package on stand-in devices: out to another library and in again, without a copy. Ranks: WEFT_RANKS."""

import ctypes
import unittest
import unittest.mock

import cases
import numpy as np

import weft_tensors as wt
from weft_tensors import arrays

ctypes.pythonapi.PyCapsule_GetPointer.restype = ctypes.c_void_p

CPU, CUDA, ROCM = 1, 2, 10
SHAPE = (6, 5)


class Producer:
    """Another library's array: passes a capsule on, and notes how it was asked for it."""

    def __init__(self, shard, **arguments):
        self.shard, self.arguments = shard, arguments

    def __dlpack_device__(self):
        return self.shard.__dlpack_device__()

    def __dlpack__(self, **asked):
        return self.shard.__dlpack__(**{**asked, **self.arguments})


class Asking(Producer):
    """As a consumer on devices asks: for the device, twice, and then for the memory there."""

    def __dlpack__(self, **asked):
        self.shard.__dlpack_device__()
        self.shard.__dlpack_device__()
        return super().__dlpack__(**asked)


def asked(tensor):
    shard = tensor.on_device()
    shard.__dlpack_device__()
    return shard


def rows():
    return wt.arange(30, dtype="float32", placements=None).reshape(*SHAPE).redistribute("S0")


class Shards(unittest.TestCase):
    def test_out_and_in(self):
        values = np.arange(30, dtype="float32").reshape(SHAPE)
        x = rows()
        y = wt.from_local([Producer(x.on_device(rank), stream=1) for rank in range(wt.local_ranks())], placements="S0", shape=SHAPE)
        for rank in range(wt.local_ranks()):
            self.assertIn(x.on_device(rank).__dlpack_device__(), [(CUDA, device) for device in range(2)])
        x *= 3
        y += 1
        np.testing.assert_array_equal(x.numpy(), values * 3)
        np.testing.assert_array_equal(y.numpy(), values + 1)

    def test_copies_and_old_consumers(self):
        x = wt.ones(4, 4) * 2
        for arguments in ({"copy": True}, {"max_version": None}, {"max_version": (0, 8)}):
            y = wt.from_dlpack([Producer(x.on_device(rank), **arguments) for rank in range(wt.local_ranks())])
            self.assertEqual(float((y + 1).sum().item()), 48)

    def test_flags(self):
        read_only, is_copied = 1, 2
        x = wt.ones(4, 4) * 2
        for copy, flags in ((None, read_only), (True, is_copied)):
            capsule = x.on_device().__dlpack__(max_version=(1, 0), copy=copy)
            # {uint32_t version[2]; void *context; void (*deleter)(...); uint64_t flags; ...}
            managed = ctypes.pythonapi.PyCapsule_GetPointer(ctypes.py_object(capsule), b"dltensor_versioned")
            self.assertEqual(ctypes.c_uint64.from_address(managed + 24).value, flags)

    def test_exports(self):
        """One to tell the device, and one for the consumer."""
        x = wt.ones(4, 4) * 2
        with unittest.mock.patch.object(arrays, "export", wraps=arrays.export) as export:
            wt.from_dlpack([Asking(x.on_device(rank)) for rank in range(wt.local_ranks())])
            self.assertEqual(export.call_count, 2 * wt.local_ranks())

    def test_consumers_that_fail(self):
        """After they have asked for the device: nothing is left of the export, and nothing goes wrong beside their own error."""
        x = wt.ones(4, 4) * 2

        class Failing(Producer):
            def __dlpack__(self, **asked):
                self.shard.__dlpack_device__()
                raise KeyError("a consumer's")

        with unittest.mock.patch("sys.unraisablehook") as unheard:
            with self.assertRaisesRegex(KeyError, "a consumer's"):
                wt.from_dlpack([Failing(x.on_device(rank)) for rank in range(wt.local_ranks())])
            with self.assertRaises(TypeError):
                len(asked(x))
            unheard.assert_not_called()

    def test_main_memory(self):
        x = wt.ones(4, 4) * 2
        self.assertEqual(x.__dlpack_device__(), (CPU, 0))
        np.testing.assert_array_equal(np.from_dlpack(x), np.full((4, 4), 2, "float32"))
        capsule = x.on_device().__dlpack__(dl_device=(CPU, 0))
        self.assertIn("dltensor", repr(capsule))

    def test_a_device_that_is_asked_for(self):
        x = wt.ones(4, 4) * 2
        device = x.on_device().__dlpack_device__()
        self.assertIn("dltensor", repr(x.__dlpack__(dl_device=device)))
        with self.assertRaisesRegex(BufferError, f"the shard is on CUDA's device {device[1]}, not on 7"):
            x.__dlpack__(dl_device=(CUDA, 7))
        with self.assertRaisesRegex(BufferError, "no device of DLPack's type 10"):
            x.__dlpack__(dl_device=(ROCM, 0))

    def test_refusals(self):
        memory = np.ones(SHAPE, "float32")
        own = wt.from_local([memory[:3].copy() for rank in range(wt.local_ranks())], placements="S0")
        with self.assertRaisesRegex(wt.WeftError, "on_device: the shard lies in the program's memory"):
            own.on_device().__dlpack_device__()
        none = wt.ones(0, 3)
        self.assertEqual(none.on_device().__dlpack_device__(), (CPU, 0))


if __name__ == "__main__":
    wt.init()
    cases.main(Shards)
