"""Classify what is written in many ways: variants, time controls, terminations, results."""

from __future__ import annotations

import re
from decimal import Decimal
from functools import lru_cache
from typing import Literal

from outofcore.domains.chess import codes

TimeClass = Literal["bullet", "blitz", "rapid", "classical", "correspondence", "unknown"]
TerminationClass = Literal[
    "normal", "time forfeit", "abandoned", "adjudication", "rules infraction", "unterminated", "unknown", "other"
]

_STANDARD_NAMES = {"", "?", "-", "standard", "chess", "normal", "fromposition", "standardchess", "orthodox"}
_CHESS960_NAMES = {
    *("chess960", "960", "fischerandom", "fischerrandom", "fischerandomchess", "fischerrandomchess", "freestyle"),
    *("freestylechess", "frc", "dfrc", "doublefischerrandom", "doublefischerrandomchess", "chess9lx"),
}

_RESULTS = {"1-0": codes.WHITE_WINS, "1/2-1/2": codes.DRAW, "0-1": codes.BLACK_WINS, "*": codes.UNKNOWN_RESULT}
_SPELLINGS = str.maketrans(
    {
        **dict.fromkeys("\u2010\u2011\u2012\u2013\u2014\u2015\u2212\x96\x97", "-"),
        **dict(
            zip("\u2654\u2655\u2656\u2657\u2658\u2659\u265a\u265b\u265c\u265d\u265e\u265f", 2 * "KQRBNP", strict=True)
        ),
        "\u00bd": "1/2",
        "\ufeff": " ",
    }
)
_DRAW = re.compile(r"(?<![\d/])1/2(?:-1/2)?(?![\d/])")

_SECONDS = r"\d{1,9}(?:\.\d{1,9})?"
_FIRST_PERIOD = re.compile(rf"\s*\*?(?:(\d{{1,6}})/)?({_SECONDS})(?:\+({_SECONDS}))?\s*(?::.*)?", re.ASCII)
_RATED = re.compile(r"(?<![\w-])(?<!\bnot )(?<!\bnon )rated\b", re.IGNORECASE)
_DAY = 86_400
_MOVES_OF_A_GAME = 40
# Lichess, https://lichess.org/faq#time-controls: seconds below which a game is bullet, blitz, rapid.
_BOUNDS: tuple[tuple[int, TimeClass], ...] = ((179, "bullet"), (479, "blitz"), (1499, "rapid"))

# Lichess writes the class itself; chess.com writes a sentence that names a player and ends in one of these.
_ENDINGS: tuple[tuple[str, TerminationClass], ...] = (
    ("time forfeit", "time forfeit"),
    ("on time", "time forfeit"),
    ("timeout", "time forfeit"),
    ("timeout vs insufficient material", "time forfeit"),
    ("abandoned", "abandoned"),
    ("adjudication", "adjudication"),
    ("rules infraction", "rules infraction"),
    ("unterminated", "unterminated"),
    ("normal", "normal"),
    ("checkmate", "normal"),
    ("resignation", "normal"),
    ("agreement", "normal"),
    ("repetition", "normal"),
    ("stalemate", "normal"),
    ("insufficient material", "normal"),
    ("50-move rule", "normal"),
)


@lru_cache(maxsize=1024)
def variant_code(name: str) -> int:
    """Variant of a ``Variant`` tag, in any spelling (``fischerandom``, ``Chess 960``)."""
    key = re.sub(r"[\s_-]", "", name.lower())
    if name.strip() in _STANDARD_NAMES or key in _STANDARD_NAMES:
        return codes.STANDARD
    return codes.CHESS960 if key in _CHESS960_NAMES else codes.OTHER_VARIANT


@lru_cache(maxsize=1024)
def castles_as_in_chess960(fen: str) -> bool:
    """Whether a start position has castling rights outside standard chess, as python-chess judges it."""
    if "-" in fen.split()[2:3]:
        return False
    import chess  # only a conversion has it; names of variants are read without

    try:
        return chess.Board(fen).has_chess960_castling_rights()
    except ValueError:  # invalid position, reported when the game is played
        return False


@lru_cache(maxsize=4096)
def _first_period(control: str) -> tuple[int, int, int] | None:
    """Moves of the first period, 0 for all, and its base and increment in centiseconds; None if it is none."""
    match = _FIRST_PERIOD.fullmatch(control)
    if match is None:
        return None
    return int(match[1] or 0), int(Decimal(match[2]) * 100), int(Decimal(match[3] or 0) * 100)


def time_class(control: str, first_clock: int = codes.NO_CLOCK) -> TimeClass:
    """Class of a ``TimeControl`` tag, by the seconds available for 40 moves: base + 40 increments.

    The first period counts: ``40/7200:3600`` gives 7200 seconds for 40 moves. Seconds may have decimals, as engine
    matches write them (``10+0.1``). A day or more per move, and no limit (``-``), are correspondence; anything that is
    not a time control in the PGN standard is unknown. Where ``first_clock``, the centiseconds left after the first
    move, is far above it, the base counts minutes, as broadcasts write ``90+30``.
    """
    if control.strip() == "-":
        return "correspondence"
    period = _first_period(control)
    if period is None:
        return "unknown"
    moves, base, gain = period
    if base and first_clock > 4 * (base + gain):
        base *= 60
        if first_clock > base + gain + 6000:
            return "unknown"
    if moves:
        if base >= 100 * _DAY * moves:
            return "correspondence"
        base = base * _MOVES_OF_A_GAME // moves
    seconds = (base + _MOVES_OF_A_GAME * gain) // 100
    return next((name for bound, name in _BOUNDS if seconds <= bound), "classical")


def increment(control: str, first_clock: int = codes.NO_CLOCK) -> int:
    """Centiseconds that a player's clock gains per move; ``NO_CLOCK`` if unknown, or if a later period adds time.

    A player who goes berserk on Lichess, so that his first clock is half of the base, gains nothing.
    """
    period = _first_period(control)
    if period is None or period[0] or ":" in control or "*" in control:
        return codes.NO_CLOCK
    _, base, gain = period
    return 0 if first_clock != codes.NO_CLOCK and abs(2 * first_clock - base) < 200 else gain


@lru_cache(maxsize=4096)
def termination_class(text: str) -> TerminationClass:
    """Class of a ``Termination`` tag as written by Lichess, chess.com and engine tournaments."""
    lowered = text.strip().lower()
    if lowered in ("", "?", "-", "unknown"):
        return "unknown"
    by_length = sorted(_ENDINGS, key=lambda ending: -len(ending[0]))
    return next((name for ending, name in by_length if lowered.endswith(ending)), "other")


def is_rated(event: str, *, has_rating_change: bool) -> bool:
    """Whether the game is marked as rated: its event says so (``FICS rated blitz game``), or it has a rating change."""
    return has_rating_change or _RATED.search(event) is not None


def result_of(word: str) -> int:
    """Which result a word is, its dash and halves in any spelling (``1\u20130``, ``\u00bd-\u00bd``, ``1/2``)."""
    return _RESULTS.get(spelled(word), codes.NO_RESULT)


def spelled(text: str) -> str:
    """Text with results and dashes as in the standard, and figures of pieces as letters."""
    return _DRAW.sub("1/2-1/2", text.translate(_SPELLINGS))
