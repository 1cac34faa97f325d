"""The files that a finished run leaves: metrics, plots and the model."""

from __future__ import annotations

import csv
import hashlib
import io
import json
from collections.abc import Mapping
from importlib.metadata import version
from pathlib import Path
from typing import Any, NamedTuple, Self

import torch
from torch import Tensor

from outofcore.display.bar import Bar
from outofcore.domains.own_network import own_name
from outofcore.domains.registry import get_domain
from outofcore.domains.task import Task
from outofcore.errors import StateError
from outofcore.loading.iteration import Loader
from outofcore.order.batching import Steps
from outofcore.params import load_params
from outofcore.store.reader import Store
from outofcore.system.durable import replace_file, replace_text
from outofcore.training.checkpoint import read_saved, write_saved
from outofcore.training.loaders import Batches
from outofcore.training.optimizers import state_bytes
from outofcore.training.ranks import this_rank

MODEL = "model.pt"


class Curves:
    """Shows a run of so many steps; ranks other than the first show nothing.

    A curve is a table of two columns, such as ``train/loss.tsv``. DVCLive is not used: it would make a DVC repository
    of any Git repository that it is started in.
    """

    def __init__(self, name: str, folder: Path, steps: int) -> None:
        self._folder, self._first, self._steps = folder, this_rank().rank == 0, steps
        self._bar = Bar(silent=not self._first)
        self._line = self._bar.add_task(f"train {name}", total=steps)

    def __enter__(self) -> Self:
        for earlier in self._folder.glob("*/*.tsv") if self._first else ():
            earlier.unlink()  # those of a run that resumes are drawn again
        self._bar.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._bar.stop()

    def draw(self, step: int, figures: dict[str, float]) -> None:
        """Add a row."""
        for key, value in figures.items() if self._first else ():
            table = self._folder / f"{key}.tsv"
            rows = [(step, value)] if table.exists() else [("step", table.stem), (step, value)]
            table.parent.mkdir(parents=True, exist_ok=True)
            with table.open("a", encoding="utf-8", newline="") as file:
                csv.writer(file, "excel-tab", lineterminator="\n").writerows(rows)

    def show(self, step: int, *facts: str) -> None:
        """Show that so many steps are made, and what is known of them."""
        shown = ", ".join((f"step {step:,} of {self._steps:,}", *filter(None, facts)))
        self._bar.update(self._line, completed=step, facts=shown)


class SavedBytes(NamedTuple):
    """Bytes of what a run saves."""

    weights: int
    states: int  # of the optimizer


def saved_bytes(task: Task, optimizer: str) -> SavedBytes:
    """What a run of the task with this optimizer saves."""
    weights = sum(int(tensor.nbytes) for tensor in task.state_dict().values())
    trained = (parameter.numel() for parameter in task.parameters() if parameter.requires_grad)
    return SavedBytes(weights, state_bytes(trained, optimizer))


def write_plots(folder: Path, task: Task, sums: Mapping[str, Tensor]) -> None:
    """Replace all tables and pictures by those of the task; one that is there may be a link into DVC's cache."""
    folder.mkdir(parents=True, exist_ok=True)
    _remove(folder, "*.csv", "*.png")
    for stem, rows in task.plots(sums).items():
        table = io.StringIO(newline="")
        writer = csv.DictWriter(table, list(rows[0]) if rows else [], lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)
        replace_text(folder / f"{stem}.csv", table.getvalue())
    for stem, picture in task.pictures().items():
        replace_file(folder / f"{stem}.png", picture)


def _remove(folder: Path, *patterns: str) -> None:
    """Remove what an earlier model has left."""
    for file in (path for pattern in patterns for path in folder.glob(pattern)):
        file.unlink()


def identity_of(store: Store, section: Any) -> dict[str, Any]:
    """What a run is trained on, as JSON values: enough to make its task again without the store."""
    return {
        "domain": store.domain,
        "store": store.digest,
        "raw": raw_digest(store),
        "params": settings_of_run(section),
        "attributes": store.attributes,
        "parts": {part: store.part_attributes(part) for part in store.parts if part},
    }


def settings_of_run(section: Any) -> dict[str, Any]:
    """The settings that a run records; its store records those of the conversion."""
    return dict(section.model_dump(mode="json", include={"match", "tensors", "train"}))


def section_of_identity(identity: Mapping[str, Any]) -> Any:
    """The settings of a run and of the conversion of its store, from what it recorded."""
    settings = {**identity["params"], **identity["attributes"]["params"], "raw": "."}
    section = get_domain(identity["domain"]).section.model_validate(settings)
    if own_name(section) and Path("params.yaml").is_file():
        load_params().section(identity["domain"])  # which may name the network
    return section


def raw_digest(store: Store) -> str:
    """SHA-256 over names and digests of the raw files that a store was made of."""
    files = [store.sources[name].read().tolist() for name in ("name", "digest")]
    return hashlib.sha256(json.dumps(files).encode()).hexdigest()


def split_digest(store: Store, split: str) -> str:
    """16 hex digits of a SHA-256 over a split's files, metadata aside, or of the store's digest if it has no rows.

    Figures on splits of equal digests can be compared.
    """
    if store.stores != (store,):
        digests = [split_digest(joined, split) for joined in store.stores]
        return hashlib.sha256(json.dumps(digests).encode()).hexdigest()[:16]
    places = tuple(f"{part}/{split}/" if part else f"{split}/" for part in store.parts)
    files = {name: digest for name, (_, digest) in store.seal.files.items() if name.startswith(places)}
    digested = sorted((name, digest) for name, digest in files.items() if not name.endswith("zarr.json"))
    return (hashlib.sha256(json.dumps(digested).encode()).hexdigest() if digested else store.digest)[:16]


def model_digest(weights: Mapping[str, Tensor]) -> str:
    """16 hex digits of a SHA-256 over the names and bytes of a model's weights, by which figures name their model."""
    digest = hashlib.sha256()
    for name, tensor in sorted(weights.items()):
        digest.update(name.encode() + b"\0")
        digest.update(tensor.detach().cpu().contiguous().flatten().view(torch.uint8).numpy().data)
    return digest.hexdigest()[:16]


def load_weights(task: Task, folder: Path) -> None:
    """Load the model that a run left into its task; raises StateError for another model, a damaged one, or none."""
    file = folder / MODEL
    message = f"{file}: expected the model of these params and this store, got another or none; run 'dvc repro'"
    if not file.is_file():
        raise StateError(message)
    content = read_saved(file, message)
    try:
        task.load_state_dict(content["model"])
    except (KeyError, TypeError, RuntimeError) as error:
        raise StateError(message) from error


def order_of(train: Batches, steps: int, skip: Steps) -> dict[str, Any]:
    """What determines the batches of a run of so many steps, as JSON values; the first and the last by digest.

    A digest is a SHA-256 over part, split and rows of the samples, and the records that these come from.
    """
    state = train.state_dict()
    facts = {"version": state.get("version"), "layout": state.get("layout"), "batches of an epoch": len(train)}
    facts["steps left out"] = skip.until(steps)
    if isinstance(train, Loader) and steps:
        for name, step in (("first batch", 1), ("last batch", steps)):
            samples = [(one.sample, one.part, one.split, one.row, one.rows, one.record) for one in train.trace(0, step)]
            facts[name] = hashlib.sha256(json.dumps(samples).encode()).hexdigest()
    return dict(json.loads(json.dumps(facts)))


def write_model(folder: Path, task: Task, identity: str, step: int, record: Mapping[str, Any] | None = None) -> None:
    """Write ``model.pt``, a state dict with what it was trained on and by, and the model's texts, and no others."""
    content = {"version": version("outofcore"), "identity": identity, "step": step, "model": dict(task.state_dict())}
    write_saved(folder / MODEL, {**content, "record": json.dumps(record or {}, sort_keys=True)})
    _remove(folder, "*.txt")
    for stem, text in task.works().items():
        replace_text(folder / f"{stem}.txt", text + "\n")


def model_file(path: Path) -> Path:
    """The ``model.pt`` of a folder, or of the only model of a run; raises StateError if there are several."""
    if not path.is_dir():
        return path
    trained = sorted(path.glob(f"models/*/{MODEL}"))
    if not trained or (path / MODEL).is_file():
        return path / MODEL
    if len(trained) > 1:
        names = ", ".join(str(file.parent) for file in trained)
        raise StateError(f"{path}: expected one model, found {len(trained)}; name one of {names}")
    return trained[0]


def run_folder(file: Path) -> Path | None:
    """The run or project that has this ``model.pt`` in ``models/<domain>``; None if it is elsewhere."""
    folder = file.absolute().parent
    return folder.parents[1] if folder.parent.name == "models" else None


def read_model(file: Path) -> dict[str, Any]:
    """The content of a ``model.pt``; raises StateError."""
    if not file.is_file():
        raise StateError(
            f"{file}: no model here; expected the folder of a run, such as runs/first, or a folder models/chess in it"
        )
    message = f"{file}: expected a model, got a damaged or another file; get it again, or train again"
    return read_saved(file, message)
