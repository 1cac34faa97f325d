from __future__ import annotations

import pickle
from collections import Counter

import numpy as np
import pytest
from pydantic import ValidationError

from outofcore.domains.chess import DOMAIN
from outofcore.raw.files import find_files
from outofcore.raw.unit import AuditRate
from tests.domains.chess.test_convert import convert
from tests.domains.units import unit_of


@pytest.fixture(scope="module")
def sample(tmp_path_factory):
    folder = tmp_path_factory.mktemp("sample")
    DOMAIN.sample(folder, np.random.default_rng(1))
    return folder


def results(folder, **settings):
    section = DOMAIN.section(raw=str(folder), **settings)
    files = find_files(section.raw, section.match, DOMAIN.suffixes, section=DOMAIN.name)
    converter = pickle.loads(pickle.dumps(DOMAIN.converter(section, AuditRate())))
    return [converter(unit) for unit in DOMAIN.units(files, section)]


def test_the_sample_holds_what_real_files_hold(sample):
    found = results(sample)
    keys = np.concatenate([result.keys for result in found])
    rejects = Counter(reject.reason for result in found for reject in result.rejects)
    assert sum(result.found for result in found) == 307
    assert rejects == {"illegal_move": 1, "variant": 1, "no_result": 1}
    assert sum(result.audited for result in found) == len(keys) == 304
    assert not any(result.differences for result in found)
    assert len(keys) - len(np.unique(keys, axis=0)) == 2
    rows = {name: np.concatenate([result.rows[name] for result in found]) for name in found[0].rows}
    assert (rows["clock"] >= 0).any()
    assert (rows["evaluation"] > -32768).any()
    assert (rows["mate"] != 0).any()
    assert set(rows["result"].tolist()) == {-1, 0, 1}
    rejects = Counter(r.reason for result in results(sample, filters={"min_elo": 1900}) for r in result.rejects)
    assert rejects["elo_unknown"] == 1
    assert rejects["elo_too_low"] > 50


def test_a_position_is_drawn():
    result = convert("1. e4 e5 2. Nf3 Nc6 3. Bc4 Bc5 4. O-O 1-0")
    text = DOMAIN.draw({name: values[6:] for name, values in result.rows.items()})
    assert text.splitlines()[0] == "8  ♜ · ♝ ♛ ♚ · ♞ ♜"
    assert text.splitlines()[-1] == "White to move, ply 6: O-O, game ended 1-0"


def test_every_key_of_the_section_is_checked():
    with pytest.raises(ValidationError, match="min_elo"):
        DOMAIN.section(raw="-", filters={"min_elo": 2500, "max_elo": 1000})
    with pytest.raises(ValidationError, match="Extra inputs"):
        DOMAIN.section(raw="-", filters={"minimum_elo": 1})
    with pytest.raises(ValidationError, match="time_classes"):
        DOMAIN.section(raw="-", filters={"time_classes": ["quick"]})


def test_games_from_other_positions_and_with_underpromotions_are_audited_at_their_own_rate():
    knight = '[SetUp "1"]\n[FEN "8/P6k/8/8/8/8/7K/8 w - - 0 1"]\n\n1. a8=N 1-0\n\n'
    promoted = '[White "x"]\n\n1. a4 b5 2. axb5 a6 3. bxa6 Nc6 4. a7 Rb8 5. a8={} 1-0\n\n'
    games = [f'[White "{name}"]\n\n1. e4 e5 1-0\n\n' for name in "abcdef"]
    text = "".join([*games, knight, promoted.format("Q"), promoted.format("R")])
    section = DOMAIN.section(raw="-")
    result = DOMAIN.converter(section, AuditRate(2**62, 1))(unit_of(text.encode()))
    assert len(result.keys) == 9
    assert result.unusual == result.audited == 2
