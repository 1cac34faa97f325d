from __future__ import annotations

import random
from collections import Counter

import chess
import chess.pgn
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from outofcore.conversion.estimate import Estimate
from outofcore.conversion.executors import open_executor
from outofcore.conversion.run import Conversion
from outofcore.domains.boards.columns import Column
from outofcore.domains.chess import DOMAIN, oracle
from outofcore.domains.chess.codes import NO_EVALUATION
from outofcore.domains.chess.schema import POSITION_COLUMNS
from outofcore.raw.files import find_files
from outofcore.raw.unit import AuditRate, UnitResult
from outofcore.store.reader import open_store
from tests.domains.chess.pgn import fragments
from tests.domains.chess.positions import board_fen, played_moves
from tests.domains.units import unit_of
from tests.processes import run_program


def convert(text: str | bytes, offset: int = 0, one_in: int = 1, **settings_) -> UnitResult:
    payload = text if isinstance(text, bytes) else text.encode()
    section = DOMAIN.section(raw="-", **settings_)
    result = DOMAIN.converter(section, AuditRate(one_in, one_in))(unit_of(payload, offset))
    assert result.found == len(result.keys) + len(result.rejects)
    assert result.differences == ()
    for field in (column.field for column in POSITION_COLUMNS if not column.setting):
        assert result.rows[field.name].dtype == field.dtype
        assert result.rows[field.name].shape == (result.sequences["length"].sum(), *field.shape)
    return result


def reasons(result: UnitResult) -> list[str]:
    return [reject.reason for reject in result.rejects]


def moves_of(result: UnitResult) -> list[str]:
    return played_moves(result.rows)


def test_a_game_from_end_to_end():
    text = (
        '[Event "Rated game"]\n[Date "2020.02.??"]\n[WhiteElo "2100"]\n[BlackElo "?"]\n[Result "0-1"]\n'
        '[TimeControl "60+0"]\n[Termination "Normal"]\n\n'
        "1. f3 { [%eval 0.29] [%clk 0:00:59.5] } e5 {[%eval -1.1]} (1... c5 {[%clk 0:00:01]}) "
        "2. g4 $4 {[%eval #-1] [%clk 0:00:50]} Qh4# 0-1\n"
    )
    result = convert(text, offset=100)
    assert moves_of(result) == ["f2f3", "e7e5", "g2g4", "d8h4"]
    assert board_fen(result.rows, 2) == "rnbqkbnr/pppp1ppp/8/4p3/8/5P2/PPPPP1PP/RNBQKBNR"
    assert result.rows["state"].tolist() == [[0, 15, 255, 0], [1, 15, 255, 0], [0, 15, 4, 0], [1, 15, 6, 0]]
    assert result.rows["ply"].tolist() == [0, 1, 2, 3]
    assert result.rows["result"].tolist() == [-1] * 4
    assert result.rows["clock"].tolist() == [5950, -1, 5000, -1]
    assert result.rows["evaluation"].tolist() == [29, -110, -32768, -32768]
    assert result.rows["mate"].tolist() == [0, 0, -1, 0]
    assert result.rows["position_evaluation"].tolist() == [-32768, 29, -110, -32767]
    assert {name: column[0] for name, column in result.sequences.items()} == {
        "length": 4,
        "white_elo": 2100,
        "black_elo": 0,
        "date": 20200200,
        "time_control": "60+0",
        "termination": "Normal",
        "variant": 0,
        "result": -1,
        "plies": 4,
        "source": 3,
        "member": 0,
        "offset": 100,
    }


@pytest.mark.parametrize(
    ("text", "reason", "detail"),
    [
        ("1. e4 e5 2. Ke3 1-0", "illegal_move", "ply 3"),
        ("1. e4 e5 2. Zz9 Nc6 1-0", "illegal_move", "Nc6"),
        ("1. e4 e5 2. Sf3 Nc6 1-0", "unreadable_move", "ply 3"),
        ("1. e4 -- 2. d4 1-0", "null_move", "ply 2"),
        ("1. e4 0000 2. d4 1-0", "null_move", "0000"),
        ("1. e4 1900000000. e5 1-0", "null_move", "0000"),
        ("1. e4 d5 2. xd5 Nc6 1-0", "illegal_move", "xd5"),
        ("1. e4 e5 *", "no_result", ""),
        ('[Event "a"]\n\n1. e4 e5', "unterminated", "cut off"),
        ('[Result "1-0"]\n\n1. e4 e5 0-1', "result_conflict", "1-0"),
        ('[Result "1-0"]\n\n1-0', "no_moves", ""),
        ("[what is this", "not_pgn", ""),
        ('[FEN "8/8/8/8 w"]\n\n1. e4 1-0', "invalid_position", "8/8/8/8"),
        ('[FEN "8/8/8/8/8/8/8/8 w - - 0 1"]\n\n1. e4 1-0', "invalid_position", "1: NO_WHITE_KING|NO_BLACK_KING|EMPTY"),
        ('[SetUp "1"]\n\n1. e4 1-0', "invalid_position", "SetUp 1 without FEN"),
        (
            '[SetUp "1"]\n[fen "4k3/8/8/8/8/8/4P3/4K3 w - - 0 1"]\n\n1. e4 1-0',
            "invalid_position",
            "SetUp 1 without FEN",
        ),
        ('[SetUp "1"]\n[FEN ""]\n\n1. e4 1-0', "invalid_position", "SetUp 1 without FEN"),
        ('[Variant "Three-check"]\n\n1. e4 1-0', "variant", "Three-check"),
    ],
)
def test_each_defect_has_its_reason(text, reason, detail):
    good = '[Event "good"]\n\n1. e4 e5 1-0\n\n'
    result = convert(good + text + "\n\n" + good.replace("e5", "c5"), offset=7)
    assert len(result.keys) == 2
    (reject,) = result.rejects
    assert (reject.reason, reject.offset) == (reason, 7 + len(good))
    assert detail in reject.detail


PROMOTING = '[FEN "1n2k3/P7/8/8/8/8/p7/1N2K3 w - - 0 1"]\n\n'
FIGURES = "1. \u2659e4 e5 2. \u2658f3 \u265ec6 3. \u2657b5 a6 4. \u2654e2 \u265ae7 5. \u2655e1 \u265be8 1-0"


@pytest.mark.parametrize(
    ("text", "moves"),
    [
        ("e2-e4 e7-e5 Ng1-f3 1-0", "e2e4 e7e5 g1f3"),
        ("e2e4 e7e5 g1f3 1-0", "e2e4 e7e5 g1f3"),
        ("1.e4 e5 2.Nf3 Nc6 3.Bc4 Bc5 4.0-0 1-0", "e2e4 e7e5 g1f3 b8c6 f1c4 f8c5 e1g1"),
        (FIGURES, "e2e4 e7e5 g1f3 b8c6 f1b5 a7a6 e1e2 e8e7 d1e1 d8e8"),
        ("1. e4\u00b1 e5 \u00b1 2. Nf3\u00b1! Nc6\u00a0 1-0".encode("latin-1"), "e2e4 e7e5 g1f3 b8c6"),
        (f"{PROMOTING}1. axb8=N axb1=B 2. Kd1 1-0", "a7b8n a2b1b e1d1"),
        (f"{PROMOTING}1. a8=R a1Q 1-0", "a7a8r a2a1q"),
        ('[SetUp "0"]\n\n1. e4 1-0', "e2e4"),
    ],
    ids=["hyphens", "UCI", "zeros", "figures", "signs in Latin-1", "captures", "without =", "start as usual"],
)
def test_moves_are_read_in_other_spellings(text, moves):
    assert moves_of(convert(text)) == moves.split()


@pytest.mark.parametrize("rights", ["KQkq", "KQ", "Kkq", "HAha"])
def test_a_right_whose_rook_has_left_is_none(rights):
    fen = f"4k2r/8/8/8/8/8/4P3/R3K3 w {rights} - 0 1"
    result = convert(f'[Variant "Standard"]\n[FEN "{fen}"]\n\n1. e4 Kd7 2. Kd2 1-0')
    assert moves_of(result) == ["e2e4", "e8d7", "e1d2"]
    board = chess.Board(fen)
    board.castling_rights = board.clean_castling_rights()
    by_oracle = [
        bool(board.castling_rights & square) for square in (chess.BB_H1, chess.BB_A1, chess.BB_H8, chess.BB_A8)
    ]
    assert [bool(result.rows["state"][0, 1] >> bit & 1) for bit in range(4)] == by_oracle


def test_chess960_castling_is_king_takes_rook_and_rights_follow_the_rooks():
    fen = "nqbbrkrn/pppppppp/8/8/8/8/PPPPPPPP/NQBBRKRN w KQkq - 0 1"
    for name in ("Chess960", "fischerandom", "Fischer Random", "chess 960"):
        result = convert(f'[Variant "{name}"]\n[FEN "{fen}"]\n\n1. O-O g6 2. e4 Rf8 3. d3 1/2-1/2')
        assert reasons(result) == ["illegal_move"]  # the king stands on f8
        result = convert(f'[Variant "{name}"]\n[FEN "{fen}"]\n\n1. O-O Ng6 2. e4 Rh8 3. d3 a6 1/2-1/2')
        assert moves_of(result)[0] == "f1g1"
        assert result.rows["state"][:, 1].tolist() == [15, 12, 12, 12, 8, 8]
        assert result.sequences["variant"].tolist() == [1]
        assert board_fen(result.rows, 1) == "nqbbrkrn/pppppppp/8/8/8/8/PPPPPPPP/NQBBRRKN"


@pytest.mark.parametrize(
    ("fen", "moves", "played", "rights"),
    [
        ("bqnb1rkr/pp3ppp/3ppn2/2p5/5P2/P2P4/NPP1P1PP/BQ1BNRKR w HFhf - 2 9", "Nf3", "e1f3", [15]),
        ("nrbkqbrn/pppppppp/8/8/8/8/PPPPPPPP/NRBKQBRN w GBgb - 0 1", "Ng3 Ng6", "h1g3", [15, 15]),
        ("nrbkqbrn/pppppppp/8/8/8/8/PPPPPPPP/NRBKQBRN w KQkq - 0 1", "Ng3 Ng6", "h1g3", [15, 15]),
        ("4k3/8/8/8/8/8/4P3/5KRR w G - 0 1", "O-O", "f1g1", [1 | 16, 0]),
        ("4k3/8/8/8/8/8/4P3/5KRR w H - 0 1", "e4", "e2e4", [1]),
        ("1rkr2r1/8/8/8/8/8/4P3/4K3 b db - 0 1", "Rd5 Kf2 Rh8", "d8d5", [12 | 64, 8, 8]),
        ("1rrk4/8/8/8/8/8/8/4K3 b c - 0 1", "O-O-O", "d8c8", [8 | 128]),
    ],
)
@pytest.mark.parametrize("tag", ["", '[Variant "Standard"]\n', '[Variant "Chess960"]\n'])
def test_rights_that_standard_chess_has_not_make_a_game_chess960(fen, moves, played, rights, tag):
    result = convert(f'{tag}[FEN "{fen}"]\n\n{moves} 1-0')
    assert not result.rejects
    assert moves_of(result)[0] == played
    assert result.rows["state"][: len(rights), 1].tolist() == rights[: len(result.rows["state"])]
    assert result.sequences["variant"].tolist() == [1]


@pytest.mark.parametrize("rights", ["KQkq", "HAha", "Kq", "-"])
def test_a_start_position_with_the_rights_of_standard_chess_stays_standard(rights):
    result = convert(f'[FEN "rnbqkbnr/pppppppp/8/8/8/8/PPPPPPPP/RNBQKBNR w {rights} - 0 1"]\n\n1. e4 e5 1-0')
    assert result.sequences["variant"].tolist() == [0]
    assert result.rows["state"][0, 1] == {"KQkq": 15, "HAha": 15, "Kq": 9, "-": 0}[rights]


def test_en_passant_file_stands_after_every_double_push():
    state = convert("1. e4 a6 2. e5 d5 3. exd6 1-0").rows["state"]
    assert state[:, 2].tolist() == [255, 4, 255, 255, 3]


def test_halfmove_clock_stops_at_255():
    moves = "Rh2 Kd8 Rh1 Ke8 " * 70
    result = convert(f'[FEN "4k3/8/8/8/8/8/8/4K2R w - - 0 1"]\n\n{moves} 1/2-1/2')
    assert result.rows["state"][254:258, 3].tolist() == [254, 255, 255, 255]


def key_of(text: str, duplicates: str) -> bytes:
    return convert(text, filters={"duplicates": duplicates}).keys.tobytes()


@pytest.mark.parametrize("duplicates", ["same_moves", "keep"])
def test_equal_moves_have_one_key_whatever_else_differs(duplicates):
    one = key_of('[White "a"]\n\n1. e4 {x} e5 1-0', duplicates)
    assert one == key_of('[White "b"]\n[Result "0-1"]\n\n e2e4 (1. d4) e7e5 0-1', duplicates)
    start = chess.STARTING_FEN
    assert one == key_of(f'[FEN "{start}"]\n\n1. e4 e5 1-0', duplicates)
    assert one != key_of("1. e4 e6 1-0", duplicates)
    assert one != key_of(f'[FEN "{start.replace("KQkq", "KQk")}"]\n\n1. e4 e5 1-0', duplicates)


def test_games_that_differ_in_more_than_their_moves_have_keys_of_their_own():
    tags = {"White": "a", "Black": "b", "Date": "2020.01.02", "UTCTime": "10:11:12", "Result": "1-0", "Event": "x"}

    def key(marker: str = "1-0", moves: str = "1. e4 e5", **changed: str) -> bytes:
        text = "".join(f'[{name} "{value}"]\n' for name, value in (tags | {"Result": marker} | changed).items())
        return key_of(f"{text}\n{moves} {marker}\n", "same_game")

    games = [
        key(),
        key("0-1"),
        key(White="c"),
        key(Black="c"),
        key(White="b", Black="a"),
        key(Date="2020.01.03"),
        key(UTCTime="10:11:13"),
    ]
    assert len(set(games)) == len(games)
    assert len({game[:8] for game in games}) == 1  # which decides about the split
    assert key(Event="y") == key(Site="z", UTCDate="2020.01.02") == key()
    assert key(White="?") == key(White="")
    assert key(moves="1. e4 e6")[:8] != key()[:8]
    assert key(moves="1. e4 e6")[8:] != key()[8:]


def test_a_short_game_that_others_have_played_too_is_kept(tmp_path):
    players = [("Ann", "Ben", "1-0"), ("Cid", "Dora", "1-0"), ("Ann", "Ben", "0-1"), ("Ann", "Ben", "1-0")]
    games = "".join(f'[White "{w}"]\n[Black "{b}"]\n\n1. e4 e5 {result}\n\n' for w, b, result in players)
    (tmp_path / "a.pgn").write_text(games)
    for duplicates, accepted in (("same_game", 3), ("same_moves", 1), ("keep", 4)):
        section = DOMAIN.section(raw=str(tmp_path), filters={"duplicates": duplicates})
        store, rejects = tmp_path / f"{duplicates}.zarr", tmp_path / "rejects.csv"
        files = find_files(tmp_path, "*.pgn", (".pgn",), section="chess")
        conversion = Conversion(DOMAIN, section, files, store, rejects)
        executor = open_executor("threads", 1)
        conversion.run(Estimate(0, 0, 0, 0), executor=executor, workers=1, watch=lambda *_: None, scratch=tmp_path)
        games = [len(open_store(store).sequences(split)) for split in ("train", "val", "test")]
        assert sorted(games) == [0, 0, accepted]  # whatever the split, it is the same for all


def test_bytes_that_are_no_utf8_harm_no_game():
    text = '[White "L\u00e9ko"]\n[TimeControl "\u00bd"]\n\n1. e4 {caf\u00e9} e5 1-0\n\n'
    for codec in ("latin-1", "utf-8"):
        result = convert(text.encode(codec))
        assert result.sequences["time_control"].tolist() == ["\u00bd"]
    assert reasons(convert("1. \u00e9f3 d5 1-0".encode("latin-1"))) == ["unreadable_move"]


def test_words_that_only_some_readers_divide_move_no_row_of_the_next_game():
    games = "1. d4 d5 1-0\n\n1. e4 e5 2. Nf3\u00a0Nc6 1-0\n\n1. c4 c5 1-0\n\n"
    for codec in ("latin-1", "utf-8"):
        result = convert(games.encode(codec))
        assert moves_of(result) == ["d2d4", "d7d5", "e2e4", "e7e5", "g1f3", "b8c6", "c2c4", "c7c5"]


@pytest.mark.parametrize(
    ("note", "field", "value"),
    [
        ("[%clk\x000:08:55]", "clock", -1),
        ("[%clk\t0:08:55]", "clock", 53500),
        ("[%clk  0:08:55]", "clock", -1),
        ("[%clk \n0:08:55]", "clock", 53500),
        ("[%clk\n\n 0:08:55]", "clock", 53500),
        ("[%clk\xa00:08:55]", "clock", -1),
        ("[%eval \r5.00]", "evaluation", 500),
        ("[%eval 0.5,9]", "evaluation", 50),
        ("[%eval 0.5,]", "evaluation", NO_EVALUATION),
        ("[%eval 0.5,x9]", "evaluation", NO_EVALUATION),
        ("[%clk 0::55]", "clock", -1),
        ("[%clk 0:08:]", "clock", -1),
        (f"[%clk {'9' * 5000}:00:00]", "clock", 2**31 - 1),
        (f"[%clk {'9' * 1_100_000}:00:00]", "clock", 2**31 - 1),
        (f"[%clk 0:{'9' * 5000}:00]", "clock", 2**31 - 1),
        (f"[%eval #-{'9' * 5000}]", "mate", -127),
    ],
)
def test_notes_at_their_limits(note, field, value):
    assert convert(f"1. e4 {{{note}}} e5 1-0").rows[field][0] == value


def written(seed: int) -> tuple[str, list[list[str]]]:
    """Random legal games, written as untidily as PGN allows, with their moves in UCI."""
    draw = random.Random(seed)
    texts, games = [], []
    for _ in range(draw.randint(1, 4)):
        chess960 = draw.random() < 0.3
        board = chess.Board.from_chess960_pos(draw.randrange(960)) if chess960 else chess.Board()
        tags = f'[Event "x"]\n[Variant "Chess960"]\n[FEN "{board.fen()}"]\n' if chess960 else '[Event "x"]\n'
        words, moves = [], []
        for ply in range(draw.randint(1, 120)):
            legal = sorted(board.legal_moves, key=str)
            if not legal:
                break
            castling = [move for move in legal if board.is_castling(move)]
            move = draw.choice(castling or legal)
            san = board.san(move)
            if draw.random() < 0.2:
                san += draw.choice(["!", "?!", "!!", " $3", " !?"])
            if draw.random() < 0.5:
                san = f"{ply // 2 + 1}" + draw.choice(["...", "... ", ". .. "] if ply % 2 else [".", ". "]) + san
            if draw.random() < 0.2:
                clock = f"[%clk {draw.randint(0, 9)}:{draw.randint(0, 59)}:{draw.random() * 60:.{draw.randint(0, 3)}f}]"
                score = draw.choice([f"{draw.gauss(0, 9):.2f}", f"#{draw.randint(-40, 40)}", ".5,20", "junk", "1e9"])
                san += " {" + draw.choice(["a", "1-0 ", "(", "\n[Site "]) + f" {clock}\n[%eval {score}] ;" + "}"
            if draw.random() < 0.1 and ply:
                san += f" ({san.split()[0]} (e4 {{x}}) 0-1 {{[%clk 0:00:01]}})"
            if draw.random() < 0.05:
                san += draw.choice([" ; e4 {\n", "\n% 1-0\n", "\n\n", "\r\n"])
            words.append(san)
            moves.append(move.uci())
            board.push(move)
        result = draw.choice(["1-0", "0-1", "1/2-1/2"])
        texts.append(tags + draw.choice(["\n", "", "\r\n"]) + draw.choice([" ", "\n"]).join([*words, result]) + "\n\n")
        games.append(moves)
    return "".join(texts), games


@given(st.integers(0, 2**32))
@settings(max_examples=30, deadline=None)
def test_untidy_games_are_read_as_python_chess_plays_them(seed):
    text, games = written(seed)
    result = convert(text)
    assert result.audited == len(games) == len(result.keys), result.rejects
    assert moves_of(result) == [move for game in games for move in game]


@given(fragments.pgn, st.sampled_from([{}, fragments.EVERYTHING]))
@settings(max_examples=100, deadline=None)
def test_whatever_the_bytes_every_record_is_counted_and_no_moves_are_made_up(data, sections):
    convert(data, **sections)  # asserts that found = accepted + rejected and that python-chess reads the same


def test_a_difference_is_told(monkeypatch):
    section = DOMAIN.section(raw="-")
    monkeypatch.setattr(oracle, "_castling", lambda *_: 3)
    (found,) = DOMAIN.converter(section, AuditRate())(unit_of(b"1. e4 1-0", 50)).differences
    assert found == "a.pgn, game at byte 50: state at ply 0: [0, 15, 255, 0], by python-chess [0, 3, 255, 0]"


@pytest.mark.parametrize("column", POSITION_COLUMNS, ids=lambda column: column.field.name)
def test_a_wrong_value_of_any_column_is_found(column: Column, monkeypatch):
    def corrupted(tags, body, stored, *game, **more):
        stored[name] = stored[name].copy()
        stored[name][2] ^= 1
        return compare(tags, body, stored, *game, **more)

    text = b'[TimeControl "60"]\n\n1. e4 {[%clk 0:00:50] [%eval 0.3]} e5 {[%eval #3]} 2. d4 {[%clk 0:00:48]} 1-0'
    section = DOMAIN.section(raw="-", source={"time_spent": True})
    assert DOMAIN.converter(section, AuditRate())(unit_of(text)).differences == ()
    name, compare = column.field.name, oracle.difference
    monkeypatch.setattr(oracle, "difference", corrupted)
    (found,) = DOMAIN.converter(section, AuditRate())(unit_of(text)).differences
    assert f"{name} at ply 2: " in found


@pytest.mark.data
@pytest.mark.parametrize(
    ("name", "accepted", "rejected"),
    [
        ("odd/anastasian-lewis.pgn", 0, {"null_move": 1}),
        ("odd/antichess-programfox.pgn", 0, {"variant": 2}),
        ("odd/chessbase-empty-line.pgn", 1, {}),
        ("odd/cutechess-fischerrandom.pgn", 4, {}),
        ("odd/kasparov-deep-blue-1997.pgn", 6, {}),
        ("odd/knightvuillaume-jannlee-zh-lichess.pgn", 0, {"variant": 1}),
        ("odd/molinari-bordais-1979.pgn", 1, {}),
        ("odd/nepomniachtchi-liren-game1.pgn", 1, {}),
        ("odd/saturs-jannlee-zh-lichess.pgn", 0, {"variant": 1}),
        ("odd/stockfish-learning.pgn", 1, {}),
        ("odd/uci-moves.pgn", 1, {}),
        ("odd/utf8-bom.pgn", 0, {"no_moves": 2}),
        ("chess960.pgn", 1, {}),
        ("engine-with-comments.pgn", 4, {}),
        ("online-with-clocks-games.pgn", 333, {"no_moves": 1}),
        ("online-with-clocks-lichess_DannyTheDonkey_2019-01-29.pgn", 105, {}),
        ("Kramnik.pgn", 3878, {}),
    ],
)
def test_real_files(real_data, name, accepted, rejected):
    one_in = 32 if name == "Kramnik.pgn" else 1
    result = convert((real_data / "chess" / name).read_bytes(), one_in=one_in)
    assert len(result.keys) == accepted
    assert Counter(reasons(result)) == rejected
    assert result.audited == accepted if one_in == 1 else result.audited > 50


def test_a_conversion_imports_no_pandas(tmp_path):
    code = """if True:
        import sys
        from outofcore.domains.chess import DOMAIN, oracle
        from outofcore.raw.unit import NO_AUDIT
        from tests.domains.units import unit_of

        convert = DOMAIN.converter(DOMAIN.section(raw="-"), NO_AUDIT)
        for tag in ("", '[FEN "8/8/8/8/8/8/4P3/K1k5 w - - 0 1"]'):
            assert len(convert(unit_of(f"{tag}\\n\\n1. e4 1-0\\n\\n".encode())).keys) == 1
        assert "pandas" not in sys.modules
    """
    assert run_program(code, folder=tmp_path).returncode == 0
