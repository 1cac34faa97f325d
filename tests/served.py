"""A web server on loopback, for as many connections at once as a loader opens, and one of files by ranges."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import ClassVar


class Server(ThreadingHTTPServer):
    """With the usual queue of five, connections are refused, and the system opens them again after seconds."""

    request_queue_size = 128


@contextmanager
def served(handler: Callable[..., BaseHTTPRequestHandler]) -> Iterator[str]:
    """The address of a server of this handler."""
    with Server(("127.0.0.1", 0), handler) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}"
        finally:
            server.shutdown()
            thread.join()


class Ranges(SimpleHTTPRequestHandler):
    """Ranges of files, with their versions where it has them; what was asked for is kept."""

    asked: ClassVar[list[str]] = []
    versions = True

    def do_GET(self) -> None:
        path = Path(self.translate_path(self.path))
        self.asked.append(self.path)
        if not path.is_file():
            self.send_error(404)
            return
        content, version = path.read_bytes(), f'"{path.stat().st_mtime_ns}"'
        if self.versions and self.headers.get("If-Match", version) != version:
            self.send_error(412)
            return
        first, last = self.headers.get("Range", "bytes=0-").removeprefix("bytes=").split("-")
        span = slice(int(first), int(last or len(content) - 1) + 1) if first else slice(-int(last), len(content))
        start, stop, _ = span.indices(len(content))
        self.send_response(206 if "Range" in self.headers else 200)
        self.send_header("Content-Range", f"bytes {start}-{stop - 1}/{len(content)}")
        self.send_header("Content-Length", str(stop - start))
        self.send_header("Last-Modified", self.date_time_string(path.stat().st_mtime))
        if self.versions:
            self.send_header("ETag", version)
        self.end_headers()
        if self.command == "GET":
            self.wfile.write(content[span])

    do_HEAD = do_GET  # noqa: N815

    def log_message(self, *words: object) -> None: ...
