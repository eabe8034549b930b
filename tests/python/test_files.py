"""Files of formats that other programs write too."""
import os
import shutil
import subprocess
import sys
import tempfile

import numpy as np
import pytest

import weft_tensors as wt


def test_zarr(mesh):
    x = np.random.default_rng(3).standard_normal((7, 6))
    path = os.path.join(tempfile.gettempdir(), "weft-python.zarr")  # as in test_tensors.py
    for options in ({}, {"chunk_bytes": 64}, {"codec": "gzip", "level": 9}, {"codec": "zstd", "chunk_bytes": 48}):
        state = {"a": wt.asarray(x, mesh=mesh), "group": {"n": wt.arange(5)}, "step": 12}
        try:
            wt.save_zarr(path, {"a": state["a"], "group/n": state["group"]["n"], "step": 12}, **options)
        except wt.WeftError as error:
            assert "built without" in str(error)
            continue
        read = {"a": wt.zeros_like(state["a"]), "group/n": wt.zeros_like(state["group"]["n"]), "step": 0}
        wt.load_zarr(path, read)
        np.testing.assert_array_equal(read["a"].numpy(), x)
        np.testing.assert_array_equal(read["group/n"].numpy(), np.arange(5))
        assert read["step"] == 12
    with pytest.raises(wt.WeftError, match="has no array"):
        wt.load_zarr(path, {"none": state["a"]})
    with pytest.raises(ValueError, match="codec"):
        wt.save_zarr(path, {"a": state["a"]}, codec="lzma")
    wt.wait()
    if wt.process_index() == 0:
        shutil.rmtree(path)


BESIDE = """
import sys, tempfile
if sys.argv[1] == "first":
    import h5py
import numpy as np
import weft_tensors as wt
import h5py
wt.init(ranks=3)
with tempfile.TemporaryDirectory() as folder:
    ours, theirs = folder + "/a.h5", folder + "/b.h5"
    a = wt.asarray(np.arange(12.0).reshape(4, 3))
    try:
        wt.save_hdf5(ours, {"x": a}, compression=4)
    except wt.WeftError as error:
        assert "without HDF5" in str(error)
        sys.exit(0)
    with h5py.File(theirs, "w") as file:
        file["x"] = np.full((4, 3), 2.0)
        wt.load_hdf5(ours, {"x": a})  # while h5py has a file open
        file["y"] = 1
    with h5py.File(ours) as file:
        assert file["x"][...].sum() == 66
    wt.load_hdf5(theirs, {"x": a})
    assert a.numpy().sum() == 24
"""


@pytest.mark.parametrize("order", ["first", "last"])
def test_h5py_in_one_process(order):
    pytest.importorskip("h5py")
    if wt.num_processes() > 1:
        pytest.skip("starts a process of its own")
    subprocess.run([sys.executable, "-c", BESIDE, order], check=True, timeout=100)
