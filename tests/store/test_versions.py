"""Stores that earlier versions wrote, as they were written, are read by this one."""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np

import outofcore
from outofcore.store.verify import verify

# format2.zip: of a version that gave no names to dimensions, by write_store of these numbers and halves.
NUMBERS = np.arange(300)


def test_a_store_of_format_2_without_names_of_dimensions(tmp_path: Path) -> None:
    shutil.unpack_archive(Path(__file__).with_name("stores") / "format2.zip", tmp_path)
    path = tmp_path / "format2.zarr"
    assert not verify(path).problems
    rows = [outofcore.open_store(path).rows(split).read() for split in ("train", "val")]
    numbers = np.concatenate([each["number"] for each in rows])
    assert sorted(numbers) == NUMBERS.tolist()
    assert (np.concatenate([each["half"] for each in rows]) == numbers[:, None] * np.array([0.5, -0.25])).all()
    got = [batch["number"].numpy() for batch in outofcore.loader(path, "train", 32)]
    assert sorted(np.concatenate(got)) == sorted(rows[0]["number"])
