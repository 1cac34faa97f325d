"""Files of token ids of other programs, written here byte by byte as their formats say: the ids against NumPy's."""

from __future__ import annotations

import os
import pickle
import struct
from collections import Counter
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import outofcore
from outofcore.errors import DamagedStore, ParamsError, StateError, StoreError
from outofcore.store.token_files import CHUNK_ROWS, TokenArray, TokenFile, open_tokens
from outofcore.store.unsealed import split_rows

END = 50256
LENGTHS = np.random.default_rng(3).integers(1, 900, 400)
IDS = np.random.default_rng(4).integers(0, END, LENGTHS.sum()).astype(np.uint16)
IDS[np.cumsum(LENGTHS) - 1] = END


def nanogpt(folder: Path) -> Path:
    IDS.tofile(folder / "train.bin")
    return folder / "train.bin"


def llm_c(folder: Path) -> Path:
    header = struct.pack("<3i", 20240520, 1, len(IDS)).ljust(1024, b"\0")
    (folder / "c.bin").write_bytes(header + IDS.astype("<u2").tobytes())
    return folder / "c.bin"


def llm_c_llama3(folder: Path) -> Path:
    header = struct.pack("<3i", 20240801, 7, len(IDS)).ljust(1024, b"\0")
    (folder / "llama3.bin").write_bytes(header + IDS.astype("<u4").tobytes())
    return folder / "llama3.bin"


def lit_gpt(folder: Path) -> Path:
    header = struct.pack("<7sQBQ", b"LITPKDS", 1, 8, len(IDS))
    (folder / "lit.bin").write_bytes(header + IDS.astype("<u2").tobytes())
    return folder / "lit.bin"


def megatron(folder: Path) -> Path:
    """Each document in two sequences, where it has two tokens."""
    halves = [part for size in LENGTHS.tolist() for part in (size - size // 2, size // 2) if part]
    counts = [2 if size > 1 else 1 for size in LENGTHS]
    places = 4 * (np.cumsum(halves) - halves)
    index = struct.pack("<9sQBQQ", b"MMIDIDX\0\0", 1, 4, len(halves), len(counts) + 1)
    index += np.array(halves, "<i4").tobytes() + places.astype("<i8").tobytes()
    (folder / "m.idx").write_bytes(index + np.cumsum([0, *counts]).astype("<i8").tobytes())
    (folder / "m.bin").write_bytes(IDS.astype("<i4").tobytes())
    return folder / "m.idx"


def datatrove(folder: Path) -> Path:
    (folder / "00000.ds").write_bytes(IDS.astype("<u4").tobytes())
    (folder / "00000.ds.index").write_bytes(np.cumsum(LENGTHS).astype("<u8").tobytes())
    return folder / "00000.ds"


def numpy(folder: Path) -> Path:
    np.save(folder / "ids.npy", IDS)
    return folder / "ids.npy"


WRITERS = {write.__name__: write for write in (nanogpt, llm_c, llm_c_llama3, lit_gpt, megatron, datatrove, numpy)}


@pytest.fixture(params=WRITERS)
def path(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    return WRITERS[request.param](tmp_path)


def resting(tokens: TokenFile, **settings: Any) -> dict[str, Any]:
    """Windows that begin at the same tokens in each epoch."""
    makes = outofcore.reading(tokens, **settings)
    return {"tensors": makes, "window": {**makes.window, "phase": False}}  # type: ignore[attr-defined]


def test_windows_are_those_of_the_ids(path: Path) -> None:
    options: dict[str, Any] = {"dtype": "uint16", "end_of_document": END} if path.name == "train.bin" else {}
    tokens = open_tokens(path, **options)
    batches = outofcore.loader(tokens, batch_size=32, shuffle=False, **resting(tokens, seq_len=64))
    got = [(batch["inputs"].numpy(), batch["targets"].numpy()) for batch in batches]
    count = (len(IDS) - 1) // 64 * 64
    assert (np.concatenate([inputs for inputs, _ in got]).ravel() == IDS[:count]).all()
    assert (np.concatenate([targets for _, targets in got]).ravel() == IDS[1 : count + 1]).all()
    shuffled = outofcore.loader(tokens, batch_size=32, memory="2MiB", **resting(tokens, seq_len=64))
    rows = np.concatenate([batch["inputs"].numpy() for batch in shuffled])
    assert sorted(map(tuple, rows)) == sorted(map(tuple, IDS[:count].reshape(-1, 64)))
    assert not (rows == IDS[:count].reshape(-1, 64)).all()


def test_documents_are_those_of_the_index_or_of_the_id_that_ends_them(path: Path) -> None:
    plain = path.suffix == ".npy" or path.name in ("train.bin", "c.bin", "llama3.bin", "lit.bin")
    tokens = open_tokens(path, "uint16" if path.name == "train.bin" else None, END if plain else None)
    assert tokens.extents("train")[1].tolist() == LENGTHS.tolist()
    samples = resting(tokens, seq_len=16, across_documents=False)
    rows = np.concatenate([batch["inputs"].numpy() for batch in outofcore.loader(tokens, **samples)])
    assert len(rows) == ((LENGTHS - 1) // 16).sum()
    assert END not in rows[:, :-1]


def test_documents_that_begin_with_an_id_keep_it(tmp_path: Path) -> None:
    """Each is packed with the id that begins it, and its first token is a target; against the ids themselves."""
    ids = np.concatenate([[END, *range(1000 * number, 1000 * number + 20 + number)] for number in range(40)])
    ids.astype("<u2").tofile(tmp_path / "c.bin")
    documents = np.split(ids, np.flatnonzero(ids == END)[1:])
    tokens = open_tokens(tmp_path / "c.bin", "uint16", begin_of_document=END)
    assert tokens.extents("train")[1].tolist() == [*map(len, documents)]
    assert tokens.digest != open_tokens(tmp_path / "c.bin", "uint16", end_of_document=END).digest
    assert tokens.note("train", ()).endswith("not noticed")
    packed = outofcore.reading(tokens, seq_len=128, across_documents="best_fit", reset_at_documents=True)
    rows = [
        (inputs, targets)
        for batch in outofcore.loader(tokens, tensors=packed)
        for inputs, targets in zip(batch["inputs"].tolist(), batch["targets"].tolist(), strict=True)
    ]
    unpredicted = -100, END  # END follows the last token of a document that another one is packed after
    pairs = Counter(
        (i, t) for inputs, targets in rows for i, t in zip(inputs, targets, strict=True) if t not in unpredicted
    )
    assert pairs == Counter(pair for document in documents for pair in pairwise(document.tolist()))
    cut = open_tokens(tmp_path / "c.bin", "uint16", begin_of_document=END, rows=(5, len(ids)))  # as a shard is
    assert cut.extents("train")[1].tolist() == [len(documents[0]) - 5, *map(len, documents[1:])]


def test_an_end_that_begins_the_file_is_noted(tmp_path: Path) -> None:
    ids = np.array([END, 1, 2, END, 3, 4], "<u2")
    ids.tofile(tmp_path / "c.bin")
    note = open_tokens(tmp_path / "c.bin", "uint16", end_of_document=END).note("train", ())
    assert f"its first token is {END}: if that begins documents, open it with open_tokens(" in note
    assert "first token" not in open_tokens(nanogpt(tmp_path), "uint16", end_of_document=END).note("train", ())


def test_splits_are_contiguous_and_resume(tmp_path: Path) -> None:
    ids = np.tile(IDS, 3)
    ids.tofile(tmp_path / "train.bin")
    tokens = open_tokens(tmp_path / "train.bin", "uint16", splits={"val": 0.3})
    options: dict[str, Any] = {"tensors": outofcore.reading(tokens, seq_len=32), "batch_size": 64}
    stop = round(len(ids) * 0.7)
    val = outofcore.loader(tokens, "val", shuffle=False, **options)
    got = np.concatenate([batch["inputs"].numpy() for batch in val]).ravel()
    assert (got == ids[stop : stop + len(got)]).all()
    assert stop + len(got) > len(ids) - 64
    whole = [batch["inputs"] for batch in outofcore.loader(tokens, **options)]
    first = outofcore.loader(tokens, **options)
    for _ in zip(range(5), first, strict=False):
        pass
    second = outofcore.loader(tokens, **options)
    second.load_state_dict(first.state_dict())
    rest = [batch["inputs"] for batch in second]
    assert len(rest) == len(whole) - 5
    assert all(bool((one == other).all()) for one, other in zip(rest, whole[5:], strict=True))


@pytest.mark.parametrize("count", [60_000, 70_000, 130_000, 301_966])
def test_shares_of_a_small_file_hold_to_the_token(tmp_path: Path, count: int) -> None:
    (np.arange(count) % 50_000).astype("<u2").tofile(tmp_path / "s.bin")
    tokens = open_tokens(tmp_path / "s.bin", "uint16", splits={"val": 0.1})
    sizes = [len(tokens.rows(name)["tokens"]) for name in ("train", "val")]
    assert sum(sizes) == count
    assert sizes[1] == pytest.approx(count / 10, abs=1)
    read = np.concatenate([tokens.rows(name)["tokens"].read() for name in ("train", "val")])
    assert (read == np.arange(count) % 50_000).all()


@pytest.mark.parametrize(
    ("count", "shares", "ends"),
    [
        (6_553_600, {"val": 0.1}, [5_898_240]),
        (7_000_001, {"val": 0.1}, [6_291_456]),
        (7_000_001, {"val": 0.1, "test": 0.2}, [4_849_664, 5_570_560]),
        (9_035_582_198, {"val": 0.1, "test": 0.2}, [6_324_879_360, 7_228_424_192]),
    ],
)
def test_splits_of_ten_chunks_and_more_begin_with_a_chunk(
    count: int, shares: dict[str, float], ends: list[int]
) -> None:
    parts = split_rows("train.bin", count, CHUNK_ROWS, None, shares)
    assert [*parts] == ["train", *shares]
    assert [part.start for part in parts.values()] == [0, *ends]
    assert [part.stop for part in parts.values()] == [*ends, count]


def test_several_files_are_one_and_a_copy_opens_elsewhere(tmp_path: Path) -> None:
    one, other = llm_c(tmp_path), tmp_path / "d.bin"
    other.write_bytes(one.read_bytes())
    batches = outofcore.loader([one, other], batch_size=16, **resting(open_tokens(one), seq_len=64))
    assert sum(len(batch["inputs"]) for batch in batches) == 2 * ((len(IDS) - 1) // 64)
    tokens = open_tokens(one, end_of_document=END)
    assert (pickle.loads(pickle.dumps(tokens)).rows("train")["tokens"].read() == IDS).all()
    dataset = outofcore.ZarrDataset(tokens, tensors=outofcore.reading(tokens, seq_len=8))
    assert (dataset[3]["inputs"].numpy() == IDS[24:32]).all()


@pytest.mark.parametrize(
    ("start", "seen"),
    [
        (
            struct.pack("<3i", 20240520, 2, 500).ljust(1024, b"\0"),
            "not known: 20240520, 2, 500, then zeros",
        ),
        (struct.pack("<7sQBQ", b"LITPKDS", 1, 6, 500), "lit-gpt's, of another version or dtype"),
        (struct.pack("<4i", 20240522, 1, 500, 1024).ljust(1024, b"\0"), "examples of an evaluation"),
        (struct.pack("<3i", 20250101, 3, 9).ljust(1024, b"\0"), "256 words that is not known: 20250101, 3, 9, then"),
        (struct.pack("<3i", 7, 1, 500).ljust(1024, b"\0"), "256 words that is not known: 7, 1, 500, then zeros"),
        (b"MMIDIDX\0\0", "an index of Megatron-LM"),
        (b"\x93NUMPY\1\0", "a .npy"),
        (b"\x28\xb5\x2f\xfd", "Zstandard"),
    ],
)
def test_a_header_that_is_not_known_is_refused_whatever_the_dtype(tmp_path: Path, start: bytes, seen: str) -> None:
    path = tmp_path / "x.bin"
    path.write_bytes(start + IDS[:500].tobytes())
    for dtype in (None, "uint16"):
        with pytest.raises(StoreError, match=seen):
            open_tokens(path, dtype)


def test_an_id_beyond_the_vocabulary_is_an_error(tmp_path: Path) -> None:
    path = nanogpt(tmp_path)
    assert (open_tokens(path, "uint16", vocab_size=END + 1).rows("train")["tokens"].read() == IDS).all()
    place = int(np.argmax(END <= IDS))
    with pytest.raises(StoreError, match=rf"token {place:,} has the id {END}, expected one below vocab_size={END}"):
        open_tokens(path, "uint16", vocab_size=END)
    late = np.zeros(70_000, "u2")
    late[-1] = 500
    late.tofile(tmp_path / "late.bin")
    with pytest.raises(DamagedStore, match="token 69,999 has the id 500"):
        list(outofcore.loader(open_tokens(tmp_path / "late.bin", "uint16", vocab_size=500)))
    (-late.astype("i4")).tofile(tmp_path / "minus.bin")
    with pytest.raises(DamagedStore, match="has the id -500"):
        list(outofcore.loader(open_tokens(tmp_path / "minus.bin", "int32", vocab_size=501)))


@pytest.mark.parametrize("across", [True, False, "best_fit"])
@pytest.mark.parametrize("end", [END, None])
def test_documents_of_an_index_are_kept_apart_with_and_without_an_end(
    tmp_path: Path, end: int | None, across: bool | str
) -> None:
    """Every other document lacks the end, as Megatron writes them without ``--append-eod``."""
    starts, ids = np.cumsum(LENGTHS) - LENGTHS, np.arange(LENGTHS.sum(), dtype="<i4")
    if end is not None:
        ids[np.cumsum(LENGTHS)[::2] - 1] = end
    path = megatron(tmp_path)
    ids.tofile(path.with_suffix(".bin"))
    tokens = open_tokens(path, end_of_document=end)
    samples = resting(tokens, seq_len=64, across_documents=across, reset_at_documents=True)
    pairs = set()
    for batch in outofcore.loader(tokens, shuffle=False, **samples):
        rows = [batch[name].numpy() for name in ("inputs", "targets", "positions", "segments")]
        for inputs, targets, positions, segments in zip(*rows, strict=True):
            for segment in np.unique(segments):
                own = segments == segment
                assert positions[own].tolist() == list(range(own.sum()))
                plain = inputs[own & ((inputs != end) | (targets != -100))]
                documents = np.searchsorted(starts, plain[plain != end], "right")
                # An id counts the tokens, so it names its document; the end opens the next one.
                assert len(np.unique(documents)) <= 1
            counted = targets != -100
            pairs |= set(zip(inputs[counted].tolist(), targets[counted].tolist(), strict=True))
    plain = {pair for pair in pairs if end not in pair}
    inside = {(token, token + 1) for token in range(len(ids) - 1) if end not in (ids[token], ids[token + 1])}
    assert plain <= inside - {(start - 1, start) for start in starts.tolist()}
    assert len(plain) > 0.5 * len(inside)


@pytest.mark.parametrize(
    ("arguments", "kind", "message"),
    [
        ({}, ParamsError, "does not state that of its ids: give it, such as dtype='uint16', or --dtype"),
        ({"dtype": "float32"}, ParamsError, "dtype: expected one of integers, such as uint16, got 'float32'"),
        ({"dtype": "what"}, ParamsError, "dtype: expected one of integers"),
        ({"dtype": "uint64"}, StoreError, "was cut or is of another"),
        ({"dtype": "uint16", "end_of_document": 70_000}, ParamsError, "end_of_document: expected an id of uint16"),
        ({"dtype": "uint16", "rows": (0, 10**9)}, ParamsError, "rows: expected a range inside"),
        ({"dtype": "uint16", "rows": (0, 100), "splits": {"val": 0.001}}, ParamsError, "100 rows .* none for val, got"),
        ({"dtype": "uint16", "rows": (0, 100), "splits": {"val": 0.999}}, ParamsError, "100 rows .* none for train"),
    ],
)
def test_wrong_arguments_are_one_line(
    tmp_path: Path, arguments: dict[str, Any], kind: type[Exception], message: str
) -> None:
    path = tmp_path / "train.bin"
    IDS[:1001].tofile(path)
    with pytest.raises(kind, match=message.replace("(", r"\(")) as caught:
        open_tokens(path, **arguments)
    assert "\n" not in str(caught.value)


def test_files_that_were_cut_are_refused(path: Path) -> None:
    target = path.with_suffix(".bin") if path.suffix == ".idx" else path
    target.write_bytes(target.read_bytes()[:-3])
    with pytest.raises(StoreError, match=str(target)):
        open_tokens(path, "uint16" if path.name == "train.bin" else None)


def test_what_is_cut_while_it_is_read_is_named(tmp_path: Path) -> None:
    tokens = open_tokens(nanogpt(tmp_path), "uint16")
    (tmp_path / "train.bin").write_bytes(b"12")
    with pytest.raises(DamagedStore, match="shorter than when it was opened"):
        tokens.rows("train")["tokens"].read()


@pytest.mark.parametrize("content", [b"", b"MMIDIDX\0\0", b"x" * 100])
def test_an_index_of_another_kind_is_refused(tmp_path: Path, content: bytes) -> None:
    path = megatron(tmp_path)
    path.write_bytes(content)
    with pytest.raises(StoreError, match="no file of token ids can be read there"):
        open_tokens(path)
    path.unlink()
    with pytest.raises(StoreError, match="does not exist"):
        open_tokens(tmp_path / "none.ds")


def test_a_state_is_of_these_files_in_this_order(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for number, name in enumerate(("a.bin", "b.bin", "c.bin")):
        (np.arange(5000) + number * 10_000).astype("u4").tofile(name)

    def opened(*names: str | Path) -> outofcore.Loader:
        files = [open_tokens(name, "uint32") for name in names]
        return outofcore.loader(files, batch_size=4, tensors=outofcore.reading(files[0], seq_len=9))

    state = opened("a.bin", "b.bin").state_dict()
    opened(tmp_path / "a.bin", "b.bin").load_state_dict(state)
    for others in (["b.bin", "a.bin"], ["a.bin", "c.bin"]):
        with pytest.raises(StateError, match="belongs to another store"):
            opened(*others).load_state_dict(state)
    with pytest.raises(StoreError, match="give each store once"):
        opened("a.bin", "./a.bin")


@pytest.mark.parametrize(
    "samples",
    [{}, {"tensors": "stored", "window": {"length": 65, "stride": 64, "mode": "best_fit"}}],
    ids=["across documents", "best_fit"],
)
def test_a_loader_looks_for_the_ends_of_documents_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, samples: Any
) -> None:
    """A file is read once before the first batch, apart from its first and last chunk, which tell it from others."""
    chunks = 40
    (np.arange(chunks * CHUNK_ROWS) % 1000).astype("<u2").tofile(tmp_path / "a.bin")
    read: list[int] = []
    chunk = TokenArray.chunk

    def counted(self: TokenArray, number: int, out: Any) -> int:
        read.append(number)
        return chunk(self, number, out)

    monkeypatch.setattr(TokenArray, "chunk", counted)
    tokens = open_tokens(tmp_path / "a.bin", "uint16", end_of_document=0)
    assert outofcore.loader(tokens, batch_size=4, **samples).notes  # which count the documents
    assert set(read) == set(range(chunks))
    assert len(read) < chunks + 10


@pytest.mark.parametrize("place", [0, -1])
def test_a_state_is_of_one_file_among_those_of_one_name_and_size(tmp_path: Path, place: int) -> None:
    ids = np.arange(2 * CHUNK_ROWS + 500, dtype="u4")
    changed = ids.copy()
    changed[place] += 1
    for folder, content in {"one": ids, "moved": ids, "other": changed}.items():
        (tmp_path / folder).mkdir()
        content.tofile(tmp_path / folder / "a.bin")

    def opened(folder: str) -> outofcore.Loader:
        tokens = open_tokens(tmp_path / folder / "a.bin", "uint32")
        return outofcore.loader(tokens, batch_size=4, tensors=outofcore.reading(tokens, seq_len=9))

    state = opened("one").state_dict()
    opened("moved").load_state_dict(state)
    with pytest.raises(StateError, match="belongs to another store"):
        opened("other").load_state_dict(state)


def test_a_pipe_is_refused_and_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "a.bin")
    with pytest.raises(StoreError, match=r"a\.bin: no file of token ids .*: expected a file, got a pipe$"):
        open_tokens(tmp_path / "a.bin", "uint16")
