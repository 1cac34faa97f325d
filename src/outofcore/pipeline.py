"""From raw input to a sealed store: what programs, the command line and the stages call."""

from __future__ import annotations

import os
import sys
import time
from collections import ChainMap
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import islice
from pathlib import Path
from typing import Any

from outofcore.conversion.assemble import REJECTS_HEADER
from outofcore.conversion.estimate import forecast_conversion
from outofcore.conversion.executors import open_executor
from outofcore.conversion.growing import Entries, figures_of_all, save_keys
from outofcore.conversion.inputs import Inputs
from outofcore.conversion.journal import NOT_STORED, work_folder
from outofcore.conversion.run import Conversion
from outofcore.conversion.seen import Earlier
from outofcore.conversion.summary import attributes, note_doubts, sources
from outofcore.display.bar import Bar
from outofcore.display.console import visible
from outofcore.domains.domain import Domain
from outofcore.domains.registry import get_domain, search_raw
from outofcore.domains.splits import SPLITS
from outofcore.errors import ParamsError
from outofcore.params import raw_settings, section_of
from outofcore.project.code import code_of
from outofcore.project.entries import by_entry, project_store
from outofcore.raw.files import RawFile, Search, by_ending, endings
from outofcore.settings.machine import Machine, load_machine
from outofcore.space.guard import KEPT_SHARDS, Guard
from outofcore.space.links import Commit
from outofcore.store.connection import is_address, shown
from outofcore.store.opening import open_data, stores_in
from outofcore.store.schema import Layout
from outofcore.store.target import Target, foreign, refuse_replacing
from outofcore.store.writer import StoreWriter
from outofcore.system.durable import replace_text
from outofcore.system.peak_memory import MemoryWatch

REJECTS = ".rejects.csv"  # behind the name of a store
# Of files that are left out, in the figures of a conversion; all are counted.
MOST_NAMES = 1000


def convert(
    domain: str,
    raw: str | Path,
    target: str | Path,
    /,
    *,
    params: str | Path | None = None,
    replace: bool = False,
    **settings: Any,
) -> dict[str, Any]:
    """Convert raw files into a sealed store.

    ::

        outofcore.convert("chess", "games/", "chess.zarr", filters={"min_elo": 2000})

    Disk space is checked before anything is written. If the run stops midway, call it again with the same arguments to
    resume. The rejected records are listed in ``<target>.rejects.csv``.

    Parameters
    ----------
    domain
        ``"chess"``, ``"go"``, ``"text"``, ``"neural"``, or one that another installed package adds.
    raw
        A file, a folder, or a pattern such as ``"games/2024-*.pgn.zst"``; compressed files and archives are streamed.
    target
        Folder of the store. A store that is there is replaced at the end if it was made with the same settings, of
        whatever raw files; nothing else ever is. To have it in object storage, copy it there. With ``grow=True``, a
        folder of stores, one for each file or folder in ``raw``: only what is new or changed is converted.
    params
        A params file whose section of the domain holds the settings; None for the defaults of the domain.
    replace
        Also replace a store of another domain or other settings.
    **settings
        Sections of the settings by name (``filters``, ``source``, ``splits``, ``store``, ...), each a mapping of the
        keys that differ; they take precedence over those of ``params``. A text is tokenized by ``tokenizer=``, a
        ``tokenizer.json``, the folder of one or of GPT-2's files, or a ``tokenizers.Tokenizer``, or by that of
        ``params``; with neither, one is learnt from the text first.

    Returns
    -------
    dict
        What was found, accepted and rejected by reason, the rows of each split, bytes and digest of the store.

    Raises
    ------
    ParamsError
        If a setting is unknown or out of range.
    RawInputError
        If there is nothing to read, or nothing of it is accepted.
    SpaceError
        If the disk has too little room.
    """
    kind, machine = get_domain(domain), load_machine()
    section = section_of(domain, "convert()", params, {**settings, **raw_settings(raw, settings)})
    if is_address(target):
        raise ParamsError(
            f"{shown(target)}: expected a folder of this machine; convert here, then copy the store there"
        )
    folder = Path(os.path.realpath(target))  # a link to a folder on another disk stays a link
    if section.grow:
        for store in () if replace else stores_in(folder):
            refuse_replacing(store, kind.name, section.model_dump(mode="json", exclude=NOT_STORED))
        return convert_growing(kind, section, folder, machine)[0]
    if why := foreign(folder):
        raise ParamsError(f"{target}: {why}")
    if not replace:
        refuse_replacing(target, kind.name, section.model_dump(mode="json", exclude=NOT_STORED))
    if params is None:
        section = kind.prepared(section, str(target))
    named = Path(target).absolute()
    figures, _ = convert_to_folder(kind, section, folder, named.with_name(named.name + REJECTS), machine)
    return note_doubts(kind, figures)


def convert_to_folder(
    domain: Domain,
    section: Any,
    store: Path,
    rejects: Path,
    machine: Machine,
    commit: Commit | None = None,
    kept: str = KEPT_SHARDS,
    *,
    files: Sequence[RawFile] | None = None,
    earlier: Earlier | None = None,
) -> tuple[dict[str, Any], dict[str, Any]]:
    """The figures of a conversion, and those of its run here; ``commit`` says what DVC will do with the store.

    Search, forecast, check the disk, convert. ``kept`` is what an error says of a disk that fills up midway. An entry
    is of these ``files``, and comes after ``earlier`` ones; its keys are written next to its store.
    """
    searched = search_raw(domain, section) if files is None else Search(list(files), {})
    started = time.monotonic()
    with Bar(transient=True) as bar:
        bar.add_task(f"{domain.name}: converting a sample of the input", total=None)
        forecast = forecast_conversion(domain, section, searched.files, store, machine, commit, sample=False)
    report_left_out(section.raw, searched.left_out, "; the figures of the conversion list them")
    guard = Guard(domain.name, machine.disk_margin, machine.disk_reserve, kept)
    before = guard.require(forecast.needs)
    ahead = forecast.units_ahead(domain.name, machine.memory, refuse="memory" in machine.stated)
    with MemoryWatch(interval=0.25) as memory, guard.writing(work_folder(store, machine.scratch)):
        outcome = Conversion(domain, section, searched.files, store, rejects, earlier).run(
            forecast.estimate,
            executor=open_executor(
                machine.engine, machine.workers, address=machine.dask, files=searched.files, domain=domain.name
            ),
            workers=machine.workers,
            watch=guard.watch,
            scratch=machine.scratch,
            most_ahead=ahead,
        )
        if earlier is not None and outcome.keys is not None:
            save_keys(store, outcome.keys, earlier)
    run = run_figures(outcome.figures, sum(outcome.figures["rows"].values()), started, memory, machine) | {
        "resumed_units": outcome.resumed_units,
        "free_bytes_before": {str(demand.filesystem): demand.free for demand in before},
    }
    return outcome.figures | left_out_figures(searched.left_out), run


def run_figures(
    figures: Mapping[str, Any], rows: int, started: float, memory: MemoryWatch, machine: Machine
) -> dict[str, Any]:
    """What a conversion of so many rows took here."""
    seconds = time.monotonic() - started
    return {
        "digest": figures["digest"],  # of the conversion that these figures are of: DVC may restore another
        "seconds": round(seconds, 2),
        "rows_per_second": round(rows / seconds),
        "peak_memory_bytes": memory.peak_bytes,
        "workers": machine.workers,
    }


def convert_growing(
    domain: Domain, section: Any, folder: Path, machine: Machine, commit: Commit | None = None
) -> tuple[dict[str, Any], dict[str, Any]]:
    """The same for a raw input that grows: entries that are new or changed are converted, the figures are of all."""
    searched, started = search_raw(domain, section), time.monotonic()
    report_left_out(section.raw, searched.unread)

    def convert_entry(files: Sequence[RawFile], store: Path, rejects: Path, earlier: Earlier) -> dict[str, Any]:
        entry, _ = convert_to_folder(domain, section, store, rejects, machine, commit, files=files, earlier=earlier)
        return note_doubts(domain, entry)

    with MemoryWatch(interval=0.25) as memory:
        figures, converted = Entries(folder).update(
            domain,
            section,
            by_entry(searched.files, domain.suffixes),
            convert_entry,
            versions=code_of(domain)["convert"],
            threads=machine.workers,
        )
    total = figures_of_all(figures, open_data(folder).digest)
    rows = sum(sum(figures[name]["rows"].values()) for name in converted)
    run = run_figures(total, rows, started, memory, machine) | {"converted": converted}
    members = [entry_figures.get("left_out", {}) for entry_figures in figures.values()]
    return total | left_out_figures(dict(ChainMap({}, searched.unread, *members))), run


def write_catalogue(domain: Any, section: Any, rejects: Path, *, threads: int) -> dict[str, Any]:
    """Write a store without rows for training directly from raw files; returns ``convert.json``.

    It holds everything that determines such a training: digests of the raw files, the settings, and the domain's
    attributes (the tokenizer of a text). ``rejects`` becomes an empty table; ``threads`` files are read at a time.
    """
    files = domain.raw_files(section)
    schemas, none = domain.schemas(section, files), dict.fromkeys(SPLITS, 0)
    counts = {"found": 0, "accepted": 0, "rejected": {}, "rows": none, "sequences": none}
    root = attributes(domain, section, schemas, counts) | {"params": domain.stream_settings(section)}
    listed = sources(files, {}, Inputs(files, threads=threads).digests)
    with Target(project_store(domain)) as target, ThreadPoolExecutor(threads) as pool:
        work = target.path / "store"
        target.put_back(work)
        target.empty()  # of a process that was killed
        seal = StoreWriter(work, schemas, Layout(), SPLITS, pool).commit(target, root, listed)
    replace_text(rejects, REJECTS_HEADER)
    return {"files": len(files), "bytes_raw": sum(file.bytes for file in files), "digest": seal.digest}


def report_left_out(raw: str, left_out: Mapping[str, str], hint: str = "") -> None:
    """Say how many files are not read, by ending, and the first with its reason; then the hint."""
    if left_out:
        first, why = next(iter(left_out.items()))
        line = f"left out of {raw}: {len(left_out):,} ({endings(left_out)}), the first {first} ({why})"
        sys.stderr.write(f"{visible(line)}{hint}\n")


def left_out_figures(left_out: Mapping[str, str]) -> dict[str, Any]:
    """What is not read, for the figures: the first names with their reasons, and the number of all by ending."""
    if not left_out:
        return {}
    return {"left_out": dict(islice(left_out.items(), MOST_NAMES)), "left_out_by_ending": by_ending(left_out)}
