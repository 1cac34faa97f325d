"""Reading a sealed store: lazily, chunk by chunk, each checked against its checksum."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from outofcore.errors import DamagedStore, StoreError
from outofcore.store.codecs import ChunkCodec, codec_of
from outofcore.store.files import Files, LocalFiles
from outofcore.store.remote import RemoteFiles, url_of
from outofcore.store.seal import ADVICE, SEAL, Seal, read_seal
from outofcore.store.shards import EMPTY, index_bytes, shard_name


class Array:
    """One field of a table, cut into chunks and shards along its first axis.

    Attributes
    ----------
    files
        Where its shards lie.
    path
        Its path in the store, ``train/boards``.
    shape, dtype
        Of the whole array; text has dtype object.
    chunk_rows, shard_rows
        Rows of a chunk and of a shard file.
    codec
        How its chunks are encoded.
    attributes
        What the metadata says of it; ``doc`` among them.
    """

    def __init__(self, files: Files, path: str, metadata: Mapping[str, Any]) -> None:
        self.files = files
        self.path = path
        self.name = path.rsplit("/", 1)[-1]
        self.shape: tuple[int, ...] = tuple(metadata["shape"])
        text = metadata["data_type"] == "string"
        self.dtype: np.dtype[Any] = np.dtype(object) if text else np.dtype(metadata["data_type"])
        self.fill = metadata["fill_value"]
        self.attributes: dict[str, Any] = metadata.get("attributes", {})
        self.shard_rows: int = metadata["chunk_grid"]["configuration"]["chunk_shape"][0]
        self.chunk_rows: int = metadata["codecs"][0]["configuration"]["chunk_shape"][0]
        self.codec: ChunkCodec = codec_of(dict(metadata), "string" if text else str(self.dtype))
        self._indexes: dict[int, npt.NDArray[np.uint64] | None] = {}

    def __len__(self) -> int:
        return self.shape[0]

    def __repr__(self) -> str:
        return f"Array({self.path}, shape={self.shape}, dtype={self.dtype}, codec={self.codec.name})"

    @property
    def row_bytes(self) -> int:
        """Decoded bytes of one row (a pointer for text)."""
        return int(self.dtype.itemsize * np.prod(self.shape[1:], dtype=np.int64))

    @property
    def chunks(self) -> int:
        """Number of chunks."""
        return -(-len(self) // self.chunk_rows)

    def shard_file(self, number: int) -> str:
        """Path of a shard in the store; a shard that holds nothing but the fill value has no file."""
        return f"{self.path}/{shard_name(number, len(self.shape))}"

    def shard_path(self, number: int) -> Path:
        """Where a shard's file lies, for memory mapping."""
        return self.files.path(self.shard_file(number))

    def index(self, shard: int) -> npt.NDArray[np.uint64] | None:
        """Offset and length of each chunk of a shard, shape (chunks, 2), read once; None for a shard without a file.

        Raises
        ------
        DamagedStore
            If the index is not what was written.
        """
        if shard not in self._indexes:
            name = self.shard_file(shard)
            self._indexes[shard] = self._read_index(name) if self.files.exists(name) else None
        return self._indexes[shard]

    def _read_index(self, name: str) -> npt.NDArray[np.uint64]:
        chunks = self.shard_rows // self.chunk_rows
        raw = self.files.read(name, 0, index_bytes(chunks))
        plain = np.empty((chunks, 2), "<u8")
        try:
            ChunkCodec("none", 0, "uint64").decode(raw, plain)
        except DamagedStore as error:
            message = f"{self.files.root}: index of shard {name} is damaged; {ADVICE}"
            raise DamagedStore(message) from error
        return plain

    def locate(self, number: int) -> tuple[int, int, int] | None:
        """Shard, offset in its file and encoded length of a chunk; None for one that holds the fill value only."""
        shard, place = divmod(number, self.shard_rows // self.chunk_rows)
        index = self.index(shard)
        if index is None or index[place, 0] == EMPTY:
            return None
        return shard, int(index[place, 0]), int(index[place, 1])

    def chunk(self, number: int, out: npt.NDArray[Any]) -> int:
        """Decode a chunk into ``out`` (chunk_rows, ...), C-contiguous.

        Returns
        -------
        Bytes read from the store.

        Raises
        ------
        DamagedStore
            If a bit of it has changed; names store, field and shard.
        """
        place = self.locate(number)
        if place is None:
            out[...] = self.fill
            return 0
        shard, offset, length = place
        self.decode(number, self.files.read(self.shard_file(shard), offset, length), out)
        return length

    def decode(self, number: int, encoded: bytes, out: npt.NDArray[Any] | None) -> None:
        """Check the bytes of a chunk and decode them into ``out``; with None, only check them.

        Raises
        ------
        DamagedStore
            If a bit of them has changed; names store, field and shard.
        """
        try:
            if out is None:
                self.codec.check(encoded)
            else:
                self.codec.decode(encoded, out)
        except (DamagedStore, RuntimeError, ValueError) as error:
            shard = self.shard_file(number * self.chunk_rows // self.shard_rows)
            message = (
                f"{self.files.root}: field {self.path}, shard {shard}, chunk {number} "
                f"(rows from {number * self.chunk_rows}) is damaged: {error}; {ADVICE}"
            )
            raise DamagedStore(message) from error

    def read(self, start: int = 0, stop: int | None = None, out: npt.NDArray[Any] | None = None) -> npt.NDArray[Any]:
        """Decoded rows ``start`` to ``stop`` (exclusive), into ``out`` where given.

        Raises
        ------
        IndexError
            If the range does not lie inside the array.
        """
        stop = len(self) if stop is None else stop
        if not 0 <= start <= stop <= len(self):
            message = f"{self.path}: expected rows inside 0..{len(self)}, got {start}..{stop}"
            raise IndexError(message)
        if out is None:
            out = np.empty((stop - start, *self.shape[1:]), self.dtype)
        size = self.chunk_rows
        for number in range(start // size, -(-stop // size)):
            first, last = max(start, number * size), min(stop, (number + 1) * size)
            target = out[first - start : last - start]
            if last - first == size and target.flags.c_contiguous:
                self.chunk(number, target)
            else:
                scratch = np.empty((size, *self.shape[1:]), self.dtype)
                self.chunk(number, scratch)
                target[...] = scratch[first - number * size : last - number * size]
        return out


class Table:
    """Arrays that share their first axis.

    Attributes
    ----------
    path
        Group in the store.
    fields
        The arrays by name.
    """

    def __init__(self, path: str, fields: dict[str, Array]) -> None:
        self.path = path
        self.fields = fields

    def __len__(self) -> int:
        return len(next(iter(self.fields.values())))

    def __getitem__(self, name: str) -> Array:
        """A field by name; an unknown one is named with those that there are."""
        if name not in self.fields:
            message = f"{self.path}: no field {name!r}; there are {', '.join(sorted(self.fields))}"
            raise StoreError(message)
        return self.fields[name]

    def read(self, start: int = 0, stop: int | None = None) -> dict[str, npt.NDArray[Any]]:
        """All fields of a range of rows."""
        return {name: array.read(start, stop) for name, array in self.fields.items()}


class Store:
    """A sealed store; made by :func:`open_store`.

    Attributes
    ----------
    root
        Where it lies.
    seal
        Its files with sizes and digests.
    attributes
        What was said of it at conversion: domain, params, counts.
    """

    def __init__(self, files: Files, seal: Seal, metadata: Mapping[str, Mapping[str, Any]]) -> None:
        self.root = files.root
        self.seal = seal
        self.attributes: dict[str, Any] = dict(metadata["zarr.json"].get("attributes", {}))
        self._metadata = metadata
        self._files = files

    def __repr__(self) -> str:
        return f"Store({str(self.root)!r}, domain={self.domain!r}, digest={self.digest[:12]!r})"

    @property
    def digest(self) -> str:
        """SHA-256 over all files: equal digests, equal bytes."""
        return self.seal.digest

    @property
    def domain(self) -> str:
        """Name of the domain that made it."""
        return str(self.attributes["domain"])

    @property
    def parts(self) -> tuple[str, ...]:
        """Names of the parts; ``("",)`` where there is one."""
        return tuple(self.attributes["parts"])

    @property
    def splits(self) -> tuple[str, ...]:
        """Names of the splits."""
        return tuple(self.attributes["splits"])

    @cached_property
    def sources(self) -> Table:
        """One row a raw file: name, digest, bytes, found, accepted, rejected."""
        return self._table("sources")

    def rows(self, split: str, part: str = "") -> Table:
        """The rows of a split."""
        return self._table(self._path(split, part))

    def sequences(self, split: str, part: str = "") -> Table:
        """The sequences of a split: ``start`` and ``length`` (int64), and their columns."""
        return self._table(f"{self._path(split, part)}/sequences")

    def part_attributes(self, part: str) -> dict[str, Any]:
        """What was said of a part at conversion."""
        name = f"{part}/zarr.json" if part else "zarr.json"
        return dict(self._metadata[name].get("attributes", {}))

    def stored_bytes(self, array: Array) -> int:
        """Bytes of an array's shards on disk."""
        return sum(size for name, (size, _) in self.seal.files.items() if name.startswith(f"{array.path}/c."))

    def _path(self, split: str, part: str) -> str:
        if split not in self.splits or part not in self.parts:
            message = (
                f"{self.root}: no split {split!r} of part {part!r}; "
                f"there are splits {', '.join(self.splits)} and parts {', '.join(map(repr, self.parts))}"
            )
            raise StoreError(message)
        return f"{part}/{split}" if part else split

    def _table(self, path: str) -> Table:
        fields = {}
        for name in sorted(self._metadata):
            folder, _, file = name.rpartition("/")
            group, _, field = folder.rpartition("/")
            if file == "zarr.json" and group == path and self._metadata[name]["node_type"] == "array":
                fields[field] = Array(self._files, folder, self._metadata[name])
        return Table(path, fields)


def open_store(path: str | Path) -> Store:
    """Open a sealed store for reading.

    Checks the seal, every metadata file against its digest, and the presence and size of every shard; the shards' bytes
    are checked chunk by chunk as they are read, and all at once by ``outofcore verify``.

    Parameters
    ----------
    path
        The store's folder, or its address in an object storage: ``s3://bucket/stores/chess.zarr``.

    Raises
    ------
    StoreError
        If there is no store, it is not sealed, or the object storage gives no access.
    DamagedStore
        If a file is missing, of another size, or its metadata has changed.
    """
    url = url_of(path)
    if url:
        return _open_remote(url)
    root = Path(path)
    if not (root / SEAL).is_file():
        what = "is not a sealed store" if root.is_dir() else "does not exist"
        message = f"{root}: {what}; run 'dvc repro' to convert, or 'dvc pull' to fetch it"
        raise StoreError(message)
    seal = read_seal((root / SEAL).read_text("utf-8", "replace"), str(root))
    metadata: dict[str, dict[str, Any]] = {}
    for name, (size, digest) in seal.files.items():
        file = root / name
        if not file.is_file() or file.stat().st_size != size:
            what = f"has {file.stat().st_size} bytes, expected {size}" if file.is_file() else "is missing"
            message = f"{root}: {name} {what}; {ADVICE}"
            raise DamagedStore(message)
        if name.endswith("zarr.json"):
            metadata[name] = _metadata(root, name, file.read_bytes(), digest)
    return Store(LocalFiles(root, seal.files), seal, metadata)


def _open_remote(url: str) -> Store:
    files = RemoteFiles(url)
    seal = read_seal(files.seal().decode("utf-8", "replace"), url)
    files.compare(seal.files)
    names = [name for name in seal.files if name.endswith("zarr.json")]
    content: dict[str, bytes] = {}
    files.each(lambda name: content.update({name: files.read(name, 0, seal.files[name][0])}), names)
    metadata = {name: _metadata(url, name, content[name], seal.files[name][1]) for name in names}
    return Store(files, seal, metadata)


def _metadata(root: Path | str, name: str, content: bytes, digest: str) -> dict[str, Any]:
    if hashlib.sha256(content).hexdigest() != digest:
        message = f"{root}: {name} was changed after sealing; {ADVICE}"
        raise DamagedStore(message)
    parsed: dict[str, Any] = json.loads(content)
    return parsed
