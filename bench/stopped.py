"""Loaders that are stopped and resumed, each as its documentation says: sides of ``certificate.py``.

    python bench/stopped.py write LIBRARY FOLDER
    python bench/stopped.py read LIBRARY FOLDER JOB.json

The other libraries are those of ``bench/peers.txt``; this file imports ours only where it is asked for. A data set is
1,000 records in 8 files, shuffled; a record is its own number, 64 times, so that a changed byte shows. ``read`` does
what a job says, in a process of its own: it may load a state, delivers batches, and keeps the state after each.
"""

from __future__ import annotations

import itertools
import json
import os
import pickle
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

RECORDS, FILES, COPIES = 1_000, 8, 64
SEED = 7


class Opened(NamedTuple):
    """A loader: its epochs, its state, how it takes one up again."""

    epoch: Callable[[int], Iterator[Any]]  # batches of records
    state: Callable[[], Any]
    load: Callable[[Any], None]


def counting(batches: Any) -> Opened:
    """A loader of torch's kind, which counts its epochs itself."""
    return Opened(lambda _: iter(batches), batches.state_dict, batches.load_state_dict)


def parts() -> list[np.ndarray[Any, Any]]:
    """The records of each file."""
    numbers = np.repeat(np.arange(RECORDS, dtype=np.int64)[:, None], COPIES, axis=1)
    return np.array_split(numbers, FILES)


def write_outofcore(folder: Path) -> None:
    import outofcore

    outofcore.write_store(folder / "a.zarr", {"row": np.concatenate(parts())}, splits={"val": 0, "test": 0})


def open_outofcore(folder: Path, batch: int, rank: int, world: int, workers: int) -> Opened:
    import outofcore

    loader = outofcore.loader(
        folder / "a.zarr", batch_size=batch, seed=SEED, rank=rank, world_size=world, threads=workers + 1
    )

    def epoch(number: int) -> Iterator[Any]:
        if loader.epoch < number:
            loader.set_epoch(number)
        return (found["row"].numpy() for found in loader)

    return Opened(epoch, loader.state_dict, loader.load_state_dict)


def write_datasets(folder: Path) -> None:
    import pyarrow as pa
    import pyarrow.parquet

    for number, part in enumerate(parts()):
        pyarrow.parquet.write_table(pa.table({"row": list(part)}), folder / f"{number}.parquet")


def open_datasets(folder: Path, batch: int, rank: int, world: int, workers: int) -> Opened:
    """Streaming with a shuffle buffer, and torchdata's loader for the state."""
    import datasets
    import datasets.distributed
    from torchdata.stateful_dataloader import StatefulDataLoader

    files = sorted(map(str, folder.glob("*.parquet")))
    data = datasets.load_dataset("parquet", data_files=files, split="train", streaming=True)
    data = data.shuffle(seed=SEED, buffer_size=200).with_format("numpy")
    if world > 1:
        data = datasets.distributed.split_dataset_by_node(data, rank, world)
    batches = StatefulDataLoader(data, batch // world, num_workers=workers, collate_fn=rows_of)

    def epoch(number: int) -> Iterator[Any]:
        data.set_epoch(number)
        return iter(batches)

    return Opened(epoch, batches.state_dict, batches.load_state_dict)


def rows_of(records: list[Any]) -> Any:
    import torch

    rows = [each["row"] for each in records]
    return torch.from_numpy(np.stack([np.frombuffer(row, np.int64) if isinstance(row, bytes) else row for row in rows]))


def as_record(part: np.ndarray[Any, Any]) -> dict[str, bytes]:
    return {"row": part.tobytes()}


def write_litdata(folder: Path) -> None:
    import litdata

    rows = list(np.concatenate(parts()))
    litdata.optimize(as_record, rows, str(folder / "data"), num_workers=1, chunk_size=RECORDS // FILES)


def open_litdata(folder: Path, batch: int, rank: int, world: int, workers: int) -> Opened:
    import litdata

    del rank  # which it takes from torch.distributed
    data = litdata.StreamingDataset(str(folder / "data"), shuffle=True, seed=SEED, drop_last=False)
    batches = litdata.StreamingDataLoader(data, batch_size=batch // world, num_workers=workers, collate_fn=rows_of)
    return counting(batches)


def write_mosaicml_streaming(folder: Path) -> None:
    import streaming

    size = RECORDS // FILES * (COPIES * 8 + 8)
    with streaming.MDSWriter(out=str(folder / "data"), columns={"row": "bytes"}, size_limit=size) as writer:
        for row in np.concatenate(parts()):
            writer.write({"row": row.tobytes()})


def open_mosaicml_streaming(folder: Path, batch: int, rank: int, world: int, workers: int) -> Opened:
    import streaming

    del rank  # which it takes from torch.distributed
    data = streaming.StreamingDataset(
        local=str(folder / "data"), shuffle=True, shuffle_seed=SEED, batch_size=batch // world
    )
    batches = streaming.StreamingDataLoader(data, batch_size=batch // world, num_workers=workers, collate_fn=rows_of)
    return counting(batches)


def write_grain(folder: Path) -> None:
    from array_record.python.array_record_module import ArrayRecordWriter

    for number, part in enumerate(parts()):
        writer = ArrayRecordWriter(str(folder / f"{number}.array_record"), "group_size:1")
        for row in part:
            writer.write(row.tobytes())
        writer.close()


def open_grain(folder: Path, batch: int, rank: int, world: int, workers: int) -> Opened:
    import grain.python as pygrain

    source = pygrain.ArrayRecordDataSource(sorted(map(str, folder.glob("*.array_record"))))
    data = pygrain.MapDataset.source(source).seed(SEED).shuffle()[rank::world].map(record_of)
    stream = data.batch(batch // world).repeat(2).to_iter_dataset()
    if workers:
        stream = stream.mp_prefetch(pygrain.MultiprocessingOptions(num_workers=workers))
    iterator = iter(stream)
    each = -(-len(data) // (batch // world))
    position = [0]

    def epoch(number: int) -> Iterator[Any]:
        for found in itertools.islice(iterator, each * (number + 1) - position[0]):
            position[0] += 1
            yield found

    def load(state: Any) -> None:
        iterator.set_state(state[0])
        position[0] = state[1]

    return Opened(epoch, lambda: (iterator.get_state(), position[0]), load)


def record_of(record: bytes) -> np.ndarray[Any, Any]:
    return np.frombuffer(record, np.int64)


def write_webdataset(folder: Path) -> None:
    import webdataset

    for number, part in enumerate(parts()):
        with webdataset.TarWriter(str(folder / f"{number}.tar")) as writer:
            for row in part:
                writer.write({"__key__": f"{row[0]:09}", "row": row.tobytes()})


def open_webdataset(folder: Path, batch: int, rank: int, world: int, workers: int) -> Opened:
    """It has no state; torchdata's loader skips as many batches as were delivered."""
    import webdataset
    from torchdata.stateful_dataloader import StatefulDataLoader

    del rank  # which it takes from the environment
    shards = sorted(map(str, folder.glob("*.tar")))
    data = webdataset.WebDataset(
        shards, shardshuffle=FILES, detshuffle=True, seed=SEED, nodesplitter=webdataset.split_by_node
    )
    data = data.shuffle(200, seed=SEED).to_tuple("row").batched(batch // world, collation_fn=tuples_of)
    batches = StatefulDataLoader(data, batch_size=None, num_workers=workers)
    return counting(batches)


def tuples_of(records: list[Any]) -> np.ndarray[Any, Any]:
    return np.stack([np.frombuffer(each[0], np.int64) for each in records])


def write_lancedb(folder: Path) -> None:
    import lancedb
    import pyarrow as pa

    table = lancedb.connect(folder).create_table("rows", pa.table({"row": list(parts()[0])}))
    for part in parts()[1:]:
        table.add(pa.table({"row": list(part)}))


def open_lancedb(folder: Path, batch: int, rank: int, world: int, workers: int) -> Opened:
    """As many splits as files, so that two ranks or workers share them."""
    import lancedb
    from lancedb.streaming import StreamingDataLoader, StreamingDataset

    opened: list[Any] = []

    def begin(number: int) -> Any:
        opened[:] = [
            StreamingDataset(
                lancedb.connect(folder).open_table("rows"),
                num_splits=FILES,
                shuffle_seed=SEED,
                epoch=number,
                rank=rank,
                world_size=world,
            )
        ]
        return opened[0]

    states: list[Any] = []

    def epoch(number: int) -> Iterator[Any]:
        data = begin(number)
        if states:
            data.load_state_dict(states.pop())
        start = "forkserver" if workers else None  # as it advises
        size = batch // world
        return iter(
            StreamingDataLoader(data, size, num_workers=workers, collate_fn=rows_of, multiprocessing_context=start)
        )

    return Opened(epoch, lambda: opened[0].state_dict(), states.append)


LIBRARIES = ("outofcore", "datasets", "grain", "lancedb", "litdata", "mosaicml-streaming", "webdataset")


def read(library: str, folder: Path, job: dict[str, Any]) -> None:
    """Deliver what a job asks for; what was delivered is noted batch by batch, as the process may be killed."""
    open_library = globals()[f"open_{library.replace('-', '_')}"]
    rank, world = int(os.environ.get("RANK", "0")), int(os.environ.get("WORLD_SIZE", "1"))
    if world > 1:
        import torch.distributed

        torch.distributed.init_process_group("gloo")
    loader: Opened = open_library(folder, job["batch"], rank, world, job["workers"])
    out = Path(job["out"])
    if job["state"]:
        loader.load(pickle.loads(Path(job["state"]).read_bytes()))
    taken = 0
    with (out / f"batches-{rank}.jsonl").open("w") as file:
        for number in job["epochs"]:
            for rows in loader.epoch(number):
                numbers = np.asarray(rows)
                whole = bool((numbers == numbers[:, :1]).all() and ((numbers >= 0) & (numbers < RECORDS)).all())
                taken += 1
                if job["keep"]:
                    (out / f"state-{taken}").write_bytes(pickle.dumps(loader.state()))
                print(json.dumps([number, numbers[:, 0].tolist(), whole]), file=file, flush=True)
                if taken == job["most"]:
                    os._exit(0)


def main() -> None:
    action, library, folder, *rest = sys.argv[1:]
    if action == "write":
        Path(folder).mkdir(parents=True)
        globals()[f"write_{library.replace('-', '_')}"](Path(folder))
    else:
        read(library, Path(folder), json.loads(Path(rest[0]).read_text()))


if __name__ == "__main__":
    main()
