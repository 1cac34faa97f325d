"""How fast do raw files become a store, compared with the field's library, and with the parser alone?

    python bench/conversion.py chess players.pgn.zst
    python bench/conversion.py go players.tar.zst
    python bench/conversion.py text novels.tar.zst --tokenizer data/tokenizers/text.json --megabytes 1000

All sides work in turn, on ``--workers`` cores each; what is compiled is so before.

* ``outofcore`` is the whole way from files to a sealed store with the settings of ``params.yaml``; also without audits.
* The reference library does what one would write with it, with records in memory and the output discarded: python-chess
  reads and replays games and gives twelve bitboards per position; sgfmill parses and plays games and gives the board
  before every move; tokenizers encodes texts into an array of ids. Games are drawn evenly from those accepted.
* The engine alone parses the same records from memory, output discarded.

Text is repeated, its paragraphs permuted, up to ``--megabytes``.
"""

from __future__ import annotations

import os
import re
import tempfile
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Executor, ProcessPoolExecutor, ThreadPoolExecutor
from importlib.metadata import version
from itertools import chain, islice
from pathlib import Path
from typing import Any

import chess
import gigatoken
import numpy as np
import rust_pgn_reader_python_binding as rust
import tokenizers
from sgfmill import sgf, sgf_moves

from harness.raw import lengthen
from harness.results import Row, arguments, save, speed_rows
from harness.sides import Epoch, Side, compare, once
from harness.stores import convert, files_of, section_of
from outofcore.domains.chess.pgn.games import game_starts
from outofcore.domains.go import DOMAIN as GO
from outofcore.domains.go.source import cut_games
from outofcore.domains.registry import get_domain
from outofcore.raw.unit import NO_AUDIT, Unit
from outofcore.store.reader import open_store

OURS = "outofcore: files to a sealed store"
UNAUDITED = "outofcore, without audits"
CHANGES: dict[str, dict[str, Any]] = {
    "chess": {"filters": {"min_elo": 1900, "unknown_elo": "drop"}},
    "go": {"filters": {"sizes": [19]}},
    "text": {},
}
UNITS = {"chess": "positions/s", "go": "positions/s", "text": "MB of text/s"}
TITLES = {"chess": "chess, from PGN", "go": "Go, from SGF", "text": "text, to tokens"}
LIBRARIES = {
    "chess": {"python-chess": "chess"},
    "go": {"sgfmill": "sgfmill"},
    "text": {"tokenizers": "tokenizers", "gigatoken": "gigatoken"},
}
CODES = {None: 0, "b": 1, "w": 2}
FEN = re.compile(r'\[FEN "([^"]*)"')
# Comments, variations, glyphs, move numbers and results are none of the group.
MOVE = re.compile(r"\{[^}]*\}|;[^\n]*|\([^()]*\)|\$\d+|\d+\.+|1-0|0-1|1/2-1/2|\*|([^\s{;($]+)")
PART_BYTES = 500_000  # of text per call of a tokenizer
REFERENCE_BYTES, ENGINE_BYTES = 16_000_000, 100_000_000


def whole(domain: str, raw: str, changes: dict[str, Any], workers: int, *, audits: bool = True) -> Epoch:
    """Conversions, each thrown away; of text, bytes count."""
    section = section_of(domain, raw, changes)

    def epoch() -> Iterator[int]:
        with tempfile.TemporaryDirectory(dir=Path.cwd()) as folder:
            figures = convert(domain, section, Path(folder) / "a.zarr", workers, audits=audits)
        yield figures["bytes" if domain == "text" else "positions"]

    return epoch


def converted(domain: str, raw: str, changes: dict[str, Any], workers: int, store: str) -> dict[str, Any]:
    """One conversion, which stays."""
    return convert(domain, section_of(domain, raw, changes), Path(store), workers)


def shared(pool: Executor, work: Callable[[Any], int], parts: Sequence[Any]) -> Epoch:
    """All parts, over the workers of a pool."""
    return lambda: iter([sum(pool.map(work, parts))])


def python_chess(path: str, workers: int) -> Epoch:
    """Games of a file, in processes."""
    texts = games_of(Path(path).read_bytes())
    return shared(ProcessPoolExecutor(workers), replay, [texts[start :: 4 * workers] for start in range(4 * workers)])


def replay(texts: list[str]) -> int:
    """Twelve bitboards and the move of each position of the main line, without a tree of the game."""
    positions = 0
    for text in texts:
        tags, _, moves = text.replace("\r\n", "\n").partition("\n\n")
        start = FEN.search(tags)
        board = chess.Board(start[1] if start else chess.STARTING_FEN, chess960="960" in tags)
        boards: list[int] = []
        codes: list[int] = []
        for token in filter(None, MOVE.findall(moves)):
            move = board.parse_san(token)
            p, n, b, r, q, k = board.pawns, board.knights, board.bishops, board.rooks, board.queens, board.kings
            for own in (board.occupied_co[chess.WHITE], board.occupied_co[chess.BLACK]):
                boards += (p & own, n & own, b & own, r & own, q & own, k & own)
            codes.append(move.from_square | move.to_square << 6 | (move.promotion or 0) << 12)
            board.push(move)
        positions += len(np.array(boards, np.uint64).reshape(-1, 12)) and len(np.array(codes, np.uint16))
    return positions


def rust_reader(path: str, workers: int) -> Epoch:
    """Games of a file, in threads."""
    texts = games_of(Path(path).read_bytes())
    parts = [texts[start : start + 2000] for start in range(0, len(texts), 2000)]
    return shared(ThreadPoolExecutor(workers), rust_moves, parts)


def rust_moves(part: list[str]) -> int:
    return int(rust.parse_games_from_strings(part, num_threads=1).num_moves)


def games_of(text: bytes) -> list[str]:
    starts = game_starts(np.frombuffer(text, np.uint8)).tolist()
    return [text[start:end].decode("latin-1") for start, end in zip(starts, [*starts[1:], len(text)], strict=True)]


def sgfmill_boards(path: str, workers: int) -> Epoch:
    """Games of a file, one per line, in processes."""
    texts = Path(path).read_bytes().splitlines()
    return shared(ProcessPoolExecutor(workers), play, [texts[start :: 4 * workers] for start in range(4 * workers)])


def play(texts: list[bytes]) -> int:
    """The board before every move; a game that sgfmill cannot read costs only itself."""
    positions = 0
    for text in texts:
        try:
            board, plays = sgf_moves.get_setup_and_moves(sgf.Sgf_game.from_bytes(text))
            before, moves = bytearray(), []
            for colour, move in plays:
                before += bytes(map(CODES.__getitem__, chain.from_iterable(board.board)))
                moves.append(-1 if move is None else move[0] * board.side + move[1])
                if move is not None:
                    board.play(*move, colour)
        except ValueError:
            continue
        positions += len(np.frombuffer(before, np.uint8).reshape(-1, board.side**2)) and len(np.array(moves, np.int16))
    return positions


def go_parser(raw: str, changes: dict[str, Any], workers: int) -> Epoch:
    """Our parsing and playing, without duplicates, splits, compression, checksums and files."""
    section = section_of("go", raw, changes)
    convert_unit = GO.converter(section, NO_AUDIT)
    units = [unit for unit in GO.units(files_of("go", section), section) if unit.payload]
    return shared(ThreadPoolExecutor(workers), lambda unit: len(convert_unit(unit).rows["move"]), units)


def tokenize(folder: str, tokenizer: str, workers: int) -> Epoch:
    """Parts of texts, in processes of one thread each."""
    os.environ["TOKENIZERS_PARALLELISM"] = "false"
    texts = [path.read_text(encoding="utf-8") for path in text_files(folder, REFERENCE_BYTES)]
    parts = [text[start : start + PART_BYTES] for text in texts for start in range(0, len(text), PART_BYTES)]
    pool = ProcessPoolExecutor(workers, initializer=load_tokenizer, initargs=(tokenizer,))
    return shared(pool, ids_of, parts)


def load_tokenizer(path: str) -> None:
    global loaded
    loaded = tokenizers.Tokenizer.from_file(path)


def ids_of(text: str) -> int:
    (encoded,) = loaded.encode_batch_fast([text])
    return len(text.encode()) if len(np.array(encoded.ids, np.uint16)) else 0


def gigatoken_alone(folder: str, tokenizer: str, workers: int) -> Epoch:
    """Documents in memory, an instance per thread."""
    documents = [path.read_bytes() for path in text_files(folder, ENGINE_BYTES)]
    instances = [gigatoken.Tokenizer.from_json(Path(tokenizer).read_text("utf-8")) for _ in range(workers)]

    def encode(number: int) -> int:
        for document in documents[number::workers]:
            instances[number].encode_batch([document], parallel=False)
        return sum(map(len, documents[number::workers]))

    return shared(ThreadPoolExecutor(workers), encode, range(workers))


def text_files(folder: str, size: int) -> list[Path]:
    """The first files, up to so many bytes."""
    files = sorted(Path(folder).iterdir())
    return files[: max(1, size // max(1, files[0].stat().st_size))]


SIDES = {
    "chess": (
        ("python-chess in {} processes: read, replay, twelve bitboards", python_chess),
        ("the Rust reader alone", rust_reader),
    ),
    "go": (
        ("sgfmill in {} processes: parse, play, board to array", sgfmill_boards),
        ("our parser and board alone", go_parser),
    ),
    "text": (
        ("tokenizers in {} processes, ids to an array", tokenize),
        ("gigatoken alone", gigatoken_alone),
    ),
}


def sides(domain: str, raw: Path, folder: Path, workers: int, tokenizer: Path | None = None) -> list[Side]:
    """All sides of a domain; of chess and Go, the folder has the games to parse."""
    changes = CHANGES[domain] | ({"tokenizer": {"path": str(tokenizer)}} if tokenizer else {})
    ours = {"domain": domain, "raw": raw, "changes": changes}
    drawn, text = {"path": folder / "drawn"}, {"folder": raw, "tokenizer": tokenizer}
    reference, engine = {
        "chess": (drawn, {"path": folder / "accepted"}),
        "go": (drawn, {"raw": raw, "changes": changes}),
        "text": (text, text),
    }[domain]
    (reference_name, referred), (engine_name, parsed) = SIDES[domain]
    candidates = {
        OURS: (whole, ours),
        UNAUDITED: (whole, {**ours, "audits": False}),
        reference_name.format(workers): (referred, reference),
        engine_name: (parsed, engine),
    }
    return [
        Side(name, function, {**given, "workers": workers}, ahead=0, seconds=0, rehearsed=False)
        for name, (function, given) in candidates.items()
    ]


def draw_games(domain: str, raw: Path, store: Path, folder: Path, games: int) -> None:
    """Write the games that are parsed: all accepted ones of chess for the engine, some evenly for the reference."""
    section = section_of(domain, raw, CHANGES[domain])
    units = (unit for unit in get_domain(domain).units(files_of(domain, section), section) if unit.payload)
    accepted = list(accepted_chess(units, store) if domain == "chess" else go_games(units))
    (folder / "drawn").write_bytes(b"\n".join(islice(accepted, 0, None, max(1, len(accepted) // games))))
    if domain == "chess":
        (folder / "accepted").write_bytes(b"\n".join(accepted))


def accepted_chess(units: Iterator[Unit], store: Path) -> Iterator[bytes]:
    """Texts of the games whose offset is in the store, of an input of one file."""
    opened = open_store(store)
    wanted = np.concatenate([opened.sequences(split)["offset"].read() for split in ("train", "val", "test")])
    for unit in units:
        starts = game_starts(np.frombuffer(unit.payload, np.uint8))
        ends = np.append(starts[1:], len(unit.payload))
        for place in np.flatnonzero(np.isin(starts + unit.offset, wanted.astype(np.int64))):
            yield unit.payload[starts[place] : ends[place]]


def go_games(units: Iterator[Unit]) -> Iterator[bytes]:
    """All games, each on one line."""
    for unit in units:
        games = cut_games(unit)
        for start, end in zip(games.starts.tolist(), games.ends.tolist(), strict=True):
            yield unit.payload[start:end].replace(b"\r", b" ").replace(b"\n", b" ")


def main() -> None:
    parser = arguments(__doc__, rounds=3)
    parser.add_argument("domain", choices=UNITS)
    parser.add_argument("input", type=Path, help="a PGN file; SGF in a file, folder or archive; documents")
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--games", type=int, default=2000, help="games for the reference library")
    parser.add_argument("--megabytes", type=int, default=400, help="of text")
    parser.add_argument("--tokenizer", type=Path, help="of text")
    options = parser.parse_args()
    domain, workers = options.domain, options.workers
    with tempfile.TemporaryDirectory(dir=Path.cwd()) as name:
        folder, raw = Path(name), options.input.resolve()
        if domain == "text":
            raw = lengthen(raw, folder / "raw", options.megabytes * 10**6)
        compared = sides(domain, raw, folder, workers, options.tokenizer and options.tokenizer.resolve())
        ours = compared[0].arguments
        figures = once(converted, **ours, store=folder / "store.zarr")
        if domain != "text":
            draw_games(domain, raw, folder / "store.zarr", folder, options.games)
        measured = compare(compared, options.rounds, 0)
    if domain == "text":
        for side in measured.values():
            side.rates = [rate / 1e6 for rate in side.rates]
    reference = compared[2].name
    against = dict.fromkeys(measured, reference)
    rows = speed_rows(
        measured, UNITS[domain], against, memory=False, short=reference.split(" ", 1)[0], table="conversion"
    )
    size = figures["bytes"] / 1e6 if domain == "text" else figures["positions"]
    rows.append(Row(label=OURS, value=size / measured[OURS].rate, unit="seconds", table="conversion"))
    rows.append(Row(label=OURS, value=figures["peak_memory_bytes"] / 1e6, unit="peak MB", table="conversion"))
    save(
        options.out,
        f"conversion_{domain}",
        TITLES[domain],
        rows,
        facts=facts(domain, figures, workers, options.rounds),
        details={"outofcore": figures, "sides": measured},
        versions={name: version(library) for name, library in LIBRARIES[domain].items()},
    )


def facts(domain: str, figures: dict[str, Any], workers: int, rounds: int) -> list[str]:
    """What was converted."""
    raw = f"{figures['bytes_raw'] / 1e6:,.0f} MB"
    if domain == "text":
        what = [f"{raw} of text, {figures['tokens']:,} tokens"]
    else:
        games = f"{figures['found']:,} games in {raw} of files"
        what = [games, f"{figures['accepted']:,} accepted with {figures['positions']:,} positions"]
    return [
        *what,
        f"{figures['audited']:,} audited",
        f"{figures['bytes_per_row']:.3g} bytes per {get_domain(domain).row} in the store",
        f"{workers} workers, medians of {rounds} rounds",
    ]


if __name__ == "__main__":
    main()
