"""Feeds mutated files to a domain, in a process of its own: ``python -m tests.property.hostile KIND FIRST COUNT``.

Prints one line of JSON. A file may be refused as a whole with an error of outofcore; its records may be rejected, with
found = accepted + rejected. Anything else (another exception, another count, too much memory or time) is told with the
seed that makes that file again.
"""

from __future__ import annotations

import json
import os
import random
import resource
import sys
import tempfile
import time
import traceback
import warnings
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache, partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet

from outofcore.conversion.assemble import Assembler
from outofcore.conversion.estimate import Estimate
from outofcore.conversion.executors import open_executor
from outofcore.conversion.run import Conversion
from outofcore.domains.domain import Domain
from outofcore.domains.registry import get_domain
from outofcore.domains.splits import splits_of
from outofcore.domains.text.tokens.learn import make_tokenizer
from outofcore.errors import OutOfCoreError, RawInputError
from outofcore.params import load_params
from outofcore.raw.files import find_files
from outofcore.raw.unit import AuditRate
from outofcore.store.schema import Columns, Schema
from outofcore.store.verify import verify
from tests.property import recordings
from tests.property.mutations import mutate, pack
from tests.property.words import HDF5, NPZ, PARQUET, PGN, SGF, TEXT

ROOT = Path(__file__).parents[2]
MOST_SECONDS = 20.0
"""Of a processor's time, for a file of at most 200 kB."""
MOST_BYTES = 600_000_000
"""Memory beyond what the files took that were not mutated."""
MOST_ADDRESSES = 12 << 30
WHOLE = 50
"""One file in so many is converted into a store as well."""


@dataclass(frozen=True)
class Kind:
    """A kind of file."""

    domain: str  # that reads it
    suffix: str
    words: Sequence[bytes]  # that mean something in it
    seeds: Sequence[bytes]  # files that can be read
    source: Mapping[str, Any] = field(default_factory=dict)  # settings under ``source``
    change: Callable[[bytes, random.Random], bytes] | None = None  # another way to make a changed file


def kind_of(name: str) -> Kind:
    """The kind of that name."""
    if name in {"pgn", "sgf", "txt", "jsonl"}:
        domain = {"pgn": "chess", "sgf": "go"}.get(name, "text")
        words = {"pgn": PGN, "sgf": SGF}.get(name, TEXT)
        return Kind(domain, f".{name}", words, [*_sampled(domain, f".{name}"), *_real(f".{name}")])
    if name == "parquet":
        return Kind("text", ".parquet", PARQUET, [_parquet(number) for number in range(4)])
    generators = [np.random.default_rng(number) for number in range(6)]
    plain = {"stimulus": "stim", "responses": "robs", "trial": "trial"}
    timed = {
        "spike_times": "spike_times",
        "spike_neurons": "spike_neurons",
        "frame_times": "frame_times",
        "stimulus": "stim",
        "responses": None,
        "trial": "trials",
        "repeat": "film",
    }
    if name == "npz":
        made = [recordings.npz(generator) for generator in generators]
        source = {"names": timed, "bin_width": 1 / 60}
        return Kind("neural", ".npz", NPZ, made, source, lambda _, dice: recordings.reshape_npz(dice))
    if name == "nwb":
        made = [recordings.nwb(generator) for generator in generators]
        names = {
            "stimulus": "stimulus/presentation/movie",
            "responses": None,
            "spike_times": "units",
            "behavior": "acquisition/dff",
            "trial": "intervals/trials",
            "repeat": "intervals/trials/film",
        }
        return Kind("neural", ".nwb", HDF5, made, {"names": names, "bin_width": 1 / 60}, recordings.change_hdf5)
    made = [recordings.hdf5(generator) for generator in generators]
    source = {"names": plain} if name == "hdf5" else {"names": timed, "bin_width": 1 / 60}
    return Kind("neural", ".h5", HDF5, made, source, recordings.change_hdf5)


KINDS = ("pgn", "sgf", "txt", "jsonl", "parquet", "hdf5", "hdf5_clocks", "nwb", "npz")


@cache
def _sampled(domain: str, suffix: str) -> tuple[bytes, ...]:
    """Pieces of the files of a domain's own samples, each of which begins like its file."""
    found: list[bytes] = []
    for seed in range(1, 9):
        with tempfile.TemporaryDirectory() as folder:
            get_domain(domain).sample(Path(folder), np.random.default_rng(seed))
            for file in find_files(folder, "**/*", (suffix,), section=domain):
                for member in file.members((suffix,)):
                    found += _pieces(member.stream.read())
        if len(found) >= 16:
            break
    return tuple(found[:40])


def _pieces(content: bytes, size: int = 12_000) -> Iterator[bytes]:
    at = 0
    while at >= 0:
        yield content[at : at + size]
        at = content.find(content[:6], at + size)


def _real(suffix: str) -> list[bytes]:
    """Beginnings of published files, if ``OUTOFCORE_REAL_DATA`` names a folder of them."""
    named = os.environ.get("OUTOFCORE_REAL_DATA")
    return [path.read_bytes()[:20_000] for path in sorted(Path(named).rglob(f"*{suffix}"))] if named else []


def _parquet(number: int) -> bytes:
    generator = np.random.default_rng(number)
    texts = ["".join(map(chr, generator.integers(32, 600, 40))) for _ in range(60)]
    table = pa.table({"text": pa.array([None if n % 9 == 0 else text for n, text in enumerate(texts)])})
    sink = pa.BufferOutputStream()
    compression = ("none", "snappy", "zstd", "gzip")[number % 4]
    pyarrow.parquet.write_table(table, sink, compression=compression, row_group_size=25)
    content: bytes = sink.getvalue().to_pybytes()
    return content


def make(kind: Kind, seed: int) -> tuple[str, bytes]:
    """The name and the content of the mutated file of a seed."""
    dice = random.Random(seed)
    content = dice.choice(kind.seeds)
    name = f"x{kind.suffix}"
    if kind.change is not None and dice.random() < 0.5:
        content = kind.change(content, dice)
        if dice.random() < 0.8:
            return name, content
    if kind.domain == "neural" or kind.suffix == ".parquet" or dice.random() < 0.75:
        return name, mutate(content, dice, kind.words, kind.seeds)
    name, content = pack(name, content, dice)
    return name, mutate(content, dice, kind.words, kind.seeds)


class Sink:
    """Takes what a store would be written from, and checks it against the schema."""

    def __init__(self, schemas: Mapping[str, Schema]) -> None:
        self._schemas = schemas
        self._rows: Counter[tuple[str, str]] = Counter()

    def append(self, part: str, split: str, rows: Columns, sequences: Columns) -> None:
        """Rows of whole sequences."""
        self.append_rows(part, split, rows)
        count = len(sequences["length"])
        assert len(next(iter(rows.values()))) == sequences["length"].sum()
        self._columns(part, sequences, count)

    def append_rows(self, part: str, split: str, rows: Columns) -> int:
        """Rows by themselves."""
        count = len(next(iter(rows.values())))
        for each in self._schemas[part].rows:
            array = rows[each.name]
            assert array.shape == (count, *each.shape), (each.name, array.shape)
            assert each.dtype == "string" or array.dtype == np.dtype(each.dtype), (each.name, array.dtype)
        first = self._rows[part, split]
        self._rows[part, split] += count
        return first

    def append_sequences(self, part: str, _split: str, sequences: Columns) -> None:
        """Columns by themselves."""
        self._columns(part, sequences, len(sequences["length"]))

    def _columns(self, part: str, sequences: Columns, count: int) -> None:
        for each in self._schemas[part].sequences:
            array = sequences[each.name]
            assert array.shape == (count, *each.shape), (each.name, array.shape)
            assert each.dtype == "string" or array.dtype == np.dtype(each.dtype), (each.name, array.dtype)


def feed(domain: Domain, section: Any, raw: Path) -> Counter[str]:
    """Convert a folder in this thread, storing nothing; records accepted, and rejected by reason."""
    files = find_files(raw, section.match, domain.suffixes, section=domain.name)
    schemas = domain.schemas(section, files)
    converter = domain.converter(section, AuditRate())
    drop = section.filters.duplicates != "keep"
    assembler = Assembler(Sink(schemas), partial(splits_of, section=section.splits), drop_duplicates=drop)  # type: ignore[arg-type]
    passed = 0
    for unit in domain.units(files, section):
        result = converter(unit)
        assembler.add(unit, result)
        passed += unit.raw_bytes
        assert not result.differences
    assert assembler.found == assembler.accepted + assembler.rejected.total()
    assert passed <= sum(file.bytes for file in files), "bytes of raw input do not add up"
    return Counter({"accepted": assembler.accepted, **assembler.rejected})


def store(domain: Domain, section: Any, raw: Path, out: Path) -> None:
    """Convert a folder into a store, and check every byte of it."""
    files = find_files(raw, section.match, domain.suffixes, section=domain.name)
    conversion = Conversion(domain, section, files, out / "x.zarr", out / "rejects.csv")
    executor = open_executor("threads", 2)
    found = conversion.run(
        Estimate(0, 0, 0, 0), executor=executor, workers=2, watch=lambda *_: None, scratch=out
    ).figures
    assert found["found"] == found["accepted"] + sum(found["rejected"].values())
    verdict = verify(out / "x.zarr")
    assert verdict.problems == (), verdict.problems
    lines = (out / "rejects.csv").read_bytes().count(b"\n")
    assert lines > sum(found["rejected"].values())


def section_of(kind: Kind, folder: Path) -> Any:
    """The settings of params.yaml, every record audited."""
    section = load_params(ROOT / "params.yaml").section(kind.domain)
    facts = section.model_dump(mode="json") | {"raw": str(folder / "raw"), "match": "**/*"}
    if kind.source:
        facts["source"] = {**facts["source"], **kind.source}
        facts["source"]["names"] = {**dict.fromkeys(facts["source"]["names"]), **kind.source["names"]}
        if "bin_width" not in kind.source:
            facts["source"]["bin_width"] = None
    if kind.domain == "text":
        place = folder / "tokenizer.json"
        facts["tokenizer"]["path"] = str(place)
        section = type(section).model_validate(facts)
        (folder / "raw").mkdir()
        get_domain("text").sample(folder / "raw", np.random.default_rng(2))
        files = find_files(folder / "raw", "**/*", (".txt",), section="text")
        place.write_text(make_tokenizer(section, files), encoding="utf-8")
        for file in files:
            file.path.unlink()
    return type(section).model_validate(facts)


def run(name: str, first: int, count: int) -> dict[str, Any]:
    """Feed so many mutated files of a kind, of seeds from ``first`` on."""
    outcomes: Counter[str] = Counter()
    wrong: list[dict[str, Any]] = []
    with tempfile.TemporaryDirectory(prefix="hostile") as temporary:
        folder = Path(temporary)
        kind = kind_of(name)
        domain, section = get_domain(kind.domain), section_of(kind, folder)
        usual = 0
        for seed in range(first - len(kind.seeds), first + count):
            warm = seed < first  # as they are, first: what they take is what is usual
            file, content = (f"x{kind.suffix}", kind.seeds[first - seed - 1]) if warm else make(kind, seed)
            raw = fresh(folder / "raw")
            (raw / file).write_bytes(content)
            sys.stderr.write(f"{name} {seed}\n")
            started = time.process_time()
            try:
                outcome = "accepted" if feed(domain, section, raw)["accepted"] else "rejected"
                if seed % WHOLE == 0 and outcome == "accepted":
                    store(domain, section, raw, fresh(folder / "out"))
            except OutOfCoreError as error:
                outcome = type(error).__name__
                if not isinstance(error, RawInputError) or "\n" in str(error):
                    wrong.append({"seed": seed, "what": f"{outcome}: {error}"[:500]})
            except Exception as error:  # noqa: BLE001 - what no file may cause
                outcome = "failure"
                last = traceback.extract_tb(error.__traceback__)[-1]
                place = [f"{each.filename}:{each.lineno}" for each in traceback.extract_tb(error.__traceback__)]
                ours = [each for each in place if "outofcore/" in each]
                what = f"{type(error).__name__}: {str(error)[:200]}"
                wrong.append({"seed": seed, "what": what, "where": ours[-1] if ours else last.filename})
            took = time.process_time() - started
            peak = 1024 * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
            if warm:
                assert outcome != "failure", (kind.suffix, seed, wrong)
                usual = peak
                continue
            outcomes[outcome] += 1
            if took > MOST_SECONDS:
                wrong.append({"seed": seed, "what": f"took {took:.1f} s"})
            if peak > usual + MOST_BYTES:
                wrong.append({"seed": seed, "what": f"took {(peak - usual) / 1e6:.0f} MB more than usual"})
                usual = peak
    return {"fed": sum(outcomes.values()), "outcomes": dict(outcomes), "wrong": wrong}


def fresh(folder: Path) -> Path:
    """An empty folder."""
    if folder.exists():
        for path in sorted(folder.rglob("*"), reverse=True):
            path.rmdir() if path.is_dir() else path.unlink()
    folder.mkdir(exist_ok=True)
    return folder


if __name__ == "__main__":
    resource.setrlimit(resource.RLIMIT_AS, (MOST_ADDRESSES, MOST_ADDRESSES))  # this machine is not to suffer
    warnings.simplefilter("error")
    warnings.filterwarnings("ignore", "invalid escape sequence", DeprecationWarning)  # of sgfmill, when it is compiled
    sys.stdout.write(json.dumps(run(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]))) + "\n")
