"""Has anything become slower? The ratios that matter most, in about two minutes, compared with committed ones.

    make bench-quick
    python bench/quick.py --write NOTE     commit the ratios of this run: bench/quick.json

Everything runs on made-up input, on two cores, in this process. Both sides of a ratio are measured in turn, so it
depends little on the machine and its load; each is the median of ``CONVERSIONS`` conversions, or of ``TURNS`` short
turns. Exits with 1 where a ratio is below ``LEAST`` of the committed one.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np

import conversion
import lag_windows
import loading
from harness.arrays import CHESS, gathered
from harness.raw import learn_tokenizer, lengthen, make_chess, make_go, make_text
from harness.results import machine
from harness.rows import LENGTH
from harness.sessions import make_sessions, sessions_section
from harness.sides import Epoch, Measured, compare_here
from harness.stores import convert, copy_sequences, section_of, write_arrays
from outofcore.display.table import DisplayTable, Kind, figure
from outofcore.domains.chess.schema import POSITION_COLUMNS
from outofcore.store.reader import open_store
from rivals import in_place

COMMITTED = Path(__file__).with_name("quick.json")
LEAST = 0.7
CONVERSIONS, TURNS, FOREIGN_TURNS, SECONDS, WORKERS = 5, 9, 5, 0.3, 2
TEXT_BYTES, SESSIONS_BYTES, FILES = 40_000_000, 150_000_000, 2_000
FOREIGN: dict[str, Any] = {
    "maps": {"shape": [1_000, 72, 144], "chunk": 1},
    "chunks of 24 maps": {"shape": [2_000, 72, 144], "chunk": 24},
    "shards of 1,440 maps": {"shape": [2_880, 72, 144], "chunk": 8, "shard": 1_440},
}
Ratios = dict[str, float]


def conversions(domain: str, raw: Path, engine: Epoch, name: str, changes: dict[str, Any]) -> Ratios:
    """Files to a store without audits against the engine alone, and with the audits that ship against without."""
    whole = conversion.whole(domain, str(raw), changes, WORKERS)
    unaudited = conversion.whole(domain, str(raw), changes, WORKERS, audits=False)
    sides = {"whole": whole, "unaudited": unaudited, "engine": engine}
    measured = compare_here(sides, CONVERSIONS, seconds=0, ahead=0)
    return {
        f"{domain}: files to a store without audits, to {name} alone": ratio(measured, "unaudited", "engine"),
        f"{domain}: with audits as shipped, to without": ratio(measured, "whole", "unaudited"),
    }


def ratio(measured: Mapping[str, Measured], one: str, other: str) -> float:
    return median(measured[one].ratios(measured[other]))


def chess(folder: Path) -> Ratios:
    """PGN to a store, and shuffled batches of planes."""
    raw = make_chess(folder, 1, 40)
    engine = conversion.rust_reader(str(raw), WORKERS)
    ratios = conversions("chess", raw, engine, "the Rust reader", {})
    convert("chess", section_of("chess", raw), folder / "chess.zarr", WORKERS)
    store = open_store(folder / "chess.zarr")
    fields = tuple(column.field for column in POSITION_COLUMNS if column.field.name in CHESS.fields)
    copy_sequences(store, 0, len(store.sequences("train")), folder / "plain.zarr", fields, "none")
    write_arrays(store, folder / "arrays", CHESS.fields)
    sides = {
        "streamed": loading.stored(str(folder / "chess.zarr"), "chess", "streamed", "128MiB"),
        "ram": loading.stored(str(folder / "chess.zarr"), "chess", "ram", "8GiB"),
        "mapped": loading.stored(str(folder / "plain.zarr"), "chess", "mapped", "128MiB"),
        "gather": gathered(str(folder / "arrays"), "chess", threads=1),
    }
    measured = compare_here(sides, TURNS, SECONDS)
    names = ("streamed", "ram", "mapped")
    return ratios | {f"chess: batches {name}, to gather from memory": ratio(measured, name, "gather") for name in names}


def many_files(folder: Path) -> Ratios:
    """A game per file, and the same games in one file."""
    apart, one = folder / "apart", folder / "one.pgn"
    apart.mkdir()
    games = conversion.games_of(make_chess(folder, 1, 40).read_bytes())[:FILES]
    for number, game in enumerate(games):
        (apart / f"{number}.pgn").write_text(game, encoding="utf-8")
    one.write_text("".join(games), encoding="utf-8")
    sides = {
        name: conversion.whole("chess", str(raw), {}, WORKERS) for name, raw in {"apart": apart, "one": one}.items()
    }
    measured = compare_here(sides, CONVERSIONS, seconds=0, ahead=0)
    return {f"chess: {FILES:,} files of a game, to one file": ratio(measured, "apart", "one")}


def go(folder: Path) -> Ratios:
    """SGF to a store."""
    raw = make_go(folder, 1, 9)
    engine = conversion.go_parser(str(raw), {}, WORKERS)
    return conversions("go", raw, engine, "our parser and board", {})


def text(folder: Path) -> Ratios:
    """Documents to a store, and shuffled windows of tokens."""
    source = make_text(folder, 2)
    tokenizer = learn_tokenizer(source, folder)
    raw = lengthen(source, folder / "raw", TEXT_BYTES)
    changes = {"tokenizer": {"path": str(tokenizer)}}
    engine = conversion.gigatoken_alone(str(raw), str(tokenizer), WORKERS)
    ratios = conversions("text", raw, engine, "gigatoken", changes)
    convert("text", section_of("text", raw, changes), folder / "text.zarr", WORKERS)
    store = open_store(folder / "text.zarr")
    tokens = store.rows("train")["tokens"].read()
    (folder / "windows").mkdir()
    np.save(folder / "windows" / "tokens.npy", np.lib.stride_tricks.sliding_window_view(tokens, LENGTH + 1)[::LENGTH])
    sides = {
        "streamed": loading.stored(str(folder / "text.zarr"), "text", "streamed", "128MiB"),
        "ram": loading.stored(str(folder / "text.zarr"), "text", "ram", "8GiB"),
        "gather": gathered(str(folder / "windows"), "text", threads=1),
    }
    measured = compare_here(sides, TURNS, SECONDS)
    names = ("streamed", "ram")
    return ratios | {f"text: windows {name}, to gather from memory": ratio(measured, name, "gather") for name in names}


def neural(folder: Path) -> Ratios:
    """Lag windows."""
    raw, store = folder / "sessions", folder / "neural.zarr"
    raw.mkdir()
    make_sessions(str(raw), SESSIONS_BYTES)
    convert("neural", sessions_section(raw, "lz4"), store, WORKERS)
    sides = {
        "streamed": lag_windows.stored(str(store)),
        "select": lag_windows.selected(str(store), again=False),
    }
    measured = compare_here(sides, TURNS, SECONDS)
    return {"neural: lag windows streamed, to index_select": ratio(measured, "streamed", "select")}


def foreign(folder: Path) -> Ratios:
    """Zarr stores that zarr-python wrote, in place, and the same loop over zarr-python."""
    ratios = {}
    for kind, form in FOREIGN.items():
        store = str(folder / kind)
        in_place.write(store, **form)
        sides = {
            "streamed": in_place.outofcore(store, 64, memory="48MiB", shuffle={"pool_blocks": 16}),
            "zarr-python": in_place.zarr_python(store, 64),
        }
        measured = compare_here(sides, FOREIGN_TURNS, SECONDS)
        ratios[f"Zarr of other software: {kind} streamed, to zarr-python"] = ratio(measured, "streamed", "zarr-python")
    return ratios


def compared(now: Mapping[str, float], committed: Mapping[str, float]) -> tuple[DisplayTable, list[str]]:
    """The table, and the ratios that fell."""
    lines, fell = [], []
    for name, value in now.items():
        before = committed.get(name)
        lines.append([name, value, "" if before is None else before, "" if before is None else value / before])
        if before is not None and value < LEAST * before:
            fell.append(f"{name}: {figure(value)}, expected at least {figure(LEAST * before)}")
    header: list[tuple[str, Kind]] = [
        ("figure", "text"),
        ("now", "figure"),
        ("committed", "figure"),
        ("ratio", "figure"),
    ]
    return DisplayTable(header, lines), fell


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--write", metavar="NOTE", help="commit the ratios, with a note on what else the machine did")
    given = parser.parse_args()
    started, now = time.perf_counter(), {}
    for question in (chess, many_files, go, text, neural, foreign):
        with tempfile.TemporaryDirectory() as folder:
            print(f"{question.__name__} ...", file=sys.stderr, flush=True)
            now |= question(Path(folder))
    committed = json.loads(COMMITTED.read_text(encoding="utf-8")) if COMMITTED.exists() else {"ratios": {}}
    shown, fell = compared(now, committed["ratios"])
    print(shown.markdown)
    print(f"{time.perf_counter() - started:.0f} s")
    if given.write:
        ratios = {name: round(value, 3) for name, value in now.items()}
        content = {"note": given.write, "machine": machine({}), "ratios": ratios}
        COMMITTED.write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")
    elif fell:
        sys.exit("\n".join(fell))


if __name__ == "__main__":
    main()
