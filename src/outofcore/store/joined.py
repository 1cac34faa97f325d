"""Several stores as one: whether they can be, and a store for what reads one as a whole (a task, the report)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from outofcore.errors import StoreError
from outofcore.ndarrays import Ints
from outofcore.store.array import Array, Table
from outofcore.store.reader import Store
from outofcore.store.seal import Seal

# Attributes that are added up.
_ADDED = frozenset(("accepted", "audited", "found", "rejected", "rows", "sequences"))
# Attributes that count what a conversion found, or say how it went; the others describe the fields.
_COUNTS = frozenset(("accepted", "audited", "found", "params", "rejected", "rows", "sequences", "splits"))
_OWN_ARRAYS = "arrays"  # the domain of stores made from arrays, whose further attributes are the user's
_MOST_SHOWN = 120


class JoinedStore(Store):
    """Stores in a folder, of one domain and schema; their rows, sequences and sources follow each other.

    If each has parts of its own, as recordings have, this is one store with the parts of all.
    """

    def __init__(self, root: Path, stores: Sequence[Store]) -> None:
        first, self._stores = stores[0], tuple(stores)
        names = [Path(store.root).name for store in stores]
        seal = Seal(
            {
                f"{name}/{file}": facts
                for name, store in zip(names, stores, strict=True)
                for file, facts in store.seal.files.items()
            }
        )
        counts: dict[str, Any] = {}
        for key in _ADDED & first.attributes.keys():
            values = [store.attributes[key] for store in stores]
            counts[key] = _sums(values) if isinstance(values[0], dict) else sum(values)
        self._by_part = {part: store for store in stores for part in store.parts if store.parts != first.parts}
        parts = sorted({*first.parts, *self._by_part})
        if self._by_part:
            self._by_part |= dict.fromkeys(first.parts, first)
            counts["parts"] = parts
        super().__init__(root, seal, first.attributes | counts, first.domain, parts, first.splits)

    def __reduce__(self) -> tuple[Any, ...]:
        return JoinedStore, (self.root, self._stores)

    @property
    def stores(self) -> tuple[Store, ...]:
        return (self,) if self._by_part else self._stores

    def table(self, path: str) -> Table:
        if owner := self._by_part.get(path.partition("/")[0]):
            return owner.table(path)
        tables = [store.table(path) for store in self._stores]
        fields = {name: JoinedArray([table[name] for table in tables]) for name in tables[0].fields}
        if path.endswith("/sequences"):
            rows = [len(store.table(path.removesuffix("/sequences"))) for store in self._stores]
            fields["start"] = JoinedArray([table["start"] for table in tables], np.cumsum([0, *rows[:-1]]))
            if "source" in fields and fields["source"].dtype != object:  # numbers of rows of the table of sources
                rows = [len(store.sources) for store in self._stores]
                fields["source"] = JoinedArray([table["source"] for table in tables], np.cumsum([0, *rows[:-1]]))
        return Table(path, fields)

    def part_attributes(self, part: str) -> dict[str, Any]:
        return self._by_part.get(part, self._stores[0]).part_attributes(part)

    def stored_bytes(self, array: Array) -> int:
        return sum(store.stored_bytes(array) for store in self._stores)


class JoinedArray(Array):
    """A field of several stores; ``added`` is added to the values of each store."""

    def __init__(self, arrays: Sequence[Array], added: Ints | None = None) -> None:
        first = arrays[0]
        shape, sizes = (sum(map(len, arrays)), *first.shape[1:]), (first.chunk_rows, first.shard_rows)
        super().__init__(first.root, first.path, shape, first.dtype, *sizes, first.codec_name, first.attributes)
        self._arrays = arrays
        self._added = added

    def read(self, start: int = 0, stop: int | None = None, out: npt.NDArray[Any] | None = None) -> npt.NDArray[Any]:
        """Decoded rows ``start`` to ``stop`` (exclusive), into ``out`` if given; raises IndexError out of range."""
        start, stop = self.range_of(start, stop)
        parts = []
        for number, array in enumerate(self._arrays):
            first, last = (min(max(place, 0), len(array)) for place in (start, stop))
            values = array.read(first, last)
            parts.append(values if self._added is None else values + self._added[number].astype(values.dtype))
            start, stop = start - len(array), stop - len(array)
        return np.concatenate(parts, out=out)

    def chunk(self, number: int, out: npt.NDArray[Any]) -> int:
        rows = self.read(number * self.chunk_rows, min((number + 1) * self.chunk_rows, len(self)))
        out[: len(rows)], out[len(rows) :] = rows, 0
        return rows.nbytes


def _sums(counts: Sequence[Mapping[str, int]]) -> dict[str, int]:
    total = Counter[str]()
    for counter in counts:
        total.update(counter)
    return dict(total)


def check_stores(stores: Sequence[Store], *, apart: bool = False) -> None:
    """Raise StoreError if stores are not of one kind, or one is given twice; ``apart``: each may have its own parts."""
    seen: dict[str, Store] = {}
    for store in stores:
        if store.identity in seen:
            raise StoreError(f"{seen[store.identity].root} and {store.root} hold the same rows: give each store once")
        seen[store.identity] = store
    first, parts = stores[0], [part for store in stores for part in store.parts]
    distinct = len(set(parts)) == len(parts)
    for store in stores[1:]:
        _same(first, store, "domain", first.domain, store.domain)
        if not (apart and distinct):
            _same(first, store, "parts", ", ".join(first.parts), ", ".join(store.parts))
        if first.domain != _OWN_ARRAYS:  # a converted store keeps there what its fields mean, such as the tokenizer
            for name in sorted({*first.attributes, *store.attributes} - _COUNTS - {"parts"}):
                _same(first, store, f"attribute {name!r}", first.attributes.get(name), store.attributes.get(name))


def splits_lines(stores: Sequence[Store]) -> list[str]:
    """What to tell the user of stores that were split in different ways."""
    ways = [store.attributes.get("params", {}).get("splits") for store in stores]
    for store, way in zip(stores, ways, strict=True):
        if way != ways[0]:
            both = f"{stores[0].root} and {store.root}"
            return [f"{both} were split by different settings: train of one may hold what is in val of the other"]
    return []


def check_fields(stores: Sequence[Store], rows: Sequence[Mapping[str, Array]], path: str) -> None:
    """Raise StoreError if the fields of stores differ in name, dtype, shape, attributes or chunks."""
    first = rows[0]
    for store, fields in zip(stores[1:], rows[1:], strict=True):
        _same(stores[0], store, f"fields of {path}", ", ".join(first), ", ".join(fields))
        for name, array in first.items():
            check_form(stores[0], array, store, fields[name])
            _same(stores[0], store, f"rows per chunk of {path}", array.chunk_rows, fields[name].chunk_rows)


def check_form(first: Store, array: Array, other: Store, its: Array) -> None:
    """Raise StoreError if a field of two stores differs in dtype, shape or attributes."""
    _same(first, other, its.path, _form(array), _form(its))


def _form(array: Array) -> str:
    meaning = {name: value for name, value in array.attributes.items() if name != "doc"}
    return f"{array.dtype} {array.shape[1:]} {meaning or ''}".rstrip()


def _same(first: Store, other: Store, what: str, own: object, its: object) -> None:
    if own == its:
        return
    shown = " ".join(f"{own!s} and {its!s}".split())
    raise StoreError(
        f"stores that are read as one need the same fields: {first.root} and {other.root} differ in {what}"
        f"{f' ({shown})' if len(shown) <= _MOST_SHOWN else ''}"
    )
