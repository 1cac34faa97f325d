from __future__ import annotations

import gc
import os
import subprocess
import sys
import time
from collections.abc import Callable

import numpy as np
import psutil
import pytest

from outofcore.settings.hardware import Measured
from outofcore.system import peak_memory
from outofcore.system.peak_memory import MemoryWatch

MIB = 2**20


def wait_until(seen: Callable[[], bool]) -> None:
    """However late a loaded machine runs the thread that looks; the limit of each test ends it."""
    while not seen():
        time.sleep(0.01)


def test_a_peak_between_entry_and_exit_is_seen():
    gc.collect()  # else it may free what earlier tests left, in the middle of this one
    with MemoryWatch(interval=0.01) as before:
        time.sleep(0.05)
    with MemoryWatch(interval=0.01) as watch:
        held = np.ones(200 * MIB, np.uint8)
        wait_until(lambda: watch.peak_bytes > before.peak_bytes + 180 * MIB)
        del held
    assert 180 * MIB < watch.peak_bytes - before.peak_bytes < 260 * MIB
    assert watch.peak_rss_bytes >= 180 * MIB


def test_children_count_and_shared_pages_once():
    shared = np.ones(100 * MIB, np.uint8)
    with MemoryWatch(interval=0.01) as alone:
        time.sleep(0.05)
    child = os.fork()
    if child == 0:  # holds the same pages, and does nothing else
        time.sleep(300)
        os._exit(0)
    with MemoryWatch(interval=0.01) as together:
        wait_until(lambda: together.peak_rss_bytes > alone.peak_bytes + 90 * MIB)
    os.kill(child, 9)
    os.waitpid(child, 0)
    assert together.peak_bytes < alone.peak_bytes + 50 * MIB
    assert shared[0] == 1


def test_shared_pages_are_told_apart_only_for_a_possible_peak(monkeypatch: pytest.MonkeyPatch) -> None:
    walks, samples, proportional, usual = [], [], peak_memory._proportional, MemoryWatch._sample
    monkeypatch.setattr(peak_memory, "_proportional", lambda pid, rss: walks.append(pid) or proportional(pid, rss))
    monkeypatch.setattr(MemoryWatch, "_sample", lambda watch: samples.append(watch) or usual(watch))
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE), MemoryWatch(interval=0.01):
        for rows in (0, 100 * MIB, 0):
            held, before = np.ones(rows, np.uint8), len(samples)
            wait_until(lambda: len(samples) > before + 10)  # noqa: B023 - called at once
            del held
    assert 4 <= len(walks) < len(samples)


@pytest.mark.parametrize(("left", "warned"), [(1, True), (1 << 50, False)])
def test_a_tenth_that_is_left_is_told_once(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, left: int, *, warned: bool
) -> None:
    monkeypatch.setattr(peak_memory, "usable_memory", lambda: Measured(left, "left under the cgroup's limit"))
    monkeypatch.setattr(peak_memory, "_FAMILY_SECONDS", 0.0)
    with MemoryWatch(interval=0.01):
        time.sleep(0.1)  # entry and exit look too
    told = [record.getMessage() for record in caplog.records]
    assert len(told) == warned
    assert all("only 1 B are left under the cgroup's limit; lower memory" in line for line in told)


def test_memory_of_a_child_counts():
    hold = "import time; held = b'1' * 150_000_000; print(flush=True); time.sleep(300)"
    child = subprocess.Popen([sys.executable, "-c", hold], stdout=subprocess.PIPE)
    assert child.stdout
    child.stdout.readline()
    with MemoryWatch() as watch:
        pass
    child.kill()
    child.stdout.close()
    child.wait()
    assert watch.peak_bytes > psutil.Process().memory_full_info().uss + 130e6
