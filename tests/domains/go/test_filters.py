"""Reasons for which games are left out."""

from __future__ import annotations

import pytest

from outofcore.domains.go.filters import FILTERS
from tests.domains.go.conftest import ConvertText

LEFT_OUT = {
    "other_game": ("GM[2]SZ[19]", {}, "GM[2] is not Go"),
    "unreadable_size": ("SZ[big]", {}, "SZ[big]"),
    "not_square": ("SZ[19:13]", {}, "SZ[19:13]"),
    "other_size": ("SZ[13]", {}, "13 x 13; filters.sizes are [9, 19]"),
    "too_many_stones": ("SZ[9]AB[aa:ii][aa]", {}, "82 stones set up on 9 x 9"),
    "handicap": ("SZ[19]AB[pd][dp]", {"handicap": "drop"}, "2 stones"),
    "handicap_without_stones": ("SZ[19]HA[2];W[aa]", {}, "HA[2], no stones, White begins"),
    "result": ("SZ[19]RE[B+R]", {"results": ["score"]}, "RE[B+R]: resignation"),
    "rank": ("SZ[19]BR[3k]WR[2d]", {"min_rank": "1d"}, "a player below 1d"),
    "unknown_rank": ("SZ[19]WR[2d]", {"min_rank": "1d"}, "a player without a rank"),
}


@pytest.mark.parametrize("reason", FILTERS)
def test_a_game_is_left_out_for_its_reason(convert_text: ConvertText, reason: str) -> None:
    root, filters, detail = LEFT_OUT[reason]
    converted = convert_text(f"(;{root};W[cc])".encode(), filters=filters)
    assert [(reject.reason, reject.detail) for _, reject in converted.rejects] == [(reason, detail)]
    assert converted.found == 1
    assert not converted.keys
