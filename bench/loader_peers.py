"""Other libraries' way to shuffled batches of the same rows, in their own formats; started by ``bench/loader.py``.

Runs in an environment of its own (``bench/peers.txt``) and imports nothing of this project. A sample is a row of 105
bytes: what each library stores and shuffles is a record of bytes, and a batch becomes planes, moves and results in one
step, so that their own work is what is measured. Each is used as its documentation has it.
"""

from __future__ import annotations

import shutil
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch.utils.data import DataLoader

from serving import serve

BATCH = 1024
ROW = np.dtype([("boards", "<u8", (12,)), ("move", "<u2"), ("result", "i1")])
Epoch = Callable[[], Iterator[int]]


def records(arrays: Path, rows: int) -> np.ndarray[Any, Any]:
    made = np.empty(rows, ROW)
    for name in ROW.names or ():
        made[name] = np.load(arrays / f"{name}.npy", mmap_mode="r")[:rows]
    return made


def as_batch(rows: list[bytes]) -> dict[str, torch.Tensor]:
    made = np.frombuffer(b"".join(rows), ROW)
    boards = np.ascontiguousarray(made["boards"]).view(np.uint8).reshape(len(made), 12, 8)
    return {
        "planes": torch.from_numpy(np.unpackbits(boards, axis=2, bitorder="little").reshape(-1, 12, 8, 8)),
        "move": torch.from_numpy(made["move"].astype(np.int64)),
        "result": torch.from_numpy(made["result"].copy()),
    }


def hf_datasets(rows: np.ndarray[Any, Any], folder: Path) -> Epoch:
    import datasets

    datasets.disable_progress_bars()
    whole = datasets.Dataset.from_dict({"row": [row.tobytes() for row in rows]})
    whole.save_to_disk(str(folder))
    opened = datasets.load_from_disk(str(folder))
    batches = DataLoader(
        opened, BATCH, shuffle=True, collate_fn=lambda found: as_batch([each["row"] for each in found])
    )
    return lambda: (len(batch["move"]) for batch in batches)


def litdata_row(row: bytes) -> bytes:
    return row


def lit_data(rows: np.ndarray[Any, Any], folder: Path) -> Epoch:
    import litdata

    litdata.optimize(litdata_row, [row.tobytes() for row in rows], str(folder), num_workers=1, chunk_bytes="64MB")
    data = litdata.StreamingDataset(str(folder), shuffle=True)
    batches = litdata.StreamingDataLoader(data, batch_size=BATCH, collate_fn=as_batch)
    return lambda: (len(batch["move"]) for batch in batches)


def mosaicml_streaming(rows: np.ndarray[Any, Any], folder: Path) -> Epoch:
    import streaming

    with streaming.MDSWriter(out=str(folder), columns={"row": "bytes"}) as writer:
        for row in rows:
            writer.write({"row": row.tobytes()})
    data = streaming.StreamingDataset(local=str(folder), shuffle=True, batch_size=BATCH)
    batches = DataLoader(data, BATCH, collate_fn=lambda found: as_batch([each["row"] for each in found]))
    return lambda: (len(batch["move"]) for batch in batches)


def web_dataset(rows: np.ndarray[Any, Any], folder: Path) -> Epoch:
    import webdataset

    folder.mkdir()
    with webdataset.ShardWriter(f"{folder}/%04d.tar", maxcount=20_000, verbose=0) as writer:
        for number, row in enumerate(rows):
            writer.write({"__key__": f"{number:09}", "row": row.tobytes()})
    shards = sorted(map(str, folder.glob("*.tar")))
    data = webdataset.WebDataset(shards, shardshuffle=100).shuffle(10_000).to_tuple("row")
    batches = DataLoader(data, BATCH, collate_fn=lambda found: as_batch([each[0] for each in found]))
    return lambda: (len(batch["move"]) for batch in batches)


def grain(rows: np.ndarray[Any, Any], folder: Path) -> Epoch:
    import grain.python as pygrain
    from array_record.python.array_record_module import ArrayRecordWriter

    folder.mkdir()
    writer = ArrayRecordWriter(str(folder / "rows"), "group_size:1")
    for row in rows:
        writer.write(row.tobytes())
    writer.close()
    source = pygrain.ArrayRecordDataSource([str(folder / "rows")])
    whole = pygrain.MapDataset.source(source).seed(0).shuffle()
    return lambda: (len(batch["move"]) for batch in whole.to_iter_dataset().batch(BATCH, batch_fn=as_batch))


PEERS = {
    "datasets": hf_datasets,
    "litdata": lit_data,
    "mosaicml-streaming": mosaicml_streaming,
    "webdataset": web_dataset,
    "grain": grain,
}

if __name__ == "__main__":
    name, arrays, work, count = sys.argv[1], Path(sys.argv[2]), Path(sys.argv[3]), int(sys.argv[4])
    shutil.rmtree(work, ignore_errors=True)
    serve(lambda: PEERS[name](records(arrays, count), work))
