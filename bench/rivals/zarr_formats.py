"""How fast is the same array read in place, stored as Zarr v2 and as v3?

    PYTHONPATH=bench python -m rivals.zarr_formats --peers peers/bin/python     (see peers.txt)

zarr-python writes maps of 72 x 144 by time, in chunks of one. All sides deliver shuffled batches of 64 maps, and
batches of 64 windows of 8 maps in the order of time. zarr-python reads 64 maps, or the 71 of such windows, by one
slice, which is its fastest way here: more threads, rows one by one and larger slices are slower.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from harness.sides import Epoch, Side, compare, once, tell
from rivals.in_place import MAP, ZARRS, decode_with, sizes, write, zarr_python

ROWS, BATCH, WINDOW = 8_000, 64, 8
FORMATS = (2, 3)


def outofcore(store: str, batch: int, *, windows: bool) -> Epoch:
    from outofcore import InOrder, Shuffle, loader

    held = (
        8 if windows else 16
    )  # blocks of 64 or 16 maps: two pools have an eighth of the maps, so that each epoch decodes all
    how: dict[str, Any] = {"shuffle": Shuffle(pool_blocks=held)}
    if windows:
        how = {"shuffle": InOrder(pool_blocks=held), "window": {"length": WINDOW}}
    batches = loader(store, "train", batch, tensors=["X"], residency="streamed", memory="256MiB", **how)
    return sizes(lambda _: (batch["X"] for batch in batches))


def zarr_windows(store: str, batch: int, pipeline: str = "") -> Epoch:
    import zarr

    decode_with(pipeline)
    array = zarr.open_array(store, path="X", mode="r")

    def epoch(_: int) -> Iterator[Any]:
        for start in range(0, array.shape[0] - WINDOW + 1, batch):
            maps: Any = array[start : start + batch + WINDOW - 1]
            yield np.moveaxis(np.lib.stride_tricks.sliding_window_view(maps, WINDOW, axis=0), -1, 1).copy()

    return sizes(epoch)


def sides(folder: str, peers: Path | None, *, windows: bool) -> list[Side]:
    """Both formats by all readers; zarrs is in the peers' environment."""
    other = zarr_windows if windows else zarr_python
    chosen = []
    for number in FORMATS:
        of = {"store": f"{folder}/v{number}", "batch": BATCH}
        chosen += [
            Side(f"outofcore, v{number}", outofcore, {**of, "windows": windows}),
            Side(f"zarr-python, v{number}", other, of),
        ]
        if peers:
            chosen.append(Side(f"zarr-python with zarrs, v{number}", other, {**of, "pipeline": ZARRS}, peers))
    return chosen


def main() -> None:
    from harness.results import arguments, save, speed_rows, versions_of

    parser = arguments(__doc__, rounds=5, seconds=1.5)
    parser.add_argument("--peers", type=Path, help="a Python that has zarrs installed")
    parser.add_argument("--rows", type=int, default=ROWS)
    given = parser.parse_args()
    versions = versions_of(given.peers, ("zarr", "zarrs")) if given.peers else {}
    peers, rows = given.peers.absolute() if "zarrs" in versions else None, []
    with tempfile.TemporaryDirectory() as folder:
        for number in FORMATS:
            once(write, path=f"{folder}/v{number}", shape=(given.rows, *MAP), chunk=1, zarr_format=number)
        for table, windows in (("shuffled", False), ("windows", True)):
            tell(table)
            measured = compare(sides(folder, peers, windows=windows), given.rounds, given.seconds)
            against = {name: f"zarr-python, {name[-2:]}" for name in measured}
            unit = f"{'windows' if windows else 'maps'}/s"
            rows += speed_rows(measured, unit, against, memory=False, short="zarr-python", table=table)
    save(
        given.out,
        "zarr_formats",
        "The same array as Zarr v2 and v3, read in place",
        rows,
        facts=(f"{given.rows:,} maps in chunks of one; medians of {given.rounds} rounds",),
        details={},
        versions={f"{name} there" if name == "zarr" else name: version for name, version in versions.items()},
    )


if __name__ == "__main__":
    main()
