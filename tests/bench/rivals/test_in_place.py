"""What is compared on which store, and the web server that is read from."""

from __future__ import annotations

from functools import partial
from http.server import ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from urllib.request import Request, urlopen

import pytest

from rivals import in_place


def names(kind: str, store: str, peers: Path | None) -> set[str]:
    return {side.name for side in in_place.sides(kind, store, Path("small"), peers)}


def test_a_library_is_compared_where_it_can_read(tmp_path: Path) -> None:
    own = {"outofcore"}
    assert names("maps", str(tmp_path), None) == own
    others = {"insitubatch", "zarr-python", "zarr-python, zarrs", "annbatch"}
    assert names("matrix", str(tmp_path), Path("python")) == own | others
    assert names("maps", str(tmp_path), Path("python")) == own | others | {"xbatcher"}
    remote = {"outofcore", "outofcore, 3 GB", "insitubatch", "insitubatch, blocks of 1 shard", "zarr-python"}
    assert names("http_shards", "http://127.0.0.1/shards", Path("python")) == remote


def test_the_server_sends_ranges_of_bytes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(in_place, "DELAY", 0)
    content = bytes(range(200))
    (tmp_path / "c").write_bytes(content)
    with ThreadingHTTPServer(("127.0.0.1", 0), partial(in_place.Slow, directory=str(tmp_path))) as server:
        Thread(target=server.serve_forever, daemon=True).start()
        for wanted, expected in (
            ("", content),
            ("bytes=3-9", content[3:10]),
            ("bytes=190-999", content[190:]),
            ("bytes=150-", content[150:]),
            ("bytes=-16", content[-16:]),
        ):
            request = Request(f"http://127.0.0.1:{server.server_port}/c", headers={"Range": wanted} if wanted else {})
            with urlopen(request, timeout=10) as answer:
                assert answer.read() == expected
                assert answer.status == (206 if wanted else 200)
        server.shutdown()
