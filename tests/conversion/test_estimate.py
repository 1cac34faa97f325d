"""What a sample of the input says about all of it."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest

import outofcore
from outofcore.conversion.estimate import Estimate, estimate, store_bound
from outofcore.conversion.executors import open_executor
from outofcore.conversion.run import Conversion
from outofcore.domains.chess import DOMAIN
from outofcore.domains.neural import DOMAIN as NEURAL
from outofcore.domains.units import UnitConverter
from outofcore.raw.files import Member, RawFile, find_files
from outofcore.raw.unit import AuditRate, Unit, UnitResult
from outofcore.store.schema import Schema
from tests.conversion.lines import Lines, LinesSection, convert, convert_lines, write_lines


@cache
def half(files: str, white: int, black: int) -> str:
    """Moves of the pawns on four files: one step or two, as the four bits of a number say."""
    steps = zip(files, f"{white:04b}", f"{black:04b}", strict=True)
    return " ".join(f"{file}{'34'[int(one)]} {file}{'65'[int(two)]}" for file, one, two in steps)


def pawn_moves(number: int) -> str:
    """A game of its own for each number below 65,536: each pawn moves one step or two."""
    first = half("abcd", number >> 12, number >> 4 & 15)
    return f"{first} {half('efgh', number >> 8 & 15, number & 15)}"


def write_games(path: Path, count: int, from_position: int) -> None:
    """Games of which every so-many-th starts from another position."""
    other = '[SetUp "1"]\n[FEN "rnbqkbnr/pppppppp/8/8/8/8/PPPPPPPP/RNBQKBNR w - - 0 1"]\n'
    with path.open("w") as file:
        for number in range(count):
            tags = other if number % from_position == 0 else '[White "x"]\n'
            file.write(f"{tags}\n{pawn_moves(number)} 1-0\n\n")


Sample = Callable[[int, int], None]


def forecast(domain: Any, raw: Path, **settings: Any) -> Estimate:
    section = domain.section(raw=str(raw), **settings)
    files = find_files(raw, "**/*", domain.suffixes, section=domain.name)
    with open_executor("threads", 1) as executor:
        return estimate(domain, section, files, executor)


@pytest.fixture
def sample_of(monkeypatch: pytest.MonkeyPatch) -> Sample:
    """Sets between how many units, and half of how many bytes, and twice as many a sample has."""

    def of(units: int, size: int) -> None:
        monkeypatch.setattr("outofcore.conversion.estimate.SAMPLE_UNITS", units)
        monkeypatch.setattr("outofcore.conversion.estimate.SAMPLE_BYTES", size)

    return of


def test_the_rate_follows_from_the_number_of_records() -> None:
    def rate(sequences: int, unusual: int) -> AuditRate:
        return Estimate(0, 0, 0, 0, sequences=sequences, unusual=unusual).audit_rate(1000)

    assert rate(100, 0) == AuditRate(1, 1)
    assert rate(1_000_000, 20) == AuditRate(1000, 1)
    assert rate(1_000_000, 50_000) == AuditRate(1000, 50)
    assert rate(10**10, 10**10) == AuditRate(10**7, 10**7)


@pytest.mark.parametrize("count", [1_000, 6_000])
def test_as_many_records_are_audited_however_many_there_are(count: int, tmp_path: Path) -> None:
    write_games(tmp_path / "games.pgn", count, from_position=100)
    section = DOMAIN.section(raw=str(tmp_path), audit={"records": 200})
    files = find_files(tmp_path, "**/*", DOMAIN.suffixes, section="chess")
    expected = forecast(DOMAIN, tmp_path)
    assert expected.sequences == count
    assert expected.unusual == count // 100
    figures = (
        Conversion(DOMAIN, section, files, tmp_path / "chess.zarr", tmp_path / "rejects.csv")
        .run(expected, executor=open_executor("threads", 1), workers=1, watch=lambda *_: None)
        .figures
    )
    usual = figures["audited"] - min(200, count // 100)  # all of the few that start elsewhere
    assert 140 < usual < 260


def test_repeated_games_do_not_raise_the_number_of_audits(tmp_path: Path) -> None:
    for number in range(10):
        write_games(tmp_path / f"{number}.pgn", 400, from_position=100)
    expected = forecast(DOMAIN, tmp_path)
    assert (expected.sequences, expected.unusual) == (4000, 40)
    assert expected.rows < 2 * 16 * 400


def test_the_time_is_that_of_all_units_at_the_rate_of_a_sample(tmp_path: Path, sample_of: Sample) -> None:
    for number in range(2):
        write_games(tmp_path / f"{number}.pgn", 30_000, from_position=10**9)
    sample_of(2, 2**21)
    section = DOMAIN.section(raw=str(tmp_path))
    files = find_files(tmp_path, "**/*", DOMAIN.suffixes, section="chess")
    units = sum(1 for _ in DOMAIN.units(files, section))

    class Slow(ThreadPoolExecutor):
        count = 0

        def submit(self, function: Callable[..., Any], /, *arguments: Any, **named: Any) -> Future[Any]:
            self.count += 1

            def later() -> Any:
                time.sleep(0.3)
                return function(*arguments, **named)

            return super().submit(later)

    forecast(DOMAIN, tmp_path)  # compiles what the first unit would wait for
    with Slow(1) as executor:
        begun = time.monotonic()
        expected = estimate(DOMAIN, section, files, executor)
        elapsed = time.monotonic() - begun
    assert expected.sampled_bytes < expected.raw_bytes
    # Units differ in size by less than a fifth.
    assert 0.8 * 0.3 * units < expected.seconds < 1.2 * elapsed * units / (executor.count - 1)


def test_a_sample_without_unusual_records_leaves_room_for_some(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, sample_of: Sample
) -> None:
    write_games(tmp_path / "games.pgn", 60_000, from_position=10**9)
    sample_of(1, 2**20)
    expected = forecast(DOMAIN, tmp_path)
    assert expected.sampled_bytes < 0.6 * expected.raw_bytes
    assert expected.sequences == pytest.approx(60_000, rel=0.05)
    assert 3 < expected.unusual < 60
    monkeypatch.setattr("outofcore.conversion.estimate.SAMPLE_RAW_BYTES", 2**20)  # only the beginning is read
    expected = forecast(DOMAIN, tmp_path)
    assert expected.unusual == expected.sequences


def test_of_many_small_files_some_are_opened(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, sample_of: Sample
) -> None:
    counts = [150 + number % 7 for number in range(800)]
    for number, count in enumerate(counts):
        write_games(tmp_path / f"{number:03}.pgn", count, from_position=10)
    sample_of(1, 2**20)
    opened, members = list[str](), RawFile.members

    def watched(file: RawFile, suffixes: tuple[str, ...]) -> Iterator[Member]:
        opened.append(file.name)
        return members(file, suffixes)

    monkeypatch.setattr(RawFile, "members", watched)
    expected = forecast(DOMAIN, tmp_path, filters={"duplicates": "keep"})
    assert 0 < len(opened) < 500
    assert expected.sampled_bytes < 0.6 * expected.raw_bytes
    assert expected.sequences == pytest.approx(sum(counts), rel=0.02)
    assert expected.rows == pytest.approx(16 * sum(counts), rel=0.02)


@pytest.mark.parametrize(("files", "games"), [pytest.param(32, 2000, marks=pytest.mark.long), (48, 1300), (640, 100)])
def test_two_copies_of_a_folder_are_counted_once(files: int, games: int, tmp_path: Path, sample_of: Sample) -> None:
    """Although a sample of units at equal distances can hold both copies of each game, or no game twice."""
    sample_of(4, 2**18)
    for number in range(files):
        numbers = range(number * games, (number + 1) * games)
        text = "".join(f'[White "x"]\n\n{pawn_moves(each)} 1-0\n\n' for each in numbers)
        for copy in "ab":
            (tmp_path / copy).mkdir(exist_ok=True)
            (tmp_path / copy / f"{number:03}.pgn").write_text(text)
    expected = forecast(DOMAIN, tmp_path)
    assert expected.sampled_bytes < 0.6 * expected.raw_bytes
    assert expected.rows == pytest.approx(16 * files * games, rel=0.15)


@pytest.mark.parametrize("trials", [1, 2, 7])
def test_a_few_long_trials_are_estimated_from_pieces_of_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, trials: int
) -> None:
    monkeypatch.setattr("outofcore.domains.neural.source.UNIT_BYTES", 4096)
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file["stim"] = np.random.default_rng(0).integers(0, 256, (7000, 8, 8), np.uint8)
        file["robs"] = np.ones((7000, 3), np.float32)
        file["trial"] = np.arange(7000) * trials // 7000
    expected = forecast(NEURAL, tmp_path, source={"names": {"trial": "trial"}})
    assert expected.sampled_bytes < 0.3 * expected.raw_bytes
    assert expected.rows == pytest.approx(7000, rel=0.1)


def test_empty_files_next_to_a_recording_do_not_end_the_estimate(tmp_path: Path) -> None:
    for number in range(60):
        (tmp_path / f"{number:02}.h5").touch()
    with h5py.File(tmp_path / "recording.h5", "w") as file:
        file["stim"], file["robs"] = np.zeros((90, 2, 2), np.uint8), np.zeros((90, 3))
    expected = forecast(NEURAL, tmp_path)
    assert sum(expected.rejected.values()) > 0


def test_games_that_come_many_times_are_at_least_those_of_the_sample(tmp_path: Path, sample_of: Sample) -> None:
    sample_of(4, 2**18)
    for number in range(20):
        write_games(tmp_path / f"{number}.pgn", 3000, from_position=10**9)
    expected = forecast(DOMAIN, tmp_path)
    assert expected.rows == pytest.approx(16 * 3000, rel=0.01)


def unit_calls(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Counts the units that are converted."""
    calls, real = list[int](), UnitConverter.__call__

    def counted(self: UnitConverter, unit: Any) -> Any:
        calls.append(unit.raw_bytes)
        return real(self, unit)

    monkeypatch.setattr(UnitConverter, "__call__", counted)
    return calls


@pytest.mark.parametrize(
    "settings", [{}, {"source": {"time_spent": True}, "store": {"codec": "none"}}], ids=["plain", "large"]
)
def test_little_input_is_converted_once_and_its_store_is_within_the_bound(
    settings: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    games = "".join(f'[White "{number}"]\n\n1.a3 a6 1-0\n\n' for number in range(2_000))
    (tmp_path / "games.pgn").write_text(games)
    calls = unit_calls(monkeypatch)
    figures = outofcore.convert("chess", tmp_path / "games.pgn", tmp_path / "a.zarr", **settings)
    assert sum(calls) == len(games)
    section = DOMAIN.section(raw=str(tmp_path), **settings)
    bound = store_bound(DOMAIN, section, find_files(tmp_path, "*.pgn", DOMAIN.suffixes, section="chess"))
    assert bound is not None
    assert figures["bytes_store"] <= bound < 200 * len(games)
    monkeypatch.setenv("OUTOFCORE_MEMORY", "4GB")  # which is to be kept, so that a sample is needed
    again = outofcore.convert("chess", tmp_path / "games.pgn", tmp_path / "b.zarr", **settings)
    assert again == figures
    assert sum(calls) == 3 * len(games)


def test_little_input_is_sampled_where_its_bound_does_not_fit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_games(tmp_path / "games.pgn", 500, from_position=100)
    calls = unit_calls(monkeypatch)
    monkeypatch.setattr("outofcore.space.filesystems.Filesystem.free", lambda _: 3 << 20)
    monkeypatch.setenv("OUTOFCORE_DISK_RESERVE", "0")
    outofcore.convert("chess", tmp_path / "games.pgn", tmp_path / "a.zarr")
    assert len(calls) == 2


def test_about_as_many_records_are_audited_though_nothing_counted_them(tmp_path: Path) -> None:
    """In several units, of games that take 30 or 300 bytes."""
    for number, plies in enumerate((4, 60, 4, 60)):
        moves = " ".join(f"{ply}. Nf3 Nf6 {ply + 1}. Ng1 Ng8" for ply in range(1, plies, 2))
        games = (f'[White "{number} {game}"]\n\n{moves} 1-0\n\n' for game in range(2_000))
        (tmp_path / f"{number}.pgn").write_text("".join(games))
    figures = outofcore.convert("chess", tmp_path, tmp_path / "a.zarr", match="*.pgn", audit={"records": 500})
    assert figures["audited"] == pytest.approx(500, rel=0.15)


def test_the_estimate_is_near_what_is_then_written(tmp_path: Path, sample_of: Sample) -> None:
    sample_of(12, 1 << 19)
    rng, raw = np.random.default_rng(0), tmp_path / "raw"
    raw.mkdir()
    lines = [" ".join(map(str, rng.integers(0, 1000, 40))) for _ in range(20_000)]
    copies = rng.choice(len(lines), 4_000, replace=False)
    (raw / "a.txt").write_text("\n".join(lines) + "\n")
    (raw / "b.txt").write_text("\n".join(lines[number] for number in copies) + "\n")
    section = LinesSection.model_validate({"store": {"chunk_rows": 4096, "shard_rows": 65536}})
    domain = Lines(unit_bytes=25_000)
    expected = forecast(domain, raw, store=section.store)
    outcome = convert(raw, tmp_path, domain, section)
    assert expected.store_bytes == pytest.approx(outcome.figures["bytes_store"], rel=0.1)
    assert expected.rows == pytest.approx(sum(outcome.figures["rows"].values()), rel=0.1)
    assert expected.sampled_bytes < expected.raw_bytes


def test_the_estimate_of_a_small_input_is_what_is_then_written(tmp_path: Path) -> None:
    raw = tmp_path / "raw"
    write_lines(raw, np.random.default_rng(3), 700)
    section = LinesSection.model_validate({"store": {"codec": "none", "chunk_rows": 64, "shard_rows": 256}})
    domain = Lines(unit_bytes=8_000)
    expected = forecast(domain, raw, store=section.store)
    figures = convert(raw, tmp_path, domain, section).figures
    assert sum(figures["rejected"].values()) > 0
    assert expected.sampled_bytes == expected.raw_bytes
    assert expected.rows == sum(figures["rows"].values())
    # All that the estimate does not know are the digests of the files, which are compressed.
    assert expected.store_bytes == pytest.approx(figures["bytes_store"], abs=64)


@dataclass(frozen=True)
class Parts(Lines):
    """Lines of which each file is a part of the store."""

    unit_bytes: int = 10**6

    def schemas(self, section: Any, files: Any) -> dict[str, Schema]:
        [schema] = super().schemas(section, files).values()
        return {Path(file.name).stem: schema for file in files}

    def converter(self, section: Any, rate: Any) -> Any:
        del section, rate
        return convert_part


def convert_part(unit: Unit) -> UnitResult:
    return replace(convert_lines(unit), part=Path(unit.name).stem)


def test_the_estimate_of_many_small_parts_counts_the_files_of_each(tmp_path: Path, sample_of: Sample) -> None:
    sample_of(12, 1)
    rng, raw = np.random.default_rng(0), tmp_path / "raw"
    raw.mkdir()
    for number in range(61):
        lines = [" ".join(map(str, rng.integers(0, 1000, 10))) for _ in range(20)]
        (raw / f"part{number:03d}.txt").write_text("\n".join(lines) + "\n")
    expected = forecast(Parts(), raw)
    assert expected.sampled_bytes < expected.raw_bytes / 2
    figures = convert(raw, tmp_path, Parts()).figures
    assert expected.store_bytes == pytest.approx(figures["bytes_store"], rel=0.1)
