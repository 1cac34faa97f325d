"""Memory that comes back is used again, and never while anything refers to it."""

from __future__ import annotations

import multiprocessing
import pickle
import platform
import resource
import subprocess
import sys
import threading
import tracemalloc
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor

import numpy as np
import pytest
import torch

from outofcore.system.recycling import KEPT, Recycler, keep_freed_memory

MIB = 2**20
BYTE = np.dtype(np.uint8)


def test_memory_is_used_again_once_the_last_view_of_it_is_gone() -> None:
    recycler = Recycler()
    array = recycler.empty((4, MIB), BYTE)
    address = array.ctypes.data
    tensors = list(torch.split(torch.from_numpy(array), 2))
    view = array[3:, ::2].reshape(2, -1)
    assert recycler.empty((4, MIB), BYTE).ctypes.data != address
    del array
    assert recycler.empty((4, MIB), BYTE).ctypes.data != address
    tensors.pop()
    assert recycler.empty((4, MIB), BYTE).ctypes.data != address
    del tensors
    assert recycler.empty((4, MIB), BYTE).ctypes.data != address
    del view
    again = [recycler.empty((MIB,), np.dtype(np.uint32)) for _ in range(2)]
    assert address in [each.ctypes.data for each in again]


def test_arrays_have_the_shape_and_type_asked_for() -> None:
    recycler = Recycler()
    for _ in range(3):
        for shape, dtype in (((3, 5), "float32"), ((0, 7), "uint16"), ((9,), "float64"), ((), "bool")):
            array = recycler.empty(shape, np.dtype(dtype))
            assert (array.shape, array.dtype) == (shape, dtype)
            array[...] = 1
            assert array.all()


def test_no_more_is_kept_than_is_said() -> None:
    recycler = Recycler()
    tracemalloc.start()
    try:
        arrays = [recycler.empty((MIB,), BYTE) for _ in range(KEPT + 3)]
        arrays.clear()
        assert KEPT * MIB < tracemalloc.get_traced_memory()[0] < (KEPT + 0.1) * MIB
        arrays.append(recycler.empty((1000,), BYTE))  # a smaller array is in memory of a larger one
        assert tracemalloc.get_traced_memory()[0] < (KEPT + 0.1) * MIB
        arrays.append(recycler.empty((2 * MIB,), BYTE))  # a larger one drops what is too small
        assert tracemalloc.get_traced_memory()[0] < 3.1 * MIB
    finally:
        tracemalloc.stop()


def test_a_copy_has_memory_of_its_own() -> None:
    recycler = Recycler()
    recycler.empty((MIB,), BYTE)[:] = 1  # whose memory is kept
    assert len(pickle.dumps(recycler)) < 1000
    copy = pickle.loads(pickle.dumps(recycler))
    assert copy.empty((MIB,), BYTE).ctypes.data != recycler.empty((MIB,), BYTE).ctypes.data


def test_threads_that_share_it_never_share_memory() -> None:
    recycler = Recycler()
    wrong = []

    def work(number: int) -> None:
        held = []
        for turn in range(400):
            array = recycler.empty((turn % 3 + 1, 100), np.dtype(np.int64))
            array[:] = 1000 * number + turn
            held.append((1000 * number + turn, array[:, 10:20]))
            if turn % 5 == 0:
                wrong.extend(value for value, view in held if (view != value).any())
                held = held[-2:]

    threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="other allocators decide differently")
def test_the_allocator_keeps_what_a_thread_frees() -> None:
    """In a process of its own, as the allocator remembers the largest block that was ever freed."""
    with ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as processes:
        returned, kept = processes.submit(_faults).result()
    pages = ROUNDS * HELD * BATCH // resource.getpagesize()
    assert returned > pages // 2
    assert kept < pages // 10


ROUNDS, HELD, BATCH = 40, 4, 3 * MIB


def _faults() -> tuple[int, int]:
    """Pages that the kernel had to provide for batches before and after the call."""
    with ThreadPoolExecutor(1) as thread:
        before = thread.submit(_faults_of_batches).result()
        keep_freed_memory()
        return before, thread.submit(_faults_of_batches).result()


def _faults_of_batches() -> int:
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    for _ in range(ROUNDS):
        batches = [np.ones(BATCH, np.uint8) for _ in range(HELD)]
        del batches
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before


def test_memory_that_is_in_use_at_the_end_of_a_process_says_nothing() -> None:
    code = (
        "import numpy, builtins\n"
        "from outofcore.system.recycling import Recycler\n"
        "builtins.kept = Recycler().empty((4,), numpy.dtype('u1'))\n"  # freed when nothing can be imported any more
    )
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert ended.stderr == ""
