"""Training from an object storage is training from the disk, also where the storage behaves badly."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.store.object_storage import point_to, serve, serve_badly, upload
from tests.training.chess_run import train_chess, write_store

pytestmark = [pytest.mark.long, pytest.mark.timeout(1200)]


@pytest.fixture
def endpoint(monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    with serve() as endpoint:
        point_to(endpoint, monkeypatch)
        yield endpoint


def test_the_curve_is_that_of_the_local_store_whatever_the_server_does(
    endpoint: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("outofcore.store.connection.REQUEST_SECONDS", 2)
    curve = "plots/chess/train/loss.tsv"
    local = write_store(tmp_path / "chess.zarr")
    expected = train_chess(local, tmp_path / "here")
    url = upload(local, endpoint, "chess.zarr")
    with serve_badly(endpoint) as (bad, troubles):
        monkeypatch.setenv("AWS_ENDPOINT_URL", bad)
        troubles.pending += ["", "503", "cut", "", "stall", "503", "503", "cut", "", "", "stall"] * 2
        found = train_chess(url, tmp_path / "there")
        assert {name: troubles.done[name] for name in ("503", "cut", "stall")} == {"503": 6, "cut": 4, "stall": 4}
    assert found == expected
    assert (tmp_path / "there" / curve).read_text() == (tmp_path / "here" / curve).read_text()
