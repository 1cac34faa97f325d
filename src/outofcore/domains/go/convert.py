"""A unit of SGF -> rows, sequences, keys and rejects."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from outofcore.domains.boards.columns import filled
from outofcore.domains.go.columns import COLUMNS, PROPERTIES, Header
from outofcore.domains.go.filters import FilterSection, Rejection, is_unranked, refusal
from outofcore.domains.go.params import SUFFIXES, GoSection
from outofcore.domains.go.play import oracle
from outofcore.domains.go.play.replay import COUNTED, Played, PlayResult, Rules, replay
from outofcore.domains.go.schema import TO_PLAY
from outofcore.domains.go.sgf import encoding
from outofcore.domains.go.sgf.meaning import ResultKind
from outofcore.domains.go.sgf.names import decode
from outofcore.domains.go.sgf.pieces import Piece
from outofcore.domains.go.sgf.reader import ADD_BLACK, OPENING, MainLines, ReadResult, openings, read_main_lines
from outofcore.domains.go.sgf.scan import Ending
from outofcore.domains.go.source import LONGEST_GAME, CutGames, cut_games, pieces_of
from outofcore.ndarrays import Bytes, Ints
from outofcore.raw.unit import Audit, AuditRate, Reject, Unit, UnitResult, keys_of

USUAL_SIZE = 19

_READ, _TOO_LONG = int(ReadResult.READ), int(Ending.TOO_LONG)


@dataclass(frozen=True)
class _Text:
    """Bytes of a unit's games; ``syntax`` has the same length, without the brackets that are parts of characters."""

    payload: bytes
    starts: Ints
    ends: Ints
    syntax: bytes

    def game(self, number: int) -> bytes:
        return self.payload[self.starts[number] : self.ends[number]]

    def with_games(self, others: Mapping[int, bytes]) -> _Text:
        """A copy with some games replaced by rewritten ones."""
        spans = list(enumerate(zip(self.starts.tolist(), self.ends.tolist(), strict=True)))
        games = [others.get(number, self.payload[start:end]) for number, (start, end) in spans]
        syntax = [others.get(number, self.syntax[start:end]) for number, (start, end) in spans]
        ends = np.cumsum([len(game) for game in games], dtype=np.int64)
        return _Text(b"".join(games), np.concatenate(([0], ends[:-1])), ends, b"".join(syntax))


class KeptGames(NamedTuple):
    """Games of a unit that are kept, n, by what their columns hold."""

    headers: Sequence[Header]
    game: Ints  # (n,): first bytes of their keys
    first_player: npt.NDArray[np.int16]
    alternating: npt.NDArray[np.bool_]
    offset: Ints
    player_of_file: npt.NDArray[np.object_]
    first_line: npt.NDArray[np.object_]
    source: npt.NDArray[np.object_]


@dataclass(frozen=True)
class Converter:
    """Converts units; picklable and deterministic on every machine."""

    section: GoSection
    rate: AuditRate

    def __call__(self, unit: Unit) -> UnitResult:
        cut, pieces, counts = cut_games(unit), pieces_of(unit), Counter[str]()
        text, games = _read(unit, cut, counts)
        headers, refused = self._headers(unit, text, games, cut)
        played = self._play(games, headers)
        refused |= _illegal(games, played)
        kept = np.flatnonzero(played.outcome == PlayResult.KEPT)
        chosen = [
            header for header, outcome in zip(headers, played.outcome.tolist(), strict=True) if header and not outcome
        ]
        keys = _keys(played, kept)
        game = _first_bytes(keys)
        unusual = _unusual(played, chosen, kept)
        known = KeptGames(
            chosen,
            game,
            played.state[played.rows[kept, 0], TO_PLAY],
            played.alternating[kept],
            cut.offsets[kept],
            *(labels[cut.file[kept]] for labels in _labels(unit, pieces)),
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
        rejects += [
            Reject(reason="no_game", offset=0, detail="no game begins anywhere in the file", file=number)
            for number, (stretch, piece) in enumerate(zip(unit.stretches, pieces, strict=True))
            if stretch.whole and not len(piece.starts)
        ]
        counts["stray_bytes"] += sum(piece.stray for piece in pieces)
        result = UnitResult(
            found=len(headers) + len(rejects) - len(refused),
            rows=rows,
            sequences={"length": played.rows[kept, 1], **filled(COLUMNS, known)},
            keys=keys,
            file=cut.file[kept],
            rejects=tuple(rejects),
            unusual=int(unusual.sum()),
            stored_counts=_game_counts(played, chosen, kept, cut)
            | {"rank_unknown_kept": _unrated_passed(chosen, self.section.filters)},
        )
        audited, all_counts = kept[self.rate.chosen(game.view(np.uint64), unit.raw_bytes, unusual)], counts.copy()
        audits = self._compare(unit, cut, played, headers, audited, all_counts)
        return replace(result, audits=audits, counts=dict(sorted((+all_counts).items())))

    def _headers(
        self, unit: Unit, text: _Text, games: MainLines, cut: CutGames
    ) -> tuple[list[Header | None], dict[int, Rejection]]:
        """Headers of the games to be played (None for the others), and why the others are refused."""
        headers: list[Header | None] = []
        refused: dict[int, Rejection] = {}
        payload, filters = text.payload, self.section.filters
        utf16 = [unit.stretches[file].encoding != "" for file in cut.file.tolist()]
        endings, status = cut.endings.tolist(), games.status.tolist()
        spans, facts = games.spans.ravel().tolist(), openings(games).ravel().tolist()
        begins, ends, width = spans[::2], spans[1::2], len(PROPERTIES)
        for number in range(len(status)):
            headers.append(None)
            if cut.codecs.get(number) == encoding.AMBIGUOUS:
                refused[number] = ("unknown_encoding", "its moves depend on the encoding, which no CA names rightly")
            elif endings[number] == _TOO_LONG:
                refused[number] = ("too_long", f"longer than {LONGEST_GAME:,} bytes")
            elif status[number] != _READ:
                where = int(cut.offsets[number] + games.trouble[number] - text.starts[number])
                refused[number] = (ReadResult(status[number]).name.lower(), f"at byte {where}")
            else:
                own = slice(number * width, (number + 1) * width)
                values = {
                    name: payload[begin:end] if begin >= 0 else b""
                    for name, begin, end in zip(PROPERTIES, begins[own], ends[own], strict=True)
                }
                opening = facts[number * len(OPENING) : (number + 1) * len(OPENING)]
                fox = b"foxwq" in text.game(number)
                header = Header(values, opening, utf16=utf16[number], codec=cut.codecs.get(number, ""), fox=fox)
                why = refusal(header, filters)
                if why is None:
                    headers[number] = header
                else:
                    refused[number] = why
        return headers, refused

    def _play(self, games: MainLines, headers: Sequence[Header | None]) -> Played:
        played = [(header.size, header.suicide, header.superko) if header else (0, 0, 0) for header in headers]
        rules = Rules(*np.array(played, np.int64).reshape(-1, 3).T.copy())
        return replay(games, rules, self.section.filters)

    def _compare(
        self,
        unit: Unit,
        cut: CutGames,
        played: Played,
        headers: Sequence[Header | None],
        chosen: Ints,
        counts: Counter[str],
    ) -> tuple[Audit, ...]:
        """Comparisons of the chosen games with the oracle's reading of their trees; unreadable ones are counted."""
        comparisons: list[Audit] = []
        for number in chosen.tolist():
            header, name = headers[number], unit.stretches[cut.file[number]].name
            where = f"{name}, game at byte {cut.offsets[number]}"
            tree, length = _raw_tree(unit.payload, cut, number)
            events = header and oracle.read_events(tree, header.size)
            if length >= 0 and oracle.end_of(tree) not in (None, length):
                comparisons.append(partial(str, f"{where}, sgfmill does not find the end where the engine does"))
                continue
            if not header or not events:
                counts["unreadable_for_oracle"] += 1
                continue
            begin, count = played.rows[number].tolist()
            own = slice(begin, begin + count)
            rows = (played.stones[own].copy(), played.state[own].copy(), played.move[own].copy())
            comparisons.append(oracle.Comparison(where, events, *rows, self.section.filters))
            counts["audited_positions"] += count
            counts["audited_captures"] += int(played.counts[number, COUNTED.index("captures")])
        return tuple(comparisons)


make_converter = Converter


def _unusual(played: Played, headers: Sequence[Header], kept: Ints) -> npt.NDArray[np.bool_]:
    """Games with handicap or on another board than 19 x 19, and those with setup in mid-game or a forbidden move."""
    other = np.array([header.handicap > 0 or header.size != USUAL_SIZE for header in headers], np.bool_)
    broken = np.any(played.counts[kept, : COUNTED.index("after_end")], axis=1)
    unusual: npt.NDArray[np.bool_] = np.logical_or(other, broken)
    return unusual


def _read(unit: Unit, cut: CutGames, counts: Counter[str]) -> tuple[_Text, MainLines]:
    """Read all games; then again those that the engine refuses, as sgfmill rewrites them."""
    starts, ends, codecs = cut.starts, cut.ends, cut.codecs
    syntax = unit.payload
    if codecs:
        changed = bytearray(syntax)
        for number, codec in codecs.items():
            if codec != encoding.AMBIGUOUS:
                own = slice(int(starts[number]), int(ends[number]))
                changed[own] = encoding.masked(unit.payload[own], codec)
        syntax = bytes(changed)
    text = _Text(unit.payload, starts, ends, syntax)
    games = read_main_lines(syntax, starts, ends)
    others: dict[int, bytes] = {}
    for number in np.flatnonzero(games.status != _READ).tolist():
        clear = None if number in codecs else oracle.rewritten(text.game(number))
        if clear is not None:
            counts["read_by_oracle"] += 1
            others[number] = clear
    if others:
        text = text.with_games(others)
        games = read_main_lines(text.syntax, text.starts, text.ends)
    return text, games


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


def _keys(played: Played, kept: Ints) -> Bytes:
    """BLAKE2b of each game's record: size, setup and moves, independent of anything else in the file."""
    record = played.record.astype("<i2", copy=False)
    return keys_of([(record, record.itemsize * played.record_spans[kept])])


def _first_bytes(keys: Bytes) -> Ints:
    """First bytes of the keys, as stored in the rows."""
    return np.ascontiguousarray(keys[:, :8]).view("<i8")[:, 0].astype(np.int64, copy=False)


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


def _unrated_passed(headers: Sequence[Header], filters: FilterSection) -> npt.NDArray[np.bool_]:
    """Which games have a player without a rank, although a lowest one is set."""
    unranked = np.array([is_unranked(header) for header in headers], np.bool_)
    return unranked & (filters.min_rank is not None and filters.unknown_rank == "keep")


def _labels(unit: Unit, pieces: Sequence[Piece]) -> Iterator[npt.NDArray[np.object_]]:
    """Owner, first line and path of each file."""
    paths = [piece.path for piece in pieces]
    lines = [
        decode((piece.name,), b"", utf16=stretch.encoding != "")[0][0] if piece.name else ""
        for stretch, piece in zip(unit.stretches, pieces, strict=True)
    ]
    endings = [next((ending for ending in SUFFIXES if path.lower().endswith(ending)), "") for path in paths]
    owners = [path[: len(path) - len(ending)] for path, ending in zip(paths, endings, strict=True)]
    yield from (np.array(labels, object) for labels in (owners, lines, paths))


def _game_counts(played: Played, headers: Sequence[Header], kept: Ints, cut: CutGames) -> dict[str, npt.NDArray[Any]]:
    """Metrics of each game that is kept."""
    counts: dict[str, npt.NDArray[Any]] = dict(zip(COUNTED, played.counts[kept].T, strict=True))
    counts["unterminated"] = cut.endings[kept] == Ending.OPEN
    for prefix, rules in (
        ("names", [header.name_rule for header in headers]),
        ("komi", [header.komi_rule for header in headers]),
        ("handicap", [header.handicap_rule for header in headers]),
    ):
        for rule in set(rules):
            counts[f"{prefix}_{rule.name.lower()}"] = np.array([game_rule is rule for game_rule in rules])
    counts["result_unreadable"] = np.array(
        [header.result is ResultKind.UNKNOWN and header.values["RE"].strip() not in (b"", b"?") for header in headers],
        bool,
    )
    counts["handicap_differs"] = np.array(
        [header.handicap_stated > 1 and header.handicap != header.handicap_stated for header in headers], bool
    )
    return counts
