"""Which games and positions are kept, and why the others are not: two tables.

A further filter is a row here, and its setting in ``params.py``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from fnmatch import fnmatchcase
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from outofcore.domains.chess.codes import CONFLICT, LARGEST_PLY, NO_RESULT, UNKNOWN_RESULT, VARIANT_NAMES
from outofcore.domains.chess.oracle import FAULTS
from outofcore.domains.chess.params import FilterSection
from outofcore.domains.chess.pgn.classes import is_rated, termination_class, time_class
from outofcore.domains.chess.pgn.facts import Facts, text_column
from outofcore.domains.chess.pgn.games import Games
from outofcore.ndarrays import Bytes

Bools = npt.NDArray[np.bool_]
KEPT = 0


class GameFilter(NamedTuple):
    """A reason to reject a game by its text."""

    reason: str
    rejects: Callable[[Games, Facts, FilterSection], Any]  # (n,) bool, or False where the settings reject none
    describe: Callable[[Games, Facts, FilterSection, int], str] = lambda *_: ""  # of a game, why


class PositionFilter(NamedTuple):
    """A reason not to store some positions of a game."""

    counted_as: str  # in the figures of a conversion
    keeps: Callable[[Mapping[str, Any], Bools, FilterSection], Any]  # (m,) bool, by the rows and whose mover passes
    is_set: Callable[[FilterSection], bool] = lambda _: True


def _lacks_its_position(games: Games) -> Bools:
    """Which games, (n,), begin from a position of their own, by SetUp, and have none."""
    lacks = games.spans("SetUp")[:, 0] >= 0
    for game in np.flatnonzero(lacks).tolist():
        lacks[game] = games.tag(game, "SetUp").strip() == "1" and not games.start_fen(game)
    return lacks


def _is_other_variant(facts: Facts, filters: FilterSection) -> Bools:
    return ~np.isin(facts.variant, [code for code, name in VARIANT_NAMES.items() if name in filters.variants])


def _is_unterminated(games: Games, facts: Facts, filters: FilterSection) -> Bools:
    cut: Bools = games.results == NO_RESULT
    return cut if filters.unterminated == "reject" else cut & (facts.outcome == NO_RESULT)


def _is_bounded(filters: FilterSection) -> bool:
    return filters.min_elo is not None or filters.max_elo is not None


def elo_failures(facts: Facts, filters: FilterSection) -> tuple[Bools, Bools, Bools]:
    """Which players, (n, 2) each, have no Elo, one too low, one too high."""
    known = facts.elo > 0
    low = known & (facts.elo < (filters.min_elo or 0))
    high = known & (facts.elo > filters.max_elo) if filters.max_elo is not None else np.zeros_like(known)
    unknown = ~known if _is_bounded(filters) and filters.unknown_elo == "drop" else np.zeros_like(known)
    return unknown, low, high


def _fails_by_elo(facts: Facts, filters: FilterSection, *causes: int) -> Bools:
    """Which games, (n,), have too few players who pass, and a player who fails by one of the causes."""
    if not _is_bounded(filters):
        return np.zeros(len(facts.elo), bool)
    failures = elo_failures(facts, filters)
    enough = np.any if filters.elo_of == "both" else np.all
    failed: Bools = enough(np.any(failures, axis=0), axis=1)
    caused: Bools = np.any([failures[cause] for cause in causes], axis=(0, 2))
    return failed & caused


def _by_elo(reason: str, *causes: int) -> GameFilter:
    """A filter of games that fail by one of the causes."""

    def describe(_: Games, facts: Facts, __: FilterSection, game: int) -> str:
        white, black = (str(elo) if elo else "?" for elo in facts.elo[game])
        return f"White {white}, Black {black}"

    return GameFilter(reason, lambda _, facts, filters: _fails_by_elo(facts, filters, *causes), describe)


def _by_text(games: Games, tag: str, rejects: Callable[..., bool], *arguments: Any) -> Bools:
    """Which games, (n,), have a text in a tag that is rejected, given the arguments; each text is judged once."""
    texts = text_column(games, tag).tolist()
    verdicts = {text: rejects(text, *arguments) for text in set(texts)}
    return np.array([verdicts[text] for text in texts], bool)


def _is_unrated(games: Games) -> Bools:
    changed = games.spans("WhiteRatingDiff")[:, 0] >= 0
    return ~changed & _by_text(games, "Event", lambda event: not is_rated(event, has_rating_change=False))


def _has_other_time_class(games: Games, filters: FilterSection) -> Bools:
    controls, clocks = text_column(games, "TimeControl").tolist(), games.first_clocks[:, 0].tolist()
    classes = map(time_class, controls, clocks)
    return np.array([time not in filters.time_classes for time in classes], bool)


def _has_other_termination(games: Games, filters: FilterSection) -> Bools:
    return _by_text(games, "Termination", lambda text: termination_class(text) not in filters.terminations)


def _has_bot(games: Games) -> Bools:
    titles = [text_column(games, f"{player}Title") for player in ("White", "Black")]
    bots: Bools = (np.array(titles) == "BOT").any(axis=0)
    return bots


def _is_limited(filters: FilterSection, setting: str) -> bool:
    """Whether a setting leaves classes out."""
    return set(getattr(filters, setting)) != set(FilterSection.model_fields[setting].default)


def _shows(tag: str) -> Callable[[Games, Facts, FilterSection, int], str]:
    return lambda games, _, __, game: games.tag(game, tag) or "no tag"


def _matches(text: str, patterns: Sequence[str]) -> bool:
    """Whether a text matches one of the patterns, in which ``*`` and ``?`` alone are wildcards."""
    return any(fnmatchcase(text, pattern.replace("[", "[[]")) for pattern in patterns)


def _matches_no_pattern(games: Games, filters: FilterSection) -> Bools:
    unmatched = np.zeros(len(games.results), bool)
    for tag, patterns in filters.tags.items():
        unmatched |= _by_text(games, tag, lambda text, wanted: not _matches(text, wanted), patterns)
    return unmatched


def _unmatched_tag(games: Games, filters: FilterSection, game: int) -> str:
    texts = {tag: games.tag(game, tag) for tag in filters.tags}
    return next(f"{tag} {text!r}" for tag, text in texts.items() if not _matches(text, filters.tags[tag]))


GAME_FILTERS = (
    GameFilter(
        "not_pgn",
        lambda games, _, __: (games.tags[:, :, 0] < 0).all(axis=1) & (games.results == NO_RESULT),
        lambda *_: "neither a tag that is known nor 1-0, 0-1, 1/2-1/2 or *",
    ),
    GameFilter(
        "not_one_game",
        lambda games, _, __: games.faults > 0,
        lambda games, _, __, game: FAULTS[games.faults[game]],
    ),
    GameFilter(
        "too_long",
        lambda games, _, __: games.plies > LARGEST_PLY,
        lambda games, _, __, game: f"{games.plies[game]} plies",
    ),
    GameFilter("variant", lambda _, facts, filters: _is_other_variant(facts, filters), _shows("Variant")),
    GameFilter(
        "invalid_position",
        lambda games, _, __: _lacks_its_position(games),
        lambda *_: "SetUp 1 without FEN: from which position is not known",
    ),
    GameFilter("no_moves", lambda games, _, __: games.plies == 0),
    GameFilter(
        "unterminated",
        _is_unterminated,
        lambda *_: "no 1-0, 0-1, 1/2-1/2 or * after the moves: the game may be cut off",
    ),
    GameFilter(
        "result_conflict",
        lambda _, facts, __: facts.outcome == CONFLICT,
        lambda games, _, __, game: f"Result tag {games.tag(game, 'Result')!r} against the marker after the moves",
    ),
    GameFilter("no_result", lambda _, facts, filters: filters.unfinished == "drop" and facts.outcome == UNKNOWN_RESULT),
    GameFilter(
        "too_short",
        lambda games, _, filters: games.plies < filters.min_plies,
        lambda games, _, __, game: f"{games.plies[game]} plies",
    ),
    _by_elo("elo_unknown", 0),
    _by_elo("elo_too_low", 1),
    _by_elo("elo_too_high", 0, 1, 2),
    GameFilter("not_rated", lambda games, _, filters: filters.rated_only and _is_unrated(games), _shows("Event")),
    GameFilter(
        "time_class",
        lambda games, _, filters: _is_limited(filters, "time_classes") and _has_other_time_class(games, filters),
        _shows("TimeControl"),
    ),
    GameFilter(
        "termination",
        lambda games, _, filters: _is_limited(filters, "terminations") and _has_other_termination(games, filters),
        _shows("Termination"),
    ),
    GameFilter("bot", lambda games, _, filters: filters.bots == "drop" and _has_bot(games)),
    GameFilter(
        "tag",
        lambda games, _, filters: _matches_no_pattern(games, filters),
        lambda games, _, filters, game: _unmatched_tag(games, filters, game),
    ),
)
"""In order: the first that applies to a game counts."""

POSITION_FILTERS = (
    PositionFilter("positions_skipped", lambda rows, _, filters: rows["ply"] >= filters.skip_plies),
    PositionFilter("positions_elo", lambda _, passing, __: passing),
    PositionFilter(
        "positions_clock",
        lambda rows, _, filters: rows["clock"] >= 100 * (filters.min_clock or 0),
        lambda filters: filters.min_clock is not None,
    ),
)
"""In order: the first that leaves a position out counts it."""


def judge(games: Games, facts: Facts, filters: FilterSection) -> Bytes:
    """Verdict on each game, (n,) uint8: the number of its filter in :data:`GAME_FILTERS`, from 1, or ``KEPT``."""
    verdicts = np.zeros(len(games.results), np.uint8)
    for number, rule in enumerate(GAME_FILTERS, 1):
        verdicts[(verdicts == KEPT) & rule.rejects(games, facts, filters)] = number
    return verdicts


def reject_of(games: Games, facts: Facts, filters: FilterSection, game: int, verdict: int) -> tuple[str, str]:
    """Reason of a verdict other than ``KEPT`` on a game, and why in words."""
    rule = GAME_FILTERS[verdict - 1]
    return rule.reason, rule.describe(games, facts, filters, game)


def unrated_passed(facts: Facts, filters: FilterSection) -> Bools:
    """Which games, (n,), have a player without Elo, although bounds are set."""
    kept = _is_bounded(filters) and filters.unknown_elo == "keep"
    passed: Bools = (facts.elo == 0).any(axis=1) & kept
    return passed


def choose_rows(
    rows: Mapping[str, npt.NDArray[Any]], passing: Bools, filters: FilterSection
) -> tuple[Bools, dict[str, int]]:
    """Which of m positions of accepted games are stored, (m,) bool, and how many each filter left out.

    ``rows`` has all stored fields of the positions; ``passing`` (m,) whether those of the mover are wanted.
    """
    chosen = np.ones(len(passing), bool)
    counts = {}
    for rule in POSITION_FILTERS:
        if rule.is_set(filters):
            kept = rule.keeps(rows, passing, filters)
            counts[rule.counted_as] = int(np.count_nonzero(chosen & ~kept))
            chosen &= kept
    return chosen, counts
