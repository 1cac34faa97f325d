"""Loaders that are stopped and resumed, each as its documentation says: sides of ``certificate.py``.

    python bench/rivals/stopped.py write LIBRARY FOLDER FIRST COUNT FILES
    python bench/rivals/stopped.py read LIBRARY JOB.json

The other libraries are those of ``peers.txt``; this file imports ours only where it is asked for. A data set is
numbered records in files, shuffled; a record is its own number, 64 times, so that a changed byte shows. ``read`` does
what a job says, in a process of its own: it may load a state, delivers batches of one data set, or of two in fixed
shares, and keeps the state after each.
"""

from __future__ import annotations

import itertools
import json
import multiprocessing
import os
import pickle
import random
import signal
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

COPIES = 64
MIXED = 10_000  # records that a mixture delivers
SEED = 7
NOT_OFFERED = "not offered"

Paths, Shares, Parts = list[Path], list[float], list[np.ndarray[Any, Any]]


class Opened(NamedTuple):
    """A loader: its epochs and, where it has them, its state and how it takes one up again."""

    epoch: Callable[[int], Iterator[Any]]  # batches of records
    state: Callable[[], Any] | None = None
    load: Callable[[Any], None] | None = None


def counting(batches: Any) -> Opened:
    """A loader of torch's kind, which counts its epochs itself."""
    return Opened(lambda _: iter(batches), batches.state_dict, batches.load_state_dict)


def only(sources: list[Any]) -> Any:
    """The one source, as the library mixes none."""
    return sources[0] if len(sources) == 1 else sys.exit(NOT_OFFERED)


def write_outofcore(folder: Path, parts: Parts) -> None:
    import outofcore

    outofcore.write_store(folder / "a.zarr", {"row": np.concatenate(parts)}, splits={"val": 0, "test": 0})


def open_outofcore(folders: Paths, shares: Shares, batch: int, rank: int, world: int, workers: int) -> Opened:
    import outofcore

    stores = {f"source {number}": folder / "a.zarr" for number, folder in enumerate(folders)}
    loader = outofcore.loader(
        stores if shares else stores["source 0"],
        batch_size=batch,
        seed=SEED,
        shuffle=outofcore.Mixture(dict(zip(stores, shares, strict=True))) if shares else True,
        rank=rank,
        world_size=world,
        threads=workers + 1,
    )

    def epoch(number: int) -> Iterator[Any]:
        if loader.epoch < number:
            loader.set_epoch(number)
        return (batch["row"].numpy() for batch in loader)

    return Opened(epoch, loader.state_dict, loader.load_state_dict)


def write_annbatch(folder: Path, parts: Parts) -> None:
    """A matrix with a shard per file, compressed as its own writer does."""
    import zarr

    (rows, width), lz4 = parts[0].shape, zarr.codecs.BloscCodec(cname="lz4", clevel=3, shuffle="shuffle")
    form = {"chunks": (rows // 5, width), "shards": (rows, width), "compressors": lz4}
    zarr.create_array(folder / "X", data=np.concatenate(parts), **form)


def open_annbatch(folders: Paths, shares: Shares, batch: int, rank: int, world: int, workers: int) -> Opened:
    """Rows one by one, for a perfect shuffle; shares are the weights of classes. It reads in threads."""
    import pandas as pd
    import zarr
    from annbatch import Loader
    from annbatch.samplers import DistributedSampler, RandomSampler, WeightedClassSampler

    zarr.config.set({"codec_pipeline.path": "zarrs.ZarrsCodecPipeline", "threading.max_workers": workers or 1})
    arrays = [zarr.open_array(folder / "X", mode="r") for folder in folders]
    size, rng = batch // world, np.random.default_rng(SEED)
    sampler: Any = RandomSampler(1, 4 * size, size, rng=rng)
    if shares:
        classes = pd.Categorical(np.repeat(range(len(arrays)), [array.shape[0] for array in arrays]))
        weights = np.array(shares)
        sampler = WeightedClassSampler(
            1, 4 * size, size, classes=classes, class_weights=weights, num_samples=MIXED, rng=rng
        )
    if world > 1:
        sampler = DistributedSampler(sampler, dist_info=lambda: (rank, world), enforce_equal_batches=False)
    loader = Loader(batch_sampler=sampler).add_datasets(arrays)
    return Opened(lambda _: (batch["X"] for batch in loader))


def write_datasets(folder: Path, parts: Parts) -> None:
    import pyarrow as pa
    import pyarrow.parquet

    for number, part in enumerate(parts):
        pyarrow.parquet.write_table(pa.table({"row": list(part)}), folder / f"{number:02}.parquet")


def open_datasets(folders: Paths, shares: Shares, batch: int, rank: int, world: int, workers: int) -> Opened:
    """Streaming with a shuffle buffer, and torchdata's loader for the state."""
    import datasets
    import datasets.distributed
    from torchdata.stateful_dataloader import StatefulDataLoader

    files = [sorted(map(str, folder.glob("*.parquet"))) for folder in folders]
    sources = [datasets.load_dataset("parquet", data_files=source, split="train", streaming=True) for source in files]
    form = {"buffer_size": 200, "max_buffer_input_shards": 1}  # so that the files are left to ranks and workers
    sources = [source.shuffle(seed=SEED, **form).with_format("numpy") for source in sources]
    data = datasets.interleave_datasets(sources, probabilities=shares, seed=SEED) if shares else sources[0]
    if world > 1:
        data = datasets.distributed.split_dataset_by_node(data, rank, world)
    batches = StatefulDataLoader(data, batch // world, num_workers=workers, collate_fn=rows_of)

    def epoch(number: int) -> Iterator[Any]:
        data.set_epoch(number)
        return iter(batches)

    return Opened(epoch, batches.state_dict, batches.load_state_dict)


def rows_of(records: list[Any]) -> Any:
    import torch

    rows = [record["row"] for record in records]
    return torch.from_numpy(np.stack([np.frombuffer(row, np.int64) if isinstance(row, bytes) else row for row in rows]))


def write_grain(folder: Path, parts: Parts) -> None:
    from array_record.python.array_record_module import ArrayRecordWriter

    for number, part in enumerate(parts):
        writer = ArrayRecordWriter(str(folder / f"{number:02}.array_record"), "group_size:1")
        for row in part:
            writer.write(row.tobytes())
        writer.close()


def open_grain(folders: Paths, shares: Shares, batch: int, rank: int, world: int, workers: int) -> Opened:
    import grain.python as pygrain

    files = [sorted(map(str, folder.glob("*.array_record"))) for folder in folders]
    sources = [pygrain.MapDataset.source(pygrain.ArrayRecordDataSource(paths)).seed(SEED).shuffle() for paths in files]
    data = pygrain.MapDataset.mix(sources, weights=shares) if shares else sources[0]
    data = data[rank::world].map(record_of)
    stream = data.batch(batch // world).repeat(2).to_iter_dataset()
    if workers:
        stream = stream.mp_prefetch(pygrain.MultiprocessingOptions(num_workers=workers))
    iterator = iter(stream)
    batches = -(-len(data) // (batch // world))
    position = [0]

    def epoch(number: int) -> Iterator[Any]:
        for rows in itertools.islice(iterator, batches * (number + 1) - position[0]):
            position[0] += 1
            yield rows

    def load(state: Any) -> None:
        iterator.set_state(state[0])
        position[0] = state[1]

    return Opened(epoch, lambda: (iterator.get_state(), position[0]), load)


def record_of(record: bytes) -> np.ndarray[Any, Any]:
    return np.frombuffer(record, np.int64)


def write_insitubatch(folder: Path, parts: Parts) -> None:
    """An array with a chunk per file: it reads whole stored chunks, which shards would be."""
    import zarr

    rows = np.concatenate(parts)
    names = ("row", "copy")
    zarr.create_group(folder / "a.zarr").create_array("X", data=rows, chunks=parts[0].shape, dimension_names=names)


def open_insitubatch(folders: Paths, _: Shares, batch: int, rank: int, world: int, workers: int) -> Opened:
    """It reads in threads, and has no ranks."""
    from insitubatch import InSituDataset, obstore_store, open_geometries, split_by_chunk

    del rank
    place = obstore_store(f"file://{only(folders) / 'a.zarr'}") if world == 1 else sys.exit(NOT_OFFERED)
    geometries = open_geometries(place, variables=["X"])
    manifest = split_by_chunk(geometries["X"], fractions=(1, 0, 0))
    data = InSituDataset(place, manifest, geometries=geometries, batch_size=batch, seed=SEED, max_inflight=workers or 1)

    def epoch(number: int) -> Iterator[Any]:
        data.set_epoch(number)
        return (batch.arrays["X"] for batch in data.train)

    return Opened(epoch)


def write_lancedb(folder: Path, parts: Parts) -> None:
    import lancedb
    import pyarrow as pa

    table = lancedb.connect(folder).create_table("rows", pa.table({"row": list(parts[0])}))
    for part in parts[1:]:
        table.add(pa.table({"row": list(part)}))


def open_lancedb(folders: Paths, _: Shares, batch: int, rank: int, world: int, workers: int) -> Opened:
    """Eight splits, or as many as workers, so that ranks or workers share them."""
    import lancedb
    from lancedb.streaming import StreamingDataLoader, StreamingDataset

    multiprocessing.set_forkserver_preload(["lancedb.streaming"])  # as a program that imports it at its top
    table = lancedb.connect(only(folders)).open_table("rows")
    opened: list[Any] = []
    states: list[Any] = []

    def epoch(number: int) -> Iterator[Any]:
        form = {"num_splits": max(8, workers), "shuffle_seed": SEED, "rank": rank, "world_size": world}
        opened[:] = [StreamingDataset(table, epoch=number, **form)]
        if states:
            opened[0].load_state_dict(states.pop())
        start = "forkserver" if workers else None  # as it advises
        how = {"num_workers": workers, "collate_fn": rows_of, "multiprocessing_context": start}
        return iter(StreamingDataLoader(opened[0], batch // world, **how))

    return Opened(epoch, lambda: opened[0].state_dict(), states.append)


def as_record(part: np.ndarray[Any, Any]) -> dict[str, bytes]:
    return {"row": part.tobytes()}


def write_litdata(folder: Path, parts: Parts) -> None:
    import litdata

    rows = list(np.concatenate(parts))
    litdata.optimize(as_record, rows, str(folder / "data"), num_workers=1, chunk_size=len(parts[0]))


def open_litdata(folders: Paths, shares: Shares, batch: int, rank: int, world: int, workers: int) -> Opened:
    import litdata

    del rank  # which it takes from torch.distributed
    form = {"shuffle": True, "seed": SEED, "drop_last": False}
    sources = [litdata.StreamingDataset(str(folder / "data"), **form) for folder in folders]
    mixed = {"weights": shares, "seed": SEED, "iterate_over_all": False}
    data = litdata.CombinedStreamingDataset(sources, **mixed) if shares else sources[0]
    return counting(
        litdata.StreamingDataLoader(data, batch_size=batch // world, num_workers=workers, collate_fn=rows_of)
    )


def write_mosaicml_streaming(folder: Path, parts: Parts) -> None:
    import streaming

    size = len(parts[0]) * (COPIES * 8 + 8)
    with streaming.MDSWriter(out=str(folder / "data"), columns={"row": "bytes"}, size_limit=size) as writer:
        for row in np.concatenate(parts):
            writer.write({"row": row.tobytes()})


def open_mosaicml_streaming(folders: Paths, shares: Shares, batch: int, rank: int, world: int, workers: int) -> Opened:
    import streaming

    del rank  # which it takes from torch.distributed
    size = batch // world
    streams = [
        streaming.Stream(local=str(folder / "data"), proportion=share)
        for folder, share in zip(folders, shares or [None], strict=True)
    ]
    form = {"shuffle": True, "shuffle_seed": SEED, "epoch_size": MIXED if shares else None}
    data = streaming.StreamingDataset(streams=streams, batch_size=size, **form)
    return counting(streaming.StreamingDataLoader(data, batch_size=size, num_workers=workers, collate_fn=rows_of))


def write_webdataset(folder: Path, parts: Parts) -> None:
    import webdataset

    for number, part in enumerate(parts):
        with webdataset.TarWriter(str(folder / f"{number:02}.tar")) as writer:
            for row in part:
                writer.write({"__key__": f"{row[0]:09}", "row": row.tobytes()})


def open_webdataset(folders: Paths, shares: Shares, batch: int, rank: int, world: int, workers: int) -> Opened:
    """It has no state; torchdata's loader skips as many batches as were delivered."""
    import webdataset
    from torchdata.stateful_dataloader import StatefulDataLoader

    del rank  # which it takes from the environment
    sources = []
    for folder in folders:
        shards = sorted(map(str, folder.glob("*.tar")))
        form = {"shardshuffle": len(shards), "detshuffle": True, "seed": SEED, "nodesplitter": webdataset.split_by_node}
        sources.append(webdataset.WebDataset(shards, **form).shuffle(200, seed=SEED))
    random.seed(SEED)  # the only seed of a mixture
    data = webdataset.FluidWrapper(webdataset.RandomMix(sources, shares)) if shares else sources[0]
    data = data.to_tuple("row").batched(batch // world, collation_fn=tuples_of)
    return counting(StatefulDataLoader(data, batch_size=None, num_workers=workers))


def tuples_of(records: list[Any]) -> np.ndarray[Any, Any]:
    return np.stack([np.frombuffer(record[0], np.int64) for record in records])


LIBRARIES = (
    "outofcore", "annbatch", "datasets", "grain", "insitubatch", "lancedb", "litdata", "mosaicml-streaming",
    "webdataset",
)  # fmt: skip


def write(library: str, folder: Path, first: int, count: int, files: int) -> None:
    """A data set of the records from ``first`` on."""
    folder.mkdir(parents=True)
    numbers = np.repeat(np.arange(first, first + count, dtype=np.int64)[:, None], COPIES, axis=1)
    globals()[f"write_{library.replace('-', '_')}"](folder, np.array_split(numbers, files))


def read(library: str, job: dict[str, Any]) -> None:
    """Deliver what a job asks for; what was delivered is noted batch by batch, as the process may be killed."""
    open_library = globals()[f"open_{library.replace('-', '_')}"]
    rank, world = int(os.environ.get("RANK", "0")), int(os.environ.get("WORLD_SIZE", "1"))
    if world > 1:
        import torch.distributed

        torch.distributed.init_process_group("gloo")
    loader: Opened = open_library(
        list(map(Path, job["data"])), job["shares"], job["batch"], rank, world, job["workers"]
    )
    out = Path(job["out"])
    if job["state"]:
        if not loader.load:
            sys.exit(NOT_OFFERED)
        loader.load(pickle.loads(Path(job["state"]).read_bytes()))
    taken = 0
    with (out / f"batches-{rank}.jsonl").open("w") as file:
        for number in job["epochs"]:
            for rows in loader.epoch(number):
                numbers = np.asarray(rows)
                whole = bool((numbers == numbers[:, :1]).all())
                taken += 1
                if job["keep"] and loader.state:
                    (out / f"state-{taken}").write_bytes(pickle.dumps(loader.state()))
                if taken == job["most"]:
                    (out / f"held-{rank}").write_text(str(memory_used()))
                print(json.dumps([number, numbers[:, 0].tolist(), whole]), file=file, flush=True)
                if taken == job["most"]:
                    if job["wait"]:
                        signal.pause()  # to be killed
                    return


def memory_used() -> int:
    """Bytes that the processes of this session hold: pages of no file, those that several share once."""
    kilobytes = 0
    for process in Path("/proc").glob("[0-9]*"):
        try:
            if os.getsid(int(process.name)) == os.getsid(0):
                lines = (process / "smaps_rollup").read_text().splitlines()
                kilobytes += sum(int(line.split()[1]) for line in lines if line.startswith(("Pss_Anon:", "Pss_Shmem:")))
        except OSError:  # it ended
            continue
    return kilobytes * 1024


def main() -> None:
    action, library, *rest = sys.argv[1:]
    if action == "write":
        folder, *numbers = rest
        write(library, Path(folder), *map(int, numbers))
    else:
        read(library, json.loads(Path(rest[0]).read_text()))


if __name__ == "__main__":
    main()
