"""What a conversion will write, from a sample of the real input."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import Executor, ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import numpy as np

from outofcore.convert.assemble import Assembler
from outofcore.convert.described import attributes, counted, sources
from outofcore.convert.executors import in_order
from outofcore.convert.splits import SPLITS
from outofcore.domains.domain import Domain
from outofcore.raw.files import RawFile
from outofcore.raw.unit import Unit, UnitResult
from outofcore.store.measure import MeasuredStore

ENCODERS = 4
# Between this many units and twice as many are converted, spread evenly over the input.
SAMPLE_UNITS = 24
# Beyond this much raw input the sample is taken from its beginning: a look at the rest would take longer than it tells.
SAMPLE_RAW_BYTES = 4 * 2**30


@dataclass(frozen=True)
class Estimate:
    """A forecast of a store.

    Attributes
    ----------
    store_bytes
        Size of the store on disk.
    rows
        Rows in all splits.
    raw_bytes
        Size of the raw input.
    sampled_bytes
        How much of the raw input was converted for it.
    """

    store_bytes: int
    rows: int
    raw_bytes: int
    sampled_bytes: int


def estimate(domain: Domain, section: Any, files: Sequence[RawFile], executor: Executor, ahead: int = 4) -> Estimate:
    """Convert a sample of the input, without writing, and scale it up; a small input is converted as a whole.

    Duplicates are scaled as what they are, pairs: of the pairs that lie in different units, a sample of a share f of
    all units sees a share f squared.

    Parameters
    ----------
    domain, section, files
        As for the conversion.
    executor
        Where the sample is converted.

    Raises
    ------
    AuditError
        If engine and oracle disagree about a record of the sample.
    """
    raw_bytes = sum(file.bytes for file in files)
    units, seen_bytes, whole = _spread(domain.units(files, section))
    schemas = domain.schemas(section, files)
    convert: Callable[[Unit], UnitResult] = domain.converter(section)
    drop = getattr(section.filters, "duplicates", "keep") == "drop"
    sampled = sum(unit.raw_bytes for unit in units)
    with ThreadPoolExecutor(ENCODERS, thread_name_prefix="encode") as encoders:
        store = MeasuredStore(schemas, section.store.layout(), SPLITS, encoders)
        assembler = Assembler(store, section.splits, drop_duplicates=drop and whole)
        pairs = _Pairs()
        for unit, result in in_order(executor, convert, units, ahead):
            assembler.add(unit, result)
            if not whole:
                pairs.add(result.keys)
        scale = 1.0
        if not whole and sampled:
            scale = raw_bytes / sampled * (pairs.kept(sampled / seen_bytes) if drop else 1.0)
        rows = sum(store.count(name)[0] for name in SPLITS) * scale
        root = attributes(domain, section, schemas, counted(assembler, store))
        # Digests are read with the files; what counts here is that they are as long, and as hard to compress.
        listed = sources(files, assembler, (hashlib.sha256(file.name.encode()).hexdigest() for file in files))
        return Estimate(store.size(root, listed, scale), int(rows), raw_bytes, sampled)


class _Pairs:
    """Counts equal keys inside units and between them."""

    def __init__(self) -> None:
        self._keys: list[Any] = []
        self._total = self._inside = 0

    def add(self, keys: Any) -> None:
        unique = np.unique(keys, axis=0)
        self._total += len(keys)
        self._inside += len(keys) - len(unique)
        self._keys.append(unique)

    def kept(self, share: float) -> float:
        """Share of all sequences that is left without duplicates, where a share of all units was seen."""
        if not self._total:
            return 1.0
        between = sum(map(len, self._keys)) - len(np.unique(np.concatenate(self._keys), axis=0))
        return max(0.0, 1 - (self._inside / share + between / share**2) * share / self._total)


def _spread(units: Iterable[Unit]) -> tuple[list[Unit], int, bool]:
    """A sample of units: every 2**k-th, so that SAMPLE_UNITS to twice as many are kept.

    Returns
    -------
    The units, the raw bytes that were passed, and whether these are all units that there are.
    """
    kept: list[tuple[int, Unit]] = []
    stride, passed = 1, 0
    for number, unit in enumerate(units):
        passed += unit.raw_bytes
        # What goes on from the unit before makes sense beside that one only.
        if number % stride == 0 and (stride == 1 or not unit.detail.get("continues")):
            kept.append((number, unit))
        if len(kept) == 2 * SAMPLE_UNITS:
            stride *= 2
            kept = [(at, each) for at, each in kept if at % stride == 0 and not each.detail.get("continues")]
        if passed > SAMPLE_RAW_BYTES:
            return [each for _, each in kept if not each.detail.get("continues")], passed, False
    return [each for _, each in kept], passed, stride == 1
