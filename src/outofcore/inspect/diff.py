"""What changed between two stores of one domain: settings, counts, and each sequence.

Only columns of sequences, the seals and the lists of rejects are read. A sequence is the same in both stores if it
comes from the same place (member, offset) of a raw file with the same digest, whatever its name: the same bytes. It is
*changed* if one of its columns, or its number of rows, differs. Sequences of raw files that only one store has are
paired by all of their own columns, in order where these are equal; one that differs there is removed and added. What
rows hold is not compared: the table of fields says whether their stored bytes differ.
"""

from __future__ import annotations

import csv
import hashlib
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from outofcore.conversion.growing import REJECTS
from outofcore.display.table import DisplayTable, columns
from outofcore.errors import StoreError
from outofcore.inspect.store import Look, flat_params, looks
from outofcore.ndarrays import Ints
from outofcore.store.opening import stores_in
from outofcore.store.reader import Store

Values = npt.NDArray[Any]
Rejects = dict[tuple[str, int], str]
"""Reason of each rejected record, by file and offset."""

_PLACE = ("member", "offset", "game")  # the game: a key of the content, in stores of Go


@dataclass(frozen=True)
class StoreDiff:
    """The content of ``outofcore diff``."""

    tables: tuple[DisplayTable, ...]  # none if every byte is equal
    examples: dict[str, Look]  # by what changed: a row in the old store if the sequence was removed, else in the new


def diff(old: Store, new: Store, show: int = 0) -> StoreDiff:
    """Compare two stores; ``show`` is the most sequences of each kind that become examples.

    Raises StoreError if the stores are of different domains, or their sequences have no place in raw files.
    """
    if old.domain != new.domain:
        raise StoreError(f"{old.root} is of {old.domain}, {new.root} of {new.domain}; expected stores of one domain")
    if old.digest == new.digest:
        return StoreDiff((), {})
    sides = [_columns(store) for store in (old, new)]
    count = len(sides[0]["start"])
    both = {name: np.concatenate([side[name] for side in sides]) for name in sides[0] if name in sides[1]}
    codes = {name: _codes(values) for name, values in both.items()}
    own = [name for name in codes if name[0] != "_" and name not in (*_PLACE, "start", "source")]
    shared = np.isin(both["_digest"].astype(str), list(set(_digests(old)) & set(_digests(new))))
    identity = _identities(codes, own, shared, count)
    _, before, after = np.intersect1d(identity[:count], identity[count:], assume_unique=True, return_indices=True)
    partner = np.full(len(identity), -1)
    partner[before], partner[after + count] = after + count, before
    places = np.arange(len(identity))
    removed, added = places[(partner < 0) & (places < count)], places[(partner < 0) & (places >= count)]
    paired = places[count:][partner[count:] >= 0]
    differs = {name: codes[name][paired] != codes[name][partner[paired]] for name in ("_split", *own)}
    moved, changed = paired[differs.pop("_split")], paired[np.logical_or.reduce([paired < 0, *differs.values()])]
    moves = Counter(zip(both["_split"][partner[moved]].tolist(), both["_split"][moved].tolist(), strict=True))

    was, now = _rejects(old), _rejects(new)
    why = _reasons(removed, both, shared, {at: now[at] for at in now if at not in was}, new)
    why |= _reasons(added, both, shared, {at: was[at] for at in was if at not in now}, old)
    rejected = Counter((was[at], now[at]) for at in was if now.get(at, was[at]) != was[at])
    fates: list[tuple[Any, ...]] = [("same columns", "", "", len(paired) - len(changed))]
    fates += [("removed", "stored", *pair) for pair in Counter(why[at] for at in removed.tolist()).most_common()]
    fates += [("added", pair[0], "stored", pair[1]) for pair in Counter(why[at] for at in added.tolist()).most_common()]
    fates += [(f"changed: {name}", "", "", int(mask.sum())) for name, mask in differs.items() if mask.any()]
    fates += [("leak" if "train" in pair else "moved", *pair, number) for pair, number in sorted(moves.items())]
    fates += [("rejected", *pair, number) for pair, number in sorted(rejected.items())]

    kinds = {"removed": removed, "added": added, "changed": changed, "moved": moved}
    examples = {}
    for kind, those in kinds.items():
        filled = those[both["length"][those] > 0]
        for at in filled[np.unique(np.linspace(0, len(filled) - 1, min(show, len(filled)), dtype=int))].tolist():
            names = [
                name for name in ("_split", *own) if partner[at] >= 0 and codes[name][at] != codes[name][partner[at]]
            ]
            values = ", ".join(f"{name.lstrip('_')} {both[name][partner[at]]} -> {both[name][at]}" for name in names)
            title = f"{kind}: {both['_file'][at]} at {both['offset'][at]:,}: {values or why[at]}"
            row = int(both["start"][at] + both["length"][at] // 2)
            (examples[title],) = looks(new if at >= count else old, both["_split"][at], both["_part"][at], row, 1)
    tables = (
        DisplayTable(columns("text", "setting", "old", "new"), _settings(old, new), "settings"),
        _counts(old, new),
        DisplayTable(
            [*columns("text", f"{old.attributes['sequence']}s", "old", "new"), *columns("count", "number")],
            fates,
            "sequences",
        ),
        DisplayTable(columns("text", "field of rows", "stored bytes"), _fields(old, new), "fields"),
    )
    return StoreDiff(tables, examples)


def _columns(store: Store) -> dict[str, Values]:
    """The columns of all sequences, and where each is and comes from under names with an underscore."""
    tables = []
    for part, split in product(store.parts, store.splits):
        table = store.sequences(split, part).read()
        both = {"_part": part, "_split": split}
        tables.append(table | {name: np.full(len(table["start"]), value, object) for name, value in both.items()})
    joined = {name: np.concatenate([table[name] for table in tables]) for name in tables[0]}
    if "offset" not in joined:
        raise StoreError(f"{store.root}: a store of {store.domain} does not record where its sequences come from")
    names, digests = store.sources["name"].read(), store.sources["digest"].read()
    source = joined.get("source", np.full(len(joined["start"]), "", object))
    if source.dtype != object:
        return joined | {"_file": names[source], "_digest": digests[source], "_path": np.zeros(len(source))}
    known, whole = dict(zip(names.tolist(), digests.tolist(), strict=True)), _digests(store)[-1]
    joined["_file"] = source  # or a path inside of an archive
    joined["_digest"] = np.array([known.get(file, whole) for file in source.tolist()], object)
    joined["_path"] = np.array(["" if file in known else file for file in source.tolist()], object)
    return joined


def _digests(store: Store) -> list[str]:
    """The digests of the raw files, and of all of them together."""
    digests: list[str] = store.sources["digest"].read().tolist()
    return [*digests, hashlib.sha256("".join(digests).encode()).hexdigest()]


def _codes(values: Values) -> Ints:
    """Equal numbers for equal values."""
    if values.dtype == object:
        numbers: dict[Any, int] = {}
        return np.array([numbers.setdefault(value, len(numbers)) for value in values.tolist()], np.int64)
    _, inverse = np.unique(values, return_inverse=True)
    return inverse.astype(np.int64, copy=False)


def _identities(codes: Mapping[str, Ints], own: Iterable[str], shared: npt.NDArray[np.bool_], count: int) -> Ints:
    """A number for each sequence, of which each store has at most one: equal where both have the same.

    By place in a shared raw file, else by its part and own columns but the number of rows, which depends on settings.
    """
    keys = [shared.astype(np.int64)]
    keys += [codes[name] * shared for name in ("_digest", "_path", *_PLACE) if name in codes]
    keys += [codes[name] * ~shared for name in ("_part", *own) if name != "length" and not shared.all()]
    key = np.zeros(len(shared), np.int64)
    for code in keys:
        key = _codes(key * (int(code.max(initial=0)) + 1) + code)
    sided = 2 * key + (np.arange(len(key)) >= count)
    order, places = np.argsort(sided, kind="stable"), np.arange(len(key))
    nth = np.empty_like(key)
    nth[order] = places - np.maximum.accumulate(np.where(np.diff(sided[order], prepend=-1) != 0, places, 0))
    return key + nth * (int(key.max(initial=0)) + 1)


def rejects_of(store: Store) -> list[tuple[str, int, str]] | None:
    """File, offset and reason of the rejects of a store, from the list next to it or in its project; None without it.

    Raises StoreError if a list is damaged.
    """
    rejects: list[tuple[str, int, str]] = []
    for root in map(Path.absolute, stores_in(store.root) or [Path(store.root)]):
        folders = [above for above in root.parents if above.name == "stores"]
        inside = [above.with_name("rejects") / root.relative_to(above).with_suffix(".csv") for above in folders]
        places = (root.with_name(f"{root.name}{REJECTS}"), root.with_suffix(REJECTS), *inside)
        if (path := next(filter(Path.is_file, places), None)) is None:
            return None
        try:
            with path.open(newline="", encoding="utf-8") as lines:
                rejects += [(row["file"], int(row["offset"]), row["reason"]) for row in csv.DictReader(lines)]
        except (ValueError, LookupError, TypeError, csv.Error) as error:
            raise StoreError(f"{path}: expected a list of rejects, got something else; move it elsewhere") from error
    return rejects


def _rejects(store: Store) -> Rejects:
    """The rejects of a store, as far as they are here."""
    return {(file, offset): reason for file, offset, reason in rejects_of(store) or ()}


def _reasons(
    places: Ints, both: Mapping[str, Values], shared: npt.NDArray[np.bool_], rejects: Rejects, other: Store
) -> dict[int, str]:
    """Why the other store lacks these sequences: records that only it rejects, in order of their archives' members."""
    names = set(other.sources["name"].read().tolist())
    listed = defaultdict(list)
    for (file, offset), reason in rejects.items():
        archive = next((str(above) for above in Path(file).parents if str(above) in names), file)
        inside = both["_path"].dtype == object and file not in names
        listed[file.removeprefix(f"{archive}/") if inside else archive, offset].append(reason)
    reasons = {at: "not listed" if shared[at] else "no such raw file" for at in places.tolist()}
    ordered = places[np.argsort(both["member"][places], kind="stable")] if "member" in both else places
    records = defaultdict(list)
    for at in ordered[shared[ordered]].tolist():
        records[str(both["_file"][at]), int(both["offset"][at])].append(at)
    for record, same_place in records.items():
        if len(listed.get(record, ())) == len(same_place):
            reasons.update(zip(same_place, listed[record], strict=True))
    return reasons


def _settings(old: Store, new: Store) -> list[Sequence[str | None]]:
    """The settings that differ, and the tokenizer by its digest."""
    sides = []
    for store in (old, new):
        tokenizer = str(store.attributes.get("tokenizer", ""))
        digest = {"digest of the tokenizer": hashlib.sha256(tokenizer.encode()).hexdigest()[:16]}
        sides.append(flat_params(store.attributes["params"]) | digest)
    names = sorted(sides[0].keys() | sides[1].keys())
    return [(name, *pair) for name in names if len(set(pair := [side.get(name) for side in sides])) > 1]


def _counts(old: Store, new: Store) -> DisplayTable:
    counts = {what: [store.attributes[what] for store in (old, new)] for what in ("rows", "sequences")}
    rows = [(split, *(side[split] for pair in counts.values() for side in pair)) for split in old.splits]
    rows.append(("all", *(sum(side.values()) for pair in counts.values() for side in pair)))
    names = [f"{old.attributes[what]}s {side}" for what in ("row", "sequence") for side in ("old", "new")]
    sizes = [f"{sum(size for size, _ in store.seal.files.values()):,}" for store in (old, new)]
    note = f"bytes on disk: {' -> '.join(sizes)}"
    return DisplayTable([*columns("text", "split"), *columns("count", *names)], rows, "counts", notes=(note,))


def _fields(old: Store, new: Store) -> list[tuple[str, str]]:
    """Whether each field of rows has equal stored bytes, by the seals."""
    shards: list[defaultdict[str, dict[str, Any]]] = [defaultdict(dict), defaultdict(dict)]
    for store, fields in zip((old, new), shards, strict=True):
        for name, facts in store.seal.files.items():
            *_, table, field, file = ("", "", *name.split("/"))
            if file.startswith("c.") and table not in {"sequences", "sources", ""}:
                fields[field][name] = facts
    names = sorted(shards[0].keys() | shards[1].keys())
    return [(name, "equal" if shards[0].get(name) == shards[1].get(name) else "differ") for name in names]
