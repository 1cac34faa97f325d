"""What a project's folder tells of its runs: stores, figures, curves, tables, works."""

from __future__ import annotations

import csv
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from outofcore.card import Card, card_of
from outofcore.domains.gallery import Distribution, Passage, Picture, PlainLayout, gallery_of
from outofcore.store.reader import open_store

MOST_REJECTS = 10
MOST_WORK_BYTES = 200_000
Rows = tuple[dict[str, str], ...]


@dataclass(frozen=True)
class StoreView:
    """What a store holds, to be looked at.

    Attributes
    ----------
    card
        Its card.
    pictures, distributions, plain_layout
        What the domain's gallery shows; nothing where it has none.
    """

    card: Card
    pictures: Sequence[Picture | Passage]
    distributions: Sequence[Distribution]
    plain_layout: PlainLayout | None


@dataclass(frozen=True)
class DomainRun:
    """What is there of one domain.

    Attributes
    ----------
    name
        The domain's name.
    store
        Its store; None where the model was trained straight from the raw files.
    convert, train
        Figures that are the same on every machine.
    convert_run, train_run
        Figures of this machine: times, memory, disk. Empty where the run was made elsewhere.
    rejects
        The first rejected records.
    curves
        Columns ``step`` and one figure each, by split and figure.
    tables
        The tables that the model's task leaves, by name.
    texts, sheets
        What the trained model made: texts, and pictures as PNG.
    """

    name: str
    store: StoreView | None
    convert: Mapping[str, Any]
    train: Mapping[str, Any]
    convert_run: Mapping[str, Any]
    train_run: Mapping[str, Any]
    rejects: Rows
    curves: Mapping[tuple[str, str], Rows]
    tables: Mapping[str, Rows]
    texts: Mapping[str, str]
    sheets: Mapping[str, bytes]


def collect(project: Path) -> list[DomainRun]:
    """Everything that ran, in the order of the names.

    Parameters
    ----------
    project
        The folder that holds ``data``, ``metrics``, ``plots`` and ``models``.

    Raises
    ------
    StoreError
        If a store is not whole.
    """
    stores = {path.stem for path in (project / "data" / "stores").glob("*.zarr") if path.is_dir()}
    trained = {path.parent.name for path in (project / "metrics").glob("*/train.json")}
    return [_domain_run(project, name) for name in sorted(stores | trained)]


def _domain_run(project: Path, name: str) -> DomainRun:
    metrics, plots, models = (project / kind / name for kind in ("metrics", "plots", "models"))
    curves = {
        (file.parent.name, file.stem): _table(file, "\t")
        for file in sorted((plots / "train" / "plots" / "metrics").glob("*/*.tsv"))
    }
    convert = _json(metrics / "convert.json")
    return DomainRun(
        name=name,
        store=_store_view(project / "data" / "stores" / f"{name}.zarr", convert),
        convert=convert,
        train=_json(metrics / "train.json"),
        convert_run=_json(metrics / "convert_run.json"),
        train_run=_json(metrics / "train_run.json"),
        rejects=_table(project / "data" / "rejects" / f"{name}.csv", ",")[:MOST_REJECTS],
        curves=curves,
        tables={file.stem: _table(file, ",") for file in sorted(plots.glob("*.csv"))},
        texts={file.stem: file.read_text("utf-8", "replace") for file in _works(models, "*.txt")},
        sheets={file.stem: file.read_bytes() for file in _works(plots, "*.png")},
    )


def _store_view(path: Path, convert: Mapping[str, Any]) -> StoreView | None:
    """The store, unless there is none or the figures of the conversion are not its own: then it is left from before."""
    if not path.is_dir():
        return None
    store = open_store(path)
    if convert and convert.get("digest") != store.digest:
        return None
    gallery = gallery_of(store.domain) if sum(store.attributes["rows"].values()) else None
    return StoreView(
        card=card_of(store),
        pictures=gallery.pictures(store) if gallery else (),
        distributions=gallery.distributions(store) if gallery else (),
        plain_layout=gallery.plain_layout(store) if gallery else None,
    )


def measurements(project: Path) -> list[Mapping[str, Any]]:
    """What the benches on this machine left, in the order of their names."""
    return [_json(file) for file in sorted((project / "bench" / "results").glob("*.json"))]


def _works(folder: Path, pattern: str) -> list[Path]:
    return [file for file in sorted(folder.glob(pattern)) if file.stat().st_size <= MOST_WORK_BYTES]


def _json(path: Path) -> dict[str, Any]:
    content: dict[str, Any] = json.loads(path.read_text("utf-8")) if path.is_file() else {}
    return content


def _table(path: Path, delimiter: str) -> Rows:
    if not path.is_file():
        return ()
    with path.open(newline="", encoding="utf-8") as file:
        return tuple(csv.DictReader(file, delimiter=delimiter))
