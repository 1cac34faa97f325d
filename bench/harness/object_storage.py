"""An S3 server of a folder, in a process of its own: it only reads, answers late, and can refuse for a while."""

from __future__ import annotations

import multiprocessing
import os
import re
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from multiprocessing.sharedctypes import Synchronized
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit
from xml.sax.saxutils import escape

_SPAWN = multiprocessing.get_context("spawn")


@dataclass
class Served:
    """A server, seen from the process that started it."""

    endpoint: str
    requests: Synchronized[int]  # answered
    bytes: Synchronized[int]  # of their content
    refuses_until: Synchronized[float]  # by time.monotonic(), all requests, with 503

    def counts(self) -> tuple[int, int]:
        return self.requests.value, self.bytes.value


@contextmanager
def serve(folder: Path, delay: float) -> Iterator[Served]:
    """Serve the folders in a folder as buckets, each request ``delay`` seconds late."""
    requests, size, until = _SPAWN.Value("q"), _SPAWN.Value("q"), _SPAWN.Value("d")
    receiving, telling = _SPAWN.Pipe(duplex=False)
    server = _SPAWN.Process(target=_serve, args=(folder, delay, telling, requests, size, until), daemon=True)
    server.start()
    try:
        yield Served(f"http://127.0.0.1:{receiving.recv()}", requests, size, until)
    finally:
        server.terminate()
        server.join()


def _serve(folder: Path, delay: float, telling: Any, requests: Any, size: Any, until: Any) -> None:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        wbufsize = 1 << 16

        def do_GET(self) -> None:
            time.sleep(delay)
            url = urlsplit(self.path)
            if time.monotonic() < until.value:
                return self.reply(503, b"")
            if "list-type" in (query := parse_qs(url.query)):
                return self.reply(200, _listed(folder / url.path.strip("/"), query["prefix"][0]))
            path = folder / url.path.strip("/")
            if not path.is_file():
                return self.reply(404, b"<Error><Code>NoSuchKey</Code></Error>")
            whole = path.stat().st_size
            wanted = re.fullmatch(r"bytes=(\d+)-(\d+)", self.headers.get("Range", f"bytes=0-{whole - 1}"))
            assert wanted
            first, last = int(wanted[1]), min(int(wanted[2]), whole - 1)
            with path.open("rb") as stream:
                content = os.pread(stream.fileno(), last - first + 1, first)
            partial = {"Content-Range": f"bytes {first}-{last}/{whole}"} if "Range" in self.headers else {}
            return self.reply(206 if partial else 200, content, {"ETag": f'"{path.stat().st_mtime_ns}"', **partial})

        def reply(self, status: int, content: bytes, headers: dict[str, str] | None = None) -> None:
            with requests.get_lock():
                requests.value += status != 503
                size.value += len(content)
            self.send_response_only(status)
            self.send_header("Last-Modified", "Thu, 01 Jan 2026 00:00:00 GMT")
            self.send_header("Content-Length", str(len(content)))
            for name, value in (headers or {}).items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(content)

    class Server(ThreadingHTTPServer):
        daemon_threads = True
        request_queue_size = 128

    server = Server(("127.0.0.1", 0), Handler)
    telling.send(server.server_port)
    server.serve_forever()


def _listed(bucket: Path, prefix: str) -> bytes:
    """The answer to ListObjectsV2, of one page."""
    files = sorted(path for path in (bucket / prefix).rglob("*") if path.is_file())
    entries = "".join(
        f"<Contents><Key>{escape(path.relative_to(bucket).as_posix())}</Key><Size>{path.stat().st_size}</Size>"
        f"<LastModified>2026-01-01T00:00:00.000Z</LastModified><ETag>&quot;{path.stat().st_mtime_ns}&quot;</ETag></Contents>"
        for path in files
    )
    return f"<ListBucketResult><IsTruncated>false</IsTruncated>{entries}</ListBucketResult>".encode()
