"""An S3 server on loopback, and one in front of it that behaves badly."""

from __future__ import annotations

import http.client
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler
from pathlib import Path

import pytest

from outofcore.store.connection import kind_of
from tests.served import served

obstore = pytest.importorskip("obstore", reason="the extra 's3' is not installed")
S3Store = pytest.importorskip("obstore.store").S3Store

KEYS = {"AWS_ACCESS_KEY_ID": "reader", "AWS_SECRET_ACCESS_KEY": "secret", "AWS_REGION": "us-east-1"}


def point_to(endpoint: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Have ``s3://`` mean this endpoint, with its keys and no others."""
    for name in kind_of("s3://").identities:
        monkeypatch.delenv(name, raising=False)
    for name, value in {**KEYS, "AWS_ENDPOINT_URL": endpoint}.items():
        monkeypatch.setenv(name, value)


@contextmanager
def serve() -> Iterator[str]:
    """The endpoint of a server with an empty bucket ``stores``."""
    program = (
        "from moto.server import create_backend_app\n"
        "from werkzeug.serving import make_server\n"
        "server = make_server('127.0.0.1', 0, create_backend_app('s3'), threaded=True)\n"
        "print(server.server_port, flush=True)\n"
        "server.serve_forever()\n"
    )
    process = subprocess.Popen(
        [sys.executable, "-c", program], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    )
    try:
        assert process.stdout is not None
        port = int(process.stdout.readline())
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
        connection.request("PUT", "/stores")
        assert connection.getresponse().status == 200
        connection.close()
        yield f"http://127.0.0.1:{port}"
    finally:
        process.kill()
        process.communicate()


def upload(folder: Path, endpoint: str, name: str) -> str:
    """Copy a store into the bucket; gives its address."""
    bucket = _bucket(endpoint)
    for path in folder.rglob("*"):
        if path.is_file():
            obstore.put(bucket, f"{name}/{path.relative_to(folder).as_posix()}", path)
    return f"s3://stores/{name}"


def put_objects(endpoint: str, url: str, objects: dict[str, bytes]) -> None:
    """Put objects below an address."""
    for name, value in objects.items():
        obstore.put(_bucket(endpoint), f"{url.removeprefix('s3://stores/')}/{name}", value)


def remove(endpoint: str, url: str, name: str) -> None:
    """Remove one object of a store."""
    obstore.delete(_bucket(endpoint), f"{url.removeprefix('s3://stores/')}/{name}")


def content(endpoint: str, url: str) -> dict[str, bytes]:
    """All objects of a store by their names in it."""
    bucket, folder = _bucket(endpoint), url.removeprefix("s3://stores/")
    names = [each["path"] for page in obstore.list(bucket, folder) for each in page]
    return {name.removeprefix(f"{folder}/"): bytes(obstore.get(bucket, name).bytes()) for name in names}


def _bucket(endpoint: str) -> S3Store:
    keys = {key.lower().removeprefix("aws_"): value for key, value in KEYS.items()}
    return S3Store("stores", endpoint=endpoint, client_options={"allow_http": True}, **keys)


class Troubles:
    """What the bad server does next: ``"503"``, ``"cut"`` in mid-body, ``"stall"``; counts requests by method."""

    def __init__(self) -> None:
        self.pending: list[str] = []
        self.always = ""
        self.delay = 0.0  # seconds, of each request
        self.done: Counter[str] = Counter()
        self.seen: Counter[str] = Counter()
        self.asked: list[str] = []  # paths of all requests
        self.waits: list[tuple[float, float]] = []  # from when to when each was delayed
        self._lock = threading.Lock()

    def rounds(self) -> int:
        """The most requests of which each came after the one before had waited."""
        rounds, over = 0, float("-inf")
        for began, ended in sorted(self.waits, key=lambda wait: wait[1]):
            if began >= over:
                rounds, over = rounds + 1, ended
        return rounds

    def next(self, method: str, path: str) -> str:
        with self._lock:
            self.seen[method] += 1
            self.asked.append(path)
            trouble = self.always or (self.pending.pop(0) if self.pending else "")
            self.done[trouble] += bool(trouble)
            return trouble


@contextmanager
def serve_badly(endpoint: str) -> Iterator[tuple[str, Troubles]]:
    """A server that passes requests on to another, but for the troubles that it makes."""
    troubles = Troubles()
    host = endpoint.removeprefix("http://")

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        disable_nagle_algorithm = True  # a body that follows its header is not held back for 40 ms

        def handle_any(self) -> None:
            trouble = troubles.next(self.command, self.path)
            began = time.monotonic()
            time.sleep(troubles.delay)
            troubles.waits.append((began, time.monotonic()))
            if trouble == "503":
                self.rfile.read(int(self.headers.get("Content-Length") or 0))
                self.send_response(503)
                self.send_header("Content-Length", "0")
                self.end_headers()
                return
            if trouble == "stall":
                time.sleep(3)
                self.close_connection = True
                return
            connection = http.client.HTTPConnection(host, timeout=60)
            headers = {name: value for name, value in self.headers.items() if name.lower() != "connection"}
            sent = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            connection.request(self.command, self.path, body=sent, headers=headers)
            answer = connection.getresponse()
            body = answer.read()
            connection.close()
            self.send_response(answer.status)
            for name, value in answer.getheaders():
                if name.lower() not in {"transfer-encoding", "connection", "server", "date"}:
                    self.send_header(name, value)
            self.end_headers()
            if self.command != "HEAD":
                self.wfile.write(body[: len(body) // 2] if trouble == "cut" else body)
            if trouble == "cut":
                self.close_connection = True

        do_GET = do_HEAD = do_PUT = do_POST = do_DELETE = handle_any  # noqa: N815

        def log_message(self, *_: object) -> None:
            pass

    with served(Handler) as address:
        yield address, troubles
