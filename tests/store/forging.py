"""Stores whose metadata or shards somebody has rewritten and sealed anew: every digest and checksum holds."""

from __future__ import annotations

import json
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np

from outofcore.store.codecs import ChunkCodec
from outofcore.store.seal import CHECKSUMS, SEAL, Seal, describe, read_seal
from outofcore.store.shards import ShardFile

Edit = Callable[[dict[str, Any]], object]


def checksums_on_disk(root: Path) -> bytes:
    """The last four bytes of every chunk, zeros for one that is not stored, by array in the order of their paths."""
    found = b""
    for name in sorted(path.parent.relative_to(root).as_posix() for path in root.rglob("*/zarr.json")):
        document = json.loads((root / name / "zarr.json").read_bytes())
        if document["node_type"] != "array":
            continue
        rows, *inner = document["shape"]
        assert rows < 10**7, "forged"
        shard_rows = document["chunk_grid"]["configuration"]["chunk_shape"][0]
        chunk_rows = document["codecs"][0]["configuration"]["chunk_shape"][0]
        for chunk in range(-(-rows // chunk_rows)):
            shard, place = divmod(chunk, shard_rows // chunk_rows)
            file = root / name / ".".join(["c", str(shard), *["0"] * len(inner)])
            content = file.read_bytes() if file.exists() else b"\xff" * 16 * (place + 1)
            offset, length = np.frombuffer(content, "<u8", 2, 16 * place).tolist()
            found += bytes(4) if offset == 2**64 - 1 else content[offset + length - 4 : offset + length].ljust(4)[:4]
    return found


def reseal(root: Path) -> None:
    """Seal whatever is in the folder."""
    with suppress(Exception):  # of metadata that are refused anyway
        (root / CHECKSUMS).write_bytes(checksums_on_disk(root))
    files = (path.relative_to(root).as_posix() for path in sorted(root.rglob("*")) if path.is_file())
    (root / SEAL).write_text(Seal({name: describe(root, name) for name in files if name != SEAL}).text())


def forge_metadata(root: Path, name: str, edit: Edit) -> None:
    """Edit a ``zarr.json``."""
    document = json.loads((root / name).read_text())
    edit(document)
    (root / name).write_text(json.dumps(document))
    reseal(root)


def forge_text(root: Path, name: str, text: str) -> None:
    """Replace a file."""
    (root / name).write_text(text)
    reseal(root)


def forge_seal(root: Path, edit: Edit) -> None:
    """Edit the list of files, and let the digest follow."""
    files = dict(read_seal((root / SEAL).read_bytes(), "").files)
    edit(files)
    (root / SEAL).write_text(Seal(files).text())


def forge_shard(root: Path, name: str, chunks: int, encoded: list[bytes]) -> None:
    """Replace a shard by one of these encoded chunks."""
    shard = ShardFile(root / name, chunks)
    for chunk in encoded:
        shard.append(chunk)
    shard.finish()
    reseal(root)


def forge_column(root: Path, name: str, values: list[int]) -> None:
    """Replace the numbers of a sequence column with codec zstd, in a table of one chunk."""
    chunk = np.zeros(4096, np.int64)
    chunk[: len(values)] = values
    forge_shard(root, f"{name}/c.0", 256, [ChunkCodec("zstd", 1, "int64").encode(chunk)])
