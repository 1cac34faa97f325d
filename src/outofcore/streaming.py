"""Training directly from raw files: the catalogue that replaces a store, and the loaders.

A catalogue is a store without rows. It holds everything that determines such a training: digests of the raw files, the
settings, and the domain's attributes (the tokenizer of a text). Training depends on it as on a store.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from outofcore.conversion.assemble import REJECT_COLUMNS
from outofcore.conversion.splits import SPLITS, assign
from outofcore.domains.domain import Domain
from outofcore.domains.streaming import Streaming
from outofcore.errors import ParamsError, RawInputError
from outofcore.machine import Machine
from outofcore.raw.files import RawFile
from outofcore.replacing import replace_text
from outofcore.store.reader import Store
from outofcore.store.schema import Layout
from outofcore.store.writer import StoreWriter

if TYPE_CHECKING:
    import torch

STORES, STREAMS = Path("data/stores"), Path("data/streams")


def is_streamed(domain: Domain, section: Any) -> bool:
    """Whether a domain's section asks for training without a store."""
    return isinstance(domain, Streaming) and domain.streamed(section)


def place_of(domain: Domain, section: Any) -> Path:
    """Path of a domain's store or catalogue."""
    return (STREAMS if is_streamed(domain, section) else STORES) / f"{domain.name}.zarr"


def write_catalogue(domain: Any, section: Any, rejects: Path, *, threads: int) -> dict[str, Any]:
    """List the raw files with their digests instead of converting them; returns ``convert.json``.

    ``rejects`` becomes an empty table; ``threads`` files are read at a time.
    """
    files = domain.raw_files(section)
    final = place_of(domain, section)
    none = dict.fromkeys(SPLITS, 0)
    attributes = {
        "domain": domain.name,
        "row": domain.row,
        "sequence": domain.sequence,
        "parts": [""],
        "splits": list(SPLITS),
        "rows": none,
        "sequences": none,
        "found": 0,
        "accepted": 0,
        "rejected": {},
        "params": domain.stream_settings(section),
    }
    with ThreadPoolExecutor(threads) as pool:
        unread = np.zeros(len(files), np.int64)
        sources = {
            "name": np.array([file.name for file in files], object),
            "digest": np.array(list(pool.map(RawFile.digest, files)), object),
            "bytes": np.array([file.bytes for file in files], np.int64),
            **dict.fromkeys(("found", "accepted", "rejected"), unread),
        }
        work = final.with_name(f"{final.name}.work")
        writer = StoreWriter(work, domain.schemas(section, files), Layout(), SPLITS, pool)
        seal = writer.commit(final, attributes, sources)
    replace_text(rejects, ",".join(REJECT_COLUMNS) + "\n")
    return {"files": len(files), "bytes_raw": int(sources["bytes"].sum()), "digest": seal.digest}


def open_streams(
    domain: Any, section: Any, catalogue: Store, machine: Machine, device: torch.device
) -> tuple[Any, Any]:
    """The loaders of a training run, each with half of the memory.

    Raises RawInputError if the raw files differ from the catalogue in name or size, ParamsError with several ranks.
    """
    from outofcore.training.ranks import this_rank  # imports torch, which a conversion does not need

    if this_rank().world > 1:
        message = f"{domain.name}.mode: stream is for one rank, got {this_rank().world}; use one, or mode store"
        raise ParamsError(message)
    files = domain.raw_files(section)
    listed = catalogue.sources.read()
    known = list(zip(listed["name"].tolist(), listed["bytes"].tolist(), strict=True))
    if [(file.name, file.bytes) for file in files] != known:
        message = f"{section.raw}: other files than those that {catalogue.root} lists; run 'dvc repro'"
        raise RawInputError(message)

    def open_split(split: str) -> Any:
        return domain.stream(
            files,
            section,
            catalogue.attributes,
            split,
            lambda keys: assign(keys, section.splits) == SPLITS.index(split),
            memory=machine.memory // 2,
            threads=machine.workers,
            device=device,
        )

    return open_split("train"), open_split("val")
