"""Small files that share a unit give what each would have given in a unit of its own, whatever is in them."""

from __future__ import annotations

import io
import random
import tarfile
from pathlib import Path
from typing import Any

import pytest

from outofcore.conversion.estimate import Estimate
from outofcore.conversion.executors import open_executor
from outofcore.conversion.run import Conversion
from outofcore.domains.registry import get_domain
from outofcore.errors import SpaceError
from outofcore.raw.files import find_files
from tests.cases import long_cases
from tests.property.hostile import Kind, kind_of, section_of
from tests.property.mutations import mutate

FILES = 40


def write(kind: Kind, raw: Path, seed: int) -> None:
    """As many files in a folder as in an archive: as they should be, a second time, empty, and damaged in some way."""
    dice = random.Random(seed)
    files = [(f"{number:03}{kind.suffix}", _content(kind, dice)) for number in range(FILES)]
    files[FILES // 2] = (f"{FILES // 2:03}{kind.suffix}", files[0][1])
    with tarfile.open(raw / "archive.tar.gz", "w:gz") as archive:
        for name, content in files:
            entry = tarfile.TarInfo(f"folder/{name}")
            entry.size = len(content)
            archive.addfile(entry, io.BytesIO(content))
    dice.shuffle(files)
    for number, (name, content) in enumerate(files):
        (raw / f"{number:03}-{name}").write_bytes(content)


def _content(kind: Kind, dice: random.Random) -> bytes:
    seed = dice.choice(kind.seeds)[: dice.choice((1000, 6000))]
    return dice.choice((seed, b"", mutate(seed, dice, kind.words, kind.seeds), seed.rstrip(b"\n")))


def convert(kind: Kind, section: Any, raw: Path, out: Path, stop: int | None = None) -> tuple[dict[str, Any], str]:
    """Figures and rejects of a conversion; ``stop`` interrupts it after so many units, and it is resumed."""
    domain = get_domain(kind.domain)
    files = find_files(raw, section.match, domain.suffixes, section=domain.name)

    def watch(*_: int) -> None:
        if next(left, None) is None:
            raise SpaceError("full")

    if stop is not None:
        left = iter(range(stop))
        conversion = Conversion(domain, section, files, out / "x.zarr", out / "rejects.csv")
        with pytest.raises(SpaceError):
            conversion.run(
                Estimate(0, 0, 0, 0), executor=open_executor("threads", 2), workers=2, watch=watch, checkpoint_seconds=0
            )
    left = iter(range(10**6))
    conversion = Conversion(domain, section, files, out / "x.zarr", out / "rejects.csv")
    outcome = conversion.run(Estimate(0, 0, 0, 0), executor=open_executor("threads", 2), workers=2, watch=watch)
    assert (outcome.resumed_units > 0) == bool(stop)
    return outcome.figures, (out / "rejects.csv").read_text(encoding="utf-8")


@pytest.mark.parametrize("name", ["pgn", "txt", *long_cases("sgf", "jsonl")])
def test_files_that_share_a_unit_are_read_each_by_itself(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kind = kind_of(name)
    section = section_of(kind, tmp_path)
    raw = tmp_path / "raw"
    raw.mkdir(exist_ok=True)
    write(kind, raw, seed=len(name))
    found = convert(kind, section, raw, tmp_path / "joined")
    assert found[0]["accepted"] > 30
    assert len(found[0]["rejected"]) > 2
    with monkeypatch.context() as patched:
        patched.setattr("outofcore.raw.cutting.MOST_FILES", 1)
        assert convert(kind, section, raw, tmp_path / "apart") == found
    monkeypatch.setattr("outofcore.raw.cutting.MOST_FILES", 7)
    assert convert(kind, section, raw, tmp_path / "resumed", stop=5) == found
