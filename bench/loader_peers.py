"""Other libraries' way to shuffled batches of the same rows, in their own formats; benches of the loader start it.

Runs in an environment of its own (``bench/peers.txt``) and imports nothing of this project. What each library stores
and shuffles is a record of bytes, a row, and a batch of them becomes tensors in one step, so that their own work is
what is measured. Each is used as its documentation has it.
"""

from __future__ import annotations

import shutil
import sys
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
from torch.utils.data import DataLoader

from loader_sets import SETS, Batch, RowSet
from serving import serve

Epoch = Callable[[], Iterator[int]]


def records(kind: RowSet, arrays: Path, count: int) -> np.ndarray[Any, Any]:
    made = np.empty(count, kind.row)
    for name in kind.row.names or ():
        made[name] = np.load(arrays / f"{name}.npy", mmap_mode="r")[:count]
    return made


def sizes(batches: Iterable[Batch]) -> Iterator[int]:
    """How many rows each batch has."""
    return (len(next(iter(batch.values()))) for batch in batches)


def hf_datasets(kind: RowSet, rows: np.ndarray[Any, Any], folder: Path) -> Epoch:
    import datasets

    datasets.disable_progress_bars()
    whole = datasets.Dataset.from_dict({"row": [row.tobytes() for row in rows]})
    whole.save_to_disk(str(folder))
    opened = datasets.load_from_disk(str(folder))
    batches = DataLoader(
        opened, kind.batch, shuffle=True, collate_fn=lambda found: kind.as_batch([each["row"] for each in found])
    )
    return lambda: sizes(batches)


def litdata_row(row: bytes) -> bytes:
    return row


def lit_data(kind: RowSet, rows: np.ndarray[Any, Any], folder: Path) -> Epoch:
    import litdata

    litdata.optimize(litdata_row, [row.tobytes() for row in rows], str(folder), num_workers=1, chunk_bytes="64MB")
    data = litdata.StreamingDataset(str(folder), shuffle=True)
    batches = litdata.StreamingDataLoader(data, batch_size=kind.batch, collate_fn=kind.as_batch)
    return lambda: sizes(batches)


def mosaicml_streaming(kind: RowSet, rows: np.ndarray[Any, Any], folder: Path) -> Epoch:
    import streaming

    with streaming.MDSWriter(out=str(folder), columns={"row": "bytes"}) as writer:
        for row in rows:
            writer.write({"row": row.tobytes()})
    data = streaming.StreamingDataset(local=str(folder), shuffle=True, batch_size=kind.batch)
    batches = DataLoader(data, kind.batch, collate_fn=lambda found: kind.as_batch([each["row"] for each in found]))
    return lambda: sizes(batches)


def web_dataset(kind: RowSet, rows: np.ndarray[Any, Any], folder: Path) -> Epoch:
    import webdataset

    folder.mkdir()
    with webdataset.ShardWriter(f"{folder}/%04d.tar", maxcount=20_000, verbose=0) as writer:
        for number, row in enumerate(rows):
            writer.write({"__key__": f"{number:09}", "row": row.tobytes()})
    shards = sorted(map(str, folder.glob("*.tar")))
    data = webdataset.WebDataset(shards, shardshuffle=100).shuffle(10_000).to_tuple("row")
    batches = DataLoader(data, kind.batch, collate_fn=lambda found: kind.as_batch([each[0] for each in found]))
    return lambda: sizes(batches)


def grain(kind: RowSet, rows: np.ndarray[Any, Any], folder: Path) -> Epoch:
    import grain.python as pygrain
    from array_record.python.array_record_module import ArrayRecordWriter

    folder.mkdir()
    writer = ArrayRecordWriter(str(folder / "rows"), "group_size:1")
    for row in rows:
        writer.write(row.tobytes())
    writer.close()
    source = pygrain.ArrayRecordDataSource([str(folder / "rows")])
    whole = pygrain.MapDataset.source(source).seed(0).shuffle()
    return lambda: sizes(whole.to_iter_dataset().batch(kind.batch, batch_fn=kind.as_batch))


PEERS = {
    "datasets": hf_datasets,
    "litdata": lit_data,
    "mosaicml-streaming": mosaicml_streaming,
    "webdataset": web_dataset,
    "grain": grain,
}

if __name__ == "__main__":
    name, kind, arrays, work, count = sys.argv[1], SETS[sys.argv[2]], *map(Path, sys.argv[3:5]), int(sys.argv[5])
    shutil.rmtree(work, ignore_errors=True)
    serve(lambda: PEERS[name](kind, records(kind, arrays, count), work))
