"""A unit's text to records: read, filter, replay with the engine, check with the oracle."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from outofcore.domains.boards.columns import filled
from outofcore.domains.chess import engine, oracle
from outofcore.domains.chess.codes import UNFINISHED
from outofcore.domains.chess.filters import KEPT, choose_rows, elo_failures, judge, reject_of, unrated_passed
from outofcore.domains.chess.moves import QUEEN
from outofcore.domains.chess.params import EVALUATIONS, RECORDS, ROWS, ChessSection
from outofcore.domains.chess.pgn.facts import Facts, packed, read_facts, text_column
from outofcore.domains.chess.pgn.games import Games
from outofcore.domains.chess.pgn.notes import NO_NOTES, Notes, add_engine_notes, new_notes
from outofcore.domains.chess.pgn.records import as_pgn
from outofcore.domains.chess.schema import POSITION_COLUMNS, game_columns, position_columns
from outofcore.domains.chess.squares import bitboards
from outofcore.ndarrays import Bytes, Ints
from outofcore.raw.files import wanted
from outofcore.raw.unit import KEY_BYTES, AuditRate, Reject, Stretch, Unit, UnitResult, difference, keys_of

Fields = dict[str, npt.NDArray[Any]]


class ReplayedGames(NamedTuple):
    """Accepted games of a unit, n, with all their positions, m."""

    games: Games  # all of the unit
    accepted: Ints  # (n,): numbers of these among them
    facts: Facts  # of these
    stretches: Sequence[Stretch]  # (n,): where each is
    offset: Ints  # (n,): in the decompressed file
    plies: Ints  # (n,)
    ply: Ints  # (m,)
    boards: dict[str, npt.NDArray[Any]]  # squares, state and move, (m, ...)
    notes: Notes  # of m moves

    def texts(self, tag: str) -> npt.NDArray[Any]:
        """A tag of each game, (n,)."""
        return text_column(self.games, tag)[self.accepted]

    def of(self, number: int) -> ReplayedGames:
        """One of the games, without its positions."""
        one = slice(number, number + 1)
        columns = {name: getattr(self, name)[one] for name in ("accepted", "stretches", "offset", "plies")}
        return self._replace(facts=self.facts.of(one), ply=self.ply[:0], boards={}, notes=new_notes(0), **columns)

    def repeated(self, values: Any) -> npt.NDArray[Any]:
        """Values (n,) of the games for each of their positions, (m,)."""
        return np.repeat(values, self.plies, axis=0)


@dataclass(frozen=True)
class Converter:
    """Converts units of PGN; picklable."""

    section: ChessSection
    rate: AuditRate

    def __call__(self, unit: Unit) -> UnitResult:
        source = self.section.source
        tags = (*(column.tag for column in game_columns(source.tags) if column.tag), *self.section.filters.tags)
        text, bounds = unit.payload, np.array([0, *(stretch.stop for stretch in unit.stretches)])
        section, records = self.section, wanted(unit.name, RECORDS)
        if records:  # of one file
            text, starts, places = as_pgn(text)
            bounds = np.array([0, len(text)])
            places = np.arange(len(places)) if wanted(unit.name, ROWS) else places
        if wanted(unit.name, (EVALUATIONS,)):  # which are written as those of an engine
            section = section.model_copy(update={"source": source.model_copy(update={"engine_comments": True})})
        data, engine_comments = np.frombuffer(text, np.uint8), section.source.engine_comments
        games, readings = oracle.read_pgn(data, bounds, more_tags=tags, comments=engine_comments)
        origins = places[np.searchsorted(starts, games.starts, "right") - 1] if records else games.starts
        return _Conversion(unit, *unit.origins(origins), section, self.rate, games, read_facts(games), readings).run()


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
    readings: dict[int, oracle.Reading]  # of the games that the engine does not read
    rejects: dict[int, Reject] = field(default_factory=dict)
    stopped: set[int] = field(default_factory=set)
    unread: int = 0  # notes of accepted games whose value cannot be read

    def run(self) -> UnitResult:
        filters = self.section.filters
        verdicts = judge(self.games, self.facts, filters)
        for game in np.flatnonzero(verdicts != KEPT).tolist():
            self._reject(game, *reject_of(self.games, self.facts, filters, game, verdicts[game]))
        accepted, plies, rows = self._play(np.flatnonzero(verdicts == KEPT))
        replayed = self._replayed(accepted, plies, rows)
        rows |= filled(position_columns(self.section.source), replayed)
        keys = _keys(rows, plies)
        if filters.duplicates == "same_game":
            keys = _keys_of_games(keys, replayed)
        unusual, draws, boards = _unusual(replayed), keys.view("<u8")[:, 1], dict(rows)
        lengths, counts = self._select(replayed, rows)
        kept = lengths > 0
        stored = {"elo_unknown_kept": unrated_passed(self.facts, filters)[accepted]}
        stored["read_by_python_chess"] = np.isin(accepted, list(self.readings))
        if filters.unfinished == "keep":
            stored["unfinished"] = replayed.facts.result == UNFINISHED
        if filters.illegal_move == "stop":
            stored["stopped"] = np.isin(accepted, list(self.stopped))
        sequences = {"length": lengths, **filled(game_columns(self.section.source.tags), replayed)}
        result = UnitResult(
            found=len(self.games.results),
            rows=rows,
            sequences={name: column[kept] for name, column in sequences.items()},
            keys=keys[kept],
            file=self.file[accepted[kept]],
            rejects=tuple(self.rejects[game] for game in sorted(self.rejects)),
            unusual=int(unusual.sum()),
            counts={**counts, "notes_unread": self.unread},
            stored_counts={name: column[kept] for name, column in stored.items()},
        )
        audited = self.rate.chosen(draws, self.unit.raw_bytes, unusual)
        differences = self._differences(replayed, np.flatnonzero(audited), boards)
        return replace(result, audited=int(audited.sum()), differences=tuple(differences))

    def _reject(self, game: int, reason: str, detail: str) -> None:
        place = {"offset": int(self.offset[game]), "file": int(self.file[game])}
        self.rejects[game] = Reject(reason=reason, detail=detail, **place)

    def _play(self, chosen: Ints) -> tuple[Ints, Ints, Fields]:
        """The chosen games that are legal, their half-moves, and the boards and moves of all their positions."""
        if not len(chosen):
            return chosen, chosen, _boards(0)
        parsed = engine.parse(self.games, chosen, self.facts)
        by_oracle = {}
        plies = np.where(parsed.readable, self.games.plies[chosen], 0).astype(np.int64)
        filters = self.section.filters
        for place in np.flatnonzero(~parsed.readable).tolist():
            game = int(chosen[place])
            if game not in self.readings:
                tags = engine.start_tags(self.games, int(self.facts.variant[game]), game)
                self.readings[game] = oracle.read(tags, self.games.body(game))
            reading = self.readings[game]
            count = len(reading.replay)
            if reading.refusal and (filters.illegal_move == "reject" or count < filters.min_plies):
                self._reject(game, *reading.refusal)
                continue
            if reading.refusal:
                self.stopped.add(game)
            by_oracle[place], plies[place] = reading.replay, count
        first_rows = np.cumsum(plies) - plies
        rows = _boards(int(plies.sum()))
        engine.fill_rows(parsed, first_rows, rows)
        for place, replay in by_oracle.items():
            span = slice(int(first_rows[place]), int(first_rows[place] + plies[place]))
            for name, column in replay.rows().items():
                rows[name][span] = column
        legal = plies > 0
        return chosen[legal], plies[legal], rows

    def _replayed(self, accepted: Ints, plies: Ints, boards: Fields) -> ReplayedGames:
        """What the columns of the accepted games are made of, with what the text notes of each move."""
        games, ends = self.games, np.cumsum(plies)
        ply = np.arange(len(boards["move"])) - np.repeat(ends - plies, plies)
        by_engine = ~np.isin(accepted, list(self.readings))
        moves = np.where(np.repeat(by_engine, plies), np.repeat(games.move_offsets[accepted], plies) + ply, -1)
        columns: Iterable[tuple[Any, Any]] = zip(games.notes, NO_NOTES, strict=True)
        notes = Notes._make(np.append(column, none)[moves] for column, none in columns)
        of_engines = self.section.source.engine_comments
        self.unread = int(games.unread[accepted[by_engine]].sum())
        for number in np.flatnonzero(~by_engine | of_engines).tolist():
            game, rows = int(accepted[number]), slice(ends[number] - plies[number], ends[number])
            comments = self.readings[game].comments if game in self.readings else games.comments_of(game)
            if game in self.readings:
                self.unread += oracle.read_notes(notes.of(rows), comments)
            if of_engines:
                self.unread += add_engine_notes(notes.of(rows), comments, boards["state"][rows, 0])
        stretches = [self.unit.stretches[file] for file in self.file[accepted].tolist()]
        facts = self.facts.of(accepted)
        return ReplayedGames(games, accepted, facts, stretches, self.offset[accepted], plies, ply, boards, notes)

    def _differences(self, replayed: ReplayedGames, chosen: Ints, rows: Fields) -> Iterator[str]:
        """What the oracle reads otherwise in the chosen games."""
        ends = np.cumsum(replayed.plies)
        for number in chosen.tolist():
            game = int(replayed.accepted[number])
            positions = slice(int(ends[number] - replayed.plies[number]), int(ends[number]))
            found = difference(
                oracle.difference,
                engine.start_tags(self.games, int(self.facts.variant[game]), game),
                self.games.body(game),
                {name: values[positions] for name, values in rows.items()},
                replayed.of(number),
                self.section.source,
                stopped=game in self.stopped,
            )
            if found:
                yield f"{replayed.stretches[number].name}, game at byte {replayed.offset[number]}: {found}"

    def _select(self, replayed: ReplayedGames, rows: Fields) -> tuple[Ints, dict[str, int]]:
        """Keep the positions that the filters accept: how many of each game; one without any is rejected."""
        filters, plies = self.section.filters, replayed.plies
        failing = np.any(elo_failures(replayed.facts, filters), axis=0)
        if filters.elo_of == "both":
            failing[:] = False
        game = np.repeat(np.arange(len(plies)), plies)
        chosen, counts = choose_rows(rows, ~failing[game, rows["state"][:, 0]], filters)
        if chosen.all():
            return plies, counts
        for name in rows:
            rows[name] = rows[name][chosen]
        lengths = np.bincount(game[chosen], minlength=len(plies))
        for place in np.flatnonzero(lengths == 0).tolist():
            self._reject(int(replayed.accepted[place]), "no_positions", f"none of {plies[place]} is wanted")
        return lengths, counts


def _boards(count: int) -> Fields:
    """Uninitialised columns of ``count`` positions that are written as moves are played."""
    written = (column.field for column in POSITION_COLUMNS if column.field.name in ("squares", "state", "move"))
    return {field.name: np.empty((count, *field.shape), field.dtype) for field in written}


def _unusual(replayed: ReplayedGames) -> npt.NDArray[np.bool_]:
    """Games from a start position of their own, and those with an underpromotion."""
    unusual: npt.NDArray[np.bool_] = replayed.games.spans("FEN")[replayed.accepted, 0] >= 0
    promoted = replayed.boards["move"] >> 12
    unusual[replayed.repeated(np.arange(len(unusual)))[(promoted > 0) & (promoted < QUEEN)]] = True
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


def _keys_of_games(keys: Bytes, replayed: ReplayedGames) -> Bytes:
    """Keys whose second half also depends on the game's facts; the first, of the moves alone, decides the split."""
    names = ([name.strip().strip("?") for name in replayed.texts(tag)] for tag in ("White", "Black", "UTCTime"))
    facts = zip(replayed.facts.result.tolist(), replayed.facts.date.tolist(), *names, strict=True)
    half, numbers = KEY_BYTES // 2, np.arange(len(keys))
    pieces = [(keys, _spans(numbers, KEY_BYTES)), packed("\0".join(map(str, facts_of_game)) for facts_of_game in facts)]
    return np.concatenate([keys[:, :half], keys_of(pieces, half)], axis=1)


def _spans(numbers: Ints, length: int) -> Ints:
    """First and last byte of records of one length."""
    return np.stack([length * numbers, length * (numbers + 1)], axis=1)
