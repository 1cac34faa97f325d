"""A small domain for these tests: a line of numbers is a sequence, a number is a row; long lines go in pieces."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from outofcore.conversion.estimate import Estimate
from outofcore.conversion.executors import open_executor
from outofcore.conversion.run import Conversion, ConversionResult
from outofcore.domains.domain import Domain
from outofcore.domains.sections import DomainSection, SplitSection, StoreSection
from outofcore.errors import SpaceError
from outofcore.raw.files import RawFile, find_files
from outofcore.raw.unit import AuditRate, Reject, Unit, UnitResult
from outofcore.store.schema import Field, Schema


class LinesSection(DomainSection):
    raw: str | dict[str, str] = ""
    splits: SplitSection = SplitSection(val=0.2, test=0.1)
    store: StoreSection = StoreSection(chunk_rows=64, shard_rows=256)


@dataclass(frozen=True)
class Lines(Domain):
    unit_bytes: int = 200
    piece: int = 50
    doc: str = "a number"
    name: str = "lines"
    row: str = "number"
    sequence: str = "line"
    suffixes: tuple[str, ...] = (".txt",)
    section: type[LinesSection] = LinesSection

    def schemas(self, section: Any, files: Sequence[RawFile]) -> dict[str, Schema]:
        del section, files
        return {
            "": Schema(
                rows=(Field(name="number", dtype="int32", doc=self.doc),),
                sequences=(
                    Field(name="text", dtype="string", fill="", doc="beginning of the line"),
                    Field(name="offset", dtype="uint64", doc="byte offset"),
                ),
            )
        }

    def units(self, files: Sequence[RawFile], section: Any) -> Iterator[Unit]:
        del section
        for source, file in enumerate(files):
            lines: list[tuple[int, bytes, dict[str, Any]]] = []
            offset = told = 0
            for line in file.path.read_bytes().splitlines(keepends=True):
                numbers = line.split()
                if len(numbers) > self.piece:
                    if lines:
                        yield self._unit(source, file.name, lines, offset - told)
                        told, lines = offset, []
                    pieces = range(0, len(numbers), self.piece)
                    for first in pieces:
                        payload = b" ".join(numbers[first : first + self.piece])
                        last = first == pieces[-1]
                        yield Unit(
                            source=source,
                            name=file.name,
                            offset=offset,
                            payload=payload,
                            detail={"line": line, "continues": first > 0, "unfinished": not last},
                            raw_bytes=len(line) if last else 0,
                        )
                    told = offset + len(line)
                else:
                    lines.append((offset, line, {}))
                    if sum(len(each) for _, each, _ in lines) >= self.unit_bytes:
                        yield self._unit(source, file.name, lines, offset + len(line) - told)
                        told, lines = offset + len(line), []
                offset += len(line)
            if lines:
                yield self._unit(source, file.name, lines, offset - told)

    def _unit(self, source: int, name: str, lines: list[Any], raw_bytes: int) -> Unit:
        payload = b"".join(line for _, line, _ in lines)
        return Unit(source=source, name=name, offset=lines[0][0], payload=payload, raw_bytes=raw_bytes)

    def converter(self, section: Any, rate: AuditRate) -> Callable[[Unit], UnitResult]:
        del section, rate
        return convert_lines


def convert_lines(unit: Unit) -> UnitResult:
    rejects, rows, columns, keys = [], [], {"text": [], "offset": [], "length": []}, []
    offset = unit.offset
    whole = unit.detail.get("line")
    for line in unit.payload.splitlines(keepends=True):
        key_line = whole or line
        try:
            numbers = [int(word) for word in line.split()]
            if not numbers:
                rejects.append(Reject(reason="empty", offset=offset))
            else:
                rows += numbers
                columns["text"].append(key_line[:9].decode())
                columns["offset"].append(offset)
                columns["length"].append(len(numbers))
                keys.append(hashlib.blake2b(b" ".join(key_line.split()), digest_size=16).digest())
        except ValueError as error:
            rejects.append(Reject(reason="no_number", offset=offset, detail=str(error)))
        offset += len(line)
    differences = tuple(f"{unit.name}: {row} is unlucky" for row in rows if row == 13_131_313)
    continues = bool(unit.detail.get("continues"))
    return UnitResult(
        found=len(keys) + len(rejects) - continues,
        rows={"number": np.array(rows, np.int32)},
        sequences={
            "text": np.array(columns["text"], object),
            "offset": np.array(columns["offset"], np.uint64),
            "length": np.array(columns["length"], np.int64),
        },
        keys=np.frombuffer(b"".join(keys), np.uint8).reshape(-1, 16),
        rejects=tuple(rejects),
        continues=continues,
        unfinished=bool(unit.detail.get("unfinished")),
        counts={"digits": sum(len(str(row)) for row in rows)},
        stored_counts={"numbers": np.array(columns["length"], np.int64)},
        audited=len(keys),
        differences=differences,
    )


def write_lines(folder: Path, rng: np.random.Generator, lines: int = 300) -> list[str]:
    """Some lines: numbers, copies of earlier lines, a few bad ones, a few long ones."""
    written: list[str] = []
    for number in range(lines):
        kind = rng.random()
        if kind < 0.1 and written:
            written.append(written[int(rng.integers(len(written)))])
        elif kind < 0.15:
            written.append("1 2 x")
        elif kind < 0.17:
            written.append("")
        else:
            length = 170 if number % 40 == 7 else int(rng.integers(1, 12))
            written.append(" ".join(map(str, rng.integers(0, 10**6, length))))
    folder.mkdir(parents=True, exist_ok=True)
    half = len(written) // 2
    (folder / "a.txt").write_text("\n".join(written[:half]) + "\n")
    (folder / "b.txt").write_text("\n".join(written[half:]) + "\n")
    return written


def convert(
    raw: Path,
    out: Path,
    domain: Any = None,
    section: Any = None,
    *,
    address: str = "",
    workers: int = 1,
    **options: Any,
) -> ConversionResult:
    """Convert lines, or what another domain reads, into ``lines.zarr`` and ``rejects.csv`` in a folder."""
    domain, section = domain or Lines(), section or LinesSection()
    files = find_files(raw, section.match, domain.suffixes, section=domain.name)
    executor = open_executor("dask" if address else "threads", workers, address=address, files=files)
    conversion = Conversion(domain, section, files, out / "lines.zarr", out / "rejects.csv")
    watch = options.pop("watch", lambda *_: None)
    return conversion.run(Estimate(0, 0, 0, 0), executor=executor, workers=workers, watch=watch, **options)


def after_unit(number: int, act: Callable[[], object]) -> Callable[[int, int], None]:
    """A watch of a conversion that acts after the unit of a number, from 0."""
    units = count()

    def watch(*_: int) -> None:
        if next(units) == number:
            act()

    return watch


def full() -> None:
    """Stop a conversion as a full disk does."""
    raise SpaceError("full")


def stop(raw: Path, out: Path, units: int, domain: Any = None) -> None:
    """Stop a conversion with so many units done, and a checkpoint at each."""
    with pytest.raises(SpaceError):
        convert(raw, out, domain, watch=after_unit(units - 1, full), checkpoint_seconds=0.0)
