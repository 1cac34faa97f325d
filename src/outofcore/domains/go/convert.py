"""A unit of SGF -> rows, sequences, keys and rejects."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

import numpy as np
import numpy.typing as npt

from outofcore.domains.boards.columns import filled
from outofcore.domains.go.columns import COLUMNS, PROPERTIES, Header
from outofcore.domains.go.filters import FilterSection, Rejection, is_unranked, refusal
from outofcore.domains.go.params import SUFFIXES, GoSection
from outofcore.domains.go.play import oracle
from outofcore.domains.go.play.replay import COUNTED, Played, PlayResult, replay
from outofcore.domains.go.schema import SIZE, TO_PLAY
from outofcore.domains.go.sgf import encoding
from outofcore.domains.go.sgf.encoding import decode
from outofcore.domains.go.sgf.meaning import ResultKind
from outofcore.domains.go.sgf.pieces import Ending, Piece
from outofcore.domains.go.sgf.reader import ADD_BLACK, MainLines, ReadResult, read_main_lines
from outofcore.domains.go.source import LONGEST_GAME, CutGames, cut_games, pieces_of
from outofcore.ndarrays import Ints
from outofcore.raw.unit import AuditRate, Reject, Unit, UnitResult, difference, keys_of
from outofcore.store.schema import Columns

USUAL_SIZE = 19


@dataclass(frozen=True)
class Converter:
    """Converts units; picklable and deterministic on every machine."""

    section: GoSection
    rate: AuditRate

    def __call__(self, unit: Unit) -> UnitResult:
        cut, pieces, counts = cut_games(unit), pieces_of(unit), Counter[str]()
        payload, readable, games = _read(unit, cut)
        headers, refused = self._headers(unit, payload, readable, games)
        rules = [(header.size, header.suicide, header.superko) if header else (0, 0, 0) for header in headers]
        played = replay(games, np.array(rules, np.int64).reshape(-1, 3), self.section.filters)
        refused |= _illegal(games, played)
        kept = np.flatnonzero(played.outcome == PlayResult.KEPT)
        kept_headers = [header for header in map(headers.__getitem__, kept.tolist()) if header]
        record = played.record.astype("<i2", copy=False)
        keys = keys_of([(record, record.itemsize * played.record_spans[kept])])
        game = keys.view("<i8")[:, 0].astype(np.int64)
        columns = SimpleNamespace(
            headers=kept_headers,
            game=game,
            first_player=played.state[played.rows[kept, 0], TO_PLAY],
            alternating=played.alternating[kept],
            offset=cut.offsets[kept],
            **{name: labels[cut.file[kept]] for name, labels in _labels(unit, pieces).items()},
        )
        rows: dict[str, npt.NDArray[Any]] = {
            "stones": played.stones,
            "state": played.state,
            "move": played.move,
            "game": np.repeat(game, played.rows[kept, 1]),
        }
        rejects = [
            Reject(reason=reason, offset=int(cut.offsets[number]), detail=why, file=int(cut.file[number]))
            for number, (reason, why) in sorted(refused.items())
        ]
        empty = [
            Reject(reason="no_game", offset=0, detail="no game begins anywhere in the file", file=number)
            for number, (stretch, piece) in enumerate(zip(unit.stretches, pieces, strict=True))
            if stretch.whole and not len(piece.starts)
        ]
        # Forbidden moves, setup in mid-game, handicap, and other boards than 19 x 19.
        unusual = played.counts[kept, : COUNTED.index("after_end")].any(axis=1)
        unusual |= np.array([header.handicap > 0 or header.size != USUAL_SIZE for header in kept_headers], np.bool_)
        audited = kept[self.rate.chosen(game.view(np.uint64), unit.raw_bytes, unusual)]
        comparisons = list(self._compare(unit, cut, played, rows, audited, counts))
        counts["read_by_oracle"] += int(np.count_nonzero(readable.starts != cut.starts))
        counts["stray_bytes"] += sum(piece.stray for piece in pieces)
        return UnitResult(
            found=len(headers) + len(empty),
            rows=rows,
            sequences={"length": played.rows[kept, 1], **filled(COLUMNS, columns)},
            keys=keys,
            file=cut.file[kept],
            rejects=(*rejects, *empty),
            unusual=int(unusual.sum()),
            stored_counts=_game_counts(played, kept_headers, kept, cut, self.section.filters),
            audited=len(comparisons),
            differences=tuple(filter(None, comparisons)),
            counts=dict(sorted((+counts).items())),
        )

    def _headers(
        self, unit: Unit, payload: bytes, cut: CutGames, games: MainLines
    ) -> tuple[list[Header | None], dict[int, Rejection]]:
        """Headers of the games to be played (None for the others), and why the others are refused."""
        headers: list[Header | None] = []
        refused: dict[int, Rejection] = {}
        for number, (status, spans, opening) in enumerate(
            zip(games.status.tolist(), games.spans.tolist(), games.openings.tolist(), strict=True)
        ):
            header, why, codec = None, None, cut.codecs.get(number, "")
            if codec == encoding.AMBIGUOUS:
                why = "unknown_encoding", "its moves depend on the encoding, which no CA names rightly"
            elif cut.endings[number] == Ending.TOO_LONG:
                why = "too_long", f"longer than {LONGEST_GAME:,} bytes"
            elif status != ReadResult.READ:
                byte = int(cut.offsets[number] + games.trouble[number] - cut.starts[number])
                why = ReadResult(status).name.lower(), f"at byte {byte}"
            else:
                values = {
                    name: payload[begin:end] if begin >= 0 else b""
                    for name, (begin, end) in zip(PROPERTIES, spans, strict=True)
                }
                utf16 = unit.stretches[cut.file[number]].encoding != ""
                fox = b"foxwq" in payload[cut.span(number)]
                header = Header(values, opening, utf16=utf16, codec=codec, fox=fox)
                why = refusal(header, self.section.filters)
            headers.append(None if why else header)
            if why:
                refused[number] = why
        return headers, refused

    def _compare(
        self, unit: Unit, cut: CutGames, played: Played, rows: Columns, chosen: Ints, counts: Counter[str]
    ) -> Iterator[str]:
        """What is different in the oracle's reading of each of the chosen games that it can read; "" if nothing is."""
        for number in chosen.tolist():
            where = f"{unit.stretches[cut.file[number]].name}, game at byte {cut.offsets[number]}"
            tree, length = _raw_tree(unit.payload, cut, number)
            begin, count = played.rows[number].tolist()
            if length >= 0 and oracle.end_of(tree) not in (None, length):
                yield f"{where}, sgfmill does not find the end where the engine does"
            elif events := oracle.read_events(tree, int(played.state[begin, SIZE])):
                positions = {name: column[begin : begin + count] for name, column in rows.items()}
                counts["audited_positions"] += count
                counts["audited_captures"] += int(played.counts[number, COUNTED.index("captures")])
                yield difference(oracle.compare, where, events, positions, self.section.filters)
            else:
                counts["unreadable_for_oracle"] += 1


make_converter = Converter


def _read(unit: Unit, cut: CutGames) -> tuple[bytes, CutGames, MainLines]:
    """The bytes, the games in them, and their main lines.

    Games that the engine refuses are read again as sgfmill rewrites them, after the bytes of the unit.
    """
    syntax = bytearray(unit.payload)  # without the brackets that are parts of characters
    for number, codec in cut.codecs.items():
        if codec != encoding.AMBIGUOUS:
            syntax[cut.span(number)] = encoding.masked(unit.payload[cut.span(number)], codec)
    games = read_main_lines(syntax, cut.starts, cut.ends)
    refused = [number for number in np.flatnonzero(games.status).tolist() if number not in cut.codecs]
    rewritten = {number: oracle.rewritten(unit.payload[cut.span(number)]) for number in refused}
    starts, ends, payload = cut.starts.copy(), cut.ends.copy(), bytearray(unit.payload)
    for number, game in rewritten.items():
        if game is not None:
            starts[number], ends[number] = len(payload), len(payload) + len(game)
            payload += game
            syntax += game
    if len(payload) > len(unit.payload):
        games = read_main_lines(syntax, starts, ends)
    return bytes(payload), cut._replace(starts=starts, ends=ends), games


def _raw_tree(payload: bytes, cut: CutGames, number: int) -> tuple[bytes, int]:
    """The raw bytes from the start of a game on, for sgfmill, and the length of the game in them; -1 if unfinished."""
    start, end = int(cut.starts[number]), int(cut.ends[number])
    game = payload[start:end]
    if cut.endings[number] != Ending.CLOSED:
        return game, -1
    if codec := cut.codecs.get(number):
        game, rest = (raw.decode(codec, "replace").encode() for raw in (game, payload[end:]))
        return game + rest, len(game)
    return payload[start:], len(game)


def _illegal(games: MainLines, played: Played) -> dict[int, Rejection]:
    """Reasons for played games that are not kept."""
    rejected = {}
    for number in np.flatnonzero(played.outcome > PlayResult.PASSED_OVER).tolist():
        outcome = PlayResult(played.outcome[number])
        before = games.kind[games.first[number] : played.trouble[number]] < ADD_BLACK
        moves = int(np.count_nonzero(before))
        why = f"{moves} moves" if outcome is PlayResult.TOO_SHORT else f"at move {moves + 1}"
        rejected[number] = (outcome.name.lower(), why)
    return rejected


def _labels(unit: Unit, pieces: Sequence[Piece]) -> dict[str, npt.NDArray[np.object_]]:
    """Columns that are facts of files, of each file."""
    paths = [piece.path for piece in pieces]
    lines = [
        decode((piece.name,), b"", utf16=stretch.encoding != "")[0][0] if piece.name else ""
        for stretch, piece in zip(unit.stretches, pieces, strict=True)
    ]
    endings = [next((ending for ending in SUFFIXES if path.lower().endswith(ending)), "") for path in paths]
    owners = [path[: len(path) - len(ending)] for path, ending in zip(paths, endings, strict=True)]
    labels = {"player_of_file": owners, "first_line": lines, "source": paths}
    return {name: np.array(texts, object) for name, texts in labels.items()}


def _game_counts(
    played: Played, headers: Sequence[Header], kept: Ints, cut: CutGames, filters: FilterSection
) -> dict[str, npt.NDArray[Any]]:
    """Metrics of each game that is kept."""
    counts: dict[str, npt.NDArray[Any]] = dict(zip(COUNTED, played.counts[kept].T, strict=True))
    counts["unterminated"] = cut.endings[kept] == Ending.OPEN
    for attribute, prefix in (("name_rule", "names"), ("komi_rule", "komi"), ("handicap_rule", "handicap")):
        rules = [getattr(header, attribute) for header in headers]
        for rule in set(rules):
            counts[f"{prefix}_{rule.name.lower()}"] = np.array(rules) == rule
    passes = filters.min_rank is not None and filters.unknown_rank == "keep"
    facts = {
        "result_unreadable": [
            header.result is ResultKind.UNKNOWN and header.values["RE"].strip() not in (b"", b"?") for header in headers
        ],
        "handicap_differs": [
            header.handicap_stated > 1 and header.handicap != header.handicap_stated for header in headers
        ],
        "rank_unknown_kept": [passes and is_unranked(header) for header in headers],
    }
    return counts | {name: np.array(values, np.bool_) for name, values in facts.items()}
