"""Stores whose metadata or shards somebody has rewritten and sealed anew: every digest and checksum holds."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from outofcore.store.codecs import ChunkCodec
from outofcore.store.seal import SEAL, Seal, describe, read_seal
from outofcore.store.shards import ShardFile

Edit = Callable[[dict[str, Any]], object]


def reseal(root: Path) -> None:
    """Seal whatever is in the folder."""
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
    files = dict(read_seal((root / SEAL).read_text(), "").files)
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
