"""Other libraries' way to shuffled batches, in their own formats: sides of ``bench/loading.py``.

Runs in an environment of its own (``peers.txt``) and imports nothing of this project. What each library stores
and shuffles is a record of bytes, a row, and a batch of records becomes tensors in one step, so that the library's own
work is measured. Each reads as its documentation recommends, in whole batches where it can, without and with worker
processes.
"""

from __future__ import annotations

import shutil
import sys
from functools import partial
from importlib.machinery import ModuleSpec
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
from torch.utils.data import BatchSampler, DataLoader, RandomSampler

from harness.rows import SETS, Batch, RowSet, sizes
from harness.sides import Epoch

SHARD_BYTES = 1 << 30
SLICE = 1 << 20  # rows per table of Arrow, whose offsets have 32 bits


def hf_datasets(kind: RowSet, rows: np.ndarray[Any, Any], folder: Path, workers: int) -> Epoch:
    import datasets
    import pyarrow as pa

    def table(part: np.ndarray[Any, Any]) -> pa.Table:
        offsets = np.arange(len(part) + 1, dtype=np.int32) * part.itemsize
        buffers = [None, pa.py_buffer(offsets), pa.py_buffer(part.tobytes())]
        return pa.table({"row": pa.Array.from_buffers(pa.binary(), len(part), buffers)})

    def batch(part: pa.Table) -> Batch:
        records = part["row"].combine_chunks()
        return kind.read(
            np.frombuffer(records.buffers()[2], kind.row, len(records), records.offset * kind.row.itemsize)
        )

    datasets.disable_progress_bars()
    parts = [datasets.Dataset(table(rows[start : start + SLICE])) for start in range(0, len(rows), SLICE)]
    datasets.concatenate_datasets(parts).save_to_disk(str(folder))
    opened = datasets.load_from_disk(str(folder)).with_format("arrow")
    order = BatchSampler(RandomSampler(opened), kind.batch, drop_last=False)
    batches = DataLoader(opened, batch_size=None, sampler=order, collate_fn=batch, num_workers=workers)
    return lambda: sizes(batches)


def litdata_row(row: bytes) -> bytes:
    return row


def lit_data(kind: RowSet, rows: np.ndarray[Any, Any], folder: Path, workers: int) -> Epoch:
    import litdata

    litdata.optimize(litdata_row, [row.tobytes() for row in rows], str(folder), num_workers=1, chunk_bytes="64MB")
    data = litdata.StreamingDataset(str(folder), shuffle=True)
    batches = litdata.StreamingDataLoader(data, batch_size=kind.batch, collate_fn=kind.as_batch, num_workers=workers)
    return lambda: sizes(batches)


def mosaicml_streaming(kind: RowSet, rows: np.ndarray[Any, Any], folder: Path, workers: int) -> Epoch:
    # It imports torchvision, of which no build fits every torch, for data sets of pictures alone.
    pictures = {"datasets": {"VisionDataset": object}, "transforms.functional": {"to_tensor": None}}
    for name in ("", ".datasets", ".transforms", ".transforms.functional"):
        module = sys.modules[f"torchvision{name}"] = ModuleType(f"torchvision{name}")
        vars(module).update(pictures.get(name[1:], {}), __spec__=ModuleSpec(module.__name__, None))
    import streaming

    with streaming.MDSWriter(out=str(folder), columns={"row": "bytes"}) as writer:
        for row in rows:
            writer.write({"row": row.tobytes()})
    data = streaming.StreamingDataset(local=str(folder), shuffle=True, batch_size=kind.batch)

    def batch(rows: list[dict[str, bytes]]) -> Batch:
        return kind.as_batch([row["row"] for row in rows])

    batches = DataLoader(data, kind.batch, collate_fn=batch, num_workers=workers)
    return lambda: sizes(batches)


def web_dataset(kind: RowSet, rows: np.ndarray[Any, Any], folder: Path, workers: int) -> Epoch:
    import webdataset

    folder.mkdir()
    with webdataset.ShardWriter(f"{folder}/%06d.tar", maxcount=min(20_000, len(rows) // 4 + 1), verbose=0) as writer:
        for number, row in enumerate(rows):
            writer.write({"__key__": f"{number:09}", "row": row.tobytes()})
    shards = sorted(map(str, folder.glob("*.tar")))
    data = webdataset.WebDataset(shards, shardshuffle=100).shuffle(10_000).to_tuple("row")
    data = data.batched(kind.batch, collation_fn=lambda rows: kind.as_batch([row[0] for row in rows]))
    batches = webdataset.WebLoader(data, batch_size=None, num_workers=workers)
    return lambda: sizes(batches)


def grain(kind: RowSet, rows: np.ndarray[Any, Any], folder: Path, workers: int) -> Epoch:
    import grain.python as pygrain
    from array_record.python.array_record_module import ArrayRecordWriter

    folder.mkdir()
    writer = ArrayRecordWriter(str(folder / "rows"), "group_size:1,uncompressed")
    for row in rows:
        writer.write(row.tobytes())
    writer.close()
    source = pygrain.ArrayRecordDataSource([str(folder / "rows")])

    def batch(numbers: np.ndarray[Any, Any]) -> Batch:
        return kind.as_batch(source.__getitems__(numbers))

    # A dataset of the source would read row by row; of numbers, the source reads those of a batch in one call.
    whole = pygrain.MapDataset.range(len(source)).seed(0).shuffle().batch(kind.batch).map(batch)
    batches = whole.to_iter_dataset(pygrain.ReadOptions(num_threads=2, prefetch_buffer_size=4))
    if workers:
        batches = batches.mp_prefetch(pygrain.MultiprocessingOptions(num_workers=workers))
    return lambda: sizes(batches)


def annbatch(kind: RowSet, rows: np.ndarray[Any, Any], folder: Path, _: int) -> Epoch:
    """A matrix of bytes, shuffled when it is written as the documentation advises for reading in large blocks."""
    import zarr
    from annbatch import Loader

    zarr.config.set({"codec_pipeline.path": "zarrs.ZarrsCodecPipeline"})
    matrix = np.random.default_rng(0).permutation(rows).view(np.uint8).reshape(len(rows), -1)
    block = max(512, 4 * kind.batch)
    shard = -(-min(len(rows), SHARD_BYTES // matrix.shape[1]) // block) * block
    form = {"chunks": (block, matrix.shape[1]), "shards": (shard, matrix.shape[1]), "compressors": None}
    zarr.create_array(folder, data=matrix, **form)
    data = Loader(batch_size=kind.batch, chunk_size=block, shuffle=True).add_dataset(zarr.open_array(folder, mode="r"))
    return lambda: sizes(kind.read(batch["X"].reshape(-1).view(kind.row)) for batch in data)


def lance_batch(kind: RowSet, table: Any) -> Batch:
    records = table["row"]
    return kind.read(np.frombuffer(records.buffers()[1], kind.row, len(records), records.offset * kind.row.itemsize))


def lance_db(kind: RowSet, rows: np.ndarray[Any, Any], folder: Path, workers: int) -> Epoch:
    import lancedb
    import pyarrow as pa
    from lancedb.permutation import Permutation

    table = lancedb.connect(str(folder)).create_table("rows", schema=pa.schema({"row": pa.binary(rows.itemsize)}))
    for start in range(0, len(rows), SLICE):
        part = rows[start : start + SLICE]
        column = pa.Array.from_buffers(pa.binary(rows.itemsize), len(part), [None, pa.py_buffer(part.tobytes())])
        table.add(pa.table({"row": column}))

    opened = Permutation.identity(table).with_format("arrow")
    start = "forkserver" if workers else None  # as it advises
    batches = DataLoader(
        opened,
        kind.batch,
        shuffle=True,
        collate_fn=partial(lance_batch, kind),
        num_workers=workers,
        multiprocessing_context=start,
    )
    return lambda: sizes(batches)


def sc_dataset(kind: RowSet, rows: np.ndarray[Any, Any], folder: Path, workers: int) -> Epoch:
    """A memory-mapped file in blocks of 64 rows, those of 64 batches shuffled together, as its documentation does."""
    from scdataset import BlockShuffling, scDataset

    folder.mkdir()
    np.save(folder / "rows.npy", rows)
    data = scDataset(
        np.load(folder / "rows.npy", mmap_mode="r"),
        BlockShuffling(block_size=64),
        batch_size=kind.batch,
        fetch_factor=64,
        batch_transform=kind.read,
    )
    return lambda: sizes(DataLoader(data, batch_size=None, num_workers=workers))


PEERS = {
    "annbatch": annbatch,
    "datasets": hf_datasets,
    "litdata": lit_data,
    "mosaicml-streaming": mosaicml_streaming,
    "webdataset": web_dataset,
    "grain": grain,
    "lancedb": lance_db,
    "scDataset": sc_dataset,
}
THREADED = frozenset({"annbatch"})  # reads in threads of its own, and advises against worker processes


def peer(name: str, kind: str, arrays: str, work: str, rows: int, workers: int) -> Epoch:
    """A library on the first rows of the arrays, which it first writes in its own format."""
    shutil.rmtree(work, ignore_errors=True)
    records = np.empty(rows, SETS[kind].row)
    for field in SETS[kind].row.names or ():
        records[field] = np.load(f"{arrays}/{field}.npy", mmap_mode="r")[:rows]
    return PEERS[name](SETS[kind], records, Path(work), workers)
