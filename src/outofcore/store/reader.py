"""What a store offers, and how a sealed one is opened: seal and metadata are checked, files are pinned."""

from __future__ import annotations

import hashlib
import html
from abc import ABC, abstractmethod
from collections import defaultdict
from collections.abc import Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any, cast

import numpy as np
import numpy.typing as npt

from outofcore.errors import DamagedStore, StoreError
from outofcore.ndarrays import Ints
from outofcore.store.array import Array, SealedArray, Table
from outofcore.store.connection import address_of
from outofcore.store.files import Files
from outofcore.store.local import LocalFiles
from outofcore.store.metadata import Attributes, chunks_stated, parse_array, parse_document, parse_root
from outofcore.store.remote import RemoteFiles
from outofcore.store.remote_cache import CachedFiles
from outofcore.store.schema import Field, Layout
from outofcore.store.seal import ADVICE, CHECKSUMS, SEAL, Seal, read_seal
from outofcore.system.extras import load

_SLAB = 1 << 12  # sequences examined at a time

__all__ = ["Array", "SealedStore", "Store", "Table", "files_of", "open_sealed", "open_store"]


class Store(ABC):
    """Tables of rows and of sequences; made by :func:`open_store`, or by another function that opens data.

    Attributes
    ----------
    root
        Its folder or address.
    seal
        Its files with sizes and digests.
    attributes
        Recorded at conversion: domain, params, counts.
    """

    def __init__(
        self,
        root: Path | str,
        seal: Seal,
        attributes: dict[str, Any],
        domain: str,
        parts: Sequence[str],
        splits: Sequence[str],
    ) -> None:
        self.root, self.seal = root, seal
        self.attributes, self.domain = attributes, domain
        self.parts: tuple[str, ...] = tuple(parts)
        self.splits: tuple[str, ...] = tuple(splits)

    gaps = False  # whether no window crosses the end of a sequence, whatever its mode

    @abstractmethod
    def table(self, path: str) -> Table:
        """The table of a group, by its path in the store; raises StoreError."""

    def __repr__(self) -> str:
        counts = ", ".join(f"{split} {rows:,}" for split, rows in self._counts("rows").items())
        row = f"{self.attributes.get('row', 'row')}s"
        return f"Store({str(self.root)!r}, domain={self.domain!r}, {row}: {counts}, digest={self.digest[:12]!r})"

    def _repr_html_(self) -> str:
        """The splits as a table, in a notebook."""
        row, sequence = (html.escape(str(self.attributes.get(name, name))) for name in ("row", "sequence"))
        counts = zip(self._counts("rows").items(), self._counts("sequences").values(), strict=True)
        lines = "".join(
            f"<tr><th>{html.escape(split)}</th><td>{rows:,}</td><td>{sequences:,}</td></tr>"
            for (split, rows), sequences in counts
        )
        where = f"{html.escape(str(self.root))}: {html.escape(self.domain)}, digest {html.escape(self.digest[:12])}"
        head = f"<caption>{where}</caption><tr><th>split</th><th>{row}s</th><th>{sequence}s</th></tr>"
        return f"<table>{head}{lines}</table>"

    def _counts(self, what: str) -> dict[str, int]:
        """Rows or sequences of each split, as recorded."""
        recorded = self.attributes.get(what)
        return {split: int(recorded[split]) for split in self.splits} if isinstance(recorded, dict) else {}

    @property
    def tokenizer(self) -> Any:
        """The tokenizer of a store of text, of the library ``tokenizers``: ``store.tokenizer.decode(ids)``.

        Raises
        ------
        StoreError
            If this is no store of text.
        """
        content = self.attributes.get("tokenizer")
        if not isinstance(content, str):
            raise StoreError(f"{self.root}: a store of {self.domain} has no tokenizer; one of text has")
        return load("tokenizers", "text", "the tokenizer of a store").Tokenizer.from_str(content)

    @property
    def digest(self) -> str:
        """SHA-256 over all files: equal digests, equal bytes."""
        return self.seal.digest

    @property
    def sources(self) -> Table:
        """One row per raw file: name, digest, bytes, found, accepted, rejected."""
        return self.table("sources")

    @property
    def stores(self) -> tuple[Store, ...]:
        """The stores that are read as this one, in order: itself, unless it joins several."""
        return (self,)

    @property
    def identity(self) -> str:
        """Equal for stores that hold the same rows."""
        return self.digest

    @property
    def sequences_stated(self) -> bool:
        """Whether a user stated which rows belong together, so that windows stay within a sequence by default."""
        return self.attributes.get("sequences_stated") is True

    def note(self, split: str, fields: Sequence[str]) -> str:
        """What readers of these fields should know; "" for a sealed store."""
        del split, fields
        return ""

    def rows(self, split: str, part: str = "") -> Table:
        """The rows of a split.

        Parameters
        ----------
        split
            One of :attr:`splits`.
        part
            One of :attr:`parts`; ``""`` in a store with a single part.

        Returns
        -------
        Table
            One array per field, (rows, ...), read lazily.

        Raises
        ------
        StoreError
            If there is no such split or part.
        """
        return self.table(self._path(split, part))

    def sequences(self, split: str, part: str = "") -> Table:
        """The sequences of a split: ``start`` and ``length`` (int64, in rows), and their columns.

        Parameters are those of :meth:`rows`.

        Raises
        ------
        StoreError
            If there is no such split or part.
        DamagedStore
            If a shard of starts is missing.
        """
        return self.table(f"{self._path(split, part)}/sequences")

    def extents(self, split: str, part: str = "", out: tuple[Ints, Ints] | None = None) -> tuple[Ints, Ints]:
        """First row and number of rows of each sequence.

        Parameters
        ----------
        split, part
            As of :meth:`rows`.
        out
            Arrays to read them into.

        Returns
        -------
        tuple
            First rows and lengths, both int64 (sequences,).

        Raises
        ------
        DamagedStore
            If the sequences do not cover the rows of the split consecutively.
        """
        rows, sequences = self.rows(split, part), self.sequences(split, part)
        start, length = sequences["start"], sequences["length"]
        if start.dtype == length.dtype == np.int64:
            starts, lengths = out or (np.empty(len(start), np.int64), np.empty(len(length), np.int64))
            start.read(out=starts)
            length.read(out=lengths)
            if _follow(starts, lengths, len(rows)):
                return starts, lengths
        raise DamagedStore(f"{self.root}: the sequences of {rows.path} do not cover its {len(rows)} rows; {ADVICE}")

    def part_attributes(self, part: str) -> dict[str, Any]:
        """Attributes of a part, recorded at conversion."""
        del part
        return self.attributes

    def stored_bytes(self, array: Array) -> int:
        """Bytes of an array's shards on disk."""
        return self._stored.get(array.path, 0)

    @cached_property
    def _stored(self) -> dict[str, int]:
        """Bytes of the shards in each folder."""
        sizes: defaultdict[str, int] = defaultdict(int)
        for name, (size, _) in self.seal.files.items():
            folder, _, file = name.rpartition("/")
            sizes[folder] += size * file.startswith("c.")
        return dict(sizes)

    def _path(self, split: str, part: str) -> str:
        if split not in self.splits or part not in self.parts:
            meant = next((name for name in self.splits if str(split).startswith(name)), None)
            message = f"{self.root}: no split {split!r}{f' (did you mean {meant!r}?)' if meant else ''}"
            message += f"; there are {', '.join(self.splits)}"
            if split in self.splits:
                parts = "it has no parts" if self.parts == ("",) else f"there are {', '.join(map(repr, self.parts))}"
                message = f"{self.root}: no part {part!r}; {parts}"
            raise StoreError(message)
        return f"{part}/{split}" if part else split


class SealedStore(Store):
    """A sealed store; made by :func:`open_store`."""

    def __init__(self, files: Files, seal: Seal, metadata: Mapping[str, Mapping[str, Any]]) -> None:
        for name in ("zarr.json", CHECKSUMS):
            if name not in seal.files:
                raise StoreError(f"{files.root}: {SEAL} lists no {name}; convert again")
        facts = parse_root(files.root, metadata["zarr.json"])
        super().__init__(files.root, seal, facts, facts["domain"], facts["parts"], facts["splits"])
        self._metadata = metadata
        self._files = files
        self._parsed: dict[str, tuple[Field, Layout, int]] = {}  # of the arrays that were asked for
        self._groups: defaultdict[str, list[str]] = defaultdict(list)
        for name in sorted(metadata):
            group, _, field = name.removesuffix("/zarr.json").rpartition("/")
            if field and metadata[name]["node_type"] == "array":
                self._groups[group].append(field)

    def __reduce__(self) -> tuple[Any, ...]:
        return open_sealed, (self._files,)  # a copy in another process reads seal and metadata again

    def table(self, path: str) -> Table:
        fields = {}
        for name in self._groups.get(path, []):
            array = f"{path}/{name}"
            if array not in self._parsed:
                self._parsed[array] = parse_array(self.root, array, self._metadata[f"{array}/zarr.json"])
            fields[name] = SealedArray(self._files, array, *self._parsed[array], self.checksums)
        lengths = {len(array) for array in fields.values()}
        if len(lengths) != 1:
            what = f"fields of {sorted(lengths)} rows" if lengths else "no field"
            raise StoreError(f"{self.root}: {path} has {what}; convert again")
        table = Table(path, fields)
        if path.endswith("/sequences"):  # only the first start is 0, so no other shard of starts has no file
            start = table["start"]
            for number in range(1, -(-len(start) // start.shard_rows)):
                if not self._files.exists(name := fields["start"].shard_file(number)):
                    raise DamagedStore(f"{self.root}: {name} is missing; {ADVICE}")
        return table

    def arrays(self) -> dict[str, SealedArray]:
        """All arrays by path; raises StoreError."""
        tables = map(self.table, self._groups)
        return {array.path: cast(SealedArray, array) for table in tables for array in table.fields.values()}

    def part_attributes(self, part: str) -> dict[str, Any]:
        name = f"{part}/zarr.json" if part else "zarr.json"
        attributes = self._metadata.get(name, {}).get("attributes", {})
        return Attributes(f"{self.root}: {name}", attributes)

    def checksums(self, path: str) -> npt.NDArray[np.uint32]:
        """The sealed checksum of each chunk of an array, 0 for one without a file; raises DamagedStore."""
        return self._checksums[path]

    @cached_property
    def _checksums(self) -> dict[str, npt.NDArray[np.uint32]]:
        """The checksums of the chunks of each array; raises DamagedStore."""
        size, digest = self.seal.files[CHECKSUMS]
        content = self._files.read(CHECKSUMS, 0, size)
        paths = sorted(f"{group}/{field}" for group, fields in self._groups.items() for field in fields)
        chunks = [chunks_stated(self.root, path, self._metadata[f"{path}/zarr.json"]) for path in paths]
        if hashlib.sha256(content).hexdigest() != digest or size != 4 * sum(chunks):
            raise DamagedStore(f"{self.root}: {CHECKSUMS} was changed after sealing; {ADVICE}")
        stops = np.cumsum(chunks)[:-1]
        return dict(zip(paths, np.split(np.frombuffer(content, "<u4"), stops), strict=True))


def open_store(path: str | Path) -> Store:
    """Open a sealed store for reading.

    Checks the seal, the digest of every metadata file, and the presence and size of every shard. The shards' bytes
    are checked chunk by chunk as they are read, and all at once by ``outofcore verify``.

    Parameters
    ----------
    path
        The store's folder, or its address: ``s3://bucket/stores/chess.zarr``, or of ``gs://``, ``az://``, ``https://``.

    Raises
    ------
    StoreError
        If there is no store, it is not sealed, or the object storage denies access.
    DamagedStore
        If a file is missing, of another size, or its metadata has changed.
    """
    return open_sealed(files_of(path, CachedFiles))


def files_of(path: str | Path, remote: type[RemoteFiles] = RemoteFiles) -> Files:
    """The files at a path or an address, without a cache by default; errors as for :func:`open_store`."""
    address = address_of(path)
    return remote(address) if address else LocalFiles(Path(path))


def open_sealed(files: Files) -> SealedStore:
    """The store of these files; errors as for :func:`open_store`."""
    seal = read_seal(files.seal(), files.root)
    files.compare(seal.files)
    names = [name for name in seal.files if name.endswith("zarr.json")]
    content: dict[str, bytes] = {}
    files.for_each(lambda name: content.update({name: files.read(name, 0, files.size(name))}), names)
    metadata = {name: parse_document(files.root, name, content[name], seal.files[name][1]) for name in names}
    return SealedStore(files, seal, metadata)


def _follow(starts: Ints, lengths: Ints, count: int) -> bool:
    """Whether sequences follow each other from row 0 to the last."""
    row = 0
    for place in range(0, len(starts), _SLAB):
        some = lengths[place : place + _SLAB]
        if (some < 0).any() or (some > count).any():
            return False
        ends = row + np.cumsum(some)
        if (starts[place : place + _SLAB] != ends - some).any():
            return False
        row = int(ends[-1])
    return row == count
