"""Batches of a store or of a run by step, and the bytes of their records in the raw files."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from itertools import chain, pairwise
from pathlib import Path
from typing import Any

from outofcore.display.table import DisplayTable, columns
from outofcore.domains.registry import DOMAINS, get_domain, search_raw
from outofcore.errors import ParamsError, RawInputError
from outofcore.inspect.store import Look, looks
from outofcore.loading.iteration import Loader
from outofcore.loading.origins import Origin, sequences_of
from outofcore.params import load_params, section_of_store
from outofcore.raw.files import RawFile, unpacked_name
from outofcore.settings.machine import load_machine
from outofcore.settings.yaml_text import parse_json
from outofcore.store.connection import is_address
from outofcore.store.opening import open_data
from outofcore.store.reader import Store
from outofcore.training.loaders import training_batches
from outofcore.training.results import run_folder, section_of_identity

Place = tuple[int, int]
"""Member and offset of a record in its raw file."""


def loader_of_run(file: Path, content: dict[str, Any], place: str | Path | None) -> Loader:
    """The loader of the training split that a model was trained with; ``place`` is that of its store, if it has moved.

    Raises ParamsError if the store is another one or unknown, or the model was trained straight from raw files.
    """
    identity = parse_json(content["identity"])
    domain, section = get_domain(identity["domain"]), section_of_identity(identity)
    processes = parse_json(content.get("record", "{}")).get("processes") or [{"ranks": None}]
    if not any(identity["attributes"]["rows"].values()):
        raise ParamsError(f"{file}: trained straight from raw files, in an order that does not name their records")
    run = run_folder(file)
    facts = run / "metrics" / domain.name / "train_run.json" if run else None
    if place is None and facts and facts.is_file():
        place = parse_json(facts.read_text(encoding="utf-8")).get("store")
    if place is None:
        raise ParamsError(f"{file}: where its store is, is not recorded in {facts or 'a run'}; name it with --store")
    if not is_address(place) and not Path(place).exists():
        raise ParamsError(f"{file}: expected its store at {place}, which does not exist; name it with --store")
    store = open_data(place)
    if store.digest != identity["store"]:
        raise ParamsError(
            f"{store.root}: expected the store that {file} was trained on, digest {identity['store'][:12]}, got "
            f"{store.digest[:12]}; name that one with --store"
        )
    return training_batches(domain, section, store, load_machine().memory, processes[-1]["ranks"])


def origin_table(origins: Iterable[Origin]) -> DisplayTable:
    """The samples of a batch; stores and parts are columns where there are several."""
    rows = [
        {
            "sample": origin.sample,
            "store": origin.store,
            "part": origin.part,
            "row": origin.row,
            "rows": origin.rows,
            "sequence": origin.sequence,
            "record": origin.record,
            "columns": ", ".join(
                f"{name} {value}" for name, value in origin.columns.items() if value not in ("", None)
            ),
        }
        for origin in origins
    ]
    counts = [name for name in ("row", "rows", "sequence") if name != "rows" or any(row[name] != 1 for row in rows)]
    several = [name for name in ("store", "part") if len({row[name] for row in rows}) > 1]
    names = [*columns("count", "sample"), *columns("text", *several), *columns("count", *counts)]
    names += columns("text", "record", "columns")
    return DisplayTable(names, rows)


def splits_with(store: Store, record: str) -> list[str]:
    """The splits that have a record of the raw input; raises ParamsError if none has."""
    splits = [
        split
        for split in store.splits
        if any(len(sequences_of(some, split, part, record)) for some in store.stores for part in store.parts)
    ]
    if not splits:
        raise ParamsError(
            f"{store.root}: no record of it begins at {record}; expected a file of 'outofcore info', and the byte "
            "of the decompressed file at which a record begins (the list of rejects has those that were left out)"
        )
    return splits


def appearance_table(loaders: Mapping[str, Loader], record: str, epochs: int) -> DisplayTable:
    """The steps that have rows of a record, by split: of their epoch, and counted from epoch 0 on."""
    rows = [
        (split, epoch, step, epoch * batches.epoch_steps + step, samples)
        for split, batches in loaders.items()
        for epoch, step, samples in batches.steps_of(record, epochs)
    ]
    names = [*columns("text", "split"), *columns("count", "epoch", "step", "step of all", "samples")]
    return DisplayTable(names, rows, notes=(f"{record} is in {', '.join(loaders)}",))


def drawn_rows(batches: Loader, origins: Iterable[Origin]) -> list[tuple[Store, Look]]:
    """The first row of each origin as its domain draws it, and its store."""
    stores = _stores(batches)
    return [
        (stores[origin.store], look)
        for origin in origins
        for look in looks(stores[origin.store], origin.split, origin.part, origin.row, 1)
    ]


def raw_records(batches: Loader, origins: Iterable[Origin], folder: str | None) -> dict[str, str]:
    """The text of each record, from raw files with the digests that its store has recorded.

    Raises ParamsError if the raw files have to be named, RawInputError if they are missing or others.
    """
    records: dict[str, str] = {}
    for name, store in _stores(batches).items():
        if own := [origin for origin in origins if origin.store == name]:
            texts = _raw_records(store, own, folder)
            records |= {record: text.decode("utf-8", "backslashreplace") for record, text in texts}
    return records


def _stores(batches: Loader) -> dict[str, Store]:
    """The stores of a loader by folder or address."""
    return {str(store.root): store for reader in batches.readers for store in reader.split.stores}


def _raw_records(store: Store, origins: Iterable[Origin], folder: str | None) -> Iterator[tuple[str, bytes]]:
    """The records of one store with their bytes, as UTF-8."""
    if store.domain not in DOMAINS:
        raise ParamsError(f"{store.root}: made of arrays, so that its rows have no record in a raw file")
    domain = get_domain(store.domain)
    if folder is None and Path("params.yaml").is_file():
        raw = load_params().section(domain.name).raw
        folder = raw if isinstance(raw, str) else None
    if folder is None:
        raise ParamsError(f"{store.root} does not say where its raw files are: name their folder with --raw-folder")
    # Records are cut in the same way whatever the splits are.
    settings = {"raw": folder, "splits": {"val": 0, "test": 0}}
    section = section_of_store(store.attributes, domain.name, "trace", None, settings)
    if domain.divided(section) is None:
        raise ParamsError(f"a {domain.sequence} of {domain.name} is no bytes of its own in its file; use --show")
    files = search_raw(domain, section).files
    digests = {name: store.sources[name].read().tolist() for name in ("name", "digest")}
    wanted: dict[str, dict[Place, Origin]] = {}
    for origin in origins:
        name, member = _file_of(origin, files, domain.suffixes, folder)
        wanted.setdefault(name, {})[member, origin.offset or 0] = origin
    for file in files:
        if file.name not in wanted:
            continue
        recorded = dict(zip(*digests.values(), strict=True)).get(file.name)
        if file.digest() != recorded:
            raise RawInputError(
                f"{file.path}: not the file that {store.root} was made of, by its SHA-256; name the folder that has it "
                "with --raw-folder"
            )
        for unit, after in pairwise(chain(domain.units([file], section), [None])):
            assert unit is not None
            for place, origin in sorted(wanted[file.name].items()):
                if unit.begin <= place and (after is None or place < after.begin):
                    yield origin.record, domain.record(unit, section, place, origin.columns.get("bytes"))


def _file_of(origin: Origin, files: Iterable[RawFile], suffixes: tuple[str, ...], folder: str) -> tuple[str, int]:
    """The raw file of a record and its member; a store of Go names the member, by its path."""
    names = [file.name for file in files]
    if origin.file in names:
        return origin.file, origin.member
    for file in files:
        for number, member in enumerate(file.members(suffixes)):
            if unpacked_name(file.name, member.name) == origin.file:
                return file.name, number
    raise RawInputError(f"{folder}: no file {origin.file} in it; name the folder that has it with --raw-folder")
