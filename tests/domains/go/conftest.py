"""Fixtures of the Go tests."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import outofcore
from outofcore.domains.go import DOMAIN
from outofcore.domains.go.params import GoSection
from outofcore.store.reader import Store, open_store
from tests.domains.go.games import Converted, convert

ConvertText = Callable[..., Converted]


@pytest.fixture
def convert_text(tmp_path: Path) -> ConvertText:
    """Converts bytes as a file ``games.sgf``, or several by name; further arguments are settings."""

    def run(data: bytes | dict[str, bytes], *, block: int = 1 << 20, **settings: Any) -> Converted:
        files = data if isinstance(data, dict) else {"games.sgf": data}
        for name, content in files.items():
            path = tmp_path / "raw" / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content)
        settings.setdefault("filters", {}).setdefault("sizes", [9, 19])
        return convert(tmp_path / "raw", block, **settings)

    return run


@pytest.fixture(scope="session")
def sample(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The made-up sample input."""
    folder = tmp_path_factory.mktemp("sample")
    DOMAIN.sample(folder, np.random.default_rng(0))
    return folder


@pytest.fixture(scope="session")
def store_section(sample: Path) -> GoSection:
    """Settings under which the sample is converted."""
    return GoSection.model_validate(
        {
            "raw": str(sample),
            "filters": {"sizes": [9, 19]},
            "splits": {"val": 0.4, "test": 0.05},
            "store": {"chunk_rows": 256, "shard_rows": 4096},
        }
    )


@pytest.fixture(scope="session")
def store(store_section: GoSection, tmp_path_factory: pytest.TempPathFactory) -> Store:
    """The sample as a sealed store."""
    path = tmp_path_factory.mktemp("stores") / "go.zarr"
    outofcore.convert("go", store_section.raw, path, **store_section.model_dump(mode="json", exclude={"raw"}))
    return open_store(path)


@pytest.fixture
def one_thread() -> Iterator[None]:
    """Models this small lose time to a second thread."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)
