"""How fast is a store in object storage read, with and without a cache on this machine, compared with a local disk?

    python bench/remote.py data/stores/chess.zarr --delay 0.03

A server on this machine answers each request late. Without a store, a million positions are made up. Each round opens
the store, reads an epoch of batches of 1,024 and a second one: from the disk, from the storage, and from the storage
with an empty cache. In the end the server refuses all requests for ten seconds, while smaller pools are read.
"""

from __future__ import annotations

import os
import shutil
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from statistics import median

from harness.object_storage import Served, serve
from harness.raw import make_chess
from harness.results import Row, arguments, save
from harness.sides import tell
from harness.stores import convert, section_of
from outofcore.loading.loader import loader
from outofcore.order.plain import Shuffle
from outofcore.store.reader import open_store

BATCH, MEMORY = 1024, "128MiB"
KEYS = {"AWS_ACCESS_KEY_ID": "reader", "AWS_SECRET_ACCESS_KEY": "secret", "AWS_REGION": "us-east-1"}
CALM, REFUSED, AFTER = 8, 10, 20  # seconds
SIDES = {"disk": "local disk", "storage": "object storage", "cache": "object storage, with a cache"}
Round = dict[str, float]


def epochs(address: str, served: Served) -> Round:
    """Open a store and read it twice: seconds to the first batch and of each epoch, and what was requested."""
    requests, size = served.counts()
    began, first, ends = time.perf_counter(), 0.0, []
    batches = loader(address, "train", BATCH, memory=MEMORY, residency="streamed")
    for _ in range(2):
        for _ in batches:
            first = first or time.perf_counter() - began
        ends.append(time.perf_counter() - began)
        if len(ends) == 1:
            requested, received = served.counts()[0] - requests, served.counts()[1] - size
    batches.close()
    return {
        "seconds to the first batch": first,
        "seconds of the first epoch": ends[0],
        "seconds of the second epoch": ends[1] - ends[0],
        "requests": requested,
        "kB per request": received / max(requested, 1) / 1000,
    }


def recovery(address: str, served: Served) -> float:
    """Seconds from the end of a storm until a second has 90 % of the batches of one before it."""
    seconds: Counter[int] = Counter()
    began = time.monotonic()
    storm = began + CALM, began + CALM + REFUSED
    for _ in endless(address):
        now = time.monotonic()
        if now > storm[0] and not served.refuses_until.value:
            served.refuses_until.value = storm[1]
        seconds[int(now - began)] += 1
        if now > storm[1] + AFTER:
            break
    usual = 0.9 * median(seconds[second] for second in range(2, CALM))
    after = range(CALM + REFUSED, CALM + REFUSED + AFTER)
    return next((second - after.start + 1.0 for second in after if seconds[second] >= usual), float("inf"))


def endless(address: str) -> Iterator[object]:
    batches = loader(address, "train", BATCH, memory=MEMORY, residency="streamed", shuffle=Shuffle(pool_blocks=16))
    while True:
        yield from batches


def made_up(folder: Path) -> Path:
    """A store of about a million positions."""
    store = folder / "chess.zarr"
    convert("chess", section_of("chess", make_chess(folder, 1, 140)), store)
    return store


def main() -> None:
    parser = arguments(__doc__, rounds=3)
    parser.add_argument("store", type=Path, nargs="?", help="a store of chess; made up by default")
    parser.add_argument("--delay", type=float, default=0.03, help="seconds of each request")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        store = given.store or made_up(folder)
        (folder / "buckets" / "stores").mkdir(parents=True)
        local = shutil.copytree(store, folder / "buckets" / "stores" / "chess.zarr")
        opened = open_store(local)
        rows, size = len(opened.rows("train")), sum(size for size, _ in opened.seal.files.values())
        rounds: dict[str, list[Round]] = {side: [] for side in SIDES}
        with serve(folder / "buckets", given.delay) as served:
            os.environ |= {**KEYS, "AWS_ENDPOINT_URL": served.endpoint}
            epochs(str(local), served)  # compiles
            for number in range(given.rounds):
                for side, own in rounds.items():
                    tell(f"round {number + 1}: {SIDES[side]}")
                    os.environ.pop("OUTOFCORE_S3_CACHE", None)
                    if side == "cache":
                        os.environ["OUTOFCORE_S3_CACHE"] = str(folder / f"cache {number}")
                    own.append(epochs(str(local) if side == "disk" else "s3://stores/chess.zarr", served))
            tell("a storage that refuses requests")
            os.environ.pop("OUTOFCORE_S3_CACHE", None)
            recovered = recovery("s3://stores/chess.zarr", served)
    facts = [
        f"{rows:,} positions in {size / 1e6:.0f} MB",
        f"{given.delay * 1000:.0f} ms per request",
        f"medians of {given.rounds} rounds",
        f"after {REFUSED} s in which the storage refused requests, 90 % of the usual rate within {recovered:.0f} s",
    ]
    lines = [row(figure, side, rounds) for side in SIDES for figure in rounds[side][0]]
    details = {"rounds": rounds, "recovered": recovered}
    save(given.out, "remote", "chess from object storage", lines, facts=facts, details=details)


def row(figure: str, side: str, rounds: Mapping[str, list[Round]]) -> Row:
    """The median of a figure; of an epoch also how many times that of the disk it takes."""
    values, disk = ([figures[figure] for figures in rounds[name]] for name in (side, "disk"))
    own = Row(label=SIDES[side], value=median(values), of=figure, table="remote")
    if "epoch" not in figure or side == "disk":
        return own
    return replace(own, ratio=median(one / other for one, other in zip(values, disk, strict=True)), against="disk")


if __name__ == "__main__":
    main()
