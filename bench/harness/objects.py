"""Serve the files of a folder as S3 would, for reading: objects, ranges of them, and their list.

    python -m harness.objects FOLDER

Prints its port. A folder in it is a bucket. It checks no key, and does nothing else, so that it answers thousands of
requests per second on one core.
"""

from __future__ import annotations

import asyncio
import os
import re
import sys
from functools import cache
from pathlib import Path
from urllib.parse import parse_qs, unquote, urlsplit
from xml.sax.saxutils import escape

SINCE = "Thu, 01 Jan 2026 00:00:00 GMT"
RANGE = re.compile(rb"\r\nrange: *bytes=(\d+)-(\d+)\r\n", re.IGNORECASE)


class Objects(asyncio.Protocol):
    """A connection."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.waiting = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self.transport = transport

    def data_received(self, data: bytes) -> None:
        *requests, self.waiting = (self.waiting + data).split(b"\r\n\r\n")
        for request in requests:
            _, address, _ = request.partition(b"\r\n")[0].decode().split(" ")
            path, query = unquote(urlsplit(address).path), parse_qs(urlsplit(address).query)
            if "list-type" in query:
                self.answer(200, listed(self.folder / path.strip("/"), query.get("prefix", [""])[0]))
            elif found := opened(Path(f"{self.folder}{path}")):
                file, size = found
                asked = RANGE.search(request + b"\r\n")
                first, last = (int(asked[1]), min(int(asked[2]), size - 1)) if asked else (0, size - 1)
                part = f"Content-Range: bytes {first}-{last}/{size}\r\n" if asked else ""
                self.answer(206 if asked else 200, os.pread(file, last + 1 - first, first), part)
            else:
                self.answer(404, b"<Error><Code>NoSuchKey</Code></Error>")

    def answer(self, status: int, content: bytes, more: str = "") -> None:
        about = f'Content-Length: {len(content)}\r\nLast-Modified: {SINCE}\r\nETag: "0"\r\n{more}'
        self.transport.write(f"HTTP/1.1 {status} \r\n{about}\r\n".encode() + content)


@cache
def opened(path: Path) -> tuple[int, int] | None:
    """Descriptor and size of a file, which stays open; None if there is none."""
    return (os.open(path, os.O_RDONLY), path.stat().st_size) if path.is_file() else None


def listed(bucket: Path, prefix: str) -> bytes:
    """All objects with a prefix, on one page."""
    files = {
        path.relative_to(bucket).as_posix(): path.stat().st_size for path in sorted(bucket.rglob("*")) if path.is_file()
    }
    contents = "".join(
        f"<Contents><Key>{escape(name)}</Key><LastModified>2026-01-01T00:00:00.000Z</LastModified>"
        f"<ETag>0</ETag><Size>{size}</Size></Contents>"
        for name, size in files.items()
        if name.startswith(prefix)
    )
    return f"<ListBucketResult><IsTruncated>false</IsTruncated>{contents}</ListBucketResult>".encode()


async def serve(folder: Path) -> None:
    server = await asyncio.get_running_loop().create_server(lambda: Objects(folder), "127.0.0.1", 0)
    sys.stdout.write(f"{server.sockets[0].getsockname()[1]}\n")
    sys.stdout.flush()
    await server.serve_forever()


if __name__ == "__main__":
    asyncio.run(serve(Path(sys.argv[1])))
