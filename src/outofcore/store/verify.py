"""The full check of a store: every byte against the seal, every count against the rows."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from outofcore.errors import StoreError
from outofcore.store.reader import Store, open_store
from outofcore.store.seal import ADVICE, SEAL, describe, read_seal


@dataclass(frozen=True)
class Verdict:
    """What a full check found.

    Attributes
    ----------
    store
        Path as it was given.
    digest
        The store's digest; "" where the seal cannot be read.
    files, bytes
        What was read.
    problems
        One line for each thing that is wrong; empty for a store that is whole.
    """

    store: str
    digest: str
    files: int
    bytes: int
    problems: tuple[str, ...]


def verify(path: str | Path, progress: Callable[[int], object] | None = None) -> Verdict:
    """Read every file of a store and compare it with the seal, then its counts.

    Parameters
    ----------
    path
        The store's folder.
    progress
        Called with the number of bytes after each file.
    """
    root = Path(path)
    if not (root / SEAL).is_file():
        what = "is not sealed" if root.is_dir() else "does not exist"
        return Verdict(str(path), "", 0, 0, (f"{root}: {what}",))
    try:
        seal = read_seal((root / SEAL).read_text("utf-8", "replace"), str(root))
    except StoreError as error:
        return Verdict(str(path), "", 1, 0, (str(error),))
    problems = []
    read = 0
    for name, expected in sorted(seal.files.items()):
        if not (root / name).is_file():
            problems.append(f"{root}: {name} is missing; {ADVICE}")
            continue
        found = describe(root, name)
        read += found[0]
        if found != expected:
            problems.append(f"{root}: {name} is not what was sealed ({_difference(found, expected)}); {ADVICE}")
        if progress:
            progress(found[0])
    listed = {*seal.files, SEAL}
    extra = sorted(
        name for file in root.rglob("*") if file.is_file() and (name := file.relative_to(root).as_posix()) not in listed
    )
    problems += [f"{root}: {name} is no part of the store; remove it" for name in extra]
    if not problems:
        problems = _counts(open_store(root))
    return Verdict(str(path), seal.digest, len(seal.files), read, tuple(problems))


def _difference(found: tuple[int, str], expected: tuple[int, str]) -> str:
    if found[0] != expected[0]:
        return f"{found[0]} bytes, expected {expected[0]}"
    return "its bytes have changed"


def _counts(store: Store) -> list[str]:
    problems = []
    for part in store.parts:
        for split in store.splits:
            rows, sequences = store.rows(split, part), store.sequences(split, part)
            lengths = {name: len(array) for name, array in rows.fields.items()}
            if len(set(lengths.values())) > 1:
                problems.append(f"{store.root}: fields of {rows.path} differ in length: {lengths}")
            start, length = sequences["start"].read(), sequences["length"].read()
            if np.any(start != np.cumsum(length) - length) or length.sum() != len(rows):
                problems.append(f"{store.root}: the sequences of {rows.path} do not cover its {len(rows)} rows")
    return problems
