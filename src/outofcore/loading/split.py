"""A split as samples: the fields that are read, the rows of a sample, and what turns them into tensors."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np
import torch

from outofcore.checks import instance, refuse, words
from outofcore.domains.reading import Draws, OfSequences, Reading, Windowed, reading_for
from outofcore.domains.registry import DOMAINS, get_domain
from outofcore.errors import ParamsError, StoreError
from outofcore.loading.rows import Rows, values_of_rows
from outofcore.loading.sequences import NUMBER, VALID, SequenceColumns, Sequences, indexable
from outofcore.loading.transform import Transform
from outofcore.loading.where import Where
from outofcore.ndarrays import Doubles, Ints
from outofcore.order.windows import Window, Windows
from outofcore.params import section_of_store
from outofcore.store.joined import check_fields
from outofcore.store.opening import open_data
from outofcore.store.reader import Array, Store, Table
from outofcore.system.recycling import Recycler

Tensors = Reading | Mapping[str, Reading] | Sequence[str] | None


def reading(store: Store | str | Path, params: str | Path | None = None, **settings: Any) -> Reading:
    """What turns the rows of a store into tensors: planes, shifted tokens, lag windows.

    A loader without ``tensors`` uses ``reading(store)``. Call it yourself to change settings::

        loader(store, "train", 64, tensors=reading(store, lags=32, dtype="bfloat16"))

    Parameters
    ----------
    store
        A store, or its folder or address.
    params
        A params file whose section of the store's domain holds the settings; None for the defaults of the domain.
    **settings
        Settings under ``tensors`` of the domain, by name; they take precedence over those of ``params``.

    Returns
    -------
    Reading
        For ``loader(store, ..., tensors=...)`` and ``ZarrDataset``; also sets the window of rows that a sample needs.

    Raises
    ------
    ParamsError
        If the store's domain has no ready tensors, a setting is unknown or out of range, or there is no such file.
    """
    source = open_data(store)
    if source.domain not in DOMAINS:
        raise ParamsError(
            f"{source.root}: tensors are ready-made for {', '.join(DOMAINS)}, this is a store of "
            f"{source.domain!r}; give what turns its rows into tensors, or read the stored fields"
        )
    content = {"tensors": settings} if settings else {}
    section = section_of_store(source.attributes, source.domain, "reading()", params, content)
    return get_domain(source.domain).reading(source.attributes, section)


@dataclass(frozen=True)
class Split:
    """A split of a part, as a loader or a dataset reads it; its fields share rows, chunks and shards."""

    stores: tuple[Store, ...]
    name: str
    part: str
    rows: Rows
    reading: Reading
    ready: bool  # whether that is the domain's own or of stored fields: both take any rows, also of zeros
    windows: Windows
    sequences: Sequences
    columns: SequenceColumns
    selects: str = ""  # the expression by which sequences are selected
    transform: Transform | None = None  # a function of batches
    place: int | None = None  # of the part in the store, if several are read: their batches contain it
    stores_of_sources: Mapping[str, int] = field(default_factory=dict)  # of a mixture

    @property
    def path(self) -> str:
        """Its group in the store."""
        return f"{self.part}/{self.name}" if self.part else self.name

    @property
    def where(self) -> str:
        """Its stores, for messages."""
        more = f" and {len(self.stores) - 1} more" if len(self.stores) > 1 else ""
        return f"{self.stores[0].root}{more}"

    @property
    def chunk_rows(self) -> int:
        """Rows per chunk."""
        return self.rows.chunk_rows

    def selected_runs(self) -> tuple[Ints, Ints] | None:
        """First rows and lengths (runs,) of the rows of selected sequences; None if all are selected."""
        return self.sequences.selected_runs() if self.selects else None

    def weights_of_rows(self, column: str) -> tuple[Callable[[Ints], Doubles], int]:
        """The values of rows by which they are weighed, and the bytes that these take; see :func:`values_of_rows`."""
        tables = [store.rows(self.name, self.part) for store in self.stores]
        return values_of_rows(tables, self.rows, self.sequences, column)

    def windows_of(self, stores: slice) -> tuple[Windows, int]:
        """The samples of some of the stores, and how many chunks these are in."""
        rows, shape = self.rows.of(stores), self.windows
        sequences = self.sequences.of(stores)
        windows = windows_of(rows, sequences, shape.window, phase=shape.phase, selects=shape.selects)
        return windows, len(windows.chunks(rows.chunk_rows)) if shape.selects else rows.chunks

    @cached_property
    def used(self) -> Ints | None:
        """The chunks that samples are in, where only some are; None for all."""
        return self.windows.chunks(self.rows.chunk_rows) if self.windows.selects else None


def open_split(
    stores: Sequence[Store],
    split: str,
    part: str,
    *,
    tensors: Tensors,
    columns: tuple[str, ...],
    window: object,
    where: str | None,
    budget: int,
    stores_of_sources: Mapping[str, int] = MappingProxyType({}),
    names_rows: bool = False,
    moves: bool = True,
    transform: Transform | None = None,
    place: int | None = None,
) -> Split:
    """Open a split; where ``tensors`` and ``window`` are None, the stores' domain decides.

    A table of the sequences may take ``budget`` bytes. The samples of each source of a mixture follow those of the one
    before. ``where`` selects the sequences whose rows are samples; if a sampling ``names_rows``, all keep their
    numbers. Windows have a phase only if the split ``moves`` from epoch to epoch.

    Raises StoreError if split or field does not exist, a field holds text, or fields differ in layout or between
    stores, and ParamsError if arguments are wrong or do not fit together.
    """
    fields = field_names(tensors)
    makes = _reading_of(stores, part, tensors)
    taken: tuple[str, ...] = makes.columns if isinstance(makes, OfSequences) else ()
    tables = [store.rows(split, part) for store in stores]
    if makes is not None:
        _check_made(stores, tables, makes.fields)
    if names := [name for name in taken if name != NUMBER]:
        _check_made(stores, [store.sequences(split, part) for store in stores], names)
    fields_of = [_arrays(table, fields if makes is None else makes.fields) for table in tables]
    check_fields(stores, fields_of, tables[0].path)
    rows, opened_window = Rows(fields_of), _window_of(window, makes, split, stores)
    edges = np.cumsum([0, *(stores_of_sources.values() or [len(stores)])]).tolist()
    sequences = Sequences(stores, split, part, rows.origins, budget)
    condition = None if where is None else Where(where)
    if condition is not None:
        sequences.mask = condition.mask(sequences, tables[0].fields)
    windows = windows_of(
        rows,
        sequences,
        opened_window,
        phase=moves and opened_window is not None and bool(opened_window.phase),
        selects=condition is not None and not names_rows,
    )
    if windows.packs is not None and VALID in rows.fields:
        refuse("window", f"another mode than best_fit, which has a {VALID!r} of its own, as this store has", window)
    values = SequenceColumns(
        sequences, windows, columns, taken, rows.origins[edges[:-1]] if stores_of_sources else None
    )
    dtypes = {name: array.dtype for name, array in rows.fields.items()}
    reader = StoredReading(dtypes) if makes is None else reading_for(split, makes)
    text = "" if condition is None else condition.text
    return Split(
        tuple(stores),
        split,
        part,
        rows,
        reader,
        tensors is None or makes is None,
        windows,
        sequences,
        values,
        text,
        transform,
        place,
        stores_of_sources,
    )


def windows_of(rows: Rows, sequences: Sequences, window: Window | None, *, phase: bool, selects: bool) -> Windows:
    """The windows of rows, store after store; of selected sequences only if it ``selects``."""
    runs = None
    if selects and (window is None or not window.by_sequence):
        runs = sequences.selected_runs()
    elif window is not None and not window.by_sequence and any(store.gaps for store in sequences.stores):
        runs = sequences.selected_extents()
    elif selects or len(sequences.stores) > 1 or rows.origins[0]:
        runs = rows.origins, rows.lengths
    return Windows(
        len(rows),
        window,
        phase=phase,
        runs=runs,
        sequences=sequences.selected_extents,
        origins=rows.origins if selects else None,
    )


class StoredReading:
    """Fields as they are stored, without a domain's reading.

    Unsigned words that torch cannot index are widened to the next signed type; uint64 keeps its bits as int64.
    ``dtypes`` are the stored ones.
    """

    def __init__(self, dtypes: Mapping[str, np.dtype[Any]]) -> None:
        self.fields = tuple(dtypes)
        self._memory = Recycler()

    def __call__(self, rows: Mapping[str, Any], draws: Draws) -> dict[str, torch.Tensor]:
        del draws
        return {name: torch.from_numpy(indexable(array, self._memory)) for name, array in rows.items()}


def field_names(tensors: object) -> tuple[str, ...] | None:
    """The stored fields that ``tensors`` names; None if it names none."""
    return words("tensors", tensors) if isinstance(tensors, list | tuple) else None


def _reading_of(stores: Sequence[Store], part: str, tensors: Tensors) -> Reading | None:
    """The reading of a part; None for stored fields."""
    if tensors is None:
        return _reading_of_all(stores) if stores[0].domain in DOMAINS else None
    if isinstance(tensors, list | tuple) or (isinstance(tensors, str) and tensors == "stored"):
        return None
    name, value = "tensors", tensors
    if isinstance(tensors, Mapping):
        if part not in tensors:
            refuse("tensors", f"a reading for part {part!r}", list(tensors))
        name, value = f"tensors[{part!r}]", tensors[part]
    fields: Any = getattr(value, "fields", None)
    if isinstance(value, type) or not callable(value) or not isinstance(fields, tuple | list):
        refuse(name, 'what makes tensors of rows, such as reading(store), names of fields, or "stored"', value)
    return value


def _reading_of_all(stores: Sequence[Store]) -> Reading:
    """The reading of the stores' domain, which must be the same for all of them."""
    first = reading(stores[0])
    comparable = type(first).__eq__ is not object.__eq__
    for store in stores[1:] if comparable else ():
        if reading(store) != first:
            raise StoreError(
                f"stores that are read as one need the same tensors: those of {stores[0].root} and {store.root} "
                "differ by the settings of their conversion; give tensors=reading(store, ...) that suits both"
            )
    return first


def _check_made(stores: Sequence[Store], tables: Sequence[Table], names: Iterable[str]) -> None:
    """Raise StoreError if a table of a store lacks what the tensors are made of."""
    for store, table in zip(stores, tables, strict=True):
        if missing := sorted(set(names) - table.fields.keys()):
            raise StoreError(
                f"{store.root}: {table.path}: no field {missing[0]!r}, which these tensors are made of; there are "
                f"{', '.join(sorted(table.fields))}. Convert again if another version, or settings without it, "
                "made the store; or read other tensors"
            )


def _arrays(table: Table, fields: tuple[str, ...] | None) -> dict[str, Array]:
    """Fields of a table; None for all that do not hold text."""
    names = fields if fields is not None else tuple(name for name, array in table.fields.items() if array.dtype != "O")
    if not names:
        raise StoreError(f"{table.path}: expected at least one field to read")
    arrays = {name: table[name] for name in names}
    layouts = {(len(array), array.chunk_rows, array.shard_rows) for array in arrays.values()}
    if len(layouts) > 1:
        raise StoreError(f"{table.path}: expected fields of one layout, got (rows, chunk, shard) of {sorted(layouts)}")
    texts = [name for name, array in arrays.items() if array.dtype == "O"]
    if texts:
        raise StoreError(f"{table.path}: {', '.join(texts)} holds text, which no tensor can")
    return arrays


def _window_of(window: object, tensors: Reading | None, split: str, stores: Sequence[Store]) -> Window | None:
    """The rows of a sample: as requested, or as the tensors need them, whose phase is for training."""
    requested = instance("window", window, Window)
    needed = instance("window", tensors.window, Window) if isinstance(tensors, Windowed) else None
    if requested is not None and needed is not None and requested.length != needed.length:
        raise ParamsError(
            f"window: these tensors need windows of {needed.length:,} rows, got {requested.length:,}; "
            "change the settings of reading(store, ...) instead"
        )
    if needed is not None and split != "train":
        needed = replace(needed, phase=False)
    if requested is not None and requested.phase is None and needed is not None:
        requested = replace(requested, phase=needed.phase)
    taken = requested or needed
    if taken is not None and taken.mode is None:
        return replace(taken, mode="never" if all(store.sequences_stated for store in stores) else "pack")
    return taken
