"""What does it cost to keep a store in object storage: to convert to it, and to train from it with no local copy?

    python bench/object_storage.py players.pgn.zst
    python bench/object_storage.py players.pgn.zst --chunk-rows 4096 32768

The storage is a process of this machine, on loopback: moto's S3 server for conversions, and for epochs one that only
reads (``harness.objects``), as moto answers a hundred requests per second. What it says of requests, bytes and memory
holds for any storage; its speed is that of a server on the same cores, without a network. Both places are read by the
same loader with the same budget, an epoch in turn, each in a new process; figures are medians.
"""

from __future__ import annotations

import http.client
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.metadata import version
from pathlib import Path
from statistics import median
from typing import Any

from harness.arrays import CHESS, batch_of
from harness.results import Row, arguments, memory_row, save
from harness.sides import Watch, held, once
from outofcore.loading.loader import loader
from outofcore.sizes import parse_bytes
from outofcore.store.reader import open_store
from outofcore.store.remote import RemoteFiles

BATCH, MEMORY = batch_of("chess"), "600MiB"  # two pools of 64 blocks of 32,768 rows take 447 MB
KEYS = {"AWS_ACCESS_KEY_ID": "bench", "AWS_SECRET_ACCESS_KEY": "bench", "AWS_REGION": "us-east-1"}
SERVER = """
from moto.server import DomainDispatcherApplication, create_backend_app
from werkzeug.serving import make_server
server = make_server("127.0.0.1", 0, DomainDispatcherApplication(create_backend_app), threaded=True)
print(server.server_port, flush=True)
server.serve_forever()
"""


@contextmanager
def storage(*command: str | Path) -> Iterator[int]:
    """A server that prints its port; gives it."""
    server = subprocess.Popen(
        [sys.executable, *command],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        cwd=Path(__file__).parent,
    )
    try:
        assert server.stdout is not None
        port = int(server.stdout.readline())
        os.environ["AWS_ENDPOINT_URL"] = f"http://127.0.0.1:{port}"
        yield port
    finally:
        server.kill()
        server.wait()


def convert(raw: Path, chunk_rows: int, command: list[str | Path], folder: Path) -> dict[str, Any]:
    """Convert by a command in an empty folder; what it took, and what it held there."""
    folder.mkdir(parents=True)
    settings = Path("params.yaml").read_text().replace("raw: data/sample/chess", f"raw: {raw}")
    settings = settings.replace("chunk_rows: 4096", f"chunk_rows: {chunk_rows}")
    (folder / "params.yaml").write_text(settings)
    started = time.perf_counter()
    process = subprocess.Popen(command, cwd=folder, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    most = {"memory": 0, "disk": 0}
    while process.poll() is None:
        most["memory"] = max(most["memory"], held(process.pid)[0])
        most["disk"] = max(most["disk"], bytes_in(folder))
        time.sleep(0.2)
    if process.returncode:
        message = f"{' '.join(map(str, command))} ended with {process.returncode}"
        raise RuntimeError(message)
    return {"seconds": time.perf_counter() - started, **most}


def bytes_in(folder: Path) -> int:
    """Bytes of the files in a folder."""
    found = 0
    for place, _, names in os.walk(folder):
        for name in names:
            try:
                found += os.lstat(f"{place}/{name}").st_size
            except FileNotFoundError:  # put in its place meanwhile
                continue
    return found


def read(address: str) -> dict[str, Any]:
    """An epoch, in this process."""
    with loader(address, "val", BATCH, tensors=CHESS, memory=MEMORY, residency="streamed") as batches:
        next(iter(batches))  # compiled before it is timed
    store = open_store(address)
    files = store.rows("train")["move"].files
    watch = Watch()
    with watch:
        started = time.perf_counter()
        batches = loader(store, "train", BATCH, tensors=CHESS, memory=MEMORY, residency="streamed")
        first, samples = 0.0, 0
        for batch in batches:
            first = first or time.perf_counter() - started
            samples += len(batch["target"])
        took = time.perf_counter() - started
    found = {
        "samples": samples,
        "samples_per_second": samples / took,
        "first_batch_seconds": first,
        "growth_bytes": watch.held_bytes,
        "bytes_delivered": batches.stats.bytes_read,
    }
    if isinstance(files, RemoteFiles):
        found |= {"requests": files.traffic.requests, "bytes_received": files.traffic.bytes}
    return found


def main() -> None:
    parser = arguments(__doc__, rounds=3)
    parser.add_argument("raw", type=Path, help="a PGN file, plain or .zst")
    parser.add_argument("--chunk-rows", type=int, nargs="+", default=[4096], help="a store for each")
    given = parser.parse_args()
    os.environ |= KEYS
    rows, facts, details = [], [], {}
    for chunk_rows in given.chunk_rows:
        with tempfile.TemporaryDirectory() as folder:
            found = measure(given.raw.resolve(), chunk_rows, Path(folder), given.rounds)
        of = f", chunks of {chunk_rows:,} rows" if len(given.chunk_rows) > 1 else ""
        rows += rows_of(found, of)
        facts += facts_of(found, of)
        details[chunk_rows] = found
    samples = details[given.chunk_rows[0]]["epochs"]["a disk"][0]["samples"]
    what = f"{samples:,} positions; batches of {BATCH:,} planes in a budget of {MEMORY}"
    save(
        given.out,
        "object_storage",
        "A store in object storage",
        rows,
        facts=(f"{what}; medians of {given.rounds} epochs", *facts),
        details=details,
        versions={"moto": version("moto"), "obstore": version("obstore")},
    )


def measure(raw: Path, chunk_rows: int, folder: Path, rounds: int) -> dict[str, Any]:
    """Conversions to both places, and epochs from them in turn."""
    here, address = folder / "a disk/data/stores/chess.zarr", "s3://stores/chess.zarr"
    commands: dict[str, list[str | Path]] = {
        "a disk": [sys.executable, Path("stages/convert.py").resolve(), "chess"],
        "object storage": [Path(sys.executable).with_name("outofcore"), "convert", "chess", address],
    }
    with storage("-c", SERVER) as port:
        connection = http.client.HTTPConnection("127.0.0.1", port)
        connection.request("PUT", "/stores")
        connection.getresponse().read()
        made = {name: convert(raw, chunk_rows, command, folder / name) for name, command in commands.items()}
        if open_store(address).digest != open_store(here).digest:
            message = "the stores differ"
            raise RuntimeError(message)
    (folder / "objects").mkdir()
    (folder / "objects/stores").symlink_to(here.parent)
    epochs: dict[str, list[dict[str, Any]]] = {"a disk": [], "object storage": []}
    with storage("-m", "harness.objects", folder / "objects"):
        for _ in range(rounds):
            for name, place in (("a disk", str(here)), ("object storage", address)):
                epochs[name].append(once(read, address=place))
    return {"convert": made, "epochs": epochs, "stored_bytes": bytes_in(here)}


def medians(found: dict[str, Any]) -> dict[str, dict[str, float]]:
    """Of the epochs from each place."""
    return {
        name: {key: median(each[key] for each in epochs) for key in epochs[0]}
        for name, epochs in found["epochs"].items()
    }


def rows_of(found: dict[str, Any], of: str) -> list[Row]:
    made, rows = found["convert"], []
    for name, each in made.items():
        label = f"converting to {name}{of}"
        ratio = each["seconds"] / made["a disk"]["seconds"]
        rows.append(Row(label=label, value=each["seconds"], unit="s", ratio=ratio, against="a disk", table="remote"))
        rows.append(Row(label=label, value=each["memory"] / 1e6, unit="MB of memory", table="remote"))
        rows.append(Row(label=label, value=each["disk"] / 1e6, unit="MB on the local disk", table="remote"))
    read_by = medians(found)
    for name, each in read_by.items():
        label, speed = f"an epoch from {name}{of}", each["samples_per_second"]
        ratio = speed / read_by["a disk"]["samples_per_second"]
        rows.append(Row(label=label, value=speed, unit="samples/s", ratio=ratio, against="a disk", table="remote"))
        rows.append(Row(label=label, value=each["growth_bytes"] / 1e6, unit="MB of memory", table="remote"))
        rows.append(memory_row(f"chess, from {name}{of}", each["growth_bytes"], parse_bytes(MEMORY)))
        rows.append(
            Row(label=label, value=1000 * each["first_batch_seconds"], unit="ms to the first batch", table="remote")
        )
    return rows


def facts_of(found: dict[str, Any], of: str) -> list[str]:
    there = medians(found)["object storage"]
    received, delivered, requests = there["bytes_received"], there["bytes_delivered"], there["requests"]
    size = f"a store of {found['stored_bytes'] / 1e6:,.1f} MB{of}"
    traffic = f"{received / 1e6:,.1f} MB received for {delivered / 1e6:,.1f} MB of chunks"
    return [f"{size}: {requests:,.0f} requests in an epoch, {received / requests / 1e3:,.0f} KB each; {traffic}"]


if __name__ == "__main__":
    main()
