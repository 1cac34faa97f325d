"""One connection for stores and other people's Zarrs: the same settings, and no credentials in what is said."""

from __future__ import annotations

import pickle
import threading
import time
import traceback
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import zarr
from typer.testing import CliRunner

import outofcore
from outofcore.cli import app
from outofcore.errors import DamagedStore, OutOfCoreError, StoreError
from outofcore.store.connection import shown, what_failed, without_secrets
from outofcore.store.reader import open_store
from outofcore.store.remote import RemoteFiles
from outofcore.store.verify import verify
from tests.served import Ranges, served
from tests.store.object_storage import upload

pytestmark = pytest.mark.xdist_group("object storage")

SECRET = "S3CRET"  # that no message may hold
TEMPLATES = (
    f"://user:{SECRET}@127.0.0.1:9/a.zarr",
    f"://{SECRET}@127.0.0.1:9/a.zarr",
    f"://user:a/{SECRET}@bucket/a.zarr",
    f":/user:{SECRET}@127.0.0.1:9/a.zarr",
    f"://127.0.0.1:9/a.zarr?sv=1&sig={SECRET}",
    f"://127.0.0.1:9/a.zarr#{SECRET}",
    f"://user:{SECRET}",
)
SCHEMES = ("s3", "gs", "gcs", "az", "adl", "abfs", "abfss", "azure", "http", "https", "ftp")


@pytest.mark.parametrize("scheme", SCHEMES)
def test_credentials_of_an_address_are_never_shown(scheme: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither by a refusal of any way to open it, its causes, nor by a command."""
    monkeypatch.setattr("outofcore.store.connection.RETRIES", 0)
    for address in (scheme + template for template in TEMPLATES):
        assert SECRET not in shown(address)
        if "://" in address:
            assert SECRET not in without_secrets(f"GET {address}/seal.json failed")
        ways: list[Callable[[], Any]] = [
            partial(outofcore.loader, address, "train", 4, fields=("x",)),
            partial(outofcore.open_store, address),
            partial(outofcore.open_zarr, address, ["x"]),
            partial(outofcore.open_tokens, f"{address}.bin", "uint16"),
            partial(outofcore.write_store, address, {"x": np.arange(3)}),
            partial(outofcore.convert, "chess", "games", address),
        ]
        for way in ways:
            with pytest.raises(OutOfCoreError) as refused:
                way()
            assert SECRET not in "".join(traceback.format_exception(refused.value)).replace(repr(address), "")
        assert SECRET not in str(verify(address))
        assert SECRET not in CliRunner().invoke(app, ["info", address]).output


def test_addresses_without_credentials_are_shown_whole() -> None:
    for address in ("s3://bucket/a@b.zarr", "https://host:8080/a.zarr", "http://[::1]:8/a", "az://c/a", "a/b.zarr"):
        assert shown(address) == address


def test_what_the_environment_keeps_secret_is_not_said(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("AWS_SECRET_ACCESS_KEY", "AZURE_STORAGE_ACCOUNT_KEY", "AZURE_STORAGE_SAS_KEY", "GOOGLE_API_TOKEN"):
        monkeypatch.setenv(name, f"{name[:2]}+{SECRET}")
        assert SECRET not in without_secrets(f"signature of {name[:2]}+{SECRET} is wrong")


def test_retries_are_said_where_there_were_some() -> None:
    refused = RuntimeError("Generic S3 error: no such route")
    retried = RuntimeError("Generic S3 error: Error after 15 retries in 25 s, max_retries:15")
    assert "retries" not in what_failed("s3://b/a", "seal.json", refused)
    assert "seal.json could not be read after 15 retries (" in what_failed("s3://b/a", "seal.json", retried)


@pytest.mark.parametrize("name", ["AWS_ENDPOINT_URL", "AWS_ENDPOINT_URL_S3"])
def test_one_setting_of_the_endpoint_is_for_stores_and_for_other_zarrs(
    make_store: Callable[..., Path], endpoint: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.delenv("AWS_ENDPOINT_URL")
    monkeypatch.setenv(name, endpoint)
    local = make_store()
    zarr.open_group(tmp_path / "x.zarr", mode="w").create_array("x", data=np.arange(100), chunks=(10,))
    sealed, other = upload(local, endpoint, f"{name}/a.zarr"), upload(tmp_path / "x.zarr", endpoint, f"{name}/x.zarr")
    assert open_store(sealed).digest == open_store(local).digest
    (batch,) = outofcore.loader(other, "train", 100, shuffle=False)
    assert batch["x"].tolist() == list(range(100))
    monkeypatch.delenv("AWS_ACCESS_KEY_ID")
    began = time.perf_counter()
    for address in (sealed, other):
        with pytest.raises(StoreError, match=r"nothing in the environment says who you are"):
            outofcore.loader(address)
    assert time.perf_counter() - began < 60  # a client that looks for keys in a cloud takes minutes


def test_an_answer_that_a_proxy_has_shortened_is_asked_for_again(
    make_store: Callable[..., Path], endpoint: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    local = make_store()
    store, short = open_store(upload(local, endpoint, "short.zarr")), iter([True, True])
    get = RemoteFiles._get

    def shortened(self: RemoteFiles, name: str, **options: Any) -> Any:
        answer = get(self, name, **options)
        assert answer
        return (answer[0][:-1], answer[1]) if next(short, False) else answer

    monkeypatch.setattr(RemoteFiles, "_get", shortened)
    np.testing.assert_array_equal(store.rows("train")["move"].read(), open_store(local).rows("train")["move"].read())
    assert not [*short]


def test_a_storage_that_lists_no_versions_has_the_same_store(
    make_store: Callable[..., Path], endpoint: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    local = make_store()
    address, objects = upload(local, endpoint, "tagless.zarr"), RemoteFiles._objects
    monkeypatch.setattr(
        RemoteFiles,
        "_objects",
        lambda self: {name: {**facts, "e_tag": None} for name, facts in objects(self).items()},
    )
    assert open_store(address).digest == open_store(local).digest


def test_stores_of_a_process_share_the_threads_of_their_requests(
    make_store: Callable[..., Path], endpoint: str
) -> None:
    local = make_store()
    stores = [open_store(upload(local, endpoint, f"{number}.zarr")) for number in range(3)]
    for store in stores:
        store.rows("train")["move"].read()
    own = [thread for thread in threading.enumerate() if thread.name.startswith("requests")]
    assert 0 < len(own) <= 32


class Unversioned(Ranges):
    """Serves no versions."""

    versions = False


def test_a_store_behind_a_web_server_is_sealed_there_too(make_store: Callable[..., Path]) -> None:
    local = make_store()
    with served(partial(Unversioned, directory=str(local.parent))) as server:
        address = f"{server}/{local.name}"
        store, here = open_store(address), open_store(local)
        assert pickle.loads(pickle.dumps(store)).digest == store.digest == here.digest
        np.testing.assert_array_equal(store.rows("train")["move"].read(), here.rows("train")["move"].read())
        assert not verify(address).problems
        for path in (address, Path(address)):
            assert CliRunner().invoke(app, ["info", str(path)]).exit_code == 0
        (local / "train/move/c.0").unlink()
        with pytest.raises(DamagedStore, match=r"train/move/c\.0 is missing"):
            open_store(address)
