"""A unit's text to records: read, filter, replay with the engine, check with the oracle."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cache, partial
from typing import Any

import chess
import numpy as np
import numpy.typing as npt

from outofcore.domains.chess import engine, oracle
from outofcore.domains.chess.filters import KEPT, choose_rows, elo_failures, judge, reject_of, unrated_passed
from outofcore.domains.chess.params import ChessSection
from outofcore.domains.chess.pgn.classes import increment
from outofcore.domains.chess.pgn.facts import (
    Facts,
    packed,
    packed_column,
    read_facts,
    stored_column,
    text_column,
    text_of,
)
from outofcore.domains.chess.pgn.games import Bytes, Games, decoded
from outofcore.domains.chess.pgn.notes import NO_NOTES, Notes, engine_note
from outofcore.domains.chess.pgn.records import as_pgn, holds_records
from outofcore.domains.chess.pgn.words import read_pgn, words_of
from outofcore.domains.chess.schema import (
    CHESS960,
    LARGEST_CLOCK,
    MATED,
    NO_CLOCK,
    NO_EVALUATION,
    NO_MATE,
    UNFINISHED,
    WHITE_TO_MOVE,
    empty_rows,
    tag_columns,
)
from outofcore.domains.chess.squares import bitboards
from outofcore.raw.keys import keys_of
from outofcore.raw.unit import KEY_BYTES, Audit, AuditRate, Reject, Unit, UnitResult

Ints = npt.NDArray[np.int64]
Times = npt.NDArray[np.int32]
Fields = dict[str, npt.NDArray[Any]]


@dataclass(frozen=True)
class Converter:
    """Converts units of PGN; picklable."""

    section: ChessSection
    rate: AuditRate

    def __call__(self, unit: Unit) -> UnitResult:
        source = self.section.source
        tags = (*(column.tag for column in tag_columns(self.section)), *self.section.filters.tags)
        text, bounds = unit.payload, np.array([0, *(stretch.stop for stretch in unit.stretches)])
        section, records = self.section, holds_records(unit.name)
        if records:  # of one file, whose evaluations are written as those of an engine
            text, starts, places = as_pgn(text)
            bounds = np.array([0, len(text)])
            section = section.model_copy(update={"source": source.model_copy(update={"engine_comments": True})})
        games = read_pgn(np.frombuffer(text, np.uint8), bounds, more_tags=tags, comments=section.source.engine_comments)
        origins = places[np.searchsorted(starts, games.starts, "right") - 1] if records else games.starts
        return _Conversion(unit, *unit.origins(origins), section, self.rate, games, read_facts(games)).run()


make_converter = Converter


@dataclass
class _Conversion:
    """The conversion of one unit; games are numbered by their place in it."""

    unit: Unit
    file: Ints  # (n,): index into the unit's stretches
    offset: Ints  # (n,): in the decompressed file
    section: ChessSection
    rate: AuditRate
    games: Games
    facts: Facts
    rejects: dict[int, Reject] = field(default_factory=dict)
    stopped: set[int] = field(default_factory=set)
    unread: int = 0  # notes of accepted games whose value cannot be read

    def run(self) -> UnitResult:
        filters = self.section.filters
        verdicts = judge(self.games, self.facts, filters)
        for game in np.flatnonzero(verdicts != KEPT).tolist():
            self._reject(game, *reject_of(self.games, self.facts, filters, game, verdicts[game]))
        accepted, plies, rows = self._play(np.flatnonzero(verdicts == KEPT))
        keys = _keys(rows, plies)
        if filters.duplicates == "same_game":
            keys = _keys_of_games(keys, self.games, self.facts, accepted)
        unusual = _unusual(plies, rows)
        audits = self._audits(accepted, plies, self.rate.chosen(keys.view("<u8")[:, 1], unusual), rows)
        accepted, plies, keys, lengths, counts = self._select(accepted, plies, keys, rows)
        stored = {"elo_unknown_kept": unrated_passed(self.facts, filters)[accepted]}
        if filters.unfinished == "keep":
            stored["unfinished"] = self.facts.result[accepted] == UNFINISHED
        if filters.illegal_move == "stop":
            stored["stopped"] = np.isin(accepted, list(self.stopped))
        return UnitResult(
            found=len(self.games.results),
            rows=rows,
            sequences=self._sequences(accepted, plies, lengths),
            keys=keys,
            file=self.file[accepted],
            rejects=tuple(self.rejects[game] for game in sorted(self.rejects)),
            unusual=int(unusual.sum()),
            counts={**counts, "notes_unread": self.unread},
            stored_counts=stored,
            audits=audits,
        )

    def _reject(self, game: int, reason: str, detail: str) -> None:
        place = {"offset": int(self.offset[game]), "file": int(self.file[game])}
        self.rejects[game] = Reject(reason=reason, detail=detail, **place)

    def _play(self, chosen: Ints) -> tuple[Ints, Ints, Fields]:
        """Rows of all positions of the chosen legal games, which games these are, and their half-moves."""
        if not len(chosen):
            return chosen, chosen, self._noted(chosen, chosen, empty_rows(0), {})
        parsed = engine.parse(self.games, chosen, self.facts)
        by_oracle, words = {}, {}
        plies = np.where(parsed.readable, self.games.plies[chosen], 0).astype(np.int64)
        least = self.section.filters.min_plies if self.section.filters.illegal_move == "stop" else None
        for place in np.flatnonzero(~parsed.readable).tolist():
            game = int(chosen[place])
            words[game] = words_of(self.games, game)
            try:
                by_oracle[place] = oracle.read_moves(
                    words[game].moves,
                    self.games.start_fen(game),
                    chess960=self.facts.variant[game] == CHESS960,
                    least=least,
                )
            except oracle.Refusal as refusal:
                self._reject(game, refusal.reason, str(refusal))
                continue
            plies[place] = len(by_oracle[place])
            if plies[place] < len(words[game].moves):
                self.stopped.add(game)
        first_rows = np.cumsum(plies) - plies
        rows = empty_rows(int(plies.sum()))
        engine.fill_rows(parsed, self.games, chosen, self.facts, first_rows, rows)
        for place, replay in by_oracle.items():
            replay.write(rows, int(first_rows[place]))
        legal = plies > 0
        comments = {game: words[game].comments for game in chosen[legal].tolist() if game in words}
        return chosen[legal], plies[legal], self._noted(chosen[legal], plies[legal], rows, comments)

    def _noted(self, accepted: Ints, plies: Ints, rows: Fields, comments: dict[int, list[list[str]]]) -> Fields:
        """The rows with what the text notes of each move, and what is the same for a whole game.

        ``comments`` are those on each move of the games that the engine does not read.
        """
        games = self.games
        ply = np.arange(len(rows["move"])) - np.repeat(np.cumsum(plies) - plies, plies)
        first_rows = dict(zip(accepted.tolist(), (np.cumsum(plies) - plies).tolist(), strict=True))
        by_engine = ~np.isin(accepted, list(comments))
        moves = np.where(np.repeat(by_engine, plies), np.repeat(games.move_offsets[accepted], plies) + ply, -1)
        columns: list[Any] = list(games.notes)
        notes = Notes(*(np.append(column, none)[moves] for column, none in zip(columns, NO_NOTES, strict=True)))
        self.unread = int(games.unread[accepted[by_engine]].sum())
        for game, of_moves in comments.items():
            for row, texts in enumerate(of_moves[: plies[accepted == game][0]], first_rows[game]):
                *noted, unread = oracle.bracket_notes(texts)
                notes.clock[row], notes.evaluation[row], notes.mate[row], notes.spent[row] = noted
                self.unread += unread
        if self.section.source.engine_comments:
            self._note_engines(notes, first_rows, comments, rows["state"][:, 0])
        rows |= {"clock": notes.clock, "evaluation": notes.evaluation, "mate": notes.mate}
        rows["position_evaluation"] = _before(notes.evaluation, notes.mate, notes.searched, ply)
        rows["ply"] = ply.astype(np.uint16)
        rows["result"] = np.repeat(self.facts.result[accepted], plies)
        if self.section.source.time_spent:
            controls = text_column(games, "TimeControl")[accepted]
            increments = np.repeat(np.array([increment(text) for text in controls], np.int64), plies)
            rows["time_spent"] = _time_spent(notes.clock, notes.spent, ply, increments)
        return rows

    def _note_engines(
        self, notes: Notes, first_rows: dict[int, int], comments: dict[int, list[list[str]]], side_to_move: Bytes
    ) -> None:
        """Add what engines wrote of each move, the first of each kind, where brackets do not have it."""
        games = self.games
        texts = [
            (first_rows[game] + ply, text)
            for game, of_moves in comments.items()
            for ply, of_move in enumerate(of_moves)
            for text in of_move
        ]
        owners = np.searchsorted(games.move_offsets, games.comments[:, 0], "right") - 1
        for game, (move, begin, end) in zip(owners.tolist(), games.comments.tolist(), strict=True):
            if game in first_rows and game not in comments:
                row = first_rows[game] + move - int(games.move_offsets[game])
                texts.append((row, decoded(games.data[begin:end].tobytes())))
        for row, text in texts:
            if "[" in text or row >= len(side_to_move):
                continue
            noted, unread = engine_note(text, 1 if side_to_move[row] == WHITE_TO_MOVE else -1)
            self.unread += unread
            if "evaluation" in noted and (notes.evaluation[row], notes.mate[row]) == (NO_EVALUATION, NO_MATE):
                notes.evaluation[row], notes.mate[row] = noted["evaluation"], noted["mate"]
                notes.searched[row] = True
            for column in ("clock", "spent"):
                if column in noted and getattr(notes, column)[row] == NO_CLOCK:
                    getattr(notes, column)[row] = noted[column]

    def _audits(self, accepted: Ints, plies: Ints, chosen: npt.NDArray[np.bool_], rows: Fields) -> tuple[Audit, ...]:
        """Comparisons of the chosen games with the oracle's reading."""
        ends = np.cumsum(plies)
        audits = []
        for place in np.flatnonzero(chosen).tolist():
            game = int(accepted[place])
            whole = slice(int(ends[place] - plies[place]), int(ends[place]))
            audits.append(
                partial(
                    oracle.audit,
                    f"{self.unit.stretches[self.file[game]].name}, game at byte {self.offset[game]}",
                    engine.start_tags(self.games, self.facts, game),
                    self.games.body(game),
                    {name: values[whole].copy() for name, values in rows.items()},
                    int(self.facts.result[game]),
                    engine_comments=self.section.source.engine_comments,
                    time_control=text_of(self.games, game, "TimeControl"),
                    stopped=game in self.stopped,
                )
            )
        return tuple(audits)

    def _select(
        self, accepted: Ints, plies: Ints, keys: Bytes, rows: Fields
    ) -> tuple[Ints, Ints, Bytes, Ints, dict[str, int]]:
        """Keep the positions that the filters accept; a game without any is rejected."""
        filters = self.section.filters
        failing = np.any(elo_failures(self.facts, filters), axis=0)[accepted]
        if filters.elo_of == "both":
            failing[:] = False
        passing = ~failing[np.repeat(np.arange(len(plies)), plies), rows["state"][:, 0]]
        chosen, counts = choose_rows(rows, passing, filters)
        if chosen.all():
            return accepted, plies, keys, plies, counts
        for name in rows:
            rows[name] = rows[name][chosen]
        lengths = np.bincount(np.repeat(np.arange(len(plies)), plies)[chosen], minlength=len(plies))
        kept = lengths > 0
        for place in np.flatnonzero(~kept).tolist():
            self._reject(int(accepted[place]), "no_positions", f"none of {plies[place]} is wanted")
        return accepted[kept], plies[kept], keys[kept], lengths[kept], counts

    def _sequences(self, accepted: Ints, plies: Ints, lengths: Ints) -> Fields:
        stretches, file = self.unit.stretches, self.file[accepted]
        return {
            "length": lengths,
            "white_elo": self.facts.elo[accepted, 0],
            "black_elo": self.facts.elo[accepted, 1],
            "date": self.facts.date[accepted],
            "variant": self.facts.variant[accepted],
            "result": self.facts.result[accepted],
            "plies": plies.astype(np.uint16),
            "source": np.array([stretch.source for stretch in stretches], np.uint32)[file],
            "member": np.array([stretch.member for stretch in stretches], np.uint32)[file],
            "offset": self.offset[accepted].astype(np.uint64),
            **{column.field.name: stored_column(self.games, column)[accepted] for column in tag_columns(self.section)},
        }


def _before(
    evaluation: npt.NDArray[np.int16], mate: npt.NDArray[np.int8], searched: npt.NDArray[np.bool_], ply: Ints
) -> npt.NDArray[np.int16]:
    """Evaluation of the position before each of m moves, (m,) int16; ``searched`` are those that chose the move."""
    noted = np.where(mate != 0, np.sign(mate) * np.int16(MATED), evaluation)
    before = np.full(len(noted), NO_EVALUATION, np.int16)
    before[1:] = np.where((ply[1:] > 0) & ~searched[:-1], noted[:-1], NO_EVALUATION)
    return np.where(searched, noted, before)


def _time_spent(clock: Times, noted: Times, ply: Ints, increments: Ints) -> Times:
    """Centiseconds that each move took, (m,) int32; ``increments`` is ``NO_CLOCK`` where the clocks do not show it."""
    spent = noted.copy()
    before = np.full(len(clock), NO_CLOCK)
    before[2:] = clock[:-2]
    took = before + increments - clock
    by_clock = (noted == NO_CLOCK) & (ply >= 2) & (increments >= 0) & (before >= 0) & (clock >= 0) & (took >= 0)
    spent[by_clock] = np.minimum(took[by_clock], LARGEST_CLOCK)
    return spent


@cache
def _standard_start() -> Fields:
    """The start position of standard chess as a row."""
    rows, game = empty_rows(1), oracle.Replay()
    game.add(chess.Board(), chess.Move.from_uci("e2e4"))
    game.write(rows, 0)
    return rows


def _unusual(plies: Ints, rows: Fields) -> npt.NDArray[np.bool_]:
    """Games from another start position than that of standard chess, and those with an underpromotion."""
    firsts, start = np.cumsum(plies) - plies, _standard_start()
    unusual: npt.NDArray[np.bool_] = (rows["squares"][firsts] != start["squares"]).any(axis=(1, 2))
    unusual |= (rows["state"][firsts] != start["state"]).any(axis=1)
    promoted = rows["move"] >> 12
    unusual[np.repeat(np.arange(len(plies)), plies)[(promoted > 0) & (promoted < chess.QUEEN - 1)]] = True
    return unusual


def _keys(rows: Fields, plies: Ints) -> Bytes:
    """Hash of start position and moves of each game, (n, 16) uint8."""
    ends = np.cumsum(plies)
    firsts = ends - plies
    boards = bitboards(rows["squares"][firsts])
    return keys_of(
        [
            (boards, _spans(np.arange(len(plies)), 96)),
            (rows["state"], np.stack([4 * firsts, 4 * firsts + 3], axis=1)),  # not the halfmove clock
            (rows["move"], 2 * np.stack([firsts, ends], axis=1)),
        ]
    )


def _keys_of_games(keys: Bytes, games: Games, facts: Facts, accepted: Ints) -> Bytes:
    """Keys whose second half also depends on the game's facts; the first, of the moves alone, decides the split."""
    pieces = [(keys, _spans(np.arange(len(keys)), KEY_BYTES))]
    for numbers, prefix in ((facts.result, ""), (facts.date, "\0")):
        distinct, place = np.unique(numbers[accepted], return_inverse=True)
        texts, spans = packed(f"{prefix}{number}" for number in distinct.tolist())
        pieces.append((texts, spans[place]))
    for name in ("White", "Black", "UTCTime"):
        texts, spans = packed_column(games, name, lambda text: f"\0{text.strip().strip('?')}")
        pieces.append((texts, spans[accepted]))
    half = KEY_BYTES // 2
    return np.concatenate([keys[:, :half], keys_of(pieces, half)], axis=1)


def _spans(numbers: Ints, length: int) -> Ints:
    """First and last byte of records of one length."""
    return np.stack([length * numbers, length * (numbers + 1)], axis=1)
