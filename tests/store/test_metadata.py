"""Documents are those of zarr-python; forged ones, sealed anew so that every digest holds, are refused in one line."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, get_args

import numpy as np
import pytest
import zarr
import zarr.codecs
import zarr.registry
from zarr.abc.buffer import Buffer
from zarr.storage import MemoryStore

from outofcore.errors import OutOfCoreError, StoreError
from outofcore.loading.loader import loader
from outofcore.store import codecs
from outofcore.store.codecs import CODECS, ChunkCodec, CodecName, zarr_codecs
from outofcore.store.metadata import DTYPES, array_document, as_bytes, group_document, parse_array
from outofcore.store.reader import open_store
from outofcore.store.schema import Field, Layout
from outofcore.store.seal import Seal
from outofcore.store.verify import verify
from tests.store.forging import Edit, forge_column, forge_metadata, forge_seal, forge_shard, forge_text

MakeStore = Callable[..., Path]
Forge = Callable[[Path], None]

MOVE, ROOT = "train/move/zarr.json", "zarr.json"
STARTS, LENGTHS = "train/sequences/start", "train/sequences/length"


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store of six games in one chunk of sequences."""
    from tests.store.conftest import write_store

    return write_store(tmp_path_factory.mktemp("whole") / "a.zarr")


@pytest.fixture
def root(whole: Path, tmp_path: Path) -> Path:
    shutil.copytree(whole, tmp_path / "a.zarr")
    return tmp_path / "a.zarr"


def use(root: Path) -> None:
    """Do with a store what commands and loaders do."""
    store = open_store(root)
    for split in store.splits:
        store.rows(split).read()
        store.sequences(split).read()
        store.extents(split)
    store.sources.read()
    for name in ("found", "row", "params", "rejected"):
        assert store.attributes[name] is not None
    window = {"length": 4, "mode": "never"}
    for _ in loader(store, "train", 64, residency="streamed", memory="64MiB", threads=1, window=window):
        pass


def put(*keys: Any, value: Any) -> Edit:
    def edit(document: Any) -> None:
        for key in keys[:-1]:
            document = document[key]
        document[keys[-1]] = value

    return edit


def drop(*keys: Any) -> Edit:
    def edit(document: Any) -> None:
        for key in keys[:-1]:
            document = document[key]
        del document[keys[-1]]

    return edit


def sharding(*keys: Any, value: Any) -> Edit:
    return put("codecs", 0, "configuration", *keys, value=value)


GRID = ("chunk_grid", "configuration", "chunk_shape")
HUGE = 2**62

ARRAYS: dict[str, Edit] = {
    "no shape": drop("shape"),
    "shape of text": put("shape", value="300"),
    "shape of words": put("shape", value=["300"]),
    "shape of truth": put("shape", value=[True]),
    "shape of fractions": put("shape", value=[1.5]),
    "negative shape": put("shape", value=[-1]),
    "huge shape": put("shape", value=[HUGE]),
    "shape beyond 64 bits": put("shape", value=[10**30]),
    "shape NaN": put("shape", value=[float("nan")]),
    "no axis": put("shape", value=[]),
    "another axis": put("shape", value=[1019, 3]),
    "rows without values": put("shape", value=[1019, 0]),
    "a thousand axes": put("shape", value=[1] * 1000),
    "fewer rows than its neighbours": put("shape", value=[5]),
    "dtype unknown": put("data_type", value="float7"),
    "dtype object": put("data_type", value="object"),
    "dtype structured": put("data_type", value={"name": "structured"}),
    "dtype of text": put("data_type", value="string"),
    "dtype missing": drop("data_type"),
    "wider dtype": put("data_type", value="float64"),
    "fill missing": drop("fill_value"),
    "fill null": put("fill_value", value=None),
    "fill of text": put("fill_value", value="x"),
    "fill too large": put("fill_value", value=HUGE),
    "fill NaN": put("fill_value", value="NaN"),
    "fill of truth": put("fill_value", value=True),
    "fill of several": put("fill_value", value=[1, 2]),
    "no codec": put("codecs", value=[]),
    "codecs of text": put("codecs", value="zstd"),
    "unknown codec": sharding("codecs", 1, "name", value="gzip"),
    "two compressors": sharding("codecs", value=[{"name": n} for n in ("bytes", "zstd", "zstd", "crc32c")]),
    "no checksum": sharding("codecs", value=[{"name": "bytes"}]),
    "level of text": sharding("codecs", 1, "configuration", "level", value="high"),
    "big-endian": sharding("codecs", 0, "configuration", "endian", value="big"),
    "blosc with zstd": sharding("codecs", 1, value={"name": "blosc", "configuration": {"cname": "zstd", "clevel": 1}}),
    "another codec than written": sharding("codecs", value=[{"name": "bytes"}, {"name": "crc32c"}]),
    "index at the end": sharding("index_location", value="end"),
    "chunks of no rows": sharding("chunk_shape", value=[0]),
    "negative chunks": sharding("chunk_shape", value=[-64]),
    "huge chunks": sharding("chunk_shape", value=[HUGE]),
    "chunks that do not divide a shard": sharding("chunk_shape", value=[63]),
    "smaller chunks than written": sharding("chunk_shape", value=[32]),
    "shards of no rows": put(*GRID, value=[0]),
    "huge shards": put(*GRID, value=[2**40]),
    "huge shards and chunks": lambda document: (
        put(*GRID, value=[2**40])(document),
        sharding("chunk_shape", value=[2**40])(document),
    ),
    "no grid": drop("chunk_grid"),
    "another separator": put("chunk_key_encoding", "configuration", "separator", value="/"),
    "attributes of text": put("attributes", value="x"),
    "no node": put("node_type", value=None),
}

ATTRIBUTES: dict[str, Edit] = {
    **{f"no {name}": drop("attributes", name) for name in ("domain", "parts", "splits", "found", "rejected", "row")},
    "no attributes": drop("attributes"),
    "attributes null": put("attributes", value=None),
    "domain a number": put("attributes", "domain", value=5),
    "no part": put("attributes", "parts", value=[]),
    "parts of text": put("attributes", "parts", value="train"),
    "parts of numbers": put("attributes", "parts", value=[1]),
    "another part": put("attributes", "parts", value=["monday"]),
    "a part outside": put("attributes", "parts", value=["../../x"]),
    "a part twice": put("attributes", "parts", value=["", ""]),
    "another split": put("attributes", "splits", value=["train", "test"]),
    "splits null": put("attributes", "splits", value=None),
    "found of text": put("attributes", "found", value="7"),
    "found negative": put("attributes", "found", value=-7),
    "found NaN": put("attributes", "found", value=float("nan")),
    "rejected a list": put("attributes", "rejected", value=[1]),
    "rejected of text": put("attributes", "rejected", value={"no_moves": "x"}),
    "rows a number": put("attributes", "rows", value=5),
    "params a list": put("attributes", "params", value=[]),
}

TEXTS = {
    "no JSON": "{",
    "a list": "[]",
    "a number": "1",
    "nested too deeply": "[" * 100_000,
    "a number without end": '{"node_type": ' + "9" * 10_000 + "}",
    "not UTF-8": "\ud800".encode("utf-8", "surrogatepass").decode("latin-1"),
}

COLUMNS = {
    "a start that moves on": (STARTS, [0, 11, 310, 311, 374, 1014]),
    "a negative start": (STARTS, [-9, 10, 310, 311, 374, 1014]),
    "a start beyond the rows": (STARTS, [0, 10, 310, 311, 374, 2**62]),
    "a length beyond the rows": (LENGTHS, [10, 300, 1, 63, 640, 6]),
    "a negative length": (LENGTHS, [10, 300, 1, 63, 640, -5]),
    "lengths whose sum leaves 64 bits": (LENGTHS, [2**62, 2**62, 2**62, 2**62, 0, 0]),
}


def listing(name: str) -> Edit:
    return lambda files: files.update({name: (0, "0" * 64)})


SEALS: dict[str, Edit] = {
    **{
        f"lists {name!r}": listing(name)
        for name in (
            "../../x",
            "/etc/passwd",
            "train/../../x",
            "",
            "a//b",
            "./a",
            "seal.json",
            "a\0b",
            "\x1b[31m",
            "..",
        )
    },
    "lists what is not there": listing("train/x"),
    "lists a folder": listing("train"),
    "a negative size": lambda files: files.update({MOVE: (-1, files[MOVE][1])}),
    "a huge size": lambda files: files.update({MOVE: (2**70, files[MOVE][1])}),
    "no root": lambda files: files.pop(ROOT),
    "nothing": lambda files: files.clear(),
}

SEAL_TEXTS = {
    "empty": "",
    "a list": "[]",
    "files a list": '{"digest":"","files":[],"format":1}',
    "files of numbers": '{"digest":"","files":{"a":1},"format":1}',
    "a size without end": '{"digest":"","files":{"a":[1e999,""]},"format":1}',
    "nested too deeply": "[" * 100_000,
    "another format": '{"digest":"","files":{},"format":"9"}',
    "a format that is a list": '{"digest":"","files":{},"format":[' + "1," * 5000 + "1]}",
    "a lone surrogate": Seal({"\ud800": (1, "")}).text(),
}

FORGERIES: dict[str, Forge] = {
    **{f"array: {name}": partial(forge_metadata, name=MOVE, edit=edit) for name, edit in ARRAYS.items()},
    **{f"root: {name}": partial(forge_metadata, name=ROOT, edit=edit) for name, edit in ATTRIBUTES.items()},
    **{f"text: {name}": partial(forge_text, name=MOVE, text=text) for name, text in TEXTS.items()},
    **{f"column: {name}": partial(forge_column, name=at, values=values) for name, (at, values) in COLUMNS.items()},
    **{f"seal: {name}": partial(forge_seal, edit=edit) for name, edit in SEALS.items()},
    **{
        f"seal: {name}": lambda root, text=text: (root / "seal.json").write_text(text)
        for name, text in SEAL_TEXTS.items()
    },
    "column: a start of fractions": partial(
        forge_metadata, name=f"{STARTS}/zarr.json", edit=put("data_type", value="float64")
    ),
    "column: more sequences than there are": lambda root: [
        forge_metadata(root, path.relative_to(root).as_posix(), put("shape", value=[2**44]))
        for path in (root / "train/sequences").glob("*/zarr.json")
    ],
    "column: no start": lambda root: shutil.rmtree(root / STARTS),
}


def test_the_store_is_fine_before_it_is_forged(root: Path) -> None:
    use(root)
    assert not verify(root).problems


@pytest.mark.parametrize("name", FORGERIES)
def test_a_forged_store_is_one_line(root: Path, name: str) -> None:
    FORGERIES[name](root)
    with pytest.raises(OutOfCoreError) as told:
        use(root)
    message = str(told.value)
    assert message.startswith(str(root))
    assert message.isprintable()
    assert len(message) < 600
    for problem in verify(root).problems:
        assert problem.isprintable()


def test_a_forged_array_is_refused_where_it_is_read(root: Path) -> None:
    forge_metadata(root, "val/move/zarr.json", ARRAYS["index at the end"])
    store = open_store(root)
    assert len(store.rows("train")["move"].read()) == 1019
    with pytest.raises(StoreError, match=r"val/move/zarr\.json is no metadata .*index_location is 'end'"):
        store.rows("val")
    assert "val/move/zarr.json" in verify(root).problems[0]


def _text(count: int) -> bytes:
    """A chunk of texts that counts more of them than it has."""
    return ChunkCodec("zstd", 1, "string").encode(np.array(["x"] * count, object))


def _blosc(decoded: int, encoded: int) -> bytes:
    """A chunk whose Blosc header tells of other lengths than it has."""
    import google_crc32c

    body = bytearray(ChunkCodec("lz4", 1, "uint16").encode(np.arange(64, dtype=np.uint16))[:-4])
    body[4:8], body[12:16] = decoded.to_bytes(4, "little"), encoded.to_bytes(4, "little")
    return bytes(body) + google_crc32c.value(bytes(body)).to_bytes(4, "little")


@pytest.mark.parametrize("count", [1, 5, 5000])
def test_texts_of_another_number_are_refused(root: Path, count: int) -> None:
    forge_shard(root, "train/sequences/title/c.0", 256, [_text(count)])
    with pytest.raises(StoreError, match=f"chunk 0 .* is damaged: expected 4096 texts, got {count}"):
        open_store(root).sequences("train").read()


@pytest.mark.parametrize(("decoded", "encoded"), [(128, 2**31), (2**31, 148), (64, 148), (0, 0)])
def test_a_header_of_blosc_is_not_believed(make_store: MakeStore, decoded: int, encoded: int) -> None:
    root = make_store(batches=[[64]], layout=Layout(codec="lz4", chunk_rows=64, shard_rows=64))
    forge_shard(root, "train/move/c.0", 1, [_blosc(decoded, encoded)])
    for residency in ("streamed", "ram"):
        with pytest.raises(StoreError, match=r"train/move/c\.0, chunk 0 .* is damaged"):
            list(loader(root, "train", 8, tensors=("move",), residency=residency, memory="64MiB", threads=1))


@pytest.mark.parametrize("residency", ["mapped", "streamed"])
@pytest.mark.parametrize("rows", [1, 63, 65])
def test_a_chunk_of_another_length_is_refused(make_store: MakeStore, residency: str, rows: int) -> None:
    root = make_store(batches=[[64]], layout=Layout(codec="none", chunk_rows=64, shard_rows=64))
    forge_shard(root, "train/move/c.0", 1, [ChunkCodec("none", 0, "uint16").encode(np.arange(rows, dtype=np.uint16))])
    with pytest.raises(
        StoreError, match=r"index of shard train/move/c\.0 names chunks of other lengths than 132 bytes"
    ):
        list(loader(root, "train", 8, tensors=("move",), residency=residency, memory="64MiB", threads=1))


@pytest.mark.parametrize(
    "places", [(2**63, 100), (0, 2**64 - 2), (20, 2**40), (20, 0), (0, 50), (2**64 - 1, 4)], ids=str
)
def test_an_index_that_names_other_bytes_is_refused(root: Path, places: tuple[int, int]) -> None:
    import google_crc32c

    from tests.store.forging import reseal

    shard = root / "train/move/c.0"
    content = bytearray(shard.read_bytes())
    content[:16] = np.array(places, "<u8").tobytes()
    content[64:68] = google_crc32c.value(bytes(content[:64])).to_bytes(4, "little")
    shard.write_bytes(content)
    reseal(root)
    with pytest.raises(StoreError, match=r"index of shard train/move/c\.0"):
        use(root)


def test_an_absent_attribute_is_named(root: Path) -> None:
    assert json.loads((root / ROOT).read_text())["attributes"]["domain"] == "moves"
    with pytest.raises(StoreError, match=r"zarr\.json has no attribute 'vocabulary'; convert again"):
        open_store(root).attributes["vocabulary"]


def test_a_refusal_names_what_differs() -> None:
    document = json.loads(as_bytes(array_document("train", Field(name="x", dtype="int64", doc=""), Layout(), 10)))
    document["codecs"][0]["configuration"]["codecs"][0]["configuration"]["endian"] = "big"
    where = r"codecs\.0\.configuration\.codecs\.0\.configuration\.endian"
    with pytest.raises(StoreError, match=rf"\({where} is 'big', expected 'little'\)"):
        parse_array("a.zarr", "train/x", document)


def test_codecs_of_one_compressor_are_told_apart_by_its_configuration(monkeypatch: pytest.MonkeyPatch) -> None:
    def configuration(level: int, item: int) -> dict[str, Any]:
        return {**CODECS["lz4"].configuration(level, item), "shuffle": "shuffle"}

    rows = {"shuffled": CODECS["lz4"]._replace(configuration=configuration), **CODECS}
    monkeypatch.setattr(codecs, "CODECS", rows)
    for name in rows:
        layout = Layout(codec=name, level=0 if name == "none" else 3)  # type: ignore[arg-type]
        document = array_document("train", Field(name="x", dtype="int64", doc=""), layout, 10)
        assert parse_array("a.zarr", "train/x", json.loads(as_bytes(document)))[1] == layout


@pytest.mark.parametrize("codec", get_args(CodecName))
@pytest.mark.parametrize("dtype", [*sorted(DTYPES), "string"])
@pytest.mark.parametrize("shape", [(), (8, 3)])
def test_the_documents_are_those_of_zarr_python(dtype: str, codec: CodecName, shape: tuple[int, ...]) -> None:
    """Byte for byte, of an array and of a group, and read back as what was written."""
    text, layout = dtype == "string", Layout(codec=codec, level=3, chunk_rows=64, shard_rows=256)
    shape = () if text else shape
    fills = {"f": [0.0, -1.5, np.nan, np.inf, -np.inf], "b": [False, True]}
    for fill in fills.get("s" if text else np.dtype(dtype).kind, [0, 7] if not text else [""]):
        attributes = {"z": [1, {"b": 2.5, 'q"\\': [[], {}]}], "a": "\u00e9\u65e5\n", "none": None, "yes": True}
        field = Field(name="x", dtype=dtype, doc="it is", shape=shape, fill=fill, attributes=attributes)
        own = as_bytes(array_document("part/train", field, layout, 1000))
        written: dict[str, Buffer] = {}
        middle = zarr_codecs(ChunkCodec(codec, 3, dtype))[1:-1]  # the compressor, as zarr-python understands it
        compressors = [zarr.registry.get_codec_class(each["name"]).from_dict(each) for each in middle]
        zarr.create_array(
            store=MemoryStore(written),
            name="part/train/x",
            shape=(1000, *shape),
            dtype=str if text else np.dtype(dtype).newbyteorder("<"),
            chunks=(64, *shape),
            shards={"shape": (256, *shape), "index_location": "start"},  # type: ignore[arg-type]  # zarr 3.1
            compressors=[*compressors, zarr.codecs.Crc32cCodec()],
            filters=None,
            fill_value=fill,
            chunk_key_encoding={"name": "default", "separator": "."},
            dimension_names=("row", *(f"x_{axis}" for axis in range(1, len(shape) + 1))),
            attributes=dict(sorted({"doc": "it is", **attributes}.items())),
        )
        assert own == written["part/train/x/zarr.json"].to_bytes()
        parsed, parsed_layout, rows = parse_array("a.zarr", "part/train/x", json.loads(own))
        assert (rows, parsed.shape) == (1000, shape)
        assert parsed_layout == (layout if codec != "none" else replace(layout, level=0))
        np.testing.assert_equal(parsed.fill, fill)
    written = {}
    zarr.create_group(store=MemoryStore(written), attributes={"a": 1, "b": {"c": [2]}})
    assert as_bytes(group_document({"b": {"c": (2,)}, "a": 1})) == written["zarr.json"].to_bytes()


def test_writing_and_reading_a_store_needs_no_zarr_python(tmp_path: Path) -> None:
    script = (
        "import sys, numpy, outofcore\n"
        "outofcore.write_store(sys.argv[1], {'x': numpy.arange(100)}).rows('train')['x'].read()\n"
        "assert 'zarr' not in sys.modules\n"
    )
    subprocess.run([sys.executable, "-c", script, str(tmp_path / "a.zarr")], check=True)
