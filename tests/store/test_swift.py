"""Stores on a real S3 server: OpenStack Swift, with a proxy and three storage servers on this machine.

Debian has it: ``apt-get install swift-proxy swift-account swift-container swift-object``. Run by
``pytest -m apart tests/store/test_swift.py`` as root.
"""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import numpy as np
import pytest

import outofcore
from outofcore.domains.registry import get_domain
from tests.store.object_storage import KEYS, point_to, upload

boto3 = pytest.importorskip("boto3")

USER = "test:reader"  # of an account
SERVERS = ("account", "container", "object", "proxy")
pytestmark = [
    pytest.mark.apart,
    pytest.mark.root,
    pytest.mark.skipif(os.geteuid() != 0, reason="needs root, to start Swift"),
    pytest.mark.skipif(
        not all(shutil.which(f"swift-{server}-server") for server in SERVERS), reason="needs Swift's four servers"
    ),
]
DEFAULT = """[DEFAULT]
bind_ip = 127.0.0.1
bind_port = {port}
workers = 1
user = root
swift_dir = {folder}
devices = {folder}/devices
mount_check = false
log_level = ERROR
"""
STORAGE = """[pipeline:main]
pipeline = {server}-server
[app:{server}-server]
use = egg:swift#{server}
"""
PROXY = """[pipeline:main]
pipeline = cache s3api tempauth copy proxy-server
[app:proxy-server]
use = egg:swift#proxy
account_autocreate = true
[filter:cache]
use = egg:swift#memcache
[filter:s3api]
use = egg:swift#s3api
location = us-east-1
[filter:tempauth]
use = egg:swift#tempauth
user_test_reader = secret .admin
[filter:copy]
use = egg:swift#copy
"""


@pytest.fixture(scope="module")
def swift(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The endpoint of a cluster with an empty bucket ``stores``."""
    folder = tmp_path_factory.mktemp("swift")
    (folder / "devices/d1").mkdir(parents=True)
    with ExitStack() as stack:
        for server in SERVERS:
            port = _free_port()
            if server != "proxy":
                for action in (("create", "4", "1", "0"), ("add", f"r1z1-127.0.0.1:{port}/d1", "1"), ("rebalance",)):
                    ring = ["swift-ring-builder", str(folder / f"{server}.builder"), *action]
                    subprocess.run(ring, check=True, capture_output=True)
            file = folder / f"{server}.conf"
            rest = PROXY if server == "proxy" else STORAGE.format(server=server)
            file.write_text(DEFAULT.format(port=port, folder=folder) + rest)
            with (folder / f"{server}.log").open("wb") as log:
                process = subprocess.Popen([f"swift-{server}-server", str(file)], stdout=log, stderr=log)
            stack.callback(process.wait)
            stack.callback(process.terminate)
            _wait_for(port)
        endpoint = f"http://127.0.0.1:{port}"
        client = boto3.client(
            "s3",
            endpoint_url=endpoint,
            region_name=KEYS["AWS_REGION"],
            aws_access_key_id=USER,
            aws_secret_access_key=KEYS["AWS_SECRET_ACCESS_KEY"],
        )
        client.create_bucket(Bucket="stores")
        yield endpoint


def _free_port() -> int:
    with socket.socket() as opened:
        opened.bind(("127.0.0.1", 0))
        port: int = opened.getsockname()[1]
        return port


def _wait_for(port: int) -> None:
    for _ in range(300):
        with socket.socket() as opened:
            if opened.connect_ex(("127.0.0.1", port)) == 0:
                return
        time.sleep(0.1)
    pytest.fail("a server of Swift does not answer")


@pytest.fixture
def endpoint(swift: str, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setitem(KEYS, "AWS_ACCESS_KEY_ID", USER)
    point_to(swift, monkeypatch)
    return swift


def cli(*words: str) -> subprocess.CompletedProcess[str]:
    """Run ``outofcore`` in a process of its own."""
    return subprocess.run([sys.executable, "-m", "outofcore", *words], capture_output=True, text=True, check=False)


@pytest.fixture(scope="module")
def raw(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("games")
    get_domain("chess").sample(folder, np.random.default_rng(0))
    return folder


def test_a_store_that_was_copied_there_gives_the_batches_of_the_local_one(
    endpoint: str, raw: Path, tmp_path: Path
) -> None:
    store = tmp_path / "chess.zarr"
    digest = outofcore.convert("chess", raw, store, store={"chunk_rows": 512, "shard_rows": 1024})["digest"]
    address = upload(store, endpoint, "chess.zarr")
    there = outofcore.open_store(address)
    assert there.digest == digest
    assert cli("verify", address).returncode == 0
    for epoch in range(2):
        loaders = [outofcore.loader(each, "train", 256, memory="64MiB") for each in (store, there)]
        for loader in loaders:
            loader.set_epoch(epoch)
        for here, remote in zip(*loaders, strict=True):
            assert here.keys() == remote.keys()
            for name in here:
                np.testing.assert_array_equal(here[name], remote[name])
