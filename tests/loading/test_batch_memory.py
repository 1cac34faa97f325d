"""Tensors that others allocate, in the budget: measured in processes of their own, and counted one by one."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

from outofcore.loading.batch_memory import AllocatedBytes, Recyclers, joined_slabs, loose_bytes
from outofcore.system.recycling import Recycler
from tests.loading.memory_table import in_a_process


@pytest.mark.parametrize(
    ("shape", "memory"), [("map_4", "128MiB"), ("map_16", "256MiB"), ("reset", "128MiB"), ("packed", "128MiB")]
)
def test_what_eight_threads_hold_is_within_the_budget(shape: str, memory: str, tmp_path: Path) -> None:
    budget, grown = in_a_process(tmp_path, shape, "streamed", 8, memory, 24)
    assert grown <= budget


@pytest.mark.parametrize(
    ("shape", "residency", "threads"),
    [("map_4", "mapped", 8)],
)
def test_rows_that_are_mapped_or_on_a_device_keep_the_least_budget(
    shape: str, residency: str, threads: int, tmp_path: Path
) -> None:
    """Pages of mapped files are not counted; the device is the processor, whose memory is."""
    budget, grown = in_a_process(tmp_path, shape, residency, threads, "0", 24)
    assert grown <= budget


def test_buffers_that_threads_keep_from_pool_to_pool_are_counted(tmp_path: Path) -> None:
    """Eight chunks of 8 MiB, in pools of four, by eight threads."""
    budget, grown = in_a_process(tmp_path, "wide", "ram", 8, "0", 64)
    assert grown <= budget


def test_stored_chunks_that_are_kept_are_counted_while_they_are_decoded(tmp_path: Path) -> None:
    budget, grown = in_a_process(tmp_path, "foreign", "streamed", 2, "0", 24)
    assert grown <= budget


def test_chunks_that_are_decoded_for_a_part_of_their_rows_keep_the_least_budget(tmp_path: Path) -> None:
    """From a store of other software, by eight threads that hold a chunk encoded and decoded."""
    budget, grown = in_a_process(tmp_path, "shards", "streamed", 8, "0", 24)
    assert grown <= budget


def test_the_most_that_a_function_allocates_at_once_is_measured() -> None:
    given = torch.zeros(1000, 100, dtype=torch.uint8)
    with AllocatedBytes([given]) as allocated:
        wide = given.float()
        other = (wide / 255)[:, ::2]
        del wide
        given += 1
    assert allocated.bytes == 800_000
    assert len(other) == 1000
    with AllocatedBytes([given]) as allocated:
        array = given.numpy().astype(np.float64)
    assert 780_000 <= allocated.bytes <= 810_000
    assert len(array) == 1000


def test_loose_tensors_are_those_that_nobody_uses_again() -> None:
    rows, recycler = np.zeros((4, 10), np.int64), Recycler()
    again = torch.from_numpy(recycler.empty((4, 10), np.dtype(np.int64)))
    assert loose_bytes([torch.from_numpy(rows)[:, 1:], again[2:]], [rows]) == (0, 0)
    assert loose_bytes([torch.from_numpy(rows), again.clone()]) == (640, 320 * 4 + 320 * 20)


def test_slabs_are_joined_in_recycled_memory() -> None:
    values = torch.arange(35, dtype=torch.bfloat16).view(7, 5)
    batch = joined_slabs(lambda own: {"x": values[own] * 2, "n": values[own, 0].long()}, 7, 3, Recyclers(Recycler))
    assert torch.equal(batch["x"], values * 2)
    assert batch["n"].tolist() == [0, 5, 10, 15, 20, 25, 30]
    assert loose_bytes(batch.values()) == (0, 0)
