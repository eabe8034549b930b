"""What Python does around the library: other threads, garbage collection, fork, pickle, signals, exit; no hidden collectives."""

import copy
import gc
import os
import pickle
import signal
import subprocess
import sys
import textwrap
import threading
import time

import numpy as np
import pytest

import weft_tensors as wt


def test_that_one_process_may_print(mesh):
    a = wt.randn(6, 4, mesh=mesh, placements="S0,S1")
    model = wt.nn.Linear(4, 4)
    if wt.first_rank() == 0:
        text = f"{a} {a!r} {a.shape} {a.placements} {a.mesh} {a.dtype} {a.sharding()} {a._repr_html_()} {len(a)} {model!r} {a.grad} {a.requires_grad}"
        assert "f32[6, 4]" in text
    wt.wait()


def test_tensors_that_end_on_other_threads():
    def work(tensors):
        while tensors:
            tensors.pop()
            if len(tensors) % 7 == 0:
                gc.collect()

    for _ in range(20):
        tensors = [wt.ones(3) + i for i in range(50)]
        threads = [threading.Thread(target=work, args=(tensors[i::3],)) for i in range(3)]
        total = wt.zeros(3)
        for thread in threads:
            thread.start()
        del tensors
        for i in range(30):
            total = total + 1
            if i % 5 == 0:
                cycle = [total + 0]
                cycle.append(cycle)
        for thread in threads:
            thread.join()
        assert total.numpy()[0] == 30


def test_calls_on_other_threads_are_refused():
    errors = []

    def work():
        try:
            wt.ones(3)
        except wt.WeftError as error:
            errors.append(error.status.name)

    a = wt.ones(3, 4)

    def ask():
        for question in (lambda: a.shape, lambda: a.ndim, lambda: a.dtype, lambda: a.requires_grad, lambda: a.size, wt.world_size):
            try:
                errors.append(question())
            except wt.WeftError as error:
                errors.append(error.status.name)

    for target in (work, ask):
        thread = threading.Thread(target=target)
        thread.start()
        thread.join()
    assert errors == ["ERR_STATE"] * 7


def test_no_leak():
    def bytes_now():
        with open("/proc/self/statm", encoding="ascii") as file:
            return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")

    a, calls = wt.ones(4), int(os.environ.get("WEFT_TEST_CALLS", "1500"))

    def work(count):
        for i in range(count):
            b = (a + 1)[1:3] * 2
            b.reshape(2, 1).sum(0)
            wt.zeros(3, 4)
            if i % 100 == 0:
                b.numpy()
                try:
                    a + wt.zeros(5)
                except ValueError:
                    pass
        wt.wait()

    def growth():
        before = bytes_now()
        work(calls)
        return bytes_now() - before

    # As often in each process: all of them call together.
    assert min([growth() for _ in range(5)]) < 1 << 20


def test_pickle_and_copy_are_refused():
    model = wt.nn.Linear(2, 2)
    for value in (wt.ones(2), wt.Mesh(1), model):
        for function in (pickle.dumps, copy.copy, copy.deepcopy):
            with pytest.raises(TypeError, match="cannot be"):
                function(value)


def test_children_of_fork_are_refused():
    a = wt.ones(3)
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            a + 1
            os.write(write, b"no error")
        except wt.WeftError as error:
            os.write(write, error.status.name.encode())
        finally:
            os._exit(0)
    os.waitpid(child, 0)
    assert os.read(read, 100) == b"ERR_STATE"
    os.close(read)
    os.close(write)
    assert (a + 1).numpy()[0] == 2


def run(text, **environment):
    """A program of its own, in a world of one process."""
    alone = {name: value for name, value in os.environ.items() if not name.startswith(("OMPI_", "PMIX_", "PMI_", "MPI", "PRTE_"))}
    return subprocess.run([sys.executable, "-c", textwrap.dedent(text)], env={**alone, "WEFT_RANKS": "2", **environment}, capture_output=True, text=True,
                          timeout=120)


@pytest.mark.skipif("wt.process_index() > 0", reason="process 0 does it")
class TestPrograms:
    def test_start_by_itself_and_exit(self):
        done = run("import weft_tensors as wt; a = wt.ones(3); m = wt.nn.Linear(3, 3); print((a + 1).numpy().sum(), wt.world_size())")
        assert done.returncode == 0 and done.stdout == "6.0 2\n" and done.stderr == "", done.stderr

    def test_exit_with_an_exception(self):
        done = run("import weft_tensors as wt; a = wt.ones(3); raise ValueError('mine')")
        assert done.returncode == 1 and "mine" in done.stderr and "weft" not in done.stderr.replace("weft_tensors", "").lower(), done.stderr

    def test_worlds_one_after_the_other(self):
        done = run("""
            import weft_tensors as wt
            for ranks in (1, 3):
                wt.init(ranks)
                a = wt.ones(6, placements="S0")
                m = wt.nn.Linear(3, 3)
                print(wt.world_size(), a.sum().item())
                wt.finalize()
                print(a)
            wt.init(2)
            del a, m
            print(wt.ones(2).sum().item())
            """)
        assert done.returncode == 0, done.stderr
        assert done.stdout == "1 6.0\nTensor(of a world that has ended)\n3 6.0\nTensor(of a world that has ended)\n2.0\n"

    def test_interrupts(self):
        program = """
            import os, signal, threading, time
            import weft_tensors as wt
            heard = threading.Event()
            def slow(part):
                heard.wait(60)
                return part
            for wait in (lambda: b.numpy(), lambda: wt.wait(), lambda: b.sum().item(), lambda: b.local(0)):
                heard.clear()
                a = wt.ones(4, placements="S0")
                b = wt.local_map(slow, [a], [((4,), "float32", "S0")])
                threading.Timer(0.3, os.kill, (os.getpid(), signal.SIGINT)).start()
                try:
                    wait()
                except KeyboardInterrupt: # the tasks have not ended
                    print("heard", heard.is_set())
                heard.set()
                print(b.numpy().sum())
            """
        done = run(program, WEFT_WORKERS="2")
        assert done.stdout == 4 * "heard False\n4.0\n", done.stdout + done.stderr

    def test_an_interrupt_in_a_function_of_a_graph(self):
        done = run("""
            import weft_tensors as wt
            @wt.graph
            def step(a):
                if stop: raise KeyboardInterrupt
                return a + 1
            stop, a = False, wt.ones(2)
            for i in range(3): a = step(a)
            stop = True
            try: step(a)
            except KeyboardInterrupt: print("heard")
            stop = False
            print(step(a).numpy())
            """)
        assert done.stdout == "heard\n[5. 5.]\n", done.stdout + done.stderr

    def test_without_a_library(self):
        done = run("import weft_tensors", WEFT_TENSORS_LIBRARY="/nowhere/libweft.so")
        assert done.returncode == 1 and "ImportError: no library of weft: /nowhere/libweft.so" in done.stderr

    def test_mpi4py(self):
        pytest.importorskip("mpi4py")
        done = run("""
            from mpi4py import MPI
            import weft_tensors as wt
            wt.init(comm=MPI.COMM_WORLD)
            print(wt.world_size(), wt.ones(3).sum().item())
            try: wt.finalize(); wt.init(comm=7)
            except TypeError as error: print(error)
            """, WEFT_RANKS="")
        if "built without MPI" in done.stderr:
            pytest.skip("a build without MPI")
        assert done.stdout.startswith("1 3.0\ncomm: an mpi4py communicator"), done.stdout + done.stderr


def test_signals_stay_pythons():
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    time.sleep(0)
    np.testing.assert_array_equal(wt.ones(2).numpy(), [1, 1])
