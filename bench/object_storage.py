"""What does it cost to keep a store in object storage: to convert to it, and to train from it with no local copy?

    python bench/object_storage.py players.pgn.zst

The storage is moto's S3 server, a process of this machine, on loopback: what it says of requests, bytes and memory
holds for any; its speed is that of a server in Python. Both places are read by the same loader with the same budget, an
epoch in turn, each in a new process; figures are medians.
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

BATCH, MEMORY = batch_of("chess"), "128MiB"
KEYS = {"AWS_ACCESS_KEY_ID": "bench", "AWS_SECRET_ACCESS_KEY": "bench", "AWS_REGION": "us-east-1"}
SERVER = """
from moto.server import DomainDispatcherApplication, create_backend_app
from werkzeug.serving import make_server
server = make_server("127.0.0.1", 0, DomainDispatcherApplication(create_backend_app), threaded=True)
print(server.server_port, flush=True)
server.serve_forever()
"""


@contextmanager
def storage() -> Iterator[str]:
    """An empty bucket ``stores``; gives the endpoint."""
    server = subprocess.Popen(
        [sys.executable, "-c", SERVER], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    )
    try:
        assert server.stdout is not None
        port = int(server.stdout.readline())
        connection = http.client.HTTPConnection("127.0.0.1", port)
        connection.request("PUT", "/stores")
        connection.getresponse().read()
        yield f"http://127.0.0.1:{port}"
    finally:
        server.kill()
        server.wait()


def convert(raw: Path, command: list[str | Path], folder: Path) -> dict[str, Any]:
    """Convert by a command in an empty folder; what it took, and what it held there."""
    folder.mkdir()
    settings = Path("params.yaml").read_text().replace("raw: data/sample/chess", f"raw: {raw}")
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
        "digest": store.digest,
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
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary, storage() as endpoint:
        os.environ |= {**KEYS, "AWS_ENDPOINT_URL": endpoint}
        folder = Path(temporary)
        places = {
            "a disk": str(folder / "a disk/data/stores/chess.zarr"),
            "object storage": "s3://stores/chess.zarr",
        }
        commands: dict[str, list[str | Path]] = {
            "a disk": [sys.executable, Path("stages/convert.py").resolve(), "chess"],
            "object storage": [
                Path(sys.executable).with_name("outofcore"),
                "convert",
                "chess",
                "s3://stores/chess.zarr",
            ],
        }
        made = {name: convert(given.raw.resolve(), command, folder / name) for name, command in commands.items()}
        epochs: dict[str, list[dict[str, Any]]] = {name: [] for name in places}
        for _ in range(given.rounds):
            for name, place in places.items():
                epochs[name].append(once(read, address=place))
        stored = bytes_in(Path(places["a disk"]))
    report(made, epochs, stored, given.out)


def report(made: dict[str, dict[str, Any]], epochs: dict[str, list[dict[str, Any]]], stored: int, out: Path) -> None:
    if len({each["digest"] for found in epochs.values() for each in found}) > 1:
        message = "the stores differ"
        raise RuntimeError(message)
    medians = {
        name: {key: median(each[key] for each in found) for key in found[0] if key != "digest"}
        for name, found in epochs.items()
    }
    here, there = medians.values()
    rows = []
    for name, each in made.items():
        label = f"converting to {name}"
        ratio = each["seconds"] / made["a disk"]["seconds"]
        rows.append(Row(label=label, value=each["seconds"], unit="s", ratio=ratio, against="a disk", table="remote"))
        rows.append(Row(label=label, value=each["memory"] / 1e6, unit="MB of memory", table="remote"))
        rows.append(Row(label=label, value=each["disk"] / 1e6, unit="MB on the local disk", table="remote"))
    for name, each in medians.items():
        label = f"an epoch from {name}"
        speed = each["samples_per_second"]
        ratio = speed / here["samples_per_second"]
        rows.append(Row(label=label, value=speed, unit="samples/s", ratio=ratio, against="a disk", table="remote"))
        rows.append(Row(label=label, value=each["growth_bytes"] / 1e6, unit="MB of memory", table="remote"))
        rows.append(memory_row(f"chess, from {name}", each["growth_bytes"], parse_bytes(MEMORY)))
        rows.append(
            Row(label=label, value=1000 * each["first_batch_seconds"], unit="ms to the first batch", table="remote")
        )
    received, delivered = there["bytes_received"], there["bytes_delivered"]
    requests = there["requests"]
    traffic = f"{received / 1e6:,.1f} MB received for {delivered / 1e6:,.1f} MB of chunks"
    what = f"{here['samples']:,.0f} positions, {stored / 1e6:,.1f} MB as a store"
    facts = (
        f"{what}; batches of {BATCH:,} planes in a budget of {MEMORY}; medians of {len(epochs['a disk'])} epochs",
        f"an epoch from the storage: {requests:,.0f} requests, {received / requests / 1e3:,.0f} KB each; {traffic}",
    )
    save(
        out,
        "object_storage",
        "A store in object storage",
        rows,
        facts=facts,
        details={"convert": made, "epochs": epochs, "stored_bytes": stored},
        versions={"moto": version("moto"), "obstore": version("obstore")},
    )


if __name__ == "__main__":
    main()
