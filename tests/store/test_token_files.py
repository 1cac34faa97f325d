"""Files of token ids of other programs, written here byte by byte as their formats say: the ids against NumPy's."""

from __future__ import annotations

import pickle
import struct
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import outofcore
from outofcore.errors import DamagedStore, ParamsError, StoreError
from outofcore.store.token_files import open_tokens

END = 50256
LENGTHS = np.random.default_rng(3).integers(1, 900, 400)
IDS = np.random.default_rng(4).integers(0, END, LENGTHS.sum()).astype(np.uint16)
IDS[np.cumsum(LENGTHS) - 1] = END


def nanogpt(folder: Path) -> Path:
    IDS.tofile(folder / "train.bin")
    return folder / "train.bin"


def llm_c(folder: Path, version: int = 1) -> Path:
    header = struct.pack("<3i", 20240520, version, len(IDS)).ljust(1024, b"\0")
    (folder / "c.bin").write_bytes(header + IDS.astype("<u2" if version == 1 else "<u4").tobytes())
    return folder / "c.bin"


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


WRITERS = {write.__name__: write for write in (nanogpt, llm_c, megatron, datatrove, numpy)}


@pytest.fixture(params=WRITERS)
def path(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    return WRITERS[request.param](tmp_path)


def test_windows_are_those_of_the_ids(path: Path) -> None:
    options: dict[str, Any] = {"dtype": "uint16", "end_of_document": END} if path.name == "train.bin" else {}
    batches = outofcore.loader(path, seq_len=64, batch_size=32, shuffle=False, phase=False, **options)
    got = [(batch["inputs"].numpy(), batch["targets"].numpy()) for batch in batches]
    count = (len(IDS) - 1) // 64 * 64
    assert (np.concatenate([inputs for inputs, _ in got]).ravel() == IDS[:count]).all()
    assert (np.concatenate([targets for _, targets in got]).ravel() == IDS[1 : count + 1]).all()
    shuffled = outofcore.loader(path, seq_len=64, batch_size=32, phase=False, memory="2MiB", **options)
    rows = np.concatenate([batch["inputs"].numpy() for batch in shuffled])
    assert sorted(map(tuple, rows)) == sorted(map(tuple, IDS[:count].reshape(-1, 64)))
    assert not (rows == IDS[:count].reshape(-1, 64)).all()


def test_documents_are_those_of_the_index_or_of_the_id_that_ends_them(path: Path) -> None:
    plain = path.suffix == ".npy" or path.name in ("train.bin", "c.bin")
    tokens = open_tokens(path, "uint16" if path.name == "train.bin" else None, END if plain else None)
    assert tokens.extents("train")[1].tolist() == LENGTHS.tolist()
    makes = outofcore.reading(tokens, seq_len=16, across_documents=False)
    rows = np.concatenate([batch["inputs"].numpy() for batch in outofcore.loader(tokens, tensors=makes, phase=False)])
    assert len(rows) == ((LENGTHS - 1) // 16).sum()
    assert END not in rows[:, :-1]


def test_splits_are_contiguous_and_resume(tmp_path: Path) -> None:
    ids = np.tile(IDS, 3)
    ids.tofile(tmp_path / "train.bin")
    options: dict[str, Any] = {"dtype": "uint16", "seq_len": 32, "splits": {"val": 0.3}, "batch_size": 64}
    stop = round(len(ids) * 0.7) // 65536 * 65536
    val = outofcore.loader(tmp_path / "train.bin", "val", shuffle=False, **options)
    got = np.concatenate([batch["inputs"].numpy() for batch in val]).ravel()
    assert (got == ids[stop : stop + len(got)]).all()
    assert stop + len(got) > len(ids) - 64
    whole = [batch["inputs"] for batch in outofcore.loader(tmp_path / "train.bin", **options)]
    first = outofcore.loader(tmp_path / "train.bin", **options)
    for _ in zip(range(5), first, strict=False):
        pass
    second = outofcore.loader(tmp_path / "train.bin", **options)
    second.load_state_dict(first.state_dict())
    rest = [batch["inputs"] for batch in second]
    assert len(rest) == len(whole) - 5
    assert all(bool((one == other).all()) for one, other in zip(rest, whole[5:], strict=True))


def test_several_files_are_one_and_a_copy_opens_elsewhere(tmp_path: Path) -> None:
    one, other = llm_c(tmp_path), tmp_path / "d.bin"
    other.write_bytes(one.read_bytes())
    batches = outofcore.loader([one, other], seq_len=64, batch_size=16, phase=False)
    assert sum(len(batch["inputs"]) for batch in batches) == 2 * ((len(IDS) - 1) // 64)
    tokens = open_tokens(one, end_of_document=END)
    assert (pickle.loads(pickle.dumps(tokens)).rows("train")["tokens"].read() == IDS).all()
    dataset = outofcore.ZarrDataset(tokens, tensors=outofcore.reading(tokens, seq_len=8))
    assert (dataset[3]["inputs"].numpy() == IDS[24:32]).all()
    assert (open_tokens(llm_c(tmp_path, 7)).rows("train")["tokens"].read() == IDS).all()


@pytest.mark.parametrize(
    ("arguments", "kind", "message"),
    [
        ({}, ParamsError, "does not tell that of its ids: give it, such as dtype='uint16'"),
        ({"dtype": "float32"}, ParamsError, "dtype: expected one of integers, such as uint16, got 'float32'"),
        ({"dtype": "what"}, ParamsError, "dtype: expected one of integers"),
        ({"dtype": "uint64"}, StoreError, "was cut or is of another"),
        ({"dtype": "uint16", "end_of_document": 70_000}, ParamsError, "end_of_document: expected an id of uint16"),
        ({"dtype": "uint16", "axis": 1}, ParamsError, "axis is for a Zarr that outofcore did not write"),
        ({"dtype": "uint16", "rows": (0, 10**9)}, ParamsError, "rows: expected a range inside"),
    ],
)
def test_wrong_arguments_are_one_line(
    tmp_path: Path, arguments: dict[str, Any], kind: type[Exception], message: str
) -> None:
    path = tmp_path / "train.bin"
    IDS[:1001].tofile(path)
    with pytest.raises(kind, match=message.replace("(", r"\(")) as caught:
        outofcore.loader(path, seq_len=8, **arguments)
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
