"""How fast are Zarr stores of other software read in place, compared with other libraries that do that?

    PYTHONPATH=bench python -m rivals.in_place --peers peers/bin/python     (see peers.txt; Python 3.12)

zarr-python writes maps of 72 x 144 by time, in chunks of 1 and of 24 maps and in shards of chunks of 8, and a matrix,
as AnnData stores a dense X. They are read from files, and through a web server that takes 20 ms per request. All sides
give shuffled batches, outofcore as tensors, the others as arrays; each reads as its documentation shows. insitubatch
holds all shards decoded, as outofcore does with a budget of 3 GB. Batches of xbatcher are rows that follow each other;
``zarr-python`` is a loop that permutes chunks and the rows in them. What a side needs is imported in its function, as
other libraries run in an environment of their own.
"""

from __future__ import annotations

import re
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from itertools import count
from multiprocessing import Process
from pathlib import Path
from typing import Any, Literal

import numpy as np

from harness.sides import Epoch, Side, compare, once, tell

DELAY = 0.02  # seconds per request
MAP = (72, 144)
STORES: dict[str, dict[str, Any]] = {
    "maps": {"shape": (8_000, *MAP), "chunk": 1},
    "chunks": {"shape": (12_000, *MAP), "chunk": 24},
    "shards": {"shape": (51_840, *MAP), "chunk": 8, "shard": 8_640},
    "matrix": {"shape": (200_000, 200), "chunk": 1024},
}
SMALL = {"shape": (2048, *MAP), "chunk": 24}
PEERS = ("insitubatch", "annbatch", "xbatcher", "zarr")
ZARRS = "zarrs.ZarrsCodecPipeline"


def write(path: str, shape: list[int], chunk: int, shard: int = 0, zarr_format: Literal[2, 3] = 3) -> None:
    """Values with two decimal places, in zstd."""
    import zarr

    row = shape[1:]
    form: dict[str, Any] = {"chunks": (chunk, *row), "shards": (shard, *row) if shard else None}
    if zarr_format == 3:
        form["dimension_names"] = ("time", "y", "x")[: len(shape)]
    out = zarr.create_group(path, zarr_format=zarr_format).create_array("X", shape=shape, dtype="float32", **form)
    generator = np.random.default_rng(0)
    for start in range(0, shape[0], step := shard or 1024 * chunk):
        out[start : start + step] = (
            280 + generator.standard_normal((min(step, shape[0] - start), *row), np.float32)
        ).round(2)


def sizes(batches: Callable[[int], Iterable[Any]]) -> Epoch:
    """Rows of the batches of each epoch, by its number."""
    numbers = count()
    return lambda: (len(batch) for batch in batches(next(numbers)))


def decode_with(pipeline: str) -> None:
    if pipeline:
        import zarr

        zarr.config.set({"codec_pipeline.path": pipeline})


def outofcore(store: str, batch: int, *, held: bool = False, **more: Any) -> Epoch:
    from outofcore import loader

    batches = loader(store, "train", batch, tensors=["X"], residency="ram" if held else "streamed", **more)
    for _ in batches if held else ():  # insitubatch decodes all before its first batch
        pass
    return sizes(lambda _: (batch["X"] for batch in batches))


def insitubatch(store: str, batch: int, block: int = 16) -> Epoch:
    from insitubatch import InSituDataset, obstore_store, open_geometries, split_by_chunk

    remote = {"client_options": {"allow_http": True}} if "://" in store else {}
    place = obstore_store(store if remote else f"file://{store}", **remote)
    geometries = open_geometries(place, variables=["X"])
    manifest = split_by_chunk(geometries["X"], fractions=(1, 0, 0))
    data = InSituDataset(place, manifest, geometries=geometries, batch_size=batch, block_chunks=block)

    def epoch(number: int) -> Iterator[Any]:
        data.set_epoch(number)
        return (batch.arrays["X"] for batch in data.train)

    return sizes(epoch)


def annbatch(store: str, batch: int) -> Epoch:
    import zarr
    from annbatch import Loader

    decode_with(ZARRS)
    data = Loader(batch_size=batch, shuffle=True).add_dataset(zarr.open_array(store, path="X", mode="r"))
    return sizes(lambda _: (batch["X"] for batch in data))


def xbatcher(store: str, batch: int) -> Epoch:
    import xarray
    import xbatcher

    data = xarray.open_zarr(store, chunks=None, consolidated=False)["X"]
    batches = xbatcher.BatchGenerator(data, input_dims={**data.sizes, "time": batch})
    return sizes(lambda seed: (batches[int(i)].values for i in np.random.default_rng(seed).permutation(len(batches))))


def zarr_python(store: str, batch: int, pipeline: str = "") -> Epoch:
    import zarr

    place: Any = store
    if "://" in store:
        import obstore

        place = zarr.storage.ObjectStore(obstore.store.from_url(store, client_options={"allow_http": True}))
    decode_with(pipeline)
    array = zarr.open_array(place, path="X", mode="r")
    rows = -(-batch // array.chunks[0]) * array.chunks[0]

    def epoch(seed: int) -> Iterator[Any]:
        generator = np.random.default_rng(seed)
        for start in rows * generator.permutation(-(-array.shape[0] // rows)):
            block = generator.permutation(array[start : start + rows])
            yield from (block[first : first + batch] for first in range(0, len(block), batch))

    return sizes(epoch)


class Slow(SimpleHTTPRequestHandler):
    """A folder over HTTP, by ranges of bytes, after a delay."""

    protocol_version, disable_nagle_algorithm = "HTTP/1.1", True

    def send_head(self) -> Any:
        time.sleep(DELAY)
        path = Path(self.translate_path(self.path))
        if not path.is_file():
            return self.send_error(404)
        size = path.stat().st_size
        wanted = re.fullmatch(r"bytes=(\d*)-(\d*)", self.headers.get("Range", "")) or ("", "0", "")
        first = int(wanted[1]) if wanted[1] else size - int(wanted[2])
        last = min(int(wanted[2]), size - 1) if wanted[1] and wanted[2] else size - 1
        self.span = first, last + 1 - first
        self.send_response(206 if wanted[0] else 200)
        self.send_header("Content-Range", f"bytes {first}-{last}/{size}")
        self.send_header("Content-Length", str(self.span[1]))
        self.send_header("Last-Modified", self.date_time_string(path.stat().st_mtime))
        self.end_headers()
        return path.open("rb")

    def copyfile(self, source: Any, _: Any) -> None:
        self.connection.sendfile(source, *self.span)

    def log_message(self, *_: Any) -> None:
        pass


def sides(kind: str, store: str, small: Path, peers: Path | None) -> list[Side]:
    """All that can read a store: zarrs reads files, and Xarray lists a group."""
    local, shards = "://" not in store, "shards" in kind
    ours = {"memory": "128MiB", "shuffle": {"pool_blocks": 64 if shards else 16}}
    readers: dict[str, tuple[Callable[..., Epoch], dict[str, Any]]] = {
        "outofcore": (outofcore, ours if local else {**ours, "memory": "256MiB", "threads": 16})
    }
    if shards:
        readers["outofcore, 3 GB"] = outofcore, readers["outofcore"][1] | {"memory": "3GB", "held": True}
    if peers:
        readers["insitubatch"] = insitubatch, {}
        if shards:
            readers["insitubatch, blocks of 1 shard"] = insitubatch, {"block": 1}
        readers["zarr-python"] = zarr_python, {}
        if local:
            readers |= {"zarr-python, zarrs": (zarr_python, {"pipeline": ZARRS}), "annbatch": (annbatch, {})}
            if kind != "matrix":
                readers["xbatcher"] = xbatcher, {}
    of = {"store": store, "batch": 1024 if kind == "matrix" else 64}
    return [
        Side(
            name, side, {**of, **more}, *([] if side is outofcore else [peers]), rehearsal={"store": small, "batch": 64}
        )
        for name, (side, more) in readers.items()
    ]


def main() -> None:
    from harness.results import Row, arguments, save, speed_rows, versions_of

    parser = arguments(__doc__, rounds=3, seconds=2.0)
    parser.add_argument("--peers", type=Path, help="a Python that has bench/rivals/peers.txt installed")
    parser.add_argument("--share", type=float, default=1.0, help="of the rows")
    given = parser.parse_args()
    versions = versions_of(given.peers, PEERS) if given.peers else {}
    peers, rows, measured = given.peers.absolute() if "zarr" in versions else None, [], {}
    with tempfile.TemporaryDirectory() as folder:
        for kind, form in {**STORES, "small": SMALL}.items():
            tell(f"writing {kind}")
            shape = (int(form["shape"][0] * (1 if form is SMALL else given.share)), *form["shape"][1:])
            once(write, peers or sys.executable, path=f"{folder}/{kind}", **{**form, "shape": shape})
        ThreadingHTTPServer.handle_error = lambda *_: None  # from a side that was ended
        server = ThreadingHTTPServer(("127.0.0.1", 0), partial(Slow, directory=folder))
        Process(target=server.serve_forever, daemon=True).start()
        places = {kind: f"{folder}/{kind}" for kind in STORES}
        places |= {f"http_{kind}": f"http://127.0.0.1:{server.server_port}/{kind}" for kind in ("chunks", "shards")}
        for kind, place in places.items():
            tell(kind)
            measured[kind] = results = compare(
                sides(kind, place, Path(folder) / "small", peers), given.rounds, given.seconds
            )
            against = dict.fromkeys(results, "insitubatch") if peers else {}
            rows += speed_rows(results, "samples/s", against, memory=False, short="`insitubatch`", table=kind)
            for name, result in results.items():
                of = {"label": name, "table": kind}
                rows.append(Row(value=result.peak_bytes / 1e6, unit="peak MB", **of))
                rows.append(Row(value=result.first_seconds, unit="s to the first batch", **of))
    save(
        given.out,
        "in_place",
        "Zarr stores of other software, read in place",
        rows,
        facts=(
            ", ".join(f"{form['shape'][0] * given.share:,.0f} rows of {kind}" for kind, form in STORES.items()),
            f"batches of 64, of 1,024 rows of the matrix; medians of {given.rounds} rounds",
        ),
        details={"sides": measured},
        versions={f"{name} there" if name == "zarr" else name: version for name, version in versions.items()},
    )


if __name__ == "__main__":
    main()
