"""How fast PGN becomes a store: beside python-chess doing the same, and the engine alone.

    python bench/convert_chess.py players.pgn.zst --workers 2 --games 1500 --out bench/results

All three are measured in one run on the same machine; what is compiled is so before. ``reference`` is what one would
write with python-chess: read a game, replay it, pack twelve bitboards a position; it converts every n-th game of those
that the filters accept. ``engine`` is the Rust reader alone on the accepted games, output discarded.
"""

from __future__ import annotations

import argparse
import io
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from importlib.metadata import version
from pathlib import Path
from typing import Any

import chess
import chess.pgn
import numpy as np
import rust_pgn_reader_python_binding as rust
import yaml

from converting import convert_files
from outofcore.domains.chess.pgn.games import game_starts
from outofcore.domains.registry import get_domain
from outofcore.raw.files import RawFile, find_files
from outofcore.raw.unit import NO_AUDIT, Unit
from outofcore.store.reader import open_store
from record import Row, save

PIECES = [(kind, colour) for colour in (chess.WHITE, chess.BLACK) for kind in chess.PIECE_TYPES]


def whole(files: list[RawFile], section: Any, workers: int, folder: Path) -> dict[str, Any]:
    made = convert_files(get_domain("chess"), section, files, folder / "chess.zarr", workers)
    return {
        **{key: made.figures[key] for key in ("found", "accepted", "rejected", "audited", "bytes_per_row")},
        "positions": made.rows,
        "seconds": round(made.seconds, 2),
        "positions_per_second": round(made.rows / made.seconds),
        "peak_memory_mb": round(made.memory.peak_bytes / 1e6),
    }


def reference(texts: list[str]) -> dict[str, Any]:
    started = time.perf_counter()
    positions = 0
    for text in texts:
        game = chess.pgn.read_game(io.StringIO(text))
        if game is None or game.errors:
            continue
        board = game.board()
        boards, moves = [], []
        for move in game.mainline_moves():
            boards.append([board.pieces_mask(kind, colour) for kind, colour in PIECES])
            moves.append(move.from_square | move.to_square << 6 | (move.promotion or 0) << 12)
            board.push(move)
        positions += len(np.array(boards, np.uint64)) and len(np.array(moves, np.uint16))
    seconds = time.perf_counter() - started
    return {"games": len(texts), "positions": positions, "positions_per_second": round(positions / seconds)}


def engine(units: list[Unit], workers: int, chosen: dict[int, list[int]]) -> dict[str, Any]:
    """The Rust reader alone on the very games that were accepted."""
    texts = [texts_at(unit, chosen.get(place, [])) for place, unit in enumerate(units)]

    def parse(part: list[str]) -> int:
        return int(rust.parse_games_from_strings(part, num_threads=1).num_moves)

    started = time.perf_counter()
    with ThreadPoolExecutor(workers) as pool:
        positions = sum(pool.map(parse, [part for part in texts if part]))
    seconds = time.perf_counter() - started
    return {"positions": positions, "positions_per_second": round(positions / seconds)}


def texts_at(unit: Unit, offsets: list[int]) -> list[str]:
    """The games that begin at offsets of the unit's file."""
    starts = game_starts(np.frombuffer(unit.payload, np.uint8)) + unit.offset
    ends = [*starts[1:].tolist(), unit.offset + len(unit.payload)]
    stops = dict(zip(starts.tolist(), ends, strict=True))
    return [unit.payload[offset - unit.offset : stops[offset] - unit.offset].decode("latin-1") for offset in offsets]


def accepted_games(store: Path, units: list[Unit]) -> dict[int, list[int]]:
    """Offsets of the accepted games, by place of their unit."""
    found: dict[int, list[int]] = {}
    first = np.array([unit.offset for unit in units])
    for split in ("train", "val", "test"):
        offsets = open_store(store).sequences(split)["offset"].read().astype(np.int64)
        for place, offset in zip(np.searchsorted(first, offsets, "right") - 1, offsets, strict=True):
            found.setdefault(int(place), []).append(int(offset))
    return {place: sorted(offsets) for place, offsets in found.items()}


def section() -> Any:
    params = yaml.safe_load(Path("params.yaml").read_text())["chess"]
    params["filters"] |= {"min_elo": 1900, "unknown_elo": "drop"}
    return get_domain("chess").section.model_validate(params)


def table(ours: dict[str, Any], slow: dict[str, Any], fast: dict[str, Any]) -> list[Row]:
    """The figures, the reference as the unit."""
    labels = {
        "outofcore: files to a sealed store": ours,
        "python-chess: read, replay, pack twelve bitboards": slow,
        "the Rust reader alone, output discarded": fast,
    }
    unit = slow["positions_per_second"]
    rows = []
    for label, each in labels.items():
        speed = each["positions_per_second"]
        against = {"ratio": speed / unit, "against": "python-chess"}
        rows.append(Row(label=label, value=speed, unit="positions/s", table="conversion", **against))
    label = next(iter(labels))
    rows.append(Row(label=label, value=ours["seconds"], unit="seconds", table="conversion"))
    rows.append(Row(label=label, value=ours["peak_memory_mb"], unit="peak MB", table="conversion"))
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("input", type=Path, help="a PGN file, plain or compressed")
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--games", type=int, default=1500, help="games that the reference converts")
    parser.add_argument("--out", type=Path, default=Path("bench/results"))
    options = parser.parse_args()
    files = find_files(options.input, "**/*", (".pgn",), section="chess")
    settings = section()
    units = [unit for unit in get_domain("chess").units(files, settings) if unit.payload]
    get_domain("chess").converter(settings, NO_AUDIT)(units[0])  # compiled before it is timed
    options.out.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=options.out.parent) as folder:
        ours = whole(files, settings, options.workers, Path(folder))
        chosen = accepted_games(Path(folder) / "chess.zarr", units)
    every = max(1, ours["accepted"] // options.games)
    texts = [text for place, offsets in sorted(chosen.items()) for text in texts_at(units[place], offsets)]
    slow = reference(texts[::every])
    del texts
    fast = engine(units, options.workers, chosen)
    size = sum(len(unit.payload) for unit in units)
    save(
        options.out,
        "convert_chess",
        "chess, from PGN",
        table(ours, slow, fast),
        facts=(
            f"{ours['found']:,} games in {size / 1e6:,.0f} MB of PGN",
            f"{ours['accepted']:,} accepted with {ours['positions']:,} positions, {ours['audited']:,} games audited",
            f"{ours['bytes_per_row']:.3g} bytes per position in the store",
        ),
        details={"workers": options.workers, "outofcore": ours, "reference": slow, "engine": fast},
        versions={"python-chess": version("chess")},
    )


if __name__ == "__main__":
    main()
