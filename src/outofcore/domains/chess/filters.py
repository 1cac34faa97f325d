"""Which games and positions are kept, and why the others are not."""

from __future__ import annotations

from collections.abc import Sequence
from fnmatch import fnmatchcase
from typing import Any

import numpy as np
import numpy.typing as npt

from outofcore.domains.chess.params import FilterSection
from outofcore.domains.chess.pgn.classes import is_rated, termination_class, time_class
from outofcore.domains.chess.pgn.facts import Facts, text_column, text_of
from outofcore.domains.chess.pgn.games import CONFLICT, FAULTS, NO_RESULT, UNKNOWN_RESULT, Bytes, Games
from outofcore.domains.chess.schema import LARGEST_PLY, VARIANT_NAMES

REASONS = (
    "kept",
    "not_pgn",
    "not_one_game",
    "too_long",
    "variant",
    "invalid_position",
    "no_moves",
    "unterminated",
    "result_conflict",
    "no_result",
    "too_short",
    "elo_unknown",
    "elo_too_low",
    "elo_too_high",
    "not_rated",
    "time_class",
    "termination",
    "bot",
    "tag",
)
"""Reasons to reject a game by its text alone; the first that applies counts."""
KEPT = 0

Bools = npt.NDArray[np.bool_]
Ints = npt.NDArray[np.int64]


def judge(games: Games, facts: Facts, filters: FilterSection) -> Bytes:
    """Reason of each game, (n,) uint8: an index into :data:`REASONS`, ``KEPT`` if accepted."""
    verdicts = np.zeros(len(games.results), np.uint8)

    def reject(reason: str, where: Bools) -> None:
        verdicts[where & (verdicts == KEPT)] = REASONS.index(reason)

    accepted_variants = [code for code, name in VARIANT_NAMES.items() if name in filters.variants]
    reject("not_pgn", (games.tags[:, :, 0] < 0).all(axis=1) & (games.results == NO_RESULT))
    reject("not_one_game", games.faults > 0)
    reject("too_long", games.plies > LARGEST_PLY)
    reject("variant", ~np.isin(facts.variant, accepted_variants))
    reject("invalid_position", _lacks_its_position(games))
    reject("no_moves", games.plies == 0)
    cut = games.results == NO_RESULT
    reject("unterminated", cut if filters.unterminated == "reject" else cut & (facts.outcome == NO_RESULT))
    reject("result_conflict", facts.outcome == CONFLICT)
    if filters.unfinished == "drop":
        reject("no_result", facts.outcome == UNKNOWN_RESULT)
    reject("too_short", games.plies < filters.min_plies)
    unknown, low, high = elo_failures(facts, filters)
    every = np.any if filters.elo_of == "both" else np.all
    failed = every(unknown | low | high, axis=1)
    reject("elo_unknown", failed & unknown.any(axis=1))
    reject("elo_too_low", failed & low.any(axis=1))
    reject("elo_too_high", failed)
    _judge_texts(games, filters, reject)
    return verdicts


def elo_failures(facts: Facts, filters: FilterSection) -> tuple[Bools, Bools, Bools]:
    """Which players, (n, 2) each, have no Elo, one too low, one too high."""
    known = facts.elo > 0
    low = known & (facts.elo < (filters.min_elo or 0))
    high = known & (facts.elo > filters.max_elo) if filters.max_elo is not None else np.zeros_like(known)
    unknown = ~known if _bounded(filters) and filters.unknown_elo == "drop" else np.zeros_like(known)
    return unknown, low, high


def unrated_passed(facts: Facts, filters: FilterSection) -> Bools:
    """Which games, (n,), have a player without Elo, although bounds are set."""
    kept = _bounded(filters) and filters.unknown_elo == "keep"
    through: Bools = (facts.elo == 0).any(axis=1) & kept
    return through


def _bounded(filters: FilterSection) -> bool:
    return filters.min_elo is not None or filters.max_elo is not None


def describe(games: Games, facts: Facts, filters: FilterSection, game: int, reason: str) -> str:
    """Why a game was rejected, in words."""
    if reason.startswith("elo"):
        white, black = (str(elo) if elo else "?" for elo in facts.elo[game])
        return f"White {white}, Black {black}"
    if reason in ("too_short", "too_long"):
        return f"{games.plies[game]} plies"
    if reason == "not_pgn":
        return "neither a tag that is known nor 1-0, 0-1, 1/2-1/2 or *"
    if reason == "not_one_game":
        return FAULTS[games.faults[game]]
    if reason == "invalid_position":
        return "SetUp 1 without FEN: from which position is not known"
    if reason == "unterminated":
        return "no 1-0, 0-1, 1/2-1/2 or * after the moves: the game may be cut off"
    if reason == "result_conflict":
        return f"Result tag {games.tag(game, 'Result')!r} against the marker after the moves"
    if reason == "tag":
        values = {tag: text_of(games, game, tag) for tag in filters.tags}
        return next(f"{tag} {text!r}" for tag, text in values.items() if not _matches(text, filters.tags[tag]))
    causes = {"variant": "Variant", "time_class": "TimeControl", "termination": "Termination", "not_rated": "Event"}
    return (games.tag(game, causes[reason]) or "no tag") if reason in causes else ""


def _lacks_its_position(games: Games) -> Bools:
    """Which games, (n,), begin from a position of their own, by SetUp, and have none."""
    lacks = games.spans("SetUp")[:, 0] >= 0
    for game in np.flatnonzero(lacks).tolist():
        lacks[game] = text_of(games, game, "SetUp").strip() == "1" and not games.start_fen(game)
    return lacks


def _judge_texts(games: Games, filters: FilterSection, reject: Any) -> None:
    """Filters on free text, evaluated only if set."""
    defaults = FilterSection()
    if filters.rated_only:
        changed = games.spans("WhiteRatingDiff")[:, 0] >= 0
        events = text_column(games, "Event")
        rated = [is_rated(event, has_rating_change=bool(has)) for event, has in zip(events, changed, strict=True)]
        reject("not_rated", ~np.array(rated, bool))
    if set(filters.time_classes) != set(defaults.time_classes):
        controls = text_column(games, "TimeControl")
        reject("time_class", np.array([time_class(text) not in filters.time_classes for text in controls], bool))
    if set(filters.terminations) != set(defaults.terminations):
        endings = text_column(games, "Termination")
        reject("termination", np.array([termination_class(text) not in filters.terminations for text in endings], bool))
    if filters.bots == "drop":
        titles = (text_column(games, "WhiteTitle"), text_column(games, "BlackTitle"))
        reject("bot", (titles[0] == "BOT") | (titles[1] == "BOT"))
    for tag, patterns in filters.tags.items():
        texts = text_column(games, tag)
        wanted = {text: _matches(text, patterns) for text in set(texts.tolist())}
        reject("tag", np.array([not wanted[text] for text in texts.tolist()], bool))


def _matches(text: str, patterns: Sequence[str]) -> bool:
    """Whether a text matches one of the patterns, in which ``*`` and ``?`` alone are wildcards."""
    return any(fnmatchcase(text, pattern.replace("[", "[[]")) for pattern in patterns)


def choose_rows(
    plies: Ints, side_to_move: Bytes, clock: Ints, players_pass: Bools, filters: FilterSection
) -> tuple[Bools, dict[str, int]]:
    """Which of m positions of accepted games are stored, (m,) bool, and how many each filter dropped.

    ``plies`` (n,) positions per game, consecutive; ``side_to_move`` (m,) 0 White, 1 Black; ``clock`` (m,) centiseconds
    left, negative if unknown; ``players_pass`` (n, 2) whether White's and Black's positions are wanted.
    """
    of_game = np.repeat(np.arange(len(plies)), plies)
    ply = np.arange(len(of_game)) - np.repeat(np.cumsum(plies) - plies, plies)
    dropped = {}
    chosen = ply >= filters.skip_plies
    dropped["positions_skipped"] = int(np.count_nonzero(~chosen))
    wanted = players_pass[of_game, side_to_move]
    dropped["positions_elo"] = int(np.count_nonzero(chosen & ~wanted))
    chosen &= wanted
    if filters.min_clock is not None:
        in_time = clock >= 100 * filters.min_clock
        dropped["positions_clock"] = int(np.count_nonzero(chosen & ~in_time))
        chosen &= in_time
    return chosen, dropped
