"""A store from a user's own arrays."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from copy import copy
from itertools import chain
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt
from pydantic import BaseModel, ValidationError

from outofcore.conversion.sequenced import TRAIN, Sequencer, Shares
from outofcore.conversion.user_arrays import (
    FieldArrays,
    Labels,
    by_name,
    fields_of,
    form_of,
    iterated,
    opened,
    read,
    refuse,
    segment,
    steps,
)
from outofcore.domains.sections import SplitSection, StoreSection
from outofcore.errors import ParamsError
from outofcore.settings.machine import load_machine
from outofcore.space.forecast import Need, Purpose
from outofcore.space.guard import Guard
from outofcore.store.connection import is_address, shown
from outofcore.store.reader import Store, open_store
from outofcore.store.schema import Columns, Field, Layout, Schema
from outofcore.store.shards import index_bytes
from outofcore.store.target import Target, foreign, refuse_replacing
from outofcore.store.writer import SEQUENCE_CHUNK_ROWS, StoreWriter
from outofcore.system.durable import remove

DOMAIN = "arrays"
CHUNK_BYTES, SHARD_BYTES = 1 << 18, 1 << 26  # decoded, of the widest field
LEAST_CHUNK_ROWS, MOST_CHUNK_ROWS = 16, 1 << 18
MOST_SHARD_CHUNKS = 1 << 12
STEP_BYTES = 1 << 24  # of the rows that are copied at a time
LABELS_TOGETHER = 1 << 20
KEPT = "nothing was kept; make room and call write_store again"
WAYS = (
    "a path on another disk",
    "fields of narrower types",
    "an iterator of pieces if they compress well (the disk is watched while they are written)",
)
_RESERVED = {"domain", "row", "sequence", "parts", "splits", "params"}
_RESERVED |= {"found", "accepted", "rejected", "rows", "sequences", "sequences_stated", "audited"}
_Checked = TypeVar("_Checked", bound=BaseModel)


def write_store(
    path: str | Path,
    data: FieldArrays | Iterable[Any],
    *,
    splits: Mapping[str, float | Sequence[Any]] | None = None,
    seed: int = 0,
    groups: npt.ArrayLike | str | None = None,
    sequences: npt.ArrayLike | str | None = None,
    lengths: npt.ArrayLike | None = None,
    codec: str = "zstd",
    chunk_rows: int | None = None,
    shard_rows: int | None = None,
    attributes: Mapping[str, Any] | None = None,
    replace: bool = False,
) -> Store:
    """Write arrays as a sealed store.

    Equal rows and arguments give equal bytes, in one mapping or in pieces of any size, on any machine.

    Parameters
    ----------
    path
        Folder of the store. A store of the same fields and settings that is there is replaced when the new one is
        complete; nothing else ever is.
    data
        Arrays that share their first axis, by field name (bool, integers, or floats of 16 to 64 bits); a table of
        pandas, Arrow, polars, DuckDB or ``datasets``, or a group of h5py or Zarr; or an iterator of these, each with
        the next rows. Memory maps and arrays of h5py and Zarr are read in slices, Arrow streams in batches.
    splits
        Share of each split, such as ``{"val": 0.05, "test": 0.05}``, or its groups, such as ``{"test": ["mouse 7"]}``;
        ``train`` has the rest. None for ``train`` only.
    seed
        Another seed, another choice of the splits.
    groups
        The group of each row (whole numbers or text), or the name of the field that has it. All rows of a group are in
        one split. Stored as the column ``group`` of the sequences. A field of text is accepted only as ``groups``.
    sequences
        The number of each row's sequence, which never decreases, or the name of the field that has it.
    lengths
        The number of rows of each sequence, instead of ``sequences``.
    codec
        ``zstd``, ``lz4`` or ``none``.
    chunk_rows
        Rows that are decoded at once, a multiple of 16; by default about 256 KiB of the widest field.
    shard_rows
        Rows of a file, a multiple of ``chunk_rows``; by default about 64 MiB of the widest field.
    attributes
        Further facts about the store, JSON values.
    replace
        Also replace a store of other fields or settings, or of another domain.

    Returns
    -------
    The store, open for reading.

    Raises
    ------
    ParamsError
        If an argument or a field is not what is expected; names it, and what was expected.
    SpaceError
        If the disk has too little room, before anything is written if ``data`` is a mapping.
    StoreError
        If another process writes this store.

    Notes
    -----
    With ``groups``, a hash of the group decides the split; without, a hash of the content of the sequence or, without
    sequences, of the row: equal content is never in two splits. By default a sequence is a run of rows of one group or,
    without groups, ``chunk_rows`` rows of a split. Windows of a loader stay within a sequence by default if there are
    groups, sequences or lengths. Memory is constant, with one exception: if there are ``splits`` and
    sequences but no ``groups``, one sequence is buffered at a time.

    Examples
    --------
    >>> write_store("mine.zarr", {"x": x, "y": y}, splits={"val": 0.05}, groups=subject)  # doctest: +SKIP
    """
    final, shares, own = _target(path), _shares(splits, seed, groups), _attributes(attributes)
    data = by_name(data)
    pieces = iterated(data)
    head = next(pieces, None)
    if head is None:
        refuse("data", "at least one mapping of arrays", "none")
    text = groups if isinstance(groups, str) else None
    first = opened(head, None, text)
    form = form_of(first[0])
    fields = fields_of(form)
    if not fields:
        refuse("data", "at least one field of numbers", f"only {text}")
    store = _store_section(fields, codec=codec, chunk_rows=chunk_rows, shard_rows=shard_rows)
    params = {"splits": {**shares.shares, **shares.named}, "seed": shares.seed, "store": store.model_dump(mode="json")}
    if not replace:
        refuse_replacing(Path(str(path)), DOMAIN, params, fields)
    labels = Labels(groups, sequences, lengths, form)
    need = 0
    if isinstance(data, Mapping):
        arrays, rows = first
        counted = copy(labels)
        for start, stop in steps(rows, 1, LABELS_TOGETHER):
            counted.of(arrays, start, stop)
        counted.finish()
        need = most_bytes(fields, store.layout(), rows, len(shares.names), counted)
    machine = load_machine()
    guard = Guard("write_store", 0.0, machine.disk_reserve, KEPT, WAYS)
    guard.require([Need(final, Purpose.STORE, need)])
    schema = Schema(rows=fields, sequences=labels.columns(form))
    row_bytes = sum(field.row_bytes for field in fields)
    with guard.writing(final), _work(final) as (target, work), ThreadPoolExecutor(machine.workers) as encoders:
        writer = StoreWriter(work, {"": schema}, store.layout(), shares.names, encoders)
        try:
            sequencer, total = Sequencer(writer, shares, store.chunk_rows), 0
            for arrays, rows in chain([first], (opened(piece, form, text) for piece in pieces)):
                for start, stop in steps(rows, row_bytes, STEP_BYTES):
                    starts, values = labels.of(arrays, start, stop)
                    columns = {field.name: read(arrays[field.name], field, start, stop) for field in fields}
                    sequencer.add(columns, starts, values)
                    guard.watch(writer.bytes_written(), writer.bytes_waiting())
                total += rows
            labels.finish()
            if not total:
                refuse("data", "at least one row", "none")
            sequencer.close()
            facts = _facts(writer, shares, labels)
            for name, named in shares.named.items():
                if not facts["rows"][name]:
                    refuse(f"splits[{name!r}]", "groups that occur", repr(list(named)))
            writer.commit(target, {**own, **facts, "params": params}, _source(facts["found"], total * row_bytes))
        except BaseException:
            writer.abandon()
            raise
    return open_store(final)


@contextmanager
def _work(final: Path) -> Iterator[tuple[Target, Path]]:
    """The place of the store, and a folder of which nothing is left after an error."""
    with Target(final) as target:
        work = target.path / "arrays"
        target.put_back(work)
        remove(work)  # of a process that was killed
        try:
            yield target, work
        finally:
            remove(work)


def _target(path: object) -> Path:
    """The folder of the store, links resolved."""
    if not isinstance(path, str | Path) or is_address(path):
        refuse("path", "a folder", shown(path) if isinstance(path, str | Path) else path)
    final = Path(os.path.realpath(path))
    if why := foreign(final):
        raise ParamsError(f"path: {path}: {why}")
    return final


def _shares(splits: object, seed: int, groups: object) -> Shares:
    if splits is not None and not isinstance(splits, Mapping):
        refuse("splits", "a mapping of shares or groups by split", repr(splits))
    shares, named = {}, {}
    for name, share in (splits or {}).items():
        segment("splits", name, (TRAIN, "sources", "sequences"))
        number = isinstance(share, int | float | np.number) and not isinstance(share, bool)
        if isinstance(share, list | tuple | np.ndarray) and groups is not None:
            named[name] = tuple(np.asarray(share).tolist())
        elif not number or not 0 <= share <= 1:
            wanted = "a share from 0 to 1, or a list of groups" if groups is not None else "a share from 0 to 1"
            refuse(f"splits[{name!r}]", wanted, repr(share))
        else:
            shares[name] = float(share)
    if sum(shares.values()) > 1 + 1e-9:
        refuse("splits", "shares with a sum of at most 1", f"a sum of {sum(shares.values()):g}")
    groups_named = [group for groups_of_split in named.values() for group in groups_of_split]
    if twice := [group for group in groups_named if groups_named.count(group) > 1]:
        refuse("splits", "each group in one split", repr(twice[0]))
    return Shares(shares, _checked(SplitSection, seed=seed).seed, named)


def _attributes(attributes: object) -> dict[str, Any]:
    if attributes is not None and not isinstance(attributes, Mapping):
        refuse("attributes", "a mapping of JSON values", repr(attributes))
    try:
        own = json.loads(json.dumps(dict(attributes or {}), allow_nan=False))
    except (TypeError, ValueError) as error:
        refuse("attributes", "JSON values", error, error)
    for name in own:
        if name in _RESERVED:
            refuse("attributes", "names that the store does not use itself", repr(name))
    return dict(own)


def _store_section(fields: tuple[Field, ...], **settings: Any) -> StoreSection:
    """The layout; sizes that are None follow from the widest field."""
    widest = max(field.row_bytes for field in fields)
    if settings["chunk_rows"] is None:
        power = 1 << max(0, (CHUNK_BYTES // widest).bit_length() - 1)
        settings["chunk_rows"] = min(MOST_CHUNK_ROWS, max(LEAST_CHUNK_ROWS, power))
    chunk = settings["chunk_rows"]
    if settings["shard_rows"] is None and isinstance(chunk, int) and chunk > 0:
        settings["shard_rows"] = chunk * min(MOST_SHARD_CHUNKS, max(1, SHARD_BYTES // (chunk * widest)))
    return _checked(StoreSection, **settings)


def _checked(kind: type[_Checked], **settings: Any) -> _Checked:
    """Settings as params.yaml has them; the first wrong one is named."""
    try:
        return kind.model_validate(settings)
    except ValidationError as error:
        fault = error.errors()[0]
        name = ".".join(map(str, fault["loc"])) or "chunk_rows"
        value = fault["input"] if fault["loc"] else f"{settings['chunk_rows']!r} and {settings['shard_rows']!r}"
        message = fault["msg"].removeprefix("Value error, ").partition(", got")[0]
        refuse(name, message[:1].lower() + message[1:], value, error)


def most_bytes(fields: tuple[Field, ...], layout: Layout, rows: int, splits: int, labels: Labels) -> int:
    """An upper bound of a store's size: each split ends with a chunk that is filled up."""
    chunks, shards = rows // layout.chunk_rows + splits, rows // layout.shard_rows + splits
    index = index_bytes(layout.shard_rows // layout.chunk_rows)
    size = sum(chunks * _encoded(layout.chunk_rows * field.row_bytes) + shards * index for field in fields)
    sequences = labels.begun or chunks
    whole = sequences // SEQUENCE_CHUNK_ROWS + splits
    size += 3 * whole * _encoded(SEQUENCE_CHUNK_ROWS * 8) + _encoded(labels.text_bytes) + splits * (3 << 12)
    return size + (1 << 13) * splits * (len(fields) + 4) + 512 * len(fields) * shards


def _encoded(size: int) -> int:
    """The most bytes of an encoded chunk, by the bounds of zstd and Blosc."""
    return size + size // 128 + 256


def _facts(writer: StoreWriter, shares: Shares, labels: Labels) -> dict[str, Any]:
    counts = writer.counts()
    total = sum(counts["sequences"].values())
    return {
        "domain": DOMAIN,
        "row": "row",
        "sequence": "sequence",
        "parts": [""],
        "splits": list(shares.names),
        "found": total,
        "accepted": total,
        "rejected": {},
        **({"sequences_stated": True} if labels.stated else {}),
        **counts,
    }


def _source(found: int, size: int) -> Columns:
    """One row for all the data."""
    numbers = {"bytes": size, "found": found, "accepted": found, "rejected": 0}
    texts = {"name": "arrays", "digest": ""}
    return {name: np.array([value], np.int64) for name, value in numbers.items()} | {
        name: np.array([value], object) for name, value in texts.items()
    }
