"""What is read from a cold disk: the frames themselves, by each side that needs no other library."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from rivals import cold


@pytest.mark.parametrize("kind", ["outofcore", "memmap", "h5py", "zarr-python"])
def test_a_side_delivers_all_frames(kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cold, "STEP", 512)
    monkeypatch.setattr(cold, "WORKERS", 0)  # this process has threads, which a fork would not have
    cold.write(kind, str(tmp_path / kind), 2 * cold.STEP)
    cold.drop(tmp_path / kind)
    rows = np.concatenate([np.asarray(batch).reshape(-1, 4096) for batch in cold.READERS[kind](str(tmp_path / kind))])
    expected = np.concatenate(list(cold.frames(2 * cold.STEP))).reshape(-1, 4096)
    np.testing.assert_array_equal(
        rows[np.argsort(rows[:, :8].copy().view(">u8")[:, 0])],
        expected[np.argsort(expected[:, :8].copy().view(">u8")[:, 0])],
    )
