"""A store converted to an object storage is the store of this machine, or there is none."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import outofcore
from outofcore.conversion.estimate import Estimate
from outofcore.conversion.executors import open_executor
from outofcore.conversion.run import Conversion, Outcome
from outofcore.errors import DamagedStore, RawInputError, StoreError
from outofcore.raw.files import find_files
from outofcore.store.reader import open_store
from outofcore.store.seal import Seal
from outofcore.store.upload import Upload
from outofcore.store.verify import verify
from tests.conversion.lines import Lines, LinesSection, write_lines
from tests.store.object_storage import content, put_objects, remove, serve_badly

pytestmark = pytest.mark.xdist_group("object storage")


@pytest.fixture
def raw(tmp_path: Path) -> Path:
    write_lines(tmp_path / "raw", np.random.default_rng(5), lines=150)
    return tmp_path / "raw"


@pytest.fixture
def game(tmp_path: Path) -> Path:
    (tmp_path / "a.pgn").write_text('[Result "1-0"]\n\n1. e4 e5 2. Qh5 Nc6 3. Bc4 Nf6 4. Qxf7# 1-0\n')
    return tmp_path / "a.pgn"


def run(raw: Path, out: Path, url: str = "", watch: Any = lambda *_: None, **kwargs: Any) -> Outcome:
    section = LinesSection()
    files = find_files(raw, section.match, (".txt",), section="lines")
    upload = Upload(url) if url else None
    if upload:
        upload.check()
    conversion = Conversion(Lines(), section, files, out / "a.zarr", out / "rejects.csv", upload)
    executor = open_executor("threads", 2, files=files)
    return conversion.run(Estimate(0, 0, 0, 0), executor=executor, workers=2, watch=watch, **kwargs)


def test_the_objects_are_the_files_of_the_local_store(endpoint: str, raw: Path, tmp_path: Path) -> None:
    here = run(raw, tmp_path / "here")
    there = run(raw, tmp_path / "there", "s3://stores/same.zarr")
    assert there.seal.digest == here.seal.digest
    local = tmp_path / "here/a.zarr"
    files = {path.relative_to(local).as_posix(): path.read_bytes() for path in local.rglob("*") if path.is_file()}
    assert content(endpoint, "s3://stores/same.zarr") == files
    assert open_store("s3://stores/same.zarr").digest == here.seal.digest
    assert [path.name for path in (tmp_path / "there").iterdir()] == ["rejects.csv"]


def test_a_file_of_several_parts_arrives_whole(endpoint: str, tmp_path: Path) -> None:
    whole = np.random.default_rng(7).bytes(20_000_001)
    (tmp_path / "large").write_bytes(whole)
    upload = Upload("s3://stores/parts.zarr")
    upload.begin("token")
    upload.put("large", tmp_path / "large")
    assert content(endpoint, "s3://stores/parts.zarr.work/token") == {"large": whole}


def test_an_address_with_other_objects_is_refused_before_anything_is_written(endpoint: str, game: Path) -> None:
    """Also where one of them is called like a file of ours, and beside a folder of somebody else for the work."""
    for name, objects in {
        "a": {"thesis/raw.tar": b"precious", "other.zarr/seal.json": b"precious", "notes.txt": b"precious"},
        "b": {"seal.json": b'{"files": {"x": 1}}', "unfinished": b"", "x": b"precious"},
        "c": {"seal.json": b"[]", "zarr.json": b"{}"},
        "e": {"unfinished": b'{"digest": "", "files": {"x": [1, ""]}, "format": 2}', "x": b"precious"},
        "f": {"seal.json": Seal({}).text().encode(), "unfinished": b"precious"},
        "d.work": {"thesis": b"precious"},
    }.items():
        put_objects(endpoint, f"s3://stores/{name}", objects)
        with pytest.raises(StoreError, match="nothing was touched: choose an"):
            Upload(f"s3://stores/{name.removesuffix('.work')}").check()
        assert content(endpoint, f"s3://stores/{name}") == objects
    assert not content(endpoint, "s3://stores/d")
    for name in ("a", "a/thesis", "b/", "c"):  # also below others, and with a slash
        with pytest.raises(StoreError, match="nothing was touched"):
            outofcore.convert("chess", game, f"s3://stores/{name}")


@pytest.mark.parametrize("theirs", [b"precious, and longer than the columns of our list of rejects", b"x", b""])
def test_a_list_of_somebody_else_next_to_the_address_is_left_alone(endpoint: str, game: Path, theirs: bytes) -> None:
    place = f"s3://stores/lists{len(theirs)}"
    put_objects(endpoint, place, {"a.rejects.csv": theirs})
    with pytest.raises(StoreError, match=r"a\.rejects\.csv: expected nothing, or the list of an earlier conversion"):
        outofcore.convert("chess", game, f"{place}/a")
    assert content(endpoint, place) == {"a.rejects.csv": theirs}


def test_neighbours_whose_names_begin_alike_are_left_alone(endpoint: str, game: Path) -> None:
    objects = {"data2/seal.json": b"{}", "data2/x": b"y", "data.txt": b"q", "data.zarr/a": b"z", "data": b"precious"}
    put_objects(endpoint, "s3://stores/near", objects)
    for _ in range(2):  # a store is replaced as well
        outofcore.convert("chess", game, "s3://stores/near/data")
        found = content(endpoint, "s3://stores/near")
        assert {name: found[name] for name in objects} == objects
        assert not verify("s3://stores/near/data").problems


def test_a_store_is_replaced_without_what_was_put_among_its_files(endpoint: str, raw: Path, tmp_path: Path) -> None:
    url = "s3://stores/mixed.zarr"
    run(raw, tmp_path / "there", url)
    put_objects(endpoint, url, {"notes.txt": b"precious", "train/number/more": b"precious"})
    (raw / "a.txt").write_text("1 2 3 4\n")
    there = run(
        raw,
        tmp_path / "there",
        url,
        lambda *_: put_objects(endpoint, f"{url}.work", {"thesis": b"precious"}),
    )
    assert content(endpoint, url).keys() == {*there.seal.files, "seal.json", "notes.txt", "train/number/more"}
    assert open_store(url).digest == there.seal.digest
    assert content(endpoint, f"{url}.work") == {"thesis": b"precious"}


def test_until_a_conversion_has_ended_the_earlier_store_is_whole(endpoint: str, raw: Path, tmp_path: Path) -> None:
    url = "s3://stores/stopped.zarr"
    earlier = run(raw, tmp_path / "there", url)
    (raw / "a.txt").write_text((raw / "a.txt").read_text() + "1 2 3 4\n")
    here = run(raw, tmp_path / "here")
    left = iter(range(20))

    def watch(*_: int) -> None:
        whole = [path for path in (tmp_path / "there").rglob("number/c.*") if path.suffix != ".partial"]
        assert len(whole) <= 3
        if next(left, None) == 19:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run(raw, tmp_path / "there", url, watch, checkpoint_seconds=0)
    assert not verify(url).problems
    assert verify(url).digest == earlier.seal.digest
    with pytest.raises(StoreError, match="another conversion writes there"):
        run(raw, tmp_path / "elsewhere", url)
    there = run(raw, tmp_path / "there", url)
    assert there.resumed_units == 20
    assert open_store(url).digest == there.seal.digest == here.seal.digest
    assert set(content(endpoint, url)) == {*here.seal.files, "seal.json"}
    for path in raw.iterdir():
        path.write_text("nothing that is a record\n")
    with pytest.raises(RawInputError):
        run(raw, tmp_path / "there", url)
    assert verify(url).digest == here.seal.digest
    assert not verify(url).problems
    assert not content(endpoint, f"{url}.work")


def test_a_switch_that_was_stopped_ends_with_the_next_run(
    endpoint: str, raw: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """At every step of it: the earlier store, no store or the new one, and never a mixture."""
    url = "s3://stores/switched.zarr"
    earlier = run(raw, tmp_path / "there", url)
    (raw / "a.txt").write_text((raw / "a.txt").read_text() + "1 2 3 4\n")
    expected = run(raw, tmp_path / "here").seal.digest
    for step in ("unseal", "_copy", "_delete", "clear"):
        with monkeypatch.context() as patched:
            patched.setattr(Upload, step, lambda *_: (_ for _ in ()).throw(KeyboardInterrupt))
            with pytest.raises(KeyboardInterrupt):
                run(raw, tmp_path / "there", url)
        found = verify(url)
        assert found.digest in {earlier.seal.digest, expected} if not found.problems else not found.digest
        if step in ("_copy", "_delete"):
            with pytest.raises(StoreError, match="was stopped while it put its store there; run it again"):
                open_store(url)
    assert run(raw, tmp_path / "there", url).seal.digest == expected
    assert set(content(endpoint, url)) == {*open_store(url).seal.files, "seal.json"}
    assert not content(endpoint, f"{url}.work")


def test_a_shard_that_somebody_removed_is_noticed_before_the_seal(endpoint: str, raw: Path, tmp_path: Path) -> None:
    url, shard = "s3://stores/removed.zarr", "train/number/c.0"
    left = [shard]

    def watch(*_: int) -> None:
        for name in content(endpoint, f"{url}.work"):
            if left and name.endswith(shard):
                remove(endpoint, f"{url}.work", name)
                left.pop()

    with pytest.raises(DamagedStore, match=r"train/number/c\.0 is missing; .*convert again"):
        run(raw, tmp_path / "there", url, watch)
    with pytest.raises(StoreError, match="there is no sealed store"):
        open_store(url)
    run(raw, tmp_path / "there", url)
    assert json.loads(content(endpoint, url)["seal.json"])["digest"] == open_store(url).digest


@pytest.mark.parametrize("trouble", ["503", "cut"])
def test_a_request_that_fails_is_repeated(
    endpoint: str, raw: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, trouble: str
) -> None:
    with serve_badly(endpoint) as (bad, troubles):
        monkeypatch.setenv("AWS_ENDPOINT_URL", bad)
        troubles.pending += ["", trouble, "", trouble]
        there = run(raw, tmp_path / "there", f"s3://stores/{trouble}.zarr")
        assert troubles.done[trouble] == 2
    monkeypatch.setenv("AWS_ENDPOINT_URL", endpoint)
    assert open_store(f"s3://stores/{trouble}.zarr").digest == there.seal.digest


def test_what_is_missing_is_one_line_before_anything_is_read(endpoint: str, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(StoreError, match=r"^s3://nowhere/a\.zarr: there is no such bucket; make it, or name another$"):
        Upload("s3://nowhere/a.zarr").check()
    monkeypatch.setattr("outofcore.store.remote.RETRIES", 1)
    with serve_badly(endpoint) as (bad, troubles):
        monkeypatch.setenv("AWS_ENDPOINT_URL", bad)
        troubles.always = "503"
        with pytest.raises(
            StoreError, match=r"the list of objects could not be read after 1 retries .*; run again when"
        ) as told:
            Upload("s3://stores/a.zarr").check()
        assert "\n" not in str(told.value)
    monkeypatch.delenv("AWS_ACCESS_KEY_ID")
    with pytest.raises(StoreError, match=r"nothing in the environment says who you are: set AWS_ACCESS_KEY_ID and"):
        Upload("s3://stores/a.zarr").check()
