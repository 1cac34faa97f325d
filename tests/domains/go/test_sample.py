"""The made-up sample, and the store of it."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import numpy as np

from outofcore.domains.go import DOMAIN
from outofcore.domains.go.sample import PLAYERS
from outofcore.domains.go.sgf.meaning import HandicapRule, KomiRule
from outofcore.store.reader import Store
from tests.domains.go.games import convert


def test_equal_seeds_give_equal_files(sample: Path, tmp_path: Path) -> None:
    DOMAIN.sample(tmp_path, np.random.default_rng(0))
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == {
        path.name: path.read_bytes() for path in sample.iterdir()
    }


def test_it_holds_what_real_files_are_full_of(sample: Path) -> None:
    converted = convert(sample, filters={"sizes": [9, 19]}, one_in=4)
    assert Counter(converted.reasons) == {"handicap_without_stones": 15, "occupied": 1, "unterminated_value": 1}
    assert not converted.differences
    told = converted.sequences
    assert set(told["first_line"]) == {"anchor", ""}
    assert set(told["size"]) == {9, 19}
    rules = (HandicapRule.NONE, HandicapRule.ROOT, HandicapRule.LATER_NODE)
    assert set(told["handicap_rule"]) == set(rules)
    rules_of_komi = {KomiRule.AS_WRITTEN, KomiRule.HUNDREDTHS, KomiRule.DOUBLED, KomiRule.CONTRADICTED}
    assert set(told["komi_rule"]) == rules_of_komi
    assert {player.name for player in PLAYERS} < set(told["black"]) | set(told["white"])
    assert len(converted.keys) - len(set(converted.keys)) == len(PLAYERS) * (len(PLAYERS) - 1) // 2
    assert converted.counts["passes"] > 0
    assert converted.counts["captures"] > 0


def test_the_store_holds_each_game_once(store: Store) -> None:
    facts = store.attributes
    assert facts["found"] == facts["accepted"] + sum(facts["rejected"].values())
    rejected = {"duplicate": 28, "handicap_without_stones": 15, "occupied": 1, "unterminated_value": 1}
    assert facts["rejected"] == rejected
    games = np.concatenate([store.sequences(split)["game"].read() for split in store.splits])
    assert len(set(games)) == len(games) == facts["accepted"]
